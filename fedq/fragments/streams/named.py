"""Where the named readers of a stream go on, as its primary keeps it (docs/adr/0063).

Inputs: places, as readers say them. Outputs: what a record is to say of them: of those that have
moved since the last one, or of all. Invariant: there are `STREAM_NAMES_MAX` names at most.
"""

from collections.abc import Iterator, Mapping

from fedq.core.limits import STREAM_NAMES_MAX


class ReaderPlaces:
    """Names and their places: positions, of which 0 is none."""

    __slots__ = ("_moved", "_places")

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._moved: dict[str, None] = {}

    def begin_with(self, places: Mapping[str, int]) -> None:
        """Takes up what an earlier reign has left."""
        self._places = dict(places)

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(self._places.items())

    def get(self, name: str) -> int:
        """The place of a name; 0: it is not known."""
        return self._places.get(name, 0)

    def put(self, name: str, position: int) -> bool:
        """Notes where a name goes on; false if there are too many others."""
        position = max(1, position)
        known = self._places.get(name)
        if known is None and len(self._places) >= STREAM_NAMES_MAX:
            return False
        if known != position:
            self._places[name] = position
            self._moved[name] = None
        return True

    def forget(self, name: str) -> None:
        """Forgets a name."""
        if self._places.pop(name, None) is not None:
            self._moved[name] = None

    @property
    def has_moved(self) -> bool:
        """Whether there is something to record."""
        return len(self._moved) > 0

    def take_moved(self) -> dict[str, int]:
        """The places that have changed since this was asked last; 0: the name is forgotten."""
        moved, self._moved = self._moved, {}
        return {name: self._places.get(name, 0) for name in moved}

    def all(self) -> dict[str, int]:
        """All places."""
        return dict(self._places)
