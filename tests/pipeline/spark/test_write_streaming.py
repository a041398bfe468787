"""Streaming queries that publish, exactly once: `writeStream.format("fedq")`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.harness import Cluster
from tests.integration.stock import BlockingChannel
from tests.integration.waiting import until
from tests.pipeline.spark.conftest import Driver, killing
from tests.pipeline.spark.scene import COUNT, NOW, ROWS, STREAM, Scene, fill
from tests.pipeline.spark.test_write import drained


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
    name = spark.run("forward", source=source, sink=target, place=str(tmp_path), trigger=NOW)
    assert spark.run("forwarded", name=name) == [40, 20]
    assert sorted(map(int, drained(channel, "stream-out"))) == list(range(60))


@pytest.fixture
def scene(cluster: Cluster, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(cluster, str(request.node.name), tmp_path / "place")
    yield made
    made.stop()


def test_every_row_is_published_once_though_executor_and_node_are_killed(
    spark: Driver, scene: Scene
) -> None:
    """The executor's Python, then the node that takes the rows: each amid a batch."""
    scene.shut_amid(ROWS * 3 // 2)
    query = scene.begin(spark)
    scene.await_shut(spark, query)
    spark.kill_workers()
    until("its tasks fail", lambda: bool(spark.run("failure", name=query)), 60)
    assert scene.committed() < COUNT // ROWS
    scene.open()
    scene.shut_amid(ROWS // 2)
    query = scene.begin(spark)
    scene.await_shut(spark, query)
    with killing(scene.cluster):
        scene.cluster.kill(scene.cluster.primary_of(scene.queue))
        scene.open()
        spark.run("forwarded", name=query)
        assert scene.committed() == COUNT // ROWS
        assert scene.published() == list(range(COUNT))


@pytest.mark.sweep
def test_every_row_is_published_once_though_the_driver_is_killed(
    spark: Driver, scene: Scene, tmp_path: Path
) -> None:
    victim = Driver(tmp_path / "victim")
    try:
        scene.shut_amid(ROWS * 3 // 2)
        scene.await_shut(victim, scene.begin(victim))
    finally:
        victim.kill()
    assert scene.committed() < COUNT // ROWS
    scene.open()
    spark.run("forwarded", name=scene.begin(spark))
    assert scene.published() == list(range(COUNT))
