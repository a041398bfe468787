"""A TCP connection of a client to a node: bytes in order, in pieces, late, and sometimes cut off.

Inputs: bytes of both sides, closes, a reader that stalls. Outputs: `on_connected`, `on_bytes`,
`on_writable` and `on_disconnected` of the node; bytes and the end for the client. How the stream
is cut into pieces is drawn anew for every run.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from fedq.core.ids import ConnectionId, NodeId
from fedq.core.seeds import Rng
from tests.sim.world import World, between

#: A client that reads nothing lets this much gather before the node hears of it.
HIGH_WATER_BYTES = 65_536
#: A method frame of channel 0 (AMQP 0-9-1 clause 2.3.5.1): class 10, method 50.
_CONNECTION_CLOSE: Final = re.compile(rb"\x01\0\0.{4}\0\x0a\0\x32", re.DOTALL)


class ClientMachine(Protocol):
    """What sockets tell a node."""

    def on_connected(self, connection: ConnectionId, address: str, is_loopback: bool) -> None: ...
    def on_bytes(self, connection: ConnectionId, data: bytes) -> None: ...
    def on_writable(self, connection: ConnectionId, writable: bool) -> None: ...
    def on_disconnected(self, connection: ConnectionId) -> None: ...


class Server(Protocol):
    """A host as its clients' sockets see it."""

    @property
    def name(self) -> NodeId: ...

    @property
    def alive(self) -> bool: ...

    @property
    def life(self) -> int: ...

    def accept(self, socket: "Socket") -> ConnectionId: ...
    def forget(self, connection: ConnectionId) -> None: ...
    def submit(self, action: Callable[[ClientMachine], None]) -> None: ...


class Socket:
    """One connection. The client holds it; the host finds it by its number."""

    __slots__ = (
        "_buffered", "_closed_by_node", "_ended", "_last_down_us", "_last_up_us", "_life",
        "_on_bytes", "_on_lost", "_random", "_reading", "_server", "_stalled", "_unread", "_world",
        "_writable", "connection", "gone", "sent_away",
    )  # fmt: skip

    def __init__(
        self,
        world: World,
        generator: Rng,
        server: Server,
        on_bytes: Callable[[bytes], None],
        on_lost: Callable[[str], None],
    ) -> None:
        """Connects to a living server; `on_lost` is called once, unless the client closes."""
        self._world = world
        self._random = generator
        self._server = server
        self._life = server.life
        self._on_bytes = on_bytes
        self._on_lost = on_lost
        #: Nothing passes any more, either way.
        self.gone = False
        #: The node has written connection.close: what the client held is nobody's from then on,
        #: before it reads that.
        self.sent_away = False
        self._closed_by_node = False
        self._reading = True
        self._unread: list[bytes] = []
        #: The end has arrived behind what the node has not read.
        self._ended = False
        self._stalled = False
        self._writable = True
        self._buffered: list[bytes] = []
        self._last_up_us = 0
        self._last_down_us = 0
        self.connection = connection = server.accept(self)
        server.submit(lambda node: node.on_connected(connection, "127.0.0.1:40000", True))

    # --- the client's side -----------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """The client writes."""
        if self.gone:
            return
        for piece in self._pieces(data):
            self._last_up_us = self._due(self._last_up_us)
            self._world.at(self._last_up_us, partial(self._arrive_up, piece))

    def close(self) -> None:
        """The client drops the connection; what is under way may or may not arrive."""
        if self.gone:
            return
        self.gone = True
        self._last_up_us = self._due(self._last_up_us)
        self._world.at(self._last_up_us, self._tell_disconnected)

    def stall(self, stalled: bool) -> None:
        """The client stops reading, or reads on."""
        self._stalled = stalled
        if not stalled and not self.gone:
            waiting, self._buffered = self._buffered, []
            for data in waiting:
                self._deliver_down(data)
            if not self._writable:
                self._writable = True
                self._tell_writable()

    # --- the node's side -------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """The node writes a turn's parts."""
        if self.gone or self._closed_by_node:
            return
        self.sent_away = self.sent_away or _CONNECTION_CLOSE.search(data) is not None
        if self._stalled:
            self._buffered.append(data)
            if self._writable and sum(map(len, self._buffered)) > HIGH_WATER_BYTES:
                self._writable = False
                self._tell_writable()
            return
        for piece in self._pieces(data):
            self._deliver_down(piece)

    def close_by_node(self) -> None:
        """The node closes after what it has written; the client sees the end after that."""
        if self.gone or self._closed_by_node:
            return
        self._closed_by_node = True
        for data in self._buffered:
            self._deliver_down(data)
        self._buffered = []
        self._last_down_us = self._due(self._last_down_us)
        self._world.at(self._last_down_us, lambda: self._lose("closed by the node"))

    def reset(self) -> None:
        """The node's process is gone: what is under way is lost, the client soon hears of it."""
        self._closed_by_node = True
        self._world.after(between(self._random, 100, 20_000), lambda: self._lose("reset"))

    def set_reading(self, reading: bool) -> None:
        """Back-pressure of the node."""
        self._reading = reading
        if reading and self._unread:
            waiting, self._unread = self._unread, []
            for data in waiting:
                self._hand_up(data)
            if self._ended:
                self._tell_disconnected()

    # --- on the way ------------------------------------------------------------------------------

    def _pieces(self, data: bytes) -> list[bytes]:
        generator = self._random
        if len(data) < 2 or generator.random() < 0.8:
            return [data]
        cut = between(generator, 1, len(data) - 1)
        return [data[:cut], data[cut:]]

    def _due(self, last_us: int) -> int:
        return max(last_us, self._world.now_us + between(self._random, 20, 300))

    def _deliver_down(self, data: bytes) -> None:
        self._last_down_us = self._due(self._last_down_us)

        def arrive() -> None:
            if not self.gone:
                self._on_bytes(data)

        self._world.at(self._last_down_us, arrive)

    def _arrive_up(self, data: bytes) -> None:
        if self._closed_by_node:
            return
        if self._reading:
            self._hand_up(data)
        else:
            self._unread.append(data)

    def _hand_up(self, data: bytes) -> None:
        server, connection = self._server, self.connection
        if server.alive and server.life == self._life:
            server.submit(lambda node: node.on_bytes(connection, data))

    def _tell_disconnected(self) -> None:
        server, connection = self._server, self.connection
        if self._closed_by_node or not server.alive or server.life != self._life:
            return
        if self._unread:
            # TCP keeps them in order: who does not read sees the end only after the bytes.
            self._ended = True
            return
        server.forget(connection)
        server.submit(lambda node: node.on_disconnected(connection))

    def _tell_writable(self) -> None:
        server, connection, writable = self._server, self.connection, self._writable
        if server.alive and server.life == self._life and not self._closed_by_node:
            server.submit(lambda node: node.on_writable(connection, writable))

    def _lose(self, reason: str) -> None:
        if not self.gone:
            self.gone = True
            self._on_lost(reason)
