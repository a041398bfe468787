"""Frames: how bytes are cut, and runs of publishes.

A frame is `type u8 | channel u16 | size u32 | payload | 0xCE` (AMQP 0-9-1 clause 4.2.3).

`scan_frame` cuts any single frame. `take_publishes` takes a run of publishes in one loop: only what
is wholly there and wholly regular; it stops in front of everything else, which then goes frame by
frame through the connection, where the errors are told. So a run never has to explain a fault, and
both ways must give the same result. Runs of settlements: `fedq.amqp.settlements`.

Kept to plain functions over bytes and ints, to be compiled behind the same interface.
"""

import struct
from typing import Final

from fedq.amqp.content import message_flags
from fedq.core.errors import FRAME_ERROR, ConnectionViolation
from fedq.core.message import FLAGS_OF_NOTE, encode

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_HEARTBEAT: Final = 8
FRAME_END: Final = 0xCE
#: Bytes of a frame around its payload.
FRAME_OVERHEAD: Final = 8
#: The smallest frame_max that any peer may ask for (AMQP 0-9-1 clause 4.2.3: frame-min-size).
FRAME_BYTES_MIN: Final = 4_096

#: How many different property lists are remembered as checked, and how long one may be.
CHECKED_MAX: Final = 64
CHECKED_BYTES_MAX: Final = 512

_frame_head: Final = struct.Struct(">BHI")
_publish_head: Final = struct.Struct(">BHIIHB")
_header_head: Final = struct.Struct(">BHIIQ")

_PUBLISH: Final = 60 << 16 | 40
_BASIC_HEADER: Final = 60 << 16

#: A publish: the message, its route, and bits: 0 = mandatory, 1 = immediate, and above them those
#: of the message's FLAGS_OF_NOTE, so that whoever takes runs of equal bits meets them alone.
Publish = tuple[bytes, bytes, int]


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """One whole frame."""
    return b"%b%b\xce" % (_frame_head.pack(kind, channel, len(payload)), payload)


HEARTBEAT: Final = frame(FRAME_HEARTBEAT, 0, b"")


def scan_frame(data: bytes, at: int, frame_bytes_max: int) -> tuple[int, int, int, int] | None:
    """(type, channel, start, end) of the frame at `at`, where `data[start:end]` is its payload.

    The next frame begins at `end + 1`. `None` when the frame is not complete yet. Raises
    `ConnectionViolation` 501 for a frame above the limit (as soon as its head is there) and for
    one that does not end in 0xCE: after either, the rest of the stream means nothing.
    """
    if len(data) - at < FRAME_OVERHEAD - 1:
        return None
    kind, channel, size = _frame_head.unpack_from(data, at)
    if size + FRAME_OVERHEAD > frame_bytes_max:
        text = f"a frame of {size + FRAME_OVERHEAD} bytes: at most {frame_bytes_max} are agreed"
        raise ConnectionViolation(FRAME_ERROR, text)
    start = at + FRAME_OVERHEAD - 1
    end = start + size
    if end >= len(data):
        return None
    if data[end] != FRAME_END:
        text = f"a frame ends in 0x{data[end]:02x} and not in 0xCE: the stream is out of step"
        raise ConnectionViolation(FRAME_ERROR, text)
    return kind, channel, start, end


def wanted_bytes(data: bytes | bytearray) -> int:
    """How many bytes `scan_frame` needs to get on with the frame at the start of `data`."""
    if len(data) < FRAME_OVERHEAD - 1:
        return FRAME_OVERHEAD - 1
    return FRAME_OVERHEAD + int(_frame_head.unpack_from(data)[2])


def checked_flags(properties: bytes, checked: dict[bytes, int]) -> int:
    """The message flags of a property list; `checked` remembers the answers for a connection.

    Most publishers send the same few lists over and over. Raises as `message_flags` does.
    """
    flags = checked.get(properties)
    if flags is None:
        flags = message_flags(properties)
        if len(properties) <= CHECKED_BYTES_MAX:
            if len(checked) >= CHECKED_MAX:
                checked.clear()
            checked[properties] = flags
    return flags


def take_publishes(
    data: bytes, at: int, frame_bytes_max: int, checked: dict[bytes, int], batch: list[Publish]
) -> int:
    """Takes publishes of at most one body frame each, from `at` on, all of one channel.

    Appends them to `batch` and returns where it stopped: in front of the first frame that is not
    the regular, complete beginning of such a publish.
    """
    size = len(data)
    payload_max = frame_bytes_max - FRAME_OVERHEAD
    starts_with, flags_of, append = data.startswith, checked.get, batch.append
    channel = -1
    # A publisher repeats itself: when all bytes up to the body are those of the publish before,
    # they need not be understood again, and its message differs only in the body, which is last.
    front = lead = route = b""
    bits = body_size = 0
    while True:
        if front and starts_with(front, at):
            body_at = at + len(front)
            stop = body_at + body_size
            if stop >= size or data[stop] != FRAME_END:
                break
            append((lead + data[body_at:stop], route, bits))
            at = stop + 1
            continue
        found = _publish_at(data, at, payload_max)
        if found is None or (channel >= 0 and found[0] != channel):
            break
        channel, end, properties_end, body_at, body_size = found
        properties = data[end + 20 : properties_end]
        flags = flags_of(properties)
        if flags is None:
            try:
                flags = checked_flags(properties, checked)
            except ConnectionViolation:
                break  # Found and told again, with its frames, on the way frame by frame.
        route, bits = data[at + 13 : end - 1], data[end - 1] & 3 | flags & FLAGS_OF_NOTE
        front, lead = data[at:body_at], encode(flags, route, properties, b"")
        stop = body_at + body_size
        append((lead + data[body_at:stop], route, bits))
        at = stop + 1
    return at


def _publish_at(data: bytes, at: int, payload_max: int) -> tuple[int, int, int, int, int] | None:
    """(channel, end of the method, end of the properties, start of the body, its size), or `None`.

    Ends are where the 0xCE of a frame is. Without a body its start is the end of the properties.
    """
    size = len(data)
    # The smallest publish: a method frame of 17 bytes and a header frame of 22.
    if size - at < 39:
        return None
    kind, channel, length, ids, _, exchange_size = _publish_head.unpack_from(data, at)
    end = at + 7 + length
    key_at = at + 14 + exchange_size
    if (
        ids != _PUBLISH or kind != FRAME_METHOD
        or end + 23 > size or key_at >= end or key_at + data[key_at] + 2 != end
        or data[end] != FRAME_END
    ):  # fmt: skip
        return None
    kind, number, length, ids, body_size = _header_head.unpack_from(data, end + 1)
    properties_end = end + 8 + length
    if (
        kind != FRAME_HEADER or number != channel or ids != _BASIC_HEADER
        or not 14 <= length <= payload_max
        or properties_end >= size or data[properties_end] != FRAME_END
    ):  # fmt: skip
        return None
    if not body_size:
        return channel, end, properties_end, properties_end, 0
    if properties_end + 8 > size:
        return None
    kind, number, length = _frame_head.unpack_from(data, properties_end + 1)
    stop = properties_end + 8 + length
    if (
        kind != FRAME_BODY or number != channel or length != body_size
        or length > payload_max or stop >= size or data[stop] != FRAME_END
    ):  # fmt: skip
        return None
    return channel, end, properties_end, properties_end + 8, body_size
