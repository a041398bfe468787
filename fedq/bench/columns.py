"""Deliveries, cut out of a connection's stream by columns.

In: bytes as they were read, in any pieces. Out: the numbers and send times of the deliveries that
became whole, with their consumer tags where a connection has several consumers; and the methods
between them, which are rare. Consumer tags have `TAG_BYTES` bytes; a body is one frame and begins
with number and time (`fedq.bench.blocks`).

A run of deliveries of one size is cut at once: columns of bytes that all of them must share are
compared first, so that a frame of another kind or size ends the run and nothing is misread.
"""

import struct
from collections.abc import Sequence
from typing import Final

from fedq.amqp.frames import FRAME_HEARTBEAT, FRAME_METHOD, scan_frame
from fedq.amqp.methods import Method, decode_method
from fedq.core.errors import FRAME_ERROR, ConnectionViolation

TAG_BYTES: Final = 8
FRAME_BYTES_MAX: Final = 131_072

_deliver: Final = struct.Struct(">BHIIB")
_header: Final = struct.Struct(">BHIIQ")
_stamp: Final = struct.Struct("<QQ")
_DELIVER: Final = 60 << 16 | 60
_DELIVER_IDS: Final = b"\0\x3c\0\x3c"
_BASIC_HEADER: Final = 60 << 16
#: The smallest delivery: a method frame of 32 bytes, a header frame of 22, a body frame of 24.
_DELIVERY_BYTES_MIN: Final = 78
#: So many deliveries of one size in a row are worth looking for more of them.
_RUN_MIN: Final = 4


class Batch:
    """What a read brought: columns of equal length. Times in nanoseconds."""

    __slots__ = ("ends", "methods", "numbers", "tags", "times")

    def __init__(self) -> None:
        #: Where each delivery ends, counted from the first byte that was not cut before.
        self.ends: list[int] = []
        self.numbers: list[int] = []
        self.times: list[int] = []
        self.tags: list[bytes] = []
        self.methods: list[Method] = []


class Reader:
    """One connection's stream of deliveries."""

    __slots__ = ("_has_ends", "_has_tags", "partial")

    def __init__(self, has_tags: bool = False, has_ends: bool = False) -> None:
        """Whether consumer tags and ends are wanted."""
        #: The beginning of a delivery that is not whole yet.
        self.partial = b""
        self._has_tags = has_tags
        self._has_ends = has_ends

    def take(self, data: bytes) -> Batch:
        """What became whole with this data. Raises `ConnectionViolation` for a broken stream."""
        if self.partial:
            data = self.partial + data
        batch = Batch()
        at = self._cut(data, batch)
        while at < len(data):
            # Not a whole delivery: another method, a heartbeat, or the rest of the data.
            found = scan_frame(data, at, FRAME_BYTES_MAX)
            if found is None:
                break
            kind, _, start, end = found
            if data.startswith(_DELIVER_IDS, start):
                if not _is_whole(data, at):
                    break
                raise ConnectionViolation(FRAME_ERROR, "a delivery that is not the generator's")
            if kind == FRAME_METHOD:
                batch.methods.append(decode_method(data[start:end]))
            elif kind != FRAME_HEARTBEAT:
                raise ConnectionViolation(FRAME_ERROR, "a content that no delivery announces")
            at = self._cut(data, batch, end + 1)
        self.partial = data[at:] if at else data
        return batch

    def _cut(self, data: bytes, batch: Batch, at: int = 0) -> int:
        """Appends the deliveries from `at` on; returns where it stopped."""
        numbers, times = batch.numbers, batch.times
        has_tags, tags = self._has_tags, batch.tags
        size, alike, before = len(data), 0, 0
        unpack_deliver, unpack_header = _deliver.unpack_from, _header.unpack_from
        unpack_stamp = _stamp.unpack_from
        while size - at >= _DELIVERY_BYTES_MIN:
            kind, _, length, ids, tag_size = unpack_deliver(data, at)
            header_at = at + 8 + length
            if kind != 1 or ids != _DELIVER or tag_size != TAG_BYTES or header_at + 46 > size:
                break
            kind, _, length, ids, body_size = unpack_header(data, header_at)
            body_at = header_at + 8 + length
            end = body_at + 8 + body_size
            if kind != 2 or ids != _BASIC_HEADER or body_size < 16:
                break
            if end > size or data[end - 1] != 0xCE:
                break
            whole = end - at
            alike = alike + 1 if whole == before else 1
            before = whole
            if alike >= _RUN_MIN:
                marks = (
                    0, 5, 6, 10, header_at - at + 6, header_at - at + 16, header_at - at + 17,
                    header_at - at + 18, body_at - at, whole - 1,
                )  # fmt: skip
                count = _alike(data, at, whole, marks)
                if count >= _RUN_MIN:
                    end = at + count * whole
                    rows = _rows(whole, body_at + 7 - at, has_tags).iter_unpack(data[at:end])
                    columns: Sequence[tuple[int, ...]] = tuple(zip(*rows, strict=True))
                    numbers += columns[-2]
                    times += columns[-1]
                    if has_tags:
                        tags += columns[0]  # type: ignore[arg-type]
                    if self._has_ends:
                        batch.ends += range(at + whole, end + 1, whole)
                    at, alike = end, 0
                    continue
                alike = -count
            number, time_ns = unpack_stamp(data, body_at + 7)
            numbers.append(number)
            times.append(time_ns)
            if has_tags:
                tags.append(data[at + 12 : at + 12 + TAG_BYTES])
            if self._has_ends:
                batch.ends.append(end)
            at = end
        return at


def _is_whole(data: bytes, at: int) -> bool:
    """Whether the three frames of a delivery are there. Raises `ConnectionViolation`."""
    for _ in range(3):
        found = scan_frame(data, at, FRAME_BYTES_MAX)
        if found is None:
            return False
        at = found[3] + 1
    return True


def _alike(data: bytes, at: int, size: int, marks: Sequence[int]) -> int:
    """How many deliveries of this size follow each other that share the bytes at all `marks`."""
    count = (len(data) - at) // size
    for mark in marks:
        column = data[at + mark : at + count * size : size]
        count = len(column) - len(column.lstrip(column[:1]))
    return count


_structs: Final[dict[tuple[int, int, bool], struct.Struct]] = {}


def _rows(size: int, stamp_at: int, has_tags: bool) -> struct.Struct:
    """How a delivery of this size unpacks into tag (if wanted), number and time."""
    key = size, stamp_at, has_tags
    found = _structs.get(key)
    if found is None:
        front = f"12x{TAG_BYTES}s{stamp_at - 12 - TAG_BYTES}x" if has_tags else f"{stamp_at}x"
        found = _structs[key] = struct.Struct(f"<{front}QQ{size - stamp_at - 16}x")
    return found
