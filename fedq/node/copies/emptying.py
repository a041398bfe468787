"""What is emptied piece by piece: queues that are purged, and exclusive queues that end.

Both are chores (`fedq.node.records.chores`). A queue that is being purged hands out nothing (P4);
one that ends stays until its last binding is undone, and nobody but its owner could use it
meanwhile.

Changes fragments of this node, private queues, the router; marks queues.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final

from fedq.amqp.method_types import BasicCancel
from fedq.fragments.fragment import Fragment
from fedq.node.private.private_flow import PrivateFlow
from fedq.node.private.registrations import Registrations
from fedq.node.records.answers import capability
from fedq.node.records.client_state import Consumer
from fedq.node.records.state import NodeState, PrivateQueue
from fedq.proxy.hub import Hub

#: Messages that leave for a unit of work: those in runs, those that are kept singly.
_RUN_SHIFT: Final = 3
#: What the end of a binding costs, and of a consumer, in units of work.
_BINDING_WORK: Final = 10
_CONSUMER_WORK: Final = 3
#: So many messages leave at a time at least; of a queue that is gone, so many at once.
_LEAST: Final = 16
_FREED_AT_ONCE: Final = 1_000


class Purging:
    """A chore: what was ready in a fragment when it began leaves. `then` hears how much it was."""

    __slots__ = ("_count", "_fragment", "_state", "_then", "_through")

    def __init__(
        self, state: NodeState, fragment: Fragment, then: Callable[[int], None] | None = None
    ) -> None:
        self._state = state
        self._fragment = fragment
        self._through = fragment.last
        self._then = then
        self._count = 0
        fragment.shut += 1

    def go_on(self) -> bool:
        """See `fedq.node.records.chores.Chore`."""
        fragment, work = self._fragment, self._state.work
        shift = _RUN_SHIFT if fragment.singles is None else 0
        while True:
            most = max(_LEAST, work.room << shift)
            gone = fragment.purge(self._through, most)
            self._count += gone
            work.spend(1 + (gone >> shift))
            if gone < most:
                break
            if work.is_spent:
                return False
        fragment.shut -= 1
        self._state.mark_fragment(fragment.fragment_id)
        if self._then is not None:
            self._then(self._count)
        return True


class Cancelling:
    """A chore: the consumers of a queue that is gone end, and are told if they can hear it."""

    __slots__ = ("_left", "_state")

    def __init__(self, state: NodeState, consumers: list[Consumer]) -> None:
        """`consumers`: those of a hub that is no more, in order."""
        self._state = state
        self._left = consumers
        for consumer in consumers:
            consumer.hub = None
        self._left.reverse()

    def go_on(self) -> bool:
        """See `fedq.node.records.chores.Chore`."""
        work = self._state.work
        while self._left:
            self._cancel(self._left.pop())
            work.spend(_CONSUMER_WORK)
            if work.is_spent:
                break
        return not self._left

    def _cancel(self, consumer: Consumer) -> None:
        channel = consumer.channel
        if channel.consumers.get(consumer.tag) is not consumer:
            return
        del channel.consumers[consumer.tag]
        self._state.accounts.count_consumers(channel.client, -1)
        if not capability(channel.client, "consumer_cancel_notify"):
            return
        if channel.waiting:
            # Who deletes a queue hears first that it is deleted, and then what went with it.
            if channel.notices is None:
                channel.notices = []
            channel.notices.append(BasicCancel(consumer.tag, True))
        elif not channel.closed and not channel.leaving:
            channel.client.machine.send(channel.number, BasicCancel(consumer.tag, True))
            self._state.dirty_clients[channel.client] = None


def cancel_all(state: NodeState, hub: Hub[Consumer], owner: object = None) -> None:
    """The queue is gone: its consumers here end, and are told if they can hear it."""
    if hub.size:
        state.chores.begin(owner, Cancelling(state, hub.clear()))


class PrivateEnds:
    """The end of exclusive queues; the map learns of it by `Registrations`."""

    __slots__ = ("flow", "registrations", "state")

    def __init__(self, state: NodeState, flow: PrivateFlow, registrations: Registrations) -> None:
        self.state = state
        self.flow = flow
        self.registrations = registrations

    def end(self, private: PrivateQueue, then: Callable[[], None] | None = None) -> None:
        """The queue ends, and then something else is done."""
        if private.ending and then is None:
            return
        private.ending = True
        cancel_all(self.state, private.hub, private.owner)
        self.state.chores.begin(private.owner, Unbinding(self, private, then))

    def delete(self, private: PrivateQueue) -> None:
        """No binding is left: the queue is gone, if it has not been before."""
        state = self.state
        if state.private.get(private.key) is not private:
            return
        cancel_all(state, private.hub, private.owner)
        self.flow.delete(private)
        if private.claimed:
            self.registrations.release(private.key)
        if private.fragment.ready_count > _FREED_AT_ONCE:
            # To free all of its messages takes time, too.
            state.chores.begin(private.owner, Purging(state, private.fragment))


class Unbinding:
    """A chore: the bindings of an exclusive queue are undone; then it is gone."""

    __slots__ = ("_ends", "_private", "_then")

    def __init__(
        self, ends: PrivateEnds, private: PrivateQueue, then: Callable[[], None] | None
    ) -> None:
        self._ends = ends
        self._private = private
        self._then = then

    def go_on(self) -> bool:
        """See `fedq.node.records.chores.Chore`."""
        private, work = self._private, self._ends.state.work
        while private.bindings:
            most = max(1, work.room // _BINDING_WORK)
            for binding in list(islice(private.bindings, most)):
                self._ends.flow.unbind(private, binding)
                work.spend(_BINDING_WORK)
            if work.is_spent and private.bindings:
                return False
        work.spend(_BINDING_WORK)
        self._ends.delete(private)
        if self._then is not None:
            self._then()
        return True
