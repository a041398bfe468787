"""The listeners and connections of AMQP clients.

In: bytes of clients, and from the driver parts to write, connections to close, back-pressure.
Out: the node's inputs about connections, each through `Turn.input`. What the bytes mean is the
node's business.

Until a client has opened a virtual host it is in the *lobby* (`lobby.py`), which holds
`lobby_clients_max` of them, and of one address `limits.logins_per_address`. When there is no room,
there or for any client, who has been there longest makes some, if it had its time. So clients that
say nothing, or too slowly, cost a bounded amount and shut nobody out. A few more clients than there
may be are let in: the node refuses them once they have logged in, and says where to go instead.

Whose bytes are heard when is `reading.py`.

Invariants: a connection's inputs are `on_connected`, any number of `on_bytes` and `on_writable`,
`on_disconnected`, each connection once; on a TLS listener they begin after the TLS handshake; bytes
after the node closed a connection are discarded; a connection is read only if neither the node nor
`Reading` is against it; there are never more connections than the process has
descriptors for.
"""

import asyncio
import logging
import socket
from functools import partial
from typing import Final, Protocol, cast

from fedq.core.ids import ConnectionId
from fedq.core.limits import LOGINS_PER_ADDRESS_MAX, SURPLUS_CLIENTS_MAX, UNREAD_BYTES_MAX
from fedq.shell.clients.keep_alive import keep_alive
from fedq.shell.clients.listeners import ClientSecurity
from fedq.shell.clients.lobby import Lobby
from fedq.shell.clients.paced_writes import Writers
from fedq.shell.clients.reading import Feed, Reading
from fedq.shell.clients.sending import ClientSocket, ClientSockets, write_pieces
from fedq.shell.clients.tls_listener import BACKLOG, TlsListener
from fedq.shell.clients.tls_writer import TlsWriter
from fedq.shell.config.values import is_loopback, join_address
from fedq.shell.log_lines.rare_lines import RareLines

#: A client that takes its bytes more slowly than they come is reported beyond this.
WRITE_BUFFER_BYTES_MAX: Final = UNREAD_BYTES_MAX
#: How long a closed connection may take to read the last bytes and to close its own side.
LINGER_S: Final = 5.0
#: How long a client that closed its connection may take to hang up, before the server does.
FAREWELL_S: Final = 2.0
#: How many clients may be about to log in.
LOBBY_CLIENTS_MAX: Final = 2_000
#: With fewer connections left than this, who does not log in makes room.
_CONNECTIONS_SPARED: Final = 16
#: How long the TLS handshake may take; the time for the AMQP handshake begins after it.
TLS_HANDSHAKE_S: Final = 10.0

logger = logging.getLogger(__name__)


class ClientInputs(Protocol):
    """What the listeners call of a node."""

    def on_connected(
        self, connection: ConnectionId, address: str, is_loopback: bool,
        certificate_name: str | None = None, known_as: object = None,
    ) -> None:  # fmt: skip
        """Takes a client that has connected; it has not said anything yet."""

    def has_opened(self, connection: ConnectionId) -> bool:
        """Whether the client has logged in and opened a virtual host."""

    def on_bytes(self, connection: ConnectionId, data: bytes) -> None:
        """Takes bytes from a client."""

    def on_writable(self, connection: ConnectionId, writable: bool) -> None:
        """Takes note whether the client's socket takes more without buffering too much."""

    def on_disconnected(self, connection: ConnectionId) -> None:
        """Takes note that the client's socket is closed."""


class AmqpServer:
    """All client connections of a node."""

    __slots__ = (
        "_behind", "_clients", "_connections_max", "_feed", "_has_ended", "_last_number", "_loop",
        "_node", "_servers", "_spared", "_warned_at", "failed_handshakes", "lobby", "reading",
        "takes_none", "writers",
    )  # fmt: skip

    def __init__(
        self, node: ClientInputs, feed: Feed, connections_max: int,
        logins_per_address: int = LOGINS_PER_ADDRESS_MAX, lobby_max: int = LOBBY_CLIENTS_MAX,
    ) -> None:  # fmt: skip
        self._node = node
        self._feed = feed
        self._connections_max = connections_max
        #: Who may still have to log in.
        self.lobby: Lobby[_Client] = Lobby(
            lobby_max, logins_per_address, lambda client: node.has_opened(client.connection)
        )
        self._spared = min(_CONNECTIONS_SPARED, connections_max // 8)
        self._loop = asyncio.get_running_loop()
        self._servers: list[asyncio.Server | TlsListener] = []
        self._clients: dict[ConnectionId, _Client] = {}
        sockets = ClientSockets(self._clients)
        #: Outlets of the driver: what it wants written.
        self.writers = Writers(sockets.write, sockets.write_all, sockets.write_next, write_pieces)
        self._last_number = 0
        self.failed_handshakes = RareLines(logger, self._loop.time)
        #: When something was last said about clients that were turned away.
        self._warned_at = float("-inf")
        #: Takes in what clients send.
        self.reading = Reading(feed, node.on_bytes)
        #: Clients whose transports hold more than `write_buffer_bytes_max`.
        self._behind: dict[_Client, None] = {}
        #: It does not listen any more.
        self.takes_none = False
        #: Nobody is let in any more.
        self._has_ended = False

    async def listen(self, bound: socket.socket, tls: ClientSecurity | None) -> None:
        """Accepts clients on a bound socket from now on, and owns it."""
        if tls is not None:
            self._servers.append(TlsListener(bound, partial(self._secure, tls), self.warn))
            return
        server = await self._loop.create_server(self._new_client, sock=bound, backlog=BACKLOG)
        self._servers.append(server)

    def stop_listening(self) -> None:
        """Stops taking new clients, for good; those that are there stay."""
        self.takes_none = True
        self.close_ports()

    def close_ports(self) -> None:
        """Stops taking new clients for now."""
        for server in self._servers:
            server.close()
        self._servers.clear()

    def abort_all(self) -> None:
        """Cuts every connection at once, with whatever was not written yet; lets nobody in."""
        self._has_ended = True
        for client in list(self._clients.values()):
            client.abort()

    @property
    def connections(self) -> int:
        """How many sockets of clients are open."""
        return len(self._clients)

    def bytes_waiting(self) -> int:
        """The bytes that clients have not taken, above the mark, and those of them not heard."""
        unread = sum([client.transport.get_write_buffer_size() for client in self._behind])
        return unread + self.reading.bytes_put_off

    # --- outlets of the driver ---

    def close(self, connection: ConnectionId, client_first: bool) -> None:
        """Closes once all is written; a client that does not take it is cut off.

        `client_first`: the client has said goodbye, and has `farewell_s` to hang up by itself.
        """
        client = self._clients.get(connection)
        if client is not None:
            client.close(client_first)

    def cut(self, connection: ConnectionId) -> None:
        """Ends at once, with whatever was not written yet."""
        client = self._clients.get(connection)
        if client is not None:
            client.abort()

    def set_reading(self, connection: ConnectionId, wanted: bool) -> None:
        """Stops or resumes reading what the client sends (back-pressure)."""
        client = self._clients.get(connection)
        if client is not None:
            client.set_reading(wanted)

    # --- what clients do ---

    def _new_client(self) -> "_Client":
        self._last_number += 1
        return _Client(self, ConnectionId(self._last_number))

    def _secure(self, tls: ClientSecurity, accepted: socket.socket) -> None:
        """Secures a client of a TLS listener, counts it from now on and then introduces it."""
        client = self._new_client()
        if self.admit(client, _host_of(accepted)):
            client.secure(tls, accepted)
        else:
            accepted.close()

    def admit(self, client: "_Client", host: str) -> bool:
        """Whether there is room for one more client from this host."""
        if self._has_ended:
            # It was accepted before the listener closed, and the loop tells of it only now.
            return False
        now, left = self._loop.time(), self._connections_max - len(self._clients)
        oldest = self.lobby.make_room(host, now, left <= self._spared)
        if oldest is not None:
            self.warn("clients that do not log in are cut off: %d are waiting", len(self.lobby))
            oldest.abort()
        if left <= 0:
            self.warn(
                "clients are turned away: all %d connections are taken; raise "
                "limits.connections and the descriptor limit, or add a node",
                self._connections_max,
            )
            # The node tells those who log in where to go.
            if left <= -SURPLUS_CLIENTS_MAX:
                return False
        if not self.lobby.enter(client, host, now):
            self.warn("clients are turned away: %d others are about to log in", len(self.lobby))
            return False
        self._clients[client.connection] = client
        return True

    def introduce(
        self, client: "_Client", peer: tuple[str, int] | str | None, certificate_name: str | None
    ) -> None:
        """Introduces the client, which can speak AMQP now, to the node."""
        host, port = peer[:2] if isinstance(peer, tuple) else ("unknown", 0)
        address = join_address(host, port)
        origin = is_loopback(host)
        self._feed(
            self._node.on_connected, client.connection, address, origin, certificate_name, client
        )

    def warn(self, text: str, *details: object) -> None:
        """Warns with a log line about clients; at most one in a second, whatever they do."""
        now = self._loop.time()
        if now - self._warned_at > 1:
            self._warned_at = now
            logger.warning(text, *details)

    def on_writable(self, client: "_Client", writable: bool) -> None:
        """The client's buffer is full, or empty again."""
        if writable:
            self._behind.pop(client, None)
        else:
            self._behind[client] = None
        self._feed(self._node.on_writable, client.connection, writable)

    def on_gone(self, client: "_Client") -> None:
        """The socket is closed."""
        self._behind.pop(client, None)
        self.reading.forget(client)
        self.lobby.leave(client)
        if self._clients.pop(client.connection, None) is not None and client.is_introduced:
            self._feed(self._node.on_disconnected, client.connection)


def _host_of(accepted: socket.socket | None) -> str:
    """The host that a client comes from; "" when that is not known any more."""
    try:
        return str(accepted.getpeername()[0]) if accepted is not None else ""
    except OSError:
        return ""


def _place_of(accepted: socket.socket) -> str:
    try:
        host, port = accepted.getpeername()[:2]
    except OSError:
        return "a client that is gone"
    return join_address(host, port)


class _Client(ClientSocket, asyncio.Protocol):
    """One client: its socket, and what the event loop reports of it."""

    __slots__ = (
        "_has_enough", "_is_reading", "_is_wanted", "_linger", "_securing", "_server", "_tls",
        "_writer", "bytes_taken", "is_closing", "is_gone", "is_held", "is_introduced", "last_pass",
        "put_off", "took_s",
    )  # fmt: skip

    def __init__(self, server: AmqpServer, connection: ConnectionId) -> None:
        super().__init__(connection)
        #: Whether the node knows it.
        self.is_introduced = False
        #: See `Reading`.
        self.put_off = b""
        self.last_pass = -1
        self.bytes_taken = 0
        self.took_s = 0.0
        self._server = server
        self._tls: ClientSecurity | None = None
        #: Of a client that speaks TLS: its `transport`.
        self._writer: TlsWriter | None = None
        self._has_enough = False
        #: The TLS handshake, while it lasts.
        self._securing: asyncio.Task[None] | None = None
        self.is_closing = False
        #: The socket is closed, and what came before that is not heard yet.
        self.is_gone = False
        #: Read while the node wants its bytes and the pass has room for them.
        self._is_wanted = True
        self.is_held = False
        self._is_reading = True
        self._linger: asyncio.TimerHandle | None = None

    def secure(self, tls: ClientSecurity, accepted: socket.socket) -> None:
        """Begins the TLS handshake on a socket that was just accepted, and owns it."""
        self._tls = tls
        self._securing = asyncio.get_running_loop().create_task(self._shake_hands(tls, accepted))

    async def _shake_hands(self, tls: ClientSecurity, accepted: socket.socket) -> None:
        place = _place_of(accepted)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self, accepted, ssl=tls.context,
                ssl_handshake_timeout=TLS_HANDSHAKE_S, ssl_shutdown_timeout=LINGER_S,
            )  # fmt: skip
        except OSError as error:
            why = error or type(error).__name__
            self._server.failed_handshakes.warn("the TLS handshake of %s failed: %s", place, why)
            # Its frames hold the transport, which holds it: a circle that the collector, which
            # freezes what it has met alive, would never find again.
            error.__traceback__ = error.__context__ = None
        finally:
            self._securing = None
            if not self.is_introduced:
                accepted.close()
                self._server.on_gone(self)

    # --- what the event loop reports ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        plain = self.transport = cast(asyncio.Transport, transport)
        raw = transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keep_alive(raw)
        name = None
        if self._tls is not None:
            self.transport = self._writer = TlsWriter(plain)
            name = self._tls.name_of(transport.get_extra_info("ssl_object"))
        elif not self._server.admit(self, _host_of(raw)):
            self.is_closing = True
            self.transport.abort()
            return
        else:
            plain.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
            if raw is not None:
                self.descriptor = raw.fileno()
        self.is_introduced = self.is_open = True
        self._server.introduce(self, transport.get_extra_info("peername"), name)

    def data_received(self, data: bytes) -> None:
        if not self.is_closing:
            self._server.reading.on_read(self, data)

    def pause_writing(self) -> None:
        if self._writer is not None:
            self._writer.pause()
        self._tell(True)

    def resume_writing(self) -> None:
        if self._writer is None or self._writer.resume():
            self._tell(False)

    def _tell(self, has_enough: bool) -> None:
        """Tells the node that the client has more to read than it takes, or not any more."""
        if not self.is_closing and has_enough != self._has_enough:
            self._has_enough = has_enough
            self._server.on_writable(self, not has_enough)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_gone = bool(self.put_off) and not self.is_closing
        self.is_closing = True
        self.is_open = False
        if self._writer is not None:
            self._writer.forget()
        if self._linger is not None:
            self._linger.cancel()
        if not self.is_gone:
            self._server.on_gone(self)

    def on_all_heard(self) -> None:
        if self.is_gone:
            self.is_gone = False
            self._server.on_gone(self)

    # --- what the node wants ---

    @property
    def _is_over(self) -> bool:
        """Whether the connection is over; also when its reset by the client was not told yet."""
        return not self.is_introduced or self.is_closing or self.transport.is_closing()

    def set_reading(self, wanted: bool) -> None:
        self._is_wanted = wanted
        self._read_or_not()

    def hold(self, is_held: bool) -> None:
        self.is_held = is_held
        self._read_or_not()

    def _read_or_not(self) -> None:
        should = self._is_wanted and not self.is_held
        if should == self._is_reading or self._is_over:
            return
        self._is_reading = should
        if should:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def close(self, client_first: bool) -> None:
        # What came and still comes is discarded, so there is no bound to it either.
        self._server.reading.forget(self)
        if self._is_over:
            return
        self.is_held = False
        self.set_reading(True)
        self.is_closing = True
        self.is_open = False
        if client_first:
            self._linger = asyncio.get_running_loop().call_later(FAREWELL_S, self._hang_up)
        else:
            self._hang_up()

    def _hang_up(self) -> None:
        loop = asyncio.get_running_loop()
        self._linger = loop.call_later(LINGER_S, self.transport.abort)
        if self.transport.can_write_eof():
            # Not `close`: unread bytes of the client would make the kernel reset the connection,
            # and the client would lose the reason that was just sent. Its own end follows.
            self.transport.write_eof()
        else:
            self.transport.close()

    def abort(self) -> None:
        self.is_closing = True
        self.is_open = False
        if self.is_gone:
            self.on_all_heard()
        elif self._securing is not None:
            self._securing.cancel()
        else:
            self.transport.abort()
