"""The archive of a stream: every row once, by day and hour, in files of a good size.

Inputs: a session, a source, a directory. Output: a table (`fedq.pipeline.jobs.kit.table`) and what
was done. A run that ends, however it does, is gone on with by the next one.
"""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import date_format

from fedq.pipeline.jobs.archive.layout import JOB, PARTITIONS, is_closed, table_path
from fedq.pipeline.jobs.archive.page import page_of
from fedq.pipeline.jobs.kit.directory import claim, held
from fedq.pipeline.jobs.kit.following import Pace, follow
from fedq.pipeline.jobs.kit.output import PAGE, write_page
from fedq.pipeline.jobs.kit.progress import Progress, Reached, Watch, go_on
from fedq.pipeline.jobs.kit.source import Source, rows_behind
from fedq.pipeline.jobs.kit.table import FILE_BYTES, Table

_BATCH_ROWS: Final = 1_000_000
_BEHIND_RETRY_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class ArchivePlan:
    """How a stream is archived."""

    source: Source
    directory: Path
    #: None: what is there now; else a batch each so many seconds, for ever.
    every_s: float | None = None
    batch_rows: int = _BATCH_ROWS
    #: How long files that a compaction has replaced are kept for readers, in seconds.
    kept_s: int = 3_600
    file_bytes: int = FILE_BYTES


@dataclass(frozen=True, slots=True)
class Archived:
    """What an archive has, and what this run did."""

    stream: str
    #: Rows that this run added, and small files that it put together.
    rows: int
    compacted_files: int
    table_rows: int
    table_files: int
    table_bytes: int
    page: str
    #: Whether it was asked to end before it was done.
    interrupted: bool

    def as_json(self) -> dict[str, Any]:
        """The form for scripts."""
        return asdict(self)


def prepare(plan: ArchivePlan) -> Path:
    """Sees that the directory is this job's; returns where the table is. Raises PipelineError."""
    claim(plan.directory, JOB, {"vhost": plan.source.vhost})
    return table_path(plan.directory, plan.source.stream)


def archive(
    spark: SparkSession, plan: ArchivePlan, watch: Watch, reached: Reached = go_on
) -> Archived:
    """Archives what is there, or goes on until it is to end."""
    path = prepare(plan)
    with held(path):
        table = Table(path, PARTITIONS, reached, plan.file_bytes)
        behind = rows_behind(plan.source, table.snapshot.next, _BEHIND_RETRY_S)
        compacted = 0

        def show() -> None:
            write_page(path / PAGE, page_of(plan.source.stream, table.snapshot, time.time()))

        def tidy() -> None:
            nonlocal compacted
            watch.report(Progress("compacting"))
            compacted += table.compact(spark, lambda each: is_closed(each, table.snapshot))
            table.forget_replaced(plan.kept_s)
            show()

        pace = Pace(plan.every_s, plan.batch_rows, tidy)
        rows = follow(spark, plan.source, table, rows_of, pace, watch, "archiving", behind)
        if watch.stop.is_set():
            show()
        else:
            tidy()
        now = table.snapshot
        return Archived(
            plan.source.stream, rows, compacted, now.rows, len(now.files), now.size,
            str(path / PAGE), watch.stop.is_set(),
        )  # fmt: skip


def rows_of(batch: DataFrame) -> DataFrame:
    """The rows of a batch with the hour that each is filed under."""
    return batch.withColumn("day", date_format("timestamp", "yyyy-MM-dd")).withColumn(
        "hour", date_format("timestamp", "HH")
    )
