"""Readers of queues: what is reserved for them, read, settled and released (docs/adr/0107).

    a tool --gRPC--> fedq.admin --on_asked--> a piece in turn --> records --committed--> answer
                                --on_read---> what is reserved, from memory ----------> answer

Inputs: calls and reads. Outputs: their answers. A call is answered once what it did is committed,
so it may be believed whoever leads next; one that was not answered may be repeated. Of a reader and
a fragment there is one call at a time, from its beginning to its answer: so what waits is bounded
by the names that a fragment knows.

Changes fragments of this node; marks them.
"""

from collections.abc import Callable
from typing import Final

from fedq.core.ids import FragmentId, QueueKey
from fedq.core.limits import MIB, RESERVED_AT_ONCE_BYTES_MAX, RESERVED_AT_ONCE_MAX, RESERVED_PIECE
from fedq.core.ranges import to_ranges
from fedq.core.versions import QUEUE_READERS
from fedq.fragments.fragment import Fragment
from fedq.fragments.singly.queue_readers import BATCH_MAX
from fedq.fragments.upkeep import reserving
from fedq.journal.records import NOTE_RESERVED
from fedq.node.consuming.queue_timers import QueueTimers
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState
from fedq.node.records.streams.reservations import (
    DONE,
    ELSEWHERE,
    NAMES_FULL,
    NOT_YET,
    ONE_CONSUMER,
    OVER,
    RELEASE,
    RESERVE,
    RESERVED_FULL,
    TAKEN,
    TOO_OLD,
    ReaderCall,
    Reserved,
    ReservedPart,
    ReservedRead,
)

#: What a message costs that is reserved, settled or released, in units of work.
_MESSAGE_WORK: Final = 4
#: Reserved messages that are looked at for a unit of work, as a shift; bytes that are gathered.
_LOOK_SHIFT: Final = 3
_BYTES_SHIFT: Final = 13
#: What may be reserved of a fragment while the node's memory is full, but for one message.
_BYTES_WHEN_FULL: Final = MIB
_NOTHING: Final = ReservedPart(ELSEWHERE, [], [], 0)


class QueueReading:
    """Answers the readers of queues of whose fragments this node is the primary."""

    __slots__ = ("_busy", "_promised", "_reads", "state", "timers")

    def __init__(self, state: NodeState, timers: QueueTimers) -> None:
        self.state = state
        self.timers = timers
        #: The names that wait for an answer, by fragment.
        self._busy: dict[FragmentId, dict[str, None]] = {}
        #: Answers that wait until an event is committed.
        self._promised: list[tuple[Primary, int, ReaderCall, Reserved]] = []
        #: Reads that wait for a body from the disk.
        self._reads: dict[ReservedRead, QueueKey] = {}

    def on_asked(self, queue: QueueKey, call: ReaderCall) -> None:
        """Takes a call; it is answered within a later turn, if it is not refused at once."""
        primary = self._primary_of(queue, call.fragment)
        if primary is None:
            call.answer(Reserved(ELSEWHERE))
            return
        busy = call.name in self._busy.get(call.fragment, ())
        verdict = NOT_YET if busy else self._refusal(primary, call)
        if verdict != DONE:
            call.answer(Reserved(verdict))
            return
        primary.used_ms = self.state.now_ms
        readers = primary.fragment.queue_readers
        if readers is None or not readers.number(call.name):
            # There is nothing to settle or to release of a name that nobody has.
            call.answer(Reserved(DONE, call.through))
            return
        self._busy.setdefault(call.fragment, {})[call.name] = None
        self.state.chores.begin(call, _Job(self, queue, primary, call))

    def on_release(self, queue: QueueKey, name: str, answer: Callable[[int | None], None]) -> None:
        """Puts back what is reserved for a reader in the fragments here; how much is answered.

        None: not of all of them, as one moves, or has a call of the reader under way.
        """
        info = self.state.map.queues.get(queue)
        numbers = info.fragments if info is not None else ()
        here = [fragment for fragment in numbers if fragment in self.state.primaries]
        tally = _Tally(len(here), answer)
        for fragment in here:
            self.on_asked(queue, ReaderCall(RELEASE, fragment, name, BATCH_MAX, tally.add))

    def on_read(self, queue: QueueKey, read: ReservedRead) -> None:
        """Takes a read; it is answered at once, unless a body has to come from the disk."""
        if not self._serve(queue, read):
            self._reads[read] = queue

    def on_read_done(self, read: ReservedRead) -> None:
        """Forgets a read for which nobody waits any more."""
        self._reads.pop(read, None)

    def tick(self) -> None:
        """Answers what is committed by now, and what has come from the disk."""
        if self._promised and self.state.serving:
            promised, self._promised = self._promised, []
            for each in promised:
                primary, event, call, answer = each
                if self.state.primaries.get(call.fragment) is not primary:
                    self._answer(call, Reserved(ELSEWHERE))
                elif primary.replication.commit >= event:
                    self._answer(call, answer)
                else:
                    self._promised.append(each)
        for read, queue in list(self._reads.items()):
            if self._serve(queue, read):
                self._reads.pop(read, None)

    def end(self, primary: Primary, call: ReaderCall, answer: Reserved) -> None:
        """A call was worked off: it is answered once that is committed."""
        if answer.verdict != DONE:
            self._answer(call, answer)
            return
        self._promised.append((primary, primary.fragment.last, call, answer))

    def _answer(self, call: ReaderCall, answer: Reserved) -> None:
        """Answers a call; its reader may have another one."""
        busy = self._busy[call.fragment]
        del busy[call.name]
        if not busy:
            del self._busy[call.fragment]
        call.answer(answer)

    def is_led(self, queue: QueueKey, primary: Primary) -> bool:
        """Whether this node still serves the fragment, in the same reign."""
        return self._primary_of(queue, primary.fragment.fragment_id) is primary

    def _primary_of(self, queue: QueueKey, fragment: FragmentId) -> Primary | None:
        primary = self.state.primaries.get(fragment)
        if primary is None or primary.queue != queue or primary.fragment.log is not None:
            return None
        return primary if self.state.serving else None

    def _refusal(self, primary: Primary, call: ReaderCall) -> int:
        """Why a call is refused; DONE: it is not."""
        if call.kind == RELEASE:
            return DONE
        if not self.state.all_speak(QUEUE_READERS):
            return TOO_OLD
        fragment = primary.fragment
        if call.kind == RESERVE:
            if fragment.policy.single_active or primary.takers.alone is not None:
                return ONE_CONSUMER
            self.look(fragment)
            under_way = self._busy.get(call.fragment, ())
            if not reserving.admit(fragment, call.name, call.through, under_way):
                return NAMES_FULL
        readers = fragment.queue_readers
        if readers is None or not readers.number(call.name):
            return DONE
        is_its_own = readers.claim(call.name, call.instance, call.begins)
        return DONE if is_its_own else TAKEN

    def _serve(self, queue: QueueKey, read: ReservedRead) -> bool:
        """Answers a read, if all that it is to have is in memory."""
        primary = self._primary_of(queue, read.fragment)
        if primary is None:
            read.answer(_NOTHING)
            return True
        fragment = primary.fragment
        readers, tracked = fragment.queue_readers, fragment.tracked
        if readers is None or not readers.number(read.name):
            read.answer(_NOTHING._replace(verdict=OVER))
            return True
        if readers.settled(read.name) >= read.through:
            read.answer(_NOTHING._replace(verdict=OVER))
            return True
        primary.used_ms = self.state.now_ms
        held = reserving.reserved(fragment, read.name, read.after, read.through)
        self.look(fragment)
        positions: list[int] = []
        messages: list[bytes] = []
        left, following = read.size, 0
        for position in held:
            if position < read.begin:
                continue
            if left <= 0:
                following = position
                break
            assert tracked is not None, "what is reserved is kept singly"
            message = tracked.messages[position]
            if not message:
                return False
            positions.append(position)
            messages.append(message)
            left -= len(message)
        self.state.work.spend(len(messages) + ((read.size - left) >> _BYTES_SHIFT))
        read.answer(ReservedPart(DONE, to_ranges(positions), messages, following))
        return True

    def look(self, fragment: Fragment) -> None:
        """Charges a walk over what is reserved."""
        self.state.work.spend(1 + (len(fragment.notes.get(NOTE_RESERVED, {})) >> _LOOK_SHIFT))


class _Tally:
    """Adds up answers, and tells the sum; None if one of them is a refusal."""

    __slots__ = ("_answer", "_count", "_left", "_whole")

    def __init__(self, left: int, answer: Callable[[int | None], None]) -> None:
        self._left = left
        self._count = 0
        self._whole = True
        self._answer = answer
        if not left:
            answer(0)

    def add(self, part: Reserved) -> None:
        """Takes an answer."""
        self._count += part.messages
        self._whole = self._whole and part.verdict == DONE
        self._left -= 1
        if not self._left:
            self._answer(self._count if self._whole else None)


class _Job:
    """A chore: does what a call asks for, a piece at a time.

    Between two pieces everything is as if the call had asked for less.
    """

    __slots__ = ("_call", "_count", "_going", "_left", "_primary", "_queue", "_reading", "_size")

    def __init__(
        self, reading: QueueReading, queue: QueueKey, primary: Primary, call: ReaderCall
    ) -> None:
        self._reading = reading
        self._queue = queue
        self._primary = primary
        self._call = call
        self._count = 0
        #: What is to be settled or released first, descending; None: it has not been looked up.
        self._going: list[int] | None = None
        #: How many messages may still be reserved, and of how many bytes; -1: that is not known.
        self._left, self._size = -1, 0

    def go_on(self) -> bool:
        """Does the next pieces."""
        work = self._reading.state.work
        while True:
            if not self._reading.is_led(self._queue, self._primary):
                return self._end(ELSEWHERE)
            if self._primary.handing_over or self._primary.seen_at > 0:
                # It moves: its next primary is to decide.
                return self._end(NOT_YET)
            if self._going is None or self._going:
                self._let_go()
            elif self._call.kind != RESERVE:
                return self._end(DONE, self._call.through)
            elif self._is_reserved():
                return True
            if work.is_spent:
                return False

    def _end(self, verdict: int, through: int = 0) -> bool:
        self._reading.end(self._primary, self._call, Reserved(verdict, through, self._count))
        return True

    def _let_go(self) -> None:
        """Settles, or releases, the next of what the call says is over."""
        call, fragment, state = self._call, self._primary.fragment, self._reading.state
        if self._going is None:
            self._reading.look(fragment)
            held = reserving.reserved(fragment, call.name, 0, call.through)
            self._going = list(reversed(held))
            through = call.through
            if call.kind == RELEASE:
                through = max(held.values(), default=0)
            # First of all: what is half gone must not be read again as a whole.
            reserving.raise_mark(fragment, call.name, through)
        piece = [self._going.pop() for _ in range(min(RESERVED_PIECE, len(self._going)))]
        if call.kind == RELEASE:
            reserving.release(fragment, piece)
        elif piece:
            reserving.settle(fragment, piece)
        if call.kind != RESERVE:
            self._count += len(piece)
        state.work.spend(_MESSAGE_WORK * len(piece))
        state.mark_fragment(fragment.fragment_id)

    def _is_reserved(self) -> bool:
        """Reserves the next ones; true when the call has ended."""
        call, fragment = self._call, self._primary.fragment
        readers = fragment.queue_readers
        assert readers is not None, "the reader was admitted"
        if self._left < 0:
            # What an earlier call has reserved is the next batch, all of it and nothing else.
            self._reading.look(fragment)
            held = reserving.reserved(fragment, call.name, call.through)
            if held:
                self._count = len(held)
                return self._end(DONE, max(held.values()))
            count, size = reserving.room(fragment)
            self._reading.look(fragment)
            self._left = min(call.most, RESERVED_AT_ONCE_MAX, count)
            self._size = min(RESERVED_AT_ONCE_BYTES_MAX, size)
            if self._reading.state.memory_full:
                # What is reserved cannot leave memory: one small batch at a time, of all readers.
                if fragment.notes.get(NOTE_RESERVED):
                    return self._end(NOT_YET)
                self._size = min(self._size, _BYTES_WHEN_FULL)
            if self._left <= 0 or self._size <= 0:
                return self._end(RESERVED_FULL)
        batch = max(readers.settled(call.name), call.through) + 1
        if batch > BATCH_MAX:
            return self._end(RESERVED_FULL)
        if not self._may_take():
            return self._end(DONE, batch) if self._count else self._end(NOT_YET)
        most = min(self._left, RESERVED_PIECE)
        count, size = reserving.reserve(fragment, call.name, batch, most, self._size)
        self._count += count
        self._left -= count
        self._size -= size
        state = self._reading.state
        state.work.spend(_MESSAGE_WORK * count)
        state.mark_fragment(fragment.fragment_id)
        if count and self._left > 0 and self._size > 0:
            return False
        if self._count:
            return self._end(DONE, batch)
        # What is next has to be read, or to be committed; or there is nothing.
        return self._end(NOT_YET) if fragment.ready_count else self._end(DONE, call.through)

    def _may_take(self) -> bool:
        primary = self._primary
        if primary.holds_back or primary.ending or primary.fragment.shut:
            return False
        return self._reading.timers.before(primary.fragment)
