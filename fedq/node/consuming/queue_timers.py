"""What a queue's policy does as time goes by, at the end of turns and with the clock.

Messages expire and become due, queues are cut to their length, and queues that nobody uses go
(`x-expires`): shared ones by their first fragment's primary, private ones here.

Changes fragments of this node; marks them, and sets `alarms`.
"""

import heapq
from typing import Final

from fedq.core.ids import FragmentId, QueueKey
from fedq.core.limits import DEAD_LETTERS_MAX, MIB
from fedq.core.versions import STREAM_TIMES
from fedq.fragments.fragment import Fragment
from fedq.fragments.streams.log import StreamLog
from fedq.fragments.upkeep import enforcement
from fedq.node.publishing.dead_letters import DeadLetters
from fedq.node.records.chores import Each
from fedq.node.records.private_queue import PrivateQueue
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState

#: What a message costs that dies, in units of work; how many may die however much was done.
DEATH_WORK: Final = 2
_DEATHS_MIN: Final = 100
#: What is read at a time of what is to become dead letters: so many messages, or bytes.
CALLED_UP_MAX: Final = 256
CALLED_UP_BYTES: Final = MIB
#: What it costs to look whether a queue is of use to anybody.
_LOOK_WORK: Final = 1
#: Turns for what expires are wanted at multiples of this: what expires together goes together.
DUE_STEP_MS: Final = 5


class QueueTimers:
    """Applies what queue policies ask as time goes by."""

    __slots__ = ("_armed", "_due", "letters", "state")

    def __init__(self, state: NodeState, letters: DeadLetters) -> None:
        self.state = state
        self.letters = letters
        #: The earliest alarm of each fragment.
        self._armed: dict[FragmentId, int] = {}
        #: When turns are wanted, as a heap; some of them in vain.
        self._due: list[int] = []

    # --- around the dispatch of a turn -------------------------------------------------------

    def before(self, fragment: Fragment) -> bool:
        """Does what is due and changes what can be handed out, before messages are.

        A message that came in this very turn, with no time to live, is still to be offered.
        False: so much is over that it takes several turns; nothing is to be handed out before.
        """
        if fragment.tracked is None:
            return True
        enforcement.wake(fragment, self.state.unix_ms)
        self._expire(fragment, self.state.unix_ms)
        due_ms = enforcement.expires_ms(fragment)
        if due_ms is None or due_ms >= self.state.unix_ms:
            return True
        self.state.marks.unfinished[fragment.fragment_id] = None
        return False

    def _expire(self, fragment: Fragment, before_ms: int) -> None:
        work = self.state.work
        work.spend(DEATH_WORK * enforcement.expire(fragment, before_ms, self._most()))

    def _most(self) -> int:
        """How many messages of a fragment may die in what is left of the turn; some in any case."""
        return max(_DEATHS_MIN, self.state.work.left // DEATH_WORK)

    def after(self, primary: Primary) -> None:
        """Applies the queue's limits to what nobody took, and sends the dead on their way."""
        fragment = primary.fragment
        if not self.state.serving or primary.holds_back:
            return
        self._enforce(fragment)
        if fragment.log is not None:
            self._look_after(fragment, fragment.log)
        if fragment.dying and primary.dying < CALLED_UP_MAX:
            self._call_up(fragment)
        tracked = fragment.tracked
        # A letter is written of the whole message, which may be on disk alone yet.
        if tracked is not None and fragment.out.dead and not tracked.absent:
            self.letters.send(primary)
            most = CALLED_UP_MAX if fragment.dying else DEAD_LETTERS_MAX
            if (fragment.out.dead or fragment.dying) and primary.dying < most:
                self.state.marks.unfinished[fragment.fragment_id] = None

    def after_private(self, private: PrivateQueue) -> None:
        """As `after`, for a queue of this node alone."""
        fragment = private.fragment
        excess = self._excess(private) if self.state.exclusive_waiting.bounds else 0
        if private.closes and (excess or enforcement.is_too_long(fragment)):
            # Its queue goes with it.
            self.state.overrun[private.owner] = private.key.name
            return
        if died := self._enforce(fragment) + (self._make_room(private) if excess else 0):
            private.dropped += died
            self.state.exclusive_dropped += died
        if fragment.dying:
            self._call_up(fragment)
        tracked = fragment.tracked
        if tracked is not None and fragment.out.dead and not tracked.absent:
            self.letters.send_private(private)
            if fragment.out.dead or fragment.dying:
                self.state.marks.unfinished[fragment.fragment_id] = None

    def is_in_excess(self, fragment: Fragment) -> bool:
        """Whether some of an exclusive queue has to go, as all of them have too many together."""
        private = self.state.private_by_id.get(fragment.fragment_id)
        if private is None or not self.state.exclusive_waiting.bounds:
            return False
        return self._excess(private) > 0

    def _excess(self, private: PrivateQueue) -> int:
        """How many of its messages have to go, as all such queues have too many together."""
        waiting = self.state.exclusive_waiting
        waiting.note(private)
        return waiting.excess(private) if waiting.is_over else 0

    def _make_room(self, private: PrivateQueue) -> int:
        """Lets its oldest messages die that others need the room of; returns how many."""
        fragment = private.fragment
        if not _gives_up(private):
            return 0
        # Its own length may have cost it enough.
        excess, most = self._excess(private), self._most()
        died = enforcement.drop_first(fragment, min(excess, most))
        self.state.work.spend(DEATH_WORK * died)
        if died == most:
            self.state.marks.unfinished[fragment.fragment_id] = None
        return died

    def _call_up(self, fragment: Fragment) -> None:
        """Has the next ones read that are to become dead letters, when the last ones have set out.

        Consumers get a turn in between.
        """
        if not fragment.out.dead and not fragment.shut:
            called = fragment.call_up(CALLED_UP_MAX, CALLED_UP_BYTES)
            self.state.work.spend(DEATH_WORK * called)

    def _look_after(self, fragment: Fragment, log: StreamLog) -> None:
        """Lets segments of a stream go that are too old, or too much; many in several turns.

        And notes of when messages came, if there are too many.
        """
        log.notes_times = self.state.all_speak(STREAM_TIMES)
        fragment.thin_out_times(log)
        if log.due or log.through:
            self._retain(fragment, log)

    def _retain(self, fragment: Fragment, log: StreamLog) -> None:
        log.retain(self.state.unix_ms)
        if log.through:
            most = self._most()
            gone = fragment.purge(log.through, most)
            self.state.work.spend(gone)
            if gone == most:
                self.state.marks.unfinished[fragment.fragment_id] = None
            else:
                log.through = 0

    def _enforce(self, fragment: Fragment) -> int:
        """Lets die what has to; returns how many of them the queue's length cost it."""
        policy, died = fragment.policy, 0
        if fragment.tracked is not None:
            self._expire(fragment, self.state.unix_ms + 1)
        if policy.max_length is not None or policy.max_bytes is not None:
            most = self._most()
            died = enforcement.trim(fragment, most)
            self.state.work.spend(DEATH_WORK * died)
            if died == most:
                self.state.marks.unfinished[fragment.fragment_id] = None
        if fragment.tracked is None:
            return died
        enforcement.sweep(fragment)
        next_ms = enforcement.next_ms(fragment)
        if next_ms is not None and self._arm(fragment.fragment_id, next_ms):
            heapq.heappush(self._due, -(-next_ms // DUE_STEP_MS) * DUE_STEP_MS)
        return died

    # --- the clock ---------------------------------------------------------------------------

    def look_again(self, primary: Primary, after_ms: int) -> None:
        """Has the fragment looked at then, or with the tick after that, though nothing happens."""
        self._arm(primary.fragment.fragment_id, self.state.unix_ms + after_ms)

    def look_at(self, fragment: FragmentId, after_ms: int) -> None:
        """Has the queue of a fragment that another node serves looked at then."""
        self._arm(fragment, self.state.unix_ms + after_ms)

    def _arm(self, fragment: FragmentId, when_ms: int) -> bool:
        """Notes when the fragment is to be looked at; false if it is looked at before then."""
        armed = self._armed.get(fragment)
        if armed is not None and when_ms >= armed:
            return False
        self._armed[fragment] = when_ms
        heapq.heappush(self.state.alarms, (when_ms, fragment))
        return True

    def due_ms(self) -> int:
        """When a turn is wanted for what expires or is due, by the clock of turns; 0: never.

        What else is to be looked at again waits for a tick.
        """
        if not self._due:
            return 0
        return self._due[0] - self.state.settings.unix_offset_ms

    def begin_turn(self) -> None:
        """Marks the fragments in which something expires, or is due, in this turn."""
        due, unix_ms = self._due, self.state.unix_ms
        if due and due[0] <= unix_ms:
            while due and due[0] <= unix_ms:
                heapq.heappop(due)
            self._ring()

    def tick(self) -> None:
        """Looks at all that is to be looked at again; private queues of no use go."""
        self._ring()
        self._drop_unused()
        self._look_for_room()

    def _ring(self) -> None:
        state, alarms = self.state, self.state.alarms
        while alarms and alarms[0][0] <= state.unix_ms:
            when, fragment = heapq.heappop(alarms)
            if self._armed.get(fragment) != when:
                continue
            del self._armed[fragment]
            private = state.private_by_id.get(fragment)
            if private is not None:
                state.marks.queues[private.key] = None
            elif fragment in state.primaries:
                state.marks.primaries[fragment] = None
            elif fragment in state.map.fragments:
                state.marks.queues[state.map.fragments[fragment].queue] = None

    def _look_for_room(self) -> None:
        """Looks through exclusive queues while they have too much together, the idle ones, too."""
        state = self.state
        waiting, chores = state.exclusive_waiting, state.chores
        if waiting.is_over and not chores.are_under_way(waiting):
            queues = state.nonempty_private.values()
            chores.add(waiting, Each(state.work, queues, self._look_at, _LOOK_WORK))

    def _look_at(self, private: PrivateQueue) -> None:
        if _gives_up(private) and self.state.exclusive_waiting.excess(private):
            self.state.marks.queues[private.key] = None

    def _drop_unused(self) -> None:
        state = self.state
        if state.expiring and not state.chores.are_under_way(self):
            looks = Each(state.work, state.expiring, self._drop_if_unused, _LOOK_WORK)
            state.chores.add(self, looks)

    def _drop_if_unused(self, key: QueueKey) -> None:
        state = self.state
        private = state.private.get(key)
        if private is None:
            return
        expires = private.policy.expires_ms
        if private.hub.size:
            private.used_ms = state.now_ms
        elif expires is not None and state.now_ms - private.used_ms >= expires:
            state.marks.unwanted[private.fragment.fragment_id] = None


def _gives_up(private: PrivateQueue) -> bool:
    """Whether it loses messages to others; not where its client wants publishes refused instead."""
    return private.keeps_oldest or not private.fragment.refuses
