"""Where in a segment the messages of each fragment lie, so that a body can be read by itself.

Inputs: records as they are appended, with the positions of their messages and the bytes that they
take. Outputs: places, which `fedq.journal.bodies` takes the messages out of. Invariants:

* What was noted is found: no position between an entry's first and last that was noted with it lies
  outside its bytes. The reverse does not hold: positions that are gone, or are elsewhere, may be
  between them. So an entry says that a message *may* be here.
* An entry is 32 bytes, and stands for up to `STRETCH_BYTES` of the segment, or for one append that
  is longer. So the index of a segment that one fragment fills is a two-thousandth of it.
* Entries of what arrived ascend, in positions as in bytes. What does not fit behind the last one is
  kept with the copies, which come in any order, and of which the newest is the one that counts.
"""

from array import array
from typing import Final, NamedTuple, TypeAlias

from fedq.core.ids import FragmentId

#: As far as records are taken together. A disk reads that much in about the time that it takes to
#: find the place, and more would be read for nothing where a single message is wanted.
STRETCH_BYTES: Final = 65_536
#: Numbers of an entry: first position, last position, offset, length.
_NUMBERS: Final = 4
_ENTRY_BYTES: Final = 32
#: What the first entry of a fragment takes beside itself: an array, and a row in a table.
_TABLE_BYTES: Final = 184

#: Positions of a fragment, where the bytes begin and end, and whether they are old messages.
Noted: TypeAlias = tuple[FragmentId, int, int, int, int, bool]


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

    __slots__ = ("_arrived", "_copied", "size")

    def __init__(self) -> None:
        self._arrived: dict[FragmentId, array[int]] = {}
        self._copied: dict[FragmentId, array[int]] = {}
        #: About what it takes in memory.
        self.size: int = 0

    def note(self, noted: list[Noted], shift: int) -> None:
        """Notes what was appended, in order; it lies `shift` bytes further on than it says."""
        for fragment, first, last, start, stop, copied in noted:
            self.add(fragment, first, last, start + shift, stop + shift, copied)

    def add(
        self, fragment: FragmentId, first: int, last: int, start: int, stop: int, copied: bool
    ) -> None:
        """Notes whole records from byte `start` up to `stop`, behind all that were noted."""
        table = self._copied if copied else self._arrived
        flat = table.get(fragment)
        if flat is None:
            table[fragment] = array("Q", (first, last, start, stop - start))
            self.size += _TABLE_BYTES + _ENTRY_BYTES
            return
        if first > flat[-3]:
            offset = flat[-2]
            if stop - offset <= STRETCH_BYTES:
                flat[-3] = last
                flat[-1] = stop - offset
                return
        elif not copied:
            self.add(fragment, first, last, start, stop, True)
            return
        flat.extend((first, last, start, stop - start))
        self.size += _ENTRY_BYTES

    def of(self, fragment: FragmentId, segment: int) -> list[Place]:
        """All places of a fragment in the segment, which has this number: copies come last."""
        places: list[Place] = []
        for table in (self._arrived, self._copied):
            flat = table.get(fragment)
            if flat is not None:
                places += [_place(segment, flat, at) for at in range(0, len(flat), _NUMBERS)]
        return places

    def copies_at(self, fragment: FragmentId, position: int, segment: int) -> list[Place]:
        """Where a copy of the message may be in the segment, the newest first."""
        flat = self._copied.get(fragment)
        if flat is None:
            return []
        return [
            _place(segment, flat, at)
            for at in range(len(flat) - _NUMBERS, -1, -_NUMBERS)
            if flat[at] <= position <= flat[at + 1]
        ]

    def arrival_at(self, fragment: FragmentId, position: int, segment: int) -> Place | None:
        """Where in the segment the message may have come in."""
        flat = self._arrived.get(fragment)
        if flat is None or not flat[0] <= position <= flat[-3]:
            return None
        low, high = 0, len(flat) // _NUMBERS - 1
        while low < high:
            middle = (low + high + 1) // 2
            if flat[middle * _NUMBERS] <= position:
                low = middle
            else:
                high = middle - 1
        at = low * _NUMBERS
        return _place(segment, flat, at) if position <= flat[at + 1] else None


def _place(segment: int, flat: "array[int]", at: int) -> Place:
    return Place(segment, flat[at + 2], flat[at + 3], flat[at], flat[at + 1])
