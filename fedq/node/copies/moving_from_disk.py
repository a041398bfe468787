"""What a segment that is to be moved has of messages that are on disk alone: read from there.

Inputs: positions that are alive and not in memory; what the disk has read. Outputs: reads of that
very segment, a few at a time, and the messages. Where something cannot be read, each place is read
by itself, and that in pieces (`fedq.node.records.pieces`). What cannot be read then is asked for
from other copies; what nobody has is lost, if this node serves the fragment and has it nowhere
else. If it is not known whether somebody has it, or the disk may be read again soon, the segment
stays, and is tried again later.
"""

from typing import Final

from fedq.core.ids import FragmentId
from fedq.core.limits import MIB
from fedq.core.ranges import Range, count, from_ranges, is_in, minus, overlaps, to_ranges
from fedq.journal.places import Place
from fedq.journal.rot import is_full, note_rot
from fedq.journal.segments import Segment
from fedq.node.copies.held import find_held, is_alive
from fedq.node.copies.mending import Mending
from fedq.node.copies.reading_back import ReadingBack
from fedq.node.records.disk.reads import messages_of
from fedq.node.records.pieces import ask_in_pieces
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState

#: Bytes of a piece at least, and of what is read in one go (`NodeSettings.piece_bytes`).
PIECE_BYTES_MIN: Final = MIB
#: Bytes that are taken apart for a unit of work, as a shift.
_BYTES_SHIFT: Final = 11


class FromDisk:
    """Reads for one segment on the move."""

    __slots__ = (
        "_mending", "_read", "_reading", "_segment", "_state", "_under_way", "_wanted", "failure",
    )  # fmt: skip

    def __init__(
        self, state: NodeState, segment: Segment, mending: Mending, reading: ReadingBack
    ) -> None:
        self._state = state
        self._mending = mending
        self._reading = reading
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
        most = piece_bytes_min(self._state)
        for place in self._state.plan.locate_in(fragment, self._segment.number):
            within = overlaps([(place.first, place.last)], ranges)
            if not within:
                continue
            if self._wanted and _may_join(self._wanted[-1], fragment, place, most):
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
        """Asks for the next of what is wanted, about so many bytes; false if nothing is wanted."""
        if not self._wanted:
            return False
        asked = 0
        while self._wanted and asked < allowance:
            fragment, place, ranges = self._wanted.pop()
            asked += place.length
            self._under_way += 1
            ask_in_pieces(self._state, place, _Piece(self, fragment, place, ranges))
        return True

    def take_read(self) -> list[tuple[FragmentId, dict[int, bytes]]]:
        """What was read since: messages by ascending position, of each piece."""
        read, self._read = self._read, []
        return read

    def on_read(
        self, fragment: FragmentId, place: Place, ranges: list[Range], data: bytes,
        failure: str = "",
    ) -> None:  # fmt: skip
        """Takes apart what was read; `failure`: why some of it could not be."""
        self._under_way -= 1
        self._state.work.spend(1 + (len(data) >> _BYTES_SHIFT))
        found, reasons = messages_of(self._state.plan, fragment, place, data, place.first)
        bodies = {p: message for p, message in found.items() if is_in(ranges, p)}
        self._read.append((fragment, bodies))
        if len(bodies) == count(ranges):
            return
        missing = minus(ranges, [(position, position) for position in bodies])
        if reasons or failure:
            # Of a head that is not all there it cannot be seen whose it was.
            what = failure or reasons[0]
        else:
            # So of one that names another fragment now: it was stepped over as one of that.
            self._state.work.spend(count(missing))
            missing = to_ranges(p for p in from_ranges(missing) if self._is_only_here(fragment, p))
            what = "a record says that it is of another fragment"
        if missing:
            why = f"segment {self._segment.number}, from byte {place.offset} on: {what}"
            self._on_missing(fragment, place, missing, why, failure != "")

    def on_read_failed(
        self, fragment: FragmentId, place: Place, ranges: list[Range], reason: str
    ) -> None:
        """Looks for what could not be read, if the segment is still there."""
        self._under_way -= 1
        if is_full(self._state.plan, self._segment.number):
            self._on_missing(fragment, place, ranges, reason, True)

    def _on_missing(
        self, fragment: FragmentId, place: Place, ranges: list[Range], why: str, has_failed: bool
    ) -> None:
        """Has each place read by itself that was read with others; or asks others for messages.

        `has_failed`: the disk has, and not only given back something else than was written.
        """
        known = self._state.plan.locate_in(fragment, self._segment.number)
        if any((each.offset, each.length) == (place.offset, place.length) for each in known):
            # Copies may lie within one that is by itself, at positions around those it lacks.
            known = []
        parts = [
            (fragment, part, within)
            for part in known
            if _is_part(part, place) and (within := overlaps([(part.first, part.last)], ranges))
        ]
        self._wanted += parts
        positions = list(from_ranges(minus(ranges, [r for part in parts for r in part[2]])))
        if not positions:
            return
        held = find_held(self._state, fragment)
        if has_failed and isinstance(held, Primary):
            held.note_unread(positions[0], self._state.now_ms)
        self._mend(fragment, positions, why)

    def _mend(self, fragment: FragmentId, positions: list[int], why: str) -> None:
        note_rot(self._state.plan, self._segment.number)
        self._under_way += 1

        def on_done(left: list[int], is_silent: bool) -> None:
            self._under_way -= 1
            self._on_mended(fragment, left, is_silent, why)

        self._mending.ask(fragment, positions, on_done, fills=False)

    def _on_mended(self, fragment: FragmentId, left: list[int], is_silent: bool, why: str) -> None:
        """Gives up what nobody has, but for what may be elsewhere on this disk."""
        held = find_held(self._state, fragment)
        if held is None:
            return
        alive = [position for position in left if is_alive(held, position)]
        if alive and (
            is_silent or not isinstance(held, Primary) or held.may_be_read_yet(self._state.now_ms)
        ):
            self.failure = (
                f"{len(alive)} messages of fragment {fragment} wait for a copy, or for the disk: "
                f"{why}"
            )
            return
        only_here = [p for p in alive if self._is_only_here(fragment, p)]
        if only_here and isinstance(held, Primary):
            self._reading.lose(held, only_here, why)

    def _is_only_here(self, fragment: FragmentId, position: int) -> bool:
        """Whether it is in no other segment, and at no other place of this one."""
        places = self._state.plan.locate_all(fragment, position)
        return len(places) <= 1 and all(p.segment == self._segment.number for p in places)


def piece_bytes_min(state: NodeState) -> int:
    """Bytes of a piece of a segment on the move, at least."""
    return state.settings.piece_bytes(PIECE_BYTES_MIN)


def _is_part(part: Place, place: Place) -> bool:
    """Whether a place is one of several that were put together."""
    end = place.offset + place.length
    is_within = place.offset <= part.offset and part.offset + part.length <= end
    return is_within and part.length < place.length


def _may_join(
    wanted: tuple[FragmentId, Place, list[Range]], fragment: FragmentId, place: Place, most: int
) -> bool:
    """Whether a place is read together with the one before it, so many bytes in one go."""
    known, before, ranges = wanted
    return (
        known == fragment
        and before.offset < place.offset
        and place.offset + place.length - before.offset <= most
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

    def on_read_in_part(self, data: bytes, reason: str) -> None:
        """Hands on what was read, and why not all of it was."""
        self._from_disk.on_read(self._fragment, self._place, self._ranges, data, reason)

    def on_read_failed(self, reason: str) -> None:
        """Hands on why nothing was read."""
        self._from_disk.on_read_failed(self._fragment, self._place, self._ranges, reason)
