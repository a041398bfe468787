"""The one encoding of queue events, on disk and between nodes.

A *record* is one batch of events of one fragment. The primary encodes it once; the same bytes go to
its journal, to its backups and into their journals. Inputs: positions, messages (as encoded by
`fedq.core.message`), ranges. Outputs: bytes; and from bytes, slotted records with ready lists.
All numbers are big-endian:

    length u32 | crc32 u32 | version u8 | kind u8 | fragment i64 | reign u64 | payload

*Length* counts what follows the checksum, and the checksum covers just that. Payloads by kind
(n* stands for a table of n entries):

    ENQUEUE  first position u64 | flags u8 | incarnation u64 | first number u64 | n u32 |
             node length u8 | node | (message length u32)* | messages
    COPY     n u32 | m u32 | (position u64)* | (message length u32)* |
             m * (node length u8 | node | incarnation u64 | number u64) | messages
    SETTLE   event u64 | n u32 | (first u64, last u64)*
    RESET    base u64
    KEEP     base u64 | n u32 | (first u64, last u64)*
    DROP     nothing

Invariants: what was encoded decodes to equal values; no record is longer than
`limits.record_bytes_max` (a longer batch becomes several records); damage is told apart from a
record that is whole but not understood (`ForeignRecord`), which no reader may cut away.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from zlib import crc32

from fedq.core import limits
from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin
from fedq.core.message import HEAD_SIZE as MESSAGE_BYTES_MIN
from fedq.core.ranges import Range

VERSION = 1

KIND_ENQUEUE = 1
KIND_COPY = 2
KIND_SETTLE = 3
KIND_RESET = 4
KIND_KEEP = 5
KIND_DROP = 6

FLAG_RESENT = 0x01

_FRAME = struct.Struct(">II")
_HEAD = struct.Struct(">BBqQ")
_ENQUEUE = struct.Struct(">QBQQIB")
_COPY = struct.Struct(">II")
_ORIGIN = struct.Struct(">QQ")
_RANGES = struct.Struct(">QI")
_BASE = struct.Struct(">Q")

#: What every record begins with, up to its payload.
RECORD_BYTES_MIN = _FRAME.size + _HEAD.size


class CorruptRecord(Exception):
    """Bytes that are no whole record, from `offset` of the data on: damaged, or cut off."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"no valid record at byte {offset}: {reason}")
        self.offset = offset
        self.reason = reason


class ForeignRecord(CorruptRecord):
    """The checksum holds, yet this version of fedq cannot read the record. Never a torn write."""


# --- records, decoded ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Messages at consecutive positions from `first_position`, published by one origin.

    `first_number` is the origin's number of the first one; the others follow without gaps.
    """

    fragment: FragmentId
    reign: int
    first_position: int
    origin: Origin
    first_number: int
    #: Sent before, to an earlier primary.
    resent: bool
    messages: list[bytes]

    @property
    def last_position(self) -> int:
        """The position of the last message; also the record's last event number."""
        return self.first_position + len(self.messages) - 1

    @property
    def last_number(self) -> int:
        """The origin's number of the last message."""
        return self.first_number + len(self.messages) - 1


@dataclass(frozen=True, slots=True)
class Copy:
    """Old messages for a backup that catches up, and how far each origin's publishes got."""

    fragment: FragmentId
    reign: int
    positions: list[int]
    messages: list[bytes]
    #: The highest publish number of each origin.
    origins: dict[Origin, int]


@dataclass(frozen=True, slots=True)
class Settle:
    """Event number `event`: the messages in `ranges` are gone for good, for whatever reason."""

    fragment: FragmentId
    reign: int
    event: int
    ranges: list[Range]


@dataclass(frozen=True, slots=True)
class Reset:
    """This copy of the fragment starts anew after event `base`: forget everything before."""

    fragment: FragmentId
    reign: int
    base: int


@dataclass(frozen=True, slots=True)
class Keep:
    """This copy is brought up to date after event `base`: forget `dropped`, keep the rest."""

    fragment: FragmentId
    reign: int
    base: int
    dropped: list[Range]


@dataclass(frozen=True, slots=True)
class Drop:
    """The fragment is gone from this node."""

    fragment: FragmentId
    reign: int


Record: TypeAlias = Enqueue | Copy | Settle | Reset | Keep | Drop


# --- encoding ------------------------------------------------------------------------------------


def encode_enqueue(
    fragment: FragmentId,
    reign: int,
    first_position: int,
    origin: Origin,
    first_number: int,
    messages: Sequence[bytes],
    resent: bool = False,
) -> bytes:
    """Messages at `first_position`, `first_position + 1`, … as one record (see `Enqueue`)."""
    count = len(messages)
    assert count > 0, "an enqueue record holds at least one message"
    node = origin.node.encode()
    body = b"".join(
        (
            _HEAD.pack(VERSION, KIND_ENQUEUE, fragment, reign),
            _ENQUEUE.pack(
                first_position,
                FLAG_RESENT if resent else 0,
                origin.incarnation,
                first_number,
                count,
                len(node),
            ),
            node,
            struct.pack(f">{count}I", *map(len, messages)),
            *messages,
        )
    )
    if len(body) <= limits.record_bytes_max:
        return _framed(body)
    half = _half_of(count)
    return encode_enqueue(
        fragment, reign, first_position, origin, first_number, messages[:half], resent
    ) + encode_enqueue(
        fragment,
        reign,
        first_position + half,
        origin,
        first_number + half,
        messages[half:],
        resent,
    )


def encode_copy(
    fragment: FragmentId,
    reign: int,
    positions: Sequence[int],
    messages: Sequence[bytes],
    origins: Mapping[Origin, int],
) -> bytes:
    """Messages at explicit ascending positions and an origins table (see `Copy`).

    Both may be empty: a record with origins only is a note of how far their publishes got.
    """
    count = len(positions)
    assert count == len(messages), "each position needs its message"
    parts = [
        _HEAD.pack(VERSION, KIND_COPY, fragment, reign),
        _COPY.pack(count, len(origins)),
        struct.pack(f">{count}Q", *positions),
        struct.pack(f">{count}I", *map(len, messages)),
    ]
    for origin, number in origins.items():
        node = origin.node.encode()
        parts += (bytes((len(node),)), node, _ORIGIN.pack(origin.incarnation, number))
    parts += messages
    body = b"".join(parts)
    if len(body) <= limits.record_bytes_max:
        return _framed(body)
    half = _half_of(count)
    return encode_copy(fragment, reign, positions[:half], messages[:half], {}) + encode_copy(
        fragment, reign, positions[half:], messages[half:], origins
    )


def encode_settle(fragment: FragmentId, reign: int, event: int, ranges: Sequence[Range]) -> bytes:
    """The messages in these inclusive ranges are gone, by event number `event`."""
    return _encode_ranges(KIND_SETTLE, fragment, reign, event, ranges)


def encode_keep(fragment: FragmentId, reign: int, base: int, dropped: Sequence[Range]) -> bytes:
    """The start of an incremental copy: forget `dropped`; events after `base` follow."""
    return _encode_ranges(KIND_KEEP, fragment, reign, base, dropped)


def encode_reset(fragment: FragmentId, reign: int, base: int) -> bytes:
    """The start of a whole copy: forget everything; events after `base` follow."""
    return _framed(_HEAD.pack(VERSION, KIND_RESET, fragment, reign) + _BASE.pack(base))


def encode_drop(fragment: FragmentId, reign: int = 0) -> bytes:
    """The fragment is gone from this node."""
    return _framed(_HEAD.pack(VERSION, KIND_DROP, fragment, reign))


def _encode_ranges(
    kind: int, fragment: FragmentId, reign: int, number: int, ranges: Sequence[Range]
) -> bytes:
    count = len(ranges)
    flat = [position for both_ends in ranges for position in both_ends]
    body = b"".join(
        (
            _HEAD.pack(VERSION, kind, fragment, reign),
            _RANGES.pack(number, count),
            struct.pack(f">{2 * count}Q", *flat),
        )
    )
    if len(body) <= limits.record_bytes_max:
        return _framed(body)
    half = _half_of(count)
    return _encode_ranges(kind, fragment, reign, number, ranges[:half]) + _encode_ranges(
        kind, fragment, reign, number, ranges[half:]
    )


def _framed(body: bytes) -> bytes:
    return _FRAME.pack(len(body), crc32(body)) + body


def _half_of(count: int) -> int:
    """Where to divide a batch that is too long for one record."""
    if count < 2:
        raise ValueError(
            f"one entry alone exceeds the {limits.record_bytes_max} bytes of a record; "
            "refuse such a message before it is encoded"
        )
    return count // 2


# --- decoding ------------------------------------------------------------------------------------


def decode(data: bytes | memoryview, offset: int = 0) -> Iterator[Record]:
    """Every record from `offset` to the end; raises `CorruptRecord` where there is none."""
    whole = bytes(data)
    end = len(whole)
    while offset < end:
        record, offset = decode_at(whole, offset)
        yield record


def scan(data: bytes | memoryview) -> tuple[list[Record], int]:
    """The whole records that the data begins with, and how many bytes they take.

    What follows them is a torn tail. A `ForeignRecord` is no such thing and is raised.
    """
    whole = bytes(data)
    records: list[Record] = []
    offset = 0
    while offset < len(whole):
        try:
            record, offset = decode_at(whole, offset)
        except ForeignRecord:
            raise
        except CorruptRecord:
            break
        records.append(record)
    return records, offset


def decode_at(data: bytes, offset: int) -> tuple[Record, int]:
    """The record at `offset` and the offset after it; raises `CorruptRecord`."""
    body_at = offset + _FRAME.size
    if body_at > len(data):
        raise CorruptRecord(offset, "cut off within its first eight bytes")
    length, checksum = _FRAME.unpack_from(data, offset)
    # Zeros, as some file systems leave them behind a torn write, fail here: their CRC is zero too.
    if not _HEAD.size <= length <= limits.record_bytes_max:
        raise CorruptRecord(offset, f"a length of {length} bytes is impossible")
    end = body_at + length
    if end > len(data):
        raise CorruptRecord(offset, f"{end - len(data)} of its bytes are missing")
    if crc32(memoryview(data)[body_at:end]) != checksum:
        raise CorruptRecord(offset, "its checksum does not match")
    version, kind, fragment, reign = _HEAD.unpack_from(data, body_at)
    if version != VERSION:
        raise ForeignRecord(
            offset, f"record version {version} is unknown here; run a newer version of fedq"
        )
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise ForeignRecord(
            offset, f"record kind {kind} is unknown here; run a newer version of fedq"
        )
    try:
        record = decoder(data, body_at + _HEAD.size, end, FragmentId(fragment), reign)
    except (ValueError, struct.error) as error:
        raise ForeignRecord(offset, f"its content contradicts itself: {error}") from error
    return record, end


def _decode_enqueue(data: bytes, at: int, end: int, fragment: FragmentId, reign: int) -> Record:
    first, flags, incarnation, number, count, node_size = _ENQUEUE.unpack_from(data, at)
    node_at = at + _ENQUEUE.size
    at = node_at + node_size
    node = NodeId(data[node_at:at].decode())
    if count == 0 or flags & ~FLAG_RESENT:
        raise ValueError("no messages, or flags that do not exist")
    messages = _messages(data, at + 4 * count, end, _table(data, at, end, count, "I"))
    origin = Origin(node, Incarnation(incarnation))
    return Enqueue(fragment, reign, first, origin, number, flags & FLAG_RESENT != 0, messages)


def _decode_copy(data: bytes, at: int, end: int, fragment: FragmentId, reign: int) -> Record:
    count, origin_count = _COPY.unpack_from(data, at)
    at += _COPY.size
    positions = _table(data, at, end, count, "Q")
    at += 8 * count
    lengths = _table(data, at, end, count, "I")
    at += 4 * count
    origins: dict[Origin, int] = {}
    for _ in range(origin_count):
        if at >= end:
            raise ValueError("fewer origins than announced")
        node_end = at + 1 + data[at]
        node = NodeId(data[at + 1 : node_end].decode())
        incarnation, number = _ORIGIN.unpack_from(data, node_end)
        origins[Origin(node, Incarnation(incarnation))] = number
        at = node_end + _ORIGIN.size
    return Copy(fragment, reign, list(positions), _messages(data, at, end, lengths), origins)


def _decode_settle(data: bytes, at: int, end: int, fragment: FragmentId, reign: int) -> Record:
    event, count = _RANGES.unpack_from(data, at)
    return Settle(fragment, reign, event, _ranges(data, at + _RANGES.size, end, count))


def _decode_keep(data: bytes, at: int, end: int, fragment: FragmentId, reign: int) -> Record:
    base, count = _RANGES.unpack_from(data, at)
    return Keep(fragment, reign, base, _ranges(data, at + _RANGES.size, end, count))


def _decode_reset(data: bytes, at: int, end: int, fragment: FragmentId, reign: int) -> Record:
    (base,) = _BASE.unpack_from(data, at)
    _expect_end(at + _BASE.size, end)
    return Reset(fragment, reign, base)


def _decode_drop(data: bytes, at: int, end: int, fragment: FragmentId, reign: int) -> Record:
    _expect_end(at, end)
    return Drop(fragment, reign)


_DECODERS = {
    KIND_ENQUEUE: _decode_enqueue,
    KIND_COPY: _decode_copy,
    KIND_SETTLE: _decode_settle,
    KIND_RESET: _decode_reset,
    KIND_KEEP: _decode_keep,
    KIND_DROP: _decode_drop,
}


def _table(data: bytes, at: int, end: int, count: int, code: str) -> tuple[int, ...]:
    """`count` unsigned numbers of struct type `code`; checked first, so a lie costs no memory."""
    if at + count * struct.calcsize(f">{code}") > end:
        raise ValueError(f"a table of {count} entries does not fit")
    numbers: tuple[int, ...] = struct.unpack_from(f">{count}{code}", data, at)
    return numbers


def _messages(data: bytes, at: int, end: int, lengths: tuple[int, ...]) -> list[bytes]:
    _expect_end(at + sum(lengths), end)
    if lengths and min(lengths) < MESSAGE_BYTES_MIN:
        raise ValueError("a message is shorter than its own head")
    messages = []
    for length in lengths:
        stop = at + length
        messages.append(data[at:stop])
        at = stop
    return messages


def _ranges(data: bytes, at: int, end: int, count: int) -> list[Range]:
    flat = _table(data, at, end, 2 * count, "Q")
    _expect_end(at + 16 * count, end)
    ranges = list(zip(flat[::2], flat[1::2], strict=True))
    for first, last in ranges:
        if first > last:
            raise ValueError(f"the range {first}-{last} ends before it begins")
    return ranges


def _expect_end(at: int, end: int) -> None:
    if at != end:
        raise ValueError(f"it should end {abs(end - at)} bytes {'later' if at > end else 'sooner'}")
