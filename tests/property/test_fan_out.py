"""The short way to private queues against the long one: clients hear the same, in the same order.

Two nodes get the same inputs. One of them hands nothing out the short way; the other may do so
little in one turn that a run of publishes takes several. Each step is what one client says at once,
or what befalls its socket; after it, what every client has heard is compared, and in the end what
the queues still hold.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.amqp.content import encode_properties
from fedq.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicNack,
    BasicQos,
    ChannelClose,
    ChannelFlow,
    ChannelOpen,
    ConfirmSelect,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
    QueuePurge,
    encode_method,
)
from fedq.amqp.values import FieldTable
from fedq.core.limits import DELIVERY_BYTES_PER_TURN_MAX, WORK_PER_TURN
from fedq.node.publishing.fan_out import FanOut
from tests.unit.amqp.wire import Content, publish
from tests.unit.node.harness import Cluster, Said

CLIENTS = 3
CHANNELS = 2
FAN, DIRECT = "fan", "some"
KEYS = ("", "k", "key.of.more.bytes")
PROPERTIES = (
    encode_properties({}),
    encode_properties({"delivery_mode": 2, "content_type": "text/plain"}),
    encode_properties({"priority": 3, "expiration": "60000"}),
    encode_properties({"headers": {"CC": ["k"], "BCC": ["hidden"]}}),
)
ARGUMENTS: tuple[FieldTable, ...] = (
    {},
    {},
    {"x-expires": 60_000},
    {"x-max-length": 2},
    {"x-max-length": 1, "x-overflow": "reject-publish"},
    {"x-message-ttl": 60_000},
    {"x-max-priority": 5},
    {"x-single-active-consumer": True},
)
#: Bodies; the last ones come in several frames, and fill a client's share of a turn.
SIZES = (0, 1, 5, 300, 5_000, 140_000, DELIVERY_BYTES_PER_TURN_MAX // 2)


class Publish(NamedTuple):
    """Some publishes alike but for their bodies."""

    exchange: str
    key: str
    properties: bytes
    size: int
    many: int
    mandatory: bool


class Writable(NamedTuple):
    """The client's socket takes more, or does not."""

    writable: bool


Word = Method | Publish
publishes = st.builds(
    Publish,
    exchange=st.sampled_from([FAN, FAN, FAN, DIRECT]),
    key=st.sampled_from(KEYS),
    properties=st.sampled_from([PROPERTIES[0], *PROPERTIES]),
    size=st.sampled_from([*SIZES[:5] * 4, *SIZES]),
    many=st.integers(1, 4),
    mandatory=st.booleans(),
)
declares = st.builds(
    QueueDeclare, exclusive=st.just(True), auto_delete=st.booleans(),
    arguments=st.sampled_from(ARGUMENTS),
)  # fmt: skip
binds = st.builds(
    QueueBind, exchange=st.sampled_from([FAN, FAN, DIRECT]), routing_key=st.sampled_from(KEYS)
)
consumes = st.builds(
    BasicConsume,
    consumer_tag=st.sampled_from(["", "", "one", "two"]),
    no_ack=st.sampled_from([True, True, False]),
)
methods = (
    declares | binds | consumes
    | st.builds(BasicGet, no_ack=st.booleans())
    | st.builds(BasicCancel, consumer_tag=st.sampled_from(["one", "two"]))
    | st.builds(lambda most, all_: BasicQos(0, most, all_), st.integers(0, 3), st.booleans())
    | st.builds(BasicAck, delivery_tag=st.just(0), multiple=st.just(True))
    | st.builds(BasicNack, delivery_tag=st.just(0), multiple=st.just(True), requeue=st.just(True))
    | st.builds(ChannelFlow, active=st.booleans())
    | st.sampled_from([QueuePurge(), ConfirmSelect(), ChannelClose(200, "", 0, 0), ChannelOpen()])
)  # fmt: skip
#: A queue that hears the exchange, with a consumer that may go the short way.
subscriptions = st.builds(
    lambda declare, bind, consume: [declare, bind, consume], declares, binds, consumes
)
words = st.lists(publishes | publishes | methods, min_size=1, max_size=3) | subscriptions
steps = st.tuples(
    st.integers(0, CLIENTS - 1),
    st.integers(1, CHANNELS),
    words | words | words | st.builds(Writable, st.booleans()),
)


class Side:
    """One of the two nodes, with its clients."""

    def __init__(self, room: int | None, **settings: int) -> None:
        """`room`: the budget of a turn; None: nothing goes the short way."""
        self.cluster = Cluster(**settings)
        node = self.cluster.node("n1")
        if room is not None:
            node.state.work.resize(room)
        else:
            fan_out = FanOut(node.state, run_bytes_max=0)
            node.publishing.outlets.fan_out = node.publishing.relays.fan_out = fan_out
        self.clients = [self.cluster.client(channels=CHANNELS) for _ in range(CLIENTS)]
        for name, kind in ((FAN, "fanout"), (DIRECT, "direct")):
            self.clients[0].send(ExchangeDeclare(exchange=name, type=kind))
        for client in self.clients:
            client.send(*_subscription())
        self.heard()

    def step(self, number: int, channel: int, said: list[Word] | Writable) -> None:
        """One client says something, all at once, or its socket fills or empties."""
        client = self.clients[number]
        if isinstance(said, Writable):
            connection, writable = client.connection, said.writable
            client.host.inbox.append(lambda node: node.on_writable(connection, writable))
        else:
            client.write(b"".join(_encode(channel, word) for word in said))
        self.cluster.settle()

    def heard(self) -> list[list[Said]]:
        """What each client heard since the last look."""
        said = [client.said[:] for client in self.clients]
        for client in self.clients:
            client.said.clear()
        return said

    def held(self) -> list[tuple[str, int, int]]:
        """The private queues, what is ready in them, and what all messages take."""
        private = self.cluster.node("n1").state.private.values()
        return [(q.key.name, q.fragment.ready_count, q.fragment.bytes_held) for q in private]


def _subscription() -> list[Method]:
    return [
        QueueDeclare(exclusive=True),
        QueueBind(exchange=FAN),
        BasicConsume(consumer_tag="one", no_ack=True),
    ]


def _encode(channel: int, word: Word) -> bytes:
    if not isinstance(word, Publish):
        return encode_method(channel, word)
    bodies = [bytes((65 + index,)) * word.size for index in range(word.many)]
    return b"".join(
        publish(channel, word.exchange, word.key, body, word.properties, int(word.mandatory))
        for body in bodies
    )


ByConsumer = tuple[list[Said], dict[int, list[int]], dict[tuple[int, str], list[Said]]]


def by_consumer(said: list[Said]) -> ByConsumer:
    """What was said but deliveries; each channel's delivery tags; each consumer's deliveries.

    Which of two consumers of one connection comes first is nobody's business.
    """
    others: list[Said] = []
    tags: dict[int, list[int]] = {}
    deliveries: dict[tuple[int, str], list[Said]] = {}
    for each in said:
        if isinstance(each, Content) and isinstance(each.method, BasicDeliver):
            name = (each.channel, each.method.consumer_tag)
            tags.setdefault(each.channel, []).append(each.method.delivery_tag)
            untagged = each._replace(method=each.method._replace(delivery_tag=0))
            deliveries.setdefault(name, []).append(untagged)
        elif isinstance(each, BasicAck):
            # One confirm for several publishes says what several say, and the last one all.
            if others and isinstance(others[-1], BasicAck):
                others.pop()
            others.append(BasicAck(each.delivery_tag))
        else:
            others.append(each)
    return others, tags, deliveries


Step = tuple[int, int, list[Word] | Writable]


def _told(said: list[Said], room: int) -> object:
    """What was said. With little room channels answer in turns, in any order among each other.

    Confirms then come in more pieces, with other answers between them: of those of one step, which
    are one channel's, the last one says what all say.
    """
    others, tags, deliveries = by_consumer(said)
    if room >= WORK_PER_TURN:
        return others, tags, deliveries
    confirmed = max((each.delivery_tag for each in others if isinstance(each, BasicAck)), default=0)
    answers = sorted(repr(each) for each in others if not isinstance(each, BasicAck))
    return confirmed, answers, tags, deliveries


def compare(script: Iterable[Step], room: int, **settings: int) -> None:
    """Plays the script on both sides."""
    short, long = Side(room, **settings), Side(None, **settings)
    for step in script:
        short.step(*step)
        long.step(*step)
        for one, other in zip(short.heard(), long.heard(), strict=True):
            assert _told(one, room) == _told(other, room), step
    assert short.held() == long.held()
    for node in (short.cluster.node("n1"), long.cluster.node("n1")):
        for private in node.state.private.values():
            private.fragment.check()


@given(st.lists(steps, max_size=12))
def test_nobody_hears_which_way_a_message_went(script: list[Step]) -> None:
    compare(script, WORK_PER_TURN)


@given(st.lists(steps, max_size=12), st.sampled_from([1, 3, 10]))
def test_nobody_hears_how_many_turns_it_took(script: list[Step], room: int) -> None:
    """Generates one word at a time.

    A consumer that comes between two publishes may hear of the first one, or not, as turns will
    have it.
    """
    compare(_without_answers_that_wait(step for each in script for step in words_of(each)), room)


@given(st.lists(steps, max_size=12), st.integers(1, 3))
def test_nobody_hears_that_a_node_bounds_its_queues_one_way_or_the_other(
    script: list[Step], bound: int
) -> None:
    compare(script, WORK_PER_TURN, exclusive_queue_messages=bound)


@pytest.mark.parametrize("room", [1, 3])
@pytest.mark.parametrize("overflow", ["reject-publish", "drop-head"])
def test_no_want_of_time_makes_a_queue_too_long(overflow: str, room: int) -> None:
    """What a consumer takes is neither refused nor dropped for the queue's length."""
    short = QueueDeclare(exclusive=True, arguments={"x-max-length": 1, "x-overflow": overflow})
    consume = BasicConsume(no_ack=True)
    subscribed: list[Word] = [short, QueueBind(exchange=FAN), consume]
    script: list[Step] = [(number, 1, subscribed) for number in (0, 0, 1)]
    script.append((0, 1, [Publish(FAN, "", PROPERTIES[0], 5, 9, False)]))
    compare((step for each in script for step in words_of(each)), room)


def _without_answers_that_wait(script: Iterable[Step]) -> Iterator[Step]:
    """Generates no requests of clients whose sockets are full.

    Their answers would wait beside deliveries, and which of the two comes first, and so what a
    channel that ends has still heard, is a matter of turns.
    """
    full: dict[int, None] = {}
    for step in script:
        number, _, said = step
        if isinstance(said, Writable):
            full.pop(number, None)
            if not said.writable:
                full[number] = None
        elif number in full and not all(isinstance(word, Publish) for word in said):
            continue
        yield step


def words_of(step: Step) -> list[Step]:
    """The same, said word by word."""
    number, channel, said = step
    return [step] if isinstance(said, Writable) else [(number, channel, [word]) for word in said]


def test_the_short_way_is_taken() -> None:
    """Otherwise the comparison would compare nothing."""
    side = Side(WORK_PER_TURN)
    node = side.cluster.node("n1")
    before = [private.fragment.last for private in node.state.private.values()]
    side.step(0, 2, [Publish(FAN, "", PROPERTIES[0], 5, 3, False)])
    after = [private.fragment.last for private in node.state.private.values()]
    assert [new > old for old, new in zip(before, after, strict=True)] == [True, False, False]
    for heard in side.heard():
        methods_heard = [said.method for said in heard if isinstance(said, Content)]
        tags = [m.delivery_tag for m in methods_heard if isinstance(m, BasicDeliver)]
        assert tags == [1, 2, 3]
