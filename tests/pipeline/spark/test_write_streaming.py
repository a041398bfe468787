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
    fill(channel, "stream-in", range(60))
    trigger = {"availableNow": True}
    name = spark.run("forward", source=source, sink=target, place=str(tmp_path), trigger=trigger)
    assert spark.run("forwarded", name=name) == [40, 20]
    assert sorted(map(int, drained(channel, "stream-out"))) == list(range(60))


class Scene:
    """A stream, a query that publishes what is in it to a queue, and gates before the nodes."""

    def __init__(self, cluster: Cluster, place: Path) -> None:
        self.cluster = cluster
        self._place = place
        self._gates = [Gate(node.amqp) for node in cluster.nodes.values()]
        connection = connect(cluster.nodes["a"].amqp)
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("in", durable=True, arguments=STREAM)
        channel.queue_declare("out", durable=True)
        fill(channel, "in", range(COUNT))
        connection.close()

    def stop(self) -> None:
        for gate in self._gates:
            gate.stop()

    def begin(self, driver: Driver) -> str:
        source = {
            "url": urls(self.cluster), "stream": "in", "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(ROWS),
        }  # fmt: skip
        places = ",".join(f"amqp://guest:guest@{gate.place}" for gate in self._gates)
        name = driver.run(
            "forward", source=source, sink={"url": places, "routingKey": "out"},
            place=str(self._place), trigger={"processingTime": "0 seconds"},
        )  # fmt: skip
        return str(name)

    def committed(self) -> int:
        """How many batches Spark has done with."""
        commits = self._place / "checkpoint" / "commits"
        return len(list(commits.glob("[0-9]*"))) if commits.exists() else 0

    def shut_amid(self, rows: int) -> None:
        """Once so many rows are published, no confirm passes."""
        for gate in self._gates:
            gate.shut_after(rows * ROW_BYTES)

    def await_shut(self, driver: Driver, query: str) -> None:
        """Waits until a gate is shut, or the query has failed."""

        def is_shut() -> bool:
            failure = driver.run("failure", name=query)
            assert not failure, failure
            return any(gate.is_shut.is_set() for gate in self._gates)

        until("rows are there, and not confirmed", is_shut, 90)

    def open(self) -> None:
        for gate in self._gates:
            gate.open()

    def published(self) -> list[int]:
        connection = connect(self.cluster.living().amqp)
        found = sorted(map(int, drained(connection.channel(), "out")))
        connection.close()
        return found


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with Cluster(tmp_path / "nodes") as cluster:
        made = Scene(cluster, tmp_path / "place")
        yield made
        made.stop()


@needs_names
def test_every_row_is_published_once_whoever_is_killed(tmp_path: Path, scene: Scene) -> None:
    """The driver, then the executor's Python, then the node that takes the rows: amid a batch."""
    victim = Driver(tmp_path / "victim")
    try:
        scene.shut_amid(ROWS * 3 // 2)
        scene.await_shut(victim, scene.begin(victim))
    finally:
        victim.kill()
    assert scene.committed() < COUNT // ROWS
    scene.open()
    scene.shut_amid(ROWS // 2)
    survivor = Driver(tmp_path / "survivor")
    try:
        query = scene.begin(survivor)
        scene.await_shut(survivor, query)
        survivor.kill_workers()
        until("its tasks fail", lambda: bool(survivor.run("failure", name=query)), 60)
        scene.open()
        scene.shut_amid(ROWS // 2)
        query = scene.begin(survivor)
        scene.await_shut(survivor, query)
        scene.cluster.kill(scene.cluster.primary_of("out"))
        scene.open()
        until("all is committed", lambda: scene.committed() >= COUNT // ROWS, 150)
        assert not survivor.run("failure", name=query)
    finally:
        survivor.stop()
    assert scene.published() == list(range(COUNT))
