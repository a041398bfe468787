"""Scans of some routes: a slice of the stream, sifted; and what was looked at."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.amqp.methods import QueueBind, QueueBindOk
from fedq.amqp.route_filtering import RouteFilter, RouteSieve
from fedq.core.ids import NodeId
from fedq.core.message import encode, make_route
from fedq.core.ranges import from_ranges
from fedq.node.records.streams import scans
from fedq.node.records.streams.scans import Scanned
from fedq.node.streams import serving
from tests.examples import examples
from tests.unit.node.harness import Client, Cluster
from tests.unit.node.streams.test_larger_than_memory import LARGER, body, filled, primary_of
from tests.unit.node.streams.test_reading import SMALL
from tests.unit.node.streams.test_scanning import MORE_THAN_ALL, Asked, rows_of
from tests.unit.node.uncompiled import only_uncompiled

COUNT = 300
KEYS = ("a", "b", "ab", "a.b", "")
EXCHANGES = ("amq.topic", "amq.direct")


def route_of(number: int) -> tuple[str, str]:
    """In runs of three, now here, now there."""
    run = number // 3
    return EXCHANGES[run // 17 % 2], KEYS[run % len(KEYS)]


def fill(
    cluster: Cluster, numbers: range, client: Client | None = None, **arguments: Any
) -> Client:
    """Publishes to the stream "s", by a client that is there, or is made."""
    if client is None:
        client = filled(cluster, 0, **arguments)
        for key in KEYS:
            for exchange in EXCHANGES:
                client.ask(QueueBind("s", exchange, key), QueueBindOk)
    for start in range(numbers.start, numbers.stop, 3):
        exchange, key = route_of(start)
        client.publish(key, *map(body, range(start, start + 3)), exchange=exchange)
    return client


def sifted(
    cluster: Cluster, wanted: RouteFilter, begin: int, end: int, size: int, name: str = "n1"
) -> tuple[list[tuple[int, str]], list[int], int]:
    """The rows of a span, which offsets were looked at, and in how many answers."""
    rows: list[tuple[int, str]] = []
    looked: list[int] = []
    answers = 0
    while begin < end:
        asked = Asked(cluster, begin, end, size, name, wanted)
        found = asked.answer()
        assert found is not None
        assert begin < found.next - asked.base <= end
        rows += rows_of(found, asked.base)
        looked += [position - asked.base for position in from_ranges(found.looked)]
        begin = found.next - asked.base
        answers += 1
        asked.done()
    cluster.settle()
    assert cluster.node(name).state.scanned_bytes == 0
    return rows, looked, answers


def is_wanted(wanted: RouteFilter, number: int) -> bool:
    exchange, key = (each.encode() for each in route_of(number))
    if wanted.exchanges and exchange not in wanted.exchanges:
        return False
    if not wanted.keys and not wanted.prefixes:
        return True
    return key in wanted.keys or any(key.startswith(each) for each in wanted.prefixes)


@pytest.fixture(scope="module")
def long_stream() -> Cluster:
    """A stream of which most is on disk alone."""
    cluster = Cluster(1, **LARGER)
    fill(cluster, range(COUNT))
    return cluster


names = st.sampled_from([b"a", b"b", b"ab", b"a.b", b"", b"none", b"amq.topic", b"amq.direct"])
filters = st.builds(
    RouteFilter,
    st.lists(names, max_size=2).map(tuple),
    st.lists(names, max_size=2).map(tuple),
    st.lists(names, max_size=2).map(tuple),
)


@settings(max_examples=examples(60), deadline=None)
@given(wanted=filters, data=st.data())
def test_a_scan_of_routes_is_a_sifted_slice(
    long_stream: Cluster, wanted: RouteFilter, data: st.DataObject
) -> None:
    begin = data.draw(st.integers(0, COUNT))
    end = data.draw(st.integers(begin, COUNT))
    size = data.draw(st.sampled_from([1, 300, 5_000, MORE_THAN_ALL]))
    rows, looked, _ = sifted(long_stream, wanted, begin, end, size)
    assert rows == [(at, body(at)) for at in range(begin, end) if is_wanted(wanted, at)]
    assert looked == list(range(begin, end))


@only_uncompiled
def test_a_scan_that_finds_nothing_says_how_far_it_is(
    long_stream: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scans, "LOOKED_MAX", 60)
    monkeypatch.setattr(serving, "_WALK_MAX", 50)
    nothing = RouteFilter(keys=(b"no",))
    rows, looked, answers = sifted(long_stream, nothing, 0, COUNT, MORE_THAN_ALL)
    assert (rows, looked) == ([], list(range(COUNT)))
    assert answers > 2


def test_sifting_has_its_place_in_the_budget() -> None:
    cluster = Cluster(1, work_per_turn=100)
    fill(cluster, range(COUNT))
    turns = cluster.node("n1").state.work.turn
    asked = [
        Asked(cluster, 0, COUNT, MORE_THAN_ALL, "n1", RouteFilter(keys=(b"no",))) for _ in range(8)
    ]
    for each in asked:
        found = each.answer()
        assert found is not None
        assert found.messages == []
        each.done()
    assert cluster.node("n1").state.work.turn > turns + 3


def test_what_is_not_there_yet_is_waited_for() -> None:
    cluster = Cluster(1)
    client = fill(cluster, range(30))
    asked = Asked(cluster, 20, 45, MORE_THAN_ALL, "n1", RouteFilter(keys=(b"a",)))
    cluster.pass_ms(500)
    assert not asked.heard
    fill(cluster, range(30, 60), client)
    found = asked.answer()
    assert found is not None
    assert rows_of(found, asked.base) == [(at, body(at)) for at in (30, 31, 32)]
    asked.done()
    cluster.settle()


def test_what_is_gone_was_not_looked_at() -> None:
    cluster = Cluster(1, **SMALL, scrub_bytes_per_second=0)
    fill(cluster, range(COUNT), x_max_length_bytes=20_000, x_stream_max_segment_size_bytes=4_000)
    asked = Asked(cluster, 10, COUNT, MORE_THAN_ALL, "n1", RouteFilter(keys=(b"no",)))
    found = asked.answer()
    assert isinstance(found, Scanned)
    first = primary_of(cluster).fragment.fresh.first - asked.base
    assert first > 50
    assert found.first - asked.base == first
    assert next(from_ranges(found.looked)) - asked.base == first
    asked.done()


def test_ranges_go_over_reigns() -> None:
    cluster = Cluster(3, **SMALL)
    fill(cluster, range(60))
    cluster.kill("n1")
    cluster.wait_for(lambda: cluster.primary_of("s") != "n1")
    cluster.pass_ms(2_000)
    leader = NodeId(cluster.primary_of("s"))
    fill(cluster, range(60, 90), cluster.client(leader))
    log_end = primary_of(cluster).fragment.last + 1
    base = Asked(cluster, 0, 0, 1, leader).base
    rows, looked, _ = sifted(
        cluster, RouteFilter(keys=(b"a",)), 0, log_end - base, MORE_THAN_ALL, leader
    )
    assert [text for _, text in rows] == [body(at) for at in range(90) if route_of(at)[1] == "a"]
    assert len(looked) == 90


@given(st.lists(st.tuples(st.sampled_from(["", "e", "ee"]), st.sampled_from(["", "k", "kk"]))))
def test_routes_that_begin_alike_are_told_apart(routes: list[tuple[str, str]]) -> None:
    messages = [encode(0, make_route(*route), b"\0\0", b"k") for route in routes]
    sieve = RouteSieve(RouteFilter((b"e",), (b"k",), ()))
    count, found = sieve.pick(messages, 1_000, 1_000_000)
    assert count == len(routes)
    assert found == [index for index, route in enumerate(routes) if route == ("e", "k")]
