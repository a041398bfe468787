# cython: boundscheck=False, wraparound=False
"""The compiled twin of `settlements.py`, which says what it is for.

Bounds: a frame is looked at only when all its 21 bytes are there.
"""

from libc.stdint cimport uint8_t, uint32_t

from fedq.core.octets cimport read_u16, read_u32, read_u64

SETTLE_ACK = 0
SETTLE_NACK = 1
SETTLE_REJECT = 2

Settle = tuple[int, int, bool, bool]

cdef enum:
    METHOD = 1
    FRAME_END = 0xCE
    FRAME_BYTES = 21
    PAYLOAD_BYTES = 13
    ACK = 60 << 16 | 80
    REJECT = 60 << 16 | 90
    NACK = 60 << 16 | 120


def take_settles(bytes data not None, Py_ssize_t at, list batch not None):
    """Takes basic.ack, basic.nack and basic.reject from `at` on, all of one channel.

    Appends them to `batch` and returns where it stopped.
    """
    cdef const uint8_t* frame = data
    cdef Py_ssize_t size = len(data)
    cdef uint32_t ids
    cdef uint8_t bits
    cdef int channel = -1
    if at < 0:
        raise ValueError("a place in the data is not negative")
    frame += at
    while size - at >= FRAME_BYTES:
        if (
            frame[0] != METHOD or read_u32(frame + 3) != PAYLOAD_BYTES or frame[20] != FRAME_END
            or (channel >= 0 and read_u16(frame + 1) != <uint32_t>channel)
        ):
            break
        ids, bits = read_u32(frame + 7), frame[19]
        if ids == ACK:
            batch.append((SETTLE_ACK, read_u64(frame + 11), bits & 1 != 0, False))
        elif ids == NACK:
            batch.append((SETTLE_NACK, read_u64(frame + 11), bits & 1 != 0, bits & 2 != 0))
        elif ids == REJECT:
            batch.append((SETTLE_REJECT, read_u64(frame + 11), False, bits & 1 != 0))
        else:
            break
        channel = <int>read_u16(frame + 1)
        at += FRAME_BYTES
        frame += FRAME_BYTES
    return at
