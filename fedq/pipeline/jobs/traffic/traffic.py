"""What goes where: roll-ups of a stream by minute, kept and added up, and a page of a range.

Inputs: a session, a source, a directory. Outputs: a table of parts (`rollup`), exactly once by
offsets as an archive is; a summary; a page. What comes late is counted in its minute, and as late.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import (
    col,
    floor,
    kll_merge_agg_bigint,
    kll_sketch_get_quantile_bigint,
    lit,
    theta_sketch_agg,
    theta_sketch_estimate,
    theta_union,
    theta_union_agg,
    unix_seconds,
    when,
)
from pyspark.sql.functions import max as max_of
from pyspark.sql.functions import sum as sum_of

from fedq.pipeline.jobs.archive.layout import table_path
from fedq.pipeline.jobs.kit.directory import claim, held
from fedq.pipeline.jobs.kit.following import Pace, follow
from fedq.pipeline.jobs.kit.output import PAGE, RESULT, write_page, write_result
from fedq.pipeline.jobs.kit.progress import Progress, Reached, Watch, go_on
from fedq.pipeline.jobs.kit.source import Source, rows_behind
from fedq.pipeline.jobs.kit.table import Table, read_files
from fedq.pipeline.jobs.traffic.page import JOB, page_of
from fedq.pipeline.jobs.traffic.rollup import KEYS_MAX, PARTITIONS, merged, rolled_up
from fedq.pipeline.jobs.traffic.summary import Key, Sizes, Step, Summary, step_for

_RANKS: Final = (0.5, 0.9, 0.99)
_EXCHANGES_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class TrafficPlan:
    """How traffic is rolled up, and of which range the page is."""

    source: Source
    directory: Path
    every_s: float | None = None
    batch_rows: int = 1_000_000
    begin: datetime | None = None
    end: datetime | None = None
    lateness_s: int = 120
    keys_max: int = KEYS_MAX
    #: Keys that are listed.
    top: int = 20


def prepare(plan: TrafficPlan) -> Path:
    """Sees that the directory is this job's; returns where the table is. Raises PipelineError."""
    claim(plan.directory, JOB, {"vhost": plan.source.vhost})
    return table_path(plan.directory, plan.source.stream)


def traffic(
    spark: SparkSession, plan: TrafficPlan, watch: Watch, reached: Reached = go_on
) -> Summary:
    """Rolls up what is there, or goes on until it is to end; the summary of the range."""
    path = prepare(plan)
    with held(path):
        table = Table(path, PARTITIONS, reached)
        newest = _Newest(table)

        def rows_of(batch: DataFrame) -> DataFrame:
            return rolled_up(batch, plan.keys_max, newest.complete(plan.lateness_s))

        def tell() -> Summary:
            watch.report(Progress("adding up"))
            # The last day grows; parts of it are added up once there are many.
            last = max(table.snapshot.partitions(), default="")
            table.compact(spark, lambda each: each < last, merged)
            table.forget_replaced(0)
            complete = newest.complete(plan.lateness_s)
            found = summary_of(spark, plan, table, complete)
            write_result(path / RESULT, found.as_json())
            write_page(path / PAGE, page_of(found, time.time()))
            return found

        def upkeep() -> None:
            tell()

        pace = Pace(plan.every_s, plan.batch_rows, upkeep, 60.0)
        behind = rows_behind(plan.source, table.snapshot.next, 5.0)
        follow(spark, plan.source, table, rows_of, pace, watch, "rolling up", behind)
        if plan.every_s is None:
            watch.check()
        return tell()


class _Newest:
    """The newest minute of a table, looked up once for each file."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._known: dict[str, datetime] = {}

    def complete(self, lateness_s: int) -> datetime | None:
        """The first minute that is not complete yet: the newest, less what may still come."""
        for each in self._table.snapshot.files:
            if each.path not in self._known:
                path = self._table.path / each.path
                minutes = pq.read_table(path, columns=["minute"], partitioning=None)["minute"]
                self._known[each.path] = pc.max(minutes).as_py()
        newest = max(self._known.values(), default=None)
        if newest is None:
            return None
        at = newest if newest.tzinfo is not None else newest.replace(tzinfo=UTC)
        return at - timedelta(seconds=lateness_s)


def summary_of(
    spark: SparkSession, plan: TrafficPlan, table: Table, complete: datetime | None
) -> Summary:
    """What the table says about the range."""
    files = list(table.snapshot.files)
    rows = merged(read_files(spark, table.path, files)).persist() if files else None
    try:
        if rows is None:
            return Summary(plan.source.stream, 0, 0, 0, 0, 0, 0, 0, 1, (), (), (), (), 0)
        return _summary(plan, _within(rows, plan), complete)
    finally:
        if rows is not None:
            rows.unpersist()


def _within(rows: DataFrame, plan: TrafficPlan) -> DataFrame:
    if plan.begin is not None:
        rows = rows.where(col("minute") >= lit(plan.begin))
    return rows if plan.end is None else rows.where(col("minute") < lit(plan.end))


def _summary(plan: TrafficPlan, rows: DataFrame, complete: datetime | None) -> Summary:
    at = unix_seconds("minute")
    named = when(col("routing_key").isNotNull(), col("routing_key"))
    [total] = rows.agg(
        -max_of(-at), max_of(at), sum_of("messages"), sum_of("bytes"), sum_of("late"),
        theta_sketch_estimate(
            theta_union(theta_sketch_agg(named), theta_union_agg("other_keys"))
        ),
    ).collect()  # fmt: skip
    begin_s, end_s, messages, size, late, keys = (int(each or 0) for each in total)
    minutes = step_for(begin_s, end_s)
    step = (floor(at / (60 * minutes)) * (60 * minutes)).cast("bigint").alias("step")
    steps = rows.groupBy(step, "exchange").agg(sum_of("messages"), sum_of("bytes"))
    exchanges = rows.groupBy("exchange").agg(sum_of("messages").alias("n"), sum_of("bytes"))
    sizes = rows.groupBy(step).agg(
        kll_merge_agg_bigint("sizes").alias("sizes"), max_of("largest").alias("largest")
    )
    quantiles = [kll_sketch_get_quantile_bigint("sizes", lit(rank)) for rank in _RANKS]
    heaviest, unlisted = _heaviest(rows, plan.top)
    ordered = exchanges.orderBy(col("n").desc(), "exchange").limit(_EXCHANGES_MAX)
    return Summary(
        plan.source.stream, begin_s, end_s,
        0 if complete is None else int(complete.timestamp()), messages, size, late, keys, minutes,
        tuple(Step(*row) for row in steps.orderBy("step", "exchange").collect()),
        tuple(
            (int(row[0]), Sizes(*(int(each) for each in row[1:])))
            for row in sizes.select("step", *quantiles, "largest").orderBy("step").collect()
        ),
        tuple((row[0], row[1], row[2]) for row in ordered.collect()),
        heaviest, unlisted,
    )  # fmt: skip


def _heaviest(rows: DataFrame, top: int) -> tuple[tuple[Key, ...], int]:
    """The heaviest keys, and how many messages one that is not among them has at most."""
    by_key = rows.groupBy("exchange", "routing_key").agg(
        sum_of("messages").alias("n"), sum_of("bytes")
    )
    listed = by_key.where(col("routing_key").isNotNull())
    found = listed.orderBy(col("n").desc(), "exchange", "routing_key").limit(top + 1).collect()
    # What was light in some minutes is in none of the counts of those.
    [others] = by_key.where(col("routing_key").isNull()).agg(max_of("n")).collect()
    unlisted = (found[top]["n"] if len(found) > top else 0) + int(others[0] or 0)
    return tuple(Key(*row) for row in found[:top]), unlisted
