"""Sectors that cannot be read: what lies on them is lost at most, and found by few reads."""

from collections.abc import Iterator
from typing import Any

import pytest

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.amqp.values import FieldTable
from fedq.core.ids import NodeId
from fedq.fragments.singly.absent import Absent
from fedq.node.records.roles import UNREAD_MS_MAX
from tests.unit.node.copies.test_long_queues import body, drained, filled
from tests.unit.node.harness import Client, Cluster
from tests.unit.node.streams.test_larger_than_memory import read_all
from tests.unit.node.streams.test_reading import reads
from tests.unit.node.uncompiled import only_uncompiled

SECTOR = 256
SMALL: Any = {
    "stow_bytes_min": 1, "read_ahead_bytes": 1_500, "segment_bytes_max": 20_000,
    "sector_bytes": SECTOR, "scrub_bytes_per_second": 0,
}  # fmt: skip


def spoil(cluster: Cluster, name: str, number: int) -> int:
    """The sector with a message's first byte cannot be read any more; returns its segment."""
    host = cluster.hosts[NodeId(name)]
    wanted = body(number).encode()
    segment = next(n for n, data in host.segments.items() if wanted in data)
    sector = host.segments[segment].index(wanted) // SECTOR * SECTOR
    host.scratch.bad.setdefault(segment, []).append((sector, sector + SECTOR))
    return segment


def touched(cluster: Cluster, name: str, numbers: range) -> list[int]:
    """The messages of which a part, or their record's head, may lie on a bad sector."""
    host = cluster.hosts[NodeId(name)]
    found: list[int] = []
    for number in numbers:
        wanted = body(number).encode()
        for segment, bad in host.scratch.bad.items():
            at = host.segments[segment].find(wanted)
            # What is in front of a body in a record of its own: heads, lengths, properties, a mark.
            begins = at - 250
            if at >= 0 and any(first < at + len(wanted) and begins < stop for first, stop in bad):
                found.append(number)
    return found


def singly(cluster: Cluster, client: Client, numbers: range, queue: str = "q") -> None:
    """Publishes each message in a turn, and a record, of its own."""
    for number in numbers:
        client.publish(queue, body(number))
        cluster.wait_for(lambda: client.has(BasicAck))
        client.take(BasicAck)


def with_records(cluster: Cluster, count: int, **arguments: int | str) -> Client:
    """A client of a queue with so many messages, each in a record of its own, on disk alone."""
    client = filled(cluster, 0, 1)
    if arguments:
        table: FieldTable = {name.replace("_", "-"): value for name, value in arguments.items()}
        client.ask(QueueDeclare("s", durable=True, arguments=table), QueueDeclareOk)
    singly(cluster, client, range(count), "s" if arguments else "q")
    cluster.pass_ms(2_000)
    return client


@pytest.mark.parametrize("number", [60, 150, 151, 290])
def test_a_bad_sector_loses_what_lies_on_it_and_nothing_around_it(number: int) -> None:
    cluster = Cluster(1, **SMALL)
    client = with_records(cluster, 300)
    spoil(cluster, "n1", number)
    touches = touched(cluster, "n1", range(300))
    got = drained(cluster, client, 300 - len(touches))
    lost = [each for each in range(300) if body(each) not in got]
    assert number in lost
    assert set(lost) <= set(touches)
    assert len(lost) <= 3
    assert got == [body(each) for each in range(300) if each not in lost]
    assert cluster.node("n1").state.messages_lost == len(lost)
    assert cluster.node("n1").state.reads.bytes_kept == 0


def test_a_bad_sector_costs_few_reads_and_is_waited_for_once() -> None:
    cluster = Cluster(1, **SMALL)
    client = with_records(cluster, 300)
    for number in (100, 150, 200, 250):
        spoil(cluster, "n1", number)
    host = cluster.hosts[NodeId("n1")]
    began_ms = cluster.now_ms
    host.scratch.asked.clear()
    got = drained(cluster, client, 300 - len(touched(cluster, "n1", range(300))))
    assert 300 - len(got) <= 12
    # The disk is waited for, in case it is only away, but not for each sector anew.
    assert UNREAD_MS_MAX <= cluster.now_ms - began_ms <= UNREAD_MS_MAX + 5_000
    short = [size for size in host.scratch.asked if size <= SECTOR]
    # Each try of the first one ends at its sector and a neighbour, as does each of another one in
    # the same segment: four tries, twice a second.
    tries = 4 * (UNREAD_MS_MAX // 500 + 1 + 3)
    assert len(short) <= 4 * tries
    # Between 20,000 bytes and 256 there are seven halvings.
    assert len(host.scratch.asked) <= 4 * 7 * tries


def test_a_sector_that_can_be_read_again_soon_has_lost_nothing() -> None:
    cluster = Cluster(1, **SMALL)
    client = with_records(cluster, 300)
    spoil(cluster, "n1", 150)
    client.ask(BasicConsume("q", no_ack=True), BasicConsumeOk)
    cluster.pass_ms(UNREAD_MS_MAX - 2_000)
    assert len(client.deliveries()) >= 140
    cluster.hosts[NodeId("n1")].scratch.bad.clear()
    cluster.pass_ms(3_000)
    assert client.deliveries()[-1] == body(299)
    assert cluster.node("n1").state.messages_lost == 0


def test_the_segment_of_a_bad_sector_is_emptied_and_goes() -> None:
    cluster = Cluster(1, **SMALL)
    client = with_records(cluster, 300)
    segment = spoil(cluster, "n1", 150)
    spoil(cluster, "n1", 160)
    host = cluster.hosts[NodeId("n1")]
    for each in cluster.node("n1").state.plan.full:
        each.is_rotten = each.number == segment
    cluster.wait_for(lambda: segment not in host.segments, 200_000)
    assert 2 <= cluster.node("n1").state.messages_lost <= 6
    got = drained(cluster, client, 290)
    assert len(got) == 300 - cluster.node("n1").state.messages_lost


@pytest.mark.parametrize("number", [60, 150, 290])
def test_readers_of_a_stream_miss_no_more_than_what_lies_on_a_bad_sector(number: int) -> None:
    cluster = Cluster(1, **SMALL)
    with_records(cluster, 320, x_queue_type="stream")
    spoil(cluster, "n1", number)
    touches = touched(cluster, "n1", range(320))
    reader = cluster.client()
    reads(reader, prefetch=20)
    [got] = read_all(cluster, [reader], [320 - len(touches)])
    lost = [each for each in range(320) if body(each) not in got]
    assert number in lost
    assert set(lost) <= set(touches)
    assert len(lost) <= 3
    assert got == [body(each) for each in range(320) if each not in lost]


def test_a_backup_that_joins_gets_all_that_does_not_lie_on_a_bad_sector() -> None:
    cluster = Cluster(3, **SMALL)
    client = filled(cluster, 0, replicas=3)
    assert cluster.primary_of("q") == "n1"
    cluster.kill("n3")
    cluster.pass_ms(4_000)
    singly(cluster, client, range(300))
    cluster.pass_ms(2_000)
    for name in ("n1", "n2"):
        spoil(cluster, name, 150)
        spoil(cluster, name, 40)
    touches = touched(cluster, "n1", range(300))
    cluster.start("n3")

    def is_whole() -> bool:
        backups = cluster.node("n3").state.backups.values()
        return any(backup.whole and backup.replica.count > 280 for backup in backups)

    cluster.wait_for(is_whole, 60_000)
    state = cluster.node("n1").state
    assert cluster.primary_of("q") == "n1"
    assert 2 <= state.messages_lost <= 8
    got = drained(cluster, cluster.client("n1"), 300 - state.messages_lost)
    lost = [each for each in range(300) if body(each) not in got]
    assert set(lost) <= set(touches)


def test_a_length_that_has_rotted_loses_one_record() -> None:
    """Nothing says where the next one begins, but for a mark."""
    cluster = Cluster(1, **SMALL)
    client = with_records(cluster, 300)
    wanted = body(150).encode()
    segments = cluster.hosts[NodeId("n1")].segments.values()
    data = next(data for data in segments if wanted in data)
    # The record's length is in front of its checksum, head, and what its kind adds.
    at = data.index(wanted) - 250
    begins = next(
        place for place in range(at, at + 250)
        if int.from_bytes(data[place : place + 4]) + place + 8 == data.index(wanted) + len(wanted)
    )  # fmt: skip
    data[begins] ^= 0x40
    got = drained(cluster, client, 297)
    lost = [each for each in range(300) if body(each) not in got]
    assert 150 in lost
    assert len(lost) <= 3


#: After a start all messages of such a queue are kept singly, and most on disk alone.
SINGLES: FieldTable = {"x-max-priority": 3, "x-max-length-bytes": 1 << 40}


@pytest.mark.parametrize("number", [20, 150, 290])
@pytest.mark.parametrize("arguments", [SINGLES, {"x-max-priority": 3}], ids=["singly", "ranked"])
def test_what_has_priorities_loses_what_lies_on_a_bad_sector(
    number: int, arguments: FieldTable
) -> None:
    cluster = Cluster(1, **SMALL)
    client = filled(cluster, 0)
    client.ask(QueueDeclare("p", durable=True, arguments=arguments), QueueDeclareOk)
    singly(cluster, client, range(300), "p")
    cluster.pass_ms(2_000)
    cluster.kill("n1")
    spoil(cluster, "n1", number)
    touches = touched(cluster, "n1", range(300))
    cluster.start("n1")
    cluster.pass_ms(1_000)
    got = drained(cluster, cluster.client(), 300 - len(touches), queue="p")
    lost = [each for each in range(300) if f"again: {body(each)}" not in got]
    assert set(lost) <= set(touches)
    assert len(lost) <= 3
    assert cluster.node("n1").state.messages_lost == len(lost)
    assert number in lost


@only_uncompiled
def test_nobody_walks_over_all_that_is_kept_singly(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(1, **SMALL)
    client = filled(cluster, 0)
    client.ask(QueueDeclare("p", durable=True, arguments=SINGLES), QueueDeclareOk)
    singly(cluster, client, range(300), "p")
    cluster.kill("n1")
    cluster.start("n1")

    def walk(absent: Absent) -> Iterator[int]:
        raise AssertionError("somebody walks over what is on disk alone")

    monkeypatch.setattr(Absent, "__iter__", walk)
    cluster.pass_ms(1_000)
    got = drained(cluster, cluster.client(), 300, queue="p")
    assert got == [f"again: {body(number)}" for number in range(300)]


def test_who_is_asked_reads_a_bad_place_three_times_however_much_is_missing_there() -> None:
    cluster = Cluster(3, **SMALL)
    client = filled(cluster, 0, replicas=2)
    singly(cluster, client, range(300))
    cluster.pass_ms(2_000)
    primary = cluster.primary_of("q")
    [backup] = [name for name in cluster.hosts if cluster.node(name).state.backups]
    state = cluster.node(primary).state
    [served] = state.primaries.values()
    asked = [p for p, message in served.fragment.messages.items() if not message][:200]
    host = cluster.hosts[NodeId(backup)]
    for segment, data in host.segments.items():
        host.scratch.bad[segment] = [(0, len(data))]
    host.scratch.asked.clear()
    done: list[tuple[list[int], bool]] = []
    mending = cluster.node(primary).copies.mending
    identity = served.fragment.fragment_id
    mending.ask(identity, asked, lambda left, silent: done.append((left, silent)), fills=False)
    cluster.wait_for(lambda: len(done) == 1)
    assert done == [(asked, False)]
    # Halves of halves, down to a sector, are twice as many as there are sectors.
    assert len(host.scratch.asked) <= 3 * 2 * sum(map(len, host.segments.values())) // SECTOR


@pytest.mark.parametrize("fails_ms", [1_500, 20_000])
def test_whose_disk_fails_for_a_moment_does_not_say_that_it_has_nothing(fails_ms: int) -> None:
    """Nobody else has what rotted on the primary: it would be lost."""
    cluster = Cluster(3, **SMALL)
    client = filled(cluster, 0, replicas=2)
    singly(cluster, client, range(300))
    cluster.pass_ms(2_000)
    primary = cluster.primary_of("q")
    [backup] = [name for name in cluster.hosts if cluster.node(name).state.backups]
    state, host = cluster.node(primary).state, cluster.hosts[NodeId(backup)]
    [served] = state.primaries.values()
    asked = [p for p, message in served.fragment.messages.items() if not message][:50]
    for segment, data in host.segments.items():
        host.scratch.bad[segment] = [(0, len(data))]
    done: list[tuple[list[int], bool]] = []
    cluster.node(primary).copies.mending.ask(
        served.fragment.fragment_id, asked, lambda left, silent: done.append((left, silent)),
        fills=False,
    )  # fmt: skip
    cluster.pass_ms(fails_ms)
    host.scratch.bad.clear()
    cluster.wait_for(lambda: len(done) == 1)
    [(left, is_silent)] = done
    assert not is_silent
    assert left == ([] if fails_ms < 2_000 else asked)


def test_a_bad_sector_of_a_scratch_file_loses_a_record_not_the_piece() -> None:
    """What is written in one go is several records: up to a mebibyte may be."""
    cluster = Cluster(1, **{**SMALL, "read_ahead_bytes": 400_000, "segment_bytes_max": 8 << 20})
    client = cluster.client()
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    client.ask(QueueDeclare("q", durable=True), QueueDeclareOk)
    texts = [f"{number:06} {'x' * 9_000}" for number in range(120)]
    for start in range(0, 120, 20):
        for text in texts[start : start + 20]:
            client.publish("q", text, persistent=False)
        cluster.wait_for(lambda: client.has(BasicAck))
        client.take(BasicAck)
        cluster.pass_ms(600)
    host = cluster.hosts[NodeId("n1")]
    wanted = texts[100].encode()
    file = next(number for number, data in host.scratch.files.items() if wanted in data)
    at = host.scratch.files[file].index(wanted) + 5_000
    host.scratch.bad[file] = [(at // SECTOR * SECTOR, at // SECTOR * SECTOR + SECTOR)]
    got = drained(cluster, client, 111)
    lost = [number for number, text in enumerate(texts) if text not in got]
    assert 100 in lost
    assert len(lost) <= 9
    assert lost == list(range(lost[0], lost[-1] + 1))
    assert cluster.node("n1").state.messages_lost == len(lost)
