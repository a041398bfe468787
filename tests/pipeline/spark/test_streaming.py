"""Streaming queries: `spark.readStream.format("fedq")`, with Spark's checkpoint."""

from pathlib import Path

import pytest

from tests.integration.harness import Cluster
from tests.integration.stock import BlockingChannel
from tests.integration.waiting import until
from tests.pipeline.spark.conftest import Driver, killing

STREAM = {"x-queue-type": "stream"}
NOW = {"availableNow": True}
#: Rows of the query that is killed, and of each of its batches.
COUNT, ROWS = 400, 40


def publish(channel: BlockingChannel, stream: str, numbers: range) -> None:
    for number in numbers:
        channel.basic_publish("", stream, b"%06d" % number)


def numbers(spark: Driver, place: Path) -> list[int]:
    """What was written so far, in order."""
    return sorted(map(int, spark.run("written", place=str(place))))


@pytest.fixture
def stream(channel: BlockingChannel, request: pytest.FixtureRequest) -> str:
    """A stream of the test's own, in two fragments."""
    name = str(request.node.name)
    declare(channel, name)
    return name


def declare(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, durable=True, arguments=STREAM | {"x-fedq-fragments": 2})
    for key in ("x", "y"):
        channel.queue_bind(name, "amq.topic", f"{name}.{key}")


@pytest.fixture
def options(url: str, stream: str) -> dict[str, str]:
    return {"url": url, "stream": stream, "startingOffsets": "earliest"}


def spread(channel: BlockingChannel, stream: str, span: range) -> None:
    """Publishes to both fragments, as the keys have it."""
    for number in span:
        key = f"{stream}.{'xy'[number % 2]}"
        channel.basic_publish("amq.topic", key, b"%06d" % number)


def test_a_query_goes_on_where_it_was_and_takes_limited_batches(
    spark: Driver, channel: BlockingChannel, stream: str, options: dict[str, str], tmp_path: Path
) -> None:
    spread(channel, stream, range(250))
    limited = options | {"maxOffsetsPerTrigger": "100"}
    place = str(tmp_path)
    batches = spark.run("follow", options=limited, place=place, trigger=NOW)
    assert batches == [100, 100, 50]
    assert numbers(spark, tmp_path) == list(range(250))
    spread(channel, stream, range(250, 270))
    assert spark.run("follow", options=options, place=place, trigger=NOW) == [20]
    assert numbers(spark, tmp_path) == list(range(270))
    # And nothing is new.
    assert spark.run("follow", options=options, place=place, trigger=NOW) == []


@pytest.mark.sweep
def test_a_query_begins_with_what_comes_unless_it_says_more(
    spark: Driver, channel: BlockingChannel, stream: str, url: str, tmp_path: Path
) -> None:
    spread(channel, stream, range(10))
    options = {"url": url, "stream": stream}
    assert spark.run("follow", options=options, place=str(tmp_path), trigger=NOW) == []
    spread(channel, stream, range(10, 30))
    assert spark.run("follow", options=options, place=str(tmp_path), trigger=NOW) == [20]
    assert numbers(spark, tmp_path) == list(range(10, 30))


@pytest.mark.parametrize("fails", [pytest.param(True, marks=pytest.mark.sweep), False])
def test_retention_that_passes_a_query_is_an_error_or_passed_over(
    spark: Driver, channel: BlockingChannel, url: str, tmp_path: Path, fails: bool
) -> None:
    name = f"short-{fails}"
    short = {"x-max-length-bytes": 4_000, "x-stream-max-segment-size-bytes": 1_000}
    channel.queue_declare(name, durable=True, arguments=STREAM | short)
    options = {"url": url, "stream": name, "startingOffsets": "earliest"}
    place = str(tmp_path)
    publish(channel, name, range(20))
    assert spark.run("follow", options=options, place=place, trigger=NOW) == [20]
    publish(channel, name, range(20, 300))
    options["failOnDataLoss"] = str(fails).lower()
    if fails:
        error = spark.error("follow", options=options, place=place, trigger=NOW)
        assert "of fragment 0 are gone: retention has passed them" in error
        assert numbers(spark, tmp_path) == list(range(20))
        return
    spark.run("follow", options=options, place=place, trigger=NOW)
    found = numbers(spark, tmp_path)
    first = found[20]
    assert first > 20
    assert found == [*range(20), *range(first, 300)]


@pytest.mark.sweep
def test_every_row_comes_once_whoever_is_killed(
    spark: Driver, cluster: Cluster, channel: BlockingChannel, stream: str,
    options: dict[str, str], tmp_path: Path,
) -> None:  # fmt: skip
    """The driver with its executors, in the middle of a query, then the node that leads a part."""
    place = tmp_path / "place"
    commits = place / "checkpoint" / "commits"

    def committed() -> int:
        return len(list(commits.glob("[0-9]*"))) if commits.exists() else 0

    spread(channel, stream, range(COUNT))
    begin = {
        "options": options | {"maxOffsetsPerTrigger": str(ROWS)}, "place": str(place),
        "trigger": NOW,
    }  # fmt: skip
    victim = Driver(tmp_path / "victim")
    victim.run("begin", **begin)
    until("some batches are committed", lambda: committed() >= 2, 90)
    victim.kill()
    before = committed()
    assert before < COUNT // ROWS
    query = spark.run("begin", **begin)
    until("it goes on", lambda: committed() > before, 90)
    with killing(cluster):
        # What is left is read from whoever leads by then.
        cluster.kill(cluster.primary_of(stream))
        spark.run("forwarded", name=query)
    assert numbers(spark, place) == list(range(COUNT))
