"""Dead letters: from a fragment of this node through the dead-letter exchange to other queues.

    fragment.out.dead -> rewritten (x-death) -> route, without those it came round from -> outlets
    committed there -> gone here

A dead message stays in its fragment, out of reach, until its successor is committed wherever it
goes; so a failover in between repeats the dead-lettering and loses nothing. At most
`limits.DEAD_LETTERS_MAX` of a fragment are on their way at once, and a turn sends only so many
(`fedq.node.consuming.queue_timers` comes back for the rest).

A message that cannot be made a dead letter is set aside: it stays in its fragment, on all copies,
out of everybody's reach, and no primary tries it again.

Changes fragments of this node; publishes through `fedq.node.publishing.outlets`.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from fedq.amqp.rewriting import copies_of, cycled_queues, dead_letter, stripped_letter
from fedq.channels.confirms import ConfirmGroup
from fedq.core.ids import FragmentId, QueueKey
from fedq.core.limits import DEAD_LETTERS_MAX
from fedq.core.message import (
    FLAG_COPIES,
    FLAG_DIED,
    FLAG_SEEN,
    head_size,
    route_of,
    split_route,
    with_flag,
)
from fedq.core.policy import DEATHS, PLAIN, QUARANTINE_REASON, QUARANTINED
from fedq.fragments.fragment import Fragment
from fedq.fragments.singly.holders import DEAD
from fedq.journal.records import NOTE_DEAD
from fedq.node.containment.rehearsal import failure_of
from fedq.node.publishing.messages import delayed, properties_of
from fedq.node.publishing.outlets import Outlets, Reach
from fedq.node.records.client_state import Owner
from fedq.node.records.private_queue import PrivateQueue
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState
from fedq.node.risk import Fault, SetAside
from fedq.wiring.routing.route import Route

#: What a letter costs in units of work, and its head, which is rewritten: this part of its bytes.
_LETTER_WORK: Final = 20
_HEAD_SHIFT: Final = 4
#: Makes a dead letter: message, reason, queue, exchange, key, time in seconds.
Maker: TypeAlias = Callable[[bytes, str, str, str, str | None, int], bytes]


class DeadLetterInFlight:
    """A dead message of a shared fragment on its way; hears when its successor is committed."""

    __slots__ = ("fragment", "letters", "position", "reign")

    def __init__(
        self, letters: "DeadLetters", fragment: FragmentId, reign: int, position: int
    ) -> None:
        self.letters = letters
        self.fragment = fragment
        self.reign = reign
        self.position = position

    def on_committed(self) -> None:
        """Lets the message go: a queue that refused it has its own policy to blame."""
        self.letters.finish(self)


class DeadLetters:
    """Sends dead letters on their way, and lets go of those that have arrived."""

    __slots__ = ("_sticky", "_turn", "outlets", "state")

    def __init__(self, state: NodeState, outlets: Outlets) -> None:
        self.state = state
        self.outlets = outlets
        #: Which fragments the dead letters of this node keep to.
        self._sticky = outlets.keep()
        #: The turn in which the last one set out.
        self._turn = 0

    def _may_send(self) -> bool:
        """Whether one more may set out in this turn; counts it. One may in any case."""
        work = self.state.work
        if self._turn == work.turn and work.is_spent:
            return False
        self._turn = work.turn
        return True

    def send_private(self, private: PrivateQueue) -> None:
        """Sends those of a queue of this node alone, at once: it holds nothing beyond a crash."""
        fragment = private.fragment
        dead = fragment.out.dead
        sent: list[int] = []
        while dead and self._may_send():
            position = dead.popleft()
            if self._send_one(private.key, fragment, position, None):
                sent.append(position)
        fragment.settle(DEAD, sent)

    def send(self, primary: Primary) -> None:
        """Sends the next ones of a shared fragment."""
        fragment = primary.fragment
        dead = fragment.out.dead
        while dead and primary.dying < DEAD_LETTERS_MAX and self._may_send():
            position = dead.popleft()
            if position not in fragment.notes.get(NOTE_DEAD, {}):
                continue
            dying = DeadLetterInFlight(self, fragment.fragment_id, fragment.reign, position)
            if self._send_one(primary.queue, fragment, position, dying):
                primary.dying += 1

    def finish(self, dying: DeadLetterInFlight) -> None:
        """Lets the message leave its fragment: its successor is safe."""
        primary = self.state.primaries.get(dying.fragment)
        if primary is None or primary.fragment.reign != dying.reign:
            return
        primary.dying -= 1
        primary.fragment.settle(DEAD, [dying.position])
        self.state.marks.primaries[dying.fragment] = None

    def _send_one(
        self, queue: QueueKey, fragment: Fragment, position: int, dying: DeadLetterInFlight | None
    ) -> bool:
        """Sends one dead letter; one that cannot set out is set aside, and stays (ADR 0035)."""
        reason = fragment.notes[NOTE_DEAD][position]
        message = fragment.messages[position]
        if reason == QUARANTINED:
            self.state.out.set_aside.append(
                SetAside(queue, fragment.fragment_id, position, message)
            )
            place = (fragment.fragment_id, position)
            if place in self.state.untold:
                del self.state.untold[place]
                self._tell(queue, fragment, position)
            return False
        if fragment.policy.dead_letter_exchange is None:
            # It had one when the message died; a policy that goes takes it away.
            fragment.settle(DEAD, [position])
            return False
        try:
            ways = self._ways(queue, fragment, position, DEATHS[reason], dead_letter)
        except Exception as error:
            text = (
                f"message {position} of {queue.name!r} in {queue.vhost!r} cannot be dead-lettered"
            )
            self.state.out.faults.append(Fault(f"{text}: it is quarantined", error))
            fragment.dead_letter_ready([position], QUARANTINED)
            self._tell(queue, fragment, position)
            return False
        tracer = self.state.tracer
        if tracer is not None:
            targets = [(each.fragment_id, each.last + 1) for each in ways[1].publishers]
            tracer.on_dead_lettered(fragment.fragment_id, position, reason, ways[0][0], targets)
        self._publish(queue, ways, dying)
        return True

    def _tell(self, queue: QueueKey, fragment: Fragment, position: int) -> None:
        """Tells who waits for dead letters of one that is set aside, as far as that can be said."""
        if fragment.policy.dead_letter_exchange is None:
            return
        try:
            ways = self._ways(queue, fragment, position, QUARANTINE_REASON, stripped_letter)
        except Exception as error:
            self._leave_untold(error)
            return
        # Where it goes nobody must fail at it again.
        failure = failure_of(ways[0][0], PLAIN, self.state.unix_ms)
        if failure is None:
            self._publish(queue, ways, None)
        else:
            self._leave_untold(failure)

    def _leave_untold(self, error: Exception) -> None:
        self.state.out.faults.append(Fault("nor can it be said to whom it concerns", error))

    def _ways(
        self, queue: QueueKey, fragment: Fragment, position: int, reason: str, make: Maker
    ) -> tuple[list[bytes], Reach]:
        """The dead letter of a message, and where it goes; changes nothing."""
        policy, died = fragment.policy, fragment.messages[position]
        self.state.work.spend(_LETTER_WORK + (head_size(died) >> _HEAD_SHIFT))
        message = make(
            died, reason, queue.name, policy.dead_letter_exchange or "",
            policy.dead_letter_key, self.state.unix_ms // 1_000,
        )  # fmt: skip
        if reason != "rejected":
            message = with_flag(message, FLAG_DIED)
        tracked = fragment.tracked
        died_before = tracked is not None and position in tracked.died_before
        if position <= fragment.seen_through or died_before:
            # An earlier primary may have sent it on already, and somebody have consumed it.
            message = with_flag(message, FLAG_SEEN)
        targets = self._targets(queue, message)
        self.state.work.spend(len(targets.queues) + len(targets.nodes))
        messages = delayed([message]) if targets.delayed else [message]
        spread = int(fragment.fragment_id)
        return messages, self.outlets.reach(targets, message, self._sticky, spread)

    def _publish(
        self, queue: QueueKey, ways: tuple[list[bytes], Reach], dying: DeadLetterInFlight | None
    ) -> None:
        messages, reach = ways
        group: ConfirmGroup[Owner] | None = None
        if dying is not None:
            group = ConfirmGroup(dying, 1, 1, reach.waiting)
        self.outlets.deliver(queue.vhost, messages, reach, group)

    def _targets(self, queue: QueueKey, message: bytes) -> Route:
        """Where a dead letter goes; an exchange that is not there leads nowhere, as in RabbitMQ."""
        state = self.state
        exchange, key = split_route(route_of(message))
        copies = copies_of(message, "CC") if message[0] & FLAG_COPIES else None
        if copies:
            keys = [key, *copies]
            targets = state.router.route_keys(queue.vhost, exchange, keys, properties_of(message))
        else:
            targets = state.router.route(queue.vhost, route_of(message), properties_of(message))
        if targets is None:
            return Route((), (), ())
        if not message[0] & FLAG_DIED or not any(targets[:2]):
            return targets
        cycled = cycled_queues(message)
        known = state.private_by_id
        return targets._replace(
            queues=tuple(key for key in targets.queues if key.name not in cycled),
            private=tuple(n for n in targets.private if known[n].key.name not in cycled),
        )
