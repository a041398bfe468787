"""What subscribers of fan-outs waited, over many runs of load tests.

Inputs: files that load tests have written, a directory. Outputs: a table with a row for each run, a
summary by shape, a page.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, lit, percentile
from pyspark.sql.functions import max as max_of
from pyspark.sql.functions import min as min_of
from pyspark.sql.functions import sum as sum_of

from fedq.pipeline.failure import OptionError
from fedq.pipeline.jobs.fanout.measurements import Measurement, measurements_in
from fedq.pipeline.jobs.fanout.page import JOB, page_of
from fedq.pipeline.jobs.fanout.summary import Shape, Summary
from fedq.pipeline.jobs.kit.directory import claim, held
from fedq.pipeline.jobs.kit.output import PAGE, RESULT, write_page, write_result
from fedq.pipeline.jobs.kit.table import location

_SHAPE = ("broker", "nodes", "subscribers", "connections", "rate", "size_min", "size_max")
_TABLE = "measurements.parquet"


def read(paths: Sequence[Path]) -> tuple[list[Measurement], int]:
    """The fan-outs in files, and how many other runs are there; raises PipelineError."""
    found: list[Measurement] = []
    others = 0
    for path in paths:
        mine, not_mine = measurements_in(path)
        found += mine
        others += not_mine
    if not found:
        raise OptionError(
            f"none of the {others} runs is a fan-out: measure one with `fedq bench --subscribers "
            "1000 --json`"
        )
    return found, others


def fanout(spark: SparkSession, paths: Sequence[Path], directory: Path) -> Summary:
    """Puts runs together by their shape; leaves a table, a summary and a page."""
    measurements, others = read(paths)
    claim(directory, JOB, {})
    with held(directory):
        new = directory / f"{_TABLE}.new"
        table = pa.Table.from_pylist([asdict(each) for each in measurements])
        pq.write_table(table, new)
        new.replace(directory / _TABLE)
        rows = spark.read.parquet(location(directory / _TABLE))
        medians = [
            percentile(name, 0.5).alias(name) for name in ("per_second", "p50", "p90", "p99")
        ]
        shapes = rows.groupBy(*_SHAPE).agg(
            count(lit(1)).alias("runs"),
            sum_of("deliveries").alias("deliveries"),
            *medians,
            percentile("longest", 0.5).alias("longest"),
            min_of("p99").alias("p99_least"),
            max_of("p99").alias("p99_most"),
            percentile(col("last_p50").cast("bigint"), 0.5).alias("last_p50"),
            percentile(col("last_p99").cast("bigint"), 0.5).alias("last_p99"),
            sum_of("wrong").alias("wrong"),
        )
        names = [each.name for each in fields(Shape)]
        ordered = shapes.select(*names).orderBy("subscribers", "nodes", "rate", "broker")
        found = Summary(
            tuple(Shape(*row) for row in ordered.collect()),
            tuple(dict.fromkeys(each.file for each in measurements)), others,
        )  # fmt: skip
        write_result(directory / RESULT, found.as_json())
        write_page(directory / PAGE, page_of(found, time.time()))
        return found
