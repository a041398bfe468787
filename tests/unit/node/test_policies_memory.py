"""What policies and transactions may cost: memory that is bounded by what is there."""

from itertools import pairwise

import pytest

from fedq.amqp.content import content_frames, encode_properties, message_flags
from fedq.amqp.methods import (
    BasicConsume,
    BasicConsumeOk,
    ChannelClose,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
    encode_method,
)
from fedq.amqp.values import FieldTable
from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin
from fedq.core.limits import DUE_PER_LOOK_MAX, WORK_PER_TURN
from fedq.core.message import encode, make_route
from fedq.core.policy import QueuePolicy
from fedq.fragments.fragment import Fragment
from fedq.fragments.upkeep.enforcement import SLACK, expire, sweep
from tests.unit.node.harness import Client, Cluster

ORIGIN = Origin(NodeId("a"), Incarnation(1))
ME = NodeId("a")


def message(**properties: int) -> bytes:
    data = encode_properties(dict(properties))
    return encode(message_flags(data), make_route("", "q"), data, b"x")


def fragment(policy: QueuePolicy) -> Fragment:
    return Fragment(FragmentId(1), 1, durable=False, recording=False, policy=policy)


@pytest.mark.parametrize("max_priority", [0, 5])
def test_a_queue_that_nobody_consumes_forgets_what_expired_there(max_priority: int) -> None:
    here = fragment(QueuePolicy(message_ttl_ms=10, max_priority=max_priority))
    for turn in range(1_000):
        here.publish(ORIGIN, 10 * turn + 1, [message(priority=turn % 3)] * 10, unix_ms=20 * turn)
        expire(here, 20 * turn + 15, 100)
        sweep(here)
        here.check()
    assert len(here.messages) <= 10
    assert here.tracked is not None
    assert len(here.tracked.line) <= SLACK + 30


@pytest.mark.parametrize("max_priority", [0, 5])
def test_a_long_time_to_live_does_not_remember_what_was_acknowledged(max_priority: int) -> None:
    here = fragment(QueuePolicy(message_ttl_ms=86_400_000, max_priority=max_priority))
    for turn in range(1_000):
        here.publish(ORIGIN, 10 * turn + 1, [message()] * 10, unix_ms=20 * turn)
        here.settle(ME, here.take(ME, 9).positions)
        here.settle(ME, here.take(ME, 1).positions)
        sweep(here)
        here.check()
    assert here.messages == {}
    assert here.tracked is not None
    assert len(here.tracked.expiring) <= SLACK + 20


def test_what_is_swept_loses_no_message_and_no_appointment() -> None:
    here = fragment(QueuePolicy(message_ttl_ms=1_000))
    here.publish(ORIGIN, 1, [message()] * 3_000, unix_ms=0)
    held = here.take(ME, 2_990).positions
    here.settle(ME, held[:-2])
    here.requeue(ME, held[-2:])
    sweep(here)
    assert here.take(ME, 4).positions == [*held[-2:], held[-1] + 1, held[-1] + 2]
    here.requeue(ME, [held[-1] + 2])
    expire(here, 1_001, DUE_PER_LOOK_MAX)
    assert list(here.messages) == [*held[-2:], held[-1] + 1], "those are with a consumer"
    assert all(one < other for one, other in pairwise(here.messages))


# --- through a node ------------------------------------------------------------------------------


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(1)


@pytest.fixture
def client(cluster: Cluster) -> Client:
    client = cluster.client(channels=2)
    client.ask(QueueDeclare("orders"), QueueDeclareOk)
    return client


def test_a_full_queue_does_not_remember_what_it_refused(cluster: Cluster, client: Client) -> None:
    arguments: FieldTable = {
        "x-max-length": 1, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": "nowhere"
    }  # fmt: skip
    client.ask(QueueDeclare("small", arguments=arguments), QueueDeclareOk)
    for _ in range(60):
        client.publish("small", *["x"] * 50)
    cluster.pass_ms(100)
    primaries = cluster.node("n1").state.primaries.values()
    small = next(p.fragment for p in primaries if p.queue.name == "small")
    assert len(small.messages) == 1
    assert small.tracked is not None
    assert len(small.tracked.line) <= SLACK + 60


def test_a_transaction_that_grows_too_large_closes_its_channel(client: Client) -> None:
    client.ask(TxSelect(), TxSelectOk)
    for _ in range(65):
        client.publish("orders", "x" * 1_048_576)
    closed = client.take(ChannelClose)
    assert closed.reply_code == 406
    assert "commit more often" in closed.reply_text


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_transaction_outlives_a_queue_that_it_published_to(
    client: Client, exclusive: bool
) -> None:
    client.ask(QueueDeclare("gone", exclusive=exclusive), QueueDeclareOk)
    client.ask(QueueBind("gone", "amq.fanout"), QueueBindOk)
    client.ask(QueueBind("orders", "amq.fanout"), QueueBindOk)
    client.ask(TxSelect(), TxSelectOk)
    client.publish("", "a", exchange="amq.fanout")
    client.ask(QueueDelete("gone"), QueueDeleteOk, 2)
    client.ask(TxCommit(), TxCommitOk)
    client.ask(BasicConsume("orders", no_ack=True), BasicConsumeOk, 2)
    assert client.deliveries() == ["a"]


def test_a_message_whose_key_is_no_text_dies_like_others(cluster: Cluster, client: Client) -> None:
    client.ask(ExchangeDeclare("dlx", "fanout"), ExchangeDeclareOk)
    client.ask(QueueBind("orders", "dlx"), QueueBindOk)
    arguments: FieldTable = {"x-dead-letter-exchange": "dlx", "x-max-length": 0}
    client.ask(QueueDeclare("short", arguments=arguments), QueueDeclareOk)
    client.ask(QueueBind("short", "amq.fanout"), QueueBindOk)
    publish = b"\x00\x3c\x00\x28\x00\x00\x0aamq.fanout\x02\xff\xfe\x00"
    frame = b"\x01\x00\x01" + len(publish).to_bytes(4, "big") + publish + b"\xce"
    client.write(frame + content_frames(1, encode_properties({}), b"x", 131_072))
    cluster.settle()
    counted = client.ask(QueueDeclare("orders", passive=True), QueueDeclareOk)
    assert counted.message_count == 1


def test_dead_letters_leave_although_memory_is_full() -> None:
    cluster = Cluster(1, memory_bytes_max=300_000)
    client = cluster.client()
    arguments: FieldTable = {
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-message-ttl": 3_000
    }  # fmt: skip
    client.ask(QueueDeclare("dead"), QueueDeclareOk)
    client.ask(QueueDeclare("mortal", arguments=arguments), QueueDeclareOk)
    for _ in range(40):
        client.publish("mortal", "x" * 10_000)
    state = cluster.node("n1").state
    cluster.wait_for(lambda: state.memory_full)
    consumer = cluster.client()
    consumer.ask(BasicConsume("dead", no_ack=True), BasicConsumeOk)
    cluster.wait_for(lambda: not state.memory_full)
    assert client.is_read
    assert len(consumer.deliveries()) == 40


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_turn_does_not_take_longer_because_all_dies_at_once(
    cluster: Cluster, client: Client, exclusive: bool
) -> None:
    """As after a long stop: each turn does its part, and nobody gets what is over."""
    arguments: FieldTable = {
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders", "x-message-ttl": 3_000
    }  # fmt: skip
    declare = QueueDeclare("mortal", exclusive=exclusive, arguments=arguments)
    client.ask(declare, QueueDeclareOk)
    count = 2 * DUE_PER_LOOK_MAX
    for _ in range(count // 1_000):
        client.publish("mortal", *["x"] * 1_000, persistent=False)
    cluster.now_ms += 4_000
    client.write(encode_method(1, BasicConsume("mortal", no_ack=True)))
    orders = next(iter(cluster.node("n1").state.primaries.values())).fragment
    sent = turns = 0
    while cluster.turn():
        turns += 1
        # A letter is ten units of work or more.
        assert orders.ready_count - sent <= WORK_PER_TURN // 10
        sent = orders.ready_count
    assert sent == count
    assert turns > count // (WORK_PER_TURN // 10)
    assert client.deliveries() == []
