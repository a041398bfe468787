"""Long queues whose messages expire: bodies are on disk alone, times are kept beside."""

import pytest

from fedq.amqp.content import encode_properties
from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
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
from tests.unit.amqp.wire import publish as publish_bytes
from tests.unit.node.copies.test_long_queues import SMALL, body, drained, publish, stowed
from tests.unit.node.copies.test_long_queues_limited import client_of, count_of, primary_of
from tests.unit.node.copies.test_scratch import publish as publish_transient
from tests.unit.node.copies.test_scratch import scratched
from tests.unit.node.harness import Client, Cluster

#: A time to live that nothing outlasts in these tests, and one that all but the youngest do.
LONG: FieldTable = {"x-message-ttl": 600_000}
SHORT_MS = 30_000
TO_DEAD: FieldTable = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


def held_in_memory(cluster: Cluster) -> int:
    """The bytes of the queue's messages that are in memory."""
    fragment = primary_of(cluster).fragment
    return fragment.bytes_held - fragment.fresh.stowed_bytes


def publish_to_expire(cluster: Cluster, client: Client, texts: list[str], after_ms: int) -> None:
    """Publishes persistent messages with an expiration, twenty at a time."""
    properties = encode_properties({"delivery_mode": 2, "expiration": str(after_ms)})
    for start in range(0, len(texts), 20):
        for text in texts[start : start + 20]:
            client.write(publish_bytes(1, "", "q", text.encode(), properties, 0))
        cluster.wait_for(lambda: client.has(BasicAck))
        client.take(BasicAck)
        cluster.pass_ms(600)


def test_messages_of_a_queue_with_a_time_to_live_leave_memory_and_come_back_in_order() -> None:
    cluster = Cluster(1, **SMALL)
    client = client_of(cluster, LONG)
    publish(cluster, client, range(300))
    assert stowed(cluster, "n1") > 150
    assert held_in_memory(cluster) < 10_000
    tags = [client.ask(BasicGet("q"), BasicGetOk).delivery_tag for _ in range(40)]
    client.send(BasicNack(tags[-1], multiple=True, requeue=True))
    cluster.pass_ms(1_000)
    got = drained(cluster, client, 300, no_ack=False)
    assert got == [f"again: {body(n)}" for n in range(40)] + [body(n) for n in range(40, 300)]
    assert count_of(client) == 0
    cluster.pass_ms(1_000)
    assert not primary_of(cluster).fragment.notes[1], "no time of what is gone"


def test_what_goes_nowhere_goes_unread() -> None:
    cluster = Cluster(1, **SMALL, scrub_bytes_per_second=0)
    client = client_of(cluster, {"x-message-ttl": SHORT_MS})
    publish(cluster, client, range(300))
    assert stowed(cluster, "n1") > 150
    cluster.kill("n1")
    cluster.pass_ms(SHORT_MS)
    cluster.start("n1")
    cluster.pass_ms(3_000)
    client = cluster.client()
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    assert count_of(client) == 0
    assert stowed(cluster, "n1") == 0
    assert cluster.node("n1").state.reads.asked == 0
    publish(cluster, client, range(300, 320))
    assert drained(cluster, client, 20) == [body(number) for number in range(300, 320)]


@pytest.mark.parametrize("copies", [1, 3])
def test_what_becomes_a_dead_letter_is_read_first_and_keeps_its_order(copies: int) -> None:
    cluster = Cluster(copies, **SMALL)
    client = cluster.client()
    client.ask(QueueDeclare("dead", durable=True), QueueDeclareOk)
    arguments: FieldTable = {"x-message-ttl": SHORT_MS, "x-fedq-replicas": copies, **TO_DEAD}
    client = client_of(cluster, arguments)
    publish(cluster, client, range(300))
    assert stowed(cluster, "n1") > 150
    cluster.pass_ms(SHORT_MS - 12_000)
    # All that is old dies; what is young is delivered, and nothing that is over.
    publish(cluster, client, range(300, 320))
    cluster.wait_for(lambda: count_of(client, "dead") >= 300, 60_000)
    got = drained(cluster, cluster.client(), 20)
    assert got == [body(number) for number in range(300, 320)]
    died = drained(cluster, cluster.client(), 300, queue="dead")
    assert died == [body(number) for number in range(300)]


def test_a_consumer_that_comes_late_is_delivered_nothing_that_is_over() -> None:
    cluster = Cluster(1, **SMALL)
    client = client_of(cluster, {"x-message-ttl": SHORT_MS, **TO_DEAD})
    publish(cluster, client, range(400))
    assert stowed(cluster, "n1") > 300
    cluster.pass_ms(SHORT_MS - 6_000)
    got: list[str] = []
    client.ask(BasicConsume("q", "c", no_ack=True), BasicConsumeOk)
    cluster.wait_for(lambda: count_of(client) == 0, 60_000)
    got += client.deliveries()
    assert got == [body(number) for number in range(400 - len(got), 400)]
    assert 0 < len(got) < 300


def test_messages_with_times_of_their_own_leave_memory_and_die_when_they_are_over() -> None:
    cluster = Cluster(1, **SMALL)
    client = client_of(cluster, {})
    publish_to_expire(cluster, client, [body(number) for number in range(100)], SHORT_MS)
    publish_to_expire(cluster, client, [body(number) for number in range(100, 200)], 600_000)
    publish(cluster, client, range(200, 300))
    assert stowed(cluster, "n1") > 150
    cluster.pass_ms(SHORT_MS)
    assert count_of(client) == 200
    assert drained(cluster, client, 200) == [body(number) for number in range(100, 300)]


def test_transient_ones_go_to_scratch_files_and_a_purge_leaves_nothing() -> None:
    cluster = Cluster(1, **SMALL)
    client = client_of(cluster, LONG)
    publish_transient(cluster, client, range(200))
    assert scratched(cluster) > 100
    assert client.ask(BasicGet("q"), BasicGetOk) is not None
    assert client.ask(QueuePurge("q"), QueuePurgeOk).message_count == 199
    publish_transient(cluster, client, range(200, 400))
    assert drained(cluster, client, 200) == [body(number) for number in range(200, 400)]
    assert client.ask(BasicGet("q"), BasicGetEmpty) is not None


@pytest.mark.parametrize("letters", [False, True])
def test_times_outlive_a_start_and_a_failover_though_bodies_are_on_disk(letters: bool) -> None:
    cluster = Cluster(3, **SMALL)
    client = cluster.client()
    client.ask(QueueDeclare("dead", durable=True), QueueDeclareOk)
    arguments: FieldTable = {"x-message-ttl": 60_000, "x-fedq-replicas": 3}
    client = client_of(cluster, {**arguments, **(TO_DEAD if letters else {})})
    publish(cluster, client, range(300))
    primary = cluster.primary_of("q")
    assert all(stowed(cluster, name) > 200 for name in cluster.hosts)
    for name in list(cluster.hosts):
        if name != primary:
            cluster.kill(name)
            cluster.start(name)
            cluster.pass_ms(4_000)
    cluster.kill(primary)
    cluster.wait_for(lambda: cluster.primary_of("q") not in (primary, ""), 30_000)
    client = cluster.client(cluster.primary_of("q"))
    assert count_of(client) == 300
    publish_later = cluster.client(cluster.primary_of("q"))
    cluster.pass_ms(60_000)
    publish_later.publish("q", "young")
    cluster.wait_for(lambda: count_of(client) == 1, 60_000)
    assert drained(cluster, client, 1) == ["young"]
    if letters:
        died = drained(cluster, cluster.client(cluster.primary_of("dead")), 300, queue="dead")
        assert [each.removeprefix("again: ") for each in died] == [body(n) for n in range(300)]


def test_times_of_a_lone_node_are_in_its_checkpoints() -> None:
    cluster = Cluster(1, **SMALL)
    client = client_of(cluster, {"x-message-ttl": 90_000})
    publish(cluster, client, range(600))
    cluster.kill("n1")
    cluster.start("n1")
    cluster.pass_ms(2_000)
    client = cluster.client()
    assert count_of(client) == 600
    assert stowed(cluster, "n1") > 500
    cluster.pass_ms(90_000)
    assert count_of(client) == 0
