"""The writers of the data source `fedq` of Spark (docs/adr/0081).

Made on the driver, where all that can be wrong with what was asked is said; `write` runs in
executors, once for each attempt of a task. A task is done when all of its rows are confirmed, so
there is nothing left for a commit.
"""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from fedq.pipeline.failure import PipelineError
from fedq.pipeline.sink.arrow_rows import RowReader
from fedq.pipeline.sink.connection import ConnectionLost
from fedq.pipeline.sink.options import Column, WriteOptions, check_columns, write_options
from fedq.pipeline.sink.task import Part, openers_of, publish_rows

#: Which batch of which query a task works for, in the words of Spark.
_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"


@dataclass
class Published(WriterCommitMessage):
    """What a task says when all of its rows are confirmed."""

    rows: int


class FedqWriter(DataSourceArrowWriter):
    """Publishes the rows of a batch job."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        """Raises OptionError, or PipelineError if no node lets this user publish there."""
        self._options = write_options(options, is_streaming=False)
        check_columns(_columns(schema), self._options)
        self._job = self._options.publisher or uuid.uuid4().hex
        _look_at_nodes(self._options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publishes a partition, in an executor."""
        return _publish(self._options, Part(self._job, 0, _partition()), iterator)


class FedqStreamWriter(DataSourceStreamArrowWriter):
    """Publishes the rows of a streaming query; made anew for each of its batches."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        """Raises OptionError."""
        self._options = write_options(options, is_streaming=True)
        check_columns(_columns(schema), self._options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publishes a partition of a batch, in an executor."""
        context = _context()
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        if not query or not batch or not batch.isdecimal():
            raise PipelineError(
                f"this release of Spark does not tell tasks their batch ({_QUERY}, {_BATCH}): "
                "PySpark 4.2 and 4.3 do"
            )
        part = Part(query, int(batch), _partition(), is_streaming=True)
        return _publish(self._options, part, iterator)


def _publish(
    options: WriteOptions, part: Part, iterator: Iterator[pa.RecordBatch]
) -> WriterCommitMessage:
    return Published(publish_rows(RowReader(options).rows(iterator), options, part))


def _partition() -> int:
    return int(_context().partitionId())


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "Spark runs this in a task"
    return context


def _look_at_nodes(options: WriteOptions) -> None:
    """Raises PipelineError unless some node lets the user in, and has the exchange."""
    reasons: list[str] = []
    for opener in openers_of(options):
        try:
            with closing(opener()) as connection:
                if options.exchange:
                    connection.check_exchange(options.exchange)
                return
        except ConnectionLost as lost:
            reasons.append(str(lost))
    raise PipelineError(f"no node answers: {'; '.join(reasons)}")


def _columns(schema: StructType) -> list[Column]:
    """The columns as `sink.options` looks at them."""
    found: list[Column] = []
    for field in schema.fields:
        kind = field.dataType
        fields = tuple(_columns(kind)) if isinstance(kind, StructType) else ()
        found.append(Column(field.name, kind.simpleString(), fields))
    return found
