"""Publishes rows of an archive again, in their order, at a rate; goes on where it was.

Inputs: a session, a selection, a rate. Outputs: how many messages are confirmed, and how many
reached no queue. The order is that of time; within a fragment, that of offsets.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql.functions import col, concat, lit, struct, unix_micros, when
from pyspark.sql.functions import max as max_of

from fedq.pipeline.columns import PROPERTIES
from fedq.pipeline.failure import OptionError
from fedq.pipeline.jobs.archive.layout import JOB as ARCHIVE
from fedq.pipeline.jobs.archive.layout import is_within, table_path
from fedq.pipeline.jobs.kit.directory import claim, expect, held
from fedq.pipeline.jobs.kit.output import PAGE, RESULT, write_page, write_result
from fedq.pipeline.jobs.kit.progress import Progress, Watch
from fedq.pipeline.jobs.kit.snapshot import Snapshot, TableFile, load
from fedq.pipeline.jobs.kit.table import read_files
from fedq.pipeline.jobs.replay.page import page_of
from fedq.pipeline.jobs.replay.publisher import PUBLISHER, SEQUENCE, Message, Publisher
from fedq.pipeline.jobs.replay.selection import (
    EXAMPLES_MAX,
    JOB,
    Done,
    Place,
    Selection,
    begin,
    pattern_of,
    save,
)

#: What a partition of a sorted hour has, about: the driver holds one or two.
_PART_BYTES: Final = 32 * 1024 * 1024
_SAVE_EVERY_S: Final = 1.0
#: A property that only its own user may set, and headers that mean something as arrays.
_LEFT_OUT: Final = ("user_id",)
_HEADERS_LEFT_OUT: Final = ("CC", "BCC", PUBLISHER, SEQUENCE)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """How an archive is replayed."""

    directory: Path
    wanted: Selection
    urls: tuple[str, ...]
    #: Messages per second; None: as fast as they are confirmed.
    rate: float | None = None
    retry_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay did."""

    publisher: str
    #: By this run, and by all.
    published: int
    confirmed: int
    unroutable: int
    unroutable_keys: tuple[str, ...]
    finished: bool

    def as_json(self) -> dict[str, Any]:
        """The form for scripts."""
        return asdict(self)


def prepare(plan: ReplayPlan) -> Snapshot:
    """Sees that there is something to replay, and where to; raises OptionError."""
    wanted = plan.wanted
    expect(Path(wanted.archive), ARCHIVE)
    snapshot = load(table_path(Path(wanted.archive), wanted.stream))
    if not snapshot.files:
        raise OptionError(f"{wanted.archive} has no rows of stream {wanted.stream!r}")
    if not any(is_within(each, *wanted.bounds()) for each in snapshot.partitions()):
        hours = list(snapshot.partitions())
        raise OptionError(
            f"the range has no rows: those of {wanted.stream!r} are from {hours[0]} to {hours[-1]}"
        )
    pattern_of(wanted.keys)
    claim(plan.directory, JOB, {})
    begin(plan.directory, wanted, snapshot.next)
    return snapshot


def replay(spark: SparkSession, plan: ReplayPlan, watch: Watch) -> Replayed:
    """Publishes what is left of a replay."""
    snapshot = prepare(plan)
    with held(plan.directory):
        selection, done = begin(plan.directory, plan.wanted, snapshot.next)
        first = done.number + 1
        if not done.finished:
            with Publisher(plan.urls, selection.publisher, first, plan.retry_s) as publisher:
                run = _Run(plan, done, publisher, watch)
                try:
                    for place, message in _messages(spark, selection, snapshot, done.place):
                        run.publish(place, message)
                        if watch.stop.is_set():
                            break
                    publisher.finish()
                    run.finished = not watch.stop.is_set()
                finally:
                    done = run.save()
    found = Replayed(
        selection.publisher, done.number + 1 - first, done.number, done.unroutable,
        done.unroutable_keys, done.finished,
    )  # fmt: skip
    write_result(plan.directory / RESULT, found.as_json())
    write_page(plan.directory / PAGE, page_of(selection, done, time.time()))
    return found


class _Run:
    """The pace of a run, and what is known of how far it is."""

    def __init__(self, plan: ReplayPlan, before: Done, publisher: Publisher, watch: Watch) -> None:
        self._plan = plan
        self._before = before
        self._publisher = publisher
        self._watch = watch
        self._count = 0
        self._began_s = self._saved_s = time.monotonic()
        #: Places of messages that may not be confirmed yet, by number.
        self._places: dict[int, Place] = {}
        self._done = before
        self.finished = False

    def publish(self, place: Place, message: Message) -> None:
        """Publishes a message when it is due."""
        if self._plan.rate is not None:
            self._wait_for(self._began_s + self._count / self._plan.rate)
        self._places[self._publisher.publish(message)] = place
        self._count += 1
        if time.monotonic() - self._saved_s >= _SAVE_EVERY_S:
            self.save()

    def _wait_for(self, due_s: float) -> None:
        left_s = due_s - time.monotonic()
        if left_s > 0.01:
            self._publisher.flush()
            self._watch.stop.wait(left_s)

    def save(self) -> Done:
        """Writes down how far it is, tells it, and returns it."""
        number = self._publisher.confirmed
        place = self._places.get(number, self._done.place)
        self._places = {each: at for each, at in self._places.items() if each >= number}
        keys = dict.fromkeys((*self._before.unroutable_keys, *self._publisher.unroutable_keys))
        self._done = Done(
            number, place, self._before.unroutable + self._publisher.unroutable,
            tuple(keys)[:EXAMPLES_MAX], self.finished,
        )  # fmt: skip
        save(self._plan.directory, self._done)
        self._saved_s = time.monotonic()
        passed_s = self._saved_s - self._began_s
        rate = self._count / passed_s if passed_s else 0.0
        self._watch.report(Progress("publishing", number, 0, rate))
        return self._done


def _messages(
    spark: SparkSession, selection: Selection, snapshot: Snapshot, behind: Place
) -> Iterator[tuple[Place, Message]]:
    """The messages behind a place, in their order, an hour at a time."""
    for partition in snapshot.partitions():
        if partition < behind.partition or not is_within(partition, *selection.bounds()):
            continue
        after = behind if partition == behind.partition else Place()
        for row in _rows_of_hour(spark, selection, partition, after):
            place = Place(partition, row["time_us"], row["fragment"], row["offset"])
            yield place, message_of(row, selection.exchange)


def _rows_of_hour(
    spark: SparkSession, selection: Selection, partition: str, after: Place
) -> Iterator[Row]:
    """The rows of an hour behind a place, in their order, by the archive's snapshot of now.

    An archive that follows its stream deletes files that it has put together, a while later. Where
    some are gone that are being read, the rest is read from those that are in their place.
    """
    path = table_path(Path(selection.archive), selection.stream)
    while True:
        snapshot = load(path)
        files = snapshot.partitions().get(partition, [])
        try:
            for row in _sorted(read_files(spark, path, files), files, selection, after):
                yield row
                after = Place(partition, row["time_us"], row["fragment"], row["offset"])
            return
        except Exception as error:
            # Whatever Spark calls it: it is looked at what there is.
            are_here = all((path / each.path).exists() for each in files)
            if are_here or load(path).number == snapshot.number:
                raise
            logger.warning("files of %s were replaced while they were read: %s", partition, error)


def _sorted(
    rows: DataFrame, files: Sequence[TableFile], selection: Selection, after: Place
) -> Iterator[Row]:
    parts = max(1, -(-sum(each.size for each in files) // _PART_BYTES))
    order = ["time_us", "fragment", "offset"]
    rows = in_order(selected(rows, selection), after)
    found: Iterator[Row] = (
        rows.repartitionByRange(parts, *order).sortWithinPartitions(*order).toLocalIterator()
    )
    return found


def selected(rows: DataFrame, selection: Selection) -> DataFrame:
    """The rows of a selection."""
    begin_at, end_at = selection.bounds()
    if begin_at is not None:
        rows = rows.where(col("timestamp") >= lit(begin_at))
    if end_at is not None:
        rows = rows.where(col("timestamp") < lit(end_at))
    if selection.keys != "#":
        # An empty key has no words at all.
        key = col("routing_key")
        words = when(key == "", key).otherwise(concat(lit("."), key))
        rows = rows.where(words.rlike(pattern_of(selection.keys)))
    known = lit(False)
    for fragment, at in selection.through:
        known = known | ((col("fragment") == fragment) & (col("offset") < at))
    return rows.where(known)


def in_order(rows: DataFrame, after: Place) -> DataFrame:
    """The rows behind a place, with the time by which they are ordered.

    Times of a fragment may be a little off, its offsets never are: a row is no earlier than those
    before it.
    """
    before = (
        Window.partitionBy("fragment")
        .orderBy("offset")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    rows = rows.withColumn("time_us", max_of(unix_micros("timestamp")).over(before))
    if after == Place():
        return rows
    mine = struct(*(col(name).cast("long") for name in ("time_us", "fragment", "offset")))
    place = (after.time_us, after.fragment, after.offset)
    return rows.where(mine > struct(*(lit(each).cast("long") for each in place)))


def message_of(row: Row, exchange: str | None) -> Message:
    """A row as it is published again."""
    properties: dict[str, Any] = {}
    for name in PROPERTIES:
        value = row["properties"][name]
        if value is not None and name not in _LEFT_OUT:
            properties[name] = int(value.timestamp()) if name == "timestamp" else value
    headers = {
        name: value
        for name, value in (row["headers"] or {}).items()
        if name not in _HEADERS_LEFT_OUT
    }
    to = row["exchange"] if exchange is None else exchange
    return Message(to, row["routing_key"], properties, headers, bytes(row["body"]))
