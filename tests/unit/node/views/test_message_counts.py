"""What is counted of messages: on the node whose clients they are, and in each fragment."""

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicReject,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueuePurge,
    QueuePurgeOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from fedq.amqp.values import FieldTable
from fedq.core.ids import QueueKey
from fedq.node.views.overview import overview
from fedq.node.views.overview_types import TrafficOverview
from tests.unit.node.harness import Client, Cluster

ORDERS = QueueKey("/", "orders")
#: What is counted on a node.
NAMES = (
    "received", "confirmed", "returned", "unroutable", "delivered", "delivered_settled", "got",
    "got_nothing", "redelivered", "acknowledged",
)  # fmt: skip


def counted(cluster: Cluster, node: str = "n1") -> dict[str, int]:
    """What a node has counted, without what is 0."""
    counts = overview(cluster.node(node)).node().counts
    return {name: value for name in NAMES if (value := getattr(counts, name))}


def traffic(cluster: Cluster, node: str = "n1", queue: QueueKey = ORDERS) -> TrafficOverview:
    """What came to the one fragment there and went."""
    (found,) = overview(cluster.node(node)).local_fragments(queue)
    return found.traffic


def a_client(cluster: Cluster, node: str = "n1") -> Client:
    client = cluster.client(node, channels=2)
    client.ask(QueueDeclare("orders", durable=True), QueueDeclareOk)
    return client


def test_publishes_deliveries_and_acknowledgements_are_counted_by_the_message() -> None:
    cluster = Cluster(1)
    client = a_client(cluster)
    client.publish("orders", "a", "b", "c", "d")
    client.ask(BasicConsume("orders", "c"), BasicConsumeOk)
    assert len(client.deliveries()) == 4
    client.send(BasicAck(2, multiple=True), BasicNack(3, requeue=True), BasicReject(4))
    assert client.deliveries() == ["again: c"]
    assert counted(cluster) == {"received": 4, "delivered": 5, "redelivered": 1, "acknowledged": 2}
    assert traffic(cluster) == TrafficOverview(4, 5, 1, 2)


def test_confirms_count_what_is_acknowledged_to_the_publisher_alone() -> None:
    cluster = Cluster(1)
    client = cluster.client()
    full: FieldTable = {"x-max-length": 1, "x-overflow": "reject-publish"}
    client.ask(QueueDeclare("short", arguments=full), QueueDeclareOk)
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    client.publish("short", "a", "b", "c")
    cluster.settle()
    assert counted(cluster) == {"received": 3, "confirmed": 1}


def test_what_finds_no_queue_is_told_apart() -> None:
    cluster = Cluster(1)
    client = a_client(cluster)
    client.publish("nowhere", "a", "b")
    client.publish("nowhere", "c", mandatory=True)
    client.publish("nowhere", "d", exchange="amq.direct")
    assert counted(cluster) == {"received": 4, "returned": 1, "unroutable": 3}


def test_answers_to_get_and_deliveries_without_acknowledgement_are_told_apart() -> None:
    cluster = Cluster(1)
    client = a_client(cluster)
    client.publish("orders", "a", "b", "c")
    client.ask(BasicGet("orders", no_ack=True), BasicGetOk)
    client.ask(BasicGet("orders"), BasicGetOk)
    client.send(BasicAck(2))
    client.ask(BasicConsume("orders", "c", no_ack=True), BasicConsumeOk, 2)
    assert client.deliveries() == ["c"]
    client.ask(BasicGet("orders"), BasicGetEmpty)
    assert counted(cluster) == {
        "received": 3, "delivered": 1, "delivered_settled": 1, "got": 2, "got_nothing": 1,
        "acknowledged": 1,
    }  # fmt: skip
    assert traffic(cluster) == TrafficOverview(3, 3, 0, 1)


def test_purged_messages_count_as_nothing_else() -> None:
    cluster = Cluster(1)
    client = a_client(cluster)
    client.publish("orders", "a", "b")
    client.ask(QueuePurge("orders"), QueuePurgeOk)
    assert counted(cluster) == {"received": 2}
    assert traffic(cluster) == TrafficOverview(2, 0, 0, 0)


def test_acknowledgements_in_a_transaction_count_when_it_is_committed() -> None:
    cluster = Cluster(1)
    client = a_client(cluster)
    client.publish("orders", "a", "b")
    client.ask(TxSelect(), TxSelectOk)
    client.ask(BasicConsume("orders", "c"), BasicConsumeOk)
    client.send(BasicAck(2, multiple=True))
    client.ask(TxRollback(), TxRollbackOk)
    assert counted(cluster) == {"received": 2, "delivered": 2}
    client.send(BasicAck(1))
    client.ask(TxCommit(), TxCommitOk)
    assert counted(cluster) == {"received": 2, "delivered": 2, "acknowledged": 1}
    assert traffic(cluster).acknowledged == 1


def test_a_fan_out_counts_one_publish_and_each_delivery() -> None:
    cluster = Cluster(1)
    listeners = [cluster.client() for _ in range(3)]
    for number, each in enumerate(listeners):
        each.ask(QueueDeclare(f"own.{number}", exclusive=True), QueueDeclareOk)
        each.ask(QueueBind(f"own.{number}", "amq.fanout"), QueueBindOk)
        each.ask(BasicConsume(f"own.{number}", "c", no_ack=True), BasicConsumeOk)
    client = cluster.client()
    client.publish("", "first", exchange="amq.fanout")
    client.publish("", "second", exchange="amq.fanout")
    assert [each.deliveries() for each in listeners] == [["first", "second"]] * 3
    assert counted(cluster) == {"received": 2, "delivered": 6, "delivered_settled": 6}


def test_of_two_nodes_each_counts_what_its_own_clients_do() -> None:
    cluster = Cluster(2)
    publisher, consumer = a_client(cluster), cluster.client("n2")
    publisher.publish("orders", "x", "y")
    consumer.ask(BasicConsume("orders", "c"), BasicConsumeOk)
    assert consumer.deliveries() == ["x", "y"]
    consumer.send(BasicAck(2, multiple=True))
    cluster.settle()
    assert counted(cluster) == {"received": 2}
    assert counted(cluster, "n2") == {"delivered": 2, "acknowledged": 2}
    assert traffic(cluster) == TrafficOverview(2, 2, 0, 2)
