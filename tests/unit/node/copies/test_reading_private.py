"""Long exclusive queues: their bodies are in scratch files, and come back in order."""

import pytest

from fedq.amqp.methods import (
    BasicGet,
    BasicGetEmpty,
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
from fedq.fragments.fragment import Fragment
from fedq.journal.places import STRETCH_BYTES
from fedq.node.records.roles import UNREAD_MS_MAX
from tests.unit.amqp.wire import Content
from tests.unit.node.copies.test_long_queues import SMALL, body, drained, publish
from tests.unit.node.copies.test_scratch import spoil
from tests.unit.node.harness import Client, Cluster


def filled(cluster: Cluster, count: int, arguments: FieldTable | None = None) -> Client:
    """A client of an exclusive queue with so many messages, each confirmed."""
    client = cluster.client()
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    declare = QueueDeclare("q", exclusive=True, arguments=arguments or {})
    client.ask(declare, QueueDeclareOk)
    publish(cluster, client, range(count))
    return client


def fragment_of(cluster: Cluster) -> Fragment:
    (private,) = cluster.node("n1").state.private.values()
    return private.fragment


def count_of(client: Client) -> int:
    return client.ask(QueueDeclare("q", passive=True), QueueDeclareOk).message_count


@pytest.mark.parametrize("no_ack", [True, False])
def test_what_left_memory_comes_back_in_order(no_ack: bool) -> None:
    cluster = Cluster(1, **SMALL)
    client = filled(cluster, 300)
    fragment = fragment_of(cluster)
    assert fragment.fresh.stowed_count > 200
    assert fragment.bytes_held - fragment.fresh.stowed_bytes < 8_000
    assert count_of(client) == 300
    assert drained(cluster, client, 300, no_ack) == [body(number) for number in range(300)]
    cluster.pass_ms(2_000)
    assert not cluster.hosts[NodeId("n1")].scratch.files
    assert not cluster.node("n1").copies.reading_private.has_some()


def test_gets_wait_for_the_disk_and_what_is_given_back_comes_first() -> None:
    cluster = Cluster(1, **SMALL)
    client = filled(cluster, 200)
    tags: list[int] = []
    for number in range(100):
        client.send(BasicGet("q"))
        cluster.wait_for(lambda: any(isinstance(said, Content) for said in client.said))
        found = client.said.pop()
        assert isinstance(found, Content)
        assert isinstance(found.method, BasicGetOk)
        assert found.body.decode() == body(number)
        assert found.method.message_count == 199 - number
        tags.append(found.method.delivery_tag)
    client.send(BasicNack(tags[-1], multiple=True, requeue=True))
    cluster.pass_ms(1_000)
    got = drained(cluster, client, 200)
    assert got == [f"again: {body(n)}" for n in range(100)] + [body(n) for n in range(100, 200)]
    assert client.ask(BasicGet("q"), BasicGetEmpty) is not None


def test_a_get_that_waits_when_its_queue_goes_is_answered() -> None:
    cluster = Cluster(1, **SMALL)
    client = filled(cluster, 200)
    (private,) = cluster.node("n1").state.private.values()
    # All that is in memory, and one more.
    taken = private.fragment.at_hand
    for _ in range(taken + 1):
        client.send(BasicGet("q", no_ack=True))
    client.ask(QueueDelete("q"), QueueDeleteOk)
    cluster.pass_ms(1_000)
    assert not client.lost


def test_files_go_with_a_purge_with_the_queue_and_with_its_client() -> None:
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
    filled(cluster, 200).hang_up()
    cluster.pass_ms(2_000)
    assert not host.scratch.files
    assert not cluster.node("n1").state.scratch.fragments
    assert not cluster.node("n1").copies.reading_private.has_some()


@pytest.mark.parametrize("arguments", [{"x-message-ttl": 30_000}, {"x-max-length": 20}])
def test_what_becomes_a_dead_letter_is_read_first(arguments: FieldTable) -> None:
    cluster = Cluster(1, **SMALL)
    other = cluster.client()
    other.ask(QueueDeclare("dead", durable=True), QueueDeclareOk)
    dead: FieldTable = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    client = filled(cluster, 200, {**arguments, **dead})
    cluster.pass_ms(40_000)
    left = 20 if "x-max-length" in arguments else 0
    assert count_of(client) == left
    assert drained(cluster, other, 200 - left, queue="dead") == [
        body(number) for number in range(200 - left)
    ]


@pytest.mark.parametrize("damage", ["rot", "gone"])
def test_what_cannot_be_read_is_lost_by_name_and_the_rest_goes_on(damage: str) -> None:
    cluster = Cluster(1, **SMALL)
    client = filled(cluster, 300)
    spoil(cluster, 150, damage)
    got = drained(cluster, client, 120)
    cluster.pass_ms(UNREAD_MS_MAX + 12_000)
    got += client.deliveries()
    lost = [number for number in range(300) if body(number) not in got]
    assert 150 in lost
    assert got == [body(number) for number in range(300) if number not in lost]
    story = cluster.hosts[NodeId("n1")].story
    assert any("of the exclusive queue 'q'" in line and "are lost" in line for line in story)
    assert cluster.node("n1").state.messages_lost == len(lost)
    assert count_of(client) == 0


def test_a_disk_that_refuses_leaves_all_in_memory() -> None:
    cluster = Cluster(1, **SMALL)
    cluster.hosts[NodeId("n1")].scratch.refusal = "No space left on device"
    client = filled(cluster, 200)
    assert fragment_of(cluster).fresh.stowed_count == 0
    assert drained(cluster, client, 200) == [body(number) for number in range(200)]


def test_a_bad_sector_costs_the_record_that_it_is_in_alone() -> None:
    """Before, all that was written in one piece with it was lost, up to a mebibyte."""
    cluster = Cluster(1, **{**SMALL, "stow_bytes_min": 1_000_000, "read_ahead_bytes": 400_000})
    client = cluster.client()
    client.ask(QueueDeclare("q", exclusive=True), QueueDeclareOk)
    texts = [f"{number:06} {'x' * 10_000}" for number in range(300)]
    for start in range(0, 300, 20):
        client.publish("q", *texts[start : start + 20])
        cluster.pass_ms(600)
    scratch = cluster.hosts[NodeId("n1")].scratch
    assert fragment_of(cluster).fresh.stowed_count > 100
    file, data = next((file, data) for file, data in scratch.files.items() if len(data) > 350_000)
    at = data.index(b"x" * 10_000, 200_000) + 5_000
    scratch.bad[file] = [(at, at + 512)]
    got = drained(cluster, client, 300 - STRETCH_BYTES // 10_000 - 1)
    lost = cluster.node("n1").state.messages_lost
    assert 0 < lost <= STRETCH_BYTES // 10_000 + 1
    assert len(got) == 300 - lost
    assert got == [text for text in texts if text in got]
