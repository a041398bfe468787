"""What a driver of Spark is asked to do by tests: each a function of JSON, with JSON as its result.

They run in a process of their own (`tests.pipeline.spark.driver`), as those of users do.
"""

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from fedq.pipeline.jobs.archive.archive import ArchivePlan
from fedq.pipeline.jobs.archive.archive import archive as run_archive
from fedq.pipeline.jobs.archive.layout import PARTITIONS, table_path
from fedq.pipeline.jobs.audit.audit import AuditPlan
from fedq.pipeline.jobs.audit.audit import audit as run_audit
from fedq.pipeline.jobs.audit.audit import judge as run_judge
from fedq.pipeline.jobs.audit.audit import survey as run_survey
from fedq.pipeline.jobs.audit.ranges import with_process
from fedq.pipeline.jobs.audit.rules import Tolerance
from fedq.pipeline.jobs.fanout.fanout import fanout as run_fanout
from fedq.pipeline.jobs.kit.events import SCHEMA
from fedq.pipeline.jobs.kit.progress import Reached, Watch, alone, go_on, unheard
from fedq.pipeline.jobs.kit.source import source_of
from fedq.pipeline.jobs.kit.table import Table
from fedq.pipeline.jobs.placement.flows import flows_of, moved_in, steps_of
from fedq.pipeline.jobs.placement.placement import PlacementPlan
from fedq.pipeline.jobs.placement.placement import placement as run_placement
from fedq.pipeline.jobs.placement.plan import Move
from fedq.pipeline.jobs.replay.replay import ReplayPlan
from fedq.pipeline.jobs.replay.replay import replay as run_replay
from fedq.pipeline.jobs.replay.selection import Selection
from fedq.pipeline.jobs.traffic.rollup import merged, rolled_up
from fedq.pipeline.jobs.traffic.traffic import TrafficPlan
from fedq.pipeline.jobs.traffic.traffic import traffic as run_traffic
from tests.pipeline.spark.settings import TOO_BUSY, TRIES

Options = dict[str, str]

#: The queries that were begun here, by name: Spark forgets those that have ended.
_QUERIES: dict[str, StreamingQuery] = {}


def load(spark: SparkSession, options: Options) -> DataFrame:
    return spark.read.format("fedq").options(**options).load()


def rows(spark: SparkSession, options: Options, where: str = "true") -> list[dict[str, Any]]:
    """The rows of a batch, in order; bodies as text."""
    table = load(spark, options).where(where).orderBy("fragment", "offset")
    table = table.selectExpr("*", "decode(body, 'utf-8') AS text").drop("body")
    return [json.loads(row[0]) for row in table.selectExpr("to_json(struct(*))").collect()]


def texts(spark: SparkSession, options: Options) -> list[str]:
    """The bodies of a batch, in no order."""
    return [row[0] for row in load(spark, options).selectExpr("decode(body, 'utf-8')").collect()]


def filtered(
    spark: SparkSession, options: Options, conditions: list[str]
) -> list[tuple[list[str], int]]:
    """For each condition the bodies of its rows, and how many rows came to be looked at."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    found: list[tuple[list[str], int]] = []
    try:
        for each in conditions:
            table = load(spark, options).where(each).selectExpr("decode(body, 'utf-8')")
            found.append(([row[0] for row in table.collect()], _travelled(table)))
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    return found


def _travelled(table: DataFrame) -> int:
    """How many rows the source brought, as the plan that was executed says."""
    leaves = table._jdf.queryExecution().executedPlan().collectLeaves()
    assert leaves.size() == 1, "a scan, and nothing else"
    return int(leaves.apply(0).metrics().apply("numOutputRows").value())


def schema(spark: SparkSession, options: Options) -> str:
    return str(load(spark, options).schema.simpleString())


def partitions(spark: SparkSession, options: Options) -> int:
    return int(load(spark, options).rdd.getNumPartitions())


def begin(spark: SparkSession, options: Options, place: str, trigger: dict[str, Any]) -> str:
    """Begins a query that writes what it reads into files; returns its name."""
    table = spark.readStream.format("fedq").options(**options).load()
    written = table.selectExpr("fragment", "offset", "decode(body, 'utf-8') AS text")
    writer = (
        written.writeStream.format("parquet")
        .option("checkpointLocation", f"{place}/checkpoint")
        .option("path", f"{place}/out")
        .trigger(**trigger)
    )
    return _begun(writer.start)


def _begun(start: Callable[[], StreamingQuery]) -> str:
    """Begins a query, again where its Python was not there in time; its name."""
    for _ in range(TRIES):
        query = start()
        with suppress(StreamingQueryException):
            while query.status["message"].startswith("Initializing"):
                if query.awaitTermination(1):
                    break
        if TOO_BUSY not in str(query.exception() or ""):
            break
    _QUERIES[query.id] = query
    return str(query.id)


def follow(spark: SparkSession, options: Options, place: str, trigger: dict[str, Any]) -> list[int]:
    """Runs a query to its end; returns how many rows each of its batches had."""
    return forwarded(spark, begin(spark, options, place, trigger))


def failure(spark: SparkSession, name: str) -> str:
    """Why a query has ended; empty: it has not failed."""
    return str(_QUERIES[name].exception() or "")


def written(spark: SparkSession, place: str) -> list[str]:
    """The bodies that queries have written, in no order."""
    return [row[0] for row in spark.read.parquet(f"{place}/out").select("text").collect()]


def publish(
    spark: SparkSession, options: Options, count: int, columns: list[str], shuffles: bool = False
) -> None:
    """Writes numbers as rows with these columns."""
    table = spark.range(0, count, 1, 4)
    if shuffles:
        table = table.repartition(3)
    table.selectExpr(*columns).write.format("fedq").options(**options).mode("append").save()


def overwrite(spark: SparkSession, options: Options) -> None:
    table = spark.range(1).selectExpr("'x' AS body")
    table.write.format("fedq").options(**options).mode("overwrite").save()


def forward(
    spark: SparkSession, source: Options, sink: Options, place: str, trigger: dict[str, Any]
) -> str:
    """Begins a query that publishes what it reads, shuffled on the way; returns its name."""
    table = spark.readStream.format("fedq").options(**source).load()
    writer = (
        table.repartition(2, "body").select("body").writeStream.format("fedq").options(**sink)
        .option("checkpointLocation", f"{place}/checkpoint").trigger(**trigger)
    )  # fmt: skip
    return _begun(writer.start)


def forwarded(spark: SparkSession, name: str) -> list[int]:
    """Waits for the end of a query; how many rows each of its batches had."""
    query = _QUERIES[name]
    query.awaitTermination(120)
    return [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]


def ending(step: str, how: str) -> Reached:
    """Ends the process, or the job, at a step; "" is none."""

    def reached(at: str) -> None:
        if at != step:
            return
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise RuntimeError(f"ended {step}")

    return reached if step else go_on


def archive(
    spark: SparkSession, options: Options, place: str, batch_rows: int = 1_000,
    end_at: str = "", how: str = "raise",
) -> dict[str, Any]:  # fmt: skip
    plan = ArchivePlan(source_of(options), Path(place), None, batch_rows, kept_s=3_600)
    return run_archive(spark, plan, alone(), ending(end_at, how)).as_json()


def compact(spark: SparkSession, place: str, stream: str, end_at: str = "") -> int:
    """Puts all small files of an archive together; how many there were."""
    table = Table(table_path(Path(place), stream), PARTITIONS, ending(end_at, "raise"))
    return table.compact(spark, lambda partition: True)


class EventAfter(Event):
    """An event that is set once it was looked at so often."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self._left = looks

    def is_set(self) -> bool:
        self._left -= 1
        return self._left <= 0


def replay(
    spark: SparkSession, archive: str, stream: str, exchange: str, url: str, place: str,
    keys: str = "#", end: str = "", stop_after: int = 1 << 62,
) -> dict[str, Any]:  # fmt: skip
    wanted = Selection(archive, stream, exchange, keys, "", end, "test")
    plan = ReplayPlan(Path(place), wanted, tuple(url.split(",")))
    return run_replay(spark, plan, Watch(unheard, EventAfter(stop_after))).as_json()


def traffic(
    spark: SparkSession, options: Options, place: str, end_at: str = "", lateness_s: int = 120
) -> Any:
    plan = TrafficPlan(source_of(options), Path(place), lateness_s=lateness_s)
    found = run_traffic(spark, plan, alone(), ending(end_at, "raise"))
    return json.loads(json.dumps(found.as_json()))


def _parts(
    spark: SparkSession, batches: list[list[list[Any]]], keys_max: int, complete_s: int
) -> DataFrame:
    """The parts of batches of rows, each rolled up alone, added up."""
    complete = datetime.fromtimestamp(complete_s, UTC) if complete_s else None
    parts: DataFrame | None = None
    for rows in batches:
        names = "fragment int, offset bigint, at bigint, exchange string, routing_key string, n int"
        table = spark.createDataFrame([tuple(row) for row in rows], names).selectExpr(
            "*", "timestamp_seconds(at) AS timestamp", "cast(repeat('x', n) AS binary) AS body"
        )
        part = rolled_up(table, keys_max, complete)
        parts = part if parts is None else parts.unionByName(part)
    assert parts is not None, "there is a batch"
    return merged(parts)


def rollup(
    spark: SparkSession, batches: list[list[list[Any]]], keys_max: int, complete_s: int = 0
) -> list[dict[str, Any]]:
    parts = _parts(spark, batches, keys_max, complete_s)
    parts = parts.selectExpr("unix_seconds(minute) AS minute_s", "*").drop("minute", "sizes")
    return [row.asDict() for row in parts.drop("other_keys").collect()]


def rollup_half(spark: SparkSession, batches: list[list[list[Any]]], keys_max: int) -> int:
    """The median of sizes by the sketches."""
    sizes = _parts(spark, batches, keys_max, 0).selectExpr("kll_merge_agg_bigint(sizes) AS sizes")
    [row] = sizes.selectExpr("kll_sketch_get_quantile_bigint(sizes, 0.5D)").collect()
    return int(row[0])


def _events(spark: SparkSession, events: list[dict[str, Any]]) -> DataFrame:
    names = [each.split()[0] for each in SCHEMA.split(", ")]
    rows = [tuple(event.get(name) for name in names) for event in events]
    return spark.createDataFrame(rows, SCHEMA)


def judge(spark: SparkSession, events: list[dict[str, Any]]) -> Any:
    verdict = run_judge(_events(spark, events), Tolerance(), alone())[1]
    return json.loads(json.dumps(verdict.as_json()))


def survey(spark: SparkSession, events: list[dict[str, Any]]) -> dict[str, Any]:
    """What a table of events is known to have, and not to have."""
    return asdict(run_survey(with_process(_events(spark, events)))[0])


def flows(
    spark: SparkSession, events: list[dict[str, Any]], targets: dict[str, str], step_ms: int
) -> dict[str, Any]:
    """What fragments' flows are, and what crosses step by step with these nodes as leaders."""
    table = _events(spark, events)
    moved = moved_in(table)
    found = flows_of(table, moved)
    moves = [Move("/", "", int(number), "", node, 0, 0) for number, node in targets.items()]
    steps = steps_of(spark, moved, found, moves, step_ms)
    return {"flows": [asdict(each) for each in found], "steps": steps}


def placement(spark: SparkSession, options: Options, place: str) -> Any:
    plan = PlacementPlan(source_of(options), Path(place), slack=10.0)
    return run_placement(spark, plan, alone()).as_json(options["stream"])


def audit(spark: SparkSession, options: Options, place: str) -> Any:
    verdict = run_audit(spark, AuditPlan(source_of(options), Path(place)), alone())
    return json.loads(json.dumps(verdict.as_json()))


def fanout(spark: SparkSession, files: list[str], place: str) -> Any:
    found = run_fanout(spark, [Path(each) for each in files], Path(place))
    return json.loads(json.dumps(found.as_json()))


JOBS = {
    each.__name__: each
    for each in (
        rows, texts, filtered, schema, partitions, begin, failure, follow, written, publish,
        overwrite, forward, forwarded, archive, compact, replay, traffic, rollup, rollup_half,
        judge, survey, audit, fanout, flows, placement,
    )
}  # fmt: skip
