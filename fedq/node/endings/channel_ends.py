"""The end of a channel: what it had returns to its queues, then its consumers go.

Both may be many, so both are chores. From its end on a channel takes nothing more. When its client
has closed it, or its connection, close-ok comes when all of that is done, and its auto-delete
queues are gone, too (as in RabbitMQ).

Changes channels, hubs, fragments of this node; marks queues.
"""

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Final

from fedq.amqp.method_types import ChannelClose, Method
from fedq.amqp.methods import ids_of
from fedq.core.errors import ChannelViolation, Refused
from fedq.node.consuming.settle_flow import SettleFlow
from fedq.node.endings.consumer_ends import ConsumerEnds
from fedq.node.records.answers import Answers
from fedq.node.records.client_state import Channel, Client
from fedq.node.records.state import NodeState
from fedq.node.records.transaction_limits import forget

#: What the end of a consumer costs, and of the last one of a queue, in units of work.
_CONSUMER_WORK: Final = 2
_QUEUE_WORK: Final = 10


class ChannelEnds:
    """Ends channels, and all of a connection's."""

    __slots__ = ("answers", "consumers", "settling", "state")

    def __init__(
        self, state: NodeState, answers: Answers, settling: SettleFlow, consumers: ConsumerEnds
    ) -> None:
        self.state = state
        self.answers = answers
        self.settling = settling
        self.consumers = consumers

    def close(self, channel: Channel, request: ChannelClose) -> None:
        """Carries out channel.close."""
        queues = {consumer.queue: None for consumer in channel.consumers.values()}
        for queue in queues:
            self.consumers.dispatching.catch_up(queue)
        self.answers.flush_confirms(channel)
        channel.flow = False
        agree = partial(self._agree, channel)
        left = partial(self.consumers.when_left, channel, queues, agree)
        if not self.settling.return_all(channel, partial(self.end_consumers, channel, left)):
            self.answers.wait_for_turns(channel)

    def refuse(self, channel: Channel, refused: Refused, request: Method) -> None:
        """Refuses a request: the channel closes with the reason."""
        class_id, method_id = ids_of(request)
        self.fail(channel, ChannelViolation(refused.reply_code, refused.text, class_id, method_id))

    def fail(self, channel: Channel, violation: ChannelViolation) -> None:
        """Closes a channel for what its client did."""
        if channel.closed:
            return
        self.state.risk.begin()
        if not channel.leaving:
            self.answers.flush_confirms(channel)
            channel.client.machine.close_channel(channel.number, violation)
            self.state.dirty_clients[channel.client] = None
        self.drop(channel)
        self.state.risk.end()

    def _agree(self, channel: Channel) -> None:
        """Sends channel.close-ok."""
        if not channel.closed:
            channel.client.machine.agree_to_close(channel.number)
            self.state.dirty_clients[channel.client] = None
            self.drop(channel)

    def drop(self, channel: Channel) -> None:
        """Drops the channel; nothing that its client sent is worked off after this."""
        channel.closed = True
        channel.flow = False
        self.state.leaving.pop(channel, None)
        forget_number(channel)
        channel.backlog = None
        # It refers to the channel: the two would keep each other alive.
        channel.confirms = None
        if channel.transaction is not None:
            forget(channel, channel.transaction)
        self.settling.return_all(channel, partial(self.end_consumers, channel))
        self.state.release_reading(channel.client, "backlog")

    def leave(self, channel: Channel) -> None:
        """Leaves the channel, as its client does; what was sent before still takes effect."""
        if not channel.waiting:
            self.drop(channel)
            return
        channel.leaving = True
        channel.flow = False
        self.state.leaving[channel] = None
        forget_number(channel)
        self.end_consumers(channel)

    def end_consumers(self, channel: Channel, then: Callable[[], None] | None = None) -> None:
        """Ends all consumers of the channel; then something else is done."""
        if channel.consumers:
            if not self.state.chores.begin(channel.client, Ending(self, channel, then)) and then:
                self.answers.wait_for_turns(channel)
        elif then is not None:
            then()

    def end_all(self, client: Client, end: Callable[[Client], None]) -> None:
        """Ends the connection.

        connection.close-ok comes when the queues that went with its consumers have gone.
        """
        queues = {
            consumer.queue: None
            for channel in client.channels.values()
            for consumer in channel.consumers.values()
        }
        end(client)
        if not queues:
            client.machine.agree_to_end()
            return
        gone = partial(self.consumers.when_gone, queues, partial(self._agree_to_end, client))
        # Behind those that end the consumers.
        self.state.chores.begin(client, Last(gone))

    def _agree_to_end(self, client: Client) -> None:
        """Sends connection.close-ok, unless nobody is there to hear it."""
        if self.state.clients.get(client.connection) is client:
            client.machine.agree_to_end()
            self.state.dirty_clients[client] = None

    def end_some(self, channel: Channel, most: int) -> None:
        """Ends the first consumers of the channel."""
        consumers = list(islice(channel.consumers.values(), most))
        queues = self.consumers.remove(consumers)
        self.state.work.spend(_CONSUMER_WORK * len(consumers) + _QUEUE_WORK * queues)


class Ending:
    """A chore: ends a channel's consumers, some at a time."""

    __slots__ = ("_channel", "_ends", "_then")

    def __init__(
        self, ends: ChannelEnds, channel: Channel, then: Callable[[], None] | None
    ) -> None:
        self._ends = ends
        self._channel = channel
        self._then = then

    def go_on(self) -> bool:
        """Ends the next consumers."""
        channel, work = self._channel, self._ends.state.work
        while channel.consumers:
            # As many as there is room for if each is the last one of its queue; then the others.
            self._ends.end_some(channel, max(1, work.room // (_CONSUMER_WORK + _QUEUE_WORK)))
            if work.is_spent:
                break
        if channel.consumers:
            return False
        if self._then is not None:
            self._then()
        return True


class Last:
    """A chore of one step, behind the others of its owner."""

    __slots__ = ("_action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action

    def go_on(self) -> bool:
        """Does the one step."""
        self._action()
        return True


def forget_number(channel: Channel) -> None:
    """Frees the channel's number for another channel."""
    if channel.client.channels.get(channel.number) is channel:
        del channel.client.channels[channel.number]
