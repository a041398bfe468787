"""Queues as streaming tables: each message in one committed batch, whoever fails."""

from pathlib import Path

import pytest

from tests.integration.harness import Cluster
from tests.integration.stock import PERSISTENT, BlockingChannel, connect
from tests.integration.waiting import until
from tests.pipeline.spark.conftest import Driver, urls
from tests.pipeline.spark.test_streaming import NOW, numbers

#: Rows of the query that is killed, and of each of its batches.
COUNT, ROWS = 600, 50


def publish(channel: BlockingChannel, queue: str, span: range) -> None:
    for number in span:
        channel.basic_publish("", queue, b"%06d" % number, PERSISTENT)


def ready(channel: BlockingChannel, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).method.message_count)


@pytest.fixture
def queue(channel: BlockingChannel, request: pytest.FixtureRequest) -> str:
    """A queue of the test's own."""
    name = str(request.node.name)
    channel.queue_declare(name, durable=True)
    return name


@pytest.fixture
def options(url: str, queue: str) -> dict[str, str]:
    return {"url": url, "queue": queue, "readerName": "spark"}


def test_a_query_takes_what_is_there_in_limited_batches_and_it_leaves_the_queue(
    spark: Driver, channel: BlockingChannel, cluster: Cluster, queue: str,
    options: dict[str, str], tmp_path: Path,
) -> None:  # fmt: skip
    publish(channel, queue, range(250))
    limited = options | {"maxMessagesPerTrigger": "100"}
    place = str(tmp_path)
    assert spark.run("follow", options=limited, place=place, trigger=NOW) == [100, 100, 50]
    assert numbers(spark, tmp_path) == list(range(250))
    publish(channel, queue, range(250, 270))
    assert spark.run("follow", options=options, place=place, trigger=NOW) == [20]
    assert numbers(spark, tmp_path) == list(range(270))
    assert spark.run("follow", options=options, place=place, trigger=NOW) == []
    shown = cluster.ask("queue", "show", queue)
    assert (shown["ready"], shown["unacknowledged"]) == (0, 0)


def test_what_cannot_be_read_is_said_in_a_sentence(
    spark: Driver, channel: BlockingChannel, queue: str, options: dict[str, str], tmp_path: Path
) -> None:
    stream = f"{queue}-stream"
    channel.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"})
    assert "a batch read has no commit" in spark.error("rows", options=options)
    for wrong, sentence in (
        ({"queue": "none"}, "no queue 'none' in vhost '/'"),
        ({"queue": stream}, "is a stream: name it as the stream"),
        ({"readerName": ""}, "readerName: name the reader"),
    ):
        said = spark.error(
            "follow", options=options | wrong, place=str(tmp_path / sentence[:5]), trigger=NOW
        )
        assert sentence in said


def test_each_message_comes_once_whoever_is_killed(tmp_path: Path) -> None:
    """The driver with its executors, in the middle of a query, then the node that leads."""
    place, name = tmp_path / "place", "killed"
    place.mkdir()
    commits = place / "checkpoint" / "commits"

    def committed() -> int:
        return len(list(commits.glob("[0-9]*"))) if commits.exists() else 0

    with Cluster(tmp_path / "nodes") as cluster:
        connection = connect(cluster.nodes["a"].amqp)
        channel = connection.channel()
        channel.queue_declare(name, durable=True)
        channel.confirm_delivery()
        publish(channel, name, range(COUNT))
        connection.close()
        begin = {
            "options": {
                "url": urls(cluster), "queue": name, "readerName": "spark",
                "maxMessagesPerTrigger": str(ROWS),
            },
            "place": str(place), "trigger": {"processingTime": "0 seconds"},
        }  # fmt: skip
        victim = Driver(tmp_path / "victim")
        victim.run("begin", **begin)
        until("some batches are committed", lambda: committed() >= 3, 90)
        victim.kill()
        survivor, before = Driver(tmp_path / "survivor"), committed()
        try:
            query = survivor.run("begin", **begin)
            until("it goes on", lambda: committed() > before, 90)
            cluster.kill(cluster.primary_of(name))
            until("all is committed", lambda: committed() >= COUNT // ROWS, 150)
            assert not survivor.run("failure", name=query)
            assert numbers(survivor, place) == list(range(COUNT))
        finally:
            survivor.kill()
