"""Deliveries, cut out of bytes in bulk: a hot module with a compiled twin.

`cut` takes the whole, regular deliveries at a place in the data and stops in front of everything
else, also of one that is redelivered. Consumer tags have `TAG_BYTES` bytes; a body is one frame,
and begins with number and time in 8 bytes each, little-endian.

Here, deliveries of one size in a row are cut at once: columns of bytes that all of them must share
are compared first, so that a frame of another kind or size ends the run and nothing is misread.
The compiled twin looks at each; both must give the same for every stream of whole frames.
"""

import struct
from collections.abc import Sequence
from typing import Final

from fedq.amqp.spec import (
    DELIVER_IDS,
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_METHOD,
    HEADER_IDS,
)

TAG_BYTES: Final = 8
#: Where in a delivery's bytes it says whether it is redelivered.
REDELIVERED_AT: Final = 20 + TAG_BYTES

_DELIVER: Final = struct.Struct(">BHIIB")
_HEADER: Final = struct.Struct(">BHIIQ")
_BODY: Final = struct.Struct(">BHI")
_STAMP: Final = struct.Struct("<QQ")
_STAMP_BYTES: Final = 16
#: A method frame of 32 bytes, a header frame of 22, a body frame of 24.
_DELIVERY_BYTES_MIN: Final = 78
#: Header frame and body frame without properties.
_CONTENT_BYTES_MIN: Final = 46
#: So many deliveries of one size in a row are worth looking for more of them.
_RUN_MIN: Final = 4


def cut(
    data: bytes, at: int, numbers: list[int], times: list[int], tags: list[bytes] | None,
    ends: list[int] | None,
) -> int:  # fmt: skip
    """Appends what the deliveries from `at` on hold; returns where it stopped.

    Consumer tags, and where each delivery ends in the data, only for lists that are given.
    """
    size, alike, before = len(data), 0, 0
    unpack_deliver, unpack_header = _DELIVER.unpack_from, _HEADER.unpack_from
    while size - at >= _DELIVERY_BYTES_MIN:
        kind, _, length, ids, tag_size = unpack_deliver(data, at)
        header_at = at + 8 + length
        if (
            kind != FRAME_METHOD or ids != DELIVER_IDS or tag_size != TAG_BYTES
            or header_at + _CONTENT_BYTES_MIN > size or data[header_at - 1] != FRAME_END
            or data[at + REDELIVERED_AT]
        ):  # fmt: skip
            break
        kind, _, length, ids, body_size = unpack_header(data, header_at)
        body_at = header_at + 8 + length
        end = body_at + 8 + body_size
        if (
            kind != FRAME_HEADER or ids != HEADER_IDS or body_size < _STAMP_BYTES or end > size
            or data[body_at - 1] != FRAME_END or data[end - 1] != FRAME_END
        ):  # fmt: skip
            break
        kind, _, length = _BODY.unpack_from(data, body_at)
        if kind != FRAME_BODY or length != body_size:
            break
        whole = end - at
        alike = alike + 1 if whole == before else 1
        before = whole
        if alike >= _RUN_MIN:
            count = _alike(data, at, whole, (header_at - at, body_at - at))
            if count >= _RUN_MIN:
                end = at + count * whole
                rows = _rows(whole, body_at + 7 - at, tags is not None).iter_unpack(data[at:end])
                columns: Sequence[tuple[int, ...]] = tuple(zip(*rows, strict=True))
                numbers += columns[-2]
                times += columns[-1]
                if tags is not None:
                    tags += columns[0]  # type: ignore[arg-type]
                if ends is not None:
                    ends += range(at + whole, end + 1, whole)
                at, alike = end, 0
                continue
            alike = -count
        number, time_ns = _STAMP.unpack_from(data, body_at + 7)
        numbers.append(number)
        times.append(time_ns)
        if tags is not None:
            tags.append(data[at + 12 : at + 12 + TAG_BYTES])
        if ends is not None:
            ends.append(end)
        at = end
    return at


def _alike(data: bytes, at: int, size: int, frames: tuple[int, int]) -> int:
    """How many deliveries of this size follow each other whose frames are as in the first.

    `frames`: where its second and third frame begin.
    """
    second, third = frames
    marks = (
        0, *range(3, 12), REDELIVERED_AT, second - 1, second, *range(second + 3, second + 19),
        third - 1, third, *range(third + 3, third + 7), size - 1,
    )  # fmt: skip
    count = (len(data) - at) // size
    for mark in marks:
        column = data[at + mark : at + count * size : size]
        count = len(column) - len(column.lstrip(column[:1]))
    return count


_STRUCTS: Final[dict[tuple[int, int, bool], struct.Struct]] = {}


def _rows(size: int, stamp_at: int, has_tags: bool) -> struct.Struct:
    """How a delivery of this size unpacks into tag (if wanted), number and time."""
    key = size, stamp_at, has_tags
    found = _STRUCTS.get(key)
    if found is None:
        front = f"12x{TAG_BYTES}s{stamp_at - 12 - TAG_BYTES}x" if has_tags else f"{stamp_at}x"
        found = _STRUCTS[key] = struct.Struct(f"<{front}QQ{size - stamp_at - 16}x")
    return found
