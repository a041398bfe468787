# cython: boundscheck=False, wraparound=False
"""The compiled twin of `settlements.py`, which says what it is for.

Bounds: a frame is looked at only when all its 21 bytes are there.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from fedq.amqp.wire cimport (
    ACK_IDS, BASIC_ACK, BASIC_NACK, BASIC_REJECT, FRAME_END, FRAME_METHOD, NACK_IDS, REJECT_IDS,
    SETTLING_FRAME, SETTLING_PAYLOAD,
)
from fedq.core.octets cimport read_u16, read_u32, read_u64

Settle = tuple[int, int, int, bool, bool]


def take_settles(bytes data not None, Py_ssize_t at, list batch not None):
    """Takes basic.ack, basic.nack and basic.reject from `at` on, all of one channel.

    Appends them to `batch` and returns where it stopped.
    """
    cdef const uint8_t* frame = data
    cdef Py_ssize_t size = len(data)
    cdef uint64_t tag, first = 0, last = 0
    cdef uint32_t ids, bits
    cdef int channel = -1, method, kept = -1
    cdef bint multiple, requeue, kept_requeue = False
    if at < 0:
        raise ValueError("a place in the data is not negative")
    while size - at >= SETTLING_FRAME:
        frame = <const uint8_t*>data + at
        if (
            frame[0] != FRAME_METHOD or read_u32(frame + 3) != SETTLING_PAYLOAD
            or frame[SETTLING_FRAME - 1] != FRAME_END
            or (channel >= 0 and read_u16(frame + 1) != <uint32_t>channel)
        ):
            break
        ids, bits = read_u32(frame + 7), frame[19]
        if ids == ACK_IDS:
            method, multiple, requeue = BASIC_ACK, bits & 1 != 0, False
        elif ids == NACK_IDS:
            method, multiple, requeue = BASIC_NACK, bits & 1 != 0, bits & 2 != 0
        elif ids == REJECT_IDS:
            method, multiple, requeue = BASIC_REJECT, False, bits & 1 != 0
        else:
            break
        channel = <int>read_u16(frame + 1)
        tag = read_u64(frame + 11)
        at += SETTLING_FRAME
        # The last tag there is has none after it: 0 would be one that came round.
        if not multiple and tag == last + 1 and tag and method == kept and requeue == kept_requeue:
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
