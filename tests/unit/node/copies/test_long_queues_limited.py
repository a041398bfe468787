"""Long queues with a length: what is too much goes although its body is on disk alone."""

import pytest

from fedq.amqp.methods import (
    BasicAck,
    BasicNack,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.amqp.values import FieldTable
from fedq.core.ids import QueueKey
from fedq.node.records.roles import Primary
from tests.unit.node.copies.test_long_queues import SMALL, body, drained, publish, stowed
from tests.unit.node.harness import Client, Cluster


def client_of(cluster: Cluster, arguments: FieldTable) -> Client:
    """A client with confirms, and a queue with these arguments."""
    client = cluster.client()
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    client.ask(QueueDeclare("q", durable=True, arguments=arguments), QueueDeclareOk)
    return client


def count_of(client: Client, queue: str = "q") -> int:
    return client.ask(QueueDeclare(queue, passive=True), QueueDeclareOk).message_count


def primary_of(cluster: Cluster, queue: str = "q") -> Primary:
    state = cluster.node("n1").state
    (found,) = [p for p in state.primaries.values() if p.queue == QueueKey("/", queue)]
    return found


def test_what_is_too_much_is_dropped_though_it_is_on_disk_alone() -> None:
    cluster = Cluster(1, **SMALL)
    client = client_of(cluster, {"x-max-length": 200})
    publish(cluster, client, range(190))
    assert stowed(cluster, "n1") > 100
    publish(cluster, client, range(190, 300))
    assert count_of(client) == 200
    assert primary_of(cluster).fragment.dropped == 100
    assert drained(cluster, client, 200) == [body(number) for number in range(100, 300)]
    assert count_of(client) == 0


@pytest.mark.parametrize("copies", [1, 3])
def test_what_is_too_much_is_read_to_become_a_dead_letter(copies: int) -> None:
    cluster = Cluster(copies, **SMALL)
    client = cluster.client()
    client.ask(QueueDeclare("dead", durable=True), QueueDeclareOk)
    client = client_of(
        cluster,
        {
            "x-max-length": 100,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
            "x-fedq-replicas": copies,
        },
    )
    publish(cluster, client, range(240))
    cluster.wait_for(lambda: count_of(client) == 100 and count_of(client, "dead") == 140, 30_000)
    assert stowed(cluster, "n1") > 50
    assert drained(cluster, client, 100) == [body(number) for number in range(140, 240)]
    assert drained(cluster, cluster.client(), 140, queue="dead") == [
        body(number) for number in range(140)
    ]


def test_a_queue_that_refuses_counts_what_is_on_disk_alone() -> None:
    cluster = Cluster(1, **SMALL)
    client = client_of(cluster, {"x-max-length": 200, "x-overflow": "reject-publish"})
    publish(cluster, client, range(200))
    assert stowed(cluster, "n1") > 100
    client.publish("q", body(200))
    cluster.wait_for(lambda: client.has(BasicNack))
    assert count_of(client) == 200
    assert drained(cluster, client, 200) == [body(number) for number in range(200)]
    client.publish("q", body(201))
    cluster.wait_for(lambda: client.has(BasicAck))
