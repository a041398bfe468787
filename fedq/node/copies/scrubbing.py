"""The scrub: reads what was written long ago, slowly, to find rot before somebody needs it.

Inputs: ticks; what the disk has read. Outputs: reads of full segments, one after the other, so many
bytes a second; which of them have rot. Such a segment is emptied (`fedq.node.copies.moving`): what
is alive in it is written anew, from memory, from the disk, or from another copy, and the file goes,
with the damage and with what was dead. So the first damage in a segment is enough to know.

A pass begins `scrub_every_ms` after the one before began, or when that one ends, and reads what
was full by then: what has just been written is not looked at again before the next one.
"""

from typing import Final

from fedq.core.limits import KIB
from fedq.journal.frame_check import FrameCheck
from fedq.journal.rot import next_full, note_rot
from fedq.node.records.state import NodeState

#: What is read in one go.
_READ_BYTES: Final = 64 * KIB
#: What may be read at once after a time in which nothing could be.
_BURST_MS: Final = 250
_SECOND_MS: Final = 1_000
#: Frames, and bytes, that are checked for a unit of work, as shifts.
_FRAMES_SHIFT: Final = 2
_BYTES_SHIFT: Final = 11


class Scrubbing:
    """Reads the journal through, again and again."""

    __slots__ = (
        "_allowed", "_asked_at", "_check", "_is_reading", "_last", "_next_pass_ms", "_segment",
        "_then_ms", "state",
    )  # fmt: skip

    def __init__(self, state: NodeState) -> None:
        self.state = state
        #: The segment at hand, or the last one that was; and how far it was checked.
        self._segment = 0
        #: The last one of this pass.
        self._last = 0
        self._check: FrameCheck | None = None
        self._is_reading = False
        #: Thousandths of bytes that may be read by now, and when that was counted.
        self._allowed = self._then_ms = 0
        self._next_pass_ms = 0
        #: The segment that was being filled when the disk was asked to sync the others.
        self._asked_at = 0

    def tick(self) -> None:
        """Reads on, as far as the rate allows."""
        state = self.state
        rate = state.settings.scrub_bytes_per_second
        if not rate or state.stopping or state.disk_stalls:
            return
        most = max(rate * _BURST_MS, _READ_BYTES * _SECOND_MS)
        self._allowed = min(most, self._allowed + rate * (state.now_ms - self._then_ms))
        self._then_ms = state.now_ms
        if not self._is_reading:
            self._go_on()

    def _go_on(self) -> None:
        """Asks for the next piece, if the rate allows it."""
        state = self.state
        if self._check is None and not self._begin_next():
            return
        check = self._check
        # internal: `_begin_next` has begun one.
        assert check is not None
        length = min(_READ_BYTES, check.size - check.at)
        if length * _SECOND_MS > self._allowed:
            return
        self._allowed -= length * _SECOND_MS
        self._is_reading = True
        state.reads.ask(self._segment, check.at, length, self, from_disk=True)

    def _begin_next(self) -> bool:
        """Begins with the next segment, or the next pass; false if nothing is due."""
        state, scrub = self.state, self.state.scrub
        if not self._segment and (state.now_ms < self._next_pass_ms or not self._is_on_disk()):
            return False
        segment = next_full(state.plan, self._segment)
        if segment is not None and not self._segment:
            self._next_pass_ms = state.now_ms + state.settings.scrub_every_ms
            self._last = state.plan.full[-1].number
            scrub.pass_bytes = 0
        if segment is None or segment.number > self._last:
            if self._segment:
                scrub.passes += 1
                scrub.last_pass_unix_ms = state.unix_ms
            self._segment = scrub.segment = 0
            return False
        self._segment = scrub.segment = segment.number
        self._check = FrameCheck(segment.size)
        return True

    def _is_on_disk(self) -> bool:
        """Whether all full segments are known to be on disk; asks the disk, where nobody else has.

        What was acknowledged since the last publish may stay unsynced for as long as there is none.
        """
        state, plan = self.state, self.state.plan
        if not plan.full or plan.full[-1].number < plan.synced_segment:
            return True
        if state.synced >= state.sync_asked and plan.newest > self._asked_at:
            self._asked_at = plan.newest
            state.sync_asked = plan.sync_all()
        return False

    def on_read(self, data: bytes) -> None:
        """Checks what was read."""
        state, check = self.state, self._check
        self._is_reading = False
        # internal: it was asked for with a check only.
        assert check is not None
        before = check.count
        is_whole = check.take(data)
        state.work.spend(1 + (check.count - before >> _FRAMES_SHIFT) + (len(data) >> _BYTES_SHIFT))
        state.scrub.pass_bytes += len(data)
        state.scrub.bytes_read += len(data)
        if not is_whole:
            self._on_rot(f"the record at byte {check.begin} is not what was written")
        elif check.is_done:
            self._check = None
        if not state.work.is_spent:
            self._go_on()

    def on_read_failed(self, reason: str) -> None:
        """Takes it for rot, unless the segment is gone."""
        self._is_reading = False
        check = self._check
        if check is not None:
            self._on_rot(f"it cannot be read from byte {check.at} on: {reason}")

    def _on_rot(self, why: str) -> None:
        """Has the segment emptied; goes on with the next one."""
        state, number = self.state, self._segment
        self._check = None
        if not note_rot(state.plan, number):
            return
        state.scrub.found += 1
        text = (
            f"segment {number} of the journal has rot: {why}; what is alive in it is written anew, "
            "from memory or from other copies; check the disk"
        )
        state.out.warnings.append(text)
        state.found["rot"] = (text, state.now_ms)
