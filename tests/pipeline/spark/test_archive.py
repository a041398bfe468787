"""`fedq pipeline archive`: every row once, whatever ends it, and whoever reads meanwhile."""

from collections import Counter
from pathlib import Path

import pytest

from fedq.pipeline.jobs.archive.layout import table_path
from fedq.pipeline.jobs.kit.snapshot import Snapshot, load
from tests.integration.full_disk import fill, small_disk
from tests.integration.stock import BlockingChannel
from tests.pipeline.spark.conftest import Driver
from tests.pipeline.spark.test_streaming import declare, spread

BATCH, COMPACTION = "the commit of a batch", "the commit of a compaction"


def rows_of(table: Path, snapshot: Snapshot) -> Counter[int]:
    """The numbers that a snapshot's files have."""
    from pyarrow import parquet

    found: Counter[int] = Counter()
    for each in snapshot.files:
        bodies = parquet.read_table(table / each.path, columns=["body"], partitioning=None)["body"]
        found.update(int(body) for body in bodies.to_pylist())
        assert len(bodies) == each.rows
    return found


def archived(place: Path, stream: str) -> Counter[int]:
    table = table_path(place, stream)
    return rows_of(table, load(table))


def once(count: int) -> Counter[int]:
    return Counter(range(count))


@pytest.fixture
def stream(channel: BlockingChannel, request: pytest.FixtureRequest) -> str:
    # A name that a directory cannot have, and that Spark would take for a pattern.
    name = f"{request.node.name[:40]}/*"
    declare(channel, name)
    return name


@pytest.fixture
def options(url: str, stream: str) -> dict[str, str]:
    return {"url": url, "stream": stream}


def test_an_archive_has_every_row_once_however_often_it_ends(
    spark: Driver, channel: BlockingChannel, stream: str, options: dict[str, str], tmp_path: Path
) -> None:
    place = tmp_path / "archive"
    plan = {"options": options, "place": str(place)}
    spread(channel, stream, range(150))
    for step in ("before files are moved into place", f"before {BATCH}", f"after {BATCH}"):
        error = spark.error("archive", **plan, batch_rows=100, end_at=step)
        assert f"ended {step}" in error
    # The last one ended after a commit.
    assert archived(place, stream).total() == 100
    assert spark.run("archive", **plan)["rows"] == 50
    spread(channel, stream, range(150, 200))
    done = spark.run("archive", **plan)
    assert (done["rows"], done["table_rows"]) == (50, 200)
    assert archived(place, stream) == once(200)
    # Without Spark's checkpoint, what is there is known all the same.
    checkpoint = table_path(place, stream) / "checkpoint"
    checkpoint.rename(tmp_path / "gone")
    spread(channel, stream, range(200, 220))
    assert spark.run("archive", **plan)["rows"] == 20
    assert archived(place, stream) == once(220)


@pytest.mark.sweep
def test_a_reader_never_sees_half_a_compaction(
    spark: Driver, channel: BlockingChannel, stream: str, options: dict[str, str], tmp_path: Path
) -> None:
    place = tmp_path / "archive"
    plan = {"options": options, "place": str(place)}
    for end in (40, 80):
        spread(channel, stream, range(end - 40, end))
        spark.run("archive", **plan)
    table = table_path(place, stream)
    before = load(table)
    assert len(before.files) == 4
    compact = {"place": str(place), "stream": stream}
    spark.error("compact", **compact, end_at=f"before {COMPACTION}")
    # What is there beside the table's files is not the table's.
    assert archived(place, stream) == once(80)
    assert spark.run("compact", **compact) == 4
    assert archived(place, stream) == once(80)
    assert len(load(table).files) == 1
    # Who took the snapshot before still reads what it named.
    assert rows_of(table, before) == once(80)
    spread(channel, stream, range(80, 90))
    spark.run("archive", **plan)
    assert archived(place, stream) == once(90)


@pytest.mark.sweep
def test_a_full_disk_is_said_and_nothing_is_lost_by_it(
    spark: Driver, channel: BlockingChannel, stream: str, options: dict[str, str], tmp_path: Path
) -> None:
    with small_disk(tmp_path / "small", "4m") as disk:
        plan = {"options": options, "place": str(disk / "archive")}
        spread(channel, stream, range(30))
        spark.run("archive", **plan)
        filler = fill(disk)
        spread(channel, stream, range(30, 60))
        assert "No space left on device" in spark.error("archive", **plan)
        assert archived(disk / "archive", stream) == once(30)
        filler.unlink()
        spark.run("archive", **plan)
        assert archived(disk / "archive", stream) == once(60)


@pytest.mark.sweep
def test_a_killed_driver_is_gone_on_with(
    spark: Driver, channel: BlockingChannel, stream: str, options: dict[str, str], tmp_path: Path
) -> None:
    place = tmp_path / "archive"
    plan = {"options": options, "place": str(place)}
    spread(channel, stream, range(300))
    victim = Driver(tmp_path / "victim")
    with pytest.raises(AssertionError, match="the driver has ended"):
        victim.run("archive", **plan, batch_rows=100, end_at=f"before {BATCH}", how="kill")
    victim.kill()
    assert archived(place, stream) == Counter()
    assert spark.run("archive", **plan)["rows"] == 300
    assert archived(place, stream) == once(300)
