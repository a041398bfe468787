"""Runs of basic.ack, basic.nack and basic.reject, which are frames of one size (21 bytes).

Input: bytes of a client. Output: settlements in order, and where the run ends. Most clients settle
tag after tag: such frames in a row become one settlement. Only what is wholly there and wholly
regular is taken; everything else goes frame by frame through the connection, where errors are told.
So a run never has to explain a fault.

The compiled twin is `settlements.pyx`.
"""

import struct
from typing import Final

from fedq.amqp.spec import (
    ACK_IDS,
    BASIC_ACK,
    BASIC_NACK,
    BASIC_REJECT,
    FRAME_END,
    FRAME_METHOD,
    NACK_IDS,
    REJECT_IDS,
    SETTLING_FRAME,
    SETTLING_PAYLOAD,
)

#: Settlements: the method's number (BASIC_ACK, BASIC_NACK, BASIC_REJECT), first and last delivery
#: tag, multiple, requeue. The tags from first to last are settled in ascending order, each by
#: itself; with multiple, first and last are one.
Settle = tuple[int, int, int, bool, bool]

_SETTLE: Final = struct.Struct(">BHIIQBB")


def take_settles(data: bytes, at: int, batch: list[Settle]) -> int:
    """Takes basic.ack, basic.nack and basic.reject from `at` on, all of one channel.

    Appends them to `batch` and returns where it stopped.
    """
    size = len(data)
    unpack = _SETTLE.unpack_from
    channel = -1
    # What has been gathered into one settlement; nothing yet, while `kept` is no method.
    kept, first, last, kept_requeue = -1, 0, 0, False
    while size - at >= SETTLING_FRAME:
        frame_type, number, length, ids, tag, bits, end = unpack(data, at)
        if (
            frame_type != FRAME_METHOD or length != SETTLING_PAYLOAD or end != FRAME_END
            or (number != channel and channel >= 0)
        ):  # fmt: skip
            break
        if ids == ACK_IDS:
            method, multiple, requeue = BASIC_ACK, bits & 1 != 0, False
        elif ids == NACK_IDS:
            method, multiple, requeue = BASIC_NACK, bits & 1 != 0, bits & 2 != 0
        elif ids == REJECT_IDS:
            method, multiple, requeue = BASIC_REJECT, False, bits & 1 != 0
        else:
            break
        channel = number
        at += SETTLING_FRAME
        if not multiple and tag == last + 1 and method == kept and requeue == kept_requeue:
            last = tag
            continue
        if kept >= 0:
            batch.append((kept, first, last, False, kept_requeue))
        if multiple:
            batch.append((method, tag, tag, True, requeue))
            kept = -1
        else:
            kept, first, last, kept_requeue = method, tag, tag, requeue
    if kept >= 0:
        batch.append((kept, first, last, False, kept_requeue))
    return at
