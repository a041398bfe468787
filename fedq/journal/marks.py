"""Synced marks: what a segment says of itself, so that damage is not taken for a torn tail.

A mark stands among the records of a segment and says up to which byte that segment was on disk when
the mark was written. A power cut may spoil whatever was not, in any order. So what cannot be read
before a byte that some later mark calls synced is damage; what comes after all of them is torn.

    length u32 | crc32 u32 | version u8 | kind 9 | fragment 0 | nonce u64 | segment u64 | offset u64

It is framed as a record is (`fedq.journal.records`), and is none: it never goes to a backup. The
nonce is drawn by the process that writes the segment and known to nobody else: behind damage only
it tells a mark from a message that holds the bytes of one. Behind damage a mark is also where
reading goes on.

Inputs: bytes of a segment, of which nothing is believed. Outputs: marks, and where they are.
"""

import struct
from typing import Final, NamedTuple
from zlib import crc32

from fedq.journal.records import FRAME, HEAD, VERSION

KIND_MARK: Final = 9
_BODY: Final = struct.Struct(">BBqQQQ")
_BODY_BYTES: Final[int] = _BODY.size
MARK_BYTES: Final[int] = FRAME.size + _BODY_BYTES
#: What every mark has at `FRAME.size`, and hardly anything else.
_SIGN: Final = HEAD.pack(VERSION, KIND_MARK, 0, 0)[:10]


class Mark(NamedTuple):
    """`segment` was on disk up to byte `offset` when this was written."""

    nonce: int
    segment: int
    offset: int


def encode_mark(mark: Mark) -> bytes:
    """The bytes of a mark, as it stands in its segment."""
    return mark_bytes(mark.nonce, mark.segment, mark.offset)


def mark_bytes(nonce: int, segment: int, offset: int) -> bytes:
    """The bytes of a mark from its numbers, for a writer that adds one to every chunk."""
    body = _BODY.pack(VERSION, KIND_MARK, 0, nonce, segment, offset)
    return FRAME.pack(_BODY_BYTES, crc32(body)) + body


def mark_at(data: bytes, at: int) -> Mark | None:
    """The mark at this byte; None: there is none."""
    start = at + FRAME.size
    end = at + MARK_BYTES
    if data[start : start + len(_SIGN)] != _SIGN or end > len(data):
        return None
    length, checksum = FRAME.unpack_from(data, at)
    if length != _BODY_BYTES or crc32(data[start:end]) != checksum:
        return None
    _, _, _, nonce, segment, offset = _BODY.unpack_from(data, start)
    return Mark(nonce, segment, offset)


def next_mark(data: bytes, after: int, segment: int, nonce: int | None) -> tuple[int, Mark] | None:
    """The first mark of the segment behind a byte, and where; `nonce`: whose, if it is known."""
    found = data.find(_SIGN, after + FRAME.size)
    while found >= 0:
        at = found - FRAME.size
        mark = mark_at(data, at)
        if mark is not None and mark.segment == segment and nonce in (None, mark.nonce):
            return at, mark
        found = data.find(_SIGN, found + 1)
    return None


def was_synced(data: bytes, at: int, segment: int, nonce: int | None) -> bool:
    """Whether some mark behind this byte says that it was on disk."""
    found = next_mark(data, at, segment, nonce)
    while found is not None:
        place, mark = found
        if mark.offset > at:
            return True
        found = next_mark(data, place + 1, segment, nonce)
    return False
