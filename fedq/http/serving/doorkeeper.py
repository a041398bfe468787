"""The connections to the HTTP ports: at most so many, and none too long with one request.

Inputs: sockets that were accepted, the ends of connections. Outputs: connections that are served,
or cut. When one comes and all places are taken, the host with the most of them loses the one that
has been idle the longest; if each of these has a request under way, the new one is turned away.

Invariant: a socket is counted from its accept on, before any TLS, until it is closed.
"""

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

from fedq.core.limits import HTTP_CONNECTIONS_MAX
from fedq.http.bounds import HTTP_TLS_HANDSHAKE_S
from fedq.http.serving.connection import ServedConnection
from fedq.node.clients.logins import place_of
from fedq.shell.config.values import join_address
from fedq.shell.log_lines.rare_lines import RareLines

#: Makes the protocol of one connection; its argument hears the end of it.
MakeConnection = Callable[[Callable[[], None]], ServedConnection]

logger = logging.getLogger(__name__)
#: What a stranger's end of TLS, or of TCP, may look like.
_BROKEN: Final = (OSError, ssl.SSLError, asyncio.IncompleteReadError)


class _Guest:
    """One accepted connection."""

    __slots__ = ("place", "served", "socket", "task")

    def __init__(self, place: str, accepted: socket.socket) -> None:
        self.place = place
        self.socket = accepted
        #: It has begun once TLS is agreed on.
        self.served: ServedConnection | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether it has no request under way."""
        return self.served is None or self.served.is_idle

    def cut(self) -> None:
        """Ends it at once."""
        if self.served is not None and self.served.has_begun:
            self.served.cut()
        elif self.task is not None:
            self.task.cancel()


class Doorkeeper:
    """All connections of the HTTP ports. Belongs to one event loop."""

    __slots__ = ("_empty", "_guests", "_loop", "_most", "_rare")

    def __init__(self, most: int = HTTP_CONNECTIONS_MAX) -> None:
        self._loop = asyncio.get_running_loop()
        self._most = most
        #: In the order in which they came, or were last idle.
        self._guests: dict[_Guest, None] = {}
        self._empty = asyncio.Event()
        self._rare = RareLines(logger, self._loop.time)

    def __len__(self) -> int:
        return len(self._guests)

    def warn(self, text: str, *details: object) -> None:
        """Tells what strangers cause, if not too often."""
        self._rare.warn(text, *details)

    def admit(
        self, accepted: socket.socket, tls: ssl.SSLContext | None, make: MakeConnection
    ) -> None:
        """Serves a connection that was accepted, or closes it."""
        try:
            host, port, *_ = accepted.getpeername()
        except OSError:
            # It is gone already.
            accepted.close()
            return
        guest = _Guest(place_of(join_address(host, port)), accepted)
        if len(self._guests) >= self._most and not self._make_room():
            self.warn("a connection over HTTP was turned away: all %d are busy", self._most)
            accepted.close()
            return
        self._guests[guest] = None
        guest.task = self._loop.create_task(self._serve(guest, tls, make))
        guest.task.add_done_callback(partial(self._on_task_ended, guest))

    def _make_room(self) -> bool:
        """Cuts the longest idle connection of the place that has the most."""
        counts = Counter(guest.place for guest in self._guests)
        place = max(counts, key=counts.__getitem__)
        for guest in self._guests:
            if guest.place == place and guest.is_idle:
                del self._guests[guest]
                guest.cut()
                return True
        return False

    def _on_task_ended(self, guest: _Guest, task: asyncio.Task[None]) -> None:
        if guest.served is None:
            # It was cut before it had begun.
            del task
            guest.socket.close()
            self._forget(guest)

    def _forget(self, guest: _Guest) -> None:
        self._guests.pop(guest, None)
        if not self._guests:
            self._empty.set()

    async def _serve(self, guest: _Guest, tls: ssl.SSLContext | None, make: MakeConnection) -> None:
        on_end = partial(self._forget, guest)
        guest.served = served = make(on_end)
        try:
            await self._loop.connect_accepted_socket(
                lambda: served, guest.socket, ssl=tls,
                ssl_handshake_timeout=HTTP_TLS_HANDSHAKE_S if tls else None,
            )  # fmt: skip
        except (*_BROKEN, asyncio.CancelledError):
            # Strangers' ends of TLS; or room was made. The loop closes the socket, unless it has
            # just handed it over.
            served.cut()
            on_end()

    async def close(self) -> None:
        """Cuts all connections, and returns when they are gone."""
        self._empty.clear()
        for guest in list(self._guests):
            guest.cut()
        if self._guests:
            await self._empty.wait()
