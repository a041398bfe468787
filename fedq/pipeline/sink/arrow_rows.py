"""Rows in Arrow batches, as Spark hands them to a task, as fronts and bodies.

Input: record batches with the columns that `sink.options` allows. Output: rows, those that follow
each other with the same front together. What is NULL is what the options say, or nothing; a body
that is NULL is a `PipelineError`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from fedq.amqp.values import TableValue
from fedq.pipeline.failure import PipelineError
from fedq.pipeline.sink.encoding import Front, front_of
from fedq.pipeline.sink.options import WriteOptions
from fedq.pipeline.sink.ordering import Rows, by_front

#: Different fronts that are remembered.
_FRONTS_MAX: Final = 16_384
_PERSISTENT: Final = 2


class RowReader:
    """Takes batches apart; remembers the fronts it has seen."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        #: By the values of all columns but the body.
        self._fronts: dict[tuple[object, ...], Front] = {}

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Rows]:
        """The rows of all batches; raises PipelineError."""
        for batch in batches:
            if batch.num_rows:
                yield from self._rows(batch)

    def _rows(self, batch: pa.RecordBatch) -> Iterator[Rows]:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        body = columns.pop("body")
        if body.null_count:
            raise PipelineError("a row's body is NULL: what is published is bytes or text")
        if not pa.types.is_binary(body.type):
            body = body.cast(pa.binary())
        bodies: list[bytes] = body.to_pylist()
        names, values = _values(columns)
        if not names:
            yield Rows(self._front((), ()), bodies)
            return
        fronts = self._fronts.get
        yield from by_front(
            (fronts(each) or self._front(names, each) for each in zip(*values, strict=True)), bodies
        )

    def _front(self, names: Sequence[str], values: tuple[Any, ...]) -> Front:
        """The front of rows with these values; as `exchange`, `properties.type`."""
        known = self._fronts.get(values)
        if known is not None:
            return known
        options = self._options
        given = {
            name: value for name, value in zip(names, values, strict=True) if value is not None
        }
        exchange = given.pop("exchange", options.exchange)
        key = given.pop("routing_key", options.routing_key)
        entries = given.pop("headers", None)
        properties: dict[str, TableValue] = {
            name.removeprefix("properties."): value for name, value in given.items()
        }
        if options.is_persistent:
            properties.setdefault("delivery_mode", _PERSISTENT)
        headers = None if entries is None else dict(entries)
        front = front_of(exchange, key, properties, headers)
        if len(self._fronts) >= _FRONTS_MAX:
            self._fronts.clear()
        self._fronts[values] = front
        return front


def _values(columns: dict[str, Any]) -> tuple[list[str], list[Sequence[object]]]:
    """The columns beside the body, one for each property, with values that can be compared."""
    names: list[str] = []
    values: list[Sequence[object]] = []
    for name, column in columns.items():
        if name == "properties":
            fields = [column.type.field(index).name for index in range(column.type.num_fields)]
            for field, part in zip(fields, column.flatten(), strict=True):
                names.append(f"{name}.{field}")
                values.append(_seconds(part) if field == "timestamp" else part.to_pylist())
        elif name == "headers":
            names.append(name)
            values.append([
                None if each is None else tuple(each) for each in column.to_pylist()
            ])  # fmt: skip
        else:
            names.append(name)
            values.append(column.to_pylist())
    return names, values


def _seconds(column: Any) -> Sequence[object]:
    """Times in whole seconds since 1970."""
    whole = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    return [None if each is None else each // 1_000_000 for each in whole.to_pylist()]
