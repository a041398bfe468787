"""RabbitMQ's direct reply-to: answers without a queue of the client's own.

A client consumes from the pseudo queue `amq.rabbitmq.reply-to`, and names it in `reply_to` of
what it publishes on the same channel. Behind it stands a private queue of the channel, whose name
carries the node (`fedq.wiring.routing.names`), so whoever answers to it from anywhere is routed
here.

Changes `private` and the channel's `reply_queue`.
"""

from fedq.amqp.content import DIRECT_REPLY_TO
from fedq.amqp.method_types import BasicConsume, BasicConsumeOk, QueueDeclare, QueueDeclareOk
from fedq.amqp.spec import BASIC, BASIC_CONSUME
from fedq.core.errors import (
    NOT_ALLOWED,
    NOT_FOUND,
    PRECONDITION_FAILED,
    ConnectionViolation,
    Refused,
)
from fedq.core.ids import QueueKey
from fedq.node.consuming.consume_flow import ConsumeFlow
from fedq.node.endings.channel_ends import ChannelEnds
from fedq.node.private.private_flow import PrivateFlow
from fedq.node.records.answers import Answers
from fedq.node.records.client_state import Channel, Consumer
from fedq.node.records.state import NodeState
from fedq.wiring.routing.names import REPLY_PREFIX, node_of, reply_name

SALT_BITS = 64


class DirectReply:
    """The pseudo queue of direct reply-to, and the names made for it."""

    __slots__ = ("answers", "consuming", "ends", "private", "state")

    def __init__(
        self, state: NodeState, answers: Answers, ends: ChannelEnds, private: PrivateFlow,
        consuming: ConsumeFlow,
    ) -> None:  # fmt: skip
        self.state = state
        self.answers = answers
        self.ends = ends
        self.private = private
        self.consuming = consuming

    def consume(self, channel: Channel, request: BasicConsume, tag: str) -> None:
        """Consumes from the pseudo queue: only without acknowledgements, once per channel."""
        reused = channel.consumers.get(tag)
        if reused is not None and reused.queue != channel.reply_queue:
            refuse_reused(channel, tag)
        if not request.no_ack:
            refused = Refused(PRECONDITION_FAILED, "reply consumer cannot acknowledge")
            self.ends.refuse(channel, refused, request)
            return
        if channel.reply_queue is not None:
            refused = Refused(PRECONDITION_FAILED, "reply consumer already set")
            self.ends.refuse(channel, refused, request)
            return
        state, client = self.state, channel.client
        name = reply_name(state.me, state.private_made + 1, state.salts.number(SALT_BITS))
        queue = QueueKey(client.vhost, name)
        private = self.private.create(queue, client)
        private.auto_delete = True
        channel.reply_queue = queue
        if not request.no_wait:
            self.answers.reply(channel, BasicConsumeOk(tag))
        self.consuming.add(Consumer(channel, tag, queue, True, 0))

    def declare(self, channel: Channel, request: QueueDeclare) -> None:
        """Declares the pseudo queue, or a name made for it: is somebody there?

        Of a channel on another node only the node is known to be there.
        """
        key = QueueKey(channel.client.vhost, request.queue)
        there = request.queue == DIRECT_REPLY_TO or key in self.state.private
        if not there:
            node = node_of(request.queue)
            there = node is not None and node != self.state.me and node in self.state.live_peers()
        if not there:
            text = f"no queue '{key.name}' in vhost '{key.vhost}'"
            self.ends.refuse(channel, Refused(NOT_FOUND, text), request)
        elif not request.no_wait:
            self.answers.reply(channel, QueueDeclareOk(request.queue, 0, 1))


def refuse_reused(channel: Channel, tag: str) -> None:
    """Raises 530 for a consumer tag that the channel has already (AMQP 0-9-1 1.8.3.3)."""
    if tag in channel.consumers:
        text = f"attempt to reuse consumer tag '{tag}'"
        raise ConnectionViolation(NOT_ALLOWED, text, BASIC, BASIC_CONSUME)


def is_reply_name(name: str) -> bool:
    """Whether a queue's name is the pseudo one, or made for it."""
    return name == DIRECT_REPLY_TO or name.startswith(REPLY_PREFIX)
