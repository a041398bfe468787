"""Long queues with priorities: bodies are on disk alone, and come back by priority."""

import pytest

from fedq.amqp.content import encode_properties
from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
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
from fedq.core.limits import MIB
from fedq.fragments.fragment import Fragment
from tests.unit.amqp.wire import publish as publish_bytes
from tests.unit.node.clients.test_memory import report
from tests.unit.node.copies.test_long_queues import SMALL, body, drained, stowed, tags_of
from tests.unit.node.harness import Client, Cluster

#: Priorities from 0 on.
RANKS = 4


def declared(cluster: Cluster, exclusive: bool = False, **arguments: int | str) -> Client:
    """A client with confirms, and a queue with priorities."""
    client = cluster.client()
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    table: FieldTable = {name.replace("_", "-"): value for name, value in arguments.items()}
    table["x-max-priority"] = RANKS - 1
    declare = QueueDeclare("q", durable=not exclusive, exclusive=exclusive, arguments=table)
    client.ask(declare, QueueDeclareOk)
    return client


def publish(
    cluster: Cluster, client: Client, numbers: range, transient: int = 0, ranks: int = RANKS
) -> None:
    """Publishes, each with its number's priority; one of so many is transient, if any."""
    for start in range(numbers.start, numbers.stop, 20):
        for number in range(start, min(start + 20, numbers.stop)):
            mode = 1 if transient and number // RANKS % transient == 0 else 2
            properties = encode_properties({"delivery_mode": mode, "priority": number % ranks})
            client.write(publish_bytes(1, "", "q", body(number).encode(), properties))
        cluster.wait_for(lambda: client.has(BasicAck))
        client.take(BasicAck)
        cluster.pass_ms(600)


def ranked(numbers: range) -> list[str]:
    """What a queue with these gives, in order."""
    return [body(n) for n in sorted(numbers, key=lambda number: (-(number % RANKS), number))]


def plain(got: list[str]) -> list[str]:
    return [each.removeprefix("again: ") for each in got]


def fragment_of(cluster: Cluster, name: str = "n1") -> Fragment:
    [primary] = cluster.node(name).state.primaries.values()
    return primary.fragment


def count_of(client: Client, queue: str = "q") -> int:
    return client.ask(QueueDeclare(queue, passive=True), QueueDeclareOk).message_count


@pytest.mark.parametrize("transient", [0, 1, 2])
@pytest.mark.parametrize("no_ack", [True, False])
def test_what_left_memory_comes_back_by_priority(no_ack: bool, transient: int) -> None:
    cluster = Cluster(1, **SMALL)
    client = declared(cluster)
    publish(cluster, client, range(300), transient)
    fragment = fragment_of(cluster)
    assert fragment.fresh.stowed_count > 200
    assert fragment.bytes_in_memory < 12_000
    assert count_of(client) == 300
    assert drained(cluster, client, 300, no_ack) == ranked(range(300))
    assert count_of(client) == 0
    assert not fragment.fresh.stowed_count


def test_a_higher_one_that_comes_later_is_before_all_that_is_on_disk() -> None:
    cluster = Cluster(1, **SMALL)
    client = declared(cluster)
    publish(cluster, client, range(100), ranks=1)
    assert stowed(cluster, "n1") > 50
    properties = encode_properties({"delivery_mode": 2, "priority": 3})
    client.write(publish_bytes(1, "", "q", b"urgent", properties))
    cluster.settle()
    assert client.ask(BasicGet("q", no_ack=True), BasicGetOk).message_count == 100


def test_priorities_are_learned_anew_by_who_starts_again() -> None:
    cluster = Cluster(1, **SMALL)
    client = declared(cluster)
    publish(cluster, client, range(300))
    cluster.kill("n1")
    cluster.start("n1")
    cluster.pass_ms(200)
    client = cluster.client()
    assert count_of(client) == 300
    assert plain(drained(cluster, client, 300)) == ranked(range(300))
    assert cluster.node("n1").state.messages_lost == 0


@pytest.mark.parametrize("copies", [2, 3])
def test_a_failover_goes_on_by_priority_from_what_the_backup_has_on_disk(copies: int) -> None:
    cluster = Cluster(3, **SMALL)
    client = declared(cluster, x_fedq_replicas=copies)
    publish(cluster, client, range(200), 3)
    primary = cluster.primary_of("q")
    assert all(stowed(cluster, n) > 100 for n in cluster.hosts if cluster.node(n).state.backups)
    cluster.kill(primary)
    cluster.wait_for(lambda: cluster.primary_of("q") != primary, 30_000)
    client = cluster.client(cluster.primary_of("q"))
    assert plain(drained(cluster, client, 200)) == ranked(range(200))


def test_a_backup_that_joins_gets_what_is_on_disk_alone() -> None:
    cluster = Cluster(3, **SMALL)
    client = declared(cluster, x_fedq_replicas=2)
    primary = cluster.primary_of("q")
    publish(cluster, client, range(100), 3)
    backup = next(n for n in cluster.hosts if cluster.node(n).state.backups)
    cluster.kill(backup)
    cluster.pass_ms(9_000)
    publish(cluster, client, range(100, 160), 3)
    third = next(n for n in cluster.hosts if n not in (primary, backup))

    def is_in_sync() -> bool:
        infos = cluster.node(third).state.map.fragments.values()
        return any(third in info.in_sync and third != info.primary for info in infos)

    cluster.wait_for(is_in_sync, 30_000)
    cluster.kill(primary)
    cluster.start(backup)
    cluster.wait_for(lambda: cluster.primary_of("q") != primary, 30_000)
    client = cluster.client(cluster.primary_of("q"))
    assert plain(drained(cluster, client, 160)) == ranked(range(160))


@pytest.mark.parametrize("prefetch", [0, 50])
def test_what_a_consumer_had_comes_back_to_its_places(prefetch: int) -> None:
    cluster = Cluster(1, **SMALL)
    client = declared(cluster)
    publish(cluster, client, range(200), 3)
    holder = cluster.client()
    holder.ask(BasicQos(prefetch_count=prefetch), BasicQosOk)
    holder.ask(BasicConsume("q", "c"), BasicConsumeOk)
    count = prefetch or 200
    cluster.wait_for(lambda: len(tags_of(holder)) == count, 30_000)
    first = holder.deliveries()
    assert first == ranked(range(200))[:count]
    cluster.pass_ms(3_000)
    assert fragment_of(cluster).bytes_in_memory < 20_000
    holder.hang_up()
    cluster.pass_ms(1_000)
    got = drained(cluster, client, 200)
    assert got == [f"again: {each}" for each in first] + ranked(range(200))[count:]


def test_what_is_given_back_comes_before_those_behind_it() -> None:
    cluster = Cluster(1, **SMALL)
    client = declared(cluster)
    publish(cluster, client, range(200))
    tags = [client.ask(BasicGet("q"), BasicGetOk).delivery_tag for _ in range(1)]
    for _ in range(99):
        client.send(BasicGet("q"))
        cluster.wait_for(lambda: any(_is_got(said) for said in client.said))
        tags.append(client.take(BasicGetOk).delivery_tag)
    client.send(BasicNack(tags[60], multiple=True, requeue=True))
    client.send(BasicAck(tags[-1], multiple=True))
    cluster.pass_ms(1_000)
    expected = ranked(range(200))
    assert drained(cluster, client, 161) == [f"again: {e}" for e in expected[:61]] + expected[100:]


def _is_got(said: object) -> bool:
    return isinstance(getattr(said, "method", None), BasicGetOk)


def test_a_purge_counts_what_is_on_disk_and_leaves_nothing() -> None:
    cluster = Cluster(1, **SMALL)
    client = declared(cluster)
    publish(cluster, client, range(200), 3)
    client.ask(BasicGet("q"), BasicGetOk)
    assert client.ask(QueuePurge("q"), QueuePurgeOk).message_count == 199
    assert stowed(cluster, "n1") == 0
    publish(cluster, client, range(200, 212))
    assert drained(cluster, client, 12) == ranked(range(200, 212))


@pytest.mark.parametrize("restarts", [False, True])
def test_what_is_too_much_goes_from_the_head_though_it_is_on_disk_alone(restarts: bool) -> None:
    cluster = Cluster(1, **SMALL)
    client = declared(cluster, x_max_length=200)
    publish(cluster, client, range(200))
    if restarts:
        # Nobody knows of what is on disk alone what is first, before it is read.
        cluster.kill("n1")
        cluster.start("n1")
        client = cluster.client()
        client.ask(ConfirmSelect(), ConfirmSelectOk)
    publish(cluster, client, range(200, 240))
    cluster.wait_for(lambda: count_of(client) == 200, 30_000)
    left = drained(cluster, client, 200)
    # Whenever it was too long, the first one went: of the highest priority.
    assert plain(left) == ranked(range(240))[40:]


def test_what_is_too_much_or_too_old_becomes_a_dead_letter() -> None:
    cluster = Cluster(1, **SMALL)
    client = cluster.client()
    client.ask(QueueDeclare("dead", durable=True), QueueDeclareOk)
    client = declared(
        cluster, x_max_length=100, x_message_ttl=60_000, x_dead_letter_exchange="",
        x_dead_letter_routing_key="dead",
    )  # fmt: skip
    publish(cluster, client, range(160))
    cluster.wait_for(lambda: count_of(client) == 100 and count_of(client, "dead") == 60, 30_000)
    cluster.pass_ms(60_000)
    cluster.wait_for(lambda: count_of(client) == 0 and count_of(client, "dead") == 160, 30_000)


def test_what_is_too_old_goes_wherever_it_is() -> None:
    cluster = Cluster(1, **SMALL)
    client = declared(cluster, x_message_ttl=60_000)
    publish(cluster, client, range(160), 3)
    assert stowed(cluster, "n1") > 100
    cluster.pass_ms(61_000)
    assert count_of(client) == 0
    assert fragment_of(cluster).bytes_held == 0


def test_an_exclusive_queue_has_its_priorities_in_scratch_files() -> None:
    cluster = Cluster(1, **SMALL)
    client = declared(cluster, exclusive=True)
    publish(cluster, client, range(300))
    [private] = cluster.node("n1").state.private.values()
    assert private.fragment.fresh.stowed_count > 200
    assert drained(cluster, client, 300, no_ack=False) == ranked(range(300))
    cluster.pass_ms(2_000)
    assert not cluster.hosts[NodeId("n1")].scratch.files


def test_a_consumer_that_acknowledges_in_batches_goes_on_while_memory_is_full() -> None:
    cluster = Cluster(1, memory_bytes_max=MIB, **SMALL)
    publish(cluster, declared(cluster), range(200))
    client, got = cluster.client(), list[str]()
    report(cluster, waiting=2 * MIB)
    client.ask(BasicQos(prefetch_count=40), BasicQosOk)
    client.ask(BasicConsume("q", "c"), BasicConsumeOk)

    def has_a_batch() -> bool:
        return len(tags_of(client)) == 40

    for _ in range(5):
        cluster.wait_for(has_a_batch, 30_000)
        tags = tags_of(client)
        got += client.deliveries()
        client.send(BasicAck(tags[-1], multiple=True))
    assert cluster.node("n1").state.memory_full
    assert got == ranked(range(200))
