"""A large sorted set of positions that changes everywhere, as inclusive ranges.

Inputs: ranges that come or go, in any order. Outputs: what is in the set. Invariants: the ranges
ascend and do not touch; a change costs a search and a move within one block, however many ranges
there are; a range takes 16 bytes.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

from fedq.core.ranges import Range

#: Ranges of a block at most. One is cut in two when it has more.
_BLOCK_MAX: Final = 1_024


class Intervals:
    """Such a set."""

    __slots__ = ("_begins", "_firsts", "_lasts")

    def __init__(self) -> None:
        #: Where ranges begin and where they end, in blocks; none of them is empty.
        self._firsts: list[array[int]] = []
        self._lasts: list[array[int]] = []
        #: Where each block begins.
        self._begins: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._begins)

    def __contains__(self, position: object) -> bool:
        assert isinstance(position, int)
        at = bisect_right(self._begins, position) - 1
        if at < 0:
            return False
        place = bisect_right(self._firsts[at], position) - 1
        return position <= self._lasts[at][place]

    def __iter__(self) -> Iterator[Range]:
        for firsts, lasts in zip(self._firsts, self._lasts, strict=True):
            yield from zip(firsts, lasts, strict=True)

    def count(self) -> int:
        """How many positions there are."""
        return sum(
            sum(lasts) - sum(firsts) + len(firsts)
            for firsts, lasts in zip(self._firsts, self._lasts, strict=True)
        )

    def add(self, first: int, last: int) -> None:
        """Adds the positions of a range."""
        if self._begins:
            top = self._lasts[-1][-1]
            if first == top + 1:
                self._lasts[-1][-1] = last
                return
            if first <= top:
                touched = self._within(first - 1, last + 1)
                if touched:
                    first = min(first, touched[0][0])
                    last = max(last, touched[-1][1])
                self._replace(first, last, [(first, last)])
                return
        self._append(first, last)

    def remove(self, first: int, last: int) -> None:
        """Removes the positions of a range; they need not be there."""
        touched = self._within(first, last)
        if not touched:
            return
        left: list[Range] = []
        if touched[0][0] < first:
            left.append((touched[0][0], first - 1))
        if touched[-1][1] > last:
            left.append((last + 1, touched[-1][1]))
        self._replace(touched[0][0], touched[-1][1], left)

    def after(self, position: int) -> Range | None:
        """The first positions beyond one, up to the next gap."""
        begins = self._begins
        at = max(0, bisect_right(begins, position) - 1)
        while at < len(begins):
            lasts = self._lasts[at]
            place = bisect_right(lasts, position)
            if place < len(lasts):
                return max(self._firsts[at][place], position + 1), lasts[place]
            at += 1
        return None

    def within(self, first: int, last: int) -> list[Range]:
        """What is in the set from `first` to `last`."""
        touched = self._within(first, last)
        if touched:
            touched[0] = (max(touched[0][0], first), touched[0][1])
            touched[-1] = (touched[-1][0], min(touched[-1][1], last))
        return touched

    def _within(self, first: int, last: int) -> list[Range]:
        """The whole ranges that have a position from `first` to `last`."""
        found: list[Range] = []
        begins = self._begins
        at = max(0, bisect_right(begins, first) - 1)
        while at < len(begins) and begins[at] <= last:
            firsts, lasts = self._firsts[at], self._lasts[at]
            low, high = bisect_left(lasts, first), bisect_right(firsts, last)
            if low < high:
                found += zip(firsts[low:high], lasts[low:high], strict=True)
            at += 1
        return found

    def _append(self, first: int, last: int) -> None:
        """Adds a range behind all others."""
        if not self._begins or len(self._firsts[-1]) >= _BLOCK_MAX:
            self._firsts.append(array("Q"))
            self._lasts.append(array("Q"))
            self._begins.append(first)
        self._firsts[-1].append(first)
        self._lasts[-1].append(last)

    def _replace(self, first: int, last: int, ranges: list[Range]) -> None:
        """Puts ranges in the place of those that have a position from `first` to `last`."""
        begins = self._begins
        at = max(0, bisect_right(begins, first) - 1)
        end = max(at + 1, bisect_right(begins, last))
        low = bisect_left(self._lasts[at], first)
        high = bisect_right(self._firsts[end - 1], last)
        firsts = self._firsts[at][:low]
        firsts.extend([each[0] for each in ranges])
        firsts.extend(self._firsts[end - 1][high:])
        lasts = self._lasts[at][:low]
        lasts.extend([each[1] for each in ranges])
        lasts.extend(self._lasts[end - 1][high:])
        half = len(firsts) // 2 if len(firsts) > _BLOCK_MAX else 0
        cuts = [(0, half), (half, len(firsts))] if half else [(0, len(firsts))]
        cuts = [(begin, stop) for begin, stop in cuts if begin < stop]
        self._firsts[at:end] = [firsts[begin:stop] for begin, stop in cuts]
        self._lasts[at:end] = [lasts[begin:stop] for begin, stop in cuts]
        begins[at:end] = [firsts[begin] for begin, _ in cuts]
