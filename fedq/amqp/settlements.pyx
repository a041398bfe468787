# cython: boundscheck=False, wraparound=False
"""The compiled twin of `settlements.py`, which says what it is for.

Bounds: a frame is looked at only when all its 21 bytes are there.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from fedq.core.octets cimport read_u16, read_u32, read_u64

SETTLE_ACK = 0
SETTLE_NACK = 1
SETTLE_REJECT = 2

Settle = tuple[int, int, int, bool, bool]

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
    cdef uint64_t tag, first = 0, last = 0
    cdef uint32_t ids, bits
    cdef int channel = -1, kind, kept = -1
    cdef bint multiple, requeue, kept_requeue = False
    if at < 0:
        raise ValueError("a place in the data is not negative")
    while size - at >= FRAME_BYTES:
        frame = <const uint8_t*>data + at
        if (
            frame[0] != METHOD or read_u32(frame + 3) != PAYLOAD_BYTES or frame[20] != FRAME_END
            or (channel >= 0 and read_u16(frame + 1) != <uint32_t>channel)
        ):
            break
        ids, bits = read_u32(frame + 7), frame[19]
        if ids == ACK:
            kind, multiple, requeue = 0, bits & 1 != 0, False
        elif ids == NACK:
            kind, multiple, requeue = 1, bits & 1 != 0, bits & 2 != 0
        elif ids == REJECT:
            kind, multiple, requeue = 2, False, bits & 1 != 0
        else:
            break
        channel = <int>read_u16(frame + 1)
        tag = read_u64(frame + 11)
        at += FRAME_BYTES
        # The last tag there is has none after it: 0 would be one that came round.
        if not multiple and tag == last + 1 and tag and kind == kept and requeue == kept_requeue:
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
