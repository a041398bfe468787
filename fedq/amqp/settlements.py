"""Runs of basic.ack, basic.nack and basic.reject, which are frames of one size (21 bytes).

Input: bytes of a client. Output: settlements in order, and where the run ends. Most clients settle
tag after tag: such frames in a row become one settlement. Only what is wholly there and wholly
regular is taken; everything else goes frame by frame through the connection, where errors are told.
So a run never has to explain a fault.

The compiled twin is `settlements.pyx`.
"""

import struct
from typing import Final

SETTLE_ACK: Final = 0
SETTLE_NACK: Final = 1
SETTLE_REJECT: Final = 2

#: Settlements: SETTLE_…, first and last delivery tag, multiple, requeue. The tags from first to
#: last are settled in ascending order, each by itself; with multiple, first and last are one.
Settle = tuple[int, int, int, bool, bool]

_settle: Final = struct.Struct(">BHIIQBB")
_METHOD: Final = 1
_FRAME_END: Final = 0xCE
_FRAME_BYTES: Final = 21
_PAYLOAD_BYTES: Final = 13
_ACK: Final = 60 << 16 | 80
_REJECT: Final = 60 << 16 | 90
_NACK: Final = 60 << 16 | 120


def take_settles(data: bytes, at: int, batch: list[Settle]) -> int:
    """Takes basic.ack, basic.nack and basic.reject from `at` on, all of one channel.

    Appends them to `batch` and returns where it stopped.
    """
    size = len(data)
    unpack = _settle.unpack_from
    channel = -1
    # What has been gathered into one settlement; nothing yet, while the kind is -1.
    kept, first, last, kept_requeue = -1, 0, 0, False
    while size - at >= _FRAME_BYTES:
        frame_type, number, length, ids, tag, bits, end = unpack(data, at)
        if (
            frame_type != _METHOD or length != _PAYLOAD_BYTES or end != _FRAME_END
            or (number != channel and channel >= 0)
        ):  # fmt: skip
            break
        if ids == _ACK:
            kind, multiple, requeue = SETTLE_ACK, bits & 1 != 0, False
        elif ids == _NACK:
            kind, multiple, requeue = SETTLE_NACK, bits & 1 != 0, bits & 2 != 0
        elif ids == _REJECT:
            kind, multiple, requeue = SETTLE_REJECT, False, bits & 1 != 0
        else:
            break
        channel = number
        at += _FRAME_BYTES
        if not multiple and tag == last + 1 and kind == kept and requeue == kept_requeue:
            last = tag
            continue
        if kept >= 0:
            batch.append((kept, first, last, False, kept_requeue))
        if multiple:
            batch.append((kind, tag, tag, True, requeue))
            kept = -1
        else:
            kept, first, last, kept_requeue = kind, tag, tag, requeue
    if kept >= 0:
        batch.append((kept, first, last, False, kept_requeue))
    return at
