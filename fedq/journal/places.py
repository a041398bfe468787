"""Where in a segment the messages of each fragment lie, so that a body can be read by itself.

Inputs: records as they are appended, with the positions of their messages and the bytes that they
take. Outputs: places, which `fedq.journal.bodies` takes the messages out of. Invariants:

* What was noted is found: no position between an entry's first and last that was noted with it lies
  outside its bytes. The reverse does not hold: positions that are gone, or are elsewhere, may be
  between them. So an entry says that a message *may* be here.
* An entry is 32 bytes, and stands for up to `STRETCH_BYTES` of the segment (and a mark), or for one
  append that is longer. So that of a segment which one fragment fills is a two-thousandth. It says
  about what its messages take, too.
* Entries of what arrived ascend, in positions as in bytes. What does not fit behind the last one is
  kept with the copies, which come in any order, and of which the newest is the one that counts.
  They are searched by runs in which they ascend or descend, as what is moved or copied does.
"""

from array import array
from typing import Final, NamedTuple

from fedq.core.ids import FragmentId

#: As far as records are taken together. A disk reads that much in about the time that it takes to
#: find the place, and more would be read for nothing where a single message is wanted.
STRETCH_BYTES: Final = 65_536
#: Numbers of an entry: first position, last position, offset and length in the segment, how many
#: positions were noted and what their records take; the latter four are halves of numbers.
NUMBERS: Final = 4
_HALF: Final = 32
_HALF_MAX: Final = 0xFFFF_FFFF
_ENTRY_BYTES: Final = 32
#: What a fragment takes for its first entry: an object, a row in a table; for the second one, an
#: array beside it.
_FIRST_BYTES: Final = 192
_ARRAY_BYTES: Final = 80
#: What it takes to know where a run of copies begins.
_RUN_BYTES: Final = 8


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


class Entries:
    """What one fragment has in one segment; the last entry may still grow."""

    __slots__ = (
        "_closed", "_highest", "_known", "_lowest", "_runs", "closed_taken", "count", "first",
        "last", "offset", "other", "stop", "taken",
    )  # fmt: skip

    def __init__(self) -> None:
        #: The last entry.
        self.first = self.last = self.offset = self.stop = 0
        #: How many positions were noted in it, and what their records take.
        self.count = self.taken = 0
        #: It has something of the chunk under way, and so has this one; the last one names itself.
        self.other: Entries | None = None
        #: What the records of those before it take.
        self.closed_taken = 0
        #: Those before it; between which positions all of these are;
        self._closed: array[int] | None = None
        self._lowest = self._highest = 0
        #: and stretches of those in which positions ascend, or descend, and none is twice: where
        #: each begins, doubled, and 1 more if it descends. Of so many, as far as somebody looked.
        self._runs: array[int] | None = None
        self._known = 0

    def begin(self, first: int, last: int, stop: int, length: int) -> None:
        """Begins another entry."""
        self.first = first
        self.last = last
        self.offset = stop - length
        self.stop = stop
        self.count = last - first + 1
        self.taken = length

    def close(self) -> int:
        """Closes the last entry, as another one is begun; returns what that takes in memory."""
        entry = self._packed()
        self.closed_taken += self.taken
        if self._closed is None:
            self._closed = array("Q", entry)
            self._lowest, self._highest = self.first, self.last
            return _ENTRY_BYTES + _ARRAY_BYTES
        self._lowest = min(self._lowest, self.first)
        self._highest = max(self._highest, self.last)
        self._closed.extend(entry)
        return _ENTRY_BYTES

    def _packed(self) -> tuple[int, int, int, int]:
        where = self.offset << _HALF | (self.stop - self.offset)
        return self.first, self.last, where, min(self.count, _HALF_MAX) << _HALF | self.taken

    def flat(self) -> "array[int]":
        """All of them, as their numbers."""
        flat = array("Q", self._closed) if self._closed is not None else array("Q")
        flat.extend(self._packed())
        return flat

    def take_back(self, flat: "array[int]") -> int:
        """The inverse of `flat`, of one entry at least; returns what it takes in memory."""
        first, last, where, weight = flat[-NUMBERS:]
        length = where & _HALF_MAX
        self.begin(first, last, (where >> _HALF) + length, length)
        self.count, self.taken = weight >> _HALF, weight & _HALF_MAX
        if len(flat) == NUMBERS:
            return _FIRST_BYTES
        closed = self._closed = flat[:-NUMBERS]
        # The halves do not run into each other: a segment has fewer bytes than one can say.
        self.closed_taken = sum(closed[3::NUMBERS]) & _HALF_MAX
        self._lowest, self._highest = min(closed[0::NUMBERS]), max(closed[1::NUMBERS])
        return _FIRST_BYTES + _ARRAY_BYTES + (len(flat) // NUMBERS - 1) * _ENTRY_BYTES

    def shift(self, start: int, by: int) -> None:
        """Moves what lies behind byte `start` further on, but for the last entry."""
        closed = self._closed
        if closed is None:
            return
        at = len(closed) - 2
        while at >= 0 and (closed[at] >> _HALF) + (closed[at] & _HALF_MAX) > start:
            closed[at] += by << _HALF if closed[at] >> _HALF >= start else by
            at -= NUMBERS

    def cut(self, first: int, stop: int) -> None:
        """Takes it into account that bytes `first` up to `stop` of the segment are cut out."""
        begin, end = _without(self.offset, first, stop), _without(self.stop, first, stop)
        self.offset, self.stop = begin, end
        closed = self._closed
        if closed is not None:
            for at in range(2, len(closed), NUMBERS):
                offset = closed[at] >> _HALF
                begin = _without(offset, first, stop)
                end = _without(offset + (closed[at] & _HALF_MAX), first, stop)
                closed[at] = begin << _HALF | (end - begin)

    def all_in(self, segment: int) -> list[Place]:
        """All of them, as they were noted."""
        closed = self._closed
        places: list[Place] = []
        if closed is not None:
            places = [_place(segment, closed, at) for at in range(0, len(closed), NUMBERS)]
        places.append(Place(segment, self.offset, self.stop - self.offset, self.first, self.last))
        return places

    def know_runs(self, position: int) -> int:
        """Takes note of how entries are ordered, if some may have the position.

        Returns what that takes in memory, beyond what it did.
        """
        closed = self._closed
        if closed is None or not self._lowest <= position <= self._highest:
            return 0
        taken, runs = 0, self._runs
        if runs is None:
            runs = self._runs = array("Q", [0])
            taken, self._known = _ARRAY_BYTES + _RUN_BYTES, 1
        count = len(closed) // NUMBERS
        for index in range(self._known, count):
            at, run = index * NUMBERS, runs[-1]
            ascends, descends = closed[at] > closed[at - 3], closed[at + 1] < closed[at - NUMBERS]
            if index - (run >> 1) == 1 and descends:
                runs[-1] = run | 1
            elif not (descends if run & 1 else ascends):
                runs.append(index << 1)
                taken += _RUN_BYTES
        self._known = count
        return taken

    def find_all(self, position: int, segment: int) -> list[Place]:
        """All entries that the position is in, the newest first, after `know_runs`."""
        places: list[Place] = []
        if self.first <= position <= self.last:
            places.append(
                Place(segment, self.offset, self.stop - self.offset, self.first, self.last)
            )
        closed, runs = self._closed, self._runs
        if closed is None or runs is None or not self._lowest <= position <= self._highest:
            return places
        end = self._known
        for run in reversed(runs):
            begin = run >> 1
            at = _search(closed, begin, end, position, bool(run & 1)) * NUMBERS
            if closed[at] <= position <= closed[at + 1]:
                places.append(_place(segment, closed, at))
            end = begin
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
        at = _search(closed, 0, len(closed) // NUMBERS, position, False) * NUMBERS
        return _place(segment, closed, at) if position <= closed[at + 1] else None


class Places:
    """The index of one segment."""

    __slots__ = ("_arrived", "_copied", "_fresh", "_stretch", "size")

    def __init__(self, stretch_bytes: int = STRETCH_BYTES) -> None:
        """`stretch_bytes`: as far as records are taken together."""
        self._stretch = stretch_bytes
        self._arrived: dict[FragmentId, Entries] = {}
        self._copied: dict[FragmentId, Entries] = {}
        #: One that has something of the chunk under way; it knows the others.
        self._fresh: Entries | None = None
        #: About what it takes in memory.
        self.size: int = 0

    def add(
        self, fragment: FragmentId, first: int, last: int, stop: int, length: int, copied: bool
    ) -> None:
        """Notes whole records up to byte `stop`, so many bytes, behind all that were noted."""
        entries = (self._copied if copied else self._arrived).get(fragment)
        if entries is not None and first > entries.last and stop - entries.offset <= self._stretch:
            entries.count += last - first + 1
            entries.last = last
            entries.taken += length
            entries.stop = stop
        elif entries is None or copied or first > entries.last:
            entries = self._begin(fragment, first, last, stop, length, copied)
        else:
            self.add(fragment, first, last, stop, length, True)
            return
        if entries.other is None:
            entries.other = self._fresh or entries
            self._fresh = entries

    def _begin(
        self, fragment: FragmentId, first: int, last: int, stop: int, length: int, copied: bool
    ) -> Entries:
        """Begins another entry, which may be the first one of the fragment."""
        table = self._copied if copied else self._arrived
        entries = table.get(fragment)
        if entries is None:
            entries = table[fragment] = Entries()
            self.size += _FIRST_BYTES
        else:
            self.size += entries.close()
        entries.begin(first, last, stop, length)
        return entries

    def finish_chunk(self, start: int, by: int) -> None:
        """Ends a chunk: what was noted behind byte `start` since the last one lies further on."""
        entries = self._fresh
        self._fresh = None
        while entries is not None:
            if by:
                entries.stop += by
                if entries.offset >= start:
                    entries.offset += by
                    entries.shift(start, by)
            other, entries.other = entries.other, None
            if other is entries:
                return
            entries = other

    def cut(self, first: int, stop: int) -> None:
        """Takes it into account that bytes `first` up to `stop` of the segment are cut out."""
        for table in (self._arrived, self._copied):
            for entries in table.values():
                entries.cut(first, stop)

    def tables(self) -> tuple[dict[FragmentId, Entries], dict[FragmentId, Entries]]:
        """The entries of each fragment: of what arrived, and of copies."""
        return self._arrived, self._copied

    def take_back(self, fragment: FragmentId, flat: "array[int]", copied: bool) -> None:
        """Takes the numbers of one fragment's entries, as `Entries.flat` gave them."""
        entries = Entries()
        self.size += entries.take_back(flat)
        (self._copied if copied else self._arrived)[fragment] = entries

    def of(self, fragment: FragmentId, segment: int) -> list[Place]:
        """All places of a fragment in the segment, which has this number: copies come last."""
        places: list[Place] = []
        for table in (self._arrived, self._copied):
            entries = table.get(fragment)
            if entries is not None:
                places += entries.all_in(segment)
        return places

    def weights(self, fragment: FragmentId) -> list[tuple[int, int, int, int]]:
        """First and last position of each place of a fragment, positions noted, their bytes."""
        found: list[tuple[int, int, int, int]] = []
        for table in (self._arrived, self._copied):
            entries = table.get(fragment)
            if entries is not None:
                flat = entries.flat()
                for at in range(0, len(flat), NUMBERS):
                    weight = flat[at + 3]
                    found.append((flat[at], flat[at + 1], weight >> _HALF, weight & _HALF_MAX))
        return found

    def taken(self, fragment: FragmentId) -> int:
        """What the records of a fragment take here, whatever has become of its messages."""
        size = 0
        for table in (self._arrived, self._copied):
            entries = table.get(fragment)
            if entries is not None:
                size += entries.closed_taken + entries.taken
        return size

    def fragments(self) -> list[FragmentId]:
        """The fragments that have places here."""
        return list(self._arrived | self._copied)

    def runs(self, fragment: FragmentId) -> list[tuple[int, int, int, int]]:
        """As `weights`, with places joined whose positions go on where those before end."""
        runs: list[tuple[int, int, int, int]] = []
        first = last = noted = taken = 0
        for begin, end, count, record_bytes in self.weights(fragment):
            if noted and begin == last + 1:
                last, noted, taken = end, noted + count, taken + record_bytes
                continue
            if noted:
                runs.append((first, last, noted, taken))
            first, last, noted, taken = begin, end, count, record_bytes
        if noted:
            runs.append((first, last, noted, taken))
        return runs

    def copies_at(self, fragment: FragmentId, position: int, segment: int) -> list[Place]:
        """Where a copy of the message may be in the segment, the newest first."""
        entries = self._copied.get(fragment)
        if entries is None:
            return []
        self.size += entries.know_runs(position)
        return entries.find_all(position, segment)

    def arrival_at(self, fragment: FragmentId, position: int, segment: int) -> Place | None:
        """Where in the segment the message may have come in."""
        entries = self._arrived.get(fragment)
        return entries.find(position, segment) if entries is not None else None


def _place(segment: int, flat: "array[int]", at: int) -> Place:
    where = flat[at + 2]
    return Place(segment, where >> _HALF, where & _HALF_MAX, flat[at], flat[at + 1])


def _search(flat: "array[int]", begin: int, end: int, position: int, descends: bool) -> int:
    """The only one of these entries, in order, that may have the position."""
    low, high = begin, end - 1
    while low < high:
        if descends:
            middle = (low + high) // 2
            if flat[middle * NUMBERS] <= position:
                high = middle
            else:
                low = middle + 1
        else:
            middle = (low + high + 1) // 2
            if flat[middle * NUMBERS] <= position:
                low = middle
            else:
                high = middle - 1
    return low


def _without(offset: int, first: int, stop: int) -> int:
    """Where a byte is once others are cut out."""
    return offset - max(0, min(offset, stop) - first)
