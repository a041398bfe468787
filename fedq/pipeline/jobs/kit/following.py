"""A streaming query that appends each of its batches to a table, to its end or for ever.

Inputs: a table, a source, a function that makes of a batch the rows to append. The query begins
behind what the table has. Spark's checkpoint is beside the table's files; one that is gone is begun
anew, since the table knows what it has.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from fedq.pipeline.jobs.kit.progress import Progress, Watch
from fedq.pipeline.jobs.kit.source import Source
from fedq.pipeline.jobs.kit.table import Table, location

#: How often a query is asked how far it is.
_LOOK_S: Final = 1
CHECKPOINT: Final = "checkpoint"

#: The rows to append, made of those of a batch.
Make: TypeAlias = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class Pace:
    """How a query goes."""

    #: None: it ends with what is there when it begins; else a batch each so many seconds.
    every_s: float | None
    #: Rows of a batch at most.
    batch_rows: int
    #: While it follows: what is done now and then, and how often.
    upkeep: Callable[[], None] = lambda: None
    upkeep_every_s: float = 600.0


def follow(
    spark: SparkSession, source: Source, table: Table, make: Make, pace: Pace, watch: Watch,
    phase: str, of: int,
) -> int:  # fmt: skip
    """Runs the query; returns how many rows it appended. Raises what its batches raise."""
    appended = 0
    failed: list[Exception] = []
    began_s = kept_s = time.monotonic()

    def on_batch(batch: DataFrame, number: int) -> None:
        nonlocal appended, kept_s
        try:
            appended += table.append(make(table.fresh(batch)))
        except Exception as error:
            # Java gets few words of it: it searches them with patterns that a long text overflows.
            failed.append(error)
            raise RuntimeError("the batch has failed") from None
        if pace.every_s is not None and time.monotonic() - kept_s >= pace.upkeep_every_s:
            pace.upkeep()
            kept_s = time.monotonic()

    options = dict(source.options)
    if table.snapshot.next:
        options["startingOffsets"] = json.dumps(
            {str(n): at for n, at in table.snapshot.next.items()}
        )
        options.pop("startingTimestamp", None)
    options.setdefault("maxOffsetsPerTrigger", str(pace.batch_rows))
    if "startingTimestamp" not in options:
        options.setdefault("startingOffsets", "earliest")
    stream = spark.readStream.format("fedq").options(**options).load()
    trigger: dict[str, Any] = {"availableNow": True}
    if pace.every_s is not None:
        trigger = {"processingTime": f"{int(pace.every_s * 1_000)} milliseconds"}
    query = (
        stream.writeStream.foreachBatch(on_batch)
        .option("checkpointLocation", location(table.path / CHECKPOINT))
        .trigger(**trigger)
        .start()
    )
    told, read = Progress(phase, 0, of), dict[int, int]()
    try:
        while not query.awaitTermination(_LOOK_S) and not watch.stop.is_set():
            _tell(query, read, told, began_s, watch)
    except Exception:
        # What was asked to end may end in the middle of a batch: then that is not committed.
        if not watch.stop.is_set():
            if failed:
                raise failed[0] from None
            raise
    finally:
        query.stop()
    _tell(query, read, told, began_s, watch)
    return appended


def _tell(query: Any, read: dict[int, int], told: Progress, began_s: float, watch: Watch) -> None:
    """Reports how many rows a query has read; `read`: those of each batch that it told of."""
    read |= {each["batchId"]: each["numInputRows"] for each in query.recentProgress}
    rows = sum(read.values())
    passed_s = time.monotonic() - began_s
    watch.report(replace(told, rows=rows, rows_per_second=rows / passed_s))
