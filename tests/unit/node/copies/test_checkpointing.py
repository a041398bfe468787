"""A journal is as long as what is alive; a start reads what changed since the last checkpoint."""

from collections.abc import Callable
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
    BasicReject,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.core.ids import NodeId
from fedq.core.versions import CHECKPOINTS
from fedq.journal.recovered import Recovered
from fedq.journal.recovery import recover
from fedq.node.copies import checkpointing
from tests.unit.node.harness import Client, Cluster
from tests.unit.node.uncompiled import only_uncompiled

SEGMENT = 2_000


def journal(cluster: Cluster, name: str) -> dict[int, bytes]:
    return {n: bytes(data) for n, data in cluster.hosts[NodeId(name)].segments.items()}


def size(cluster: Cluster, name: str) -> int:
    return sum(map(len, journal(cluster, name).values()))


def recovered(cluster: Cluster, name: str) -> Recovered:
    """What a start would find; nothing may be damaged."""
    return recover(journal(cluster, name))


def declared(cluster: Cluster, name: str = "n1", **arguments: Any) -> Client:
    client = cluster.client(name)
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    client.ask(QueueDeclare("old", durable=True, arguments=arguments), QueueDeclareOk)
    client.ask(QueueDeclare("busy", durable=True), QueueDeclareOk)
    return client


def publish(cluster: Cluster, client: Client, queue: str, body: str) -> None:
    client.publish(queue, body)
    cluster.wait_for(lambda: client.has(BasicAck))
    client.take(BasicAck)


def come_and_go(cluster: Cluster, client: Client, count: int, look: Callable[[], None]) -> None:
    """Messages that come, are delivered, and are acknowledged."""
    client.ask(BasicConsume("busy", "c", no_ack=True), BasicConsumeOk)
    for number in range(count):
        publish(cluster, client, "busy", f"{number:0200}")
        cluster.pass_ms(100)
        client.deliveries()
        look()


@pytest.mark.parametrize("nodes", [1, 3])
def test_one_old_message_keeps_a_segment_and_not_all_that_follow(nodes: int) -> None:
    cluster = Cluster(nodes, segment_bytes_max=SEGMENT)
    client = declared(cluster)
    publish(cluster, client, "old", "the one")
    # It came back once: that is known of it as long as it lives.
    tag = client.ask(BasicGet("old"), BasicGetOk).delivery_tag
    client.send(BasicReject(tag, requeue=True))
    longest = 0

    def look() -> None:
        nonlocal longest
        longest = max(longest, *(size(cluster, name) for name in cluster.hosts))

    come_and_go(cluster, client, 150, look)
    # About 45,000 bytes came in.
    assert longest < 5 * SEGMENT
    for name in cluster.hosts:
        cluster.kill(name)
    for name in cluster.hosts:
        cluster.start(name)
    cluster.pass_ms(8_000)
    client = cluster.client("n1")
    found = client.ask(BasicGet("old"), BasicGetOk)
    assert found.redelivered
    assert client.ask(BasicGet("old"), BasicGetEmpty) is not None


def test_a_backlog_that_is_gone_leaves_no_disk() -> None:
    cluster = Cluster(1, segment_bytes_max=SEGMENT)
    client = declared(cluster)
    for number in range(100):
        publish(cluster, client, "busy", f"{number:0200}")
    assert size(cluster, "n1") > 10 * SEGMENT
    client.ask(BasicConsume("busy", "c", no_ack=True), BasicConsumeOk)
    cluster.pass_ms(20_000)
    assert size(cluster, "n1") < 4 * SEGMENT


def test_what_every_start_finds_is_what_was_alive() -> None:
    """At whatever moment, with segments gone and a checkpoint begun or not."""
    cluster = Cluster(1, segment_bytes_max=SEGMENT)
    client = declared(cluster)
    for number in range(20):
        publish(cluster, client, "old", f"old {number}")
    checkpoints: dict[int, None] = {}

    def look() -> None:
        found = recovered(cluster, "n1")
        checkpoints[found.checkpoint] = None
        node = cluster.node("n1")
        for fragment, primary in node.state.primaries.items():
            assert found.fragments[fragment].messages == dict(primary.fragment.messages.pairs())
            assert found.fragments[fragment].whole

    come_and_go(cluster, client, 60, look)
    assert len(checkpoints) > 3


@only_uncompiled
def test_one_that_fails_is_given_up_and_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(1, segment_bytes_max=SEGMENT)
    cluster.tolerates_faults = True
    client = declared(cluster)
    publish(cluster, client, "old", "the one")

    before = recovered(cluster, "n1").checkpoint

    def fail(*_: object) -> bytes:
        raise IndexError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(checkpointing, "encode_live", fail)
        come_and_go(cluster, client, 30, lambda: None)
    faults = cluster.hosts[NodeId("n1")].faults
    assert faults
    assert "given up" in faults[0].text
    assert recovered(cluster, "n1").checkpoint == before
    publish(cluster, client, "busy", "more")
    cluster.pass_ms(12_000)
    assert recovered(cluster, "n1").checkpoint > before


def test_there_is_none_that_an_older_release_could_not_read() -> None:
    cluster = Cluster(1, segment_bytes_max=SEGMENT)
    client = declared(cluster)
    cluster.node("n1").state.map.cluster_version = CHECKPOINTS - 1
    checkpoint = recovered(cluster, "n1").checkpoint
    come_and_go(cluster, client, 30, lambda: None)
    assert recovered(cluster, "n1").checkpoint == checkpoint


# --- moving --------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [1, 3])
def test_what_little_is_alive_moves_on(nodes: int) -> None:
    """A tenth of what comes stays, in all segments alike."""
    cluster = Cluster(nodes, segment_bytes_max=SEGMENT)
    client = declared(cluster)
    client.ask(BasicConsume("busy", "c", no_ack=True), BasicConsumeOk)
    kept: list[str] = []
    for number in range(300):
        if number % 10 == 0:
            kept.append(f"{number:0200}")
            publish(cluster, client, "old", kept[-1])
        publish(cluster, client, "busy", f"{number:0200}")
        cluster.pass_ms(100)
        client.deliveries()
        alive = len(kept) * 270
        for name in cluster.hosts:
            assert size(cluster, name) < 2 * alive + 5 * SEGMENT
    assert min(journal(cluster, "n1")) > 10
    for name in cluster.hosts:
        found = recovered(cluster, name).fragments.values()
        assert {len(each.messages) for each in found} <= {0, len(kept)}
    for name in cluster.hosts:
        cluster.kill(name)
    for name in cluster.hosts:
        cluster.start(name)
    cluster.pass_ms(8_000)
    client = cluster.client("n1")
    client.ask(BasicConsume("old", "c", no_ack=True), BasicConsumeOk)
    cluster.pass_ms(1_000)
    assert [body.removeprefix("again: ") for body in client.deliveries()] == kept


def test_what_is_gone_on_the_way_does_not_return() -> None:
    """Acknowledged between the copy and its sync, and while the rest of the segment waits."""
    cluster = Cluster(1, segment_bytes_max=SEGMENT)
    client = declared(cluster)
    tags: list[int] = []
    for number in range(40):
        publish(cluster, client, "old", f"{number:0100}")
    client.ask(BasicConsume("old", "o"), BasicConsumeOk)
    cluster.pass_ms(100)
    tags = [each.delivery_tag for each in client.heard() if isinstance(each, BasicDeliver)]
    assert len(tags) == 40

    def look() -> None:
        if tags and len(tags) % 4:
            client.send(BasicAck(tags.pop(len(tags) // 2)))
        elif tags:
            tags.pop()
        cluster.pass_ms(50)
        found = recovered(cluster, "n1").fragments
        for fragment, primary in cluster.node("n1").state.primaries.items():
            assert found[fragment].messages == dict(primary.fragment.messages.pairs())

    come_and_go(cluster, client, 100, look)
