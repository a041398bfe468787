"""The audit: whether P1 to P4 were kept, by a table of events; and the job around it.

`judge` is a function of events (`fedq.pipeline.jobs.kit.events`), and knows nothing of traces.
`audit` reads a trace's stream, judges, and leaves findings, a verdict and a page.
"""

import os
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, count, count_distinct, expr, floor, lit, when
from pyspark.sql.functions import max as max_of
from pyspark.sql.functions import min as min_of
from pyspark.sql.functions import sum as sum_of

from fedq.pipeline.jobs.audit.page import JOB, page_of
from fedq.pipeline.jobs.audit.ranges import with_process
from fedq.pipeline.jobs.audit.rules import (
    UNDECIDED,
    Tolerance,
    acknowledged_and_back,
    confirmed_and_lost,
    delivered_out_of_order,
    delivered_twice,
    deliveries_of,
    enqueued_out_of_order,
    missing_in,
    publishes_of,
)
from fedq.pipeline.jobs.audit.verdict import PROMISES, Coverage, Finding, Verdict
from fedq.pipeline.jobs.kit.directory import claim, held
from fedq.pipeline.jobs.kit.events import events_of, refuse_strangers, trace_rows
from fedq.pipeline.jobs.kit.output import PAGE, RESULT, write_page, write_result
from fedq.pipeline.jobs.kit.progress import Progress, Watch
from fedq.pipeline.jobs.kit.source import Source
from fedq.pipeline.pages.numbers import step_ms_for

#: Findings that are kept, and that the verdict has.
FINDINGS_MAX: Final = 100_000
_TOLD_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """Which trace is judged, and how."""

    source: Source
    directory: Path
    begin: datetime | None = None
    end: datetime | None = None
    tolerance: Tolerance = field(default_factory=Tolerance)


def audit(spark: SparkSession, plan: AuditPlan, watch: Watch) -> Verdict:
    """Judges a trace; leaves findings, verdict and page in the directory."""
    claim(plan.directory, JOB, {})
    with held(plan.directory):
        watch.report(Progress("reading the trace"))
        rows = trace_rows(spark, plan.source, plan.begin, plan.end).persist()
        try:
            refuse_strangers(rows, plan.source.stream)
            findings, verdict = judge(events_of(rows), plan.tolerance, watch)
        finally:
            rows.unpersist()
        _write_findings(plan.directory / "findings.parquet", findings)
        write_result(plan.directory / RESULT, verdict.as_json())
        write_page(plan.directory / PAGE, page_of(plan.source.stream, verdict, time.time()))
        return verdict


def judge(events: DataFrame, tolerance: Tolerance, watch: Watch) -> tuple[list[Finding], Verdict]:
    """What refutes a promise, at most FINDINGS_MAX messages, and the verdict."""
    events = with_process(events).persist()
    try:
        coverage, judged = survey(events)
        watch.report(Progress(f"judging {coverage.events:,} events"))
        watch.check()
        publishes = publishes_of(events)
        # Few, as a rule, and looked at more than once.
        missing = missing_in(events, publishes, tolerance, coverage.end_ms).persist()
        found = refutations(events, publishes, missing, tolerance).persist()
        rules = found.groupBy("promise", "rule").agg(count(lit(1))).orderBy("promise", "rule")
        by_rule = [(str(row[0]), str(row[1]), int(row[2])) for row in rules.collect()]
        undecided = {rule: number for promise, rule, number in by_rule if promise == UNDECIDED}
        by_rule = [each for each in by_rule if each[0] != UNDECIDED]
        findings: list[Finding] = []
        if by_rule:
            sure = found.where(col("promise") != UNDECIDED)
            first = sure.orderBy("ms", "promise", "fragment", "position").limit(FINDINGS_MAX)
            findings = [Finding(*row) for row in first.collect()]
        found.unpersist()
        missing.unpersist()
        counts = dict.fromkeys(PROMISES, 0)
        for promise, _, number in by_rule:
            counts[promise] += number
        return findings, Verdict(
            coverage, judged, counts, {rule: number for _, rule, number in by_rule},
            tuple(findings[:_TOLD_MAX]), _activity(events, coverage), sum(undecided.values()),
        )  # fmt: skip
    finally:
        events.unpersist()


def refutations(
    events: DataFrame, publishes: DataFrame, missing: DataFrame, tolerance: Tolerance
) -> DataFrame:
    """The findings of all rules; `missing`: what P1 concludes from (`missing_in`)."""
    deliveries = deliveries_of(events)
    found = confirmed_and_lost(events, missing, tolerance)
    for further in (
        delivered_twice(deliveries, tolerance),
        acknowledged_and_back(events, deliveries, tolerance),
        enqueued_out_of_order(publishes),
        delivered_out_of_order(deliveries, tolerance),
    ):
        found = found.unionByName(further)
    return found


def survey(events: DataFrame) -> tuple[Coverage, dict[str, int]]:
    """What there is of the period, what is known to be missing, and how much can be judged."""
    is_shown = (col("kind") == "delivered") & (col("reason") != "stream")
    is_acked = (col("kind") == "acked") | (is_shown & col("no_ack"))
    per_process = events.groupBy("process", "node").agg(
        (max_of("batch") - min_of("batch") + 1 - count_distinct("batch")).alias("holes"),
        min_of("ms").alias("begin"),
        max_of("ms").alias("end"),
        count(lit(1)).alias("events"),
        _sum_where(col("kind") == "gap", col("amount")).alias("lost"),
        _sum_where(col("kind") == "confirmed", _size_of("sequences")).alias("confirms"),
        _sum_where(col("kind") == "enqueued", _size_of("positions")).alias("enqueued"),
        _sum_where(is_shown, _size_of("positions")).alias("deliveries"),
        _sum_where(is_acked, _size_of("positions")).alias("acks"),
    )
    rows = per_process.orderBy("process").collect()
    totals = {
        name: sum(int(row[name] or 0) for row in rows)
        for name in ("events", "lost", "holes", "confirms", "enqueued", "deliveries", "acks")
    }
    coverage = Coverage(
        min((int(row["begin"]) for row in rows), default=0),
        max((int(row["end"]) for row in rows), default=0),
        tuple(dict.fromkeys(str(row["node"]) for row in rows)),
        totals["events"], totals["lost"], totals["holes"],
    )  # fmt: skip
    return coverage, {
        "P1": totals["confirms"],
        "P2": totals["deliveries"],
        "P3": totals["acks"],
        "P4": totals["enqueued"] + totals["deliveries"],
    }


def _sum_where(condition: Column, value: Column) -> Column:
    return sum_of(when(condition, value))


def _size_of(ranges: str) -> Column:
    """How many numbers are in ranges."""
    return expr(f"aggregate({ranges}, 0L, (sum, each) -> sum + each[1] - each[0] + 1)")


def _activity(events: DataFrame, coverage: Coverage) -> tuple[tuple[int, str, int], ...]:
    """Events by kind and stretch of time."""
    step = step_ms_for(coverage.end_ms - coverage.begin_ms)
    at = (floor(col("ms") / step) * step).cast("bigint").alias("at")
    rows = events.groupBy(at, "kind").agg(count(lit(1))).orderBy("at", "kind").collect()
    return tuple((row[0], row[1], row[2]) for row in rows)


def _write_findings(path: Path, findings: list[Finding]) -> None:
    """Writes the findings as a table, in place of an older one."""
    names = Finding.__slots__
    columns = {name: [getattr(each, name) for each in findings] for name in names}
    numbers = ("fragment", "position", "ms")
    fields = [(name, pa.int64() if name in numbers else pa.string()) for name in names]
    columns["message"] = [each.name for each in findings]
    table = pa.table(columns, schema=pa.schema([*fields, ("message", pa.string())]))
    new = path.with_name(path.name + ".new")
    pq.write_table(table, new)
    os.replace(new, path)
