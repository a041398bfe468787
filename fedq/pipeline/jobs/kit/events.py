"""Events of a trace as a table: what audits and plans are functions of.

A row is an event of a run (docs/adr/0079 says what each kind means). Its columns are the names of
the trace's own form; *ranges* are arrays of [first, last], both included.

    node, incarnation      the process that saw it
    batch, place           its order: events of a process are in the order of these two
    kind, ms, vhost, queue, fragment, reign, origin, origin_incarnation, connection, channel,
    user, confirms, exchange, routing_key, consumer, no_ack, reason, amount, from_fragment
    positions, redelivered, numbers, sequences, tags, from_positions        ranges

`events_of` makes them of the rows of a trace's stream; any other maker will do as well. What an
event does not say is NULL.
"""

from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, decode, expr, from_json, posexplode, split

from fedq.pipeline.failure import OptionError
from fedq.pipeline.jobs.kit.source import Source

_RANGES: Final = "ARRAY<ARRAY<BIGINT>>"
_EVENT: Final = (
    "kind STRING, ms BIGINT, vhost STRING, queue STRING, fragment BIGINT, reign BIGINT, "
    "origin STRING, origin_incarnation BIGINT, connection BIGINT, channel BIGINT, user STRING, "
    "confirms BOOLEAN, exchange STRING, routing_key STRING, consumer STRING, no_ack BOOLEAN, "
    "reason STRING, amount BIGINT, from_fragment BIGINT, "
    f"positions {_RANGES}, redelivered {_RANGES}, numbers {_RANGES}, sequences {_RANGES}, "
    f"tags {_RANGES}, from_positions {_RANGES}"
)
#: The columns of a table of events.
SCHEMA: Final = f"node STRING, incarnation BIGINT, batch BIGINT, place INT, {_EVENT}"
_HEAD: Final = "fedq_trace INT, trace STRING, node STRING, incarnation BIGINT, batch BIGINT"
#: The form of a trace that is known here.
_VERSION: Final = 1


def events_of(rows: DataFrame) -> DataFrame:
    """The events in the rows of a trace's stream; what is no batch of a trace is left out."""
    lines = rows.select(split(decode("body", "utf-8"), "\n").alias("lines"))
    heads = lines.select(from_json(expr("lines[0]"), _HEAD).alias("head"), "lines")
    batches = heads.where((col("head.fedq_trace") == _VERSION) & col("head.node").isNotNull())
    told = batches.select("head", posexplode(expr("slice(lines, 2, size(lines))")))
    events = told.select(
        col("head.node"), col("head.incarnation"), col("head.batch"), col("pos").alias("place"),
        from_json("col", _EVENT).alias("event"),
    )  # fmt: skip
    return events.select("node", "incarnation", "batch", "place", "event.*").where(
        col("kind").isNotNull()
    )


def trace_rows(
    spark: SparkSession, source: Source, begin: datetime | None, end: datetime | None
) -> DataFrame:
    """The rows of a trace's stream in a range of time."""
    options = dict(source.options)
    for name, at in (("startingTimestamp", begin), ("endingTimestamp", end)):
        if at is not None:
            options[name] = str(int(at.timestamp() * 1_000))
    return spark.read.format("fedq").options(**options).load().select("body")


def refuse_strangers(rows: DataFrame, stream: str) -> None:
    """Raises OptionError if some rows are no batches of a trace."""
    if strangers := strangers_in(rows):
        raise OptionError(
            f"stream {stream!r} has {strangers:,} messages that are no trace of this form: name "
            "the stream of a trace, as fedq.trace.NAME"
        )


def strangers_in(rows: DataFrame) -> int:
    """How many rows are no batches of a trace that is known here."""
    first = from_json(expr("split(decode(body, 'utf-8'), '\n')[0]"), _HEAD)
    known = rows.select(first.alias("head"))
    return int(known.where(
        col("head.fedq_trace").isNull() | (col("head.fedq_trace") != _VERSION)
    ).count())  # fmt: skip
