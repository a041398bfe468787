"""What a driver of Spark is asked to do by tests: each a function of JSON, with JSON as its result.

They run in a process of their own (`tests.pipeline.spark.driver`), as those of users do.
"""

import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession

Options = dict[str, str]


def load(spark: SparkSession, options: Options) -> DataFrame:
    return spark.read.format("fedq").options(**options).load()


def rows(spark: SparkSession, options: Options, where: str = "true") -> list[dict[str, Any]]:
    """The rows of a batch, in order; bodies as text."""
    table = load(spark, options).where(where).orderBy("fragment", "offset")
    table = table.selectExpr("*", "decode(body, 'utf-8') AS text").drop("body")
    return [json.loads(line) for line in table.toJSON().collect()]


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
    query = (
        written.writeStream.format("parquet")
        .option("checkpointLocation", f"{place}/checkpoint")
        .option("path", f"{place}/out")
        .trigger(**trigger)
        .start()
    )
    return str(query.id)


def follow(spark: SparkSession, options: Options, place: str, trigger: dict[str, Any]) -> list[int]:
    """Runs a query to its end; returns how many rows each of its batches had."""
    name = begin(spark, options, place, trigger)
    query = spark.streams.get(name)
    query.awaitTermination(120)
    return [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]


def failure(spark: SparkSession, name: str) -> str:
    """Why a query has ended; empty: it has not failed."""
    query = spark.streams.get(name)
    error = query.exception() if query is not None else "it is gone"
    return str(error or "")


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
    query = (
        table.repartition(2, "body").select("body").writeStream.format("fedq").options(**sink)
        .option("checkpointLocation", f"{place}/checkpoint").trigger(**trigger).start()
    )  # fmt: skip
    return str(query.id)


def forwarded(spark: SparkSession, name: str) -> list[int]:
    """Waits for the end of a query; how many rows each of its batches had."""
    query = spark.streams.get(name)
    assert query is not None, "it was begun"
    query.awaitTermination(120)
    return [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]


JOBS = {
    each.__name__: each
    for each in (
        rows, texts, filtered, schema, partitions, begin, failure, follow, written, publish,
        overwrite, forward, forwarded,
    )
}  # fmt: skip
