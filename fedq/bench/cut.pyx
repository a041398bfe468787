# cython: boundscheck=False, wraparound=False
"""The compiled twin of `cut.py`, which says what it is for.

Bounds: `size` is what is there, and lengths come from the network as 32 and 64 bits. Each is
compared with what is left before anything behind it is looked at; `at`, `second`, `third` and `end`
never pass `size`, so no sum overflows.
"""

from libc.stdint cimport uint8_t, uint64_t

from fedq.amqp.wire cimport (
    DELIVER_IDS, FRAME_BODY, FRAME_END, FRAME_HEADER, FRAME_METHOD, HEADER_IDS,
)
from fedq.core.octets cimport read_u32, read_u64

cdef enum:
    TAG_SIZE = 8
    FLAG_AT = 20 + TAG_SIZE
    STAMP_BYTES = 16
    DELIVERY_BYTES_MIN = 78
    CONTENT_BYTES_MIN = 46

#: For others.
TAG_BYTES = TAG_SIZE
REDELIVERED_AT = FLAG_AT


cdef Py_ssize_t stamp_of(const uint8_t* start, Py_ssize_t size, Py_ssize_t* end) noexcept nogil:
    """Where the stamp of the delivery at `start` is, with its end; 0 if it is none, or not whole.

    `size`: bytes that are there, at least `DELIVERY_BYTES_MIN`.
    """
    cdef Py_ssize_t second, third
    cdef uint64_t length, body_size
    length = read_u32(start + 3)
    if (
        start[0] != FRAME_METHOD or read_u32(start + 7) != DELIVER_IDS or start[11] != TAG_SIZE
        or length > <uint64_t>(size - CONTENT_BYTES_MIN - 8)
    ):
        return 0
    second = <Py_ssize_t>length + 8
    if start[second - 1] != FRAME_END or start[second] != FRAME_HEADER or start[FLAG_AT]:
        return 0
    if read_u32(start + second + 7) != HEADER_IDS:
        return 0
    length = read_u32(start + second + 3)
    body_size = read_u64(start + second + 11)
    if body_size < STAMP_BYTES or length > <uint64_t>(size - second - 16):
        return 0
    third = second + 8 + <Py_ssize_t>length
    if body_size > <uint64_t>(size - third - 8):
        return 0
    end[0] = third + 8 + <Py_ssize_t>body_size
    if (
        start[third - 1] != FRAME_END or start[end[0] - 1] != FRAME_END
        or start[third] != FRAME_BODY or read_u32(start + third + 3) != body_size
    ):
        return 0
    return third + 7


def cut(
    bytes data not None, Py_ssize_t at, list numbers not None, list times not None, list tags,
    list ends,
):
    """Appends what the deliveries from `at` on hold; returns where it stopped.

    Consumer tags, and where each delivery ends in the data, only for lists that are given.
    """
    cdef const uint8_t* start = data
    cdef Py_ssize_t size = len(data), stamp, end = 0
    # As the pure twin reads them, little-endian, whatever this machine's order is.
    cdef uint64_t number, time_ns, before_ns = 0
    cdef object time_object = None
    if at < 0:
        raise ValueError("a place in the data is not negative")
    while size - at >= DELIVERY_BYTES_MIN:
        start = <const uint8_t*>data + at
        stamp = stamp_of(start, size - at, &end)
        if not stamp:
            break
        number, time_ns = read_little(start + stamp), read_little(start + stamp + 8)
        # Neighbours were often sent at once: then they share one object, too.
        if time_object is None or time_ns != before_ns:
            time_object, before_ns = time_ns, time_ns
        numbers.append(number)
        times.append(time_object)
        if tags is not None:
            tags.append(data[at + 12:at + 12 + TAG_SIZE])
        at += end
        if ends is not None:
            ends.append(at)
    return at


cdef inline uint64_t read_little(const uint8_t* at) noexcept nogil:
    """A long-long with its lowest byte first."""
    cdef uint64_t value = 0
    cdef int place
    for place in range(8):
        value |= <uint64_t>at[place] << (8 * place)
    return value
