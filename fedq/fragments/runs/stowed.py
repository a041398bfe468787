"""Messages of a copy that are on disk alone: where they stand, and what they take.

Inputs: stretches of positions whose messages the journal has; positions that are gone. Outputs:
counts, bytes, positions. Invariants: stretches ascend, do not overlap, and have a byte at least for
each message; of a part of one its share of the bytes is told, and all of them once it is gone.

Where messages have priorities there may be as many stretches as messages: those of the highest one
go, and leave the others alone. So they stand in blocks, each of three arrays.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final, TypeAlias

from fedq.core.ranges import Range

#: First position, last position, bytes.
Stretch: TypeAlias = tuple[int, int, int]
#: Neighbours become one stretch up to so many bytes.
_STRETCH_BYTES: Final = 1 << 20
#: Stretches of a block at most; one that has more is cut in two.
_BLOCK_MAX: Final = 1_024
#: What a stretch takes in memory: three numbers, and room to grow.
STRETCH_MEMORY: Final = 32


class _Block:
    """Some stretches: where they begin, where they end, their bytes."""

    __slots__ = ("firsts", "lasts", "sizes")

    def __init__(self, firsts: "array[int]", lasts: "array[int]", sizes: "array[int]") -> None:
        self.firsts = firsts
        self.lasts = lasts
        self.sizes = sizes

    def put(self, low: int, high: int, stretches: list[Stretch]) -> None:
        """Puts stretches in the place of those from one index up to another, without that one."""
        self.firsts[low:high] = array("q", [first for first, _, _ in stretches])
        self.lasts[low:high] = array("q", [last for _, last, _ in stretches])
        self.sizes[low:high] = array("q", [size for _, _, size in stretches])

    def cut(self) -> "_Block":
        """Cuts it in two; returns the upper half."""
        half = len(self.firsts) // 2
        upper = _Block(self.firsts[half:], self.lasts[half:], self.sizes[half:])
        del self.firsts[half:], self.lasts[half:], self.sizes[half:]
        return upper

    def at(self, index: int) -> Stretch:
        """The stretch at an index."""
        return self.firsts[index], self.lasts[index], self.sizes[index]


class StowedRanges:
    """Stretches of positions whose messages are on disk alone."""

    __slots__ = ("_begins", "_blocks", "bytes_held", "count", "stretch_count")

    def __init__(self, stretches: Iterable[Stretch] = ()) -> None:
        """`stretches`: ascending."""
        #: None of them is empty; and where each begins.
        self._blocks: list[_Block] = []
        self._begins: list[int] = []
        #: How many stretches there are, how many messages, and their bytes.
        self.stretch_count = self.count = self.bytes_held = 0
        for first, last, size in stretches:
            self.add(first, last, size)

    def __contains__(self, position: object) -> bool:
        return isinstance(position, int) and self.has_some_in(position, position)

    def __iter__(self) -> Iterator[Stretch]:
        for block in self._blocks:
            yield from zip(block.firsts, block.lasts, block.sizes, strict=True)

    @property
    def first(self) -> int | None:
        """The lowest position."""
        return self._begins[0] if self._begins else None

    def _block_of(self, position: int) -> int:
        """The index of the block in which a stretch that has the position would be."""
        return max(bisect_right(self._begins, position) - 1, 0)

    def add(self, first: int, last: int, size: int) -> None:
        """Adds messages at positions of which none is here."""
        count = last - first + 1
        size = max(size, count)
        self.count += count
        self.bytes_held += size
        if not self._blocks:
            self._blocks.append(_Block(array("q"), array("q"), array("q")))
            self._begins.append(first)
        number = self._block_of(first)
        block = self._blocks[number]
        at = bisect_right(block.firsts, first) - 1
        if at >= 0 and block.lasts[at] + 1 == first and block.sizes[at] + size <= _STRETCH_BYTES:
            block.lasts[at] = last
            block.sizes[at] += size
            return
        # A copy that is made brings what is newest first.
        if self._adds_before(number, at + 1, first, last, size):
            return
        block.put(at + 1, at + 1, [(first, last, size)])
        self.stretch_count += 1
        self._changed(number)

    def _adds_before(self, number: int, at: int, first: int, last: int, size: int) -> bool:
        """Adds messages to the stretch behind them, if that is their neighbour, and has room."""
        if at == len(self._blocks[number].firsts):
            number, at = number + 1, 0
        if number == len(self._blocks) or not self._blocks[number].firsts:
            return False
        beyond = self._blocks[number]
        if beyond.firsts[at] != last + 1 or beyond.sizes[at] + size > _STRETCH_BYTES:
            return False
        beyond.firsts[at] = first
        beyond.sizes[at] += size
        self._begins[number] = beyond.firsts[0]
        return True

    def _changed(self, number: int) -> None:
        """Notes where a block begins, and cuts it if it is too long."""
        block = self._blocks[number]
        self._begins[number] = block.firsts[0]
        if len(block.firsts) > _BLOCK_MAX:
            upper = block.cut()
            self._blocks.insert(number + 1, upper)
            self._begins.insert(number + 1, upper.firsts[0])

    def forget(self, first: int, last: int) -> int:
        """Forgets what stands between two positions; returns how many messages that were."""
        gone, number = 0, self._block_of(first)
        while number < len(self._blocks) and self._begins[number] <= last:
            block = self._blocks[number]
            low = max(bisect_right(block.firsts, first) - 1, 0)
            if block.lasts[low] < first:
                low += 1
            high = bisect_right(block.firsts, last)
            if low < high:
                gone += self._forget_of(block, low, high, first, last)
                if not block.firsts:
                    del self._blocks[number], self._begins[number]
                    continue
                self._changed(number)
            number += 1
        self.count -= gone
        return gone

    def _forget_of(self, block: _Block, low: int, high: int, first: int, last: int) -> int:
        """Forgets what stands between two positions of some stretches; returns how much."""
        gone, pieces = 0, list[Stretch]()
        for index in range(low, high):
            begin, end, size = block.at(index)
            start, stop = max(begin, first), min(end, last)
            gone += stop - start + 1
            self.bytes_held -= size
            each = size / (end - begin + 1)
            for a, b in ((begin, start - 1), (stop + 1, end)):
                if a <= b:
                    pieces.append((a, b, max(int(each * (b - a + 1)), b - a + 1)))
                    self.bytes_held += pieces[-1][2]
        if high - low == 1 and len(pieces) == 1:
            block.firsts[low], block.lasts[low], block.sizes[low] = pieces[0]
            return gone
        if pieces:
            block.put(low, high, pieces)
        else:
            del block.firsts[low:high], block.lasts[low:high], block.sizes[low:high]
        self.stretch_count += len(pieces) - (high - low)
        return gone

    def after(self, position: int, most: int) -> tuple[Range, int] | None:
        """The first positions beyond one, side by side; and how many stretches those are.

        No more than `most` of them.
        """
        found, count = (0, 0), 0
        for first, last in self._ranges_from(position + 1):
            if not count:
                found = max(first, position + 1), last
            elif count < most and first == found[1] + 1:
                found = found[0], last
            else:
                break
            count += 1
        return (found, count) if count else None

    def _ranges_from(self, position: int) -> Iterator[Range]:
        """The stretches that end at a position or beyond it."""
        for number in range(self._block_of(position), len(self._blocks)):
            block = self._blocks[number]
            for index in range(max(bisect_right(block.firsts, position) - 1, 0), len(block.firsts)):
                if block.lasts[index] >= position:
                    yield block.firsts[index], block.lasts[index]

    def has_some_in(self, first: int, last: int) -> bool:
        """Whether messages stand between two positions."""
        if not self._blocks:
            return False
        block = self._blocks[self._block_of(last)]
        at = bisect_right(block.firsts, last) - 1
        return at >= 0 and block.lasts[at] >= first

    def ranges(self) -> Iterator[Range]:
        """The positions, ascending."""
        for block in self._blocks:
            yield from zip(block.firsts, block.lasts, strict=True)

    def check(self) -> None:
        """Asserts the invariants."""
        found = list(self)
        assert all(a[1] < b[0] for a, b in pairwise(found))
        assert all(size >= last - first + 1 > 0 for first, last, size in found)
        assert self.count == sum([last - first + 1 for first, last, _ in found])
        assert self.bytes_held == sum([size for _, _, size in found])
        assert self.stretch_count == len(found)
        assert self._begins == [block.firsts[0] for block in self._blocks]
        assert all(len(block.firsts) <= _BLOCK_MAX for block in self._blocks)
