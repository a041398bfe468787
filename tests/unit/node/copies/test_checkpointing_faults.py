"""Checkpoints and moves beside failing copies, exceptions, and parts that cannot be taken up."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicReject,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.amqp.values import FieldTable
from fedq.core.ids import NodeId
from fedq.fragments.replica import Replica
from fedq.fragments.upkeep import alive
from fedq.journal.recovery import recover, salvage
from fedq.node.copies import checkpointing, moving, moving_from_disk
from fedq.node.copies.fragment_flow import FragmentFlow
from fedq.node.node import Node
from tests.unit.amqp.wire import publish as published
from tests.unit.node.copies.test_checkpointing import SEGMENT, declared, journal, publish
from tests.unit.node.harness import PERSISTENT, Client, Cluster
from tests.unit.node.uncompiled import only_uncompiled

pytestmark = only_uncompiled


class Bug(Exception):
    """Nobody knows it."""


def hold(
    monkeypatch: pytest.MonkeyPatch,
    node: Node,
    turns: int,
    then: Callable[[], None],
    when: Callable[[Any], bool],
) -> None:
    """The walk of a node's next checkpoint waits for some turns, as if they were busy."""
    go_on = checkpointing._Writing.go_on
    left = [-1]

    def held(writing: Any) -> bool:
        if writing._state is not node.state or left[0] == 0:
            return go_on(writing)
        if left[0] < 0:
            if not when(writing):
                return go_on(writing)
            left[0] = turns
            then()
        left[0] -= 1
        work = node.state.work
        work.spend(max(0, work.left))
        return False

    monkeypatch.setattr(checkpointing._Writing, "go_on", held)


def write(client: Client, queue: str, body: str) -> None:
    """Publishes without waiting."""
    client.write(published(1, "", queue, body.encode(), PERSISTENT, 0))


def fail_at_poison(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, name: str) -> None:
    apply = Replica.apply

    def failing(replica: Replica, records: bytes) -> Any:
        if cluster.turning == name and b"poison" in records:
            raise Bug
        return apply(replica, records)

    monkeypatch.setattr(Replica, "apply", failing)


def test_a_copy_that_fails_while_a_checkpoint_is_written_stays_on_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The walk has not come to it yet; others count on it: what it confirmed must stay."""
    cluster = Cluster(3, segment_bytes_max=SEGMENT)
    cluster.tolerates_faults = True
    client = declared(cluster)
    three: FieldTable = {"x-fedq-replicas": 3}
    client.ask(QueueDeclare("much", durable=True, arguments=three), QueueDeclareOk)
    publish(cluster, client, "old", "the one")
    primary = cluster.primary_of("old")
    (fragment,) = [
        f for f, i in cluster.node("n1").state.map.fragments.items() if i.queue.name == "old"
    ]
    in_sync = cluster.node("n1").state.map.fragments[fragment].in_sync
    backup = next(name for name in in_sync if name != primary)
    fail_at_poison(monkeypatch, cluster, backup)
    node = cluster.node(backup)
    hold(
        monkeypatch,
        node,
        40,
        lambda: write(client, "old", "poison"),
        lambda writing: writing._segment > 2,
    )
    failed = 0
    for number in range(60):
        publish(cluster, client, "much", f"{number:0200}")
        for _ in range(4):
            cluster.pass_ms(50)
            known = node.state.backups[fragment]
            if known.failed and node.state.me in node.state.map.fragments[fragment].in_sync:
                failed += 1
                found = recover(journal(cluster, backup)).fragments
                assert fragment in found, "a copy in sync is not on the disk any more"
                assert len(found[fragment].messages) == 1
    assert failed


def test_what_is_half_changed_by_a_checkpoint_stops_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Events that left the fragment and did not reach the journal: nobody may go on with that."""
    cluster = Cluster(1, segment_bytes_max=SEGMENT)
    cluster.tolerates_faults = True
    cluster.survived = (Bug,)
    client = declared(cluster)
    publish(cluster, client, "old", "the one")
    begin = checkpointing._Writing._begin
    at_it = [False]

    def begins(writing: Any, held: Any) -> None:
        at_it[0] = True
        begin(writing, held)
        at_it[0] = False

    drain = FragmentFlow.drain_records

    def fail(flow: FragmentFlow, primary: Any) -> None:
        if at_it[0]:
            raise Bug
        drain(flow, primary)

    monkeypatch.setattr(checkpointing._Writing, "_begin", begins)
    monkeypatch.setattr(FragmentFlow, "drain_records", fail)
    for number in range(20):
        if at_it[0]:
            break
        client.publish("busy", f"{number:0200}")
        cluster.pass_ms(500)
    host = cluster.hosts[NodeId("n1")]
    assert host.node is None or not host.node.state.risk.is_open


def test_a_queue_that_is_not_durable_is_not_in_a_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor while its part cannot be taken up (`FragmentRoles._retire`)."""
    cluster = Cluster(1, segment_bytes_max=SEGMENT)
    cluster.tolerates_faults = True
    client = declared(cluster)
    client.ask(QueueDeclare("short"), QueueDeclareOk)
    publish(cluster, client, "short", "persistent, in a queue that is not")
    node = cluster.node("n1")
    (fragment,) = [f for f, p in node.state.primaries.items() if p.queue.name == "short"]
    roles = node.copies.roles
    info = node.state.map.fragments[fragment]
    # As if its next reign could not begin.
    other = replace(info, reign=info.reign + 1)
    node.state.map.fragments[fragment] = other
    roles._retire(fragment)
    node.state.map.fragments[fragment] = info
    assert fragment in node.state.recovered
    for number in range(40):
        publish(cluster, client, "busy", f"{number:0200}")
        cluster.pass_ms(100)
    recover(journal(cluster, "n1"))


def test_a_backlog_that_is_gone_leaves_no_disk_though_nothing_else_comes() -> None:
    """Another segment has begun, and too little was written for the next: still much is dead."""
    cluster = Cluster(1, segment_bytes_max=SEGMENT)
    client = declared(cluster)
    for _ in range(30):
        client.publish("old", *["x" * 100] * 10)
        cluster.pass_ms(50)
    client.ask(BasicConsume("old", "c"), BasicConsumeOk)
    cluster.pass_ms(500)
    client.send(BasicNack(0, multiple=True, requeue=True))
    cluster.pass_ms(20_000)
    client.send(BasicAck(0, multiple=True))
    cluster.pass_ms(120_000)
    assert not any(p.fragment.bytes_held for p in cluster.node("n1").state.primaries.values())
    assert sum(map(len, journal(cluster, "n1").values())) < 6 * SEGMENT


def test_a_segment_on_the_move_forgets_a_copy_that_is_begun_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the old copy had, and the primary no more, does not return to the journal."""
    monkeypatch.setattr(moving_from_disk, "PIECE_BYTES_MIN", 1)
    monkeypatch.setattr(moving, "PIECE_BYTES_MAX", 1)
    monkeypatch.setattr(alive, "PIECE", 1)
    cluster = Cluster(3, segment_bytes_max=SEGMENT)
    cluster.tolerates_faults = True
    client = declared(cluster)
    three: FieldTable = {"x-fedq-replicas": 3}
    for name in ("kept", "much"):
        client.ask(QueueDeclare(name, durable=True, arguments=three), QueueDeclareOk)
    client.ask(BasicConsume("much", "c", no_ack=True), BasicConsumeOk)
    primary = cluster.primary_of("kept")
    backup = next(name for name in ("n3", "n2", "n1") if name != primary)
    fail_at_poison(monkeypatch, cluster, backup)
    node = cluster.node(backup)
    (fragment,) = [f for f, b in node.state.backups.items() if b.queue.name == "kept"]
    mover = node.copies.moving
    for number in range(400):
        journey = mover._journey
        if journey is not None and journey._fragment == fragment and journey.chunk:
            break
        publish(cluster, client, "kept", f"{number}")
        publish(cluster, client, "much", f"{number:0200}")
        if number % 20 == 0:
            # Notes: so the copy keeps them singly.
            tag = client.ask(BasicGet("kept"), BasicGetOk).delivery_tag
            client.send(BasicReject(tag, requeue=True))
        for _ in range(3):
            cluster.pass_ms(50)
            journey = mover._journey
            if journey is not None and journey._fragment == fragment and journey.chunk:
                cluster.disk_waits(backup, True)
                break
    assert mover._journey is not None
    cluster.disk_waits(backup, True)
    cluster.pass_ms(150)
    write(client, "kept", "poison")
    cluster.pass_ms(100)
    assert node.state.backups[fragment].failed
    # All of it goes.
    while client.ask(BasicGet("kept", no_ack=True), BasicGetOk).message_count:
        pass
    cluster.wait_for(lambda: not node.state.backups[fragment].failed)
    cluster.disk_waits(backup, False)
    publish(cluster, client, "much", "more")
    cluster.pass_ms(3_000)
    assert not node.state.backups[fragment].replica.messages
    found = recover(journal(cluster, backup)).fragments
    assert not found[fragment].messages


def test_what_is_lost_is_missed_by_one_start_only() -> None:
    """Whoever has accepted a loss, or has it mended by other copies, need not do so again."""
    cluster = Cluster(1, segment_bytes_max=SEGMENT)
    client = declared(cluster)
    for number in range(20):
        publish(cluster, client, "old", f"{number:0200}")
    cluster.pass_ms(2_000)
    cluster.kill("n1")
    host = cluster.hosts[NodeId("n1")]
    del host.segments[min(host.segments)]
    found = salvage(journal(cluster, "n1"))
    assert found.damages
    cluster.start("n1")
    cluster.turn()
    # Before it could write another checkpoint.
    cluster.kill("n1")
    again = salvage(journal(cluster, "n1"))
    assert not again.damages
    assert [len(each.messages) for each in again.fragments.values()] == [
        len(each.messages) for each in found.fragments.values()
    ]
