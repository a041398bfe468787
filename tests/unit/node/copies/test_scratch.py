"""Transient messages of long queues: their bodies are in scratch files, and come back in order."""

import pytest

from fedq.amqp.content import NO_PROPERTIES
from fedq.amqp.methods import (
    BasicAck,
    BasicGet,
    BasicGetOk,
    BasicNack,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from fedq.amqp.values import FieldTable
from fedq.core.ids import NodeId
from fedq.core.ranges import count
from fedq.node.copies.scratching import RETRY_MS
from fedq.node.records.roles import UNREAD_MS_MAX
from tests.unit.amqp.wire import publish as publish_bytes
from tests.unit.node.copies.test_long_queues import SMALL, body, count_of, drained
from tests.unit.node.harness import PERSISTENT, Client, Cluster


def filled(
    cluster: Cluster, count: int, durable: bool = True, arguments: FieldTable | None = None
) -> Client:
    """A client of a queue with so many transient messages, each confirmed."""
    client = cluster.client()
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    client.ask(QueueDeclare("q", durable=durable, arguments=arguments or {}), QueueDeclareOk)
    publish(cluster, client, range(count))
    return client


def publish(cluster: Cluster, client: Client, numbers: range, persistent: bool = False) -> None:
    for start in range(numbers.start, numbers.stop, 20):
        for number in range(start, min(start + 20, numbers.stop)):
            client.publish("q", body(number), persistent=persistent)
        cluster.wait_for(lambda: client.has(BasicAck))
        client.take(BasicAck)
        cluster.pass_ms(600)


def spoil(cluster: Cluster, number: int, damage: str) -> None:
    """Damages a message in a scratch file: "rot" of one bit, or all from there on is "gone"."""
    wanted = body(number).encode()
    scratch = cluster.hosts[NodeId("n1")].scratch.files
    data = next(data for data in scratch.values() if wanted in data)
    if damage == "rot":
        data[data.index(wanted)] ^= 1
    else:
        del data[data.index(wanted) :]


def scratched(cluster: Cluster, name: str = "n1") -> int:
    """How many messages a node has in scratch files alone, of those it serves and copies."""
    state = cluster.node(name).state
    served = [each for p in state.primaries.values() for each in p.fragment.scratched]
    copied = [each for b in state.backups.values() for each in b.replica.scratched]
    return sum(last - first + 1 for first, last, _ in [*served, *copied])


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("no_ack", [True, False])
def test_what_was_written_comes_back_in_order(durable: bool, no_ack: bool) -> None:
    cluster = Cluster(1, **SMALL)
    client = filled(cluster, 300, durable)
    assert scratched(cluster) > 100
    assert cluster.hosts[NodeId("n1")].scratch.files
    assert client.ask(QueueDeclare("q", passive=True), QueueDeclareOk).message_count == 300
    assert drained(cluster, client, 300, no_ack) == [body(number) for number in range(300)]
    cluster.pass_ms(2_000)
    assert not cluster.hosts[NodeId("n1")].scratch.files
    scratch = cluster.node("n1").state.scratch
    assert (scratch.bytes_held, scratch.index_bytes, scratch.bytes_under_way) == (0, 0, 0)


def test_persistent_and_transient_ones_keep_their_order() -> None:
    cluster = Cluster(1, **SMALL)
    client = filled(cluster, 0)
    for start in range(0, 300, 60):
        publish(cluster, client, range(start, start + 60), persistent=start % 120 == 0)
    assert scratched(cluster) > 60
    (primary,) = cluster.node("n1").state.primaries.values()
    assert len(primary.fragment.stowed) > 0
    assert drained(cluster, client, 300) == [body(number) for number in range(300)]


def test_persistent_ones_of_a_queue_that_is_not_durable_are_written_too() -> None:
    cluster = Cluster(1, **SMALL)
    client = filled(cluster, 0, durable=False)
    publish(cluster, client, range(100), persistent=True)
    for number in range(100, 200):
        client.publish("q", body(number), persistent=number % 2 > 0)
        cluster.wait_for(lambda: client.has(BasicAck))
        client.take(BasicAck)
        cluster.pass_ms(100)
    assert scratched(cluster) > 100
    assert drained(cluster, client, 200) == [body(number) for number in range(200)]


def test_what_is_given_back_is_written_no_more_and_comes_first() -> None:
    cluster = Cluster(1, **SMALL)
    client = filled(cluster, 200)
    tags = [client.ask(BasicGet("q"), BasicGetOk).delivery_tag for _ in range(100)]
    client.send(BasicNack(tags[-1], multiple=True, requeue=True))
    cluster.pass_ms(1_000)
    got = drained(cluster, client, 200)
    assert got == [f"again: {body(n)}" for n in range(100)] + [body(n) for n in range(100, 200)]


def test_files_go_with_a_purge_and_with_their_queue() -> None:
    cluster = Cluster(1, **SMALL)
    client = filled(cluster, 200)
    host = cluster.hosts[NodeId("n1")]
    assert client.ask(QueuePurge("q"), QueuePurgeOk).message_count == 200
    cluster.pass_ms(2_000)
    assert not host.scratch.files
    publish(cluster, client, range(200))
    assert host.scratch.files
    client.ask(QueueDelete("q"), QueueDeleteOk)
    cluster.pass_ms(2_000)
    assert not host.scratch.files
    assert not cluster.node("n1").state.scratch.fragments


def test_a_disk_that_refuses_leaves_all_in_memory() -> None:
    cluster = Cluster(1, **SMALL)
    host = cluster.hosts[NodeId("n1")]
    host.scratch.refusal = "No space left on device"
    client = filled(cluster, 200)
    assert scratched(cluster) == 0
    told = [line for line in host.story if "scratch files cannot be written" in line]
    assert len(told) == 1
    assert "No space left on device" in told[0]
    assert "scratch" in cluster.node("n1").state.found
    host.scratch.refusal = ""
    cluster.pass_ms(RETRY_MS)
    publish(cluster, client, range(200, 240))
    assert scratched(cluster) > 100
    assert "scratch" not in cluster.node("n1").state.found
    assert drained(cluster, client, 240) == [body(number) for number in range(240)]
    cluster.pass_ms(2_000)
    assert not host.scratch.files


def test_nothing_is_written_while_the_disk_is_low() -> None:
    cluster = Cluster(1, disk_free_bytes_min=1_000, **SMALL)
    client = filled(cluster, 0)
    cluster.hosts[NodeId("n1")].inbox.append(lambda node: node.on_resources(0, 0, 900))
    cluster.pass_ms(1_000)
    for number in range(100):
        client.publish("q", body(number), persistent=False)
    cluster.pass_ms(2_000)
    assert not cluster.hosts[NodeId("n1")].scratch.files
    cluster.hosts[NodeId("n1")].inbox.append(lambda node: node.on_resources(0, 0, 9_000))
    cluster.pass_ms(2_000)
    assert cluster.hosts[NodeId("n1")].scratch.files
    assert drained(cluster, client, 100) == [body(number) for number in range(100)]


@pytest.mark.parametrize("damage", ["rot", "gone"])
def test_what_cannot_be_read_is_lost_by_name_and_the_rest_goes_on(damage: str) -> None:
    cluster = Cluster(1, **SMALL)
    client = filled(cluster, 300)
    spoil(cluster, 150, damage)
    got = drained(cluster, client, 120)
    # A disk that fails is asked again for a while.
    cluster.pass_ms(UNREAD_MS_MAX + 2_000)
    got += client.deliveries()
    lost = [number for number in range(300) if body(number) not in got]
    assert 150 in lost
    assert got == [body(number) for number in range(300) if number not in lost]
    story = cluster.hosts[NodeId("n1")].story
    assert any("of queue 'q'" in line and "are lost here" in line for line in story)
    assert cluster.node("n1").state.messages_lost == len(lost)
    assert client.ask(QueueDeclare("q", passive=True), QueueDeclareOk).message_count == 0


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("copies", [2, 3])
def test_a_failover_goes_on_from_what_the_backup_has_written(durable: bool, copies: int) -> None:
    cluster = Cluster(3, **SMALL)
    filled(cluster, 200, durable, {"x-fedq-replicas": copies})
    primary = cluster.primary_of("q")
    backups = [name for name in cluster.hosts if name != primary and scratched(cluster, name)]
    assert len(backups) == copies - 1
    assert all(scratched(cluster, name) > 100 for name in backups)
    cluster.kill(primary)
    cluster.wait_for(lambda: cluster.primary_of("q") != primary, 30_000)
    got = drained(cluster, cluster.client(cluster.primary_of("q")), 200)
    assert [each.removeprefix("again: ") for each in got] == [body(n) for n in range(200)]
    cluster.pass_ms(3_000)
    assert not any(host.scratch.files for host in cluster.hosts.values() if host.node is not None)


def test_a_backup_that_joins_gets_what_is_in_scratch_files() -> None:
    cluster = Cluster(3, **SMALL)
    client = filled(cluster, 150, False, {"x-fedq-replicas": 2})
    primary = cluster.primary_of("q")
    backup = next(n for n in cluster.hosts if n != primary and scratched(cluster, n))
    cluster.kill(backup)
    cluster.pass_ms(9_000)
    publish(cluster, client, range(150, 170))
    third = next(n for n in cluster.hosts if n not in (primary, backup))
    cluster.wait_for(lambda: count_of(cluster, third) == 170, 30_000)
    cluster.pass_ms(3_000)
    assert scratched(cluster, third) > 100
    cluster.kill(primary)
    cluster.start(backup)
    cluster.wait_for(lambda: cluster.primary_of("q") != primary, 30_000)
    got = drained(cluster, cluster.client(cluster.primary_of("q")), 170)
    assert [each.removeprefix("again: ") for each in got] == [body(n) for n in range(170)]


def test_a_start_begins_without_them() -> None:
    cluster = Cluster(1, **SMALL)
    filled(cluster, 200)
    cluster.kill("n1")
    cluster.start("n1")
    cluster.pass_ms(8_000)
    client = cluster.client()
    assert client.ask(QueueDeclare("q", passive=True), QueueDeclareOk).message_count == 0
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    publish(cluster, client, range(200))
    assert drained(cluster, client, 200) == [body(number) for number in range(200)]


def publish_mixed(cluster: Cluster, client: Client, numbers: range) -> None:
    """Publishes twenty at a time in one piece; one of three is persistent."""
    kinds = {True: PERSISTENT, False: NO_PROPERTIES}
    for start in range(numbers.start, numbers.stop, 20):
        part = range(start, min(start + 20, numbers.stop))
        pieces = [
            publish_bytes(1, "", "q", body(number).encode(), kinds[number % 3 == 0], 0)
            for number in part
        ]
        client.write(b"".join(pieces))
        cluster.wait_for(lambda: client.has(BasicAck))
        client.take(BasicAck)
        cluster.pass_ms(600)


@pytest.mark.parametrize("nodes", [1, 3])
def test_what_comes_mixed_leaves_memory_each_its_own_way(nodes: int) -> None:
    cluster = Cluster(nodes, **SMALL)
    client = filled(cluster, 0, arguments={"x-fedq-replicas": nodes})
    publish_mixed(cluster, client, range(300))
    primary = cluster.primary_of("q")
    (found,) = cluster.node(primary).state.primaries.values()
    fragment = found.fragment
    held = sum(len(message) for _, message in fragment.messages.pairs())
    assert held < 8_000
    stretches = [(first, last) for first, last, _ in fragment.stowed]
    assert count(stretches) > 50
    assert count([(first, last) for first, last, _ in fragment.scratched]) > 100
    for backup in [b for n in cluster.hosts for b in cluster.node(n).state.backups.values()]:
        assert backup.replica.bytes_in_memory < 8_000
    if nodes > 1:
        cluster.kill(primary)
        cluster.wait_for(lambda: cluster.primary_of("q") != primary, 30_000)
        client = cluster.client(cluster.primary_of("q"))
    got = drained(cluster, client, 300, no_ack=False)
    assert [each.removeprefix("again: ") for each in got] == [body(n) for n in range(300)]


def test_of_what_came_mixed_a_start_finds_what_is_persistent() -> None:
    cluster = Cluster(1, **SMALL)
    client = filled(cluster, 0)
    publish_mixed(cluster, client, range(300))
    for _ in range(3):
        client.ask(BasicGet("q", no_ack=True), BasicGetOk)
    # Checkpoints, and segments that are moved, keep no more than that.
    publish(cluster, client, range(300, 320), persistent=True)
    cluster.kill("n1")
    cluster.start("n1")
    cluster.pass_ms(2_000)
    assert cluster.node("n1").state.messages_lost == 0
    client = cluster.client()
    got = drained(cluster, client, 119)
    assert [each.removeprefix("again: ") for each in got] == [
        body(number) for number in [*range(3, 300, 3), *range(300, 320)]
    ]
