"""The thread that serves HTTP: its loop, its listeners, its pace.

In: bound sockets with the application of each. Out: answers, until `stop`. An exception of an
application is answered with 500 and told; it ends that request alone.
"""

import asyncio
import logging
import socket
import ssl
import threading
import traceback
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import uvloop
from uvicorn.config import Config

from fedq.core.limits import HTTP_CONNECTIONS_MAX
from fedq.http.bounds import HTTP_HEAD_BYTES_MAX, HTTP_REQUEST_S
from fedq.http.refusal import HttpRefusal
from fedq.http.serving.connection import ServedConnection
from fedq.http.serving.doorkeeper import Doorkeeper
from fedq.http.serving.exchange import (
    Answer,
    Receive,
    Request,
    Send,
    refusal_answer,
    send_answer,
)
from fedq.http.serving.governor import Governor
from fedq.shell.clients.tls_listener import TlsListener
from fedq.shell.log_lines.rare_lines import RareLines

#: Answers one request, on the thread's loop; raises `HttpRefusal`. It is made there, too.
Application: TypeAlias = Callable[[Request], Awaitable[Answer]]
MakeApplication: TypeAlias = Callable[[], Application]
#: Connections that say no more are closed a little before they would be cut.
_KEEP_ALIVE_S: Final = int(HTTP_REQUEST_S) - 5

logger = logging.getLogger(__name__)


class Port(NamedTuple):
    """What is served where."""

    bound: Sequence[socket.socket]
    tls: ssl.SSLContext | None


class Beside(Protocol):
    """What lives as long as the thread."""

    def stop(self) -> None:
        """Ends it."""


class HttpThread:
    """A thread with an event loop of its own, from `start` to `stop`."""

    __slots__ = (
        "_begin_beside", "_ended", "_loop", "_ports", "_request_s", "_started", "_thread",
    )  # fmt: skip

    def __init__(
        self, ports: Sequence[tuple[Port, MakeApplication]], beside: Callable[[], Beside],
        request_s: float = HTTP_REQUEST_S,
    ) -> None:  # fmt: skip
        """`beside` makes, on the thread's loop, what lives as long as it does."""
        self._ports = ports
        self._request_s = request_s
        self._begin_beside = beside
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fedq-http", daemon=True)

    async def start(self) -> None:
        """Returns when it listens."""
        self._thread.start()
        await asyncio.to_thread(self._started.wait)

    async def stop(self) -> None:
        """Cuts all connections, and returns when the thread has ended."""
        if self._loop is not None and self._ended is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ended.set)
            await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except Exception:
            logger.exception("HTTP is not served any more; the node goes on")
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        # Each port has places of its own: who fills those of one leaves the other alone.
        doors = [Doorkeeper(HTTP_CONNECTIONS_MAX // len(self._ports)) for _ in self._ports]
        governor, beside = Governor(self._loop), self._begin_beside()
        listeners = []
        for door, (port, make) in zip(doors, self._ports, strict=True):
            accepted = _accepted(door, port, make, self._request_s)
            listeners += [TlsListener(bound, accepted, door.warn) for bound in port.bound]
        self._started.set()
        try:
            await self._ended.wait()
        finally:
            governor.stop()
            beside.stop()
            for listener in listeners:
                listener.close()
            for door in doors:
                await door.close()


def _accepted(
    door: Doorkeeper, port: Port, make_application: MakeApplication, request_s: float
) -> Callable[[socket.socket], None]:
    config = Config(
        _asgi(make_application()), lifespan="off", log_config=None, access_log=False, ws="none",
        proxy_headers=False, h11_max_incomplete_event_size=HTTP_HEAD_BYTES_MAX,
        timeout_keep_alive=_KEEP_ALIVE_S,
    )  # fmt: skip
    config.load()

    def make(on_end: Callable[[], None]) -> ServedConnection:
        return ServedConnection(config, on_end, request_s)

    return partial(_admit, door, port.tls, make)


def _admit(
    door: Doorkeeper, tls: ssl.SSLContext | None,
    make: Callable[[Callable[[], None]], ServedConnection], accepted: socket.socket,
) -> None:  # fmt: skip
    door.admit(accepted, tls, make)


def close_all(ports: Iterable[Port]) -> None:
    """Closes the sockets of ports that are not served, or no longer."""
    for port in ports:
        for bound in port.bound:
            bound.close()


def _asgi(application: Application) -> Any:
    """The ASGI form of an application."""
    faults = RareLines(logger, asyncio.get_running_loop().time)

    async def answer(scope: Any, receive: Receive, send: Send) -> None:
        # What is left of a refused request is nothing that anybody wants to read.
        last, is_whole = False, scope["method"] in ("GET", "HEAD", "OPTIONS")
        try:
            found = await application(Request(scope, receive))
        except asyncio.CancelledError:
            # The connection is gone: so there is nobody to answer, nor to tell of it.
            return
        except HttpRefusal as refusal:
            found, last = refusal_answer(refusal), not is_whole
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            faults.warn(
                "a request over HTTP failed: %s: %s (%s:%s)",
                type(error).__name__, error, place.filename, place.lineno,
            )  # fmt: skip
            fault = HttpRefusal(500, "internal_error", "this request failed here; see the log")
            found, last = refusal_answer(fault), True
        try:
            await send_answer(found, send, last=last)
        except (OSError, HttpRefusal) as error:
            # It has begun, and ends here: the connection does, too.
            faults.warn("an answer over HTTP broke off: %s: %s", type(error).__name__, error)
            raise

    return answer
