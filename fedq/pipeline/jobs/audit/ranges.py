"""From runs to messages: events with ranges as rows with one message each, evenly spread.

Ranges are first cut into blocks, so that an event of ten million messages (a purge) becomes many
rows, and no array of ten million. `out_of_order` finds values below an earlier one of their group,
block by block, so that one group that has nearly all rows is no task that does nearly all work.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql.functions import coalesce, col, concat, explode, expr, greatest, lit, when
from pyspark.sql.functions import max as max_of

#: Messages of a block.
BLOCK: Final = 4_096


def with_process(events: DataFrame) -> DataFrame:
    """Events with the process that saw each, and the owner of positions that only it knows.

    What an event leaves out is 0, empty or false.
    """
    events = events.na.fill(0).na.fill("").na.fill(False)
    events = events.withColumn("process", concat(col("node"), lit("#"), col("incarnation")))
    return events.withColumn("owner", when(col("fragment") < 0, col("process")).otherwise(lit("")))


def each_of(events: DataFrame, ranges: str, name: str) -> DataFrame:
    """A row for each number in the ranges, as column `name`."""
    runs = events.where(col(ranges).isNotNull()).withColumn("_run", explode(ranges))
    blocks = runs.withColumn("_first", explode(expr(f"sequence(_run[0], _run[1], {BLOCK}L)")))
    last = f"least(_first + {BLOCK - 1}L, _run[1])"
    found = blocks.withColumn(name, explode(expr(f"sequence(_first, {last})")))
    return found.drop("_run", "_first")


def pairs_of(events: DataFrame, one: str, other: str, names: tuple[str, str]) -> DataFrame:
    """A row for each pair of numbers at the same place in two columns of ranges."""
    flat = "flatten(transform({}, each -> sequence(each[0], each[1])))"
    both = events.where(col(one).isNotNull() & col(other).isNotNull())
    zipped = both.withColumn(
        "_pair", explode(expr(f"arrays_zip({flat.format(one)}, {flat.format(other)})"))
    )
    first, second = names
    return (
        zipped.withColumn(first, col("_pair").getField("0"))
        .withColumn(second, col("_pair").getField("1"))
        .drop("_pair")
        .where(col(first).isNotNull() & col(second).isNotNull())
    )


def out_of_order(
    rows: DataFrame, group: Sequence[str], block: str, order: Sequence[str], value: str
) -> DataFrame:
    """The rows whose value is below that of an earlier row of their group, which is `before`.

    `block`: a column that ascends with the order, and has not too many rows of a group each.
    """
    groups = [*group, block]
    within = Window.partitionBy(*groups).orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)
    earlier = Window.partitionBy(*group).orderBy(block).rowsBetween(Window.unboundedPreceding, -1)
    tops = rows.groupBy(*groups).agg(max_of(value).alias("_top"))
    tops = tops.withColumn("_before", max_of("_top").over(earlier)).drop("_top")
    found = rows.withColumn("_within", max_of(value).over(within)).join(tops, groups)
    least = lit(-(1 << 62))
    before = greatest(coalesce("_within", least), coalesce("_before", least))
    return (
        found.withColumn("before", before).where(col(value) < col("before"))
        .drop("_within", "_before")
    )  # fmt: skip
