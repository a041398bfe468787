"""The listeners and connections of AMQP clients.

In: bytes of clients, and from the driver parts to write, connections to close, back-pressure.
Out: the node's inputs about connections, each through `Turn.input`. What the bytes mean is the
node's business.

One pass of the event loop may bring dozens of reads of each connection. A pass of the server is
as long as that, and takes in `read_bytes_per_turn_max` of each connection: beyond, the connection
is held (not read) until the next pass. After `turn_bytes_max` of all of them the turn ends within
the pass, so that the answers to what came do not wait for what comes.

Invariants: a connection's inputs are `on_connected`, any number of `on_bytes` and `on_writable`,
`on_disconnected`, each connection once; bytes after the node closed a connection are discarded;
a connection is read only if neither the node nor the bound of the pass is against it; there are
never more connections than the process has descriptors for.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final, Protocol, cast

from fedq.core.ids import ConnectionId
from fedq.core.limits import MIB, read_bytes_per_turn_max, turn_bytes_max
from fedq.shell.node_config import is_loopback, join_address

#: A client that takes its bytes more slowly than they come is reported beyond this.
write_buffer_bytes_max: Final = 256 * 1024
#: Parts of more bytes than this are not joined: the copy would cost more than a longer list.
_JOIN_BYTES_MAX: Final = 64 * 1024
#: How long a closed connection may take to read the last bytes and to close its own side.
linger_s: Final = 5.0
_HANDSHAKE_S: Final = 10.0
_BACKLOG: Final = 4_096
#: Freed memory up to twice this stays with the process, see `_keep_freed_memory`.
_KEPT_BLOCK_BYTES: Final = 16 * MIB

logger = logging.getLogger(__name__)


class ClientInputs(Protocol):
    """What the listeners call of a node."""

    def on_connected(self, connection: ConnectionId, address: str, is_loopback: bool) -> None: ...
    def on_bytes(self, connection: ConnectionId, data: bytes) -> None: ...
    def on_writable(self, connection: ConnectionId, writable: bool) -> None: ...
    def on_disconnected(self, connection: ConnectionId) -> None: ...


class Feed(Protocol):
    """`Turn.input`, as far as it is needed here."""

    def __call__(self, method: Callable[..., bool | None], *args: object) -> None: ...


class AmqpServer:
    """All client connections of a node."""

    __slots__ = (
        "_bytes_taken", "_clients", "_connections_max", "_feed", "_held", "_last_number", "_loop",
        "_node", "_refused_at", "_servers", "_turn_bytes",
    )  # fmt: skip

    def __init__(self, node: ClientInputs, feed: Feed, connections_max: int) -> None:
        self._node = node
        self._feed = feed
        self._connections_max = connections_max
        self._loop = asyncio.get_running_loop()
        self._servers: list[asyncio.Server] = []
        self._clients: dict[ConnectionId, _Client] = {}
        self._last_number = 0
        self._refused_at = float("-inf")
        #: Of this pass: what each connection sent, and those that are held until it is over.
        self._bytes_taken: dict[ConnectionId, int] = {}
        self._held: list[_Client] = []
        #: What the turn at hand has taken in.
        self._turn_bytes = 0
        _keep_freed_memory()

    async def listen(self, bound: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Accepts clients on a bound socket from now on, and owns it."""
        server = await self._loop.create_server(
            self._new_client,
            sock=bound,
            ssl=tls,
            ssl_handshake_timeout=_HANDSHAKE_S if tls else None,
            backlog=_BACKLOG,
        )
        self._servers.append(server)

    def stop_listening(self) -> None:
        """No new clients; those that are there stay."""
        for server in self._servers:
            server.close()
        self._servers.clear()

    def abort_all(self) -> None:
        """Cuts every connection at once, with whatever was not written yet."""
        for client in list(self._clients.values()):
            client.abort()

    @property
    def connections(self) -> int:
        """How many sockets of clients are open."""
        return len(self._clients)

    # --- outlets of the driver ---

    def write(self, connection: ConnectionId, parts: list[bytes]) -> None:
        """Sends the parts in one write, if the client is still there."""
        client = self._clients.get(connection)
        if client is not None:
            client.write(parts)

    def close(self, connection: ConnectionId) -> None:
        """Closes once all is written; a client that does not take it is cut off."""
        client = self._clients.get(connection)
        if client is not None:
            client.close()

    def set_reading(self, connection: ConnectionId, wanted: bool) -> None:
        """Back-pressure: stops or resumes reading what the client sends."""
        client = self._clients.get(connection)
        if client is not None:
            client.set_reading(wanted)

    # --- what clients do ---

    def _new_client(self) -> "_Client":
        self._last_number += 1
        return _Client(self, ConnectionId(self._last_number))

    def admit(self, client: "_Client", peer: tuple[str, int] | str | None) -> bool:
        """Whether there is room; then the node has been told."""
        if len(self._clients) >= self._connections_max:
            now = self._loop.time()
            if now - self._refused_at > 1:
                self._refused_at = now
                logger.warning(
                    "clients are turned away: all %d connections are taken; raise "
                    "limits.connections and the descriptor limit, or add a node",
                    self._connections_max,
                )
            return False
        self._clients[client.connection] = client
        host, port = peer[:2] if isinstance(peer, tuple) else ("unknown", 0)
        address = join_address(host, port)
        self._feed(self._node.on_connected, client.connection, address, is_loopback(host))
        return True

    def on_bytes(self, client: "_Client", data: bytes) -> None:
        """A chunk from the client."""
        taken = self._bytes_taken
        is_first = not taken
        connection = client.connection
        taken[connection] = bytes_taken = taken.get(connection, 0) + len(data)
        self._feed(self._take, connection, data)
        if is_first:
            # Only now: a turn that began with these bytes is to end before the pass does.
            self._loop.call_soon(self._end_pass)
        if bytes_taken >= read_bytes_per_turn_max:
            client.hold(True)
            self._held.append(client)

    def _take(self, connection: ConnectionId, data: bytes) -> bool:
        """Hands bytes to the node; whether the turn has had enough of them."""
        self._node.on_bytes(connection, data)
        self._turn_bytes += len(data)
        if self._turn_bytes < turn_bytes_max:
            return False
        self._turn_bytes = 0
        return True

    def _end_pass(self) -> None:
        """The turn that took the last bytes has ended: those who were held may go on."""
        self._turn_bytes = 0
        self._bytes_taken.clear()
        held, self._held = self._held, []
        for client in held:
            client.hold(False)

    def on_writable(self, connection: ConnectionId, writable: bool) -> None:
        """The client's buffer is full, or empty again."""
        self._feed(self._node.on_writable, connection, writable)

    def on_gone(self, connection: ConnectionId) -> None:
        """The socket is closed."""
        if self._clients.pop(connection, None) is not None:
            self._feed(self._node.on_disconnected, connection)


def _keep_freed_memory() -> None:
    """Makes the C library keep what one turn freed for the next.

    glibc gives memory back beyond twice the largest block that was ever freed (mallopt(3),
    M_MMAP_THRESHOLD). Turns that are small by their bounds free no large one, so each would
    return its memory and fault it in again, at 5 % of the processor time. The block itself is
    never touched, so it costs nothing; other C libraries take no notice.
    """
    bytes(_KEPT_BLOCK_BYTES)


class _Client(asyncio.Protocol):
    """One socket."""

    __slots__ = (
        "_is_closing", "_is_held", "_is_reading", "_is_wanted", "_linger", "_server", "_transport",
        "connection",
    )  # fmt: skip

    def __init__(self, server: AmqpServer, connection: ConnectionId) -> None:
        self.connection = connection
        self._server = server
        self._transport: asyncio.Transport
        self._is_closing = False
        #: Read while the node wants its bytes and the pass has room for them.
        self._is_wanted = True
        self._is_held = False
        self._is_reading = True
        self._linger: asyncio.TimerHandle | None = None

    # --- what the event loop reports ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        raw = transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport.set_write_buffer_limits(high=write_buffer_bytes_max)
        if not self._server.admit(self, transport.get_extra_info("peername")):
            self._is_closing = True
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if not self._is_closing:
            self._server.on_bytes(self, data)

    def pause_writing(self) -> None:
        if not self._is_closing:
            self._server.on_writable(self.connection, False)

    def resume_writing(self) -> None:
        if not self._is_closing:
            self._server.on_writable(self.connection, True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        if self._linger is not None:
            self._linger.cancel()
        self._server.on_gone(self.connection)

    # --- what the node wants ---

    @property
    def _is_over(self) -> bool:
        """Also true when the client has reset the connection and nobody was told yet."""
        return self._is_closing or self._transport.is_closing()

    def write(self, parts: list[bytes]) -> None:
        if self._is_over:
            return
        if len(parts) == 1:
            self._transport.write(parts[0])
        elif sum(map(len, parts)) <= _JOIN_BYTES_MAX:
            self._transport.write(b"".join(parts))
        else:
            self._transport.writelines(parts)

    def set_reading(self, wanted: bool) -> None:
        self._is_wanted = wanted
        self._read_or_not()

    def hold(self, is_held: bool) -> None:
        self._is_held = is_held
        self._read_or_not()

    def _read_or_not(self) -> None:
        should = self._is_wanted and not self._is_held
        if should == self._is_reading or self._is_over:
            return
        self._is_reading = should
        if should:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def close(self) -> None:
        if self._is_over:
            return
        # What still comes is discarded, so there is no bound to it either.
        self._is_held = False
        self.set_reading(True)
        self._is_closing = True
        loop = asyncio.get_running_loop()
        self._linger = loop.call_later(linger_s, self._transport.abort)
        if self._transport.can_write_eof():
            # Not `close`: unread bytes of the client would make the kernel reset the connection,
            # and the client would lose the reason that was just sent. Its own end follows.
            self._transport.write_eof()
        else:
            self._transport.close()

    def abort(self) -> None:
        self._is_closing = True
        self._transport.abort()
