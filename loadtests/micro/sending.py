"""Claim: a short delivery costs less when it goes to the socket past the client's transport.

One message of 150 bytes to each of 400 connections, whose other ends read in a process of their
own: through the transports, and through `fedq.shell.clients.sending` as a turn of the node does it.
What is left is the kernel's; without a compiler the two are the same. Between rounds the readers
have time to take everything, or the kernel would put together what a paced fan-out sends one by
one.
"""

import asyncio
import multiprocessing
import select
import socket
from collections.abc import Callable
from functools import cache
from typing import cast

import uvloop

from fedq.amqp.content import Body
from fedq.core.ids import ConnectionId
from fedq.shell.clients.sending import ClientSocket, ClientSockets, write_pieces
from loadtests.macro.running import allow_descriptors
from loadtests.micro.timing import Case

CONNECTIONS = 400
HOST = "127.0.0.1"
MESSAGE = bytes(150)
PAUSE_S = 0.015


class Client(ClientSocket, asyncio.Protocol):
    """The node's end of a connection, as its server sets it up."""

    def __init__(self, connection: ConnectionId, on_open: Callable[[], None]) -> None:
        super().__init__(connection)
        self.on_open = on_open

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self.transport = cast(asyncio.Transport, transport)
        self.descriptor = transport.get_extra_info("socket").fileno()
        self.is_open = True
        self.on_open()


def read_all(port: int, count: int) -> None:
    """The other ends: connects so many, and reads until this process is ended."""
    allow_descriptors()
    poll = select.epoll()
    ends: dict[int, socket.socket] = {}
    for _ in range(count):
        end = socket.create_connection((HOST, port))
        ends[end.fileno()] = end
        poll.register(end, select.EPOLLIN)
    while ends:
        for number, _ in poll.poll():
            if not ends[number].recv(65_536):
                del ends[number]


class Stage:
    """All connections on an event loop of their own."""

    def __init__(self) -> None:
        self.loop = uvloop.new_event_loop()
        self.clients: dict[ConnectionId, Client] = {}
        self.sockets = ClientSockets(self.clients)
        self.open = 0
        self.complete = asyncio.Event()
        self.loop.run_until_complete(self._connect())

    async def _connect(self) -> None:
        listener = socket.create_server((HOST, 0), backlog=CONNECTIONS)
        await self.loop.create_server(self._new_client, sock=listener)
        # Ends with this process.
        port = listener.getsockname()[1]
        multiprocessing.Process(target=read_all, args=(port, CONNECTIONS), daemon=True).start()
        await self.complete.wait()

    def _new_client(self) -> Client:
        connection = ConnectionId(len(self.clients) + 1)
        client = self.clients[connection] = Client(connection, self.on_open)
        return client

    def on_open(self) -> None:
        """One of them is there."""
        self.open += 1
        if self.open == CONNECTIONS:
            self.complete.set()

    def run(self, write: Callable[[], None]) -> None:
        """One round; transports write when the loop's iteration ends."""

        async def turn() -> None:
            write()
            await asyncio.sleep(PAUSE_S)

        self.loop.run_until_complete(turn())


@cache
def stage() -> Stage:
    """Made when first needed."""
    return Stage()


def by_transports() -> None:
    """A round through the transports."""
    one = stage()

    def write() -> None:
        for client in one.clients.values():
            client.transport.write(MESSAGE)

    one.run(write)


def by_sockets() -> None:
    """A round as a turn writes."""
    one = stage()
    writes: dict[ConnectionId, list[Body]] = {each: [MESSAGE] for each in one.clients}
    one.run(lambda: one.sockets.write_all(writes))


def by_pieces() -> None:
    """A round as a turn writes a fan-out."""
    one = stage()
    clients: list[ClientSocket] = list(one.clients.values())
    one.run(lambda: write_pieces(clients, [MESSAGE] * CONNECTIONS, 0, CONNECTIONS))


CASES = [
    Case("sending a delivery, in a fan-out", CONNECTIONS, by_pieces),
    Case("sending a delivery, past the transport", CONNECTIONS, by_sockets),
    Case("sending a delivery, through the transport", CONNECTIONS, by_transports),
]
