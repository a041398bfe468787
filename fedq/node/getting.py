"""basic.get over a queue's fragments: the local ones first, then one remote fragment at a time.

A remote fragment is asked with credit for one message that comes back if it is empty; only when
every fragment has said so is the answer get-empty (P5).

Changes channels' unacked windows; sends credit to peers.
"""

from collections import deque
from collections.abc import Callable

from fedq.amqp.deliveries import append_get_ok
from fedq.amqp.method_types import BasicGetEmpty
from fedq.core.ids import FragmentId, QueueKey
from fedq.core.peer_messages import Credit, CreditBack, Deliver
from fedq.fragments.fragment import Fragment
from fedq.node.state import Channel, NodeState

Settle = Callable[[FragmentId, list[int], list[int]], None]
Resume = Callable[[Channel], None]


class Get:
    """One basic.get that waits for remote fragments."""

    __slots__ = ("asked", "channel", "no_ack", "queue", "to_ask")

    def __init__(
        self, channel: Channel, queue: QueueKey, no_ack: bool, to_ask: deque[FragmentId]
    ) -> None:
        self.channel = channel
        self.queue = queue
        self.no_ack = no_ack
        self.asked: FragmentId | None = None
        self.to_ask = to_ask


class Getting:
    """See the module's docstring. `settle` and `resume` are set by the node."""

    __slots__ = ("_by_fragment", "resume", "settle", "state")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        self._by_fragment: dict[FragmentId, deque[Get]] = {}
        self.settle: Settle = _unset
        self.resume: Resume = _unset

    def get_private(self, channel: Channel, fragment: Fragment, no_ack: bool) -> None:
        """From a queue of this node alone: answered at once."""
        if not self._answer_from(channel, fragment, no_ack):
            self._answer_empty(channel)

    def get(self, channel: Channel, queue: QueueKey, no_ack: bool) -> bool:
        """Answers at once (true), or later: then the channel waits."""
        state = self.state
        fragments = state.map.queues[queue].fragments
        if state.serving:
            for fragment in fragments:
                primary = state.primaries.get(fragment)
                if primary is None or primary.attaching:
                    continue
                if self._answer_from(channel, primary.fragment, no_ack):
                    state.dirty_primaries[fragment] = None
                    return True
        waits = [f for f in fragments if not self._is_empty_here(f)]
        if not waits:
            self._answer_empty(channel)
            return True
        get = Get(channel, queue, no_ack, deque(waits))
        self._ask_next(get)
        return False

    def _is_empty_here(self, fragment: FragmentId) -> bool:
        primary = self.state.primaries.get(fragment)
        return primary is not None and self.state.serving and not primary.attaching

    def _ask_next(self, get: Get) -> None:
        while get.to_ask:
            fragment = get.to_ask.popleft()
            if fragment in self.state.map.fragments:
                get.asked = fragment
                self._by_fragment.setdefault(fragment, deque()).append(get)
                self._ask(fragment)
                return
        if not get.channel.closed:
            self._answer_empty(get.channel)
            self.resume(get.channel)

    def _ask(self, fragment: FragmentId) -> None:
        info = self.state.map.fragments[fragment]
        if info.primary != self.state.me:
            self.state.send(info.primary, Credit(fragment, info.reign, 1, True))

    def on_deliver(self, message: Deliver) -> bool:
        """Whether the delivery was for a get, wholly."""
        gets = self._by_fragment.get(message.fragment)
        if not gets or len(message.positions) != 1:
            return False
        get = gets.popleft()
        self._drop_if_empty(message.fragment)
        if get.channel.closed:
            self.settle(message.fragment, [], message.positions)
            return True
        self._answer(
            get.channel, message.fragment, message.positions, message.messages[0],
            bool(message.redelivered), get.no_ack,
        )  # fmt: skip
        if get.no_ack:
            self.settle(message.fragment, message.positions, [])
        self.resume(get.channel)
        return True

    def on_credit_back(self, message: CreditBack) -> bool:
        """An empty fragment: whether a get waited for it."""
        gets = self._by_fragment.get(message.fragment)
        if not gets:
            return False
        get = gets.popleft()
        self._drop_if_empty(message.fragment)
        self._ask_next(get)
        return message.amount <= 1

    def on_fragment_moved(self, fragment: FragmentId) -> None:
        """The fragment has a new primary, or a new link to it: its gets are asked again."""
        gets = self._by_fragment.get(fragment)
        if gets is None:
            return
        primary = self.state.primaries.get(fragment)
        if primary is None:
            for _ in gets:
                self._ask(fragment)
            return
        del self._by_fragment[fragment]
        for get in gets:
            get.to_ask.appendleft(fragment)
            if self.get_again(get):
                self.resume(get.channel)

    def tick(self) -> None:
        """Gets that wait for a fragment of this very node are tried again: it may serve by now."""
        for fragment in list(self._by_fragment):
            if fragment in self.state.primaries and self._is_empty_here(fragment):
                self.on_fragment_moved(fragment)

    def get_again(self, get: Get) -> bool:
        """Starts over, with the fragments where they are now."""
        if get.channel.closed or get.queue not in self.state.map.queues:
            return False
        return self.get(get.channel, get.queue, get.no_ack)

    def on_fragment_gone(self, fragment: FragmentId) -> None:
        """The queue was deleted."""
        for get in self._by_fragment.pop(fragment, ()):
            self._ask_next(get)

    def _drop_if_empty(self, fragment: FragmentId) -> None:
        if not self._by_fragment[fragment]:
            del self._by_fragment[fragment]

    def _answer_from(self, channel: Channel, fragment: Fragment, no_ack: bool) -> bool:
        taken = fragment.take(self.state.me, 1, no_ack)
        if not taken.positions:
            return False
        self._answer(
            channel, fragment.fragment_id, taken.positions, taken.messages[0],
            bool(taken.redelivered), no_ack, fragment.ready_count,
        )  # fmt: skip
        return True

    def _answer(
        self, channel: Channel, fragment: FragmentId, positions: list[int], message: bytes,
        redelivered: bool, no_ack: bool, left: int = 0,
    ) -> None:  # fmt: skip
        if no_ack:
            tag = channel.unacked.skip(1)
        else:
            tag = channel.unacked.add(None, fragment, positions)
        machine = channel.client.machine
        append_get_ok(
            machine.parts, channel.number, tag, redelivered, message, left, machine.frame_bytes_max
        )
        self.state.dirty_clients[channel.client] = None

    def _answer_empty(self, channel: Channel) -> None:
        channel.client.machine.send(channel.number, BasicGetEmpty())
        self.state.dirty_clients[channel.client] = None


def _unset(*_: object) -> None:
    raise AssertionError("the node wires this before its first turn")
