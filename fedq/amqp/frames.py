"""The framing of AMQP: how bytes are cut into frames.

A frame is `type u8 | channel u16 | size u32 | payload | 0xCE` (AMQP 0-9-1 clause 4.2.3).

`scan_frame` cuts any single frame, and tells what is wrong with one. Nearly all traffic is runs of
the same few frames, which are taken in one loop: `fedq.amqp.publishes`, `fedq.amqp.settlements`.
"""

import struct
from typing import Final

from fedq.amqp.spec import END, FRAME_END, FRAME_HEAD, FRAME_HEARTBEAT, FRAME_OVERHEAD
from fedq.core.errors import FRAME_ERROR, ConnectionViolation

_FRAME_HEAD: Final = struct.Struct(">BHI")


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """One whole frame."""
    return b"%b%b%b" % (_FRAME_HEAD.pack(kind, channel, len(payload)), payload, END)


HEARTBEAT: Final = frame(FRAME_HEARTBEAT, 0, b"")


def scan_frame(data: bytes, at: int, frame_bytes_max: int) -> tuple[int, int, int, int] | None:
    """(type, channel, start, end) of the frame at `at`, where `data[start:end]` is its payload.

    The next frame begins at `end + 1`. `None` when the frame is not complete yet. Raises
    `ConnectionViolation` 501 for a frame above the limit (as soon as its head is there) and for
    one that does not end in 0xCE: after either, the rest of the stream means nothing. As in
    RabbitMQ the limit is taken for the payload's: many clients count the other 8 bytes wrong.
    """
    if len(data) - at < FRAME_HEAD:
        return None
    kind, channel, size = _FRAME_HEAD.unpack_from(data, at)
    if size > frame_bytes_max:
        text = f"a frame of {size + FRAME_OVERHEAD} bytes: at most {frame_bytes_max} are agreed"
        raise ConnectionViolation(FRAME_ERROR, text)
    start = at + FRAME_HEAD
    end = start + size
    if end >= len(data):
        return None
    if data[end] != FRAME_END:
        text = f"a frame ends in 0x{data[end]:02x} and not in 0xCE: the stream is out of step"
        raise ConnectionViolation(FRAME_ERROR, text)
    return kind, channel, start, end


def wanted_bytes(data: bytes | bytearray) -> int:
    """How many bytes `scan_frame` needs to get on with the frame at the start of `data`."""
    if len(data) < FRAME_HEAD:
        return FRAME_HEAD
    return FRAME_OVERHEAD + int(_FRAME_HEAD.unpack_from(data)[2])
