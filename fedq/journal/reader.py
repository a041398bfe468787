"""A segment as records with their places, for recovery and for tools.

Input: the bytes of a segment. Output: its records with their places, and its marks
(`fedq.journal.marks`). The reader judges nothing: a torn tail or damage is raised when it gets
there, after all that is whole.
"""

from collections.abc import Iterator
from typing import NamedTuple

from fedq.journal.decoding import decode_at
from fedq.journal.marks import MARK_BYTES, Mark, mark_at
from fedq.journal.records import Record


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
