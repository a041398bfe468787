"""Long queues: bodies are on disk alone, and come back in order, whatever happens meanwhile."""

from typing import Any

import pytest

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
    QueuePurge,
    QueuePurgeOk,
)
from fedq.amqp.values import FieldTable
from fedq.core.ids import NodeId
from fedq.core.peer_messages import BodiesWanted
from fedq.node.records.roles import UNREAD_MS_MAX
from tests.unit.amqp.wire import Content
from tests.unit.node.harness import Client, Cluster

SMALL: Any = {"stow_bytes_min": 1, "read_ahead_bytes": 1_500, "segment_bytes_max": 20_000}


def body(number: int) -> str:
    return f"{number:06} {'x' * 100}"


def filled(cluster: Cluster, count: int, replicas: int = 1) -> Client:
    """A client of a queue with so many persistent messages, each confirmed."""
    client = cluster.client()
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    arguments: FieldTable = {"x-fedq-replicas": replicas}
    client.ask(QueueDeclare("q", durable=True, arguments=arguments), QueueDeclareOk)
    publish(cluster, client, range(count))
    return client


def publish(cluster: Cluster, client: Client, numbers: range) -> None:
    for start in range(numbers.start, numbers.stop, 20):
        for number in range(start, min(start + 20, numbers.stop)):
            client.publish("q", body(number))
        cluster.wait_for(lambda: client.has(BasicAck))
        client.take(BasicAck)
        cluster.pass_ms(600)


def stowed(cluster: Cluster, name: str) -> int:
    """How many messages the node has on disk alone, in what it serves and what it copies."""
    state = cluster.node(name).state
    served = sum(p.fragment.fresh.stowed_count for p in state.primaries.values())
    return served + sum(b.replica.stowed.count for b in state.backups.values())


def drained(
    cluster: Cluster, client: Client, count: int, no_ack: bool = True, queue: str = "q"
) -> list[str]:
    """What a consumer gets, acknowledging what it has, until there is nothing more to come."""
    client.ask(BasicQos(prefetch_count=7), BasicQosOk)
    client.ask(BasicConsume(queue, f"c{queue}", no_ack=no_ack), BasicConsumeOk)
    got: list[str] = []

    def has_all() -> bool:
        tags = tags_of(client)
        got.extend(client.deliveries())
        if tags and not no_ack:
            client.send(BasicAck(tags[-1], multiple=True))
        return len(got) >= count

    cluster.wait_for(has_all, 60_000)
    cluster.pass_ms(2_000)
    return got + client.deliveries()


def tags_of(client: Client) -> list[int]:
    """The tags of the deliveries that no test has taken."""
    return [
        said.method.delivery_tag
        for said in client.said
        if isinstance(said, Content) and isinstance(said.method, BasicDeliver)
    ]


@pytest.mark.parametrize("no_ack", [True, False])
def test_what_left_memory_comes_back_in_order(no_ack: bool) -> None:
    cluster = Cluster(1, **SMALL)
    client = filled(cluster, 300)
    assert stowed(cluster, "n1") > 100
    assert client.ask(QueueDeclare("q", passive=True), QueueDeclareOk).message_count == 300
    assert drained(cluster, client, 300, no_ack) == [body(number) for number in range(300)]
    assert client.ask(QueueDeclare("q", passive=True), QueueDeclareOk).message_count == 0


def test_gets_wait_for_the_disk_and_count_everything() -> None:
    cluster = Cluster(1, **SMALL)
    client = filled(cluster, 200)
    for number in range(200):
        client.send(BasicGet("q", no_ack=number % 2 == 0))
        cluster.wait_for(lambda: any(isinstance(said, Content) for said in client.said))
        found = client.said.pop()
        assert isinstance(found, Content)
        assert isinstance(found.method, BasicGetOk)
        assert found.body.decode() == body(number)
        assert found.method.message_count == 199 - number
    assert client.ask(BasicGet("q"), BasicGetEmpty) is not None


def test_a_purge_counts_what_is_on_disk_and_leaves_nothing() -> None:
    cluster = Cluster(1, **SMALL)
    client = filled(cluster, 200)
    client.ask(BasicGet("q"), BasicGetOk)
    assert client.ask(QueuePurge("q"), QueuePurgeOk).message_count == 199
    assert stowed(cluster, "n1") == 0
    publish(cluster, client, range(200, 210))
    assert drained(cluster, client, 10) == [body(number) for number in range(200, 210)]


def test_what_is_given_back_comes_first_and_is_marked() -> None:
    cluster = Cluster(1, **SMALL)
    client = filled(cluster, 200)
    tags = [client.ask(BasicGet("q"), BasicGetOk).delivery_tag for _ in range(100)]
    client.send(BasicNack(tags[-1], multiple=True, requeue=True))
    cluster.pass_ms(1_000)
    got = drained(cluster, client, 200)
    assert got == [f"again: {body(n)}" for n in range(100)] + [body(n) for n in range(100, 200)]


def test_transient_messages_between_stay_in_memory_and_in_their_places() -> None:
    cluster = Cluster(1, **SMALL)
    client = filled(cluster, 60)
    for number in range(60, 120):
        client.publish("q", body(number), persistent=number % 3 > 0)
        cluster.wait_for(lambda: client.has(BasicAck))
        client.take(BasicAck)
        cluster.pass_ms(200)
    publish(cluster, client, range(120, 180))
    assert stowed(cluster, "n1") > 40
    assert drained(cluster, client, 180) == [body(number) for number in range(180)]


def test_segments_with_bodies_on_disk_are_moved_and_nothing_is_lost() -> None:
    """One of each ten is never taken; the others come and go, and their segments with them."""
    cluster = Cluster(1, **SMALL)
    client = cluster.client()
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    client.ask(QueueDeclare("q", durable=True), QueueDeclareOk)
    client.ask(QueueDeclare("busy", durable=True), QueueDeclareOk)
    client.ask(BasicConsume("busy", "b", no_ack=True), BasicConsumeOk)
    for number in range(400):
        client.publish("q" if number % 10 == 0 else "busy", body(number))
        cluster.wait_for(lambda: client.has(BasicAck))
        client.take(BasicAck)
        cluster.pass_ms(300)
        client.deliveries()
    plan = cluster.node("n1").state.plan
    assert plan.bytes_held < 6 * 20_000
    kept = [number for number in range(400) if number % 10 == 0]
    assert drained(cluster, client, len(kept)) == [body(number) for number in kept]


@pytest.mark.parametrize("copies", [2, 3])
def test_a_failover_goes_on_from_what_the_backup_has_on_disk(copies: int) -> None:
    cluster = Cluster(3, **SMALL)
    client = filled(cluster, 200, replicas=copies)
    primary = cluster.primary_of("q")
    backups = [name for name in cluster.hosts if name != primary and stowed(cluster, name)]
    assert len(backups) == copies - 1
    assert all(stowed(cluster, name) > 100 for name in backups)
    cluster.kill(primary)
    cluster.wait_for(lambda: cluster.primary_of("q") != primary, 30_000)
    client = cluster.client(cluster.primary_of("q"))
    got = drained(cluster, client, 200)
    assert [each.removeprefix("again: ") for each in got] == [body(n) for n in range(200)]


def test_consumers_elsewhere_keep_what_they_hold_when_its_body_is_on_disk_alone() -> None:
    cluster = Cluster(3, **SMALL)
    client = filled(cluster, 120, replicas=3)
    primary = cluster.primary_of("q")
    other = next(name for name in cluster.hosts if name != primary)
    consumer = cluster.client(other)
    consumer.ask(BasicQos(prefetch_count=30), BasicQosOk)
    consumer.ask(BasicConsume("q", "c"), BasicConsumeOk)
    cluster.wait_for(lambda: len(tags_of(consumer)) == 30)
    tags = tags_of(consumer)
    first = consumer.deliveries()
    assert first == [body(number) for number in range(30)]
    cluster.pass_ms(2_000)
    del client
    cluster.kill(primary)
    cluster.wait_for(lambda: cluster.primary_of("q") != primary, 30_000)
    # Some it has done, some it gives back, some it holds on to.
    consumer.send(
        BasicAck(tags[9], multiple=True), BasicNack(tags[19], multiple=True, requeue=True)
    )
    cluster.pass_ms(3_000)
    got: list[str] = []

    def has_all() -> bool:
        held = tags_of(consumer)
        got.extend(consumer.deliveries())
        for tag in held:
            consumer.send(BasicAck(tag))
        return len(got) >= 100

    cluster.wait_for(has_all, 60_000)
    cluster.pass_ms(2_000)
    assert consumer.deliveries() == []
    again = [each.removeprefix("again: ") for each in got]
    assert sorted(again) == sorted(body(n) for n in (*range(10, 20), *range(30, 120)))
    assert [f"again: {body(n)}" for n in range(10, 20)] == [e for e in got if e in
        {f"again: {body(n)}" for n in range(10, 20)}]  # fmt: skip


def test_a_backup_that_joins_gets_what_is_on_disk_alone() -> None:
    cluster = Cluster(3, **SMALL)
    client = filled(cluster, 150, replicas=2)
    primary = cluster.primary_of("q")
    backup = next(n for n in cluster.hosts if n != primary and stowed(cluster, n))
    cluster.kill(backup)
    cluster.pass_ms(9_000)
    publish(cluster, client, range(150, 170))
    third = next(n for n in cluster.hosts if n not in (primary, backup))
    state = cluster.node(third).state

    def is_in_sync() -> bool:
        infos = state.map.fragments.values()
        return any(third in info.in_sync and third != info.primary for info in infos)

    cluster.wait_for(is_in_sync, 30_000)
    cluster.pass_ms(3_000)
    assert stowed(cluster, third) > 100
    cluster.kill(primary)
    cluster.start(backup)
    cluster.wait_for(lambda: cluster.primary_of("q") != primary, 30_000)
    client = cluster.client(cluster.primary_of("q"))
    got = drained(cluster, client, 170)
    assert [each.removeprefix("again: ") for each in got] == [body(n) for n in range(170)]


def test_what_cannot_be_read_is_lost_by_name_and_the_rest_goes_on() -> None:
    cluster = Cluster(1, **SMALL)
    client = filled(cluster, 300)
    wanted = body(150).encode()
    segments = cluster.hosts[NodeId("n1")].segments.values()
    data = next(data for data in segments if wanted in data)
    data[data.index(wanted)] ^= 1
    got = drained(cluster, client, 270)
    lost = [number for number in range(300) if body(number) not in got]
    assert 0 < len(lost) <= 20
    assert 150 in lost
    assert got == [body(number) for number in range(300) if number not in lost]
    story = cluster.hosts[NodeId("n1")].story
    assert any("of queue 'q'" in line and "are lost here" in line for line in story)
    assert cluster.node("n1").state.messages_lost == len(lost)
    assert client.ask(QueueDeclare("q", passive=True), QueueDeclareOk).message_count == 0


@pytest.mark.parametrize("fails_ms", [8_000, 12_000])
def test_a_disk_that_fails_to_read_for_a_while_loses_nothing(fails_ms: int) -> None:
    cluster = Cluster(1, **SMALL, scrub_bytes_per_second=0)
    client = filled(cluster, 300)
    host = cluster.hosts[NodeId("n1")]
    for number in list(host.segments)[:-1]:
        host.scratch.bad[number] = [(0, len(host.segments[number]))]
    client.ask(BasicConsume("q", no_ack=True), BasicConsumeOk)
    cluster.pass_ms(fails_ms)
    host.scratch.bad.clear()
    cluster.pass_ms(5_000)
    got = client.deliveries()
    if fails_ms < UNREAD_MS_MAX:
        assert got == [body(number) for number in range(300)]
    else:
        assert got[-1] == body(299)
        assert cluster.node("n1").state.messages_lost == 300 - len(got) > 0


def test_a_node_that_starts_again_has_all_of_it() -> None:
    cluster = Cluster(1, **SMALL)
    filled(cluster, 200)
    cluster.kill("n1")
    cluster.start("n1")
    cluster.pass_ms(8_000)
    got = drained(cluster, cluster.client(), 200)
    assert [each.removeprefix("again: ") for each in got] == [body(n) for n in range(200)]


def test_what_one_node_cannot_read_another_one_serves_if_it_does_not_answer() -> None:
    cluster = Cluster(3, **SMALL)
    filled(cluster, 300, replicas=2)
    primary = cluster.primary_of("q")
    ignore_questions(cluster)
    wanted = body(150).encode()
    segments = cluster.hosts[NodeId(primary)].segments
    data = next(data for data in segments.values() if wanted in data)
    data[data.index(wanted)] ^= 1
    other = next(name for name in cluster.hosts if name != primary)
    client = cluster.client(other)
    got = drained(cluster, client, 300)
    assert sorted(each.removeprefix("again: ") for each in got) == [body(n) for n in range(300)]
    assert cluster.primary_of("q") != primary
    story = cluster.hosts[NodeId(primary)].story
    assert any("another copy is to lead it" in line for line in story)
    assert not any("are lost here" in line for line in story)


def test_a_copy_that_cannot_be_read_to_its_end_is_made_by_the_next_primary() -> None:
    cluster = Cluster(3, **SMALL)
    filled(cluster, 300, replicas=3)
    primary = cluster.primary_of("q")
    joining = next(name for name in cluster.hosts if name != primary)
    cluster.kill(joining)
    cluster.hosts[joining].segments.clear()
    wanted = body(150).encode()
    segments = cluster.hosts[NodeId(primary)].segments
    data = next(data for data in segments.values() if wanted in data)
    data[data.index(wanted)] ^= 1
    ignore_questions(cluster)
    cluster.pass_ms(3_000)
    cluster.start(joining)
    cluster.wait_for(lambda: cluster.primary_of("q") not in (primary, joining), 30_000)
    cluster.wait_for(lambda: count_of(cluster, joining) == 300, 30_000)
    cluster.wait_for(lambda: count_of(cluster, primary) == 300, 30_000)
    story = cluster.hosts[NodeId(primary)].story
    assert sum("another copy is to lead it" in line for line in story) == 1
    # What it led is not kept alive by what it had asked for.
    cluster.pass_ms(2_000)
    assert not cluster.node(primary).copies.reading._readings
    got = drained(cluster, cluster.client(joining), 300)
    assert sorted(each.removeprefix("again: ") for each in got) == [body(n) for n in range(300)]


def ignore_questions(cluster: Cluster) -> None:
    """Nobody that runs answers what others cannot read."""
    for host in cluster.hosts.values():
        if host.node is not None:
            host.node.inbox._handlers[BodiesWanted] = lambda _sender, _message: None


def count_of(cluster: Cluster, name: str) -> int:
    """How many messages the node has copies of."""
    return sum(backup.replica.count for backup in cluster.node(name).state.backups.values())


def test_a_disk_that_has_read_what_it_failed_at_does_not_fail_any_more() -> None:
    """Before, it had to be what a read began with, so that much later the disk counted as failing.

    A moment's failure was taken for one that had gone on for as long as it may then: what could not
    be read was lost at once.
    """
    cluster = Cluster(1, **SMALL, scrub_bytes_per_second=0)
    client = filled(cluster, 300)
    (primary,) = cluster.node("n1").state.primaries.values()
    stretch = primary.fragment.fresh.stowed_after(0)
    assert stretch is not None
    primary.note_unread(stretch[0] + 7, cluster.now_ms)
    cluster.pass_ms(UNREAD_MS_MAX)
    assert primary.unread_ms > 0
    assert drained(cluster, client, 300) == [body(number) for number in range(300)]
    assert primary.unread_ms == 0
