"""Reads one segment record by record: for recovery, and for tools that look into a journal.

Input: the bytes of a segment. Output: its records with their places. The reader judges nothing: a
torn tail or damage is raised when it gets there, after all that is whole.
"""

from collections.abc import Iterator
from typing import NamedTuple

from fedq.journal.decoding import decode_at
from fedq.journal.records import Record


class Located(NamedTuple):
    """A record and the bytes it takes: from `offset`, `size` of them."""

    offset: int
    size: int
    record: Record


def read(data: bytes) -> Iterator[Located]:
    """Every record of a segment in order; raises `CorruptRecord` where the next is none."""
    offset = 0
    while offset < len(data):
        record, after = decode_at(data, offset)
        yield Located(offset, after - offset, record)
        offset = after
