"""Chunks of messages as columns, without any library.

Input: a chunk as it came (`fedq.pipeline.stream_client`), whose messages are encoded as nodes keep
them (`fedq.core.message`). Output: bodies one by one; and *fronts*, what stands before bodies: runs
of messages with the same route and properties are taken apart once. `PipelineError` for a chunk
that contradicts itself.

Text that is no UTF-8 has U+FFFD where it is none. A header's value is text: strings as they are,
anything else as JSON, in which bytes are base64, and decimals and times their text.
"""

import base64
import json
import math
import struct
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final, NamedTuple

from fedq.amqp.content import decode_properties
from fedq.amqp.values import TableValue, Timestamp
from fedq.core.errors import ConnectionViolation
from fedq.core.message import HEAD_SIZE, split_route
from fedq.pipeline.failure import PipelineError
from fedq.pipeline.stream_client import ReadChunk

#: The properties of AMQP but for the headers, in its order.
PROPERTIES: Final = (
    "content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "reply_to",
    "expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id",
)  # fmt: skip
#: The last second that calendars have a name for (year 9999).
_SECONDS_MAX: Final = 253_402_300_799
#: Different fronts that are remembered.
_FRONTS_MAX: Final = 1_024
_US_PER_MS: Final = 1_000


class Front(NamedTuple):
    """What stands before the body of a message."""

    exchange: str
    routing_key: str
    #: In the order of `PROPERTIES`; times in seconds since 1970.
    properties: tuple[str | int | None, ...]
    #: None: the message has no headers.
    headers: dict[str, str | None] | None


class Columns(NamedTuple):
    """The columns of a chunk."""

    fragment: int
    #: Of each row: its offset, and when it came, in Unix microseconds; none, if that is not known.
    offsets: "array[int]"
    came_us: "array[int]"
    bodies: list[bytes]
    #: Fronts that follow each other, and for each row which of them it has.
    fronts: list[Front]
    front_of: "array[int]"


class Decoder:
    """Takes chunks apart; remembers the fronts it has seen."""

    def __init__(self) -> None:
        self._known: dict[bytes, Front] = {}

    def columns(self, chunk: ReadChunk) -> Columns:
        """The columns of a chunk; raises PipelineError."""
        offsets = array("q")
        for first, last in chunk.ranges:
            offsets.extend(range(first, last + 1))
        if len(chunk.lengths) != 4 * len(offsets):
            raise PipelineError("a chunk has not as many lengths as offsets")
        lengths = struct.unpack(f">{len(offsets)}I", chunk.lengths)
        if sum(lengths) != len(chunk.data):
            raise PipelineError("a chunk has not as many bytes as its lengths say")
        fronts, front_of, bodies = self._apart(lengths, chunk.data)
        came = array("q") if chunk.times is None else _came(offsets, chunk.times)
        return Columns(chunk.fragment, offsets, came, bodies, fronts, front_of)

    def _apart(
        self, lengths: Sequence[int], data: bytes
    ) -> "tuple[list[Front], array[int], list[bytes]]":
        """The fronts, which of them each message has, and the bodies."""
        fronts: list[Front] = []
        counts: list[int] = []
        bodies: list[bytes] = []
        starts_with, add = data.startswith, bodies.append
        front, size, count, at = b"", 0, 0, 0
        for length in lengths:
            end = at + length
            if not count or not starts_with(front, at):
                if count:
                    counts.append(count)
                    count = 0
                size = _front_size(data, at, length)
                front = data[at : at + size]
                fronts.append(self._front(front))
            add(data[at + size : end])
            count += 1
            at = end
        if count:
            counts.append(count)
        front_of = array("i")
        for index, each in enumerate(counts):
            front_of.extend(array("i", (index,)) * each)
        return fronts, front_of, bodies

    def _front(self, front: bytes) -> Front:
        known = self._known.get(front)
        if known is None:
            if len(self._known) >= _FRONTS_MAX:
                self._known = {}
            known = self._known[front] = _decoded(front)
        return known


def _front_size(data: bytes, at: int, length: int) -> int:
    """The bytes before a message's body."""
    size = HEAD_SIZE
    if length >= size:
        size += (data[at + 1] << 8 | data[at + 2]) + int.from_bytes(data[at + 3 : at + 7], "big")
    if size > length or size < HEAD_SIZE + 4:
        raise PipelineError("a message in a chunk is shorter than its own head says")
    return size


def _decoded(front: bytes) -> Front:
    properties_at = HEAD_SIZE + (front[1] << 8 | front[2])
    try:
        exchange, key = split_route(front[HEAD_SIZE:properties_at])
        found = decode_properties(front[properties_at:])
    except (ConnectionViolation, ValueError, IndexError) as error:
        raise PipelineError(f"a message in a chunk cannot be read: {error}") from error
    headers = found.get("headers")
    values = {name: _property(name, value) for name, value in found.items() if name != "headers"}
    return Front(
        _text(exchange),
        _text(key),
        tuple(values.get(name) for name in PROPERTIES),
        _headers(headers) if isinstance(headers, dict) else None,
    )


def _property(name: str, value: TableValue) -> str | int | None:
    if isinstance(value, str):
        return _text(value)
    assert isinstance(value, int), "a property is text or a number"
    return None if name == "timestamp" and value > _SECONDS_MAX else value


def _headers(table: dict[str, TableValue]) -> dict[str, str | None]:
    return {_text(name): _header(value) for name, value in table.items()}


def _header(value: TableValue) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return _text(value)
    plain = _plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain, separators=(",", ":"))


def _plain(value: TableValue) -> object:
    """The value in types that JSON has."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Timestamp):
        if value > _SECONDS_MAX:
            return int(value)
        return datetime.fromtimestamp(value, UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {_text(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value


def _text(value: str) -> str:
    """Text without the surrogates that stand for bytes which are no UTF-8."""
    if value.isascii():
        return value
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _came(offsets: "array[int]", times: Sequence[tuple[int, int]]) -> "array[int]":
    """When each row came, in microseconds: a time holds from its offset on."""
    came = array("q")
    if not times or not offsets or times[0][0] > offsets[0]:
        raise PipelineError("a chunk does not say when its messages came")
    index, count = 0, len(offsets)
    for number, (_, unix_ms) in enumerate(times):
        behind = times[number + 1][0] if number + 1 < len(times) else None
        end = count if behind is None else bisect_left(offsets, behind, index)
        came.extend(array("q", (unix_ms * _US_PER_MS,)) * (end - index))
        index = end
    return came
