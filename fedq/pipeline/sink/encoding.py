"""Rows as publishes: bytes for a connection, made once for all that rows share.

Input: *fronts* (where a row goes, and its properties) and bodies. Output: blocks of frames. What
stands before and behind a row's number and body is the same for all rows of one front and one
size; it is kept, and a row costs a join. Whatever a row cannot say in AMQP is a `PipelineError`.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from fedq.amqp.content import encode_properties
from fedq.amqp.frames import frame
from fedq.amqp.method_coding import encode_method
from fedq.amqp.method_types import BasicPublish
from fedq.amqp.spec import END, FRAME_BODY, FRAME_HEADER, FRAME_OVERHEAD, HEADER_IDS
from fedq.amqp.strings import encode_short_string
from fedq.amqp.values import TableValue, encode_value
from fedq.core.limits import BODY_BYTES_MAX, PROPERTIES_BYTES_MAX
from fedq.pipeline.failure import PipelineError

#: The channel of the one connection that publishes.
CHANNEL: Final = 1
#: The headers of named publishers.
PUBLISHER: Final = "x-fedq-publisher"
SEQUENCE: Final = "x-fedq-sequence"
#: Ends of rows that are remembered for one front.
_SIZES_MAX: Final = 256

_HEADER: Final = struct.Struct(">IQ")
_FRAME_HEAD: Final = struct.Struct(">BHI")
_SHORT_BITS: Final = (0x8000, 0x4000)
_HEADERS_BIT: Final = 0x2000
_U32: Final = struct.Struct(">I")
_pack_sequence: Final = struct.Struct(">q").pack


class Front(NamedTuple):
    """What stands before the body of a row: its route, and its property list on the wire."""

    exchange: str
    routing_key: str
    properties: bytes

    @property
    def route(self) -> tuple[str, str]:
        """Where the row goes."""
        return self.exchange, self.routing_key


def front_of(
    exchange: str, routing_key: str, properties: Mapping[str, TableValue],
    headers: Mapping[str, TableValue] | None,
) -> Front:  # fmt: skip
    """The front of a row; raises PipelineError for what has no form in AMQP.

    Headers of a named publisher that come along, as in rows of a stream, are not those of the row.
    """
    found = dict(properties)
    if headers is not None:
        found["headers"] = {
            name: value for name, value in headers.items() if name not in (PUBLISHER, SEQUENCE)
        }
    try:
        encoded = encode_properties(found)
        encode_short_string(exchange)
        encode_short_string(routing_key)
    except (ValueError, struct.error) as error:
        raise PipelineError(
            f"a row for exchange {exchange!r} with routing key {routing_key!r}: {error}"
        ) from None
    if len(encoded) + 1_024 > PROPERTIES_BYTES_MAX:
        raise PipelineError(
            f"a row for exchange {exchange!r} with routing key {routing_key!r} has properties of "
            f"{len(encoded)} bytes: put what is large into the body"
        )
    return Front(exchange, routing_key, encoded)


def numbered(properties: bytes, publisher: str) -> tuple[bytes, bytes]:
    """A property list with a publisher's name: what stands before the number, and behind it."""
    present = properties[0] << 8 | properties[1]
    at = 2
    for bit in _SHORT_BITS:
        if present & bit:
            at += 1 + properties[at]
    entries, end = b"", at
    if present & _HEADERS_BIT:
        end = at + 4 + int(_U32.unpack_from(properties, at)[0])
        entries = properties[at + 4 : end]
    entries += encode_short_string(PUBLISHER) + encode_value(publisher)
    entries += encode_short_string(SEQUENCE) + b"l"
    before = b"".join([
        (present | _HEADERS_BIT).to_bytes(2, "big"), properties[2:at],
        _U32.pack(len(entries) + 8), entries,
    ])  # fmt: skip
    return before, properties[end:]


class Encoder:
    """Encodes rows for one publisher, or for none."""

    def __init__(self, frame_bytes_max: int, publisher: str, *, is_mandatory: bool) -> None:
        """`publisher`: the name that goes with each row; "": none, and no numbers."""
        self._chunk = frame_bytes_max - FRAME_OVERHEAD
        self._publisher = publisher
        self._is_mandatory = is_mandatory
        self._front: Front | None = None
        self._method = self._before = self._behind = b""
        #: Of the last front, by the size of the body: what is before the number, and behind it.
        self._ends: dict[int, tuple[bytes, bytes]] = {}

    def encode(self, front: Front, bodies: Sequence[bytes], sequence: int) -> bytes:
        """The publishes of rows of one front, numbered from `sequence` on."""
        if front is not self._front and front != self._front:
            self._turn_to(front)
        pieces: list[bytes] = []
        is_named = bool(self._publisher)
        ends = self._ends
        for body in bodies:
            size = len(body)
            found = ends.get(size)
            if found is None:
                found = self._ends_of(size)
            if is_named:
                pieces += (found[0], _pack_sequence(sequence), found[1])
                sequence += 1
            else:
                pieces += found
            if size <= self._chunk:
                pieces.append(body)
            else:
                pieces.append(self._cut(body))
            pieces.append(END)
        # A row without a body ends with its header, which has an end of its own.
        return b"".join(pieces) if all(bodies) else self._without_bodies(pieces, bodies)

    def _without_bodies(self, pieces: list[bytes], bodies: Sequence[bytes]) -> bytes:
        """As `encode`, where some bodies are empty: no body frame, so no end of one."""
        width = 5 if self._publisher else 4
        for index, body in enumerate(bodies):
            if not body:
                pieces[width * index + width - 1] = b""
        return b"".join(pieces)

    def _turn_to(self, front: Front) -> None:
        publish = BasicPublish(front.exchange, front.routing_key, self._is_mandatory)
        self._front = front
        self._method = encode_method(CHANNEL, publish)
        self._before, self._behind = front.properties, b""
        if self._publisher:
            self._before, self._behind = numbered(front.properties, self._publisher)
        self._ends = {}

    def _ends_of(self, size: int) -> tuple[bytes, bytes]:
        if size > BODY_BYTES_MAX:
            raise PipelineError(f"a body of {size} bytes: at most {BODY_BYTES_MAX}")
        number = 8 if self._publisher else 0
        payload = _HEADER.size + len(self._before) + number + len(self._behind)
        head = b"".join([
            self._method, _FRAME_HEAD.pack(FRAME_HEADER, CHANNEL, payload),
            _HEADER.pack(HEADER_IDS, size), self._before,
        ])  # fmt: skip
        behind = self._behind + END
        if size:
            behind += _FRAME_HEAD.pack(FRAME_BODY, CHANNEL, min(size, self._chunk))
        if len(self._ends) >= _SIZES_MAX:
            self._ends.clear()
        found = self._ends[size] = (head, behind)
        return found

    def _cut(self, body: bytes) -> bytes:
        """A long body from its first byte on, with the frames that its further parts have."""
        chunk = self._chunk
        further = [
            frame(FRAME_BODY, CHANNEL, body[at : at + chunk])
            for at in range(chunk, len(body), chunk)
        ]
        # The end of the last of them is put there as of every row.
        return body[:chunk] + END + b"".join(further)[: -len(END)]
