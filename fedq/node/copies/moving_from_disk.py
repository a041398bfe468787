"""What a segment that is to be moved has of messages that are on disk alone: read from there.

Inputs: positions that are alive and not in memory; what the disk has read. Outputs: reads of that
very segment, a few at a time, and the messages. What cannot be read fails: then the segment stays.
"""

from typing import Final

from fedq.core.ids import FragmentId
from fedq.core.limits import MIB
from fedq.core.ranges import Range, count, is_in, overlaps
from fedq.journal.bodies import messages_in
from fedq.journal.places import Place
from fedq.journal.segments import Segment
from fedq.node.records.state import NodeState

#: How much is read in one go.
_READ_BYTES: Final = MIB
#: Bytes that are taken apart for a unit of work, as a shift.
_BYTES_SHIFT: Final = 11


class FromDisk:
    """Reads for one segment on the move."""

    __slots__ = ("_read", "_segment", "_state", "_under_way", "_wanted", "failure")

    def __init__(self, state: NodeState, segment: Segment) -> None:
        self._state = state
        self._segment = segment
        #: What is to be read: where, and which positions of that, ascending.
        self._wanted: list[tuple[FragmentId, Place, list[Range]]] = []
        self._read: list[tuple[FragmentId, dict[int, bytes]]] = []
        self._under_way = 0
        #: Why something could not be read; empty: nothing failed.
        self.failure = ""

    @property
    def is_reading(self) -> bool:
        """Whether answers are waited for."""
        return self._under_way > 0

    def want(self, fragment: FragmentId, ranges: list[Range]) -> None:
        """Wants messages of a fragment (ascending), as far as this segment has them."""
        for place in self._state.plan.locate_in(fragment, self._segment.number):
            within = overlaps([(place.first, place.last)], ranges)
            if not within:
                continue
            if self._wanted and _may_join(self._wanted[-1], fragment, place):
                _, before, known = self._wanted[-1]
                length = place.offset + place.length - before.offset
                joined = before._replace(
                    length=length,
                    first=min(before.first, place.first),
                    last=max(before.last, place.last),
                )
                self._wanted[-1] = (fragment, joined, [*known, *within])
            else:
                self._wanted.append((fragment, place, within))

    def ask(self, allowance: int) -> bool:
        """Asks for the next of what is wanted, about so many bytes; false if nothing is."""
        asked = 0
        while self._wanted and asked < allowance:
            fragment, place, ranges = self._wanted.pop()
            asked += place.length
            self._under_way += 1
            piece = _Piece(self, fragment, place, ranges)
            self._state.reads.ask(place.segment, place.offset, place.length, piece)
        return asked > 0

    def take_read(self) -> list[tuple[FragmentId, dict[int, bytes]]]:
        """What was read since: messages by ascending position, of each piece."""
        read, self._read = self._read, []
        return read

    def on_read(self, fragment: FragmentId, place: Place, ranges: list[Range], data: bytes) -> None:
        """Takes apart what was read."""
        self._under_way -= 1
        self._state.work.spend(1 + (len(data) >> _BYTES_SHIFT))
        found, reasons = messages_in(data, fragment, place.first, place.last)
        bodies = {p: message for p, message in found.items() if is_in(ranges, p)}
        if reasons and len(bodies) < count(ranges):
            self.failure = f"fragment {fragment}, from byte {place.offset} on: {reasons[0]}"
        self._read.append((fragment, bodies))

    def on_read_failed(self, reason: str) -> None:
        """Takes note that something could not be read."""
        self._under_way -= 1
        self.failure = reason


def _may_join(
    wanted: tuple[FragmentId, Place, list[Range]], fragment: FragmentId, place: Place
) -> bool:
    """Whether a place is read together with the one before it."""
    known, before, ranges = wanted
    return (
        known == fragment
        and before.offset < place.offset
        and place.offset + place.length - before.offset <= _READ_BYTES
        and ranges[-1][1] < place.first
    )


class _Piece:
    """A read that is under way for a segment on the move."""

    __slots__ = ("_fragment", "_from_disk", "_place", "_ranges")

    def __init__(
        self, from_disk: FromDisk, fragment: FragmentId, place: Place, ranges: list[Range]
    ) -> None:
        self._from_disk = from_disk
        self._fragment = fragment
        self._place = place
        self._ranges = ranges

    def on_read(self, data: bytes) -> None:
        """Hands on what was read."""
        self._from_disk.on_read(self._fragment, self._place, self._ranges, data)

    def on_read_failed(self, reason: str) -> None:
        """Hands on why nothing was read."""
        self._from_disk.on_read_failed(reason)
