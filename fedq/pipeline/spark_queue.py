"""Queues of fedq as streaming tables of Spark, each message once (docs/adr/0107).

The driver has batches reserved, in the executors they are read, and when Spark has committed one it
leaves the queue. How far a query is, as numbers of batches by fragment, is in Spark's checkpoint.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from fedq.core.limits import RESERVED_AT_ONCE_MAX
from fedq.pipeline.arrow_batches import batch_of
from fedq.pipeline.columns import Decoder
from fedq.pipeline.failure import PipelineError
from fedq.pipeline.places import NodeUrl
from fedq.pipeline.queue_client import QueueClient, Reserved
from fedq.pipeline.queue_options import QueueOptions

#: The form of an offset in Spark's checkpoint.
_VERSION: Final = 1


@dataclass
class ReservedPartition(InputPartition):
    """A partition: what is reserved of one fragment, and where nodes were when it was planned."""

    wanted: Reserved
    homes: Mapping[int, str]
    places: Mapping[str, NodeUrl]

    def __repr__(self) -> str:
        wanted = self.wanted
        return f"fragment {wanted.fragment}, batches {wanted.after + 1} to {wanted.through}"


class FedqQueueReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Has messages of a queue reserved, and settles them once they are committed."""

    def __init__(self, options: QueueOptions) -> None:
        self._options = options
        #: Tells this run of the query from others that have its name.
        self._instance = uuid.uuid4().hex
        #: Of a query that takes what is available now: how many messages it may take still.
        self._left: dict[int, int] | None = None
        #: What this run has settled.
        self._settled: dict[int, int] = {}
        self._client: QueueClient | None = None

    # Spark gives the methods their names.
    # ruff: noqa: N802

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins; raises PipelineError if the queue cannot be read."""
        self._opened().describe()
        return self._as_offset({})

    def getDefaultReadLimit(self) -> ReadLimit:
        """What one micro-batch may have."""
        return ReadMaxRows(self._options.rows_per_trigger)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Has the next micro-batch reserved; `start` is committed, Spark asks for no other one."""
        client, after = self._opened(), self._from_offset(start)
        parts = client.describe()
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.rows_per_trigger
        through: dict[int, int] = {}
        is_new = False
        for index, part in enumerate(parts):
            number, begin = part.fragment, after.get(part.fragment, 0)
            through[number] = begin
            # Each has its share of what is left.
            most = min(-(-rows // (len(parts) - index)), RESERVED_AT_ONCE_MAX)
            if self._left is not None:
                most = min(most, self._left.get(number, 0))
            if most <= 0:
                continue
            through[number], count = client.reserve(number, begin, most)
            is_new = is_new or count > 0
            rows -= min(rows, count)
            if self._left is not None:
                self._left[number] -= count
        return self._as_offset(through) if is_new else start

    def prepareForTriggerAvailableNow(self) -> None:
        """Takes so many messages as there are now, and no more in this run."""
        self._left = {part.fragment: part.messages for part in self._opened().describe()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The parts of a micro-batch, the same ones again after a restart."""
        client, after = self._opened(), self._from_offset(start)
        client.describe()
        homes, places = dict(client.homes), dict(client.places)
        return [
            ReservedPartition(Reserved(number, after.get(number, 0), through), homes, places)
            for number, through in self._from_offset(end).items()
            if after.get(number, 0) < through
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads a part of it, in an executor; none of the one that Spark makes up without rows."""
        if not isinstance(partition, ReservedPartition):
            return
        decoder = Decoder()
        with QueueClient(self._options) as client:
            client.homes.update(partition.homes)
            client.places.update(partition.places)
            for chunk in client.read(partition.wanted):
                yield batch_of(decoder.columns(chunk))

    def commit(self, end: dict[str, Any]) -> None:
        """Lets what Spark has committed leave the queue."""
        client = self._opened()
        here = {part.fragment for part in client.describe()}
        for number, through in self._from_offset(end).items():
            # One that was retired was empty, so all was settled.
            if number in here and self._settled.get(number, 0) < through:
                client.settle(number, through)
                self._settled[number] = through

    def stop(self) -> None:
        """Closes the driver's connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def __getstate__(self) -> dict[str, Any]:
        """What goes to executors: no connections."""
        return {**self.__dict__, "_client": None}

    def _opened(self) -> QueueClient:
        if self._client is None:
            self._client = QueueClient(self._options, self._instance)
        return self._client

    def _as_offset(self, through: Mapping[int, int]) -> dict[str, Any]:
        """How far the query is, as Spark keeps it."""
        batches = {str(number): through[number] for number in sorted(through)}
        return {"version": _VERSION, "reader": self._options.reader, "batches": batches}

    def _from_offset(self, offset: Mapping[str, Any]) -> dict[int, int]:
        """An offset of a checkpoint, read back; raises PipelineError for another query's."""
        if offset.get("version") != _VERSION or not isinstance(offset.get("batches"), dict):
            raise PipelineError(
                "the checkpoint is not one of a queue, or of another release of fedq: version "
                f"{offset.get('version')!r}"
            )
        if offset.get("reader") != self._options.reader:
            raise PipelineError(
                f"readerName: the checkpoint is of the reader {offset.get('reader')!r}: numbers "
                "of its batches mean nothing to another one"
            )
        return {int(number): int(at) for number, at in offset["batches"].items()}
