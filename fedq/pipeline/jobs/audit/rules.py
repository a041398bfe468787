"""What refutes the promises P1 to P4, each as a table of findings (docs/adr/0079, 0080).

Input: events with processes (`with_process`). Output of each rule: rows with the columns FINDING.
Rules that conclude from something that is missing (P1) hold only if no event is missing; the
others conclude from what is there. Clocks of two nodes are compared with a tolerance, `skew_ms`;
what one process saw is ordered by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql.functions import (
    coalesce,
    col,
    concat,
    date_format,
    exists,
    expr,
    lit,
    row_number,
    struct,
    timestamp_millis,
    when,
)
from pyspark.sql.functions import max as max_of
from pyspark.sql.functions import min as min_of

from fedq.pipeline.jobs.audit.ranges import each_of, out_of_order, pairs_of
from fedq.pipeline.jobs.audit.unheard import OF_PRIMARY, parted, unheard_in

FINDING: Final = (
    "promise", "rule", "vhost", "queue", "fragment", "position", "node", "ms", "text",
)  # fmt: skip
#: By what it is told whether something that is missing was seen and not written.
_DOUBTS: Final = ("begin_ms", "end_ms", "said_by", "routed_reign")
#: In the place of a promise: what concludes from something that is missing, and may be wrong.
UNDECIDED: Final = "undecided"
#: A message: in the cluster, or for a process's own queues, with that process.
_MESSAGE: Final = ["owner", "fragment", "position"]
_ORDER: Final = ["batch", "place"]
_GONE: Final = ("delivered", "dropped", "dead_lettered", "acked", "settled")
#: What no finding tells.
_DROPPED: Final = (
    "positions", "redelivered", "numbers", "sequences", "tags", "from_positions", "at",
)  # fmt: skip
#: How many batches of a process are judged together for their order.
_BATCHES: Final = 64


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What may be as it is without being wrong."""

    #: How far clocks of two nodes may differ.
    skew_ms: int = 1_000
    #: At the end of the period: what may have happened, and is not in the trace yet.
    settle_ms: int = 5_000
    #: Only some positions are traced: what is missing says nothing of publishes.
    is_sampled: bool = False
    #: Queues that are not served in the order of positions, as those with priorities.
    unordered: tuple[str, ...] = ()


def deliveries_of(events: DataFrame) -> DataFrame:
    """A row for each delivery of a message of a queue; streams are read as often as one likes."""
    told = events.where((col("kind") == "delivered") & (col("reason") != "stream"))
    found = each_of(told, "positions", "position")
    marked = exists(
        col("redelivered"),
        lambda each: (each[0] <= col("position")) & (col("position") <= each[1]),
    )
    return found.withColumn("marked", coalesce(marked, lit(False))).withColumn(
        "at", struct(*_ORDER)
    )


def publishes_of(events: DataFrame) -> DataFrame:
    """A row for each publish that was routed to a queue, with the position that it got, or NULL.

    What was sent again after a failover got a second position; the later one counts.
    """
    routed = events.where((col("kind") == "routed") & col("from_positions").isNull()).select(
        "process", "connection", "channel", "owner", "vhost", "queue", "fragment", "node",
        "sequences", "numbers", "positions", col("ms").alias("routed_ms"),
        col("reign").alias("routed_reign"),
    )  # fmt: skip
    numbered = pairs_of(routed, "sequences", "numbers", ("sequence", "number"))
    enqueued = events.where(col("kind") == "enqueued").select(
        concat(col("origin"), lit("#"), col("origin_incarnation")).alias("process"),
        "fragment", "numbers", "positions", "reign", "batch", "place", "ms",
    )  # fmt: skip
    got = pairs_of(enqueued, "numbers", "positions", ("number", "position"))
    got = got.groupBy("process", "fragment", "number").agg(
        max_of(struct("position", "reign", "batch", "place", "ms")).alias("got")
    )
    found = numbered.join(got, ["process", "fragment", "number"], "left")
    # A process's own queues have positions at once.
    own = pairs_of(routed.where(col("numbers").isNull()), "sequences", "positions",
                   ("sequence", "position"))  # fmt: skip
    own = own.withColumn("got", struct(
        "position", lit(0).cast("bigint").alias("reign"), lit(0).cast("bigint").alias("batch"),
        lit(0).alias("place"), col("routed_ms").alias("ms"),
    )).withColumn("number", lit(None).cast("bigint"))  # fmt: skip
    columns = [
        "process", "connection", "channel", "sequence", "owner", "vhost", "queue", "fragment",
        "node", "number", "routed_ms", "routed_reign", "got",
    ]  # fmt: skip
    both = found.select(columns).unionByName(own.select(columns))
    return both.withColumn("position", col("got.position"))


def missing_in(
    events: DataFrame, publishes: DataFrame, tolerance: Tolerance, end_ms: int
) -> DataFrame:
    """P1: confirmed, and in no queue; or in a queue, never delivered, and not there any more.

    Findings, if nobody has seen the event that is missing (`confirmed_and_lost`), with the columns
    _DOUBTS: it would have been seen between `begin_ms` and `end_ms`, and not by `said_by`.
    """
    told = events.where((col("kind") == "confirmed") & (col("ms") <= end_ms - tolerance.settle_ms))
    confirmed = each_of(told, "sequences", "sequence").select(
        "process", "connection", "channel", "sequence", "ms"
    )
    deleted = events.where(col("kind") == "deleted").select("fragment").distinct()
    sure = publishes.join(confirmed, ["process", "connection", "channel", "sequence"])
    sure = sure.join(deleted, "fragment", "left_anti")
    # A queue has it already, from a publisher with a name (docs/adr/0078); or its fragment was
    # retired, and it went on to another one (docs/adr/0100).
    known = events.where((col("kind") == "refused") & col("reason").isin("duplicate", "retired"))
    known = each_of(known, "numbers", "number").select(
        concat(col("origin"), lit("#"), col("origin_incarnation")).alias("process"),
        "fragment", "number",
    ).distinct()  # fmt: skip
    never = sure.where(col("position").isNull())
    never = never.join(known, ["process", "fragment", "number"], "left_anti")
    if tolerance.is_sampled:
        never = never.where(lit(False))
    last = _last_standing(events, end_ms - tolerance.settle_ms)
    gone = events.where(col("kind").isin(*_GONE))
    gone = each_of(gone, "positions", "position").select(*_MESSAGE).distinct()
    there = each_of(last, "positions", "position").select(*_MESSAGE)
    later = (col("standing_reign") > col("got.reign")) | (
        (col("standing_reign") == col("got.reign"))
        & (struct("standing_batch", "standing_place") > struct("got.batch", "got.place"))
    )
    lost = (
        sure.where(col("position").isNotNull())
        .join(last.drop("positions"), ["owner", "fragment"])
        .where(later)
        .join(gone, _MESSAGE, "left_anti")
        .join(there, _MESSAGE, "left_anti")
    )
    # Nobody says that one is missing in all queues.
    never = never.withColumns(
        {"begin_ms": col("routed_ms"), "end_ms": col("ms"), "said_by": lit("")}
    )
    lost = lost.withColumns({
        "begin_ms": col("got.ms"), "end_ms": col("standing_ms"), "said_by": col("standing_by"),
        "routed_reign": lit(0).cast("bigint"),
    })  # fmt: skip
    return _findings(never, "P1", "confirmed, in no queue", concat(
        lit("confirmed at "), _time("ms"), lit(" as publish "), _publish(),
        lit(", and taken by no queue"),
    ), _DOUBTS).unionByName(_findings(lost, "P1", "confirmed, never delivered", concat(
        lit("confirmed at "), _time("ms"), lit(" as publish "), _publish(),
        lit("; it was never delivered, dropped or settled, and the queue had it no more at "),
        _time("standing_ms"),
    ), _DOUBTS))  # fmt: skip


def confirmed_and_lost(events: DataFrame, missing: DataFrame, tolerance: Tolerance) -> DataFrame:
    """P1: the findings of what is missing, and what is undecided of it.

    What a process may have seen that ended without a word refutes nothing.
    """
    sure, undecided = parted(missing, unheard_in(events, tolerance.skew_ms))
    columns = [col(name) for name in FINDING if name != "promise"]
    return sure.select(*FINDING).unionByName(
        undecided.select(lit(UNDECIDED).alias("promise"), *columns)
    )


def delivered_twice(deliveries: DataFrame, tolerance: Tolerance) -> DataFrame:
    """P2: delivered again without the mark."""
    unmarked = deliveries.where(~col("marked"))
    when_ = ["reign", "ms", "process", "batch", "place"]
    ranked = unmarked.withColumn(
        "_rank", row_number().over(Window.partitionBy(*_MESSAGE).orderBy(*when_))
    )
    again = ranked.where(col("_rank") > 1)
    # Or after one that had it, surely before.
    others = (
        deliveries.where(col("marked"))
        .groupBy(*_MESSAGE, col("process").alias("_process"))
        .agg(min_of("at").alias("_at"), min_of("ms").alias("_ms"), min_of("reign").alias("_reign"))
    )
    surely = (
        (col("_reign") < col("reign"))
        | ((col("process") == col("_process")) & (col("_at") < col("at")))
        | ((col("process") != col("_process")) & (col("_ms") + tolerance.skew_ms < col("ms")))
    )
    first = ranked.where(col("_rank") == 1).join(others, _MESSAGE).where(surely)
    columns = [name for name in first.columns if name not in ("_process", "_at", "_ms", "_reign")]
    found = again.unionByName(first.select(columns).distinct())
    return _findings(found, "P2", "delivered again, unmarked", concat(
        lit("delivered to "), _consumer(), lit(" at "), _time("ms"),
        lit(" without the mark, after another delivery of it"),
    ))  # fmt: skip


def acknowledged_and_back(
    events: DataFrame, deliveries: DataFrame, tolerance: Tolerance
) -> DataFrame:
    """P3: delivered after its acknowledgement was durable, by the same primary."""
    primaries = (
        events.where(col("kind").isin(*OF_PRIMARY))
        .select("owner", "fragment", "reign", col("node").alias("primary"))
        .distinct()
    )
    settled = events.where((col("kind") == "settled") & (col("reason") == "acked"))
    settled = _acks(each_of(settled, "positions", "position"))
    acked = _acks(each_of(events.where(col("kind") == "acked"), "positions", "position"))
    taken = _acks(deliveries.where(col("no_ack")))
    heard = settled.select(*_MESSAGE, "reign").distinct()
    by_node = acked.unionByName(taken)
    at_primary = by_node.join(primaries, ["owner", "fragment", "reign"], "left").where(
        (col("primary") == col("node")) | (col("fragment") < 0)
    )
    durable = (
        settled.unionByName(at_primary.select(settled.columns))
        .unionByName(by_node.join(heard, [*_MESSAGE, "reign"], "left_semi"))
        .groupBy(*_MESSAGE, "reign", col("process").alias("_process"))
        .agg(min_of("at").alias("_at"), min_of("ms").alias("_ms"))
    )
    after = ((col("process") == col("_process")) & (col("at") > col("_at"))) | (
        (col("process") != col("_process")) & (col("ms") > col("_ms") + tolerance.skew_ms)
    )
    found = deliveries.join(durable, [*_MESSAGE, "reign"]).where(after)
    columns = [name for name in deliveries.columns if name not in _DROPPED]
    found = found.groupBy(*columns).agg(min_of("_ms").alias("_ms"))
    return _findings(found, "P3", "acknowledged, and back", concat(
        lit("delivered to "), _consumer(), lit(" at "), _time("ms"),
        lit(", though it was acknowledged at "), _time("_ms"),
    ))  # fmt: skip


def enqueued_out_of_order(publishes: DataFrame) -> DataFrame:
    """P4: a channel's messages got positions in another order than it published them."""
    rows = publishes.where(col("position").isNotNull())
    rows = rows.withColumn("block", (col("sequence") / 4_096).cast("bigint"))
    group = ["process", "connection", "channel", "owner", "fragment"]
    found = out_of_order(rows, group, "block", ["sequence"], "position")
    found = found.withColumn("ms", col("routed_ms"))
    return _findings(found, "P4", "enqueued out of order", concat(
        lit("publish "), _publish(), lit(" is before position "), _position("before"),
        lit(", which an earlier publish of its channel has"),
    ))  # fmt: skip


def delivered_out_of_order(deliveries: DataFrame, tolerance: Tolerance) -> DataFrame:
    """P4: a consumer got a message after one that stands behind it, the first time."""
    rows = deliveries.where(~col("marked"))
    if tolerance.unordered:
        rows = rows.where(~col("queue").isin(*tolerance.unordered))
    rows = rows.withColumn("block", (col("batch") / _BATCHES).cast("bigint"))
    group = ["process", "connection", "channel", "consumer", "owner", "fragment"]
    found = out_of_order(rows, group, "block", [*_ORDER, "position"], "position")
    return _findings(found, "P4", "delivered out of order", concat(
        lit("delivered to "), _consumer(), lit(" at "), _time("ms"), lit(", after position "),
        _position("before"),
    ))  # fmt: skip


def _last_standing(events: DataFrame, end_ms: int) -> DataFrame:
    """The last whole list of what each fragment holds."""
    told = events.where(
        (col("kind") == "standing") & (col("reason") != "cut") & (col("ms") <= end_ms)
    )
    newest = Window.partitionBy("owner", "fragment").orderBy(
        col("reign").desc(), col("batch").desc(), col("place").desc()
    )
    ranked = told.withColumn("_rank", row_number().over(newest)).where(col("_rank") == 1)
    return ranked.select(
        "owner", "fragment", "positions", col("reign").alias("standing_reign"),
        col("batch").alias("standing_batch"), col("place").alias("standing_place"),
        col("ms").alias("standing_ms"), col("process").alias("standing_by"),
    )  # fmt: skip


def _acks(rows: DataFrame) -> DataFrame:
    return rows.select(*_MESSAGE, "reign", "node", "process", "ms", struct(*_ORDER).alias("at"))


def _findings(
    rows: DataFrame, promise: str, rule: str, text: Column, further: Sequence[str] = ()
) -> DataFrame:
    named = rows.withColumn("promise", lit(promise)).withColumn("rule", lit(rule))
    return named.withColumn("text", text).select(*FINDING, *further)


def _time(name: str) -> Column:
    return date_format(timestamp_millis(col(name)), "HH:mm:ss.SSS")


def _publish() -> Column:
    return concat(
        col("sequence"), lit(" of channel "), col("channel"), lit(" of connection "),
        col("connection"), lit(" at "), col("node"),
    )  # fmt: skip


def _consumer() -> Column:
    tag = col("consumer")
    who = when(tag == "", lit("basic.get")).otherwise(concat(lit("consumer "), tag))
    return concat(
        who, lit(" (channel "), col("channel"), lit(" of connection "), col("connection"),
        lit(" at "), col("node"), lit(")"),
    )  # fmt: skip


def _position(name: str) -> Column:
    """A position as reign and number in it."""
    return expr(f"concat(shiftright({name}, 40), '.', {name} & {(1 << 40) - 1}L)")
