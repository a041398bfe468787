"""Consumers of a channel that may take more than before, or less: few at once, many as a chore.

Changes hubs, by way of their consumers; marks queues.
"""

from collections.abc import Callable
from typing import Final

from fedq.core.ids import QueueKey
from fedq.node.records.client_state import Channel, Client, Consumer, Wanted
from fedq.node.records.state import NodeState

#: So many are woken at once.
_AT_ONCE: Final = 32
#: What one costs, in units of work (it is looked at, and so is its queue), and credit given anew.
_WAKE_WORK: Final = 2
_GRANT_WORK: Final = 10

GrantAnew = Callable[[QueueKey], None]


def wake_client(state: NodeState, client: Client) -> None:
    """Lets all consumers of a connection take more."""
    for channel in client.channels.values():
        if channel.consumers:
            wake_consumers(state, channel)


def wake_consumers(state: NodeState, channel: Channel, grant_anew: GrantAnew | None = None) -> None:
    """Lets all consumers of a channel take more.

    `grant_anew`: or less, so that credit which fragments elsewhere have for them is void.
    """
    wanted = channel.wanted
    if wanted is not None:
        wanted.again = True
        wanted.grant_anew = grant_anew or wanted.grant_anew
        return
    waking = Waking(state, channel, grant_anew)
    if len(channel.consumers) <= _AT_ONCE:
        waking.finish()
    else:
        state.chores.begin(channel.client, waking)


class Waking:
    """A chore: wakes a channel's consumers one by one; once more if that is asked for meanwhile."""

    __slots__ = ("_channel", "_left", "_queues", "_state", "_wanted")

    def __init__(self, state: NodeState, channel: Channel, grant_anew: GrantAnew | None) -> None:
        self._state = state
        self._channel = channel
        self._wanted = channel.wanted = Wanted(grant_anew)
        self._left: list[Consumer] = []
        #: Whose credit is to be given anew.
        self._queues: dict[QueueKey, None] = {}

    def finish(self) -> None:
        """Wakes all that are left, however much work it is."""
        while not self._is_done:
            self._step()
        self._channel.wanted = None

    def go_on(self) -> bool:
        """Wakes the next consumers."""
        is_first = True
        while not self._is_done:
            if self._state.work.is_spent and not is_first:
                return False
            is_first = False
            self._step()
        self._channel.wanted = None
        return True

    @property
    def _is_done(self) -> bool:
        return not (self._left or self._queues or self._wanted.again)

    def _step(self) -> None:
        """Wakes the next consumer, or looks at its queue, or begins once more."""
        work, wanted = self._state.work, self._wanted
        if self._left:
            consumer = self._left.pop()
            if consumer.hub is not None:
                self._state.wake(consumer)
                if wanted.grant_anew is not None:
                    self._queues[consumer.queue] = None
            elif consumer.cursors is not None:
                self._state.wake(consumer)
            work.spend(_WAKE_WORK)
        elif self._queues:
            queue, _ = self._queues.popitem()
            if wanted.grant_anew is not None:
                wanted.grant_anew(queue)
            work.spend(_GRANT_WORK)
        else:
            wanted.again = False
            consumers = self._channel.consumers
            if self._channel.prefetch_global and consumers:
                # All take from one allowance: each time another one comes first.
                tag = next(iter(consumers))
                consumers[tag] = consumers.pop(tag)
            self._left = list(consumers.values())
            self._left.reverse()
            work.spend(1)


def feed_at_turn_limit(state: NodeState) -> bool:
    """Feeds clients that took as much as one turn gives; false if there are none."""
    if not state.at_turn_limit:
        return False
    at_turn_limit, state.at_turn_limit = state.at_turn_limit, {}
    for client in at_turn_limit:
        wake_client(state, client)
    return True
