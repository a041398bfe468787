"""basic.consume of a stream, and what a client cannot do with one (RabbitMQ's words)."""

from functools import partial
from typing import Final, TypeAlias

from fedq.amqp.filtering import StreamFilter
from fedq.amqp.method_types import (
    BasicConsume,
    BasicConsumeOk,
    BasicRecover,
    BasicRecoverAsync,
    Method,
)
from fedq.amqp.methods import ids_of
from fedq.core.errors import (
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    ConnectionViolation,
    Refused,
)
from fedq.core.ids import FragmentId, QueueKey
from fedq.core.limits import STREAM_FILTERS_MAX, STREAM_NAMES_MAX
from fedq.core.versions import FILTERS, NAMED
from fedq.node.consuming.settle_flow import SettleFlow, refuse_return
from fedq.node.endings.channel_ends import ChannelEnds
from fedq.node.records.answers import Answers
from fedq.node.records.client_state import Channel, Consumer, Cursor
from fedq.node.records.named_readers import Member
from fedq.node.records.state import NodeState
from fedq.node.requests.queue_refusals import missing, refuse_too_new
from fedq.node.streams.reading import Reading
from fedq.wiring.cluster_map.operations import arguments_of
from fedq.wiring.cluster_map.queue_arguments import CLASSIC, name_of, refuse_without_effect
from fedq.wiring.cluster_map.stream_arguments import (
    FILTER,
    FORGET,
    NAME,
    NEXT,
    Beginning,
    Misfit,
    beginning_of,
    filter_of,
    name_of_reader,
)

#: A reader with a name, by fragment; empty for one without.
Members: TypeAlias = dict[FragmentId, Member]

_OFFSET: Final = "x-stream-offset"
#: What a consumer of another queue may say, and a reader of a stream may not.
_NOT_OF_READERS: Final = ("x-priority", "x-cancel-on-ha-failover")


class ReaderRequests:
    """Answers what clients ask of streams."""

    __slots__ = ("answers", "ends", "reading", "settling", "state")

    def __init__(
        self, state: NodeState, answers: Answers, ends: ChannelEnds, settling: SettleFlow,
        reading: Reading,
    ) -> None:  # fmt: skip
        self.state = state
        self.answers = answers
        self.ends = ends
        self.settling = settling
        self.reading = reading

    def consume(self, channel: Channel, request: BasicConsume, tag: str, queue: QueueKey) -> None:
        """Carries out basic.consume of a stream."""
        what = name_of(queue)
        refused = _refuse_arguments(request, what) or self.state.accounts.refuse_more(
            channel.client
        )
        if refused is None and not channel.prefetch:
            text = f"consumer prefetch count is not set for '{what}'"
            refused = Refused(PRECONDITION_FAILED, text)
        if refused is not None:
            self.ends.refuse(channel, refused, request)
            return
        if request.no_ack:
            raise refuse_method("automatic acknowledgement", queue, request)
        beginning: Beginning | str = Beginning(NEXT)
        if _OFFSET in request.arguments:
            beginning = beginning_of(request.arguments[_OFFSET], self.state.unix_ms)
        if isinstance(beginning, str):
            text = f"invalid arg '{_OFFSET}' for {what}: {beginning}"
            self.ends.refuse(channel, Refused(PRECONDITION_FAILED, text), request)
            return
        wanted = self._filter_of(request, what)
        if isinstance(wanted, Refused):
            self.ends.refuse(channel, wanted, request)
            return
        members = self._named(request, queue, beginning)
        if isinstance(members, Refused):
            self.ends.refuse(channel, members, request)
            return
        consumer = Consumer(channel, tag, queue, False, channel.prefetch)
        begin = partial(self._begin, consumer, request, wanted, members)
        # What is published once the client has the answer must not be missed: the answer waits.
        self.answers.wait(channel)
        if members:
            self.reading.find_named(members, begin)
        else:
            self.reading.find(queue, beginning, begin)

    def _named(
        self, request: BasicConsume, queue: QueueKey, beginning: Beginning
    ) -> Members | Refused:
        """A reader with a name, or why it may not have such a one; nothing for one without."""
        what = name_of(queue)
        named = name_of_reader(request.arguments)
        if isinstance(named, Misfit):
            text = f"invalid arg '{named.argument}' for {what}: {named.text}"
            return Refused(PRECONDITION_FAILED, text)
        if named is None:
            return {}
        refused = refuse_too_new("names of streams' readers", NAMED, self.state.map)
        naming = self.reading.naming
        return refused or naming.members(queue, named.name, beginning, named.forgets)

    def _filter_of(self, request: BasicConsume, what: str) -> StreamFilter | Refused | None:
        """The filter of a reader, or why it may not have such a one."""
        wanted = filter_of(request.arguments)
        if isinstance(wanted, Misfit):
            text = f"invalid arg '{wanted.argument}' for {what}: {wanted.text}"
            return Refused(PRECONDITION_FAILED, text)
        if wanted is None:
            return None
        return refuse_too_new("filters of streams", FILTERS, self.state.map) or wanted

    def _begin(
        self, consumer: Consumer, request: BasicConsume, wanted: StreamFilter | None,
        members: Members, positions: dict[FragmentId, int] | None,
    ) -> None:  # fmt: skip
        """A reader begins at these positions; None: its stream is gone."""
        channel, queue = consumer.channel, consumer.queue
        if not channel.closed:
            refused = self._refuse_reader(queue, wanted, members)
            if refused is None and positions is not None:
                consumer.cursors = {}
                for fragment, position in positions.items():
                    member = members.get(fragment)
                    cursor = Cursor(consumer, position, wanted, member)
                    consumer.cursors[fragment] = cursor
                    if member is not None:
                        # It may have got, or given back, its turn since.
                        cursor.next = member.next
                        member.cursor = cursor
                if not request.no_wait:
                    self.answers.reply(channel, BasicConsumeOk(consumer.tag))
                self.reading.add(consumer)
                self.answers.finish(channel, None)
                return
            self.ends.refuse(channel, refused or missing(queue), request)
        for fragment, member in members.items():
            self.reading.naming.leave(queue, fragment, member)

    def _refuse_reader(
        self, queue: QueueKey, wanted: StreamFilter | None, members: Members
    ) -> Refused | None:
        """Why a reader cannot begin after all."""
        if queue not in self.state.map.queues:
            return missing(queue)
        text = None
        parts = self.state.streams.get(queue, {})
        if any(member.is_refused for member in members.values()):
            text = (
                f"invalid arg '{NAME}' for {name_of(queue)}: the stream keeps {STREAM_NAMES_MAX} "
                f"other names: have it forget some, by {FORGET}"
            )
        elif not all(readers.has_room_for(wanted) for readers in parts.values()):
            text = (
                f"invalid arg '{FILTER}' for {name_of(queue)}: readers on this node have "
                f"{STREAM_FILTERS_MAX} other filters: use one of those, or another node"
            )
        return Refused(PRECONDITION_FAILED, text) if text is not None else None

    def refuse_offset(self, request: BasicConsume, queue: QueueKey) -> Refused | None:
        """Why a consumer of a queue that is no stream may not say where it begins."""
        if _OFFSET not in request.arguments:
            return None
        info = self.state.map.queues.get(queue)
        kind = arguments_of(info.arguments).get("x-queue-type", CLASSIC) if info else CLASSIC
        text = f"invalid arg '{_OFFSET}' for {name_of(queue)} of queue type rabbit_{kind}_queue"
        return Refused(PRECONDITION_FAILED, text)

    def refuse_recovery(self, channel: Channel, request: BasicRecover | BasicRecoverAsync) -> None:
        """Refuses to return deliveries of streams to them."""
        for part in channel.unacked.parts():
            stream = self.settling.stream_of(part)
            if stream is not None:
                raise refuse_return(stream, ids_of(request)[1])


def refuse_method(what: str, queue: QueueKey, request: Method) -> ConnectionViolation:
    """The refusal of something that no stream does."""
    text = f"{what} not supported by stream queues {name_of(queue)}"
    return ConnectionViolation(NOT_IMPLEMENTED, text, *ids_of(request))


def _refuse_arguments(request: BasicConsume, what: str) -> Refused | None:
    """Why a reader may not say such things."""
    for name in request.arguments:
        if name in _NOT_OF_READERS:
            text = f"invalid arg '{name}' for {what} of queue type rabbit_stream_queue"
            return Refused(PRECONDITION_FAILED, text)
    return refuse_without_effect(what, request.arguments)
