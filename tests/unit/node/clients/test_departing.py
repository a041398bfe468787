"""Clients of a drained node: they hear where to go once nothing of theirs is under way."""

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetOk,
    BasicQos,
    BasicQosOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionCloseOk,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
    encode_method,
)
from fedq.core.ids import NodeId
from fedq.node.node import Node
from fedq.wiring.cluster_map.operations import Operation, encode_command
from fedq.wiring.cluster_map.operations_moves import DrainNode, UndrainNode
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import Client, Cluster

N1 = NodeId("n1")
GRACE_MS = 3_000
WHERE = "node n1 is drained: connect to another one: n2:5672, n3:5672"


def cluster_of_three(grace_ms: int = GRACE_MS) -> Cluster:
    cluster = Cluster(3, drain_grace_ms=grace_ms)
    cluster.client("n2").ask(QueueDeclare("jobs", durable=True), QueueDeclareOk)
    return cluster


def decide(cluster: Cluster, operation: Operation) -> None:
    cluster.log.append(encode_command(f"by hand {len(cluster.log)}", [operation]))
    cluster.settle()


def consuming(cluster: Cluster, *, prefetch: int = 2) -> Client:
    client = cluster.client("n1")
    client.ask(BasicQos(0, prefetch, False), BasicQosOk)
    client.ask(BasicConsume("jobs", "c"), BasicConsumeOk)
    return client


def was_sent_away(client: Client) -> bool:
    return client.has(ConnectionClose)


def is_read(client: Client) -> bool:
    return client.is_read


def test_who_has_nothing_under_way_leaves_at_once_and_hears_where_to_go() -> None:
    cluster = cluster_of_three()
    idle, elsewhere = cluster.client("n1"), cluster.client("n2")
    decide(cluster, DrainNode(N1, True))
    cluster.pass_ms(300)
    code, text = idle.close_reason
    assert (code, text.endswith(WHERE)) == (320, True)
    assert len(text.encode()) <= 255
    assert not was_sent_away(elsewhere)


def test_without_the_wish_to_close_clients_they_stay() -> None:
    cluster = cluster_of_three()
    idle = cluster.client("n1")
    decide(cluster, DrainNode(N1, False))
    cluster.pass_ms(2 * GRACE_MS)
    assert not was_sent_away(idle)
    decide(cluster, DrainNode(N1, True))
    cluster.pass_ms(300)
    assert was_sent_away(idle)


def test_a_consumer_gets_nothing_new_and_leaves_once_it_has_settled_what_it_has() -> None:
    cluster = cluster_of_three()
    consumer = consuming(cluster)
    cluster.client("n2").publish("jobs", "a", "b", "c", "d")
    assert consumer.deliveries() == ["a", "b"]
    decide(cluster, DrainNode(N1, True))
    cluster.pass_ms(300)
    consumer.send(BasicAck(1))
    cluster.pass_ms(300)
    assert consumer.deliveries() == []
    assert not was_sent_away(consumer)
    consumer.send(BasicAck(2))
    cluster.pass_ms(300)
    assert consumer.close_reason[0] == 320
    # What it settled is settled; the others were never with a client.
    other = cluster.client("n2")
    other.ask(BasicConsume("jobs", "c"), BasicConsumeOk)
    cluster.pass_ms(500)
    assert other.deliveries() == ["c", "d"]


def test_after_the_grace_time_what_is_held_goes_back() -> None:
    cluster = cluster_of_three()
    consumer = consuming(cluster)
    cluster.client("n2").publish("jobs", "a")
    assert consumer.deliveries() == ["a"]
    decide(cluster, DrainNode(N1, True))
    cluster.pass_ms(GRACE_MS - 500)
    assert not was_sent_away(consumer)
    cluster.pass_ms(1_000)
    assert consumer.close_reason[1].endswith(WHERE)
    other = cluster.client("n3")
    other.ask(BasicConsume("jobs", "c"), BasicConsumeOk)
    cluster.pass_ms(500)
    assert other.deliveries() == ["again: a"]


def test_a_transaction_and_a_publish_in_the_middle_are_waited_for() -> None:
    cluster = cluster_of_three()
    transacting, publishing = cluster.client("n1"), cluster.client("n1")
    transacting.ask(TxSelect(), TxSelectOk)
    transacting.publish("jobs", "in a transaction")
    publishing.ask(ConfirmSelect(), ConfirmSelectOk)
    whole = publish(1, "", "jobs", b"in two pieces", b"\x10\x00\x02", 0)
    publishing.write(whole[:-5])
    cluster.settle()
    decide(cluster, DrainNode(N1, True))
    cluster.pass_ms(1_000)
    assert not was_sent_away(transacting)
    assert not was_sent_away(publishing)
    transacting.ask(TxCommit(), TxCommitOk)
    publishing.write(whole[-5:])
    cluster.settle()
    cluster.pass_ms(300)
    # It hears that its publish is safe before it hears that it is to go.
    assert [type(said) for said in publishing.heard()][:2] == [BasicAck, ConnectionClose]
    assert was_sent_away(transacting)
    getting = cluster.client("n2")
    assert getting.ask(BasicGet("jobs"), BasicGetOk).message_count == 1


def test_undraining_lets_those_stay_who_are_still_there() -> None:
    cluster = cluster_of_three()
    consumer = consuming(cluster)
    cluster.client("n2").publish("jobs", "a", "b", "c")
    assert consumer.deliveries() == ["a", "b"]
    decide(cluster, DrainNode(N1, True))
    cluster.pass_ms(500)
    consumer.send(BasicAck(1))
    assert consumer.deliveries() == []
    decide(cluster, UndrainNode(N1))
    cluster.pass_ms(2 * GRACE_MS)
    assert not was_sent_away(consumer)
    assert consumer.deliveries() == ["c"]
    # And a drain that comes later begins anew.
    decide(cluster, DrainNode(N1, True))
    cluster.pass_ms(500)
    assert not was_sent_away(consumer)


def test_nobody_is_sent_away_while_there_is_nowhere_to_go() -> None:
    cluster = cluster_of_three()
    consumer = consuming(cluster)
    cluster.client("n2").publish("jobs", "a", "b", "c")
    assert consumer.deliveries() == ["a", "b"]
    decide(cluster, DrainNode(NodeId("n2"), False))
    decide(cluster, DrainNode(N1, True))
    cluster.pass_ms(500)
    cluster.kill("n3")
    cluster.wait_for(lambda: not cluster.node("n1").state.map.members[NodeId("n3")].up)
    cluster.pass_ms(2 * GRACE_MS)
    assert not was_sent_away(consumer)
    consumer.send(BasicAck(1))
    cluster.pass_ms(500)
    # n3, which led the queue by then, may have handed it out before it died.
    assert consumer.deliveries() in (["c"], ["again: c"])


def test_who_is_not_read_for_an_alarm_is_read_again_as_it_is_sent_away() -> None:
    """Before, its close-ok was not read, and its socket stood for three seconds more."""
    cluster = cluster_of_three()
    client = cluster.client("n1")
    state = cluster.node("n1").state

    def hold(_: Node) -> None:
        state.hold_reading(state.clients[client.connection], "an alarm")

    cluster.hosts[N1].inbox.append(hold)
    cluster.settle()
    assert not is_read(client)
    decide(cluster, DrainNode(N1, True))
    cluster.pass_ms(300)
    assert was_sent_away(client)
    assert is_read(client)
    client.write(encode_method(0, ConnectionCloseOk()))
    cluster.settle()
    assert client.lost


def test_a_grace_time_of_zero_waits_for_nobody() -> None:
    cluster = cluster_of_three(0)
    consumer = consuming(cluster)
    cluster.client("n2").publish("jobs", "a")
    decide(cluster, DrainNode(N1, True))
    cluster.pass_ms(100)
    assert was_sent_away(consumer)
