"""Messages that are kept singly and whose bodies are on disk alone yet: which, and in what order.

Inputs: positions, each with whether its message is persistent; which of them are asked for, have
come, or are gone. Outputs: the next one, those between two positions, the next one that nobody has
asked for. Invariants: a question costs what it answers, however many there are; what was asked for
is not told as wanted again.
"""

from collections.abc import Iterator, Mapping

from fedq.core.ranges import from_ranges
from fedq.journal.intervals import Intervals


class Absent(Mapping[int, bool]):
    """Positions that are on disk alone, ascending, each with whether its message is persistent."""

    __slots__ = ("_kinds", "_order", "_unasked")

    def __init__(self) -> None:
        self._kinds: dict[int, bool] = {}
        self._order = Intervals()
        self._unasked = Intervals()

    def __len__(self) -> int:
        return len(self._kinds)

    def __contains__(self, position: object) -> bool:
        return position in self._kinds

    def __getitem__(self, position: int) -> bool:
        return self._kinds[position]

    def __iter__(self) -> Iterator[int]:
        return from_ranges(self._order)

    def add(self, position: int, persistent: bool) -> None:
        """Adds a position that nobody has asked for."""
        self._kinds[position] = persistent
        self._order.add(position, position)
        self._unasked.add(position, position)

    def discard(self, position: int) -> None:
        """Forgets a position, if it is here."""
        if self._kinds.pop(position, None) is not None:
            self._order.remove(position, position)
            self._unasked.remove(position, position)

    def after(self, position: int) -> int | None:
        """The first one beyond a position."""
        found = self._order.after(position)
        return found[0] if found is not None else None

    def within(self, first: int, last: int) -> list[int]:
        """All between two positions, ascending."""
        return list(from_ranges(self._order.within(first, last))) if self._kinds else []

    # --- who has asked -----------------------------------------------------------------------

    def next_unasked(self) -> int | None:
        """The first one that nobody has asked for."""
        found = self._unasked.after(0)
        return found[0] if found is not None else None

    def is_asked(self, position: int) -> bool:
        """Whether one that is here was asked for."""
        return position not in self._unasked

    def ask(self, first: int, last: int) -> None:
        """Takes note that all between two positions are asked for."""
        self._unasked.remove(first, last)
