"""What processes may have seen and not written, as they ended without a word (docs/adr/0079).

A process writes what it saw 100 ms later, at most, and `stopped` as the last of it. One that is
killed takes what it has not written with it, and no `gap` says so. So what is missing between its
last word and its end refutes nothing: it is *undecided*. When it ended is known from its node's
next process, or from another one that leads its fragment in a later reign.

Input: events with processes (`with_process`). Output: the rows that are sure, and those that are
not, of candidates for a finding that concludes from something that is missing.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql.functions import broadcast, coalesce, col, lead, least, lit, when
from pyspark.sql.functions import max as max_of
from pyspark.sql.functions import min as min_of

#: What the process says that serves a fragment.
OF_PRIMARY: Final = (
    "enqueued", "refused", "settled", "released", "dead_lettered", "dropped", "leads", "standing",
)  # fmt: skip
#: What tells candidates apart.
_KEY: Final = ["fragment", "rule", "text", "begin_ms", "said_by"]
#: Later than all times.
_NEVER_MS: Final = (1 << 62) - 1


@dataclass(frozen=True, slots=True)
class Unheard:
    """Between which times processes may have seen what they did not write."""

    #: Of fragments that they served: fragment, silent, from_ms, until_ms.
    serving: DataFrame
    #: Of any fragment, since their nodes were started again: silent, from_ms, until_ms.
    ended: DataFrame
    #: Reigns of which anybody said anything: fragment, heard_reign.
    reigns: DataFrame


def unheard_in(events: DataFrame, skew_ms: int) -> Unheard:
    """What may be missing in a trace; clocks differ by so much at most."""
    stopped = max_of(_ms_of("stopped"))
    processes = events.groupBy("process", "node", "incarnation").agg(
        min_of("ms").alias("_first"), max_of("ms").alias("_last"), stopped.alias("_stopped")
    )
    of_node = Window.partitionBy("node").orderBy("incarnation")
    silent = (
        processes.withColumn("_next", lead("_first").over(of_node))
        .where(col("_stopped").isNull() | (col("_stopped") < col("_last")))
        .select(
            col("process").alias("silent"), (col("_last") - skew_ms).alias("from_ms"),
            (col("_next") + skew_ms).alias("_next"),
        )
    )  # fmt: skip
    told = events.where(col("kind").isin(*OF_PRIMARY) & (col("fragment") >= 0))
    reigns = told.groupBy("fragment", "reign", "process").agg(min_of("ms").alias("_began"))
    served = reigns.groupBy("fragment", col("process").alias("silent")).agg(
        max_of("reign").alias("_top")
    )
    served = served.join(silent, "silent")
    later = reigns.select("fragment", col("reign").alias("_later"), "_began")
    taken = (
        served.join(later, "fragment")
        .where(col("_later") > col("_top"))
        .groupBy("fragment", "silent")
        .agg((min_of("_began") + skew_ms).alias("_taken"))
    )
    never = lit(_NEVER_MS)
    until = least(coalesce("_next", never), coalesce("_taken", never)).alias("until_ms")
    serving = served.join(taken, ["fragment", "silent"], "left").select(
        "fragment", "silent", "from_ms", until
    )
    ended = silent.where(col("_next").isNotNull()).select(
        "silent", "from_ms", col("_next").alias("until_ms")
    )
    heard = reigns.select("fragment", col("reign").alias("heard_reign")).distinct()
    return Unheard(serving, ended, heard)


def parted(rows: DataFrame, unheard: Unheard) -> tuple[DataFrame, DataFrame]:
    """Candidates that are sure, and those that are undecided.

    What is missing would have been seen between `begin_ms` and `end_ms`, and not by `said_by`, the
    process that says that it is missing; or by the primary of `routed_reign` (0: of any).
    """
    may_have = (
        (col("from_ms") <= col("end_ms"))
        & (col("until_ms") >= col("begin_ms"))
        & (col("silent") != col("said_by"))
    )
    served = unheard.serving.withColumnRenamed("fragment", "_fragment")
    heard = unheard.reigns.withColumnRenamed("fragment", "_fragment")
    of_fragment = col("_fragment") == col("fragment")
    unspoken = rows.where((col("routed_reign") > 0) & (col("fragment") >= 0)).join(
        heard, of_fragment & (col("heard_reign") == col("routed_reign")), "left_anti"
    )
    doubtful = (
        rows.join(served, of_fragment & may_have, "left_semi")
        .unionByName(rows.join(broadcast(unheard.ended), may_have, "left_semi"))
        .unionByName(unspoken)
        .select(*_KEY)
        .distinct()
    )  # fmt: skip
    return (
        rows.join(doubtful, _KEY, "left_anti"), rows.join(doubtful, _KEY, "left_semi")
    )  # fmt: skip


def _ms_of(kind: str) -> Column:
    return when(col("kind") == kind, col("ms"))
