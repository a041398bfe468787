# cython: boundscheck=False, wraparound=False
"""The native form of `sending.py`, which says what it is for: it speaks to the kernel itself.

A client's socket is *direct* while its transport has nothing of it: then parts go to the kernel at
once. What the kernel does not take goes to the transport, and so does what follows, until the
transport says that it has written everything. The descriptor is the transport's own, and is good
for as long as `is_open`: the transport closes it only after it has called `connection_lost`.
"""

from libc.errno cimport EINTR, errno

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.buffer cimport Py_buffer

cdef extern from *:
    """
    #include <string.h>
    #include <sys/socket.h>
    #include <sys/uio.h>
    /* Without it a lost connection is a signal, which Python ignores anyway. */
    #ifndef MSG_NOSIGNAL
    #define MSG_NOSIGNAL 0
    #endif
    """
    enum: MSG_DONTWAIT
    enum: MSG_NOSIGNAL
    cdef struct iovec:
        void* iov_base
        size_t iov_len
    cdef struct msghdr:
        iovec* msg_iov
        size_t msg_iovlen
    ssize_t send(int, const void*, size_t, int) nogil
    ssize_t sendmsg(int, const msghdr*, int) nogil
    void* memset(void*, int, size_t) nogil

cdef extern from "Python.h":
    Py_buffer* PyMemoryView_GET_BUFFER(object)
    bint PyMemoryView_Check(object)

cdef enum:
    #: Of one call; the kernel takes no more (UIO_MAXIOV).
    PARTS_MAX = 1024
    JOIN_BYTES_MAX = 64 * 1024


cdef class ClientSocket:
    """The way out to one client."""

    # What a fan-out looks at comes first.
    cdef public int descriptor
    cdef public bint is_open
    #: The transport may have bytes that it has not written.
    cdef bint _is_behind
    cdef public object transport
    cdef public object connection

    def __init__(self, connection):
        self.connection = connection
        self.descriptor = -1


cdef class ClientSockets:
    """The sockets of all clients."""

    cdef dict _clients

    def __init__(self, dict clients not None):
        self._clients = clients

    def write(self, connection, list parts not None):
        """Sends the parts, of which there is one at least, if the client is still there."""
        _write(self._clients.get(connection), parts)

    def write_all(self, dict writes not None):
        """Sends everybody's parts."""
        cdef list parts
        for connection, parts in writes.items():
            _write(self._clients.get(connection), parts)

    def write_next(self, order not None, dict waiting not None, Py_ssize_t count):
        """Takes connections out of an order, so many, and sends what waits for each."""
        cdef list parts
        popleft = order.popleft
        for _ in range(min(count, <Py_ssize_t>len(order))):
            connection = popleft()
            parts = waiting.pop(connection, None)
            if parts is not None:
                _write(self._clients.get(connection), parts)


def write_pieces(list clients not None, list pieces not None, Py_ssize_t first, Py_ssize_t stop):
    """Sends each of these clients its piece, unless that is empty, from one place on."""
    cdef Py_ssize_t place
    cdef ClientSocket client
    cdef bytes piece
    for place in range(first, min(stop, <Py_ssize_t>len(pieces), <Py_ssize_t>len(clients))):
        piece, client = pieces[place], clients[place]
        if not piece or not client.is_open:
            continue
        if client.descriptor < 0 or client._is_behind:
            _write(client, [piece])
        else:
            _write_piece(client, piece)


cdef int _write(ClientSocket client, list parts) except -1:
    if client is None or not client.is_open:
        return 0
    if client.descriptor < 0 or client._is_behind:
        if client.transport.is_closing():
            # The client has reset the connection, and nobody was told yet.
            return 0
        if client.descriptor < 0 or client.transport.get_write_buffer_size():
            return _write_through(client.transport, parts)
        client._is_behind = False
    if len(parts) == 1 and PyBytes_CheckExact(parts[0]):
        return _write_piece(client, parts[0])
    return _write_parts(client, parts)


cdef inline Py_ssize_t _size_of(part) except -1:
    """The size of a part: bytes, or octets that are looked at where they are."""
    if PyBytes_CheckExact(part):
        return PyBytes_GET_SIZE(part)
    if not PyMemoryView_Check(part):
        raise TypeError(f"{type(part).__name__} is nothing to write")
    return PyMemoryView_GET_BUFFER(part).len


cdef inline void* _octets_of(part) noexcept:
    """The address of a part's octets; the part has a size."""
    if PyBytes_CheckExact(part):
        return PyBytes_AS_STRING(part)
    return PyMemoryView_GET_BUFFER(part).buf


cdef int _write_piece(ClientSocket client, bytes piece) except -1:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(piece)
    cdef ssize_t sent = _send(client.descriptor, PyBytes_AS_STRING(piece), size)
    if sent != size:
        client._is_behind = True
        client.transport.write(piece[max(sent, 0):])
    return 0


cdef int _write_through(transport, list parts) except -1:
    cdef Py_ssize_t size = 0
    for part in parts:
        size += _size_of(part)
    if len(parts) == 1 or size > JOIN_BYTES_MAX:
        transport.writelines(parts)
    else:
        transport.write(b"".join(parts))
    return 0


cdef int _write_parts(ClientSocket client, list parts) except -1:
    """Sends many parts: as few calls of the kernel as can be, and the rest to the transport."""
    cdef iovec vectors[PARTS_MAX]
    cdef Py_ssize_t done = 0, count = len(parts), index, size
    cdef ssize_t sent
    while done < count:
        size = 0
        for index in range(min(count - done, <Py_ssize_t>PARTS_MAX)):
            part = parts[done + index]
            vectors[index].iov_len = _size_of(part)
            vectors[index].iov_base = _octets_of(part)
            size += vectors[index].iov_len
        index = min(count - done, <Py_ssize_t>PARTS_MAX)
        sent = _send_vectors(client.descriptor, vectors, index)
        if sent == size:
            done += index
            continue
        sent = max(sent, 0)
        while sent >= _size_of(parts[done]):
            sent -= _size_of(parts[done])
            done += 1
        client._is_behind = True
        client.transport.writelines([parts[done][sent:], *parts[done + 1:]])
        return 0
    return 0


cdef ssize_t _send(int descriptor, const char* data, Py_ssize_t size) noexcept:
    """How many bytes the kernel took; -1: none, for whatever reason."""
    cdef ssize_t sent
    while True:
        sent = send(descriptor, data, size, MSG_DONTWAIT | MSG_NOSIGNAL)
        if sent >= 0 or errno != EINTR:
            return sent


cdef ssize_t _send_vectors(int descriptor, iovec* vectors, Py_ssize_t count) noexcept:
    cdef msghdr message
    cdef ssize_t sent
    memset(&message, 0, sizeof(msghdr))
    message.msg_iov, message.msg_iovlen = vectors, count
    while True:
        sent = sendmsg(descriptor, &message, MSG_DONTWAIT | MSG_NOSIGNAL)
        if sent >= 0 or errno != EINTR:
            return sent
