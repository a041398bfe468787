"""One HTTP/1.1 connection: uvicorn's, with a deadline, and silent about what strangers send.

The deadline is one for all ways of being slow: a head or a body that comes by the byte, an answer
that is not taken, a connection that says nothing. From the accept, or the end of an answer, to the
end of the next answer a connection has so many seconds; then it is cut.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from fedq.http.bounds import HTTP_REQUEST_S

#: uvicorn says a line for each request that is none.
_silent: Final = logging.getLogger("fedq.http.silent")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False
_NO_HTTP: Final = b'{"error":"bad_request","reason":"this is no HTTP/1.1 request"}'


class ServedConnection(H11Protocol):
    """One connection of the HTTP ports."""

    def __init__(
        self, config: Config, on_end: Callable[[], None], request_s: float = HTTP_REQUEST_S
    ) -> None:
        """`on_end` is called once, when the connection is closed."""
        # A state of its own: its tasks are this connection's.
        super().__init__(config, ServerState(), {}, asyncio.get_running_loop())
        self.logger = _silent
        self._on_end = on_end
        self._request_s = request_s
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def has_begun(self) -> bool:
        """Whether there is a transport, after any TLS."""
        return self.transport is not None

    def cut(self) -> None:
        """Ends the connection at once, whatever was not written yet."""
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the clock."""
        super().connection_made(transport)
        self._begin()

    def connection_lost(self, error: Exception | None) -> None:
        """Stops the clock, and the work on a request whose answer nobody takes."""
        super().connection_lost(error)
        for task in self.tasks:
            task.cancel()
        if self._deadline is not None:
            self._deadline.cancel()
        self._on_end()

    def on_response_complete(self) -> None:
        """Starts the clock anew."""
        self._begin()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answers bytes that are no request, and hangs up."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.cut()
            return
        headers: list[tuple[bytes, bytes]] = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(_NO_HTTP)),
            (b"connection", b"close"),
        ]
        events: tuple[Any, ...] = (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=_NO_HTTP),
            h11.EndOfMessage(),
        )
        for event in events:
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _begin(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(self._request_s, self.cut)
