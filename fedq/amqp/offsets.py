"""Messages as readers of a stream get them: each with its offset in its headers.

Input are encoded messages (`fedq.core.message`), whose property lists were checked. Messages
resemble each other up to their bodies: where the header goes is found once for all that follow each
other with the same front. Headers are sorted by name, as RabbitMQ has them.
"""

import struct
from collections.abc import Sequence
from typing import Final

from fedq.amqp.rewriting import PROPERTIES_WRITTEN_BYTES_MAX, with_headers_sorted
from fedq.amqp.values import Long, skip_value
from fedq.core.message import HEAD_SIZE

_NAME: Final = b"x-stream-offset"
#: As it stands in a table: its length, itself, and that a signed number of 8 bytes follows.
_ENTRY: Final = b"\x0f" + _NAME + b"l"
_OFFSET: Final = struct.Struct(">q")
_pack: Final = _OFFSET.pack
#: What the entry makes a table longer.
_ENTRY_BYTES: Final = len(_ENTRY) + _OFFSET.size
#: Property flags, of the first byte: content type and encoding stand before the headers.
_CONTENT_TYPE: Final = 0x80
_CONTENT_ENCODING: Final = 0x40
_HEADERS: Final = 0x20


def with_offsets(messages: Sequence[bytes], offsets: Sequence[int]) -> list[bytes]:
    """The messages with their offsets, each one's own.

    One whose properties have no room for that goes out as it is.
    """
    found: list[bytes] = []
    front = before = after = b""
    for message, offset in zip(messages, offsets, strict=True):
        if not front or not message.startswith(front):
            front, before, after = _around(message)
        if before:
            message = b"".join((before, _pack(offset), after, message[len(front) :]))
        found.append(message)
    return found


def _around(message: bytes) -> tuple[bytes, bytes, bytes]:
    """A message up to its body; what stands before the offset, and behind it: "" without room."""
    properties_at = HEAD_SIZE + (message[1] << 8 | message[2])
    size = int.from_bytes(message[3:HEAD_SIZE], "big")
    front = message[: properties_at + size]
    properties = front[properties_at:]
    table_at = 2
    for bit in (_CONTENT_TYPE, _CONTENT_ENCODING):
        if properties[0] & bit:
            table_at += 1 + properties[table_at]
    if not properties[0] & _HEADERS:
        before = b"".join((
            b"%c" % (properties[0] | _HEADERS), properties[1:table_at],
            _ENTRY_BYTES.to_bytes(4, "big"), _ENTRY,
        ))  # fmt: skip
        after = properties[table_at:]
    else:
        length = int.from_bytes(properties[table_at : table_at + 4], "big")
        place = _place_in(properties, table_at + 4, table_at + 4 + length)
        if place < 0:
            return _around_rewritten(front)
        before = b"".join((
            properties[:table_at], (length + _ENTRY_BYTES).to_bytes(4, "big"),
            properties[table_at + 4 : place], _ENTRY,
        ))  # fmt: skip
        after = properties[place:]
    size = len(before) + _OFFSET.size + len(after)
    if size > PROPERTIES_WRITTEN_BYTES_MAX:
        return front, b"", b""
    head = b"".join((front[:3], size.to_bytes(4, "big"), front[HEAD_SIZE:properties_at]))
    return front, head + before, after


def _place_in(properties: bytes, at: int, end: int) -> int:
    """Where the header goes in a table; -1 if that is not sorted, or has such a header."""
    place, previous = end, b""
    while at < end:
        value_at = at + 1 + properties[at]
        name = properties[at + 1 : value_at]
        if name <= previous or name == _NAME:
            return -1
        if place == end and name > _NAME:
            place = at
        previous = name
        at = skip_value(properties, value_at)
    return place


def _around_rewritten(front: bytes) -> tuple[bytes, bytes, bytes]:
    """As `_around`, where headers have to be sorted, or one has to give way."""
    name = _NAME.decode()
    written, other = (with_headers_sorted(front, {name: Long(offset)}) for offset in (0, -1))
    if written == front:
        return front, b"", b""
    entry = _ENTRY + _pack(0)
    at = written.index(entry)
    while other[at : at + _ENTRY_BYTES] != _ENTRY + _pack(-1):
        # The same bytes, in another header.
        at = written.index(entry, at + 1)
    at += len(_ENTRY)
    return front, written[:at], written[at + _OFFSET.size :]
