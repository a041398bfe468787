"""Messages that a node failed at, this one before its start or another: known when they come.

Inputs: last words. Outputs: which of some messages, or of a fragment's positions, are to be set
aside before anything is done with them (docs/adr/0042). While there are none, which is nearly
always, nobody looks.
"""

from collections.abc import Iterable, Sequence

from fedq.core.ids import FragmentId
from fedq.core.limits import SUSPECTS_KNOWN_MAX, SUSPECTS_UNPROVEN_MS
from fedq.core.suspects import Suspect, digest_of

#: When a suspicion that was proven ends.
_NEVER = 1 << 62
_UNSET = -1


class Suspects:
    """The suspects that this node knows, by digest and by place."""

    __slots__ = ("_sizes", "count", "doubtful", "places", "places_count")

    def __init__(self) -> None:
        #: By length and digest: until when.
        self._sizes: dict[int, dict[bytes, int]] = {}
        self.count = 0
        #: Positions in fragments that are not set aside yet.
        self.places: dict[FragmentId, dict[int, None]] = {}
        #: How many, in all of them.
        self.places_count = 0
        #: Fragments that somebody failed at, without a message to blame.
        self.doubtful: dict[FragmentId, None] = {}

    def add(self, suspects: Iterable[Suspect], now_ms: int) -> None:
        """Adds the suspects of one stop; beyond the bound the oldest are forgotten.

        `now_ms` is -1 where no clock is known yet: their time begins with the first look at it.
        """
        until_ms = now_ms + SUSPECTS_UNPROVEN_MS if now_ms >= 0 else _UNSET
        for each in suspects:
            if not each.digest:
                self.doubtful[each.fragment] = None
                if len(self.doubtful) > SUSPECTS_KNOWN_MAX:
                    del self.doubtful[next(iter(self.doubtful))]
                continue
            if each.position:
                self._add_place(each.fragment, each.position)
            digests = self._sizes.setdefault(each.size, {})
            if each.digest not in digests:
                self.count += 1
            digests[each.digest] = _NEVER if each.proven else until_ms
            if self.count > SUSPECTS_KNOWN_MAX:
                self._forget_oldest()

    def _add_place(self, fragment: FragmentId, position: int) -> None:
        places = self.places.setdefault(fragment, {})
        if position in places:
            return
        places[position] = None
        self.places_count += 1
        if self.places_count > SUSPECTS_KNOWN_MAX:
            self._forget_oldest_place()

    def _forget_oldest_place(self) -> None:
        fragment = next(iter(self.places))
        places = self.places[fragment]
        del places[next(iter(places))]
        self.places_count -= 1
        if not places:
            del self.places[fragment]

    def _forget_oldest(self) -> None:
        size = next(iter(self._sizes))
        digests = self._sizes[size]
        del digests[next(iter(digests))]
        self.count -= 1
        if not digests:
            del self._sizes[size]

    def forget_old(self, now_ms: int) -> None:
        """Forgets suspicions that were never proven."""
        for size, digests in list(self._sizes.items()):
            for digest, until_ms in digests.items():
                if until_ms == _UNSET:
                    digests[digest] = now_ms + SUSPECTS_UNPROVEN_MS
            for digest in [d for d, until_ms in digests.items() if until_ms <= now_ms]:
                del digests[digest]
                self.count -= 1
            if not digests:
                del self._sizes[size]

    def find(self, messages: Sequence[bytes]) -> list[int]:
        """The indexes of the known suspects among the messages, ascending."""
        found: list[int] = []
        for index, message in enumerate(messages):
            digests = self._sizes.get(len(message))
            if digests is not None and digest_of(message) in digests:
                found.append(index)
        return found

    def of(self, fragment: FragmentId) -> list[int]:
        """The positions of a fragment, ascending."""
        return sorted(self.places.get(fragment, ()))

    def take(self, fragment: FragmentId) -> list[int]:
        """Takes the positions of a fragment, to be set aside; ascending."""
        places = self.places.pop(fragment, {})
        self.places_count -= len(places)
        return sorted(places)
