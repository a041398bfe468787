"""Roll-ups of rows by minute, exchange and routing key, in parts that can be added up.

Input: rows of a stream. Output: a part for each minute, fragment, exchange and key, of which counts
are summed and sketches merged (`merged`), as often as one likes and in any order, with the same
result for counts and the same bounds for sketches. Of an exchange with more keys than `keys_max` in
a minute the lightest are one part without a key; which these were is a theta sketch.
"""

from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql.functions import (
    coalesce,
    col,
    count,
    date_format,
    date_trunc,
    kll_merge_agg_bigint,
    kll_sketch_agg_bigint,
    length,
    lit,
    row_number,
    theta_sketch_agg,
    theta_union_agg,
    when,
)
from pyspark.sql.functions import max as max_of
from pyspark.sql.functions import sum as sum_of

#: What a part is about.
GROUP: Final = ("day", "minute", "fragment", "exchange", "routing_key")
PARTITIONS: Final = ("day",)
KEYS_MAX: Final = 1_000


def rolled_up(rows: DataFrame, keys_max: int, complete_before: datetime | None) -> DataFrame:
    """The parts that rows make; those of minutes before `complete_before` count as late."""
    size = length("body").cast("bigint")
    is_late = lit(False) if complete_before is None else col("timestamp") < lit(complete_before)
    parts = (
        rows.withColumn("minute", date_trunc("minute", "timestamp"))
        .withColumn("day", date_format("minute", "yyyy-MM-dd"))
        .groupBy(*GROUP)
        .agg(
            count(lit(1)).alias("messages"),
            sum_of(size).alias("bytes"),
            max_of(size).alias("largest"),
            count(when(is_late, 1)).alias("late"),
            max_of("offset").alias("offset"),
            kll_sketch_agg_bigint(size).alias("sizes"),
        )
    )
    heaviest = Window.partitionBy("minute", "fragment", "exchange").orderBy(
        col("messages").desc(), col("routing_key")
    )
    parts = parts.withColumn("rank", row_number().over(heaviest))
    is_light = col("rank") > keys_max
    parts = parts.withColumn("light_key", when(is_light, col("routing_key")))
    parts = parts.withColumn("routing_key", when(~is_light, col("routing_key")))
    return _added(parts, theta_sketch_agg("light_key"))


def merged(parts: DataFrame) -> DataFrame:
    """The parts added up: fewer, with the same totals."""
    return _added(parts, theta_union_agg("other_keys"))


def _added(parts: DataFrame, keys: object) -> DataFrame:
    added = parts.groupBy(*GROUP).agg(
        sum_of("messages").alias("messages"),
        sum_of("bytes").alias("bytes"),
        max_of("largest").alias("largest"),
        sum_of("late").alias("late"),
        max_of("offset").alias("offset"),
        kll_merge_agg_bigint("sizes").alias("sizes"),
        keys.alias("other_keys"),  # type: ignore[attr-defined]
    )
    # What has a key has no others.
    others = when(col("routing_key").isNull(), col("other_keys"))
    return added.withColumn("other_keys", coalesce(others, lit(None).cast("binary")))
