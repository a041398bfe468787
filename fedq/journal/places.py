"""Where in a segment the messages of each fragment lie, so that a body can be read by itself.

Inputs: records as they are appended, with the positions of their messages and the bytes that they
take. Outputs: places, which `fedq.journal.bodies` takes the messages out of. Invariants:

* What was noted is found: no position between an entry's first and last that was noted with it lies
  outside its bytes. The reverse does not hold: positions that are gone, or are elsewhere, may be
  between them. So an entry says that a message *may* be here.
* An entry is 32 bytes, and stands for up to `STRETCH_BYTES` of the segment (and a mark), or for one
  append that is longer. So that of a segment which one fragment fills is a two-thousandth.
* Entries of what arrived ascend, in positions as in bytes. What does not fit behind the last one is
  kept with the copies, which come in any order, and of which the newest is the one that counts.
"""

from array import array
from typing import Final, NamedTuple

from fedq.core.ids import FragmentId

#: As far as records are taken together. A disk reads that much in about the time that it takes to
#: find the place, and more would be read for nothing where a single message is wanted.
STRETCH_BYTES: Final = 65_536
#: Numbers of an entry: first position, last position, offset, length.
_NUMBERS: Final = 4
_ENTRY_BYTES: Final = 32
#: What a fragment takes for its first entry: an object, a row in a table; for the second one, an
#: array beside it.
_RUN_BYTES: Final = 176
_ARRAY_BYTES: Final = 80


class Place(NamedTuple):
    """Whole records in a segment, `length` bytes from `offset` on.

    Messages of one fragment at positions from `first` to `last` are in them; perhaps not at each of
    these, and perhaps between records of others and marks.
    """

    segment: int
    offset: int
    length: int
    first: int
    last: int


class Places:
    """The index of one segment."""

    __slots__ = ("_arrived", "_copied", "_fresh", "size")

    def __init__(self) -> None:
        self._arrived: dict[FragmentId, _Entries] = {}
        self._copied: dict[FragmentId, _Entries] = {}
        #: Those that have something of the chunk under way.
        self._fresh: list[_Entries] = []
        #: About what it takes in memory.
        self.size: int = 0

    def add(
        self, fragment: FragmentId, first: int, last: int, start: int, stop: int, copied: bool
    ) -> None:
        """Notes whole records from byte `start` up to `stop`, behind all that were noted."""
        table = self._copied if copied else self._arrived
        entries = table.get(fragment)
        if entries is None:
            entries = table[fragment] = _Entries(first, last, start, stop)
            self.size += _RUN_BYTES
        elif first > entries.last:
            if stop - entries.offset <= STRETCH_BYTES:
                entries.last = last
                entries.stop = stop
            else:
                self.size += entries.begin(first, last, start, stop)
        elif copied:
            self.size += entries.begin(first, last, start, stop)
        else:
            self.add(fragment, first, last, start, stop, True)
            return
        if not entries.is_fresh:
            entries.is_fresh = True
            self._fresh.append(entries)

    def finish_chunk(self, start: int, by: int) -> None:
        """Ends a chunk: what was noted behind byte `start` since the last one lies further on."""
        fresh = self._fresh
        if not fresh:
            return
        for entries in fresh:
            entries.is_fresh = False
            if by:
                entries.shift(start, by)
        self._fresh = []

    def of(self, fragment: FragmentId, segment: int) -> list[Place]:
        """All places of a fragment in the segment, which has this number: copies come last."""
        places: list[Place] = []
        for table in (self._arrived, self._copied):
            entries = table.get(fragment)
            if entries is not None:
                places += entries.all_in(segment)
        return places

    def copies_at(self, fragment: FragmentId, position: int, segment: int) -> list[Place]:
        """Where a copy of the message may be in the segment, the newest first."""
        entries = self._copied.get(fragment)
        if entries is None:
            return []
        return [
            place
            for place in reversed(entries.all_in(segment))
            if place.first <= position <= place.last
        ]

    def arrival_at(self, fragment: FragmentId, position: int, segment: int) -> Place | None:
        """Where in the segment the message may have come in."""
        entries = self._arrived.get(fragment)
        return entries.find(position, segment) if entries is not None else None


class _Entries:
    """What one fragment has in one segment; the last entry may still grow."""

    __slots__ = ("_closed", "first", "is_fresh", "last", "offset", "stop")

    def __init__(self, first: int, last: int, start: int, stop: int) -> None:
        #: The last entry.
        self.first = first
        self.last = last
        self.offset = start
        self.stop = stop
        #: It has something of the chunk under way.
        self.is_fresh = False
        #: Those before it.
        self._closed: array[int] | None = None

    def begin(self, first: int, last: int, start: int, stop: int) -> int:
        """Begins another entry; returns what that takes in memory."""
        entry = (self.first, self.last, self.offset, self.stop - self.offset)
        taken = _ENTRY_BYTES
        if self._closed is None:
            self._closed = array("Q", entry)
            taken += _ARRAY_BYTES
        else:
            self._closed.extend(entry)
        self.first = first
        self.last = last
        self.offset = start
        self.stop = stop
        return taken

    def shift(self, start: int, by: int) -> None:
        """Moves what lies behind byte `start`."""
        self.stop += by
        if self.offset >= start:
            self.offset += by
        closed = self._closed
        if closed is None:
            return
        at = len(closed) - _NUMBERS
        while at >= 0 and closed[at + 2] + closed[at + 3] > start:
            if closed[at + 2] >= start:
                closed[at + 2] += by
            else:
                closed[at + 3] += by
            at -= _NUMBERS

    def all_in(self, segment: int) -> list[Place]:
        """All of them, as they were noted."""
        closed = self._closed
        places: list[Place] = []
        if closed is not None:
            places = [_place(segment, closed, at) for at in range(0, len(closed), _NUMBERS)]
        places.append(Place(segment, self.offset, self.stop - self.offset, self.first, self.last))
        return places

    def find(self, position: int, segment: int) -> Place | None:
        """The one that the position is in, if they ascend."""
        if position >= self.first:
            if position > self.last:
                return None
            return Place(segment, self.offset, self.stop - self.offset, self.first, self.last)
        closed = self._closed
        if closed is None or position < closed[0]:
            return None
        low, high = 0, len(closed) // _NUMBERS - 1
        while low < high:
            middle = (low + high + 1) // 2
            if closed[middle * _NUMBERS] <= position:
                low = middle
            else:
                high = middle - 1
        at = low * _NUMBERS
        return _place(segment, closed, at) if position <= closed[at + 1] else None


def _place(segment: int, flat: "array[int]", at: int) -> Place:
    return Place(segment, flat[at + 2], flat[at + 3], flat[at], flat[at + 1])
