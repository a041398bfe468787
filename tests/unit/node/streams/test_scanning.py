"""Scans of streams: ranges for tools outside, beside readers, within the budget and the memory."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.amqp.methods import QueueDelete, QueueDeleteOk
from fedq.amqp.route_filtering import RouteFilter
from fedq.amqp.values import TableValue
from fedq.core.ids import NodeId, QueueKey
from fedq.core.message import split
from fedq.core.ranges import from_ranges
from fedq.node.clients.memory import held_bytes
from fedq.node.node import Node
from fedq.node.records.streams.scans import Scan, Scanned
from fedq.node.streams.serving import base_of
from fedq.node.views.stream_view import ServedFragment, StreamView
from tests.examples import examples
from tests.unit.node.harness import Client, Cluster
from tests.unit.node.streams.test_larger_than_memory import (
    COUNT,
    LARGER,
    bodies,
    filled,
    primary_of,
    publish,
    read_all,
)
from tests.unit.node.streams.test_reading import SMALL, reads
from tests.unit.node.uncompiled import only_uncompiled

KEY = QueueKey("/", "s")
MORE_THAN_ALL = 1 << 20


class Asked:
    """A scan of the stream "s" in offsets, and what it hears."""

    def __init__(
        self, cluster: Cluster, begin: int, end: int, size: int, name: str = "n1",
        wanted: RouteFilter | None = None,
    ) -> None:  # fmt: skip
        self.cluster = cluster
        self.host = cluster.hosts[NodeId(name)]
        found = StreamView(cluster.node(name)).fragment(KEY, 0)
        assert found is not None
        self.base = found[1]
        self.heard: list[Scanned | None] = []
        begin, end = self.base + begin, self.base + end
        self.scan = Scan(found[0], begin, end, size, self.heard.append, wanted)
        self.host.inbox.append(lambda node: node.streams.scanning.on_asked(KEY, self.scan))

    def done(self) -> None:
        self.host.inbox.append(lambda node: node.streams.scanning.on_done(KEY, self.scan))

    def answer(self) -> Scanned | None:
        """The answer, once it is there."""
        self.cluster.wait_for(lambda: bool(self.heard))
        [found] = self.heard
        return found


def rows_of(found: Scanned, base: int) -> list[tuple[int, str]]:
    """The offsets and bodies of what a scan found."""
    positions = list(from_ranges(found.ranges))
    texts = [split(message)[2].decode() for message in found.messages]
    return [(at - base, each) for at, each in zip(positions, texts, strict=True)]


def scanned(
    cluster: Cluster, begin: int, end: int, size: int = MORE_THAN_ALL, name: str = "n1"
) -> list[tuple[int, str]]:
    """What is between two offsets, chunk by chunk."""
    rows: list[tuple[int, str]] = []
    while begin < end:
        asked = Asked(cluster, begin, end, size, name)
        found = asked.answer()
        assert found is not None
        following = found.next - asked.base
        assert begin < following <= end
        rows += rows_of(found, asked.base)
        begin = following
        asked.done()
    cluster.settle()
    state = cluster.node(name).state
    assert state.scanned_bytes == 0
    return rows


def expected(begin: int, end: int) -> list[tuple[int, str]]:
    return list(zip(range(begin, end), bodies(begin, end), strict=True))


def served(node: Node, *times: int) -> ServedFragment:
    """What the node tells of the only fragment."""
    fragments = StreamView(node).fragments(KEY, times)
    assert fragments is not None
    [fragment] = fragments
    assert fragment.served is not None
    return fragment.served


@pytest.fixture(scope="module")
def long_stream() -> Cluster:
    """A stream of which most is on disk alone."""
    cluster = Cluster(1, **LARGER)
    filled(cluster)
    return cluster


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_a_scan_is_a_slice_of_the_stream(long_stream: Cluster, data: st.DataObject) -> None:
    """Against a list: whatever the range and the size of chunks, in memory and on disk."""
    begin = data.draw(st.integers(0, COUNT))
    end = data.draw(st.integers(begin, COUNT))
    size = data.draw(st.sampled_from([1, 300, 5_000, MORE_THAN_ALL]))
    assert scanned(long_stream, begin, end, size) == expected(begin, end)


def test_a_chunk_has_about_as_many_bytes_as_were_asked_for(long_stream: Cluster) -> None:
    asked = Asked(long_stream, 0, COUNT, 5_000)
    found = asked.answer()
    assert found is not None
    assert found.ranges == [(asked.base, found.next - 1)]
    # And a page.
    assert 5_000 <= asked.scan.size < 5_000 + LARGER["read_ahead_bytes"] * 4
    assert long_stream.node("n1").state.scanned_bytes == asked.scan.size
    asked.done()
    long_stream.settle()
    assert long_stream.node("n1").state.scanned_bytes == 0


def test_what_was_gathered_counts_as_memory_until_it_is_handed_over() -> None:
    cluster = Cluster(1)
    filled(cluster)
    state = cluster.node("n1").state
    before = held_bytes(state)
    asked = Asked(cluster, 0, COUNT, MORE_THAN_ALL)
    assert asked.answer() is not None
    assert held_bytes(state) - before >= sum(map(len, bodies(COUNT)))
    asked.done()
    cluster.settle()
    assert held_bytes(state) == before


def test_a_long_scan_is_gathered_in_several_turns_and_readers_go_on() -> None:
    cluster = Cluster(1, work_per_turn=100)
    client = filled(cluster)
    asked = [Asked(cluster, 0, COUNT, MORE_THAN_ALL) for _ in range(5)]
    reader = cluster.client()
    reads(reader, prefetch=50)
    turns = cluster.node("n1").state.work.turn
    assert read_all(cluster, [reader], [COUNT]) == [bodies(COUNT)]
    for each in asked:
        found = each.answer()
        assert found is not None
        assert rows_of(found, each.base) == expected(0, COUNT)
        each.done()
    assert cluster.node("n1").state.work.turn > turns + 3
    publish(cluster, client, range(COUNT, COUNT + 20))
    assert scanned(cluster, COUNT, COUNT + 20) == expected(COUNT, COUNT + 20)


def test_what_is_not_there_yet_is_waited_for_and_may_be_given_up() -> None:
    cluster = Cluster(1)
    client = filled(cluster, 20)
    early, given_up = (Asked(cluster, 15, 30, MORE_THAN_ALL) for _ in range(2))
    cluster.pass_ms(500)
    assert not early.heard
    given_up.done()
    cluster.settle()
    publish(cluster, client, range(20, 40))
    found = early.answer()
    assert found is not None
    assert rows_of(found, early.base) == expected(15, 30)
    assert not given_up.heard
    early.done()
    cluster.pass_ms(500)
    state = cluster.node("n1").state
    assert (state.scanned_bytes, state.streams) == (0, {})


def test_a_scan_says_what_retention_has_passed() -> None:
    cluster = Cluster(1, **SMALL, scrub_bytes_per_second=0)
    filled(cluster, x_max_length_bytes=20_000, x_stream_max_segment_size_bytes=4_000)
    told = served(cluster.node("n1"))
    first = told.first
    assert first > 50
    asked = Asked(cluster, 10, told.next, MORE_THAN_ALL)
    found = asked.answer()
    assert found is not None
    assert found.first - asked.base == first
    left = primary_of(cluster).fragment.fresh.count
    rows = rows_of(found, asked.base)
    # What goes takes offsets, too.
    assert [text for _, text in rows] == bodies(COUNT - left, COUNT)
    assert [at for at, _ in rows] == sorted(at for at, _ in rows)
    assert rows[0][0] >= first
    gone = Asked(cluster, 10, 20, MORE_THAN_ALL).answer()
    assert gone is not None
    assert (gone.ranges, gone.messages, gone.next - asked.base) == ([], [], 20)


@pytest.mark.parametrize("small", [{}, SMALL])
def test_ranges_go_over_reigns(small: dict[str, Any]) -> None:
    """Offsets jump where another node begins to lead."""
    cluster = Cluster(3, **small)
    filled(cluster, 60)
    cluster.kill("n1")
    cluster.wait_for(lambda: cluster.primary_of("s") != "n1")
    cluster.pass_ms(2_000)
    leader = cluster.primary_of("s")
    publish(cluster, cluster.client(leader), range(60, 100))
    told = served(cluster.node(leader))
    [(first, last), (again, end)] = told.ranges
    assert (first, last, end - again) == (0, 59, 39)
    assert (told.first, told.next) == (0, end + 1)
    rows = scanned(cluster, 30, told.next, 700, leader)
    assert [text for _, text in rows] == bodies(30, 100)
    assert [at for at, _ in rows] == [*range(30, 60), *range(again, end + 1)]
    # Between the two there is nothing, and nothing will be.
    assert scanned(cluster, 60, again, name=leader) == []
    assert scanned(cluster, 59, again + 1, name=leader) == [rows[29], rows[30]]


def test_where_nothing_ever_was_nothing_was_removed() -> None:
    """The first message is far beyond the offset at which somebody began to wait for it."""
    cluster = Cluster(1)
    filled(cluster, 0)
    assert served(cluster.node("n1")).first == 0
    for _ in range(2):
        cluster.kill("n1")
        cluster.start("n1")
        cluster.pass_ms(2_000)
        told = served(cluster.node("n1"))
        assert (told.first, told.ranges) == (0, [])
        assert told.next >= 1 << 40
    publish(cluster, cluster.client(), range(20))
    told = served(cluster.node("n1"))
    assert told.first == 0
    assert told.ranges[0][0] >= 1 << 40
    found = Asked(cluster, 0, told.next, MORE_THAN_ALL).answer()
    assert found is not None
    assert (found.first, len(found.messages)) == (0, 20)
    # Of what an earlier reign has removed nothing is known later: that may have been something.
    cluster.kill("n1")
    cluster.start("n1")
    cluster.pass_ms(2_000)
    assert served(cluster.node("n1")).first == told.ranges[0][0]


def test_a_node_that_does_not_serve_the_stream_says_so() -> None:
    cluster = Cluster(3)
    filled(cluster, 20)
    assert cluster.primary_of("s") == "n1"
    assert Asked(cluster, 0, 20, MORE_THAN_ALL, "n2").answer() is None
    view = StreamView(cluster.node("n2"))
    fragments = view.fragments(KEY, ())
    assert fragments is not None
    assert [(each.number, each.home, each.served) for each in fragments] == [(0, "n1", None)]


def test_scans_end_when_the_stream_is_deleted() -> None:
    cluster = Cluster(1)
    client = filled(cluster, 20)
    asked = Asked(cluster, 10, 100, MORE_THAN_ALL)
    cluster.settle()
    client.ask(QueueDelete("s"), QueueDeleteOk)
    assert asked.answer() is None
    asked.done()
    cluster.settle()
    state = cluster.node("n1").state
    assert (state.scanned_bytes, state.streams) == (0, {})
    assert StreamView(cluster.node("n1")).fragments(KEY, ()) is None
    assert StreamView(cluster.node("n1")).fragment(KEY, 0) is None


def test_scans_end_when_another_node_leads() -> None:
    """This one was cut off for a while, and waits for what it has not got."""
    cluster = Cluster(3)
    filled(cluster, 20)
    asked = Asked(cluster, 10, 100, MORE_THAN_ALL)
    cluster.settle()
    cluster.cut("n1")
    cluster.wait_for(lambda: cluster.primary_of("s") != "n1", 20_000)
    cluster.mend("n1")
    assert asked.answer() is None


def test_a_time_leads_to_the_first_row_that_may_have_it() -> None:
    cluster = Cluster(1)
    client = filled(cluster, 60)
    node = cluster.node("n1")
    asked = Asked(cluster, 0, 60, MORE_THAN_ALL)
    found = asked.answer()
    assert found is not None
    offsets = [position - asked.base for position, _ in found.times]
    times = [unix_ms for _, unix_ms in found.times]
    assert (offsets, times) == ([0, 20, 40], sorted(times))
    told = served(node, *times, times[1] + 1, times[-1] + 1, 0)
    assert told.since == [0, 20, 40, 40, 60, 0]
    later = Asked(cluster, 25, 45, MORE_THAN_ALL).answer()
    assert later is not None
    base = asked.base
    assert [(at - base, ms) for at, ms in later.times] == [(25, times[1]), (40, times[2])]
    assert client.is_read


@only_uncompiled
def test_more_reigns_than_are_told_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedq.node.views.stream_view.RANGES_MAX", 2)
    cluster = Cluster(1)
    filled(cluster, 20)
    for count in (40, 60, 80):
        cluster.kill("n1")
        cluster.start("n1")
        cluster.pass_ms(2_000)
        publish(cluster, cluster.client(), range(count - 20, count))
    fragment = primary_of(cluster).fragment
    ranges = served(cluster.node("n1")).ranges
    base = base_of(next(iter(cluster.node("n1").state.map.fragments.values())))
    assert len(ranges) == 2
    assert ranges[0][0] == 0
    assert ranges[-1][1] == fragment.last - base


def test_a_stream_that_never_had_a_message_is_told(cluster_of_one: Client) -> None:
    told = served(cluster_of_one.cluster.node("n1"), 5)
    assert (told.first, told.next, told.ranges, told.since) == (0, 0, [], [0])


@pytest.fixture
def cluster_of_one() -> Client:
    arguments: dict[str, TableValue] = {}
    return filled(Cluster(1), 0, **arguments)
