"""Streaming queries that publish, exactly once: `writeStream.format("fedq")`."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.harness import Cluster
from tests.integration.stock import BlockingChannel, connect
from tests.integration.waiting import until
from tests.pipeline.spark.conftest import Driver, urls
from tests.pipeline.spark.gate import Gate
from tests.pipeline.spark.test_write import drained

STREAM = {"x-queue-type": "stream"}
#: Rows of the query that is killed, and of each of its batches.
COUNT, ROWS = 1_200, 300
#: What a row takes on the wire, about.
ROW_BYTES = 200
#: Without them nodes take a repeat for another message.
needs_names = pytest.mark.skipif(
    importlib.util.find_spec("fedq.amqp.named_publishes") is None,
    reason="these nodes do not know named publishers",
)


def fill(channel: BlockingChannel, stream: str, numbers: range) -> None:
    for number in numbers:
        channel.basic_publish("", stream, b"%06d" % number)


def test_a_query_publishes_what_comes(
    spark: Driver, channel: BlockingChannel, url: str, sink: str, tmp_path: Path
) -> None:
    channel.queue_declare("stream-in", durable=True, arguments=STREAM)
    channel.queue_declare("stream-out", durable=True)
    source = {
        "url": url, "stream": "stream-in", "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "40",
    }  # fmt: skip
    target = {"url": sink, "routingKey": "stream-out"}
    found: list[int] = []
    for numbers, batches in ((range(100), [40, 40, 20]), (range(100, 130), [30])):
        fill(channel, "stream-in", numbers)
        name = spark.run(
            "forward", source=source, sink=target, place=str(tmp_path),
            trigger={"availableNow": True},
        )  # fmt: skip
        assert spark.run("forwarded", name=name) == batches
        found += map(int, drained(channel, "stream-out"))
    assert sorted(found) == list(range(130))


@pytest.fixture
def cluster_of_its_own(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "nodes") as cluster:
        yield cluster


@needs_names
def test_every_row_is_published_once_whoever_is_killed(
    tmp_path: Path, cluster_of_its_own: Cluster
) -> None:
    """The driver with its executors, then the node that takes the rows: each amid a batch.

    The gates say when: when rows of a batch are there, and no confirm has come back.
    """
    cluster = cluster_of_its_own
    place = tmp_path / "place"
    commits = place / "checkpoint" / "commits"

    def committed() -> int:
        return len(list(commits.glob("[0-9]*"))) if commits.exists() else 0

    connection = connect(cluster.nodes["a"].amqp)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("in", durable=True, arguments=STREAM)
    channel.queue_declare("out", durable=True)
    fill(channel, "in", range(COUNT))
    connection.close()
    gates = [Gate(node.amqp) for node in cluster.nodes.values()]
    begin = {
        "source": {
            "url": urls(cluster), "stream": "in", "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(ROWS),
        },
        "sink": {
            "url": ",".join(f"amqp://guest:guest@{gate.place}" for gate in gates),
            "routingKey": "out",
        },
        "place": str(place), "trigger": {"processingTime": "0 seconds"},
    }  # fmt: skip
    try:
        for gate in gates:
            gate.shut_after(ROWS * ROW_BYTES * 3 // 2)
        victim = Driver(tmp_path / "victim")
        victim.run("forward", **begin)
        until("rows are there, not confirmed", lambda: any(g.is_shut.is_set() for g in gates), 90)
        victim.kill()
        before = committed()
        assert before < COUNT // ROWS
        for gate in gates:
            gate.open()
            gate.shut_after(ROWS * ROW_BYTES // 2)
        survivor = Driver(tmp_path / "survivor")
        try:
            query = survivor.run("forward", **begin)
            until("and again", lambda: any(gate.is_shut.is_set() for gate in gates), 90)
            cluster.kill(cluster.primary_of("out"))
            for gate in gates:
                gate.open()
            until("all is committed", lambda: committed() >= COUNT // ROWS, 150)
            assert not survivor.run("failure", name=query)
        finally:
            survivor.stop()
    finally:
        for gate in gates:
            gate.stop()
    connection = connect(cluster.living().amqp)
    assert sorted(map(int, drained(connection.channel(), "out"))) == list(range(COUNT))
    connection.close()
