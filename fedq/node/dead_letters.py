"""Dead letters: from a fragment of this node through the dead-letter exchange to other queues.

    fragment.out.dead -> rewritten (x-death) -> route, without those it came round from -> outlets
    committed there -> gone here

A dead message stays in its fragment, out of reach, until its successor is committed wherever it
goes; so a failover in between repeats the dead-lettering and loses nothing. At most
`limits.dead_letters_max` of a fragment are on their way at once, and a turn sends only so many
(`fedq.node.queue_timers` comes back for the rest).

Changes fragments of this node; publishes through `fedq.node.outlets`.
"""

from typing import Final

from fedq.amqp.rewriting import copies_of, cycled_queues, dead_letter
from fedq.core.ids import FragmentId, QueueKey
from fedq.core.limits import dead_letters_max
from fedq.core.message import (
    FLAG_COPIES,
    FLAG_DIED,
    FLAG_SEEN,
    head_size,
    route_of,
    split_route,
    with_flag,
)
from fedq.core.policy import DEATHS, QueuePolicy
from fedq.fragments.fragment import Fragment
from fedq.fragments.holders import DEAD
from fedq.journal.records import NOTE_DEAD
from fedq.node.client_state import Owner
from fedq.node.outlets import Outlets, delayed
from fedq.node.relay_flow import properties_of
from fedq.node.state import NodeState, Primary, PrivateQueue
from fedq.sessions.confirms import ConfirmGroup
from fedq.wiring.routes import Route

#: What a letter costs in units of work, and its head, which is rewritten: this part of its bytes.
_LETTER_WORK: Final = 20
_HEAD_SHIFT: Final = 4


class Dying:
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
        """The message may go. (A queue that refused it has its own policy to blame.)"""
        self.letters.finish(self)


class DeadLetters:
    """See the module's docstring."""

    __slots__ = ("_sticky", "_turn", "outlets", "state")

    def __init__(self, state: NodeState, outlets: Outlets) -> None:
        self.state = state
        self.outlets = outlets
        #: Which fragments the dead letters of this node keep to.
        self._sticky: dict[QueueKey, FragmentId] = {}
        #: The turn in which the last one set out.
        self._turn = 0

    def _may_send(self) -> bool:
        """Whether one more may set out in this turn: one in any case; counts it."""
        work = self.state.work
        if self._turn == work.turn and work.is_spent:
            return False
        self._turn = work.turn
        return True

    def send_private(self, private: PrivateQueue) -> None:
        """Those of a queue of this node alone go at once: it holds nothing beyond a crash."""
        fragment = private.fragment
        dead = fragment.out.dead
        sent: list[int] = []
        while dead and self._may_send():
            sent.append(dead.popleft())
            self._publish(private.key, private.policy, fragment, sent[-1], None)
        fragment.settle(DEAD, sent)

    def send(self, primary: Primary) -> None:
        """The next ones of a shared fragment set out."""
        fragment = primary.fragment
        dead = fragment.out.dead
        while dead and primary.dying < dead_letters_max and self._may_send():
            position = dead.popleft()
            if position not in fragment.notes.get(NOTE_DEAD, {}):
                continue
            primary.dying += 1
            dying = Dying(self, fragment.fragment_id, fragment.reign, position)
            self._publish(primary.queue, fragment.policy, fragment, position, dying)

    def finish(self, dying: Dying) -> None:
        """Its successor is safe: the message leaves its fragment."""
        primary = self.state.primaries.get(dying.fragment)
        if primary is None or primary.fragment.reign != dying.reign:
            return
        primary.dying -= 1
        primary.fragment.settle(DEAD, [dying.position])
        self.state.dirty_primaries[dying.fragment] = None

    def _publish(
        self, queue: QueueKey, policy: QueuePolicy, fragment: Fragment, position: int,
        dying: Dying | None,
    ) -> None:  # fmt: skip
        state = self.state
        exchange = policy.dead_letter_exchange
        assert exchange is not None, "only with one do messages stay when they die"
        reason = DEATHS[fragment.notes[NOTE_DEAD][position]]
        died = fragment.messages[position]
        state.work.spend(_LETTER_WORK + (head_size(died) >> _HEAD_SHIFT))
        message = dead_letter(
            died, reason, queue.name, exchange, policy.dead_letter_key,
            state.unix_ms // 1_000,
        )  # fmt: skip
        if reason != "rejected":
            message = with_flag(message, FLAG_DIED)
        if position <= fragment.seen_through:
            # An earlier primary may have sent it on already, and somebody have consumed it.
            message = with_flag(message, FLAG_SEEN)
        targets = self._targets(queue, message)
        state.work.spend(len(targets.queues) + len(targets.nodes))
        messages = delayed([message]) if targets.delayed else [message]
        spread = int(fragment.fragment_id)
        reach = self.outlets.reach(targets, self._sticky, spread)
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
