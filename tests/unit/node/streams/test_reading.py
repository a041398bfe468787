"""Readers of streams: each has its place, nothing is taken away, and nothing comes too early."""

from typing import Any

import pytest

from fedq.amqp.content import decode_properties
from fedq.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    encode_method,
)
from fedq.amqp.values import FieldTable, TableValue
from fedq.core.peer_messages import ReadStream
from fedq.node.streams import serving
from tests.unit.amqp.wire import Content
from tests.unit.node.harness import Client, Cluster
from tests.unit.node.uncompiled import only_uncompiled

STREAM: FieldTable = {"x-queue-type": "stream"}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(1)


def declared(cluster: Cluster, **arguments: TableValue) -> Client:
    """A client that has declared the stream "s"."""
    client = cluster.client()
    table = STREAM | {word.replace("_", "-"): value for word, value in arguments.items()}
    client.ask(QueueDeclare("s", durable=True, arguments=table), QueueDeclareOk)
    return client


def reads(
    client: Client, offset: TableValue = "first", prefetch: int = 100, tag: str = "r"
) -> None:
    """The client reads from there on."""
    client.ask(BasicQos(prefetch_count=prefetch), BasicQosOk)
    consume = BasicConsume("s", tag, arguments={"x-stream-offset": offset})
    client.ask(consume, BasicConsumeOk)
    client.cluster.settle()


def offsets(client: Client) -> list[int]:
    """The offsets of what was delivered since the last look."""
    found = [said.properties for said in client.said if isinstance(said, Content)]
    client.said = [said for said in client.said if not isinstance(said, Content)]
    headers: list[Any] = [decode_properties(each)["headers"] for each in found]
    return [each["x-stream-offset"] for each in headers]


def numbers(*span: int) -> list[str]:
    return [str(number) for number in range(*span)]


def test_what_is_read_stays(cluster: Cluster) -> None:
    client = declared(cluster)
    client.publish("s", *numbers(10))
    for tag in ("a", "b"):
        reads(client, tag=tag)
        assert client.deliveries() == numbers(10)
        client.send(BasicAck(0, True))
    client.publish("s", "10")
    assert client.deliveries() == ["10", "10"]


def test_offsets_begin_with_0_and_have_no_gaps(cluster: Cluster) -> None:
    client = declared(cluster)
    client.publish("s", *numbers(3))
    client.publish("s", *numbers(3))
    reads(client)
    assert offsets(client) == list(range(6))


def test_an_acknowledgement_is_credit(cluster: Cluster) -> None:
    client = declared(cluster)
    client.publish("s", *numbers(10))
    reads(client, prefetch=3)
    assert client.deliveries() == numbers(3)
    client.send(BasicAck(2))
    assert client.deliveries() == ["3"]
    client.send(BasicAck(4, True))
    assert client.deliveries() == numbers(4, 7)


def test_only_what_is_committed_is_read(cluster: Cluster) -> None:
    client = declared(cluster)
    reads(client)
    cluster.disk_waits("n1", True)
    client.publish("s", "0")
    assert client.deliveries() == []
    cluster.disk_waits("n1", False)
    client.publish("s", "1")
    assert client.deliveries() == ["0", "1"]


def test_a_stream_survives_its_node_with_its_offsets(cluster: Cluster) -> None:
    client = declared(cluster)
    client.publish("s", *numbers(5), persistent=False)
    cluster.kill("n1")
    cluster.start("n1")
    cluster.pass_ms(1_000)
    client = cluster.client()
    reads(client, 2)
    assert client.deliveries() == numbers(2, 5)
    client.publish("s", "new")
    [offset] = offsets(client)
    assert offset >= 5
    reads(client, offset, tag="there")
    assert client.deliveries() == ["new"]


SMALL: Any = {"stow_bytes_min": 1, "read_ahead_bytes": 1_500, "segment_bytes_max": 20_000}


@pytest.mark.parametrize("size", [1, 3])
def test_what_is_on_disk_alone_when_a_reign_begins_comes_back(size: int) -> None:
    cluster = Cluster(size, **SMALL)
    client = declared(cluster)
    texts = [f"{number:06} {'x' * 100}" for number in range(200)]
    for start in range(0, 200, 20):
        client.publish("s", *texts[start : start + 20])
        cluster.pass_ms(600)
    cluster.kill("n1")
    if size == 1:
        cluster.start("n1")
    else:
        cluster.wait_for(lambda: cluster.primary_of("s") != "n1")
    cluster.pass_ms(2_000)
    reader = cluster.client(cluster.primary_of("s"))
    reads(reader, prefetch=500)
    cluster.pass_ms(2_000)
    assert reader.deliveries() == texts
    late = cluster.client(cluster.primary_of("s"))
    reads(late, 150, prefetch=500)
    cluster.pass_ms(500)
    assert late.deliveries() == texts[150:]


def test_a_cancelled_reader_gets_nothing_more(cluster: Cluster) -> None:
    client = declared(cluster)
    reads(client)
    client.ask(BasicCancel("r"), BasicCancelOk)
    client.publish("s", "0")
    assert client.deliveries() == []
    assert not cluster.node("n1").state.streams


def test_readers_are_told_that_their_stream_is_gone(cluster: Cluster) -> None:
    client = declared(cluster)
    client.publish("s", "0")
    reads(client)
    other = cluster.client()
    other.ask(QueueDelete("s"), QueueDeleteOk)
    assert client.take(BasicCancel).consumer_tag == "r"
    client.send(BasicNack(1))
    assert not client.lost
    assert not cluster.node("n1").state.streams


def test_what_else_was_acknowledged_with_what_cannot_return_is_gone(cluster: Cluster) -> None:
    """The connection ends; but what it had done before is done."""
    client = declared(cluster)
    client.ask(QueueDeclare("q", durable=True), QueueDeclareOk)
    client.publish("s", "0")
    client.publish("q", "1", "2")
    reads(client)
    client.ask(BasicConsume("q", "c"), BasicConsumeOk)
    client.send(BasicAck(2), BasicNack(1))
    code, text = client.close_reason
    assert (code, "not supported by stream queues queue 's'" in text) == (540, True)
    cluster.pass_ms(500)
    again = cluster.client()
    assert again.ask(QueueDeclare("q", passive=True), QueueDeclareOk).message_count == 1


def test_a_prefetch_of_the_channel_counts_what_is_no_stream_s(cluster: Cluster) -> None:
    client = declared(cluster)
    client.ask(QueueDeclare("q", durable=True), QueueDeclareOk)
    client.publish("s", *numbers(5))
    client.publish("q", *numbers(5))
    client.ask(BasicQos(prefetch_count=2, global_=True), BasicQosOk)
    reads(client, prefetch=4)
    assert client.deliveries() == numbers(4)
    client.ask(BasicConsume("q", "c"), BasicConsumeOk)
    assert client.deliveries() == numbers(2)
    client.send(BasicAck(4, True))
    assert client.deliveries() == ["4"]


def test_a_large_prefetch_leaves_room_for_others(cluster: Cluster) -> None:
    client = declared(cluster)
    client.publish("s", *["x" * 1_000] * 5_000)
    reads(client, prefetch=5_000)
    cluster.pass_ms(200)
    assert len(client.deliveries()) == 5_000


@pytest.mark.parametrize("offset", ["first", 4, "last", "next", "1h"])
def test_other_nodes_read_as_the_one_that_serves(offset: TableValue) -> None:
    cluster = Cluster(3)
    client = declared(cluster)
    for number in numbers(6):
        client.publish("s", number)
    assert cluster.primary_of("s") == "n1"
    readers = [client, cluster.client("n2"), cluster.client("n3")]
    for reader in readers:
        reads(reader, offset)
    cluster.client("n2").publish("s", "6", "7")
    cluster.pass_ms(100)
    begins = {"first": 0, "last": 5, "next": 6, "1h": 0}
    expected = numbers(begins.get(str(offset), 4), 8)
    assert [reader.deliveries() for reader in readers] == [expected] * 3
    for reader in readers:
        reader.ask(BasicCancel("r"), BasicCancelOk)
    client.publish("s", "8")
    cluster.pass_ms(100)
    assert [reader.deliveries() for reader in readers] == [[]] * 3
    assert not any(cluster.node(name).state.streams for name in cluster.hosts)


def test_readers_elsewhere_take_no_more_than_their_credit() -> None:
    cluster = Cluster(3)
    client = declared(cluster)
    client.publish("s", *numbers(10))
    reader = cluster.client("n3")
    reads(reader, prefetch=3)
    assert reader.deliveries() == numbers(3)
    reader.send(BasicAck(2))
    assert reader.deliveries() == ["3"]
    reader.send(BasicAck(0, True))
    assert reader.deliveries() == numbers(4, 7)


def test_readers_go_on_when_the_stream_has_another_primary() -> None:
    cluster = Cluster(3)
    client = declared(cluster)
    client.publish("s", *numbers(5), persistent=False)
    readers = [cluster.client("n2"), cluster.client("n3")]
    for reader in readers:
        reads(reader)
        assert reader.deliveries() == numbers(5)
    cluster.kill("n1")
    cluster.wait_for(lambda: cluster.primary_of("s") != "n1")
    readers[0].publish("s", "5")
    cluster.pass_ms(500)
    for reader in readers:
        assert reader.deliveries() == ["5"]
        reads(reader, 3, tag="again")
        cluster.pass_ms(100)
        assert reader.deliveries() == ["3", "4", "5"]


def test_who_waits_to_begin_hears_that_the_stream_is_gone() -> None:
    cluster = Cluster(3)
    client = declared(cluster)
    reader = cluster.client("n3")
    cluster.mute[("n3", "n1")] = None
    reader.send(BasicQos(prefetch_count=5))
    reader.send(BasicConsume("s", "r"))
    assert not reader.has(BasicConsumeOk)
    client.send(QueueDelete("s"))
    cluster.wait_for(lambda: reader.has(ChannelClose))
    assert reader.take(ChannelClose).reply_code == 404


@only_uncompiled
def test_few_reads_wait_for_what_nobody_publishes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "READS_MAX", 8)
    cluster = Cluster(3)
    declared(cluster)
    reader = cluster.client("n2")
    for number in range(30):
        reads(reader, 1 << 61 | number)
        reader.ask(BasicCancel("r"), BasicCancelOk)
    [primary] = cluster.node("n1").state.primaries.values()
    reads(reader, 5)
    [readers] = cluster.node("n1").state.streams[primary.queue].values()
    waiting = readers.reads
    assert len(waiting) == 8
    client = cluster.client()
    client.publish("s", *numbers(6))
    cluster.pass_ms(100)
    assert reader.deliveries() == ["5"]


@only_uncompiled
def test_who_was_forgotten_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "READS_MAX", 8)
    cluster = Cluster(3)
    client = declared(cluster)
    reader, others = cluster.client("n2"), cluster.client("n2")
    reads(reader, 20)
    for number in range(8):
        reads(others, 10 + number, tag=f"r{number}")
    [primary] = cluster.node("n1").state.primaries.values()
    [readers] = cluster.node("n1").state.streams[primary.queue].values()
    waiting = readers.reads
    assert len(waiting) == 8
    assert max(position for _, position, _ in waiting) < primary.fragment.last + 20
    # Now and then, not in each turn.
    cluster.overheard.clear()
    cluster.pass_ms(5_000)
    asked = [said for _, _, said in cluster.overheard if isinstance(said, ReadStream)]
    assert 3 <= len(asked) <= 6
    client.publish("s", *numbers(22))
    cluster.pass_ms(2_000)
    assert reader.deliveries() == ["20", "21"]
    [readers] = cluster.node("n2").state.streams[primary.queue].values()
    assert len(readers.again) <= len(readers.cursors)


@pytest.mark.parametrize("name", ["n1", "n3"])
def test_what_a_turn_has_no_room_for_comes_in_the_next_ones(name: str) -> None:
    cluster = Cluster(3, work_per_turn=20)
    client = declared(cluster)
    client.publish("s", *numbers(500))
    cluster.pass_ms(500)
    readers = [cluster.client(name) for _ in range(5)]
    for reader in readers:
        reads(reader, prefetch=500)
    # Nothing else happens: no tick has to wake them.
    cluster.settle()
    assert [reader.deliveries() for reader in readers] == [numbers(500)] * 5


def test_readers_go_on_when_their_node_may_serve_again() -> None:
    """What a reader acknowledged meanwhile is not forgotten."""
    cluster = Cluster(3)
    client = declared(cluster)
    client.publish("s", *numbers(3))
    reader = cluster.client("n3")
    reads(reader, prefetch=1)
    assert reader.deliveries() == ["0"]
    # All hang for longer than a lease, and hear what was sent before they hear each other.
    cluster.now_ms += 1_000
    reader.write(encode_method(1, BasicAck(1)))
    cluster.turn()
    assert not cluster.node("n3").state.serving
    assert reader.deliveries() == []
    cluster.wait_for(lambda: cluster.node("n3").state.serving)
    cluster.pass_ms(200)
    assert reader.deliveries() == ["1"]


def test_many_at_the_end_do_not_hold_up_who_is_behind() -> None:
    """The last event of the stream is no message: there is nothing to read behind the last one."""
    cluster = Cluster(1, work_per_turn=4)
    client = declared(cluster, x_max_length_bytes=2_000, x_stream_max_segment_size_bytes=500)
    state = cluster.node("n1").state

    def ends_with_message() -> bool:
        [primary] = state.primaries.values()
        ranges = primary.fragment.messages.ranges()
        return not ranges or primary.replication.commit <= ranges[-1][1]

    for number in range(40):
        client.publish("s", str(number % 10) * 100)
    while ends_with_message():
        client.publish("s", "x" * 100)
    others = [cluster.client() for _ in range(20)]
    for other in others:
        reads(other, "last")
    reads(client)
    cluster.settle()
    [primary] = state.primaries.values()
    assert len(client.deliveries()) == primary.fragment.fresh.count


def test_old_segments_go(cluster: Cluster) -> None:
    client = declared(cluster, x_max_length_bytes=10_000, x_stream_max_segment_size_bytes=2_000)
    for number in range(60):
        client.publish("s", str(number) * 500)
    reads(client)
    found = offsets(client)
    assert found[-1] >= 59
    assert 5 <= len(found) <= 20
    [primary] = cluster.node("n1").state.primaries.values()
    assert primary.fragment.bytes_held < 15_000


@pytest.mark.parametrize("offset", ["", "zz", True, None, [1], {"a": 1}, 1.5, b"\xff"])
def test_an_offset_that_means_nothing_ends_the_channel(
    cluster: Cluster, offset: TableValue
) -> None:
    client = declared(cluster)
    client.ask(BasicQos(prefetch_count=1), BasicQosOk)
    consume = BasicConsume("s", "r", arguments={"x-stream-offset": offset})
    closed = client.ask(consume, ChannelClose)
    assert closed.reply_code == 406
    assert "invalid arg 'x-stream-offset'" in closed.reply_text
