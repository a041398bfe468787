"""`fedq pipeline replay`: rows of an archive, in order, each with its number, over failures."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedq.pipeline.failure import PipelineError
from fedq.pipeline.jobs.kit.snapshot import Snapshot, TableFile, commit, sweep
from fedq.pipeline.jobs.replay.publisher import Message, Publisher
from fedq.pipeline.jobs.replay.selection import Place, Selection
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


def test_files_that_an_archive_replaces_meanwhile_end_no_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, a replay beside a following archive ended after an hour, and was begun again."""
    from fedq.pipeline.jobs.replay import replay

    hours = [f"day=2026-11-26/hour={hour:02}" for hour in (9, 10, 11)]
    table = tmp_path / "stream=s"
    snapshot = Snapshot(1, tuple(TableFile(f"{hour}/{n}", 2, 9) for hour in hours for n in (0, 1)))

    def write(now: Snapshot) -> None:
        for each in now.files:
            (table / each.path).parent.mkdir(parents=True, exist_ok=True)
            (table / each.path).touch()
        commit(table, now)

    def compact() -> None:
        """All small files become one an hour; what was replaced is deleted at once."""
        nonlocal snapshot
        files = tuple(TableFile(f"{hour}/large-{snapshot.number}", 4, 18) for hour in hours)
        snapshot = replace(snapshot, number=snapshot.number + 1, files=files)
        write(snapshot)
        sweep(table, snapshot)

    def rows(
        found: Any, files: list[TableFile], selection: Selection, after: Place
    ) -> Iterator[dict[str, int]]:
        for offset in range(4):
            if not all((table / each.path).exists() for each in files):
                raise RuntimeError("FAILED_READ_FILE.FILE_NOT_EXIST")
            if offset >= after.offset + (after != Place()):
                yield {"time_us": 1, "fragment": 1, "offset": offset}

    monkeypatch.setattr(replay, "table_path", lambda archive, stream: table)
    monkeypatch.setattr(replay, "read_files", lambda spark, path, files: None)
    monkeypatch.setattr(replay, "_sorted", rows)
    monkeypatch.setattr(replay, "message_of", lambda row, exchange: row["offset"])
    write(snapshot)
    selection = Selection(str(tmp_path), "s", None, "#", "", "", "t")
    found: list[tuple[str, object]] = []
    # Nobody looks at its session here.
    messages: Any = replay._messages
    places = messages(None, selection, snapshot, Place())
    for place, message in places:
        found.append((place.partition, message))
        if len(found) in (2, 5):
            compact()
    assert found == [(hour, offset) for hour in hours for offset in range(4)]
    # What is gone and replaced by nothing is a loss, and is told.
    places = messages(None, selection, snapshot, Place())
    next(places)
    for each in snapshot.files:
        (table / each.path).unlink()
    with pytest.raises(RuntimeError, match="FILE_NOT_EXIST"):
        next(places)
