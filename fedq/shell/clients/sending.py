"""The way to the sockets of clients: what a turn wrote goes out in one send for each of them.

In: parts by connection, singly, all at once, or the next of those that wait; or single pieces.
Out: bytes on the sockets of clients that are there; for all others nothing. The native form hands
them to the kernel without going through the client's transport, which costs as much as the rest of
a short delivery; what the kernel does not take at once, and whatever follows until that is gone,
goes through the transport as it does here.

Invariants: bytes of one connection keep their order; nothing is written to a client that has
closed; a socket that fails is left to its transport, which finds out at the next write and reports
it.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Final

from fedq.amqp.content import Body
from fedq.core.ids import ConnectionId

#: Parts of more bytes than this are not joined: the copy would cost more than a longer list.
_JOIN_BYTES_MAX: Final = 64 * 1024


class ClientSocket:
    """A client's socket, and the transport that has what waits for it."""

    __slots__ = ("connection", "descriptor", "is_open", "transport")

    def __init__(self, connection: ConnectionId) -> None:
        self.connection = connection
        #: Whether anything may be written; not before `transport` is set, nor once it has closed.
        self.is_open = False
        #: The socket of a transport that changes nothing of what it writes; else -1.
        self.descriptor = -1
        self.transport: asyncio.Transport


class ClientSockets:
    """The sockets of all clients."""

    __slots__ = ("_clients",)

    def __init__(self, clients: Mapping[ConnectionId, ClientSocket]) -> None:
        """`clients`: a dict, which somebody else keeps."""
        self._clients = clients

    def write(self, connection: ConnectionId, parts: list[Body]) -> None:
        """Sends the parts, of which there is one at least, if the client is still there."""
        client = self._clients.get(connection)
        if client is not None and client.is_open:
            _write(client.transport, parts)

    def write_all(self, writes: dict[ConnectionId, list[Body]]) -> None:
        """Sends everybody's parts."""
        for connection, parts in writes.items():
            self.write(connection, parts)

    def write_next(
        self, order: deque[ConnectionId], waiting: dict[ConnectionId, list[Body]], count: int
    ) -> None:
        """Takes connections out of an order, so many, and sends what waits for each."""
        for _ in range(min(count, len(order))):
            connection = order.popleft()
            parts = waiting.pop(connection, None)
            if parts is not None:
                self.write(connection, parts)


def write_pieces(clients: list[ClientSocket], pieces: list[bytes], first: int, stop: int) -> None:
    """Sends each of these clients its piece, unless that is empty, from one place on."""
    for place in range(first, stop):
        client = clients[place]
        if pieces[place] and client.is_open:
            _write(client.transport, [pieces[place]])


def _write(transport: asyncio.Transport, parts: list[Body]) -> None:
    if transport.is_closing():
        # The client has reset the connection, and nobody was told yet.
        return
    if len(parts) == 1:
        transport.write(parts[0])
    elif sum(map(len, parts)) <= _JOIN_BYTES_MAX:
        transport.write(b"".join(parts))
    else:
        transport.writelines(parts)
