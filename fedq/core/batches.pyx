# cython: boundscheck=False, wraparound=False
"""The compiled twin of `batches.py`, which says what it is for."""

from libc.stdint cimport int64_t

from fedq.core.limits import peer_frame_bytes_max


def cut(messages not None, int64_t bytes_max=peer_frame_bytes_max):
    """Slices that cover all messages in order, each of at most `bytes_max` bytes of messages.

    A single message that is larger is a piece of its own.
    """
    cdef int64_t size = 0, length
    cdef Py_ssize_t start = 0, index = 0
    cdef bytes message
    cdef list pieces = []
    for message in messages:
        length = len(message)
        size += length
        if size > bytes_max and index > start:
            pieces.append(slice(start, index))
            start, size = index, length
        index += 1
    if start < index:
        pieces.append(slice(start, index))
    return pieces
