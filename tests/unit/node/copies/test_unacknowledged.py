"""What consumers hold unacknowledged: bodies leave memory, and come back in order."""

import pytest

from fedq.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicNack,
    BasicRecover,
    BasicRecoverOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.amqp.values import FieldTable
from fedq.core.ids import NodeId
from fedq.fragments.fragment import Fragment
from tests.unit.node.copies.test_long_queues import SMALL, body, drained, publish, tags_of
from tests.unit.node.copies.test_long_queues_limited import count_of
from tests.unit.node.copies.test_scratch import publish as publish_transient
from tests.unit.node.harness import Client, Cluster

TO_DEAD: FieldTable = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
MEMORY = 12_000


def fragment_of(cluster: Cluster, queue: str = "q") -> Fragment:
    """What the queue's primary holds, or this node of an exclusive queue."""
    for name in cluster.hosts:
        if cluster.hosts[name].node is None:
            continue
        state = cluster.node(name).state
        for primary in state.primaries.values():
            if primary.queue.name == queue:
                return primary.fragment
        for private in state.private.values():
            if private.key.name == queue:
                return private.fragment
    raise AssertionError(f"nobody serves {queue}")


def held_on_disk(cluster: Cluster, queue: str = "q") -> int:
    """How many messages consumers have of the queue that are on disk alone."""
    held = fragment_of(cluster, queue).in_flight
    return held.stowed_count if held is not None else 0


def full_of(
    cluster: Cluster, count: int, arguments: FieldTable | None = None, *, persistent: bool = True,
    durable: bool = True, exclusive: bool = False,
) -> Client:  # fmt: skip
    """A client of a queue with so many messages, and of one for dead letters."""
    client = cluster.client()
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    declared = QueueDeclare("q", durable=durable, exclusive=exclusive, arguments=arguments or {})
    client.ask(declared, QueueDeclareOk)
    client.ask(QueueDeclare("dead", durable=True), QueueDeclareOk)
    (publish if persistent else publish_transient)(cluster, client, range(count))
    return client


def hold_all(cluster: Cluster, client: Client, count: int) -> list[int]:
    """Has a consumer take everything without acknowledging it; returns the tags."""
    client.ask(BasicConsume("q", "holder"), BasicConsumeOk)
    got: list[str] = []
    tags: list[int] = []

    def has_all() -> bool:
        tags.extend(tags_of(client))
        got.extend(client.deliveries())
        return len(got) >= count

    cluster.wait_for(has_all, 60_000)
    assert [each.removeprefix("again: ") for each in got] == [body(n) for n in range(count)]
    cluster.pass_ms(3_000)
    assert fragment_of(cluster).unacked_count == count
    assert held_on_disk(cluster) > count - 60
    assert fragment_of(cluster).bytes_in_memory < MEMORY
    return tags


KINDS = pytest.mark.parametrize(
    ("persistent", "durable", "exclusive"),
    [(True, True, False), (False, True, False), (True, False, False), (False, False, True)],
    ids=["persistent", "transient", "not durable", "exclusive"],
)


@KINDS
@pytest.mark.parametrize("how", ["nack", "recover", "channel"])
def test_what_is_returned_comes_back_in_order_and_marked(
    how: str, persistent: bool, durable: bool, exclusive: bool
) -> None:
    cluster = Cluster(1, **SMALL)
    client = full_of(
        cluster, 200, persistent=persistent, durable=durable, exclusive=exclusive
    )  # fmt: skip
    tags = hold_all(cluster, client, 200)
    if how == "channel":
        client.ask(ChannelClose(200, "", 0, 0), ChannelCloseOk)
        client.ask(ChannelOpen(), ChannelOpenOk)
        client.ask(ConfirmSelect(), ConfirmSelectOk)
    else:
        client.ask(BasicCancel("holder"), BasicCancelOk)
        if how == "nack":
            client.send(BasicNack(tags[-1], multiple=True, requeue=True))
        else:
            client.ask(BasicRecover(requeue=True), BasicRecoverOk)
    cluster.wait_for(lambda: fragment_of(cluster).ready_count == 200)
    assert fragment_of(cluster).bytes_in_memory < MEMORY
    got = drained(cluster, client, 200, no_ack=False)
    assert got == [f"again: {body(n)}" for n in range(200)]
    assert count_of(client) == 0
    cluster.pass_ms(2_000)
    fragment = fragment_of(cluster)
    assert fragment.bytes_held == 0
    assert fragment.returned is None
    assert not cluster.hosts[NodeId("n1")].scratch.files


@pytest.mark.parametrize("persistent", [True, False])
def test_what_a_connection_held_comes_back_when_it_is_gone(persistent: bool) -> None:
    cluster = Cluster(1, **SMALL)
    client = full_of(cluster, 200, persistent=persistent)
    hold_all(cluster, client, 200)
    client.hang_up()
    client = cluster.client()
    assert drained(cluster, client, 200) == [f"again: {body(n)}" for n in range(200)]


@KINDS
def test_acknowledgements_in_any_order_need_no_bodies(
    persistent: bool, durable: bool, exclusive: bool
) -> None:
    cluster = Cluster(1, **SMALL)
    client = full_of(cluster, 200, persistent=persistent, durable=durable, exclusive=exclusive)
    tags = hold_all(cluster, client, 200)
    held = fragment_of(cluster).in_flight
    assert held is not None
    runs, before = held.run_count, fragment_of(cluster).bytes_in_memory
    client.send(*[BasicAck(tag) for tag in tags[1:150:2]])
    cluster.settle()
    assert held.count == 125
    assert held.run_count <= runs
    assert fragment_of(cluster).bytes_in_memory <= before
    client.send(BasicAck(tags[99], multiple=True))
    cluster.settle()
    assert held.count == 75
    client.ask(BasicCancel("holder"), BasicCancelOk)
    client.send(BasicNack(0, multiple=True, requeue=True))
    left = [n for n in range(100, 200) if n >= 150 or n % 2 == 0]
    assert drained(cluster, client, 75) == [f"again: {body(n)}" for n in left]


def test_some_come_back_between_others_and_are_held_again() -> None:
    """A queue that is held twice over: what came back is on disk again, in its place."""
    cluster = Cluster(1, **SMALL)
    client = full_of(cluster, 200)
    tags = hold_all(cluster, client, 200)
    client.send(*[BasicNack(tag, requeue=True) for tag in tags[20:120:3]])
    got: list[str] = []

    def has_all() -> bool:
        got.extend(client.deliveries())
        return len(got) >= 34

    cluster.wait_for(has_all)
    assert got == [f"again: {body(n)}" for n in range(20, 120, 3)]
    cluster.pass_ms(3_000)
    assert held_on_disk(cluster) > 140
    assert fragment_of(cluster).bytes_in_memory < MEMORY
    client.hang_up()
    client = cluster.client()
    assert drained(cluster, client, 200) == [f"again: {body(n)}" for n in range(200)]


def test_what_is_rejected_is_read_for_its_dead_letter_in_order() -> None:
    cluster = Cluster(1, **SMALL)
    client = full_of(cluster, 400, TO_DEAD)
    tags = hold_all(cluster, client, 400)
    client.send(BasicNack(tags[-1], multiple=True, requeue=False))
    cluster.wait_for(lambda: fragment_of(cluster).unacked_count == 0, 60_000)
    assert not fragment_of(cluster).dying
    assert drained(cluster, client, 400, queue="dead") == [body(n) for n in range(400)]


@pytest.mark.parametrize("exclusive", [False, True])
def test_dead_letters_of_transient_messages_are_read_from_scratch_files(exclusive: bool) -> None:
    cluster = Cluster(1, **SMALL)
    client = full_of(
        cluster, 200, TO_DEAD, persistent=False, durable=not exclusive, exclusive=exclusive
    )  # fmt: skip
    tags = hold_all(cluster, client, 200)
    client.send(BasicNack(tags[-1], multiple=True, requeue=False))
    cluster.wait_for(lambda: fragment_of(cluster).unacked_count == 0, 60_000)
    assert drained(cluster, client, 200, queue="dead") == [body(n) for n in range(200)]


def test_what_is_rejected_without_a_dead_letter_exchange_goes_unread() -> None:
    cluster = Cluster(1, **SMALL)
    client = full_of(cluster, 200)
    tags = hold_all(cluster, client, 200)
    client.send(BasicNack(tags[-1], multiple=True, requeue=False))
    cluster.settle()
    assert fragment_of(cluster).bytes_held == 0
    assert cluster.node("n1").state.reads.bytes_asked == 0


def test_a_limit_of_deliveries_counts_what_came_back_from_the_disk() -> None:
    cluster = Cluster(1, **SMALL)
    client = full_of(cluster, 200, {**TO_DEAD, "x-delivery-limit": 1, "x-queue-type": "quorum"})
    for _ in range(2):
        tags = hold_all(cluster, client, 200)
        client.ask(BasicCancel("holder"), BasicCancelOk)
        client.send(BasicNack(tags[-1], multiple=True, requeue=True))
        cluster.settle()
    cluster.wait_for(lambda: fragment_of(cluster).unacked_count == 0, 60_000)
    assert count_of(client) == 0
    assert drained(cluster, client, 200, queue="dead") == [body(n) for n in range(200)]
    assert not any(fragment_of(cluster).notes.values())


def test_a_time_to_live_is_over_when_it_comes_back() -> None:
    cluster = Cluster(1, **SMALL)
    client = full_of(cluster, 200, {**TO_DEAD, "x-message-ttl": 90_000})
    tags = hold_all(cluster, client, 200)
    cluster.pass_ms(90_000)
    assert fragment_of(cluster).unacked_count == 200
    client.ask(BasicCancel("holder"), BasicCancelOk)
    client.send(BasicNack(tags[-1], multiple=True, requeue=True))
    cluster.wait_for(lambda: count_of(client, "dead") == 200, 60_000)
    assert drained(cluster, client, 200, queue="dead") == [body(n) for n in range(200)]
    assert fragment_of(cluster).bytes_held == 0


@pytest.mark.parametrize("other", ["n2", "n3"])
def test_a_failover_leaves_on_disk_what_consumers_elsewhere_hold(other: str) -> None:
    cluster = Cluster(3, **SMALL)
    client = full_of(cluster, 200, {"x-fedq-replicas": 3})
    primary = cluster.primary_of("q")
    assert primary == "n1"
    consumer = cluster.client(other)
    hold_all(cluster, consumer, 200)
    del client
    cluster.kill(primary)
    cluster.wait_for(lambda: cluster.primary_of("q") != primary, 30_000)
    cluster.pass_ms(5_000)
    assert fragment_of(cluster).unacked_count == 200
    assert held_on_disk(cluster) > 140
    assert fragment_of(cluster).bytes_in_memory < MEMORY
    consumer.hang_up()
    client = cluster.client(cluster.primary_of("q"))
    assert drained(cluster, client, 200) == [f"again: {body(n)}" for n in range(200)]


def test_a_copy_that_joins_gets_what_consumers_hold() -> None:
    cluster = Cluster(3, **SMALL)
    client = full_of(cluster, 200, {"x-fedq-replicas": 2})
    hold_all(cluster, client, 200)
    backup = next(n for n in cluster.hosts if n != "n1" and cluster.node(n).state.backups)
    cluster.kill(backup)
    cluster.pass_ms(30_000)
    cluster.start(backup)
    cluster.wait_for(lambda: _in_sync(cluster) == 2, 120_000)
    cluster.kill("n1")
    cluster.wait_for(lambda: cluster.primary_of("q") != "n1", 30_000)
    client = cluster.client(cluster.primary_of("q"))
    assert drained(cluster, client, 200) == [f"again: {body(n)}" for n in range(200)]


def _in_sync(cluster: Cluster) -> int:
    state = cluster.node("n1").state
    [info] = [f for f in state.map.fragments.values() if f.queue.name == "q"]
    return len(info.in_sync)


def test_segments_with_what_a_consumer_holds_are_moved() -> None:
    """What is held stays, while the messages around it come and go, and their segments."""
    cluster = Cluster(1, **SMALL)
    client = full_of(cluster, 100)
    hold_all(cluster, client, 100)
    busy = cluster.client()
    busy.ask(ConfirmSelect(), ConfirmSelectOk)
    busy.ask(QueueDeclare("busy", durable=True), QueueDeclareOk)
    busy.ask(BasicConsume("busy", "b", no_ack=True), BasicConsumeOk)
    for number in range(400):
        busy.publish("busy", body(number))
        cluster.wait_for(lambda: busy.has(BasicAck))
        busy.take(BasicAck)
        cluster.pass_ms(300)
        busy.deliveries()
    assert cluster.node("n1").state.plan.bytes_held < 6 * 20_000
    client.hang_up()
    client = cluster.client()
    assert drained(cluster, client, 100) == [f"again: {body(n)}" for n in range(100)]


def test_a_start_finds_what_a_consumer_held() -> None:
    cluster = Cluster(1, **SMALL)
    client = full_of(cluster, 200)
    hold_all(cluster, client, 200)
    cluster.pass_ms(10_000)
    cluster.kill("n1")
    cluster.start("n1")
    cluster.pass_ms(5_000)
    client = cluster.client()
    assert drained(cluster, client, 200) == [f"again: {body(n)}" for n in range(200)]
