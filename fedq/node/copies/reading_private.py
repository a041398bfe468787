"""Reading back what private queues have in scratch files, a little ahead of whoever takes it.

Inputs: private queues whose bodies have left memory; what the disk has read. Outputs: reads
(`NodeOut.reads`), one at a time for each queue and a few for all; messages in their places. What
fails to be read is read in pieces (`fedq.node.records.pieces`), so that what lies around a bad
sector is there. Nobody else has these, so what cannot be read after some tries is lost: named,
counted, and the rest goes on. A disk that does not answer is asked anew for a while, as it is for
other lines.

Changes private queues' fragments; marks them.
"""

from collections.abc import Iterable
from typing import Final

from fedq.core.ids import FragmentId, QueueKey
from fedq.core.limits import DEAD_LETTERS_MAX
from fedq.core.ranges import count
from fedq.fragments.fragment import Fragment
from fedq.fragments.runs.ranked import RankedFresh
from fedq.fragments.upkeep.stowing import (
    fill,
    is_over,
    is_partly_on_disk,
    lose,
    next_absent,
    next_stowed,
)
from fedq.fragments.upkeep.stowing_ranked import may_read
from fedq.journal.bodies import messages_in
from fedq.journal.places import Place
from fedq.node.copies.kept import kept_bytes
from fedq.node.records.pieces import ask_in_pieces
from fedq.node.records.private_queue import PrivateQueue
from fedq.node.records.roles import UNREAD_MS_MAX
from fedq.node.records.state import NodeState

#: Reads under way, of all queues.
_READS_MAX: Final = 16
#: How often a message is looked for, beyond once in each place, before it is lost.
_TRIES_MAX: Final = 3
_TOO_MANY: Final = 1 << 30
#: So many messages more than one are lost in one go.
_LOST_MAX: Final = 255
#: What a disk has failed to read is read anew every so often.
_RETRY_MS: Final = 500
#: Queues that are looked at for a unit of work, as a shift.
_LOOK_SHIFT: Final = 2
#: Bytes that are taken in for a unit of work, as a shift.
_BYTES_SHIFT: Final = 11


class _Reading:
    """One queue that has bodies on disk alone."""

    __slots__ = ("failed_ms", "is_under_way", "private", "reason", "rests_until_ms", "tries")

    def __init__(self, private: PrivateQueue) -> None:
        self.private = private
        self.is_under_way = False
        #: How often the next message was looked for in vain, and why.
        self.tries = 0
        self.reason = "nothing says where it is"
        #: Since when the disk has failed, 0: it has not; and until when it is left alone.
        self.failed_ms = self.rests_until_ms = 0


class ReadingPrivate:
    """Reads ahead for private queues that have bodies on disk alone."""

    __slots__ = ("_readings", "_under_way", "state")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        self._readings: dict[QueueKey, _Reading] = {}
        self._under_way = 0

    def has_some(self) -> bool:
        """Whether any queue has bodies on disk alone."""
        return bool(self._readings)

    def begin(self, private: PrivateQueue) -> None:
        """Takes note that bodies of the queue have left memory."""
        known = self._readings.get(private.key)
        if known is None or known.private is not private:
            self._readings[private.key] = _Reading(private)

    def look_at(self, queues: Iterable[QueueKey]) -> None:
        """Asks for what is next in these queues, if that is on disk alone."""
        for key in queues:
            reading = self._readings.get(key)
            if reading is not None:
                self._look(reading)

    def tick(self) -> None:
        """Looks at all of them: some may have had to wait for others, or for the disk."""
        readings = list(self._readings.values())
        self.state.work.spend(len(readings) >> _LOOK_SHIFT)
        for reading in readings:
            self._look(reading)

    def _look(self, reading: _Reading) -> None:
        state, private = self.state, reading.private
        fragment = private.fragment
        if reading.is_under_way:
            return
        if state.private.get(private.key) is not private or not is_partly_on_disk(fragment):
            if self._readings.get(private.key) is reading:
                del self._readings[private.key]
            return
        if state.now_ms < reading.rests_until_ms or self._under_way >= _READS_MAX:
            return
        first = self._next(fragment)
        if first is None:
            return
        places = state.scratch.places_of(fragment.fragment_id, first)
        if reading.tries >= len(places) + _TRIES_MAX or not places:
            self._lose(reading, first, places)
            return
        place = places[reading.tries % len(places)]
        reading.is_under_way = True
        self._under_way += 1
        piece = _Piece(self, reading, first, place)
        ask_in_pieces(state, place, piece)

    def _next(self, fragment: Fragment) -> int | None:
        """The position of the message that is to be read next; None: enough is here."""
        absent = next_absent(fragment, 0)
        if absent is not None:
            return absent
        stowed = next_stowed(fragment)
        if stowed is None:
            return None
        over = is_over(fragment, stowed, self.state.unix_ms)
        if over and len(fragment.out.dead) >= DEAD_LETTERS_MAX:
            return None
        if not may_read(fragment, self.state.memory_full):
            return None
        if fragment.must_read or fragment.bytes_at_hand < kept_bytes(self.state) >> 1:
            return stowed
        return None

    # --- answers -----------------------------------------------------------------------------

    def on_read(
        self, reading: _Reading, first: int, place: Place, data: bytes, failure: str = ""
    ) -> None:
        """Takes in what was read; `failure`: why some of it could not be."""
        state, private = self.state, reading.private
        self._answered(reading)
        if state.private.get(private.key) is not private:
            return
        identity = private.fragment.fragment_id
        state.work.spend(1 + (len(data) >> _BYTES_SHIFT))
        bodies, reasons = messages_in(data, identity, first, place.last)
        state.risk.begin()
        is_awaited = private.fragment.must_read
        size = fill(private.fragment, bodies)
        # Whoever waits for it may keep it: memory is looked at as if it had come from a client.
        state.bytes_taken += size if is_awaited else 0
        state.risk.end()
        if failure and first not in bodies:
            self._note_failure(reading, failure)
            return
        if not failure:
            reading.failed_ms = 0
        reading.tries = 0 if first in bodies else reading.tries + 1
        if reasons:
            reading.reason = reasons[0]
        state.mark_fragment(identity)

    def on_read_failed(self, reading: _Reading, reason: str) -> None:
        """Takes note that nothing was read."""
        self._answered(reading)
        self._note_failure(reading, reason)

    def _note_failure(self, reading: _Reading, reason: str) -> None:
        """Leaves the disk alone for a moment; what it does not answer for long is lost."""
        state = self.state
        reading.reason = reason
        reading.rests_until_ms = state.now_ms + _RETRY_MS
        if not reading.failed_ms:
            reading.failed_ms = state.now_ms
        elif state.now_ms - reading.failed_ms >= UNREAD_MS_MAX:
            reading.tries = _TOO_MANY

    def _answered(self, reading: _Reading) -> None:
        reading.is_under_way = False
        self._under_way -= 1

    def _lose(self, reading: _Reading, first: int, places: list[Place]) -> None:
        """Gives up a message, and those behind it in the same places; and says so."""
        state, private = self.state, reading.private
        identity: FragmentId = private.fragment.fragment_id
        end, fresh = first, private.fragment.fresh
        # Where messages have priorities, others there may have been read and left.
        most = 0 if isinstance(fresh, RankedFresh) else _LOST_MAX
        while end < first + most and state.scratch.places_of(identity, end + 1) == places:
            end += 1
        state.risk.begin()
        lost = count(lose(private.fragment, first, end))
        state.risk.end()
        state.messages_lost += lost
        text = (
            f"{lost} messages of the exclusive queue {private.key.name!r} in "
            f"{private.key.vhost!r} cannot be read from scratch files, and are lost: "
            f"{reading.reason}"
        )
        state.out.warnings.append(text)
        state.found[f"lost {identity}"] = (text, state.now_ms)
        reading.tries = 0
        state.mark_fragment(identity)


class _Piece:
    """A read that is under way for a private queue."""

    __slots__ = ("_back", "_first", "_place", "_reading")

    def __init__(self, back: ReadingPrivate, reading: _Reading, first: int, place: Place) -> None:
        self._back = back
        self._reading = reading
        self._first = first
        self._place = place

    def on_read(self, data: bytes) -> None:
        """Hands on what was read."""
        self._back.on_read(self._reading, self._first, self._place, data)

    def on_read_in_part(self, data: bytes, reason: str) -> None:
        """Hands on what was read, and why not all of it was."""
        self._back.on_read(self._reading, self._first, self._place, data, reason)

    def on_read_failed(self, reason: str) -> None:
        """Hands on why nothing was read."""
        self._back.on_read_failed(self._reading, reason)
