"""Columns of a chunk as an Arrow batch: the form in which rows go to Spark.

Input: `Columns`. Output: a `pyarrow.RecordBatch` with the schema `SCHEMA`, which is that of `DDL`
in Spark. What many rows share is made once, and taken for each of them by Arrow.
"""

from array import array
from typing import Final

import pyarrow as pa

from fedq.pipeline.columns import PROPERTIES, Columns

#: The schema in Spark's words.
DDL: Final = (
    "fragment INT, offset BIGINT, timestamp TIMESTAMP, exchange STRING, routing_key STRING, "
    "body BINARY, properties STRUCT<content_type: STRING, content_encoding: STRING, "
    "delivery_mode: INT, priority: INT, correlation_id: STRING, reply_to: STRING, "
    "expiration: STRING, message_id: STRING, timestamp: TIMESTAMP, type: STRING, user_id: STRING, "
    "app_id: STRING, cluster_id: STRING>, headers MAP<STRING, STRING>"
)
_TIME: Final = pa.timestamp("us", tz="UTC")
_NUMBERS: Final = ("delivery_mode", "priority")
_US_PER_SECOND: Final = 1_000_000


def _type_of(name: str) -> pa.DataType:
    if name == "timestamp":
        return _TIME
    return pa.int32() if name in _NUMBERS else pa.string()


_PROPERTY_FIELDS: Final = [pa.field(name, _type_of(name)) for name in PROPERTIES]
_HEADERS: Final = pa.map_(pa.string(), pa.string())
SCHEMA: Final = pa.schema([
    ("fragment", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", _TIME),
    ("exchange", pa.string()),
    ("routing_key", pa.string()),
    ("body", pa.binary()),
    ("properties", pa.struct(_PROPERTY_FIELDS)),
    ("headers", _HEADERS),
])  # fmt: skip


def batch_of(columns: Columns) -> pa.RecordBatch:
    """The rows of a chunk."""
    fronts, count = columns.fronts, len(columns.offsets)
    which = _numbers(columns.front_of, pa.int32())
    exchanges = pa.array([front.exchange for front in fronts], pa.string())
    keys = pa.array([front.routing_key for front in fronts], pa.string())
    headers = pa.array(
        [None if front.headers is None else list(front.headers.items()) for front in fronts],
        _HEADERS,
    )
    arrays = [
        _numbers(array("i", (columns.fragment,)) * count, pa.int32()),
        _numbers(columns.offsets, pa.int64()),
        _numbers(columns.came_us, _TIME) if columns.came_us else pa.nulls(count, _TIME),
        exchanges.take(which),
        keys.take(which),
        pa.array(columns.bodies, pa.binary()),
        _properties(columns).take(which),
        headers.take(which),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _properties(columns: Columns) -> pa.StructArray:
    """The properties of the fronts."""
    arrays: list[pa.Array] = []
    for index, field in enumerate(_PROPERTY_FIELDS):
        values = [front.properties[index] for front in columns.fronts]
        if field.type == _TIME:
            values = [None if each is None else int(each) * _US_PER_SECOND for each in values]
        arrays.append(pa.array(values, field.type))
    return pa.StructArray.from_arrays(arrays, fields=_PROPERTY_FIELDS)


def _numbers(values: "array[int]", kind: pa.DataType) -> pa.Array:
    """Numbers where they are, not copied one by one."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
