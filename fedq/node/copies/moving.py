"""Moving what little is alive out of segments that are mostly dead, so that they can go.

Inputs: ticks; what the last checkpoint found (`SegmentPlan.mostly_dead`). Outputs: the messages
that are alive in such a segment, appended anew as copied ones; once they are on disk, the segment
has nothing alive any more. That is log cleaning (Rosenblum and Ousterhout, 1992): the segment with
the least that is alive is moved, and only one of which less than half is, while more than half of
the journal is dead; so no byte that comes in makes more than one be written again.

A segment with rot is emptied likewise, however much of it is alive: what cannot be read there is
fetched from other copies (`fedq.node.copies.mending`).

Segments are moved one at a time, in pieces: a piece is not begun before the one before is on disk,
and is as large as half of what came in meanwhile, so that it keeps up. A message that is gone on
the way leaves a copy that is dead: what says so is younger than both. A segment that cannot be
moved, since something in it waits for a copy or for the disk, is tried again later, and the others
go on.
"""

from collections.abc import Iterator
from typing import Final

from fedq.core.errors import NodeFailure
from fedq.core.ids import FragmentId
from fedq.core.ranges import from_ranges, join_overlapping, to_ranges
from fedq.fragments.upkeep.alive import Found
from fedq.journal.records import encode_copy
from fedq.journal.rot import next_rotten
from fedq.journal.segments import Segment
from fedq.node.copies.held import (
    LOOK_SHIFT,
    Held,
    alive_in,
    content_of,
    find_held,
    has_failed_copy,
    has_much_dead,
    is_alive,
    is_in_journal,
    place_of,
)
from fedq.node.copies.mending import Mending
from fedq.node.copies.moving_from_disk import FromDisk, piece_bytes_min
from fedq.node.copies.reading_back import ReadingBack
from fedq.node.records.state import NodeState
from fedq.node.risk import Fault

#: What a piece may take of the journal's bound in memory.
PIECE_BYTES_MAX: Final = 8 << 20
#: How often it is asked whether something is to be moved; and after something failed.
_LOOK_EVERY_MS: Final = 1_000
_PAUSE_MS: Final = 60_000
#: What a fragment costs, in units of work; and bytes for one of them, as a shift.
_FRAGMENT_WORK: Final = 4
_BYTES_SHIFT: Final = 12


class Moving:
    """Moves one segment after the other."""

    __slots__ = (
        "_bytes_before", "_chunk", "_journey", "_mending", "_next_ms", "_reading", "_resting",
        "state",
    )  # fmt: skip

    def __init__(self, state: NodeState, mending: Mending, reading: ReadingBack) -> None:
        self.state = state
        self._mending = mending
        self._reading = reading
        #: The segment on the move; None: none is.
        self._journey: _Journey | None = None
        #: The chunk with its last piece, and what the journal had taken in by then.
        self._chunk = self._bytes_before = 0
        #: When to look for one; and, by number, when those are tried again that could not be moved.
        self._next_ms = 0
        self._resting: dict[int, int] = {}

    def tick(self) -> None:
        """Begins the next piece when the last one is on disk."""
        state = self.state
        journey = self._journey
        if state.chores.are_under_way(self) or state.synced < self._chunk:
            return
        if journey is not None and journey.from_disk.is_reading:
            return
        if journey is not None and journey.from_disk.failure:
            self.state.out.warnings.append(
                f"segment {journey.segment.number} of the journal stays as it is: "
                f"{journey.from_disk.failure}"
            )
            self._let_rest(journey)
            journey = None
        if journey is not None and journey.is_done:
            state.plan.moved(journey.segment)
            self._journey = journey = None
            self._next_ms = state.now_ms
        if journey is None:
            journey = self._journey = self._next()
            self._bytes_before = state.plan.bytes_written
        if journey is None:
            return
        came_in = state.plan.bytes_written - self._bytes_before
        journey.allowance = min(max(came_in // 2, piece_bytes_min(state)), PIECE_BYTES_MAX)
        state.chores.add_patient(self, _Piece(self, journey))

    def _next(self) -> "_Journey | None":
        """The segment to be moved next, if one has to be and there is room on the disk."""
        state = self.state
        if state.now_ms < self._next_ms or not state.plan.checkpoint or state.stopping:
            return None
        self._next_ms = state.now_ms + _LOOK_EVERY_MS
        if state.disk_low or state.disk_stalls or has_failed_copy(state):
            return None
        resting = self._resting = {n: ms for n, ms in self._resting.items() if state.now_ms < ms}
        segment = next_rotten(state.plan, resting)
        if segment is None and has_much_dead(state):
            segment = state.plan.mostly_dead(resting)
        if segment is None:
            return None
        return _Journey(state, segment, FromDisk(state, segment, self._mending, self._reading))

    def on_piece(self, journey: "_Journey") -> None:
        """Takes note that a piece is appended."""
        state = self.state
        # With the last piece, what is gone and was not copied must be on disk, too.
        chunk = state.plan.sync_all() if journey.is_done else journey.chunk
        if chunk:
            self._chunk = chunk
            state.sync_asked = max(state.sync_asked, chunk)
        self._bytes_before = state.plan.bytes_written

    def on_failed(self, journey: "_Journey", failure: Exception) -> None:
        """Leaves the segment as it is: what was copied of it is there twice, which is harmless."""
        text = "a segment of the journal was not moved; it is tried again later"
        self.state.out.faults.append(Fault(text, failure))
        self._let_rest(journey)

    def _let_rest(self, journey: "_Journey") -> None:
        """Gives the segment up for a while: others need not wait for it, and for the room in it."""
        self._resting[journey.segment.number] = self.state.now_ms + _PAUSE_MS
        self.give_up(_LOOK_EVERY_MS)

    def give_up(self, pause_ms: int) -> None:
        """Gives the segment up; looks for one again after that time."""
        self._journey = None
        self._next_ms = self.state.now_ms + pause_ms


class _Piece:
    """A chore: moves the next piece."""

    __slots__ = ("_journey", "_moving")

    def __init__(self, moving: Moving, journey: "_Journey") -> None:
        self._moving = moving
        self._journey = journey

    def go_on(self) -> bool:
        """Moves some; true when the piece is done."""
        moving, journey = self._moving, self._journey
        state = moving.state
        if state.stopping or has_failed_copy(state):
            # What is in memory need not be what is on the disk.
            moving.give_up(_PAUSE_MS)
            return True
        if not state.plan.holds(journey.segment):
            # It has died meanwhile.
            moving.give_up(0)
            return True
        try:
            is_done = journey.go_on()
        except (NodeFailure, MemoryError):
            raise
        except Exception as failure:
            if state.risk.is_open:
                raise
            moving.on_failed(journey, failure)
            return True
        if is_done:
            moving.on_piece(journey)
        return is_done


class _Journey:
    """A segment on the move, fragment by fragment."""

    __slots__ = (
        "_content", "_fragment", "_held", "_left", "_pieces", "_state", "allowance", "chunk",
        "from_disk", "is_done", "segment",
    )  # fmt: skip

    def __init__(self, state: NodeState, segment: Segment, from_disk: FromDisk) -> None:
        self._state = state
        self.segment = segment
        self._left = list(segment.spans)
        #: The fragment at hand, what this node has of it, and what is left to look at of that.
        self._fragment = FragmentId(0)
        self._held: Held | None = None
        self._content: object = None
        self._pieces: Iterator[Found] = iter(())
        #: What the piece at hand may still take; the last chunk that has some of it.
        self.allowance = self.chunk = 0
        #: All of it is appended.
        self.is_done = False
        #: What is not in memory.
        self.from_disk = from_disk

    def go_on(self) -> bool:
        """Moves some, until the piece is full or the work is spent; true when the piece is done."""
        state = self._state
        while self.allowance > 0:
            if self.from_disk.is_reading or self.from_disk.failure:
                return True
            self._append_read()
            held = find_held(state, self._fragment)
            content = content_of(held) if held is not None else None
            if self._held is None:
                if self.from_disk.ask(self.allowance):
                    return True
                if not self._left:
                    self.is_done = True
                    return True
                self._begin(self._left.pop())
            elif held is None or content is not self._content:
                # It is held otherwise by now, if at all: all of it is looked for there.
                self._begin(self._fragment)
            else:
                self._move_some(held)
            if state.work.is_spent:
                return self.allowance <= 0
        return True

    def _begin(self, fragment: FragmentId) -> None:
        state = self._state
        self._fragment = fragment
        held = self._held = find_held(state, fragment)
        self._content = content_of(held) if held is not None else None
        if held is None or not is_in_journal(held):
            self._held = None
            return
        flat = self.segment.spans[fragment]
        spans = [(flat[at], flat[at + 1]) for at in range(0, len(flat), 2) if flat[at + 1]]
        state.work.spend(_FRAGMENT_WORK + len(spans))
        self._pieces = alive_in(held, join_overlapping(spans))

    def _move_some(self, held: Held) -> None:
        """Appends what is found next."""
        state, fragment = self._state, self._fragment
        found = next(self._pieces, None)
        if found is None:
            self._held = None
            return
        state.work.spend(1 + (found.looked_at >> LOOK_SHIFT))
        here: dict[int, bytes] = {}
        away: list[int] = []
        for position in from_ranges(found.ranges):
            message = found.body(position)
            if message:
                here[position] = message
            elif message is not None:
                away.append(position)
        if away:
            self.from_disk.want(fragment, to_ranges(away))
        if here:
            self._append(fragment, held, here)

    def _append(self, fragment: FragmentId, held: Held, messages: dict[int, bytes]) -> None:
        """Appends messages anew."""
        positions = list(messages)
        reign = place_of(held).reign
        data = encode_copy(fragment, reign, positions, list(messages.values()), {})
        self.chunk = self._state.plan.append(
            fragment, data, True, positions[0], positions[-1], copied=True
        )
        self.allowance -= len(data)
        self._state.work.spend(len(data) >> _BYTES_SHIFT)

    def _append_read(self) -> None:
        """Appends what was read and is still alive."""
        for fragment, messages in self.from_disk.take_read():
            held = find_held(self._state, fragment)
            if held is not None and is_in_journal(held):
                alive = {p: message for p, message in messages.items() if is_alive(held, p)}
                if alive:
                    self._append(fragment, held, alive)
