"""Records from bytes: the inverse of `fedq.journal.records`, where the layout is written down.

Inputs: bytes from a disk or a peer, of which nothing is believed. Outputs: records, or
`CorruptRecord` with the place where there is none. Invariants: no bytes raise anything else, and a
lying length or count costs no memory; damage is told apart from a record that is whole but not
understood (`ForeignRecord`), which no reader may take for a torn write, and of these one that a
newer release has written (`NewerRecord`), which no reader may cut away; an `Outline` has been
checked like the record whose messages it spares to take out.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar
from zlib import crc32

from fedq.core import limits
from fedq.core.ids import FragmentId
from fedq.journal.events import (
    OWN,
    Group,
    Record,
    Single,
)
from fedq.journal.payloads import (
    DECODERS,
    NewerContentError,
    Outline,
    outline_of_copy,
    outline_of_enqueue,
)
from fedq.journal.records import (
    FRAME,
    HEAD,
    KIND_COPY,
    KIND_ENQUEUE,
    KIND_GROUP,
    VERSION,
)

R = TypeVar("R")


class CorruptRecord(Exception):
    """Bytes that are no whole record, from `offset` of the data on: damaged, or cut off."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"no valid record at byte {offset}: {reason}")
        self.offset = offset
        self.reason = reason


class ForeignRecord(CorruptRecord):
    """The checksum holds, yet this version of fedq cannot read the record. Never a torn write."""


class NewerRecord(ForeignRecord):
    """A record, or something in it, that only a newer release knows."""


def outlines(data: bytes, fragment: FragmentId) -> list[Record | Outline]:
    """Every record of the data, which are a fragment's; enqueues and most copies as outlines.

    Raises `CorruptRecord` if there is damage, or a record of another fragment.
    """
    found: list[Record | Outline] = []
    offset, end = 0, len(data)
    while offset < end:
        opened = _open(data, offset, end)
        if opened.fragment != fragment:
            raise ForeignRecord(offset, f"it is of fragment {opened.fragment}")
        if opened.kind == KIND_ENQUEUE:
            found.append(_checked(outline_of_enqueue, data, offset, opened))
        elif opened.kind == KIND_COPY:
            found.append(_checked(outline_of_copy, data, offset, opened))
        else:
            record = _record(data, offset, opened)
            if any(isinstance(each, OWN) for each in tracked([record])):
                raise ForeignRecord(offset, "a checkpoint is of the node that writes it")
            found.append(record)
        offset = opened.end
    return found


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
    opened = _open(data, offset, len(data))
    return _record(data, offset, opened), opened.end


def end_of(data: bytes, offset: int) -> int | None:
    """Where the record at `offset` ends, whatever is in it; None: it is torn, or damaged."""
    start = offset + FRAME.size
    if start + HEAD.size > len(data):
        return None
    length, checksum = FRAME.unpack_from(data, offset)
    if not HEAD.size <= length <= limits.RECORD_BYTES_MAX or start + length > len(data):
        return None
    return start + length if crc32(memoryview(data)[start : start + length]) == checksum else None


def _record(data: bytes, offset: int, opened: "_Opened") -> Record:
    if opened.kind != KIND_GROUP:
        return _single(data, offset, opened)
    records: list[Single] = []
    at = opened.at
    while at < opened.end:
        try:
            inner = _open(data, at, opened.end)
            # Checked here rather than by calling itself: depth must cost a liar more than us.
            if inner.kind == KIND_GROUP or inner.fragment != opened.fragment:
                raise ForeignRecord(at, "a group in a group, or a record of another fragment")
            records.append(_single(data, at, inner))
        except NewerRecord as newer:
            raise NewerRecord(offset, newer.reason) from newer
        except CorruptRecord as error:
            # The group is whole, so what it holds was never torn.
            raise ForeignRecord(offset, f"its content contradicts itself: {error}") from error
        at = inner.end
    return Group(opened.fragment, opened.reign, records)


def tracked(records: Iterable[Record]) -> Iterator[Single]:
    """The records in order, with those of a group in its place."""
    for record in records:
        if isinstance(record, Group):
            yield from record.records
        else:
            yield record


class _Opened(NamedTuple):
    """A record whose checksum holds: its payload begins at `at`."""

    kind: int
    fragment: FragmentId
    reign: int
    at: int
    end: int


def _open(data: bytes, offset: int, stop: int) -> _Opened:
    """The record at `offset`, which must end by `stop`."""
    body_at = offset + FRAME.size
    if body_at > stop:
        raise CorruptRecord(offset, "cut off within its first eight bytes")
    length, checksum = FRAME.unpack_from(data, offset)
    # Zeros, as some file systems leave them behind a torn write, fail here: their CRC is zero too.
    if not HEAD.size <= length <= limits.RECORD_BYTES_MAX:
        raise CorruptRecord(offset, f"a length of {length} bytes is impossible")
    end = body_at + length
    if end > stop:
        raise CorruptRecord(offset, f"{end - stop} of its bytes are missing")
    if crc32(memoryview(data)[body_at:end]) != checksum:
        raise CorruptRecord(offset, "its checksum does not match")
    version, kind, fragment, reign = HEAD.unpack_from(data, body_at)
    if version != VERSION:
        raise NewerRecord(
            offset, f"record version {version} is unknown here; run a newer version of fedq"
        )
    return _Opened(kind, FragmentId(fragment), reign, body_at + HEAD.size, end)


def _single(data: bytes, offset: int, opened: _Opened) -> Single:
    decoder = DECODERS.get(opened.kind)
    if decoder is None:
        raise NewerRecord(
            offset, f"record kind {opened.kind} is unknown here; run a newer version of fedq"
        )
    return _checked(decoder, data, offset, opened)


def _checked(
    decoder: Callable[[bytes, int, int, FragmentId, int], R],
    data: bytes,
    offset: int,
    opened: _Opened,
) -> R:
    try:
        return decoder(data, opened.at, opened.end, opened.fragment, opened.reign)
    except NewerContentError as newer:
        raise NewerRecord(offset, str(newer)) from newer
    except (ValueError, struct.error) as error:
        raise ForeignRecord(offset, f"its content contradicts itself: {error}") from error
