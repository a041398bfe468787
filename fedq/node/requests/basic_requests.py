"""basic.consume, get, qos, recover, and the modes of a channel (AMQP 0-9-1 1.8)."""

from functools import partial

from fedq.amqp.content import DIRECT_REPLY_TO
from fedq.amqp.method_types import (
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    ChannelFlow,
    ChannelFlowOk,
    ConfirmSelect,
    ConfirmSelectOk,
)
from fedq.amqp.spec import BASIC, BASIC_CONSUME, BASIC_QOS, BASIC_RECOVER
from fedq.channels.confirms import ConfirmWindow
from fedq.core.errors import (
    ACCESS_REFUSED,
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    ConnectionViolation,
    Refused,
)
from fedq.core.ids import QueueKey
from fedq.core.peer_messages import CALL_CONSUME, CALL_CONSUME_ALONE
from fedq.node.consuming.room import Consuming
from fedq.node.consuming.waking import wake_consumers
from fedq.node.copies.asking import Asking
from fedq.node.endings.channel_ends import ChannelEnds
from fedq.node.records.answers import Answers
from fedq.node.records.client_state import Channel, Consumer
from fedq.node.records.state import NodeState
from fedq.node.requests.direct_reply import DirectReply, refuse_reused
from fedq.node.requests.queue_requests import QueueRequests
from fedq.node.requests.reader_requests import ReaderRequests, refuse_method
from fedq.proxy.calls import Totals
from fedq.wiring.cluster_map.queue_arguments import name_of, refuse_without_effect
from fedq.wiring.routing.arguments import type_name


class BasicRequests:
    """Answers the basic requests of channels."""

    __slots__ = (
        "answers", "asking", "consuming", "ends", "getting", "queues", "readers", "replies",
        "state",
    )  # fmt: skip

    def __init__(
        self, state: NodeState, answers: Answers, ends: ChannelEnds, queues: QueueRequests,
        consuming: Consuming, asking: Asking, replies: DirectReply, readers: ReaderRequests,
    ) -> None:  # fmt: skip
        self.state = state
        self.answers = answers
        self.ends = ends
        self.queues = queues
        self.consuming = consuming.flow
        self.getting = consuming.getting
        self.asking = asking
        self.replies = replies
        self.readers = readers

    def qos(self, channel: Channel, request: BasicQos) -> None:
        """Sets basic.qos in RabbitMQ's meaning: per new consumer, or (`global`) per channel."""
        if request.prefetch_size:
            raise ConnectionViolation(
                NOT_IMPLEMENTED, f"prefetch_size!=0 ({request.prefetch_size})", BASIC, BASIC_QOS
            )
        if request.global_:
            channel.prefetch_global = request.prefetch_count
            wake_consumers(self.state, channel, self.consuming.grant_anew)
        else:
            channel.prefetch = request.prefetch_count
        self.answers.reply(channel, BasicQosOk())

    def consume(self, channel: Channel, request: BasicConsume) -> None:
        """Carries out basic.consume."""
        self._refuse_too_many(channel)
        tag = request.consumer_tag or self._make_tag(channel)
        if request.queue == DIRECT_REPLY_TO:
            self.replies.consume(channel, request, tag)
            return
        refuse_reused(channel, tag)
        found = self.queues.find_served(channel, request.queue)
        if not isinstance(found, Refused) and self.state.is_stream(found):
            self.readers.consume(channel, request, tag, found)
            return
        if not isinstance(found, Refused):
            refused = self.readers.refuse_offset(request, found)
            refused = refused or _refuse_consumer(request, found)
            found = refused or self.state.accounts.refuse_more(channel.client) or found
        if isinstance(found, Refused):
            self.ends.refuse(channel, found, request)
            return
        priority = _priority(request)
        consumer = Consumer(channel, tag, found, request.no_ack, channel.prefetch, priority)
        hub = self.consuming.hub_of(found)
        if request.exclusive and hub.single:
            # Whoever is to be alone cannot share, not even one after the other.
            self.ends.refuse(channel, _in_exclusive_use(found), request)
        elif found not in self.state.private:
            self._ask_admission(consumer, request)
        elif hub.size and (request.exclusive or hub.alone):
            self.ends.refuse(channel, _in_exclusive_use(found), request)
        else:
            hub.alone = request.exclusive
            consumer.ticket = self._next_ticket()
            self._begin(consumer, request)

    def _next_ticket(self) -> int:
        """The ticket of a new consumer: its place among those of a queue of this node alone."""
        self.state.tickets_given += 1
        return self.state.tickets_given

    def _ask_admission(self, consumer: Consumer, request: BasicConsume) -> None:
        """Asks the queue's first fragment, which knows the consumers of all nodes."""
        channel, queue = consumer.channel, consumer.queue
        hub = self.consuming.hub_of(queue)
        if hub.count and (request.exclusive or hub.alone):
            self.ends.refuse(channel, _in_exclusive_use(queue), request)
            return

        def on_totals(totals: Totals) -> None:
            hub.asked -= 1
            if totals.ready or channel.closed or queue not in self.state.map.queues:
                hub.alone = hub.alone and hub.size > 0
                self.consuming.tell_consumers(queue)
                if totals.ready:
                    self.ends.refuse(channel, _in_exclusive_use(queue), request)
                elif not channel.closed:
                    text = f"no queue '{queue.name}' in vhost '{queue.vhost}'"
                    self.ends.refuse(channel, Refused(NOT_FOUND, text), request)
                return
            consumer.ticket = totals.consumers
            self._begin(consumer, request)
            self.answers.finish(channel, None)

        hub.asked += 1
        hub.alone = request.exclusive
        verb = CALL_CONSUME_ALONE if request.exclusive else CALL_CONSUME
        self.answers.wait(channel)
        self.asking.ask(verb, self.state.map.queues[queue].fragments[:1], on_totals)

    def _begin(self, consumer: Consumer, request: BasicConsume) -> None:
        if not request.no_wait:
            self.answers.reply(consumer.channel, BasicConsumeOk(consumer.tag))
        self.consuming.add(consumer)

    def _make_tag(self, channel: Channel) -> str:
        channel.tags_made += 1
        salt = self.state.salts.number(64)
        return f"amq.ctag-{channel.number}.{channel.tags_made}-{salt:x}"

    def get(self, channel: Channel, request: BasicGet) -> None:
        """Carries out basic.get: empty only when every fragment is (P5)."""
        found = self.queues.find_served(channel, request.queue)
        if isinstance(found, Refused):
            self.ends.refuse(channel, found, request)
            return
        if self.state.is_stream(found):
            raise refuse_method("basic.get", found, request)
        private = self.state.private.get(found)
        if private is not None:
            if not self.getting.get_private(channel, private, request.no_ack):
                self.answers.wait_for_turns(channel)
        elif not self.getting.get(channel, found, request.no_ack):
            self.answers.wait(channel)

    def recover(self, channel: Channel, request: BasicRecover | BasicRecoverAsync) -> None:
        """Carries out basic.recover: all unacknowledged returns to its queues (as in RabbitMQ)."""
        if not request.requeue:
            raise ConnectionViolation(
                NOT_IMPLEMENTED, "basic.recover without requeue: nack instead", BASIC, BASIC_RECOVER
            )
        self.readers.refuse_recovery(channel, request)
        answer = BasicRecoverOk() if isinstance(request, BasicRecover) else None
        done = partial(self._recovered, channel, answer)
        if not self.consuming.settling.return_all(channel, done):
            self.answers.wait_for_turns(channel)

    def _recovered(self, channel: Channel, answer: BasicRecoverOk | None) -> None:
        if channel.waiting:
            self.answers.finish(channel, answer)
        elif answer is not None:
            self.answers.reply(channel, answer)

    def _refuse_too_many(self, channel: Channel) -> None:
        """Refuses with 530, as RabbitMQ, more consumers than a channel or connection may have."""
        settings = self.state.settings
        for count, most, what in (
            (len(channel.consumers), settings.consumers_per_channel_max, "channel"),
            (channel.client.consumers, settings.consumers_per_connection_max, "connection"),
        ):
            if count >= most:
                text = f"reached maximum ({most}) of consumers per {what}"
                raise ConnectionViolation(NOT_ALLOWED, text, BASIC, BASIC_CONSUME)

    def flow(self, channel: Channel, request: ChannelFlow) -> None:
        """Carries out channel.flow: the client stops or restarts its deliveries (1.5.2.3)."""
        channel.flow = request.active
        wake_consumers(self.state, channel)
        self.answers.reply(channel, ChannelFlowOk(request.active))

    def confirm_select(self, channel: Channel, request: ConfirmSelect) -> None:
        """Carries out confirm.select: from here on publishes are numbered and confirmed."""
        if channel.transaction is not None:
            refused = Refused(PRECONDITION_FAILED, "cannot switch from tx to confirm mode")
            self.ends.refuse(channel, refused, request)
            return
        if channel.confirms is None:
            channel.confirms = ConfirmWindow(channel)
        if not request.no_wait:
            self.answers.reply(channel, ConfirmSelectOk())


def _refuse_consumer(request: BasicConsume, queue: QueueKey) -> Refused | None:
    """Why there may be no such consumer of the queue."""
    priority = request.arguments.get("x-priority", 0)
    if isinstance(priority, bool) or not isinstance(priority, int):
        problem = f'"expected integer, got {type_name(priority)}"'
    elif abs(priority) >= 1 << 31:
        problem = "it has at most 32 bits"
    else:
        return refuse_without_effect(name_of(queue), request.arguments)
    text = f"invalid arg 'x-priority' for {name_of(queue)}: {problem}"
    return Refused(PRECONDITION_FAILED, text)


def _priority(request: BasicConsume) -> int:
    priority = request.arguments.get("x-priority", 0)
    return priority if isinstance(priority, int) else 0


def _in_exclusive_use(queue: QueueKey) -> Refused:
    return Refused(
        ACCESS_REFUSED, f"queue '{queue.name}' in vhost '{queue.vhost}' in exclusive use"
    )
