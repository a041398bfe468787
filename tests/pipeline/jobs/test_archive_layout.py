"""Where an archive's rows are, and what Spark's errors say to people."""

import errno
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fedq.pipeline.failure import OptionError
from fedq.pipeline.jobs.archive.layout import (
    check_range,
    hour_of,
    is_closed,
    is_within,
    stream_of,
    table_path,
    time_of,
)
from fedq.pipeline.jobs.kit.sentences import full_disk, is_full_disk, sentence_of
from fedq.pipeline.jobs.kit.snapshot import Snapshot, TableFile

NINE, TEN = "day=2026-11-26/hour=09", "day=2026-11-26/hour=10"


@pytest.mark.parametrize("name", ["events", "a/b", "..", ".", "100 %", "ä{*}?[x]", "a=b"])
def test_each_stream_has_a_directory_of_its_own(name: str) -> None:
    path = table_path(Path("archive"), name)
    assert path.parent == Path("archive")
    assert not set(path.name) & set("/*?[]{}")
    assert stream_of(path) == name


def test_an_hour_is_closed_when_a_later_one_has_rows() -> None:
    table = Snapshot().with_rows([TableFile(f"{NINE}/a", 1, 1)], {})
    assert not is_closed(NINE, table)
    table = table.with_rows([TableFile(f"{TEN}/b", 1, 1)], {})
    assert is_closed(NINE, table)
    assert not is_closed(TEN, table)


def test_a_range_of_time_needs_the_hours_that_it_touches() -> None:
    assert hour_of(NINE) == datetime(2026, 11, 26, 9, tzinfo=UTC)
    half, eleven = time_of("--from", "2026-11-26T09:30"), time_of("--to", "2026-11-26 11:00")
    assert is_within(NINE, half, eleven)
    assert is_within(NINE, None, half)
    assert not is_within(NINE, time_of("--from", "2026-11-26T10:00"), None)
    assert not is_within(TEN, None, time_of("--to", "2026-11-26T11:00+01:00"))


def test_times_that_mean_nothing_are_refused() -> None:
    with pytest.raises(OptionError, match="--from: 'yesterday' is no time: write 2026-11-26"):
        time_of("--from", "yesterday")
    with pytest.raises(OptionError, match="nothing is in it"):
        check_range(time_of("--from", "2026-11-26"), time_of("--to", "2026-11-25"))


def test_errors_of_spark_become_one_sentence() -> None:
    ours = (
        "[PYTHON_DATA_SOURCE_ERROR] Failed to read: Traceback (most recent call last):\n"
        "  File \"x.py\", line 1\nfedq.pipeline.failure.DataLossError: offsets 1 to 3 are gone\n"
        "JVM stacktrace:\n..."
    )  # fmt: skip
    assert str(sentence_of(ours, "spark.log")) == "offsets 1 to 3 are gone"
    full = "Job aborted\nCaused by: java.io.IOException: No space left on device"
    assert str(sentence_of(full, "spark.log")).startswith("the disk is full: make room")
    other = "\n  java.lang.IllegalStateException: odd\n at x.y"
    text = str(sentence_of(other, "spark.log"))
    assert text == "Spark failed: java.lang.IllegalStateException: odd (spark.log has more)"
    assert is_full_disk(OSError(errno.ENOSPC, "full"))
    assert not is_full_disk(OSError(errno.EACCES, "no"))
    assert "(/x/y)" in str(full_disk("/x/y"))
