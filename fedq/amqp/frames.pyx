# cython: boundscheck=False, wraparound=False
"""The compiled twin of `frames.py`, which says what it is for.

Bounds: a frame's head is read only when its seven bytes are there, and its end only when the data
reaches so far; places are compared in 64 bits.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from fedq.amqp.wire cimport FRAME_END, FRAME_HEAD, FRAME_HEARTBEAT, FRAME_OVERHEAD
from fedq.core.octets cimport read_u16, read_u32, write_u16, write_u32

from fedq.core.errors import FRAME_ERROR, ConnectionViolation


def frame(uint8_t kind, uint32_t channel, bytes payload not None):
    """One whole frame."""
    cdef Py_ssize_t size = len(payload)
    cdef bytes whole = PyBytes_FromStringAndSize(NULL, size + FRAME_OVERHEAD)
    cdef uint8_t* out = <uint8_t*>PyBytes_AS_STRING(whole)
    out[0] = kind
    write_u16(out + 1, channel)
    write_u32(out + 3, <uint32_t>size)
    memcpy(out + FRAME_HEAD, PyBytes_AS_STRING(payload), <size_t>size)
    out[FRAME_HEAD + size] = FRAME_END
    return whole


HEARTBEAT = frame(FRAME_HEARTBEAT, 0, b"")


def scan_frame(bytes data not None, int64_t at, int64_t frame_bytes_max):
    """(type, channel, start, end) of the frame at `at`, where `data[start:end]` is its payload.

    The next frame begins at `end + 1`. `None` when the frame is not complete yet. Raises
    `ConnectionViolation` 501 for a frame above the limit (as soon as its head is there) and for
    one that does not end in 0xCE: after either, the rest of the stream means nothing. As in
    RabbitMQ the limit is taken for the payload's: many clients count the other 8 bytes wrong.
    """
    cdef const uint8_t* octets = data
    cdef int64_t size = len(data), payload, end
    if at < 0:
        raise ValueError("a place in the data is not negative")
    if size - at < FRAME_HEAD:
        return None
    payload = read_u32(octets + at + 3)
    if payload > frame_bytes_max:
        text = f"a frame of {payload + FRAME_OVERHEAD} bytes: at most {frame_bytes_max} are agreed"
        raise ConnectionViolation(FRAME_ERROR, text)
    end = at + FRAME_HEAD + payload
    if end >= size:
        return None
    if octets[end] != FRAME_END:
        text = f"a frame ends in 0x{octets[end]:02x} and not in 0xCE: the stream is out of step"
        raise ConnectionViolation(FRAME_ERROR, text)
    return octets[at], read_u16(octets + at + 1), at + FRAME_HEAD, end


def wanted_bytes(data not None):
    """How many bytes `scan_frame` needs to get on with the frame at the start of `data`."""
    cdef bytes head = bytes(data[:FRAME_HEAD])
    if len(head) < FRAME_HEAD:
        return FRAME_HEAD
    return FRAME_OVERHEAD + <int64_t>read_u32(<const uint8_t*>PyBytes_AS_STRING(head) + 3)
