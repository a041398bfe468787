"""Long queues with a length: what is too much goes although its body is on disk alone."""

import pytest

from fedq.amqp.methods import (
    BasicAck,
    BasicGet,
    BasicGetOk,
    BasicNack,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
    QueuePurge,
    QueuePurgeOk,
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


#: Bytes of a body in these tests.
EACH = len(body(0))


def test_what_has_too_many_bytes_is_dropped_though_it_is_on_disk_alone() -> None:
    cluster = Cluster(1, **SMALL, scrub_bytes_per_second=0)
    client = client_of(cluster, {"x-max-length-bytes": 200 * EACH + 50})
    publish(cluster, client, range(200))
    assert stowed(cluster, "n1") > 100
    fragment = primary_of(cluster).fragment
    assert fragment.ready_bytes == 200 * EACH
    publish(cluster, client, range(200, 300))
    assert count_of(client) == 200
    assert fragment.dropped == 100
    assert fragment.ready_bytes == 200 * EACH
    tags = [client.ask(BasicGet("q"), BasicGetOk).delivery_tag for _ in range(20)]
    assert fragment.ready_bytes == 180 * EACH
    client.send(BasicNack(tags[-1], multiple=True, requeue=True))
    cluster.pass_ms(1_000)
    again = [f"again: {body(number)}" for number in range(100, 120)]
    assert drained(cluster, client, 200) == again + [body(number) for number in range(120, 300)]
    assert fragment.ready_bytes == 0


@pytest.mark.parametrize("copies", [1, 3])
def test_what_has_too_many_bytes_is_read_to_become_a_dead_letter(copies: int) -> None:
    cluster = Cluster(copies, **SMALL)
    client = cluster.client()
    client.ask(QueueDeclare("dead", durable=True), QueueDeclareOk)
    client = client_of(
        cluster,
        {
            "x-max-length-bytes": 100 * EACH,
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


def test_a_queue_that_refuses_counts_the_bytes_of_what_is_on_disk_alone() -> None:
    cluster = Cluster(1, **SMALL)
    arguments: FieldTable = {"x-max-length-bytes": 200 * EACH, "x-overflow": "reject-publish"}
    client = client_of(cluster, arguments)
    publish(cluster, client, range(200))
    assert stowed(cluster, "n1") > 100
    client.publish("q", "x")
    cluster.wait_for(lambda: client.has(BasicNack))
    assert client.ask(QueuePurge("q"), QueuePurgeOk).message_count == 200
    client.take(BasicNack)
    publish(cluster, client, range(200))
    client.publish("q", "x")
    cluster.wait_for(lambda: client.has(BasicNack))


@pytest.mark.parametrize("restarts", [False, True])
def test_bytes_that_an_earlier_reign_left_on_disk_count_as_no_more_than_they_are(
    restarts: bool,
) -> None:
    """So nothing that fits is dropped; what is read counts as what it is."""
    cluster = Cluster(1 if restarts else 3, **SMALL)
    arguments: FieldTable = {"x-max-length-bytes": 300 * EACH}
    client = client_of(cluster, arguments if restarts else {**arguments, "x-fedq-replicas": 3})
    publish(cluster, client, range(300))
    primary = cluster.primary_of("q")
    cluster.kill(primary)
    if restarts:
        cluster.start(primary)
    cluster.wait_for(lambda: cluster.primary_of("q") not in ("", *([primary] * (not restarts))))
    cluster.pass_ms(5_000)
    primary = cluster.primary_of("q")
    state = cluster.node(primary).state
    (found,) = [p for p in state.primaries.values() if p.queue == QueueKey("/", "q")]
    fragment = found.fragment
    client = cluster.client(primary)
    assert count_of(client) == 300
    assert fragment.fresh.stowed_count > 100
    assert 0 < fragment.ready_bytes <= 300 * EACH
    got = drained(cluster, client, 300)
    assert [each.removeprefix("again: ") for each in got] == [body(n) for n in range(300)]
    assert fragment.ready_bytes == 0
