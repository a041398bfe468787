"""Streams larger than memory: their end is in memory, the rest is read where readers are."""

from collections.abc import Sequence
from typing import Any

import pytest

from fedq.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicQos,
    BasicQosOk,
    QueueDeclare,
    QueueDeclareOk,
    encode_method,
)
from fedq.amqp.values import FieldTable, TableValue
from fedq.core.ids import NodeId
from fedq.fragments.streams import log
from fedq.journal.records import NOTE_CAME
from fedq.node.clients.memory import held_bytes
from fedq.node.node import Node
from fedq.node.records.roles import Primary
from tests.unit.amqp.wire import Content
from tests.unit.node.harness import Client, Cluster, Host
from tests.unit.node.streams.test_reading import SMALL, declared, reads
from tests.unit.node.uncompiled import only_uncompiled

LARGER: Any = {**SMALL, "read_ahead_bytes": 4_000}
COUNT = 300
PAGES_BYTES: Any = 8 * SMALL["read_ahead_bytes"]


class Watched(Cluster):
    """Nodes of which the first one's pages are looked at after each turn."""

    most_paged = 0

    def turn(self) -> bool:
        """One turn of each node."""
        is_busy = super().turn()
        host = self.hosts[NodeId("n1")]
        if host.node is not None:
            pages = host.node.state.pages
            self.most_paged = max(self.most_paged, pages.bytes_held + pages.bytes_asked)
        return is_busy


class Slow(Cluster):
    """Nodes of which some disks answer no reads."""

    unread: Sequence[str] = ()

    def _drain(self, host: Host, node: Node) -> None:
        if host.name in self.unread:
            node.out.reads = []
        super()._drain(host, node)


def body(number: int) -> str:
    return f"{number:06} {'x' * 100}"


def bodies(*span: int) -> list[str]:
    return [body(number) for number in range(*span)]


def publish(cluster: Cluster, client: Client, numbers: range) -> None:
    for start in range(numbers.start, numbers.stop, 20):
        client.publish("s", *bodies(start, min(start + 20, numbers.stop)))
        cluster.pass_ms(600)


def filled(cluster: Cluster, count: int = COUNT, **arguments: TableValue) -> Client:
    """A client of the stream "s" with so many messages."""
    client = declared(cluster, **arguments)
    publish(cluster, client, range(count))
    return client


def primary_of(cluster: Cluster) -> Primary:
    [primary] = cluster.node(cluster.primary_of("s")).state.primaries.values()
    return primary


def read_all(cluster: Cluster, readers: list[Client], counts: list[int]) -> list[list[str]]:
    """What each reader gets when it acknowledges and goes on, until all have so many."""
    got: list[list[str]] = [[] for _ in readers]

    def have_all() -> bool:
        for reader, found in zip(readers, got, strict=True):
            if new := reader.deliveries():
                found += new
                reader.send(BasicAck(0, True))
        return all(len(found) >= count for found, count in zip(got, counts, strict=True))

    cluster.wait_for(have_all, 60_000)
    return got


def test_the_end_of_a_stream_stays_in_memory() -> None:
    cluster = Cluster(1, **SMALL)
    filled(cluster)
    fragment = primary_of(cluster).fragment
    assert fragment.fresh.stowed_count > 200
    assert fragment.bytes_held - fragment.fresh.stowed_bytes < 2 * SMALL["read_ahead_bytes"] + 3_000
    last = fragment.fresh.get(fragment.last)
    assert last
    reader = cluster.client()
    reads(reader, COUNT - 5)
    assert reader.deliveries() == bodies(COUNT - 5, COUNT)
    # Nobody had to read anything.
    assert not cluster.node("n1").state.pages.streams()
    fragment.check()


def test_who_asks_for_no_messages_of_what_is_in_memory_has_nothing_read_or_lost() -> None:
    cluster = Cluster(1, **LARGER)
    filled(cluster)
    primary, node = primary_of(cluster), cluster.node("n1")
    asked = node.state.reads.asked
    for position in (primary.fragment.last - 3, primary.fragment.fresh.first):
        assert not node.streams.serving.read(primary, position, 0, None).positions
    cluster.settle()
    assert not primary.unreadable
    assert node.state.reads.asked == asked
    assert not node.state.pages.streams()


@pytest.mark.parametrize("name", ["n1", "n3"])
@pytest.mark.parametrize("offset", ["first", 100, COUNT - 3, "last", "next", "1h"])
def test_readers_anywhere_get_all_there_is_and_all_that_comes(
    name: str, offset: TableValue
) -> None:
    cluster = Cluster(3, **SMALL)
    client = filled(cluster)
    assert cluster.primary_of("s") == "n1"
    reader = cluster.client(name)
    reads(reader, offset, prefetch=7)
    publish(cluster, client, range(COUNT, COUNT + 20))
    begins = {"first": 0, "last": COUNT - 20, "next": COUNT, "1h": 0}
    start = begins.get(str(offset), offset if isinstance(offset, int) else 0)
    [got] = read_all(cluster, [reader], [COUNT + 20 - start])
    assert got == bodies(start, COUNT + 20)


def test_readers_at_the_same_place_share_what_is_read() -> None:
    cluster = Cluster(1, **LARGER)
    filled(cluster)
    reads_of = cluster.node("n1").state.reads
    began = reads_of.asked
    readers = [cluster.client() for _ in range(20)]
    for reader in readers:
        reader.ask(BasicQos(prefetch_count=50), BasicQosOk)
        reader.send(BasicConsume("s", "r", arguments={"x-stream-offset": "first"}))
    got = read_all(cluster, readers, [COUNT] * 20)
    assert got == [bodies(COUNT)] * 20
    alone = cluster.client()
    before = reads_of.asked
    reads(alone, prefetch=50)
    assert read_all(cluster, [alone], [COUNT]) == [bodies(COUNT)]
    assert before - began < 3 * (reads_of.asked - before)


def delivered(client: Client) -> list[tuple[int, str, str]]:
    """The tag, reader and body of each delivery since the last look."""
    found = [said for said in client.said if isinstance(said, Content)]
    client.said = []
    methods = [said.method for said in found if isinstance(said.method, BasicDeliver)]
    return [
        (method.delivery_tag, method.consumer_tag, said.body.decode())
        for method, said in zip(methods, found, strict=True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["n1", "n3"])
def test_a_thousand_readers_at_a_thousand_places_go_on_in_a_bounded_memory(name: str) -> None:
    """Hostile: each of them wants something else read."""
    count, wanted = 1_000, 6
    cluster = Watched(3 if name == "n3" else 1, **LARGER)
    filled(cluster, count)
    client = cluster.client(name)
    client.ask(BasicQos(prefetch_count=2), BasicQosOk)
    for offset in range(count):
        arguments: FieldTable = {"x-stream-offset": offset}
        client.write(encode_method(1, BasicConsume("s", str(offset), arguments=arguments)))
    got: dict[str, list[str]] = {str(offset): [] for offset in range(count)}
    expected = {str(at): bodies(at, min(at + wanted, count)) for at in range(count)}

    def have_all() -> bool:
        for tag, reader, text in delivered(client):
            got[reader].append(text)
            if len(got[reader]) < wanted:
                client.write(encode_method(1, BasicAck(tag)))
        return all(len(got[each]) >= len(texts) for each, texts in expected.items())

    cluster.wait_for(have_all, 120_000)
    assert {each: texts[:wanted] for each, texts in got.items()} == expected
    # And one read.
    assert 16_000 < cluster.most_paged <= 32_000 + 20_000


@pytest.mark.parametrize("copies", [1, 3])
def test_a_reign_may_begin_with_bodies_on_disk_alone(copies: int) -> None:
    cluster = Cluster(copies, **SMALL)
    filled(cluster)
    cluster.kill("n1")
    if copies == 1:
        cluster.start("n1")
    else:
        cluster.wait_for(lambda: cluster.primary_of("s") != "n1")
    cluster.pass_ms(2_000)
    fragment = primary_of(cluster).fragment
    assert fragment.fresh.stowed_count > 200
    readers = [cluster.client(name) for name, host in cluster.hosts.items() if host.node]
    for reader, offset in zip(readers, (0, 150), strict=False):
        reads(reader, offset, prefetch=20)
    counts = [COUNT, COUNT - 150][: len(readers)]
    assert read_all(cluster, readers, counts) == [bodies(COUNT), bodies(150, COUNT)][: len(readers)]
    # What was read is not put back.
    assert fragment.fresh.stowed_count > 200
    fragment.check()


def test_retention_reads_nothing_back() -> None:
    cluster = Cluster(1, **SMALL, scrub_bytes_per_second=0)
    client = filled(cluster, x_max_length_bytes=20_000, x_stream_max_segment_size_bytes=4_000)
    fragment = primary_of(cluster).fragment
    assert 100 <= fragment.fresh.count < COUNT - 50
    assert fragment.fresh.stowed_count > 50
    assert fragment.bytes_held < 25_000
    assert not cluster.node("n1").state.reads.asked
    kept = fragment.fresh.count
    reads(client, prefetch=20)
    [got] = read_all(cluster, [client], [kept])
    assert got == bodies(COUNT - kept, COUNT)


def test_what_goes_while_it_is_read_is_not_served() -> None:
    cluster = Cluster(1, **SMALL, scrub_bytes_per_second=0)
    client = filled(cluster, x_max_length_bytes=20_000, x_stream_max_segment_size_bytes=4_000)
    reader = cluster.client()
    reads(reader, prefetch=5)
    [first, *_] = reader.deliveries()
    publish(cluster, client, range(COUNT, 2 * COUNT))
    reader.send(BasicAck(0, True))
    kept = primary_of(cluster).fragment.fresh.count
    [got] = read_all(cluster, [reader], [kept])
    assert first < got[0]
    assert got == bodies(2 * COUNT - kept, 2 * COUNT)


@pytest.mark.parametrize("name", ["n1", "n3"])
def test_readers_skip_what_is_lost_and_the_rest_goes_on(name: str) -> None:
    cluster = Cluster(3 if name == "n3" else 1, **SMALL)
    filled(cluster, x_fedq_replicas=1)
    wanted = body(150).encode()
    segments = cluster.hosts[NodeId("n1")].segments.values()
    data = next(data for data in segments if wanted in data)
    data[data.index(wanted)] ^= 1
    reader = cluster.client(name)
    reads(reader, prefetch=20)
    [got] = read_all(cluster, [reader], [COUNT - 20])
    lost = [number for number in range(COUNT) if body(number) not in got]
    assert 0 < len(lost) <= 20
    assert 150 in lost
    assert got == [body(number) for number in range(COUNT) if number not in lost]
    story = cluster.hosts[NodeId("n1")].story
    assert any("of queue 's'" in line and "are lost here" in line for line in story)
    assert cluster.node("n1").state.messages_lost == len(lost)


@pytest.mark.parametrize("persistent", [True, False])
def test_what_one_node_cannot_read_it_gets_from_another_one(persistent: bool) -> None:
    """Whatever its publisher said: a stream keeps all of it."""
    cluster = Cluster(3, **SMALL, scrub_bytes_per_second=0)
    client = declared(cluster)
    for start in range(0, COUNT, 20):
        client.publish("s", *bodies(start, start + 20), persistent=persistent)
        cluster.pass_ms(600)
    wanted = body(150).encode()
    segments = cluster.hosts[NodeId("n1")].segments.values()
    data = next(data for data in segments if wanted in data)
    data[data.index(wanted)] ^= 1
    reader = cluster.client("n3")
    reads(reader, prefetch=20)
    assert read_all(cluster, [reader], [COUNT]) == [bodies(COUNT)]
    state = cluster.node("n1").state
    assert (cluster.primary_of("s"), state.messages_lost) == ("n1", 0)
    assert state.scrub.mended > 0


def test_what_others_are_asked_for_is_not_read_meanwhile() -> None:
    """Their disks do not answer for a while: this one is left alone."""
    cluster = Slow(3, **SMALL)
    filled(cluster)
    wanted = body(150).encode()
    segments = cluster.hosts[NodeId("n1")].segments.values()
    data = next(data for data in segments if wanted in data)
    data[data.index(wanted)] ^= 1
    reader = cluster.client()
    cluster.unread = ["n2", "n3"]
    reads(reader, 140, prefetch=50)
    cluster.pass_ms(300)
    asked = cluster.node("n1").state.reads.asked
    cluster.pass_ms(500)
    assert cluster.node("n1").state.reads.asked == asked
    cluster.unread = []
    assert read_all(cluster, [reader], [COUNT - 140]) == [bodies(140, COUNT)]


@pytest.mark.parametrize("name", ["n1", "n3"])
def test_pages_go_with_their_readers(name: str) -> None:
    cluster = Cluster(3 if name == "n3" else 1, **SMALL)
    filled(cluster)
    state = cluster.node("n1").state
    reader = cluster.client(name)
    reader.ask(BasicQos(prefetch_count=5), BasicQosOk)
    before = held_bytes(state)
    reads(reader, prefetch=5)
    assert state.pages.bytes_held > SMALL["read_ahead_bytes"]
    reader.ask(BasicCancel("r"), BasicCancelOk)
    cluster.pass_ms(6_000)
    assert not state.pages.streams()
    assert (state.pages.bytes_held, state.pages.bytes_asked, state.pages.reads) == (0, 0, 0)
    assert held_bytes(state) < before + 3_000


def test_what_was_written_for_who_has_no_room_is_counted_and_bounded() -> None:
    """Many at a place read nothing, and one of them does."""
    cluster = Cluster(1, **SMALL)
    filled(cluster, 400)
    state = cluster.node("n1").state
    client = cluster.client()
    client.ask(BasicQos(prefetch_count=1), BasicQosOk)
    for number in range(100):
        offset: FieldTable = {"x-stream-offset": 4 * (number // 2)}
        client.ask(BasicConsume("s", f"r{number}", arguments=offset), BasicConsumeOk)
    cluster.pass_ms(200)
    for tag, reader, _ in delivered(client):
        if int(reader[1:]) % 2:
            client.write(encode_method(1, BasicAck(tag)))
        [[readers]] = [list(parts.values()) for parts in state.streams.values()]
        assert readers.bytes_held == sum(chunk.size for chunk in readers.chunks.values())
        assert readers.bytes_held <= PAGES_BYTES // 4
    cluster.settle()
    assert len(delivered(client)) == 50


def counted(cluster: Cluster, client: Client) -> int:
    return client.ask(QueueDeclare("s", passive=True), QueueDeclareOk).message_count


def begins_again(cluster: Cluster) -> Client:
    """A client of the next reign: of a node that starts again, or of another one."""
    cluster.kill("n1")
    if len(cluster.hosts) == 1:
        cluster.start("n1")
        cluster.pass_ms(1_000)
    else:
        cluster.wait_for(lambda: cluster.primary_of("s") != "n1")
    return cluster.client(cluster.primary_of("s"))


@pytest.mark.parametrize("size", [1, 3])
def test_messages_are_as_old_in_the_next_reign(size: int) -> None:
    cluster = Cluster(size, **SMALL)
    client = declared(cluster, x_max_age="1m", x_stream_max_segment_size_bytes=2_000)
    publish(cluster, client, range(40))
    cluster.pass_ms(50_000)
    client = begins_again(cluster)
    publish(cluster, client, range(40, 80))
    assert counted(cluster, client) == 80
    cluster.pass_ms(10_000)
    publish(cluster, client, range(80, 100))
    # The first ones are older than a minute, the others are not.
    kept = counted(cluster, client)
    assert 60 <= kept <= 60 + 20
    reads(client, prefetch=20)
    [got] = read_all(cluster, [client], [kept])
    assert got == bodies(100 - kept, 100)


@pytest.mark.parametrize("size", [1, 3])
def test_a_time_leads_to_the_same_place_in_the_next_reign(size: int) -> None:
    cluster = Cluster(size, **SMALL)
    client = declared(cluster)
    publish(cluster, client, range(100))
    cluster.pass_ms(20_000)
    publish(cluster, client, range(100, 140))
    client = begins_again(cluster)
    reads(client, "15s", prefetch=300)
    cluster.pass_ms(1_000)
    got = client.deliveries()
    # At most what came within a second of the first of these comes with them.
    assert got == bodies(140 - len(got), 140)
    assert 40 <= len(got) <= 60


def test_backups_leave_messages_unread_of_which_the_time_is_noted() -> None:
    cluster = Cluster(3)
    client = declared(cluster)
    for number in range(20):
        client.publish("s", body(number))
        cluster.pass_ms(1_000)
    copies = [
        backup.replica
        for name in cluster.hosts
        for backup in cluster.node(name).state.backups.values()
    ]
    assert copies
    for copy in copies:
        assert copy.count_read == 0
        assert len(copy.came) == 20
    assert primary_of(cluster).fragment.notes == {NOTE_CAME: copies[0].came}


@only_uncompiled
def test_notes_of_times_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "NOTED_MAX", 16)
    monkeypatch.setattr(log, "_NOTED_LEFT", 4)
    cluster = Cluster(3, **SMALL)
    client = declared(cluster)
    for number in range(60):
        client.publish("s", body(number))
        cluster.pass_ms(1_000)
    fragment = primary_of(cluster).fragment
    assert fragment.log is not None
    assert 4 <= len(fragment.log.came) <= 17
    copy = next(
        backup.replica
        for name in cluster.hosts
        for backup in cluster.node(name).state.backups.values()
    )
    assert copy.came == fragment.log.came
    client = begins_again(cluster)
    reads(client, "20s", prefetch=300)
    cluster.pass_ms(1_000)
    got = client.deliveries()
    assert got == bodies(60 - len(got), 60)
    assert 15 <= len(got) <= 45
