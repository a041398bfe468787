"""The data source `fedq` of Spark (docs/adr/0077): batches and streams of rows.

Spark finds it through the package `pyspark_fedq`. On the driver it plans offsets, in the executors
it reads them and makes Arrow batches. Everything that can be wrong with what was asked is said on
the driver, before the first row: an error in an executor's log is not one that people see.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from fedq.pipeline.arrow_batches import DDL, batch_of
from fedq.pipeline.columns import Decoder
from fedq.pipeline.failure import DataLossError, OptionError, PipelineError
from fedq.pipeline.options import ReadOptions, read_options
from fedq.pipeline.places import NodeUrl
from fedq.pipeline.planning import (
    FragmentState,
    Offsets,
    Span,
    available,
    ends,
    limited,
    spans,
    starts,
    times_in,
)
from fedq.pipeline.pushdown import (
    ALL_ROUTES,
    Condition,
    Routes,
    Wanted,
    narrowed,
    wanted_of,
)
from fedq.pipeline.queue_options import names_a_queue, read_queue_options
from fedq.pipeline.spark_queue import FedqQueueReader
from fedq.pipeline.spark_sink import FedqStreamWriter, FedqWriter
from fedq.pipeline.stream_client import Stream, StreamClient

#: The form of an offset in Spark's checkpoint.
_VERSION: Final = 1
#: The filters that nodes can look at, and fedq's words for them.
_Comparison: TypeAlias = (
    EqualTo | LessThan | LessThanOrEqual | GreaterThan | GreaterThanOrEqual | In | StringStartsWith
)
_KINDS: Final[Mapping[type[Filter], str]] = {
    EqualTo: "=", LessThan: "<", LessThanOrEqual: "<=", GreaterThan: ">",
    GreaterThanOrEqual: ">=", In: "in", StringStartsWith: "starts",
}  # fmt: skip


@dataclass
class SpanPartition(InputPartition):
    """A partition: rows of one fragment, and where nodes were when it was planned."""

    span: Span
    places: Mapping[str, NodeUrl]

    def __repr__(self) -> str:
        span = self.span
        return f"fragment {span.fragment}, offsets {span.begin} to {span.end - 1}"


class FedqSource(DataSource):
    """Streams of fedq as tables, and rows that are published."""

    @classmethod
    def name(cls) -> str:
        """The word for `format`."""
        return "fedq"

    def schema(self) -> str:
        """The columns: always the same."""
        return DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of a batch; raises OptionError."""
        if names_a_queue(self.options):
            read_queue_options(self.options, is_streaming=False)
        options = read_options(self.options, is_streaming=False)
        return FedqFilteringReader(options) if options.pushes_filters else FedqReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader of a streaming query; raises OptionError."""
        if names_a_queue(self.options):
            return FedqQueueReader(read_queue_options(self.options, is_streaming=True))
        return FedqStreamReader(read_options(self.options, is_streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer of a batch; raises PipelineError."""
        if overwrite:
            raise OptionError("mode: what is published stays published; say mode('append')")
        return FedqWriter(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """The writer of a streaming query; raises OptionError."""
        if overwrite:
            raise OptionError("outputMode: rows that were published stay; say append or update")
        return FedqStreamWriter(self.options, schema)


class FedqReader(DataSourceReader):
    """Reads what is there between two offsets of each fragment."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._wanted = Wanted()

    def partitions(self) -> Sequence[InputPartition]:
        """Plans the batch."""
        options, wanted = self._options, self._wanted
        with _client(options) as client:
            times = dict.fromkeys([*times_in(options.start, options.end), *wanted.times])
            states = client.describe(list(times))
            begins = starts(states, options.start, fails_on_loss=options.fails_on_loss)
            through = ends(states, options.end)
            begins, through = narrowed(states, begins, through, wanted)
            found = spans(states, begins, through, options.min_partitions)
            return [SpanPartition(span, dict(client.places)) for span in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads a part of it, in an executor."""
        return _read(self._options, partition, self._wanted.routes)


class FedqFilteringReader(FedqReader):
    """As `FedqReader`, and hears of the filters of the query.

    A class of its own: Spark refuses to use one that hears of filters unless it is configured so.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Takes what nodes can look at; Spark looks at all rows again."""
        self._wanted = wanted_of(map(_condition_of, filters))
        return filters


class FedqStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads on from where the query is; Spark's checkpoint says where that is."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        #: Where a query that takes what is available now is to end.
        self._target: Offsets | None = None
        self._client: StreamClient | None = None

    # Spark gives the methods their names.
    # ruff: noqa: N802

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins."""
        options = self._options
        states = self._describe(times_in(options.start))
        return _as_offset(starts(states, options.start, fails_on_loss=options.fails_on_loss))

    def getDefaultReadLimit(self) -> ReadLimit:
        """What one micro-batch may have."""
        rows = self._options.rows_per_trigger
        return ReadMaxRows(rows) if rows else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next micro-batch ends."""
        states = self._describe()
        begins = self._available(states, _from_offset(start))
        through = {state.number: state.next for state in states}
        if self._target is not None:
            target = self._target
            through = {
                number: max(begins[number], min(offset, target.get(number, offset)))
                for number, offset in through.items()
            }
        if isinstance(limit, ReadMaxRows):
            through = limited(states, begins, through, limit.max_rows)
        if not any(begins[number] < offset for number, offset in through.items()):
            # Else a batch without rows would be made of what retention has passed.
            return start
        return _as_offset(through)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Where the stream ends, for the query's progress."""
        return _as_offset({state.number: state.next for state in self._describe()})

    def prepareForTriggerAvailableNow(self) -> None:
        """What comes from now on is not for this run."""
        self._target = {state.number: state.next for state in self._describe()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plans a micro-batch, the same one again after a restart."""
        options, through = self._options, _from_offset(end)
        states = self._describe()
        begins = self._available(states, _from_offset(start))
        for state in states:
            through.setdefault(state.number, begins[state.number])
            if through[state.number] > state.next:
                raise DataLossError(
                    f"fragment {state.number} ends at {state.next}, before offset "
                    f"{through[state.number]}, up to which the query has planned: the stream seems "
                    "to be another one of that name"
                )
        found = spans(states, begins, through, options.min_partitions)
        places = dict(self._opened().places)
        return [SpanPartition(span, places) for span in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads a part of it, in an executor."""
        return _read(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: streams keep what was read, and the checkpoint says how far that is."""

    def stop(self) -> None:
        """Closes the driver's connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def __getstate__(self) -> dict[str, Any]:
        """What goes to executors: no connections."""
        return {**self.__dict__, "_client": None}

    def _opened(self) -> StreamClient:
        if self._client is None:
            self._client = _client(self._options)
        return self._client

    def _describe(self, times: Sequence[int] = ()) -> list[FragmentState]:
        return self._opened().describe(times)

    def _available(self, states: Sequence[FragmentState], begins: Offsets) -> Offsets:
        """Where the query goes on, behind what retention has passed if that is no error."""
        fails = self._options.fails_on_loss
        return {
            state.number: available(state, begins.get(state.number, state.first), fails)
            for state in states
        }


def _client(options: ReadOptions, routes: Routes = ALL_ROUTES) -> StreamClient:
    stream = Stream(
        options.vhost, options.stream, options.fails_on_loss, options.chunk_bytes,
        options.retry_s, routes,
    )  # fmt: skip
    return StreamClient(options.urls, options.tls, stream)


def _read(
    options: ReadOptions, partition: InputPartition, routes: Routes = ALL_ROUTES
) -> Iterator[pa.RecordBatch]:
    """The rows of a partition; none for the one that Spark makes up where there are none."""
    if not isinstance(partition, SpanPartition):
        return
    decoder = Decoder()
    with _client(options, routes) as client:
        client.places.update(partition.places)
        for chunk in client.read(partition.span):
            yield batch_of(decoder.columns(chunk))


def _condition_of(told: Filter) -> Condition:
    """A filter of Spark in fedq's words; one that means nothing to it has no kind."""
    if not isinstance(told, _Comparison):
        return Condition("", "", None)
    column = told.attribute[0] if len(told.attribute) == 1 else ""
    return Condition(column, _KINDS[type(told)], told.value)


def _as_offset(offsets: Offsets) -> dict[str, Any]:
    """How far a query is, as Spark keeps it."""
    return {"version": _VERSION, "offsets": {str(n): offsets[n] for n in sorted(offsets)}}


def _from_offset(offset: Mapping[str, Any]) -> Offsets:
    """An offset of a checkpoint, read back; raises PipelineError for one of a later release."""
    if offset.get("version") != _VERSION or not isinstance(offset.get("offsets"), dict):
        raise PipelineError(
            f"the checkpoint is of another release of fedq: version {offset.get('version')!r}"
        )
    return {int(number): int(at) for number, at in offset["offsets"].items()}
