"""Runs of basic.ack, basic.nack and basic.reject, which are frames of one size (21 bytes).

Input: bytes of a client. Output: settlements in order, and where the run ends. Only what is wholly
there and wholly regular is taken; everything else goes frame by frame through the connection,
where errors are told. So a run never has to explain a fault, and both ways give the same result.

The compiled twin is `settlements.pyx`.
"""

import struct
from typing import Final

SETTLE_ACK: Final = 0
SETTLE_NACK: Final = 1
SETTLE_REJECT: Final = 2

#: A settlement: SETTLE_…, delivery tag, multiple, requeue.
Settle = tuple[int, int, bool, bool]

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
    unpack, append = _settle.unpack_from, batch.append
    channel = -1
    while size - at >= _FRAME_BYTES:
        kind, number, length, ids, tag, bits, end = unpack(data, at)
        if (
            kind != _METHOD or length != _PAYLOAD_BYTES or end != _FRAME_END
            or (number != channel and channel >= 0)
        ):  # fmt: skip
            break
        if ids == _ACK:
            append((SETTLE_ACK, tag, bits & 1 != 0, False))
        elif ids == _NACK:
            append((SETTLE_NACK, tag, bits & 1 != 0, bits & 2 != 0))
        elif ids == _REJECT:
            append((SETTLE_REJECT, tag, False, bits & 1 != 0))
        else:
            break
        channel = number
        at += _FRAME_BYTES
    return at
