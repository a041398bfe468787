"""Readers that ask for some messages only: they get those, wherever they are, and no others."""

from typing import Any

import pytest

from fedq.amqp.content import encode_properties
from fedq.amqp.filtering import StreamFilter
from fedq.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    BasicQosOk,
    ChannelClose,
)
from fedq.amqp.values import FieldTable, TableValue
from fedq.core.peer_messages import READ_FROM, ReadStream, StreamPart
from fedq.core.versions import STREAMS
from fedq.node.records.streams import stream_readers
from fedq.node.streams import serving
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import Client, Cluster
from tests.unit.node.streams.test_larger_than_memory import LARGER
from tests.unit.node.streams.test_reading import declared, numbers, offsets
from tests.unit.node.uncompiled import only_uncompiled

PLAIN = "x" * 100


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(1)


def put(client: Client, value: TableValue, *bodies: str) -> None:
    """Publishes with a filter value, or (None) without one."""
    properties: FieldTable = {"delivery_mode": 2}
    if value is not None:
        properties["headers"] = {"x-stream-filter-value": value}
    data = encode_properties(properties)
    client.write(b"".join(publish(1, "", "s", body.encode(), data) for body in bodies))
    client.cluster.settle()


def wants(
    client: Client, wanted: TableValue, offset: TableValue = "first", prefetch: int = 100,
    tag: str = "r", **more: TableValue,
) -> None:  # fmt: skip
    """The client reads what it wants from there on."""
    client.ask(BasicQos(prefetch_count=prefetch), BasicQosOk)
    table: FieldTable = {"x-stream-offset": offset, "x-stream-filter": wanted}
    table |= {"x-stream-" + word.replace("_", "-"): value for word, value in more.items()}
    client.ask(BasicConsume("s", tag, arguments=table), BasicConsumeOk)
    client.cluster.settle()


def mixed(cluster: Cluster) -> Client:
    """A client of a stream with values in turn: none, "eu", "us", 0 to 8."""
    client = declared(cluster)
    for number in range(9):
        put(client, [None, "eu", "us"][number % 3], str(number))
    return client


def questions(cluster: Cluster) -> list[ReadStream]:
    """What nodes asked each other since the last look."""
    said = [message for _, _, message in cluster.overheard if isinstance(message, ReadStream)]
    cluster.overheard = []
    return said


@pytest.mark.parametrize("name", ["n1", "n3"])
@pytest.mark.parametrize(
    ("wanted", "unfiltered", "expected"),
    [
        ("eu", False, ["1", "4", "7"]),
        ("eu", True, ["0", "1", "3", "4", "6", "7"]),
        (["eu", "us", "eu"], False, ["1", "2", "4", "5", "7", "8"]),
        (["eu", "us"], True, numbers(9)),
        ("nobody", False, []),
        ("nobody", True, ["0", "3", "6"]),
        (b"eu", False, ["1", "4", "7"]),
    ],
)
def test_a_reader_gets_what_it_asked_for(
    name: str, wanted: TableValue, unfiltered: bool, expected: list[str]
) -> None:
    cluster = Cluster(1 if name == "n1" else 3)
    client = mixed(cluster)
    reader = cluster.client(name)
    wants(reader, wanted, match_unfiltered=unfiltered)
    assert reader.deliveries() == expected
    put(client, "us", "9")
    put(client, "eu", "10")
    later = [(text, f"{number}") for text, number in (("2", 9), ("1", 10)) if text in expected]
    assert reader.deliveries() == [number for _, number in later]


def test_without_a_filter_everything_comes(cluster: Cluster) -> None:
    client = mixed(cluster)
    client.ask(BasicQos(prefetch_count=100), BasicQosOk)
    table: FieldTable = {"x-stream-offset": "first", "x-stream-match-unfiltered": True}
    client.ask(BasicConsume("s", "r", arguments=table), BasicConsumeOk)
    assert client.deliveries() == numbers(9)


def test_offsets_and_credit_are_those_of_all_readers(cluster: Cluster) -> None:
    client = mixed(cluster)
    wants(client, "us", 3, prefetch=1)
    assert offsets(client) == [5]
    client.send(BasicAck(1))
    assert offsets(client) == [8]


@pytest.mark.parametrize("name", ["n1", "n2"])
def test_readers_with_different_filters_at_one_place_do_not_mix(name: str) -> None:
    cluster = Cluster(3)
    client = mixed(cluster)
    reader = cluster.client(name)
    for wanted in ("eu", "us"):
        wants(reader, wanted, "next", tag=wanted)
    wants(reader, "eu", "next", match_unfiltered=True, tag="more")
    for value in (None, "eu", "us"):
        put(client, value, f"{value}")
    cluster.pass_ms(100)
    assert sorted(reader.deliveries()) == ["None", "eu", "eu", "us"]


def test_those_with_the_same_filter_share_what_is_read() -> None:
    cluster = Cluster(3)
    client = mixed(cluster)
    readers = [cluster.client("n3") for _ in range(5)]
    for number, reader in enumerate(readers):
        # The order in which they say it does not matter.
        wants(reader, ["us", "eu"] if number % 2 else ["eu", "us"], "next")
    questions(cluster)
    put(client, "eu", "9")
    assert [reader.deliveries() for reader in readers] == [["9"]] * 5
    assert len(questions(cluster)) == 1


@pytest.mark.parametrize("name", ["n1", "n2"])
def test_what_nobody_wants_does_not_travel_and_holds_nobody_up(name: str) -> None:
    cluster = Cluster(3, work_per_turn=200)
    client = declared(cluster)
    for _ in range(20):
        put(client, "us", *[PLAIN] * 1_000)
        cluster.pass_ms(200)
    put(client, "eu", "there")
    cluster.pass_ms(200)
    cluster.overheard = []
    reader, other = cluster.client(name), cluster.client(name)
    before = cluster.now_ms
    turns = cluster.node("n1").state.work.turn
    wants(reader, "eu", prefetch=1)
    # Who came meanwhile does not wait for the walk to end.
    wants(other, "us", prefetch=2)
    assert other.deliveries() == [PLAIN] * 2
    cluster.settle()
    assert reader.deliveries() == ["there"]
    assert cluster.now_ms == before
    assert cluster.node("n1").state.work.turn - turns > 8
    parts = [each for _, _, each in cluster.overheard if isinstance(each, StreamPart)]
    assert sum(len(part.messages) for part in parts if part.request) <= (name == "n2") * 3


def test_a_walk_of_another_node_is_not_begun_anew(cluster: Cluster) -> None:
    """It hears how far it went, and asks from there on."""
    cluster = Cluster(3)
    client = declared(cluster)
    for _ in range(18):
        put(client, "us", *["x"] * 1_000)
    cluster.overheard = []
    reader = cluster.client("n2")
    wants(reader, "eu")
    cluster.settle()
    first, second = [each.value for each in questions(cluster) if each.kind == READ_FROM]
    assert second - max(first, 1 << 40) > 16_000
    cluster.kill("n1")
    cluster.wait_for(lambda: cluster.primary_of("s") != "n1")
    put(reader, "eu", "new")
    cluster.pass_ms(500)
    assert reader.deliveries() == ["new"]
    asked = [each.value for each in questions(cluster) if each.values]
    assert all(value >= second for value in asked)


@pytest.mark.parametrize("goes", ["cancel", "hang up"])
def test_a_question_of_a_reader_that_left_is_taken_back(goes: str) -> None:
    cluster = Cluster(3)
    client = mixed(cluster)
    staying = cluster.client("n3")
    wants(staying, "us", "next", tag="stays")
    for number in range(20):
        reader = cluster.client("n3")
        wants(reader, f"nobody {number}", "next")
        if goes == "cancel":
            reader.ask(BasicCancel("r"), BasicCancelOk)
        else:
            reader.hang_up()
    cluster.pass_ms(500)
    [primary] = cluster.node("n1").state.primaries.values()
    [readers] = cluster.node("n1").state.streams[primary.queue].values()
    reads = readers.reads
    assert [read.wanted and read.wanted.values for read in reads.values()] == [(b"us",)]
    put(client, "us", "9")
    assert staying.deliveries() == ["9"]
    staying.hang_up()
    cluster.pass_ms(500)
    assert not any(cluster.node(name).state.streams for name in cluster.hosts)


def test_what_a_node_asked_goes_with_its_process() -> None:
    cluster = Cluster(3)
    client = mixed(cluster)
    wants(cluster.client("n3"), "nobody", "next")
    cluster.kill("n3")
    cluster.pass_ms(3_000)
    put(client, "eu", "9")
    assert not cluster.node("n1").state.streams


@pytest.mark.parametrize("name", ["n1", "n3"])
def test_a_filter_reads_what_is_on_disk_alone(name: str) -> None:
    cluster = Cluster(3, **LARGER)
    client = declared(cluster)
    for number in range(300):
        put(client, "eu" if number % 50 == 7 else "us", f"{number:06} {PLAIN}")
        if number % 20 == 0:
            cluster.pass_ms(600)
    cluster.pass_ms(2_000)
    [primary] = cluster.node("n1").state.primaries.values()
    assert primary.fragment.fresh.stowed_count > 100
    reader = cluster.client(name)
    wants(reader, "eu")
    cluster.pass_ms(2_000)
    found = [int(body[:6]) for body in reader.deliveries()]
    assert found == [7, 57, 107, 157, 207, 257]


def test_readers_go_on_after_a_failover() -> None:
    cluster = Cluster(3)
    mixed(cluster)
    reader = cluster.client("n3")
    wants(reader, "eu", prefetch=2)
    assert reader.deliveries() == ["1", "4"]
    cluster.kill("n1")
    cluster.wait_for(lambda: cluster.primary_of("s") != "n1")
    reader.send(BasicAck(0, True))
    cluster.pass_ms(200)
    put(reader, "us", "us")
    put(reader, "eu", "eu")
    cluster.pass_ms(200)
    assert reader.deliveries() == ["7", "eu"]


BAD: Any = [
    ("x-stream-filter", 5, "{unacceptable_type,signedint}"),
    ("x-stream-filter", None, "{unacceptable_type,void}"),
    ("x-stream-filter", True, "{unacceptable_type,bool}"),
    ("x-stream-filter", {"a": "eu"}, "{unacceptable_type,table}"),
    ("x-stream-filter", ["eu", 5], "{unacceptable_type,signedint}"),
    ("x-stream-filter", [["eu"]], "{unacceptable_type,array}"),
    ("x-stream-filter", [], "it names no value"),
    ("x-stream-filter", "x" * 256, "a value of 256 bytes: at most 255"),
    ("x-stream-filter", "x" * 100_000, "a value of 100000 bytes: at most 255"),
    ("x-stream-filter", [""] * 20_000, "20000 values: at most 64"),
    ("x-stream-filter", ["x" * 200] * 64, "values of 12800 bytes together: at most 4096"),
    ("x-stream-match-unfiltered", "yes", "{unacceptable_type,longstr}"),
    ("x-stream-match-unfiltered", 1, "{unacceptable_type,signedint}"),
]


@pytest.mark.parametrize(("argument", "value", "text"), BAD)
def test_a_filter_that_makes_no_sense_ends_the_channel(
    cluster: Cluster, argument: str, value: TableValue, text: str
) -> None:
    client = mixed(cluster)
    client.ask(BasicQos(prefetch_count=1), BasicQosOk)
    table: FieldTable = {"x-stream-offset": "first", argument: value}
    closed = client.ask(BasicConsume("s", "r", arguments=table), ChannelClose)
    assert closed.reply_code == 406
    words = f"invalid arg '{argument}' for queue 's' in vhost '/': {text}"
    assert words in closed.reply_text
    assert not cluster.node("n1").state.streams


def test_a_filter_is_refused_before_all_nodes_know_it(cluster: Cluster) -> None:
    client = mixed(cluster)
    cluster.node("n1").state.map.cluster_version = STREAMS
    client.ask(BasicQos(prefetch_count=1), BasicQosOk)
    table: FieldTable = {"x-stream-filter": "eu"}
    closed = client.ask(BasicConsume("s", "r", arguments=table), ChannelClose)
    assert (closed.reply_code, "every node of the cluster runs" in closed.reply_text) == (406, True)


@only_uncompiled
def test_different_filters_are_few(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_readers, "STREAM_FILTERS_MAX", 3)
    mixed(cluster)
    client = cluster.client()
    for number in range(3):
        for _ in range(2):
            wants(client, f"{number}", tag="")
    client.ask(BasicQos(prefetch_count=5), BasicQosOk)
    table: FieldTable = {"x-stream-filter": "one more"}
    closed = client.ask(BasicConsume("s", "r", arguments=table), ChannelClose)
    assert closed.reply_code == 406
    assert "use one of those, or another node" in closed.reply_text
    # Its other readers went with the channel.
    again = cluster.client()
    wants(again, "one more")


@only_uncompiled
def test_a_chunk_holds_no_more_than_is_read_at_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much of what was walked is wanted."""
    monkeypatch.setattr(serving, "_READ_BYTES", 1_000)
    client = declared(cluster)
    put(client, "eu", *["x" * 400] * 20)
    [primary] = cluster.node("n1").state.primaries.values()
    part = cluster.node("n1").streams.serving
    found = part.read(primary, 0, 100, StreamFilter((b"eu",)))
    assert len(found.positions) == 3
    assert found.next == found.positions[-1] + 1
