"""The positions of a copy, found piece by piece: a copy may have millions.

Inputs: messages by position, in any order, and ranges; how much to look at. Outputs: ranges, and a
checksum. Whoever asks sees to it that they are the same from the first piece to the last
(`Replica.edits`), or begins again.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final
from zlib import crc32

from fedq.core.ranges import Range, join_ranges, to_ranges
from fedq.core.work import Work

#: Positions that are a unit of work.
PER_UNIT: Final = 16
#: And those that are looked at before the budget is.
_PIECE: Final = 1_024


class Positions:
    """The positions of a copy, found piece by piece, as ascending ranges."""

    __slots__ = ("_batches", "_read", "_runs", "ranges")

    def __init__(self, read: Mapping[int, bytes], batches: Iterable[Range] = ()) -> None:
        """`read`: by position, messages that are kept singly; `batches`: ranges of others."""
        self._read: Iterator[int] = iter(read)
        self._batches: Iterator[Range] = iter(batches)
        self._runs: list[Range] = []
        #: All of them, once `go_on` says so.
        self.ranges: list[Range] = []

    def go_on(self, work: Work) -> bool:
        """Finds a piece at least, more while there is room; whether all are found."""
        while True:
            amount = _amount(work)
            positions = list(islice(self._read, amount))
            if positions:
                self._runs += to_ranges(positions)
            else:
                batches = list(islice(self._batches, amount))
                if not batches:
                    break
                self._runs += batches
            if work.is_spent:
                return False
        self.ranges, self._runs = join_ranges(self._runs), []
        return True


class Checksum:
    """A checksum (CRC-32) of positions in ascending ranges, made piece by piece."""

    __slots__ = ("_left", "count", "value")

    def __init__(self, ranges: list[Range]) -> None:
        self._left = ranges[::-1]
        #: How many positions there were, and the checksum.
        self.count = self.value = 0

    def go_on(self, work: Work) -> bool:
        """Adds a piece at least, more while there is room; whether it is done."""
        left = self._left
        while left:
            first, last = left.pop()
            amount = _amount(work)
            if last - first >= amount:
                left.append((first + amount, last))
                last = first + amount - 1
            self.value = crc32(array("Q", range(first, last + 1)), self.value)
            self.count += last - first + 1
            if work.is_spent:
                break
        return not left


def _amount(work: Work) -> int:
    """How much the next piece may look at; charges the work for it."""
    amount = min(max(1, work.room) * PER_UNIT, _PIECE)
    work.spend(1 + amount // PER_UNIT)
    return amount
