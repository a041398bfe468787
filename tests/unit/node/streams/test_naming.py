"""Readers with names: the stream keeps their places, and one of a name is served at a time."""

from typing import Any

import pytest

from fedq.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    QueueDelete,
    QueueDeleteOk,
    encode_method,
)
from fedq.amqp.values import FieldTable, TableValue
from fedq.core.limits import STREAM_NAMES_MAX
from fedq.core.versions import STREAMS
from fedq.node.records.roles import Primary
from fedq.node.views.overview import overview
from tests.unit.node.harness import Client, Cluster
from tests.unit.node.streams.test_filters import put
from tests.unit.node.streams.test_larger_than_memory import primary_of
from tests.unit.node.streams.test_reading import declared, numbers, offsets

EVERYWHERE = pytest.mark.parametrize("size", [1, 3])


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(1)


def reads_as(
    client: Client, name: TableValue = "app", offset: TableValue = "first", prefetch: int = 100,
    tag: str = "r", **more: TableValue,
) -> None:  # fmt: skip
    """The client reads with a name."""
    client.ask(BasicQos(prefetch_count=prefetch), BasicQosOk)
    table: FieldTable = {"x-fedq-consumer-name": name}
    if offset is not None:
        table["x-stream-offset"] = offset
    table |= {"x-" + word.replace("_", "-"): value for word, value in more.items()}
    client.ask(BasicConsume("s", tag, arguments=table), BasicConsumeOk)
    client.cluster.settle()


def filled(cluster: Cluster, count: int = 10) -> Client:
    client = declared(cluster)
    client.publish("s", *numbers(count))
    cluster.pass_ms(200)
    return client


def places(cluster: Cluster) -> dict[str, int]:
    """Where names go on, as offsets."""
    primary = primary_of(cluster)
    log = primary.fragment.log
    assert log is not None
    base = (primary.fragment.reign << 40) + 1
    return {name: position - base for name, position in log.readers}


def other_node(cluster: Cluster) -> str:
    """The last node."""
    return list(cluster.hosts)[-1]


@EVERYWHERE
def test_a_name_goes_on_behind_what_it_acknowledged(size: int) -> None:
    cluster = Cluster(size)
    filled(cluster)
    first = cluster.client(other_node(cluster))
    reads_as(first, prefetch=6)
    assert first.deliveries() == numbers(6)
    # The third is missing: those behind it do not count yet.
    first.send(BasicAck(2, True), BasicAck(4), BasicAck(5))
    cluster.pass_ms(100)
    assert places(cluster) == {"app": 2}
    first.ask(BasicCancel("r"), BasicCancelOk)
    second = cluster.client("n1")
    # Whatever it says of an offset.
    reads_as(second, offset="next")
    assert second.deliveries() == numbers(2, 10)
    second.send(BasicAck(0, True))
    second.hang_up()
    third = cluster.client(other_node(cluster))
    reads_as(third, offset=None)
    third.publish("s", "10")
    cluster.pass_ms(100)
    assert third.deliveries() == ["10"]


def test_acknowledgements_out_of_order_count_when_those_before_have_come(cluster: Cluster) -> None:
    client = filled(cluster)
    reads_as(client, prefetch=10)
    for tag, place in ((3, 0), (2, 0), (1, 3), (10, 3), (4, 4)):
        client.send(BasicAck(tag))
        cluster.pass_ms(100)
        assert places(cluster) == {"app": place}


@EVERYWHERE
def test_a_new_name_begins_where_it_says(size: int) -> None:
    cluster = Cluster(size)
    client = filled(cluster)
    reader = cluster.client(other_node(cluster))
    for name, offset, begin in (("a", 4, 4), ("b", "last", 0), ("c", "next", 10), ("d", None, 10)):
        reads_as(reader, name, offset, tag=name)
        assert reader.deliveries() == numbers(begin, 10)
        assert places(cluster)[name] == begin
    client.publish("s", "10")
    cluster.pass_ms(100)
    assert reader.deliveries() == ["10"] * 4


@EVERYWHERE
def test_of_those_with_a_name_one_is_served_and_the_next_takes_over(size: int) -> None:
    cluster = Cluster(size)
    client = filled(cluster)
    readers = [cluster.client(name) for name in (other_node(cluster), "n1", other_node(cluster))]
    for reader in readers:
        reads_as(reader, prefetch=4)
    assert [reader.deliveries() for reader in readers] == [numbers(4), [], []]
    readers[0].send(BasicAck(2, True))
    assert [reader.deliveries() for reader in readers] == [["4", "5"], [], []]
    readers[0].hang_up()
    cluster.pass_ms(100)
    # What was not acknowledged comes again; of a stream nothing is marked.
    assert [reader.deliveries() for reader in readers[1:]] == [numbers(2, 6), []]
    readers[1].send(BasicAck(4, True))
    readers[1].ask(BasicCancel("r"), BasicCancelOk)
    cluster.pass_ms(100)
    assert readers[2].deliveries() == numbers(6, 10)
    readers[2].send(BasicAck(0, True))
    client.publish("s", "10")
    cluster.pass_ms(100)
    assert readers[2].deliveries() == ["10"]
    assert places(cluster) == {"app": 10}


def test_names_do_not_concern_each_other(cluster: Cluster) -> None:
    client = filled(cluster)
    for name in ("a", "b"):
        reads_as(client, name, tag=name)
        assert client.deliveries() == numbers(10)


@EVERYWHERE
def test_places_survive_all_nodes(size: int) -> None:
    cluster = Cluster(size)
    filled(cluster)
    reader = cluster.client(other_node(cluster))
    reads_as(reader)
    reader.send(BasicAck(7, True))
    cluster.pass_ms(1_000)
    for name in list(cluster.hosts):
        cluster.kill(name)
    for name in cluster.hosts:
        cluster.start(name)
    cluster.pass_ms(8_000)
    again = cluster.client(other_node(cluster))
    reads_as(again, offset="next")
    cluster.pass_ms(100)
    assert again.deliveries() == numbers(7, 10)


def test_a_place_survives_a_checkpoint() -> None:
    small: Any = {"segment_bytes_max": 2_000}
    cluster = Cluster(1, **small)
    client = filled(cluster)
    reads_as(client)
    client.send(BasicAck(7, True))
    cluster.pass_ms(1_000)
    client.ask(BasicCancel("r"), BasicCancelOk)
    for _ in range(60):
        client.publish("s", "x" * 300)
        cluster.pass_ms(200)
    node = cluster.node("n1")
    assert node.state.plan.checkpoint > 1
    cluster.kill("n1")
    cluster.start("n1")
    cluster.pass_ms(1_000)
    again = cluster.client()
    reads_as(again, prefetch=3)
    assert offsets(again) == [7, 8, 9]


def test_a_backup_that_comes_later_knows_the_places() -> None:
    cluster = Cluster(3)
    client = filled(cluster)
    reader = cluster.client("n1")
    reads_as(reader)
    reader.send(BasicAck(5, True))
    cluster.pass_ms(1_000)
    backup = next(
        name for name in cluster.hosts if cluster.node(name).state.backups and name != "n1"
    )
    cluster.kill(backup)
    cluster.pass_ms(10_000)
    reader.send(BasicAck(8, True))
    client.publish("s", "10")
    cluster.pass_ms(1_000)
    replicas = [
        each.replica for name in cluster.hosts if name != backup
        for each in cluster.node(name).state.backups.values()
    ]  # fmt: skip
    [replica] = replicas
    assert list(replica.readers) == ["app"]
    log = primary_of(cluster).fragment.log
    assert log is not None
    assert replica.readers == log.readers.all()


def test_who_is_served_goes_on_without_a_break_when_the_stream_moves() -> None:
    cluster = Cluster(3)
    filled(cluster)
    served, waiting = cluster.client("n3"), cluster.client("n2")
    reads_as(served, prefetch=4)
    reads_as(waiting, prefetch=4)
    assert served.deliveries() == numbers(4)
    served.send(BasicAck(2, True))
    assert served.deliveries() == ["4", "5"]
    cluster.kill("n1")
    cluster.wait_for(lambda: cluster.primary_of("s") != "n1")
    cluster.pass_ms(500)
    # Nothing comes twice, and nobody else gets anything.
    assert (served.deliveries(), waiting.deliveries()) == ([], [])
    served.send(BasicAck(6, True))
    cluster.pass_ms(200)
    assert (served.deliveries(), waiting.deliveries()) == (numbers(6, 10), [])
    served.hang_up()
    cluster.pass_ms(200)
    assert waiting.deliveries() == numbers(6, 10)


def test_the_next_is_served_when_a_node_is_gone() -> None:
    cluster = Cluster(3)
    filled(cluster)
    served, waiting = cluster.client("n3"), cluster.client("n2")
    reads_as(served)
    reads_as(waiting)
    served.send(BasicAck(3, True))
    cluster.pass_ms(200)
    cluster.kill("n3")
    cluster.wait_for(lambda: waiting.deliveries() == numbers(3, 10))


def test_a_node_that_was_cut_off_hears_that_another_one_reads() -> None:
    cluster = Cluster(3)
    client = filled(cluster)
    served, waiting = cluster.client("n3"), cluster.client("n2")
    reads_as(served)
    reads_as(waiting)
    cluster.pass_ms(200)
    served.deliveries()
    cluster.cut("n3")
    cluster.wait_for(lambda: waiting.deliveries() == numbers(10), 20_000)
    cluster.mend("n3")
    cluster.pass_ms(5_000)
    waiting.send(BasicAck(0, True))
    client.publish("s", "10")
    cluster.pass_ms(500)
    assert waiting.deliveries() == ["10"]
    assert served.deliveries() == []
    waiting.send(BasicAck(0, True))
    waiting.hang_up()
    client.publish("s", "11")
    cluster.pass_ms(500)
    assert served.lost or served.deliveries() == ["11"]


@EVERYWHERE
def test_a_name_is_forgotten(size: int) -> None:
    cluster = Cluster(size)
    filled(cluster)
    reader = cluster.client(other_node(cluster))
    reads_as(reader)
    assert reader.deliveries() == numbers(10)
    reader.send(BasicAck(0, True))
    reader.ask(BasicCancel("r"), BasicCancelOk)
    reads_as(reader, offset=4, fedq_consumer_forget=True)
    assert reader.deliveries() == numbers(4, 10)
    reader.ask(BasicCancel("r"), BasicCancelOk)
    cluster.pass_ms(1_000)
    assert places(cluster) == {}
    replicas = [
        each.replica.readers for name in cluster.hosts
        for each in cluster.node(name).state.backups.values()
    ]  # fmt: skip
    assert not any(replicas)
    # What was asked for is there, and answered.
    reader.publish("s", "10")
    assert not any(cluster.node(name).state.streams for name in cluster.hosts)
    reads_as(reader, offset=8)
    assert reader.deliveries() == ["8", "9", "10"]


def test_a_name_goes_with_its_stream(cluster: Cluster) -> None:
    client = filled(cluster)
    reads_as(client)
    client.send(BasicAck(0, True))
    cluster.client().ask(QueueDelete("s"), QueueDeleteOk)
    cluster.pass_ms(200)
    assert client.take(BasicCancel).consumer_tag == "r"
    again = filled(cluster)
    reads_as(again)
    assert again.deliveries() == numbers(10)


def test_who_waits_hears_that_the_stream_is_gone() -> None:
    cluster = Cluster(3)
    client = filled(cluster)
    served, waiting = cluster.client("n3"), cluster.client("n2")
    reads_as(served)
    reads_as(waiting)
    client.ask(QueueDelete("s"), QueueDeleteOk)
    cluster.pass_ms(200)
    for reader in (served, waiting):
        assert reader.take(BasicCancel).consumer_tag == "r"
    assert not any(cluster.node(name).state.streams for name in cluster.hosts)


def test_a_place_that_is_gone_is_the_first_that_is_left(cluster: Cluster) -> None:
    client = declared(cluster, x_max_length_bytes=3_000, x_stream_max_segment_size_bytes=1_000)
    client.publish("s", *[f"{number:03} {'x' * 100}" for number in range(10)])
    reads_as(client)
    client.send(BasicAck(2, True))
    cluster.pass_ms(100)
    client.ask(BasicCancel("r"), BasicCancelOk)
    for number in range(10, 60):
        client.publish("s", f"{number:03} {'x' * 100}")
        cluster.pass_ms(50)
    client.deliveries()
    reads_as(client)
    found = offsets(client)
    assert found[0] > 20
    assert found[-1] >= 59


def test_a_name_may_have_a_filter(cluster: Cluster) -> None:
    client = declared(cluster)
    for number in range(12):
        put(client, "eu" if number % 4 == 1 else "us", str(number))
    reads_as(client, stream_filter="eu")
    assert client.deliveries() == ["1", "5", "9"]
    client.send(BasicAck(2, True))
    cluster.pass_ms(100)
    assert places(cluster) == {"app": 9}
    client.send(BasicAck(0, True))
    cluster.pass_ms(100)
    # What is not wanted is passed, too.
    assert places(cluster) == {"app": 12}


def test_places_are_recorded_at_a_pace(cluster: Cluster) -> None:
    client = declared(cluster)
    client.publish("s", *numbers(2_000))
    reads_as(client, prefetch=100)
    cluster.pass_ms(1_000)
    before = cluster.node("n1").state.plan.bytes_written
    for _ in range(60):
        client.send(*[BasicAck(0, True)] * 3)
        cluster.pass_ms(50)
    written = cluster.node("n1").state.plan.bytes_written - before
    # Three seconds: six records, of some 60 bytes.
    assert 0 < written < 600


def test_an_orderly_stop_keeps_the_places() -> None:
    cluster = Cluster(1)
    client = filled(cluster)
    reads_as(client)
    client.send(BasicAck(6, True))
    host = cluster.hosts[cluster.turning]
    host.inbox.append(lambda node: node.stop())
    cluster.pass_ms(100)
    cluster.kill("n1")
    cluster.start("n1")
    cluster.pass_ms(1_000)
    again = cluster.client()
    reads_as(again)
    assert again.deliveries() == numbers(6, 10)


def test_many_names_are_refused(cluster: Cluster) -> None:
    client = filled(cluster, 1)
    client.ask(BasicQos(prefetch_count=1), BasicQosOk)
    consumes = [
        BasicConsume("s", f"{n}", no_wait=True, arguments={"x-fedq-consumer-name": f"name {n}"})
        for n in range(10_000)
    ]
    client.write(b"".join(encode_method(1, each) for each in consumes))
    cluster.wait_for(lambda: client.has(ChannelClose))
    closed = client.take(ChannelClose)
    assert closed.reply_code == 406
    assert f"the stream keeps {STREAM_NAMES_MAX} other names" in closed.reply_text
    cluster.pass_ms(1_000)
    assert len(places(cluster)) == STREAM_NAMES_MAX
    again = cluster.client()
    reads_as(again, "name 7", fedq_consumer_forget=True)
    again.ask(BasicCancel("r"), BasicCancelOk)
    reads_as(again, "another one")
    [readers] = cluster.node("n1").state.streams[primary_of(cluster).queue].values()
    assert not readers.left


BAD: Any = [
    ({"x-fedq-consumer-name": ""}, "a name of 0 bytes: from 1 to 255"),
    ({"x-fedq-consumer-name": "ü" * 128}, "a name of 256 bytes"),
    ({"x-fedq-consumer-name": 5}, "{unacceptable_type,signedint}"),
    ({"x-fedq-consumer-name": b"\xff"}, "{unacceptable_type,binary}"),
    ({"x-fedq-consumer-name": None}, "{unacceptable_type,void}"),
    ({"x-fedq-consumer-name": "a", "x-fedq-consumer-forget": 1}, "{unacceptable_type,signedint}"),
    ({"x-fedq-consumer-forget": True}, "it has no x-fedq-consumer-name"),
]


@pytest.mark.parametrize(("arguments", "text"), BAD)
def test_a_name_that_is_none_ends_the_channel(
    cluster: Cluster, arguments: FieldTable, text: str
) -> None:
    client = filled(cluster, 1)
    client.ask(BasicQos(prefetch_count=1), BasicQosOk)
    closed = client.ask(BasicConsume("s", "r", arguments=arguments), ChannelClose)
    assert (closed.reply_code, text in closed.reply_text) == (406, True)
    assert not cluster.node("n1").state.streams


def test_names_are_refused_before_all_nodes_know_them(cluster: Cluster) -> None:
    client = filled(cluster, 1)
    cluster.node("n1").state.map.cluster_version = STREAMS
    client.ask(BasicQos(prefetch_count=1), BasicQosOk)
    table: FieldTable = {"x-fedq-consumer-name": "a"}
    closed = client.ask(BasicConsume("s", "r", arguments=table), ChannelClose)
    assert (closed.reply_code, "every node of the cluster runs" in closed.reply_text) == (406, True)


def test_records_of_places_are_no_events(cluster: Cluster) -> None:
    """Offsets have no gaps because of them."""
    client = filled(cluster, 3)
    reads_as(client)
    for number in range(3, 6):
        client.send(BasicAck(0, True))
        cluster.pass_ms(600)
        client.publish("s", str(number))
    assert offsets(client) == list(range(6))
    fragment: Primary = primary_of(cluster)
    fragment.fragment.check()


def test_an_operator_sees_names_with_their_lag() -> None:
    cluster = Cluster(3)
    client = declared(cluster, x_max_length_bytes=3_000, x_stream_max_segment_size_bytes=1_000)
    client.publish("s", *numbers(10))
    reader = cluster.client("n3")
    for name in ("a", "b", "c"):
        reads_as(reader, name, tag=name)
    reader.send(*[BasicAck(tag) for tag in (1, 2, 3, 4, *range(11, 21))])
    cluster.pass_ms(100)
    reader.ask(BasicCancel("b"), BasicCancelOk)
    cluster.pass_ms(100)
    fragment = primary_of(cluster).fragment.fragment_id
    seen = overview(cluster.node("n1")).named_readers(fragment)
    assert [(each.name, each.offset, each.lag, each.node) for each in seen] == [
        ("a", 4, 6, "n3"), ("b", 10, 0, None), ("c", 0, 10, "n3"),
    ]  # fmt: skip
    assert overview(cluster.node("n3")).named_readers(fragment) == ()
    for _ in range(60):
        client.publish("s", "x" * 100)
    # What went by retention nobody is behind of.
    ready = primary_of(cluster).fragment.ready_count
    assert ready < 40
    lags = [each.lag for each in overview(cluster.node("n1")).named_readers(fragment)]
    assert lags == [ready] * 3
