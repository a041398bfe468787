"""What policies and transactions keep when nodes die, and what they forget with them."""

import pytest

from fedq.amqp.content import encode_properties
from fedq.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
    encode_method,
)
from fedq.core.ids import FragmentId, Incarnation, MapVersion, NodeId, Origin
from fedq.core.message import FLAG_DELAYED, encode, make_route
from fedq.core.peer_messages import CALL_CONSUME, CALL_CONSUME_ALONE, Attach
from fedq.fragments.fragment import Fragment
from fedq.fragments.upkeep.enforcement import wake
from fedq.node.records.roles import Primary
from tests.unit.node.harness import TICK_MS, Client, Cluster

ANN = NodeId("ann")
#: No multiple of ticks: one tick too early is to be seen.
EXPIRES_MS = 1_020


def other_than(cluster: Cluster, *nodes: str) -> str:
    return next(name for name in cluster.hosts if name not in nodes)


def the_primary(cluster: Cluster, queue: str) -> Primary:
    node = cluster.node(cluster.primary_of(queue))
    return next(p for p in node.state.primaries.values() if p.queue.name == queue)


def settling(cluster: Cluster, home: str) -> Client:
    """A client that has three messages of "orders" and takes no more, in a transaction."""
    client = cluster.client(home)
    client.publish("orders", "a", "b", "c")
    client.ask(BasicQos(0, 3), BasicQosOk)
    client.ask(BasicConsume("orders", "c"), BasicConsumeOk)
    cluster.wait_for(lambda: client.has(BasicConsumeOk) or len(client.said) >= 3)
    assert client.deliveries() == ["a", "b", "c"]
    client.ask(TxSelect(), TxSelectOk)
    return client


@pytest.mark.parametrize("turns_before", [0, 1, 2, 3])
def test_a_commit_of_settlements_alone_outlives_the_primary(turns_before: int) -> None:
    """All of it counts once it is answered, however far it had come."""
    cluster = Cluster(3)
    cluster.client().ask(QueueDeclare("orders", durable=True), QueueDeclareOk)
    primary = cluster.primary_of("orders")
    home = other_than(cluster, primary)
    client = settling(cluster, home)
    client.send(BasicAck(1), BasicNack(3, False, True))
    client.write(encode_method(1, TxCommit()))
    cluster._turn(cluster.hosts[NodeId(home)])
    for _ in range(turns_before):
        for host in cluster.hosts.values():
            cluster._turn(host)
    cluster.kill(primary)
    cluster.wait_for(lambda: client.has(TxCommitOk))
    cluster.pass_ms(2_000)
    assert set(client.deliveries()) <= {"again: c"}
    counted = client.ask(QueueDeclare("orders", passive=True), QueueDeclareOk)
    assert counted.message_count == 0, "b and c are with the consumer"
    client.hang_up()
    cluster.pass_ms(100)
    last = cluster.client(home)
    last.ask(BasicConsume("orders", "c"), BasicConsumeOk)
    cluster.pass_ms(100)
    assert last.deliveries() == ["again: b", "again: c"]


def test_a_commit_of_settlements_alone_is_one_record() -> None:
    cluster = Cluster(1)
    client = cluster.client()
    client.ask(QueueDeclare("orders", durable=True), QueueDeclareOk)
    client = settling(cluster, "n1")
    client.send(BasicAck(1), BasicNack(3, False, True))
    cluster.disk_waits("n1", True)
    client.send(TxCommit())
    assert not client.has(TxCommitOk), "it is not on the disk yet"
    cluster.disk_waits("n1", False)
    cluster.pass_ms(50)
    assert client.has(TxCommitOk)


def test_a_global_prefetch_counts_deliveries_until_their_commit() -> None:
    cluster = Cluster(1)
    client = cluster.client(channels=2)
    client.ask(QueueDeclare("orders", durable=True), QueueDeclareOk)
    client.ask(BasicQos(0, 1, True), BasicQosOk)
    client.ask(TxSelect(), TxSelectOk)
    client.ask(BasicConsume("orders", "c"), BasicConsumeOk)
    client.publish("orders", "a", "b", channel=2)
    assert client.deliveries() == ["a"]
    client.send(BasicAck(1))
    client.publish("orders", "c", channel=2)
    assert client.deliveries() == []
    client.ask(TxRollback(), TxRollbackOk)
    assert client.deliveries() == []
    client.send(BasicAck(1))
    client.ask(TxCommit(), TxCommitOk)
    assert client.deliveries() == ["b"]


@pytest.mark.parametrize("verb", [CALL_CONSUME, CALL_CONSUME_ALONE])
def test_a_consumer_is_not_admitted_after_its_node_died(verb: int) -> None:
    """Nobody would take it back: the queue would be in use, or locked, for ever."""
    cluster = Cluster(3)
    cluster.client().ask(QueueDeclare("orders", durable=True), QueueDeclareOk)
    home = cluster.primary_of("orders")
    asking, silent = (name for name in cluster.hosts if name != home)
    primary = the_primary(cluster, "orders")
    # A reign has just begun, and one node has not said yet what its consumers hold.
    primary.attaching[NodeId(silent)] = MapVersion(1 << 40)
    cluster.node(home).copies.questions.put(NodeId(asking), 5, primary.fragment.fragment_id, verb)
    cluster.kill(asking)
    cluster.pass_ms(4_000)
    primary.attaching.clear()
    client = cluster.client(home)
    client.ask(BasicConsume("orders", "c", exclusive=True), BasicConsumeOk)
    assert dict(primary.takers.consumers) == {home: 1}


def test_a_queue_is_in_use_whichever_fragment_answers() -> None:
    """x-expires: its first fragment decides, and another one may have all the messages."""
    cluster = Cluster(2)
    arguments = {"x-expires": 5_000, "x-fedq-fragments": 2}
    cluster.client().ask(
        QueueDeclare("orders", durable=True, arguments={**arguments}), QueueDeclareOk
    )
    client = cluster.client(other_than(cluster, cluster.primary_of("orders")))
    client.publish("orders", *["m"] * 10)
    for _ in range(8):
        cluster.pass_ms(1_000)
        client.ask(BasicGet("orders", True), BasicGetOk)


@pytest.mark.parametrize("how", ["cancel here", "cancel elsewhere", "down", "anew"])
def test_the_time_of_an_unused_queue_begins_when_its_last_consumer_goes(how: str) -> None:
    """x-expires: not with the tick before that, at which the consumer was last seen."""
    cluster = Cluster(3)
    arguments = {"x-expires": EXPIRES_MS, "x-fedq-replicas": 2}
    cluster.client().ask(
        QueueDeclare("orders", durable=True, arguments={**arguments}), QueueDeclareOk
    )
    at = cluster.primary_of("orders")
    home = at if how == "cancel here" else other_than(cluster, at)
    client = cluster.client(home)
    client.ask(BasicConsume("orders", "c"), BasicConsumeOk)
    cluster.pass_ms(2_000)
    cluster.now_ms += TICK_MS - 1
    primary, node = the_primary(cluster, "orders"), NodeId(home)
    if how == "down":
        cluster.hosts[NodeId(at)].inbox.append(
            lambda served: served.copies.fragments.lose_taker(primary, node)
        )
    elif how == "anew":
        none = Attach(primary.fragment.fragment_id, primary.fragment.reign, 0, False, 0, [])
        cluster.hosts[NodeId(at)].inbox.append(
            lambda served: served.copies.fragments.on_attach(node, none)
        )
    else:
        client.ask(BasicCancel("c"), BasicCancelOk)
    left_ms = cluster.now_ms
    seen = cluster.node(at).state
    cluster.wait_for(lambda: not seen.map.queues)
    assert not primary.takers.consumers
    assert EXPIRES_MS <= cluster.now_ms - left_ms <= EXPIRES_MS + 4 * TICK_MS


def test_a_delayed_message_that_a_consumer_holds_stays_its_own() -> None:
    """It was due by the clock of the primary that died, and is not by the next one's."""
    data = encode_properties({"headers": {"x-delay": 1_000}})
    message = encode(FLAG_DELAYED, make_route("", "orders"), data, b"x")
    origin = Origin(ANN, Incarnation(1))
    first = Fragment(FragmentId(1), 1, durable=False, recording=False)
    first.publish(origin, 1, [message], unix_ms=0)
    notes = {what: dict(table) for what, table in first.notes.items()}
    wake(first, 1_000)
    held = first.take(ANN, 1).positions
    then = Fragment(
        FragmentId(1), 2, durable=False, recording=False, messages=first.messages, notes=notes,
        unix_ms=900,
    )  # fmt: skip
    then.attach(ANN, held)
    then.check()
    wake(then, 1_001)
    assert then.ready_count == 0
    then.settle(ANN, held)
    assert then.messages == {}


def test_a_refused_transaction_reaches_nobody_who_is_away() -> None:
    cluster = Cluster(3)
    client, away = cluster.client("n1"), cluster.client("n3")
    for name in ("orders", "bills"):
        client.ask(QueueDeclare(name, durable=True), QueueDeclareOk)
        client.ask(QueueBind(name, "amq.fanout"), QueueBindOk)
    away.ask(QueueDeclare("mine", exclusive=True), QueueDeclareOk)
    away.ask(QueueBind("mine", "amq.fanout"), QueueBindOk)
    away.ask(BasicConsume("mine", no_ack=True), BasicConsumeOk)
    cluster.cut("n3")
    cluster.pass_ms(4_000)
    client.ask(TxSelect(), TxSelectOk)
    client.publish("", "a", exchange="amq.fanout")
    assert client.ask(TxCommit(), ChannelClose).reply_code == 406
    cluster.mend("n3")
    cluster.pass_ms(5_000)
    assert away.deliveries() == []
    assert (
        cluster.client().ask(QueueDeclare("bills", passive=True), QueueDeclareOk).message_count == 0
    )
