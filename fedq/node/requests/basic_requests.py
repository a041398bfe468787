"""basic.consume, cancel, get, qos, recover, and the modes of a channel (AMQP 0-9-1 1.8)."""

from collections.abc import Callable, Iterable
from functools import partial

from fedq.amqp.content import DIRECT_REPLY_TO
from fedq.amqp.method_types import (
    BasicCancel,
    BasicCancelOk,
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
from fedq.core.ids import FragmentId, QueueKey
from fedq.core.peer_messages import CALL_CONSUME, CALL_CONSUME_ALONE, CALL_COUNT, CALL_LEFT
from fedq.node.consuming.consume_flow import ConsumeFlow
from fedq.node.consuming.getting import Getting
from fedq.node.consuming.waking import wake_consumers
from fedq.node.copies.asking import Asking
from fedq.node.records.answers import Answers
from fedq.node.records.client_state import Channel, Consumer
from fedq.node.records.state import NodeState
from fedq.node.requests.direct_reply import DirectReply, refuse_reused
from fedq.node.requests.queue_requests import QueueRequests
from fedq.proxy.calls import Totals
from fedq.proxy.hub import Hub
from fedq.wiring.cluster_map.queue_arguments import name_of, refuse_without_effect
from fedq.wiring.routing.arguments import type_name


class BasicRequests:
    """See the module's docstring."""

    __slots__ = ("answers", "asking", "consuming", "getting", "queues", "replies", "state")

    def __init__(
        self, state: NodeState, answers: Answers, queues: QueueRequests, consuming: ConsumeFlow,
        getting: Getting, asking: Asking, replies: DirectReply,
    ) -> None:  # fmt: skip
        self.replies = replies
        self.state = state
        self.answers = answers
        self.queues = queues
        self.consuming = consuming
        self.getting = getting
        self.asking = asking

    def qos(self, channel: Channel, request: BasicQos) -> None:
        """basic.qos in RabbitMQ's meaning: per new consumer, or (`global`) per channel."""
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
        """basic.consume."""
        self._refuse_too_many(channel)
        tag = request.consumer_tag or self._make_tag(channel)
        if request.queue == DIRECT_REPLY_TO:
            self.replies.consume(channel, request, tag)
            return
        refuse_reused(channel, tag)
        found = self.queues.find(channel, request.queue)
        if not isinstance(found, Refused):
            refused = _refuse_consumer(request, found)
            found = refused or self.state.accounts.refuse_more(channel.client) or found
        if isinstance(found, Refused):
            self.answers.refuse(channel, found, request)
            return
        priority = _priority(request)
        consumer = Consumer(channel, tag, found, request.no_ack, channel.prefetch, priority)
        hub = self.consuming.hub_of(found)
        if request.exclusive and hub.single:
            # Whoever is to be alone cannot share, not even one after the other.
            self.answers.refuse(channel, _in_exclusive_use(found), request)
        elif found not in self.state.private:
            self._ask_admission(consumer, request)
        elif hub.size and (request.exclusive or hub.alone):
            self.answers.refuse(channel, _in_exclusive_use(found), request)
        else:
            hub.alone = request.exclusive
            consumer.ticket = self._next_ticket()
            self._begin(consumer, request)

    def _next_ticket(self) -> int:
        """A place among the consumers of a queue of this node alone."""
        self.state.tickets_given += 1
        return self.state.tickets_given

    def _ask_admission(self, consumer: Consumer, request: BasicConsume) -> None:
        """The queue's first fragment knows the consumers of all nodes."""
        channel, queue = consumer.channel, consumer.queue
        hub = self.consuming.hub_of(queue)
        if hub.count and (request.exclusive or hub.alone):
            self.answers.refuse(channel, _in_exclusive_use(queue), request)
            return

        def on_totals(totals: Totals) -> None:
            hub.asked -= 1
            if totals.ready or channel.closed or queue not in self.state.map.queues:
                hub.alone = hub.alone and hub.size > 0
                self.consuming.tell_consumers(queue)
                if totals.ready:
                    self.answers.refuse(channel, _in_exclusive_use(queue), request)
                elif not channel.closed:
                    text = f"no queue '{queue.name}' in vhost '{queue.vhost}'"
                    self.answers.refuse(channel, Refused(NOT_FOUND, text), request)
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

    def cancel(self, channel: Channel, request: BasicCancel) -> None:
        """basic.cancel; an unknown tag is no error (1.8.3.5)."""
        answer = None if request.no_wait else BasicCancelOk(request.consumer_tag)
        consumer = channel.consumers.get(request.consumer_tag)
        if consumer is None:
            if answer is not None:
                self.answers.reply(channel, answer)
            return
        hub = self.state.hubs.get(consumer.queue)
        sources = list(hub.sources) if hub is not None else []
        until_ms = self._leave_until_ms()
        if self._has_sent(sources):
            # What was published or given back here may be on its way there, and back.
            self.answers.wait(channel)
            self.consuming.settling.flush_settlements()
            self.asking.ask(
                CALL_COUNT, sources, lambda _: self._cancel(consumer, answer, until_ms), until_ms
            )
        else:
            self._cancel(consumer, answer, until_ms)

    def _has_sent(self, fragments: list[FragmentId]) -> bool:
        """Whether a fragment elsewhere may get messages of this node that it has not had yet."""
        publishers, settlements = self.state.publishers, self.state.settlements
        return any(
            fragment in settlements
            or (fragment in publishers and publishers[fragment].bytes_unconfirmed > 0)
            for fragment in fragments
        )

    def _leave_until_ms(self) -> int:
        """Until when who leaves now waits for others; what is to go goes later, if it must."""
        return self.state.now_ms + self.state.settings.leave_wait_ms

    def _cancel(self, consumer: Consumer, answer: BasicCancelOk | None, until_ms: int) -> None:
        """Deliveries of what was published before come before the answer."""
        channel, queue = consumer.channel, consumer.queue
        if consumer.hub is None:
            # Its queue, or its channel, has gone meanwhile.
            self._cancelled(channel, answer)
            return
        self.queues.dispatching.catch_up(queue)
        self.remove_consumers([consumer])
        hub = self.state.hubs.get(queue)
        if hub is not None and hub.sources and not hub.size:
            self.answers.wait(channel)
            fragments = list(hub.sources)
            self._when_quiet(
                fragments, lambda: self._left(channel, queue, answer, until_ms), until_ms
            )
        else:
            self._left(channel, queue, answer, until_ms)

    def _left(
        self, channel: Channel, queue: QueueKey, answer: BasicCancelOk | None, until_ms: int
    ) -> None:
        # No function of its own name within another: compiled, the two would keep each other alive.
        self._when_left(channel, {queue: None}, lambda: self._cancelled(channel, answer), until_ms)

    def _cancelled(self, channel: Channel, answer: BasicCancelOk | None) -> None:
        if answer is not None:
            self.answers.reply(channel, answer)
        if channel.waiting:
            self.answers.finish(channel, None)

    def when_left(
        self, channel: Channel, queues: dict[QueueKey, None], action: Callable[[], None]
    ) -> None:
        """Consumers of these queues have left: the channel waits until those queues that go with
        their last consumer have gone, everywhere; then runs the action.

        Not for ever: where nobody can say so within the time of a failover, they go later.
        """
        self._when_left(channel, queues, action, self._leave_until_ms())

    def _when_left(
        self, channel: Channel, queues: dict[QueueKey, None], action: Callable[[], None],
        until_ms: int,
    ) -> None:  # fmt: skip
        first = self._going(queues)
        if first:
            self.answers.wait(channel)
        self._ask_left(first, action, until_ms)

    def when_gone(self, queues: dict[QueueKey, None], action: Callable[[], None]) -> None:
        """Runs the action when those of the queues that go with their last consumer, and have
        none any more, have gone everywhere. Perhaps at once."""
        self._ask_left(self._going(queues), action, self._leave_until_ms())

    def _ask_left(self, first: list[FragmentId], action: Callable[[], None], until_ms: int) -> None:
        if first:
            self.asking.ask(
                CALL_LEFT, first, lambda _: self.answers.when_everywhere(action, until_ms), until_ms
            )
        else:
            action()

    def _going(self, queues: dict[QueueKey, None]) -> list[FragmentId]:
        """The fragments that decide whether such queues go."""
        state = self.state
        first: list[FragmentId] = []
        for queue in queues if state.serving else ():
            info, hub = state.map.queues.get(queue), state.hubs.get(queue)
            if info is not None and info.auto_delete and (hub is None or not hub.count):
                first.append(info.fragments[0])
        return first

    def _when_quiet(
        self, fragments: list[FragmentId], action: Callable[[], None], until_ms: int
    ) -> None:
        """The queue's fragments elsewhere may have sent messages before they hear of the cancel.

        When they answer a question, those messages have come, and gone back; when they answer
        another one, they have them again. So after cancel-ok nothing is missing from the queue.
        """
        self.asking.ask(
            CALL_COUNT, fragments, lambda _: self._came_back(fragments, action, until_ms), until_ms
        )

    def _came_back(
        self, fragments: list[FragmentId], action: Callable[[], None], until_ms: int
    ) -> None:
        self.consuming.settling.flush_settlements()
        self.asking.ask(CALL_COUNT, fragments, lambda _: action(), until_ms)

    def remove_consumers(self, consumers: Iterable[Consumer]) -> int:
        """Consumers end; an auto-delete queue of this node goes with its last one.

        Returns of how many queues.
        """
        queues = self.consuming.remove(consumers)
        for queue, highest in queues.items():
            hub = self.state.hubs.get(queue)
            # Others here are not the next in turn for what is on its way to one that left.
            if hub is not None and hub.sources and (hub.single or hub.outranks(highest)):
                self._hand_over(hub, queue)
            private = self.state.private.get(queue)
            if private is not None and private.auto_delete and not private.hub.size:
                self.queues.drop_private([private])
        return len(queues)

    def _hand_over(self, hub: Hub[Consumer], queue: QueueKey) -> None:
        """Once the fragments elsewhere answer, what they had sent to the one that left has come."""

        def heard(_: Totals) -> None:
            # What came in this turn, before this word, was sent before, too.
            self.consuming.give_back_surplus(hub)
            hub.changing -= 1
            self.state.dirty_queues[queue] = None

        hub.changing += 1
        self.asking.ask(CALL_COUNT, list(hub.sources), heard)

    def get(self, channel: Channel, request: BasicGet) -> None:
        """basic.get: empty only when every fragment is (P5)."""
        found = self.queues.find(channel, request.queue)
        if isinstance(found, Refused):
            self.answers.refuse(channel, found, request)
            return
        private = self.state.private.get(found)
        if private is not None:
            if not self.getting.get_private(channel, private, request.no_ack):
                self.answers.wait_for_turns(channel)
        elif not self.getting.get(channel, found, request.no_ack):
            self.answers.wait(channel)

    def recover(self, channel: Channel, request: BasicRecover | BasicRecoverAsync) -> None:
        """basic.recover: everything unacknowledged returns to its queues (as in RabbitMQ)."""
        if not request.requeue:
            raise ConnectionViolation(
                NOT_IMPLEMENTED, "basic.recover without requeue: nack instead", BASIC, BASIC_RECOVER
            )
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
        """530, as RabbitMQ, for a consumer more than a channel or connection may have."""
        settings = self.state.settings
        for count, most, what in (
            (len(channel.consumers), settings.consumers_per_channel_max, "channel"),
            (channel.client.consumers, settings.consumers_per_connection_max, "connection"),
        ):
            if count >= most:
                text = f"reached maximum ({most}) of consumers per {what}"
                raise ConnectionViolation(NOT_ALLOWED, text, BASIC, BASIC_CONSUME)

    def flow(self, channel: Channel, request: ChannelFlow) -> None:
        """channel.flow: the client stops or restarts its deliveries (1.5.2.3)."""
        channel.flow = request.active
        wake_consumers(self.state, channel)
        self.answers.reply(channel, ChannelFlowOk(request.active))

    def confirm_select(self, channel: Channel, request: ConfirmSelect) -> None:
        """confirm.select: from here on publishes are numbered and confirmed."""
        if channel.transaction is not None:
            refused = Refused(PRECONDITION_FAILED, "cannot switch from tx to confirm mode")
            self.answers.refuse(channel, refused, request)
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
