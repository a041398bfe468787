"""The pipeline's client on real nodes: every row once, whoever is killed while it reads."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fedq.pipeline.columns import Decoder
from fedq.pipeline.options import Bounds, Edge
from fedq.pipeline.places import TlsPaths, urls_of
from fedq.pipeline.planning import Span, ends, spans, starts
from fedq.pipeline.stream_client import Stream, StreamClient
from tests.integration.harness import Cluster
from tests.integration.stock import PERSISTENT, Address, connect

pytestmark = pytest.mark.slow

STREAM = {"x-queue-type": "stream", "x-fedq-fragments": 3, "x-fedq-replicas": 3}
COUNT = 3_000
#: Routing keys: enough that each fragment has some.
KEYS = 16
#: So that chunks are many.
SIZE = 2_000


def publish(address: Address, numbers: range) -> None:
    """Publishes to all fragments; the confirm of a key's last message comes after the others'."""
    connection = connect(address)
    channel = connection.channel()
    channel.queue_declare("s", durable=True, arguments=STREAM)
    for key in range(KEYS):
        channel.queue_bind("s", "amq.topic", str(key))
    for number in numbers:
        if number == numbers[-KEYS]:
            channel.confirm_delivery()
        body = b"%06d" % number + bytes(SIZE)
        channel.basic_publish("amq.topic", str(number % KEYS), body, PERSISTENT)
    connection.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as running:
        publish(running.nodes["a"].amqp, range(COUNT))
        yield running


def client(cluster: Cluster) -> StreamClient:
    text = ",".join(
        f"fedq://guest:guest@{node.admin.host}:{node.admin.port}" for node in cluster.nodes.values()
    )
    return StreamClient(urls_of(text), TlsPaths(), Stream("/", "s", chunk_bytes=65_536))


def planned(reader: StreamClient, partitions: int) -> list[Span]:
    """All there is, in about so many parts."""
    states = reader.describe()
    begins = starts(states, Bounds(Edge.EARLIEST, {}), fails_on_loss=True)
    return spans(states, begins, ends(states, Bounds(Edge.LATEST, {})), partitions)


def numbers_of(reader: StreamClient, span: Span, rows: dict[tuple[int, int], int]) -> Iterator[int]:
    """The numbers of a span's rows, chunk by chunk; their places are noted, each once."""
    decoder = Decoder()
    for chunk in reader.read(span):
        found = decoder.columns(chunk)
        for offset, body in zip(found.offsets, found.bodies, strict=True):
            assert (span.fragment, offset) not in rows
            rows[span.fragment, offset] = int(body[:6])
        yield len(found.bodies)


def test_a_read_goes_on_when_the_node_that_serves_it_is_killed(cluster: Cluster) -> None:
    rows: dict[tuple[int, int], int] = {}
    with client(cluster) as reader:
        parts = planned(reader, 0)
        assert len(parts) == 3
        reads = [numbers_of(reader, span, rows) for span in parts]
        # Each has begun, and some of each is still to come.
        for span, read in zip(parts, reads, strict=True):
            assert 0 < next(read) < span.end - span.begin
        cluster.kill(parts[0].home)
        for read in reads:
            list(read)
        assert sorted(rows.values()) == list(range(COUNT))
        # The same again from who is left, and what comes behind another reign.
        publish(cluster.living().amqp, range(COUNT, COUNT + 60))
        again: dict[tuple[int, int], int] = {}
        for span in planned(reader, 8):
            list(numbers_of(reader, span, again))
    assert sorted(again.values()) == list(range(COUNT + 60))
    assert {place: number for place, number in again.items() if number < COUNT} == rows
