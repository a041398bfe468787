"""`fedq pipeline replay`: rows of an archive, in order, each with its number, over failures."""

from pathlib import Path
from typing import Any

import pytest

from fedq.pipeline.failure import PipelineError
from fedq.pipeline.jobs.replay.publisher import Message, Publisher
from tests.integration.harness import Cluster
from tests.integration.stock import BlockingChannel, connect
from tests.pipeline.spark.conftest import Driver
from tests.pipeline.spark.test_streaming import declare, spread

STREAM = {"x-queue-type": "stream"}


@pytest.fixture
def amqp(cluster: Cluster) -> str:
    return ",".join(node.amqp.url + "%2F" for node in cluster.nodes.values())


def numbers_of(rows: list[dict[str, Any]]) -> list[int]:
    """The sequence numbers, in the order of the queue."""
    return [int(row["headers"]["x-fedq-sequence"]) for row in rows]


def test_a_range_comes_back_in_order_and_goes_on_where_it_was(
    spark: Driver, channel: BlockingChannel, url: str, amqp: str, tmp_path: Path
) -> None:
    declare(channel, "kept")
    spread(channel, "kept", range(120))
    archive = tmp_path / "archive"
    spark.run("archive", options={"url": url, "stream": "kept"}, place=str(archive))
    channel.exchange_declare("again", "topic")
    channel.queue_declare("again", durable=True, arguments=STREAM)
    channel.queue_bind("again", "again", "kept.x")
    plan = {"archive": str(archive), "stream": "kept", "exchange": "again", "url": amqp}
    first = spark.run("replay", **plan, place=str(tmp_path / "replay"), stop_after=30)
    assert (first["finished"], first["confirmed"]) == (False, first["published"])
    assert 30 <= first["published"] < 120
    # What comes to the archive from now on is not of this replay.
    spread(channel, "kept", range(120, 140))
    spark.run("archive", options={"url": url, "stream": "kept"}, place=str(archive))
    second = spark.run("replay", **plan, place=str(tmp_path / "replay"))
    assert second["finished"]
    assert second["published"] + first["published"] == second["confirmed"] == 120
    # Half of them have a key that nobody wants.
    assert (second["unroutable"], second["unroutable_keys"]) == (60, ["kept.y"])
    rows = spark.run("rows", options={"url": url, "stream": "again"})
    assert [int(row["text"]) for row in rows] == list(range(0, 120, 2))
    assert {row["headers"]["x-fedq-publisher"] for row in rows} == {first["publisher"]}
    assert numbers_of(rows) == sorted(set(numbers_of(rows)))
    assert spark.run("replay", **plan, place=str(tmp_path / "replay"))["published"] == 0
    # By key and by time.
    keyed = spark.run("replay", **plan, place=str(tmp_path / "keyed"), keys="*.x")
    assert (keyed["published"], keyed["unroutable"]) == (70, 0)
    error = spark.error("replay", **plan, place=str(tmp_path / "never"), end="2001-01-01")
    assert "the range has no rows" in error


def test_what_is_unconfirmed_is_published_again_when_a_connection_ends(
    cluster: Cluster, amqp: str, spark: Driver, url: str
) -> None:
    connection = connect(cluster.living().amqp)
    connection.channel().queue_declare("cut", durable=True, arguments=STREAM)
    connection.close()
    with Publisher(amqp.split(","), "cut", 1, retry_s=20.0) as publisher:
        for number in range(1, 3_001):
            publisher.publish(Message("", "cut", {"delivery_mode": 2}, {}, b"%d" % number))
            if number == 1_000:
                cluster.ask("connection", "close", "--user", "guest")
        publisher.finish()
        assert publisher.confirmed == 3_000
    rows = spark.run("rows", options={"url": url, "stream": "cut"})
    # In order but for what was published again, and complete.
    assert list(dict.fromkeys(numbers_of(rows))) == list(range(1, 3_001))


def test_what_no_attempt_will_mend_ends_a_replay_with_a_sentence(amqp: str) -> None:
    with Publisher(amqp.split(","), "odd", 1, retry_s=20.0) as publisher:
        publisher.publish(Message("no-such-exchange", "k", {}, {}, b""))
        with pytest.raises(PipelineError, match="no exchange 'no-such-exchange'"):
            publisher.finish()
    wrong = amqp.split(",")[0].replace("guest:guest", "guest:bad")
    with pytest.raises(PipelineError), Publisher([wrong], "odd", 1, retry_s=20.0):
        raise AssertionError("it was let in")
