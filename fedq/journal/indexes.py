"""The file beside a full segment: where its messages lie, so that a start need not read it.

Inputs: a full segment; or the bytes of such a file, of which nothing is believed. Outputs: the
bytes of the file; or the segment, as far as it can be known without its records. All numbers are
big-endian:

    "fqplaces" | version u8 | segment u64 | bytes of its file u64 | bytes of whole records u64 |
    crc32 of the first bytes of its file u32 | n u32 |
    n * (fragment i64 | spans u32 | arrived u32 | copied u32) | u64* | crc32 of all before u32

The three counts of a fragment are those of its numbers at the end: the positions of its spans
(`Segment.spans`), and the entries, four numbers each, of what arrived and of copies
(`fedq.journal.places`: first position, last position, offset and length, positions and bytes).

Invariant: a file that is torn, damaged, of another segment, of one that has changed since, or of a
newer release is no index. Nothing is lost with it: whoever misses it reads the segment.
"""

import struct
import sys
from array import array
from typing import Final
from zlib import crc32

from fedq.core.ids import FragmentId
from fedq.journal.marks import mark_at
from fedq.journal.places import NUMBERS, Entries
from fedq.journal.segments import Segment

VERSION: Final = 1
#: So many bytes at the beginning of a segment tell it from others: a mark is among them, with what
#: only the process that wrote the segment has drawn.
OPENING_BYTES: Final = 64

_MAGIC: Final = b"fqplaces"
_HEAD: Final = struct.Struct(">8sBQQQII")
_ROW: Final = struct.Struct(">qIII")
_CHECKSUM: Final = struct.Struct(">I")


def encode_index(segment: Segment, file_bytes: int, opening: bytes) -> bytes:
    """The index of a full segment, whose file has so many bytes and begins with `opening`."""
    arrived, copied = segment.places.tables()
    rows: list[bytes] = []
    numbers = array("Q")
    for fragment, spans in segment.spans.items():
        parts = spans, _flat(arrived.get(fragment)), _flat(copied.get(fragment))
        rows.append(_ROW.pack(fragment, *map(len, parts)))
        for part in parts:
            numbers.extend(part)
    if sys.byteorder == "little":
        numbers.byteswap()
    head = _HEAD.pack(
        _MAGIC, VERSION, segment.number, file_bytes, segment.size, crc32(opening), len(rows)
    )
    content = b"".join([head, *rows, numbers.tobytes()])
    return content + _CHECKSUM.pack(crc32(content))


def decode_index(data: bytes, number: int, file_bytes: int, opening: bytes) -> Segment | None:
    """The segment of this number, whose file has so many bytes and begins with `opening`.

    None: the data is not its index.
    """
    end = len(data) - _CHECKSUM.size
    if end < _HEAD.size or _CHECKSUM.unpack_from(data, end) != (crc32(data[:end]),):
        return None
    magic, version, whose, expected, size, checksum, count = _HEAD.unpack_from(data)
    if (magic, version, whose, expected) != (_MAGIC, VERSION, number, file_bytes):
        return None
    rows_end = _HEAD.size + count * _ROW.size
    if checksum != crc32(opening) or rows_end > end or (end - rows_end) % 8:
        return None
    numbers = array("Q", data[rows_end:end])
    if sys.byteorder == "little":
        numbers.byteswap()
    rows = list(_ROW.iter_unpack(data[_HEAD.size : rows_end]))
    if sum(sum(row[1:]) for row in rows) != len(numbers):
        return None
    mark = mark_at(opening, 0)
    nonce = mark.nonce if mark is not None and mark.segment == number else None
    segment = Segment(number, size, nonce=nonce)
    at = 0
    for fragment, spans, arrived, copied in rows:
        if spans < 2 or spans % 2 or arrived % NUMBERS or copied % NUMBERS:
            return None
        segment.spans[FragmentId(fragment)] = numbers[at : at + spans]
        at += spans
        for length, is_copied in ((arrived, False), (copied, True)):
            if length:
                part = numbers[at : at + length]
                segment.places.take_back(FragmentId(fragment), part, is_copied)
                at += length
    return segment


def _flat(entries: Entries | None) -> "array[int]":
    return entries.flat() if entries is not None else array("Q")
