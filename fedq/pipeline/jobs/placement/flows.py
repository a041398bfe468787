"""Flows of messages between nodes and fragments, by the events of a trace.

Input: events (`fedq.pipeline.jobs.kit.events`). Output: flows, small enough to be planned on; and
what crossed between nodes step by step, as it was and as a plan would have had it.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import coalesce, col, expr, floor, lit, max_by, when
from pyspark.sql.functions import max as max_of
from pyspark.sql.functions import min as min_of
from pyspark.sql.functions import sum as sum_of

from fedq.pipeline.jobs.placement.plan import Flow, Move

#: What a node says of fragments that it leads.
_OF_PRIMARY = ("enqueued", "standing", "leads")


def moved_in(events: DataFrame) -> DataFrame:
    """A row for each run that came to a fragment of a shared queue, or went from it to a consumer.

    `at`: the node of its publisher, or of its consumer; `led_by`: who led it, or NULL where the
    consumer's node said it; `count`: messages.
    """
    is_in = (col("kind") == "enqueued") & (coalesce(col("reason"), lit("")) != "resent")
    is_out = col("kind") == "delivered"
    return events.where((col("fragment") > 0) & (is_in | is_out)).select(
        "vhost", "queue", "fragment", "ms", is_in.alias("is_in"),
        when(is_in, col("origin")).otherwise(col("node")).alias("at"),
        when(is_in, col("node")).alias("led_by"),
        expr("aggregate(positions, 0L, (sum, each) -> sum + each[1] - each[0] + 1)").alias("count"),
    )  # fmt: skip


def flows_of(events: DataFrame, moved: DataFrame) -> list[Flow]:
    """The flow of each fragment of which it is known who leads it."""
    of_primary = events.where((col("fragment") > 0) & col("kind").isin(*_OF_PRIMARY))
    leaders = of_primary.groupBy("fragment").agg(max_by("node", "ms").alias("leads"))
    sums = moved.groupBy("vhost", "queue", "fragment", "is_in", "at").agg(
        sum_of("count").alias("n")
    )
    flows: dict[int, Flow] = {}
    for row in sums.join(leaders, "fragment").orderBy("fragment", "at").collect():
        flow = flows.get(row["fragment"])
        if flow is None:
            flow = flows[row["fragment"]] = Flow(
                row["vhost"] or "", row["queue"] or "", row["fragment"], row["leads"], {}, {}
            )
        table = dict(flow.published if row["is_in"] else flow.delivered)
        table[row["at"]] = table.get(row["at"], 0) + int(row["n"] or 0)
        kept = (table, flow.delivered) if row["is_in"] else (flow.published, table)
        flows[row["fragment"]] = Flow(flow.vhost, flow.queue, flow.fragment, flow.leads, *kept)
    return list(flows.values())


def span_of(moved: DataFrame) -> tuple[int, int]:
    """The time of the first run and of the last one, in ms since 1970; zeros without any."""
    [row] = moved.agg(min_of("ms"), max_of("ms")).collect()
    return int(row[0] or 0), int(row[1] or 0)


def steps_of(
    spark: SparkSession, moved: DataFrame, flows: Sequence[Flow], moves: Sequence[Move],
    step_ms: int,
) -> list[tuple[int, int, int, int]]:  # fmt: skip
    """By step: when it begins (ms), messages, those that crossed, those that would have.

    As if the present leaders, or those of the plan, had led all the time.
    """
    targets = {each.fragment: each.target for each in moves}
    rows = [(each.fragment, each.leads, targets.get(each.fragment, each.leads)) for each in flows]
    if not rows:
        return []
    leaders = spark.createDataFrame(rows, "fragment BIGINT, now STRING, planned STRING")
    at = (floor(col("ms") / step_ms) * step_ms).cast("bigint").alias("step")
    found = (
        moved.join(leaders, "fragment").groupBy(at)
        .agg(
            sum_of("count"),
            sum_of(when(col("at") != col("now"), col("count")).otherwise(lit(0))),
            sum_of(when(col("at") != col("planned"), col("count")).otherwise(lit(0))),
        )
        .orderBy("step")
    )  # fmt: skip
    return [tuple(int(each or 0) for each in row) for row in found.collect()]  # type: ignore[misc]
