"""An index of messages with priorities that are on disk alone: two bytes for each, in pages.

Inputs: positions that come, with what is known of each: whether it is persistent, its priority;
positions that go; priorities that were learned. Outputs: where the next of the highest priority
stands; what stands where. What an earlier reign left has no known priority before it was read: it
may have the highest one, so it counts as if it had (docs/adr/0097).

Invariants: a page has messages; what is told of one that is gone is nothing (0); of a page's bytes
each message counts its share, at least one byte.
"""

from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from fedq.core.ranges import Range, join_ranges, to_ranges

#: Positions of a page, as a shift; and what one takes, measured: two tables and their upkeep.
PAGE_SHIFT: Final = 9
PAGE: Final = 1 << PAGE_SHIFT
PAGE_BYTES: Final = 1_360
#: What is kept of a message: it is here; the journal has it; its priority is not known.
_HERE: Final = 1
_PERSISTENT: Final = 2
_UNKNOWN: Final = 4
#: The same as runs keep it: whether it is persistent.
_TO_KINDS: Final = bytes([0, 0, 0, 1, 0, 0, 0, 1]) + bytes(248)
#: How many priorities there are.
_RANKS: Final = 256
#: So many pages on from the next one hold more messages than are ever read at a time.
_PAGES_READ_MAX: Final = 32


class Found(NamedTuple):
    """Messages that stood side by side: the first position, whether each is persistent, bytes."""

    first: int
    kinds: bytes
    size: int


class _Page:
    """The messages of a page."""

    __slots__ = ("count", "kinds", "ranks", "size")

    def __init__(self) -> None:
        self.kinds = bytearray(PAGE)
        self.ranks = bytearray(PAGE)
        #: How many messages there are, and what they take on the disk.
        self.count = self.size = 0

    def first_of(self, rank: int, start: int) -> int:
        """The first entry of a priority from one on; -1: there is none."""
        found = self.ranks.find(rank, start)
        # What is gone, or not known, is told as of priority 0.
        while found >= 0 and (not self.kinds[found] or self.kinds[found] & _UNKNOWN):
            found = self.ranks.find(rank, found + 1)
        return found

    def last_of(self, rank: int) -> int:
        """The last entry of a priority; -1: there is none."""
        found = self.ranks.rfind(rank)
        while found >= 0 and (not self.kinds[found] or self.kinds[found] & _UNKNOWN):
            found = self.ranks.rfind(rank, 0, found)
        return found

    def last_unknown(self) -> int:
        """The last entry whose priority is not known; -1: there is none."""
        kinds = self.kinds
        return max(kinds.rfind(_HERE | _UNKNOWN), kinds.rfind(_HERE | _UNKNOWN | _PERSISTENT))

    def pieces(self, start: int, stop: int) -> list[Range]:
        """Where from one entry up to another, without that one, messages stand side by side."""
        kinds = self.kinds
        if kinds.find(0, start, stop) < 0:
            return [(start, stop - 1)]
        return to_ranges([at for at in range(start, stop) if kinds[at]])


class RankedPages:
    """Such an index. See the module's docstring."""

    __slots__ = (
        "_counts", "_first_unknown", "_firsts", "_max_rank", "_next", "_order", "_pages", "count",
        "size", "unknown",
    )  # fmt: skip

    def __init__(self, max_rank: int) -> None:
        self._max_rank = max_rank
        self._pages: dict[int, _Page] = {}
        #: The numbers of the pages, ascending.
        self._order: list[int] = []
        #: How many messages have each priority; none of these stands before the position beside it.
        self._counts = [0] * _RANKS
        self._firsts = [0] * _RANKS
        #: How many have none that is known, all at this position or beyond it.
        self.unknown = self._first_unknown = 0
        #: The next one in line, as a priority and a position, if it was looked up.
        self._next: tuple[int, int] | None = None
        #: How many messages there are, and what they take on the disk.
        self.count = self.size = 0

    @property
    def page_count(self) -> int:
        """How many pages there are."""
        return len(self._order)

    def numbers(self) -> list[int]:
        """The numbers of the pages, ascending: those of the positions without `PAGE_SHIFT` bits."""
        return list(self._order)

    def __contains__(self, position: object) -> bool:
        return isinstance(position, int) and self._kind(position) != 0

    def _kind(self, position: int) -> int:
        page = self._pages.get(position >> PAGE_SHIFT)
        return page.kinds[position & (PAGE - 1)] if page is not None else 0

    def has_page(self, position: int) -> bool:
        """Whether a message at this position would need no page of its own."""
        return position >> PAGE_SHIFT in self._pages

    def is_persistent(self, position: int) -> bool:
        """Whether a message is here, and persistent."""
        return self._kind(position) & _PERSISTENT != 0

    def is_unknown(self, position: int) -> bool:
        """Whether a message is here whose priority is not known."""
        return self._kind(position) & _UNKNOWN != 0

    def rank_of(self, position: int) -> int:
        """The priority of a message; -1 if none is here, or it is not known."""
        page = self._pages.get(position >> PAGE_SHIFT)
        at = position & (PAGE - 1)
        if page is None or not page.kinds[at] or page.kinds[at] & _UNKNOWN:
            return -1
        return page.ranks[at]

    # --- they come and go ------------------------------------------------------------------------

    def _page_of(self, number: int) -> _Page:
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = _Page()
            if self._order and number < self._order[-1]:
                self._order.insert(bisect_left(self._order, number), number)
            else:
                self._order.append(number)
        return page

    def add(self, position: int, persistent: bool, rank: int, size: int) -> None:
        """Adds a message that is not here."""
        page, at = self._page_of(position >> PAGE_SHIFT), position & (PAGE - 1)
        page.kinds[at] = _HERE | _PERSISTENT if persistent else _HERE
        page.ranks[at] = rank
        self._grew(page, 1, size)
        self._ranked(position, rank)

    def add_unknown(self, first: int, kinds: bytes, size: int) -> None:
        """Adds messages side by side, each persistent or not, of which no priority is known."""
        left, begin = len(kinds), 0
        self._first_unknown = min(self._first_unknown, first) if self.unknown else first
        self.unknown += left
        while left:
            number, at = (first + begin) >> PAGE_SHIFT, (first + begin) & (PAGE - 1)
            part = kinds[begin : begin + PAGE - at]
            share = size * len(part) // left
            page = self._page_of(number)
            page.kinds[at : at + len(part)] = bytes(
                [_HERE | _UNKNOWN | (_PERSISTENT if kind else 0) for kind in part]
            )
            self._grew(page, len(part), share)
            begin, left, size = begin + len(part), left - len(part), size - share
        self._next = None

    def learn(self, position: int, rank: int) -> None:
        """Takes note of the priority of a message that is here, and had none that is known."""
        page, at = self._pages[position >> PAGE_SHIFT], position & (PAGE - 1)
        page.kinds[at] &= ~_UNKNOWN
        page.ranks[at] = rank
        self.unknown -= 1
        self._ranked(position, rank)

    def _grew(self, page: _Page, count: int, size: int) -> None:
        size = max(size, count)
        page.count += count
        page.size += size
        self.count += count
        self.size += size

    def _ranked(self, position: int, rank: int) -> None:
        known = self._counts[rank]
        self._firsts[rank] = min(self._firsts[rank], position) if known else position
        self._counts[rank] = known + 1
        self._next = None

    def remove(self, position: int) -> int:
        """Takes out a message that is here; returns what it takes on the disk."""
        return self.take(position, position)[0].size

    def take(self, first: int, last: int) -> list[Found]:
        """Takes out what stands between two positions."""
        found: list[Found] = []
        if not self.count:
            return found
        begin = bisect_left(self._order, first >> PAGE_SHIFT)
        end = bisect_right(self._order, last >> PAGE_SHIFT)
        for number in self._order[begin:end]:
            base = number << PAGE_SHIFT
            page = self._pages[number]
            start, stop = max(first - base, 0), min(last - base + 1, PAGE)
            for low, high in page.pieces(start, stop):
                found.append(self._take_piece(page, base, low, high))
            if not page.count:
                del self._pages[number]
                self._order.pop(bisect_left(self._order, number))
        if found:
            self._next = None
        return found

    def _take_piece(self, page: _Page, base: int, low: int, high: int) -> Found:
        kinds, ranks, count = page.kinds[low : high + 1], page.ranks[low : high + 1], high + 1 - low
        size = page.size * count // page.count
        for kind, rank in zip(kinds, ranks, strict=True):
            if kind & _UNKNOWN:
                self.unknown -= 1
            else:
                self._counts[rank] -= 1
        page.kinds[low : high + 1] = page.ranks[low : high + 1] = bytes(count)
        page.count -= count
        page.size -= size
        self.count -= count
        self.size -= size
        return Found(base + low, bytes(kinds.translate(_TO_KINDS)), size)

    # --- what is next ----------------------------------------------------------------------------

    def next(self) -> tuple[int, int]:
        """The priority and the position of the next one in line; there must be one.

        Of one that is not known the highest priority there may be.
        """
        if self._next is None:
            rank = self._max_rank
            if not self.unknown:
                while not self._counts[rank]:
                    rank -= 1
                self._next = rank, self._first_of(rank)
            else:
                first = self._first_of_unknown()
                if self._counts[rank]:
                    first = min(first, self._first_of(rank))
                self._next = rank, first
        return self._next

    def _first_of(self, rank: int) -> int:
        """The lowest position of a priority that some have."""
        at = self._firsts[rank]
        for index in range(bisect_left(self._order, at >> PAGE_SHIFT), len(self._order)):
            number = self._order[index]
            page = self._pages[number]
            found = page.first_of(rank, max(at - (number << PAGE_SHIFT), 0))
            if found >= 0:
                self._firsts[rank] = (number << PAGE_SHIFT) + found
                break
        return self._firsts[rank]

    def _first_of_unknown(self) -> int:
        at = self._first_unknown
        for index in range(bisect_left(self._order, at >> PAGE_SHIFT), len(self._order)):
            number = self._order[index]
            kinds, start = self._pages[number].kinds, max(at - (number << PAGE_SHIFT), 0)
            found = _lowest(
                kinds.find(_HERE | _UNKNOWN, start),
                kinds.find(_HERE | _UNKNOWN | _PERSISTENT, start),
            )
            if found >= 0:
                self._first_unknown = (number << PAGE_SHIFT) + found
                break
        return self._first_unknown

    def of_next(self, most: int, before: int) -> list[Range]:
        """The next ones in line of the same priority, at most so many, if that is known.

        Those `before` a position.
        """
        rank, first = self.next()
        found: list[int] = []
        while first < before and self.rank_of(first) == rank:
            found.append(first)
            if len(found) >= most:
                # Where the one after it stands may take a walk over all pages.
                break
            first = self._after(first, rank)
        return to_ranges(found)

    def _after(self, position: int, rank: int) -> int:
        """The first one of a priority beyond a position; the position behind it: there is none."""
        at = position + 1
        for index in range(bisect_left(self._order, at >> PAGE_SHIFT), len(self._order)):
            number = self._order[index]
            found = self._pages[number].first_of(rank, max(at - (number << PAGE_SHIFT), 0))
            if found >= 0:
                return (number << PAGE_SHIFT) + found
        return at

    def worth_reading(self) -> int:
        """Up to which position it is worth reading from the next one in line on.

        In the pages that follow on each other and have some of its priority; some of very many.
        """
        rank, first = self.next()
        wants_unknown = self.is_unknown(first)
        last, expected = first, first >> PAGE_SHIFT
        begin = bisect_left(self._order, expected)
        for index in range(begin, min(begin + _PAGES_READ_MAX, len(self._order))):
            number = self._order[index]
            page = self._pages[number]
            found = page.last_unknown() if wants_unknown else page.last_of(rank)
            if number != expected or found < 0:
                break
            last, expected = max(last, (number << PAGE_SHIFT) + found), expected + 1
        return last

    # --- what is where ---------------------------------------------------------------------------

    def ranges(self) -> list[Range]:
        """The positions of all messages."""
        found: list[Range] = []
        for number in self._order:
            base = number << PAGE_SHIFT
            found += [
                (base + low, base + high) for low, high in self._pages[number].pieces(0, PAGE)
            ]
        return join_ranges(found)

    def oldest_persistent(self) -> int | None:
        """The lowest position of a persistent message."""
        for number in self._order:
            kinds = self._pages[number].kinds
            found = _lowest(
                kinds.find(_HERE | _PERSISTENT), kinds.find(_HERE | _PERSISTENT | _UNKNOWN)
            )
            if found >= 0:
                return (number << PAGE_SHIFT) + found
        return None

    def persistent_within(self, number: int) -> list[int]:
        """The positions of the persistent messages of a page."""
        page = self._pages.get(number)
        if page is None:
            return []
        base = number << PAGE_SHIFT
        # As bytes: mypyc cannot count through a bytearray.
        return [base + at for at, kind in enumerate(bytes(page.kinds)) if kind & _PERSISTENT]

    def all_found(self) -> list[Found]:
        """All messages, side by side within a page."""
        found: list[Found] = []
        for number in self._order:
            page, base = self._pages[number], number << PAGE_SHIFT
            for low, high in page.pieces(0, PAGE):
                size = page.size * (high + 1 - low) // page.count
                kinds = page.kinds[low : high + 1].translate(_TO_KINDS)
                found.append(Found(base + low, bytes(kinds), size))
        return found

    def after(self, position: int) -> Found | None:
        """The first messages beyond a position that stand side by side, within a page."""
        at = position + 1
        for index in range(bisect_left(self._order, at >> PAGE_SHIFT), len(self._order)):
            number = self._order[index]
            page, base = self._pages[number], number << PAGE_SHIFT
            start = max(at - base, 0)
            while start < PAGE and not page.kinds[start]:
                start += 1
            if start == PAGE:
                continue
            stop = page.kinds.find(0, start)
            kinds = page.kinds[start : stop if stop >= 0 else PAGE].translate(_TO_KINDS)
            size = page.size * len(kinds) // page.count
            return Found(base + start, bytes(kinds), size)
        return None

    def begins(self, position: int) -> int:
        """From which position on, within a page, all up to this one, which is here, are here."""
        page, at = self._pages[position >> PAGE_SHIFT], position & (PAGE - 1)
        return position - at + page.kinds.rfind(0, 0, at) + 1

    def lowest(self, most: int, through: int) -> list[Range]:
        """The positions of the first ones up to a position, at most so many."""
        found: list[Range] = []
        position = -1
        while most > 0 and (piece := self.after(position)) is not None and piece.first <= through:
            last = min(piece.first + min(len(piece.kinds), most) - 1, through)
            found.append((piece.first, last))
            most -= last - piece.first + 1
            position = last
        return join_ranges(found)

    def check(self) -> None:
        """Asserts the invariants; costs a walk over everything."""
        assert self._order == sorted(self._pages)
        counts, unknown = [0] * _RANKS, 0
        for number, page in self._pages.items():
            assert page.count == PAGE - page.kinds.count(0) > 0
            assert page.size >= page.count
            for at in range(PAGE):
                kind, rank, position = page.kinds[at], page.ranks[at], (number << PAGE_SHIFT) + at
                if kind & _UNKNOWN:
                    unknown += 1
                    assert position >= self._first_unknown
                elif kind:
                    counts[rank] += 1
                    assert position >= self._firsts[rank]
                assert not rank or (kind and not kind & _UNKNOWN)
        assert (counts, unknown) == (self._counts, self.unknown)
        assert self.count == sum([page.count for page in self._pages.values()])
        assert self.size == sum([page.size for page in self._pages.values()])


def _lowest(one: int, other: int) -> int:
    """The lower one of two entries; -1 stands for none."""
    return max(one, other) if one < 0 or other < 0 else min(one, other)
