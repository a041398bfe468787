"""What is emptied piece by piece: queues that are purged, and the consumers of those that are gone.

Both are chores (`fedq.node.records.chores`). A queue that is being purged hands out nothing (P4).

Changes fragments of this node, hubs; marks queues.
"""

from collections.abc import Callable
from typing import Final

from fedq.amqp.method_types import BasicCancel
from fedq.fragments.fragment import Fragment
from fedq.node.records.client_state import Consumer, capability
from fedq.node.records.state import NodeState
from fedq.node.records.streams.stream_readers import Parts
from fedq.proxy.hub import Hub

#: Messages that leave for a unit of work: those in runs, those that are kept singly.
_RUN_SHIFT: Final = 3
#: What the end of a consumer costs, in units of work.
_CONSUMER_WORK: Final = 3
#: So many messages leave at a time at least.
_LEAST: Final = 16


class Purging:
    """A chore: removes what was ready in a fragment when it began. `then` hears how much it was."""

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
        """Removes the next messages."""
        fragment, work = self._fragment, self._state.work
        shift = _RUN_SHIFT if fragment.tracked is None else 0
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
    """A chore: ends the consumers of a queue that is gone, and tells those that can hear it."""

    __slots__ = ("_left", "_state")

    def __init__(self, state: NodeState, consumers: list[Consumer]) -> None:
        """`consumers`: those of a hub that is no more, in order."""
        self._state = state
        self._left = consumers
        for consumer in consumers:
            consumer.hub = None
            consumer.cursors = None
        self._left.reverse()

    def go_on(self) -> bool:
        """Ends the next consumers."""
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
    """Ends the consumers here of a queue that is gone, and tells those that can hear it."""
    if hub.size:
        state.chores.begin(owner, Cancelling(state, hub.clear()))


def cancel_readers(state: NodeState, parts: Parts) -> None:
    """As `cancel_all`, for the readers of a stream; those about to begin hear that it is gone."""
    consumers: dict[Consumer, None] = {}
    for readers in parts.values():
        readers.refuse_scans()
        seeks, readers.seeks = readers.seeks, {}
        for waiting in seeks.values():
            for then in waiting:
                then(None)
        members, readers.members = list(readers.members.values()), {}
        for member in members:
            if member.then is not None:
                member.then(None)
        cursors, readers.cursors = readers.cursors, {}
        consumers.update((cursor.consumer, None) for cursor in cursors)
    if consumers:
        state.chores.begin(None, Cancelling(state, list(consumers)))
