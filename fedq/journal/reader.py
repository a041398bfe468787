"""A segment as records with their places, for recovery and for tools.

Input: the bytes of a segment. Output: its records with their places, and its marks
(`fedq.journal.marks`). The reader judges nothing: a torn tail or damage is raised when it gets
there, after all that is whole.
"""

from collections.abc import Iterator
from typing import NamedTuple

from fedq.journal.decoding import decode_at, end_of
from fedq.journal.events import Record
from fedq.journal.marks import MARK_BYTES, Mark, mark_at, next_mark, was_synced


class Located(NamedTuple):
    """A record, or a mark, and the bytes it takes: from `offset`, `size` of them."""

    offset: int
    size: int
    record: Record | Mark


def read(data: bytes, offset: int = 0) -> Iterator[Located]:
    """Everything in a segment from a byte on, in order.

    Raises `CorruptRecord` where the next is neither a record nor a mark.
    """
    while offset < len(data):
        mark = mark_at(data, offset)
        if mark is not None:
            yield Located(offset, MARK_BYTES, mark)
            offset += MARK_BYTES
            continue
        record, after = decode_at(data, offset)
        yield Located(offset, after - offset, record)
        offset = after


class Frame(NamedTuple):
    """Bytes whose checksum holds, from `offset` up to `end`; or none: they are damaged, or torn."""

    offset: int
    end: int
    is_whole: bool


def frames(data: bytes, segment: int) -> Iterator[Frame]:
    """Every frame of a segment but its marks, and what lies between them, without a look inside.

    What no mark calls synced ends it: nothing behind that counts (`fedq.journal.recovery`).
    """
    at, nonce = 0, None
    while at < len(data):
        mark = mark_at(data, at)
        if mark is not None:
            nonce = mark.nonce if mark.segment == segment else nonce
            at += MARK_BYTES
            continue
        end = end_of(data, at)
        is_whole = end is not None
        if end is None:
            vouched = was_synced(data, at, segment, nonce)
            behind = next_mark(data, at, segment, nonce) if vouched else None
            end = behind[0] if behind is not None else len(data)
        yield Frame(at, end, is_whole)
        at = end
