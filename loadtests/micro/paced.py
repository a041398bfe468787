"""Claim: a paced fan-out to 10,000 connections costs what bare sends cost, and little more.

A message of 150 bytes to each of many sockets, whose other ends read in a process of their own,
with a pause in which they take everything, and in which all of a socket leaves the caches of the
processor. Nothing but send(2) in a compiled loop: no broker can be faster on the machine.
"""

import multiprocessing
import socket
import time
from functools import cache

from fedq.core.ids import ConnectionId
from fedq.shell.clients import sending
from fedq.shell.clients.sending import ClientSocket, write_pieces
from loadtests.macro.running import allow_descriptors
from loadtests.micro.sending import HOST, MESSAGE, read_all
from loadtests.micro.timing import Case

FEW, MANY = 1_000, 10_000


class Sockets:
    """So many connected sockets, without transports."""

    def __init__(self, count: int) -> None:
        allow_descriptors()
        listener = socket.create_server((HOST, 0), backlog=1_000)
        port = listener.getsockname()[1]
        # Ends with this process.
        multiprocessing.Process(target=read_all, args=(port, count), daemon=True).start()
        self._sockets: list[socket.socket] = []
        self.clients: list[ClientSocket] = []
        for number in range(count):
            accepted, _ = listener.accept()
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets.append(accepted)
            client = ClientSocket(ConnectionId(number))
            client.descriptor, client.is_open = accepted.fileno(), True
            self.clients.append(client)
        self.send()

    def send(self) -> None:
        """One round."""
        count = len(self.clients)
        write_pieces(self.clients, [MESSAGE] * count, 0, count)
        # Of the few, twenty messages a second come to as many deliveries as two of the many.
        time.sleep(count / (2 * MANY))


@cache
def sockets(count: int) -> Sockets:
    """Made when first needed."""
    return Sockets(count)


#: The portable form has no sends of its own.
IS_COMPILED = not str(sending.__file__).endswith(".py")
CASES = [
    Case("bare sends to 1,000 sockets, 20 times a second", FEW, lambda: sockets(FEW).send()),
    Case("bare sends to 10,000 sockets, twice a second", MANY, lambda: sockets(MANY).send()),
] * IS_COMPILED
