"""Accepts clients on one socket and hands each of them over before a byte is read.

In: a bound socket, and what to do with those that are accepted. `asyncio.Server` would begin the
TLS handshake of everyone who connects, before anybody could count them; here the owner knows
first.

Invariant: a process without descriptors pauses and goes on; it neither spins nor stops.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Final

#: Clients that the kernel keeps waiting for us.
BACKLOG: Final = 4_096
#: How many are accepted before the event loop does something else.
_ACCEPTS_MAX: Final = 64
_PAUSE_S: Final = 1.0

Warn = Callable[..., None]


class TlsListener:
    """A socket that accepts TLS clients, from its making until `close`."""

    __slots__ = ("_accepted", "_bound", "_loop", "_pause", "_warn")

    def __init__(
        self, bound: socket.socket, accepted: Callable[[socket.socket], None], warn: Warn
    ) -> None:
        """`accepted` owns the sockets it gets; `warn` takes a log line and its details."""
        self._bound = bound
        self._accepted = accepted
        self._warn = warn
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        bound.setblocking(False)
        bound.listen(BACKLOG)
        self._loop.add_reader(bound, self._accept)

    def close(self) -> None:
        """Stops accepting; those that were accepted stay."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._bound)
        self._bound.close()

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_MAX):
            try:
                accepted, _ = self._bound.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                # No descriptors, no memory: whoever waits would wake us again and again.
                self._warn("clients have to wait: %s; raise the descriptor limit", error)
                self._loop.remove_reader(self._bound)
                self._pause = self._loop.call_later(_PAUSE_S, self._go_on)
                return
            accepted.setblocking(False)
            self._accepted(accepted)

    def _go_on(self) -> None:
        self._loop.add_reader(self._bound, self._accept)
