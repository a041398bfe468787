"""Messages of a copy that are on disk alone: where they stand, and what they take.

Inputs: stretches of positions whose messages the journal has; positions that are gone. Outputs:
counts, bytes, positions. Invariants: stretches ascend, do not overlap, and have a byte at least for
each message; of a part of one its share of the bytes is told, and all of them once it is gone.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from fedq.core.ranges import Range

#: First position, last position, bytes.
Stretch: TypeAlias = tuple[int, int, int]
#: Neighbours become one stretch up to so many bytes.
_STRETCH_BYTES: Final = 1 << 20
_BEYOND: Final = 1 << 64


class StowedRanges:
    """Stretches of positions whose messages are on disk alone."""

    __slots__ = ("_stretches", "bytes_held", "count")

    def __init__(self, stretches: Iterable[Stretch] = ()) -> None:
        """`stretches`: ascending."""
        self._stretches: list[Stretch] = []
        #: How many messages there are, and their bytes.
        self.count = self.bytes_held = 0
        for first, last, size in stretches:
            self.add(first, last, size)

    def __contains__(self, position: object) -> bool:
        if not isinstance(position, int):
            return False
        at = self._at(position)
        return at >= 0 and position <= self._stretches[at][1]

    def __iter__(self) -> Iterator[Stretch]:
        return iter(self._stretches)

    @property
    def first(self) -> int | None:
        """The lowest position."""
        return self._stretches[0][0] if self._stretches else None

    def _at(self, position: int) -> int:
        """The index of the last stretch that begins here or before; -1: none does."""
        return bisect_right(self._stretches, (position, _BEYOND, _BEYOND)) - 1

    def add(self, first: int, last: int, size: int) -> None:
        """Adds messages at positions of which none is here."""
        count = last - first + 1
        size = max(size, count)
        self.count += count
        self.bytes_held += size
        at = self._at(first)
        if at >= 0:
            before = self._stretches[at]
            if before[1] + 1 == first and before[2] + size <= _STRETCH_BYTES:
                self._stretches[at] = (before[0], last, before[2] + size)
                return
        if at + 1 < len(self._stretches):
            # A copy that is made brings what is newest first.
            beyond = self._stretches[at + 1]
            if last + 1 == beyond[0] and beyond[2] + size <= _STRETCH_BYTES:
                self._stretches[at + 1] = (first, beyond[1], beyond[2] + size)
                return
        self._stretches.insert(at + 1, (first, last, size))

    def forget(self, first: int, last: int) -> int:
        """Forgets what stands between two positions; returns how many messages that were."""
        gone = 0
        at = max(self._at(first), 0)
        while at < len(self._stretches) and self._stretches[at][0] <= last:
            low, high, size = self._stretches[at]
            if high < first:
                at += 1
                continue
            start, stop = max(low, first), min(high, last)
            left = [(low, start - 1), (stop + 1, high)]
            count = stop - start + 1
            each = size / (high - low + 1)
            pieces = [(a, b, max(int(each * (b - a + 1)), b - a + 1)) for a, b in left if a <= b]
            gone += count
            self.count -= count
            self.bytes_held += sum([piece[2] for piece in pieces]) - size
            self._stretches[at : at + 1] = pieces
            at += len(pieces)
        return gone

    def after(self, position: int, most: int) -> tuple[Range, int] | None:
        """The first positions beyond one, side by side; and how many stretches those are.

        No more than `most` of them.
        """
        stretches = self._stretches
        at = max(self._at(position), 0)
        if at < len(stretches) and stretches[at][1] <= position:
            at += 1
        if at >= len(stretches):
            return None
        first, last, _ = stretches[at]
        stop = at + 1
        while stop < len(stretches) and stop - at < most and stretches[stop][0] == last + 1:
            last = stretches[stop][1]
            stop += 1
        return (max(first, position + 1), last), stop - at

    def has_some_in(self, first: int, last: int) -> bool:
        """Whether messages stand between two positions."""
        at = self._at(last)
        return at >= 0 and self._stretches[at][1] >= first

    def ranges(self) -> Iterator[Range]:
        """The positions, ascending."""
        return ((first, last) for first, last, _ in self._stretches)
