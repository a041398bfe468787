# cython: boundscheck=False, wraparound=False
"""The compiled twin of `weights.py`, which says what it is for.

Bounds: the first byte of a message is read only when there is one.
"""

from libc.stdint cimport uint8_t


def weigh(messages):
    """All their bytes, and all their flags (their first bytes) together."""
    cdef Py_ssize_t size = 0, length
    cdef int flags = 0
    cdef bytes message
    for message in messages:
        length = len(message)
        if length == 0:
            raise IndexError("a message has a head")
        size += length
        flags |= (<const uint8_t*><const char*>message)[0]
    return size, flags
