"""The scrub: rot is found before anybody needs what it has hit; segments with it are emptied."""

from typing import Any
from zlib import crc32

import pytest

from fedq.amqp.methods import ConfirmSelect, ConfirmSelectOk, QueueDeclare, QueueDeclareOk
from fedq.core.ids import NodeId
from fedq.core.peer_messages import BodiesWanted
from fedq.journal.records import FRAME
from fedq.journal.rot import note_rot
from fedq.node.copies import moving_from_disk
from tests.unit.node.copies.test_long_queues import SMALL, body, drained, filled
from tests.unit.node.copies.test_mending import backups_of, on_disk, rot
from tests.unit.node.harness import Cluster

#: Passes follow on each other within seconds.
BUSY: Any = {**SMALL, "scrub_bytes_per_second": 1 << 20, "scrub_every_ms": 2_000}


def test_each_pass_reads_every_full_segment_no_faster_than_it_may() -> None:
    cluster = Cluster(1, **{**BUSY, "scrub_bytes_per_second": 20_000})
    filled(cluster, 300)
    state = cluster.node("n1").state
    passes, then_ms, before = state.scrub.passes, cluster.now_ms, state.scrub.bytes_read
    cluster.wait_for(lambda: state.scrub.passes == passes + 2, 60_000)
    full = sum(len(data) for data in cluster.hosts[NodeId("n1")].segments.values())
    assert full - 20_000 - 65_536 <= state.scrub.pass_bytes <= full
    assert state.scrub.pass_bytes > full // 2
    read = state.scrub.bytes_read - before
    assert read <= 20 * (cluster.now_ms - then_ms) + 2 * 65_536
    assert state.scrub.found == 0
    assert state.scrub.last_pass_unix_ms > 0


def test_the_next_pass_begins_when_it_is_due() -> None:
    cluster = Cluster(1, **{**BUSY, "scrub_every_ms": 30_000})
    filled(cluster, 300)
    state = cluster.node("n1").state
    cluster.wait_for(lambda: state.scrub.passes == 2, 60_000)
    read = state.scrub.bytes_read
    cluster.pass_ms(20_000)
    assert state.scrub.bytes_read == read
    cluster.pass_ms(15_000)
    assert state.scrub.passes == 3


def test_none_is_read_where_the_rate_is_none() -> None:
    cluster = Cluster(1, **SMALL, scrub_bytes_per_second=0)
    filled(cluster, 300)
    cluster.pass_ms(5_000)
    assert cluster.node("n1").state.scrub.bytes_read == 0


@pytest.mark.parametrize("of_primary", [True, False])
def test_rot_that_nobody_has_met_is_mended_from_another_copy(of_primary: bool) -> None:
    cluster = Cluster(3, **BUSY)
    client = filled(cluster, 300, replicas=2)
    primary = cluster.primary_of("q")
    name = primary if of_primary else backups_of(cluster)[0]
    host, state = cluster.hosts[NodeId(name)], cluster.node(name).state
    wanted = body(150).encode()
    rotten = next(number for number, data in host.segments.items() if wanted in data)
    rot(cluster, name, 150)
    assert len(on_disk(cluster, name)) < 300
    cluster.wait_for(lambda: rotten not in host.segments, 60_000)
    assert on_disk(cluster, name) == [body(number) for number in range(300)]
    assert state.scrub.found == 1
    assert state.scrub.mended > 0
    assert state.messages_lost == 0
    assert cluster.primary_of("q") == primary
    assert any("has rot" in line for line in host.story)
    assert drained(cluster, client, 300) == [body(number) for number in range(300)]


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_record_that_says_it_is_of_another_fragment_is_missed(replicas: int) -> None:
    """Before, a segment on the move stepped over it, and went: its messages were lost unnamed."""
    cluster = Cluster(3, **BUSY)
    client = filled(cluster, 300, replicas=replicas)
    primary = cluster.primary_of("q")
    host, state = cluster.hosts[NodeId(primary)], cluster.node(primary).state
    wanted = body(150).encode()
    rotten = next(number for number, data in host.segments.items() if wanted in data)
    data = host.segments[rotten]
    [at] = [
        at
        for at in range(len(data) - FRAME.size)
        if crc32(data[at + FRAME.size : at + FRAME.size + FRAME.unpack_from(data, at)[0]])
        == FRAME.unpack_from(data, at)[1]
        and at < data.index(wanted) < at + FRAME.unpack_from(data, at)[0]
    ]
    # The head's version and kind are a byte each, the number of the fragment eight.
    data[at + FRAME.size + 2 + 7] ^= 1 << 3
    cluster.wait_for(lambda: rotten not in host.segments, 60_000)
    lost = state.messages_lost
    assert state.scrub.mended > 0 if replicas == 2 else 0 < lost <= 20
    assert len(on_disk(cluster, primary)) == 300 - lost
    assert len(drained(cluster, client, 300 - lost)) == 300 - lost


def test_what_is_in_memory_is_written_anew_from_there() -> None:
    cluster = Cluster(1, segment_bytes_max=20_000, scrub_bytes_per_second=1 << 20,
                      scrub_every_ms=2_000)  # fmt: skip
    filled(cluster, 300)
    host, state = cluster.hosts[NodeId("n1")], cluster.node("n1").state
    rotten = next(n for n, data in host.segments.items() if body(40).encode() in data)
    rot(cluster, "n1", 40, 41)
    cluster.wait_for(lambda: rotten not in host.segments, 60_000)
    assert on_disk(cluster, "n1") == [body(number) for number in range(300)]
    assert state.scrub.mended == 0
    cluster.kill("n1")
    cluster.start("n1")
    cluster.pass_ms(8_000)
    got = drained(cluster, cluster.client(), 300)
    assert [each.removeprefix("again: ") for each in got] == [body(n) for n in range(300)]


@pytest.mark.parametrize("piece_bytes", [1, 400, 5_000])
def test_what_only_this_node_had_is_lost_by_name_and_the_segment_goes(
    monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    """It goes when all that can be read is elsewhere, in however small pieces it is moved.

    Before, what was yet to be read was forgotten once a piece had grown beyond its size.
    """
    monkeypatch.setattr(moving_from_disk, "PIECE_BYTES_MIN", piece_bytes)
    cluster = Cluster(1, **BUSY)
    client = filled(cluster, 300)
    host, state = cluster.hosts[NodeId("n1")], cluster.node("n1").state
    rotten = next(n for n, data in host.segments.items() if body(150).encode() in data)
    rot(cluster, "n1", 150)
    cluster.wait_for(lambda: rotten not in host.segments, 60_000)
    assert 0 < state.messages_lost <= 20
    assert any("of queue 'q'" in line and "are lost here" in line for line in host.story)
    left = 300 - state.messages_lost
    assert len(on_disk(cluster, "n1")) == left
    assert client.ask(QueueDeclare("q", passive=True), QueueDeclareOk).message_count == left
    assert len(drained(cluster, client, left)) == left


def test_rot_in_what_is_dead_goes_with_its_segment_and_costs_nobody_a_message() -> None:
    cluster = Cluster(1, segment_bytes_max=20_000, scrub_bytes_per_second=1 << 20,
                      scrub_every_ms=2_000)  # fmt: skip
    client = cluster.client()
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    client.ask(QueueDeclare("kept", durable=True), QueueDeclareOk)
    client.ask(QueueDeclare("q", durable=True), QueueDeclareOk)
    for number in range(100):
        client.publish("kept" if number % 2 else "q", body(number))
    cluster.pass_ms(1_000)
    drained(cluster, client, 50)
    host, state = cluster.hosts[NodeId("n1")], cluster.node("n1").state
    rotten = next(n for n, data in host.segments.items() if body(40).encode() in data)
    assert body(41).encode() in host.segments[rotten]
    rot(cluster, "n1", 40)
    cluster.wait_for(lambda: rotten not in host.segments, 60_000)
    assert state.scrub.found == 1
    assert state.scrub.mended == state.messages_lost == 0
    left = b"".join(map(bytes, host.segments.values()))
    assert all(body(number).encode() in left for number in range(1, 100, 2))


def test_a_backup_keeps_its_segment_while_nobody_answers() -> None:
    cluster = Cluster(3, **BUSY)
    filled(cluster, 300, replicas=2)
    primary = cluster.primary_of("q")
    name = backups_of(cluster)[0]
    host, state = cluster.hosts[NodeId(name)], cluster.node(name).state
    rotten = next(n for n, data in host.segments.items() if body(150).encode() in data)
    handlers = cluster.node(primary).inbox._handlers
    lending = handlers[BodiesWanted]
    handlers[BodiesWanted] = lambda _sender, _message: None
    rot(cluster, name, 150)
    cluster.wait_for(lambda: any("wait for a copy" in line for line in host.story), 60_000)
    assert rotten in host.segments
    handlers[BodiesWanted] = lending
    cluster.wait_for(lambda: rotten not in host.segments, 120_000)
    assert on_disk(cluster, name) == [body(number) for number in range(300)]
    assert state.messages_lost == 0


def test_a_segment_that_has_to_wait_for_another_copy_holds_up_no_other_one() -> None:
    """Before, it alone was tried, again and again, and the journal grew."""
    cluster = Cluster(3, **SMALL, scrub_bytes_per_second=0)
    filled(cluster, 300, replicas=2)
    backup, primary = NodeId(backups_of(cluster)[0]), NodeId(cluster.primary_of("q"))
    cluster.node(primary).inbox._handlers[BodiesWanted] = lambda _sender, _message: None
    host, state = cluster.hosts[backup], cluster.node(backup).state
    rot(cluster, backup, 50)
    first, last = (
        next(number for number, data in host.segments.items() if body(each).encode() in data)
        for each in (49, 200)
    )
    assert first < last
    assert note_rot(state.plan, first)
    assert note_rot(state.plan, last)
    cluster.wait_for(lambda: last not in host.segments, 60_000)
    assert first in host.segments
    story = [line for line in host.story if f"segment {first} of the journal stays" in line]
    assert len(story) == 1
    assert len(on_disk(cluster, backup)) >= 280
