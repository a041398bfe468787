"""Tells the service manager that started this process how it stands: systemd's sd_notify protocol.

In: `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID` of the environment (sd_notify(3),
sd_watchdog_enabled(3)), and whether the node serves. Out: datagrams: `READY=1` once clients can
connect, `STATUS=` when what the node does has changed, `WATCHDOG=1` as long as the event loop
turns, `STOPPING=1`. A process without a service manager says nothing.

Ready is not serving: a node that waits for a majority is ready. Else the first machine of three
would be taken for one that does not start, and be ended.

The watchdog of the system sees what `fedq.shell.host.watchdog` cannot: compiled code that never
lets go of Python's lock.

Invariants: telling never waits and never fails; what did not go out because nobody reads is tried
again at the next look, but for a beat, which is late by then.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final

#: How often it is looked whether the status has changed, at the longest.
_LOOK_S: Final = 1.0
#: Beats for each time that the service manager waits for one.
_BEATS: Final = 3

#: What it says to one process alone: not to those that this one starts.
VARIABLES: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")

logger = logging.getLogger(__name__)


class ServiceManager:
    """The service manager of this process, told on the running loop as long as it is entered."""

    __slots__ = ("_address", "_beats_every_s", "_look_every_s", "_loop", "_next", "_next_beat_s",
                 "_socket", "_status", "_told", "_waiting")  # fmt: skip

    def __init__(
        self, status: Callable[[], str], environment: Mapping[str, str] = os.environ
    ) -> None:
        """`status`: what the node does, in words, on one line."""
        self._loop = asyncio.get_running_loop()
        self._status = status
        self._address = _address(environment)
        watched_s = 0.0 if self._address is None else _watched_s(environment)
        #: 0: nobody waits for beats.
        self._beats_every_s = watched_s / _BEATS
        self._look_every_s = min(_LOOK_S, self._beats_every_s or _LOOK_S)
        self._next_beat_s = self._loop.time()
        #: The status that was told last, and what is still to be sent.
        self._told = ""
        self._waiting: list[str] = []
        self._socket: socket.socket | None = None
        self._next: asyncio.TimerHandle | None = None

    def __enter__(self) -> "ServiceManager":
        if self._address is not None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)
            self._waiting.append("READY=1")
            self._look()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._next is not None:
            self._next.cancel()
        if self._socket is not None:
            self._socket.close()

    def stopping(self) -> None:
        """Tells that the node stops; it is still watched, as a stop takes a while."""
        if self._socket is not None:
            self._waiting.append("STOPPING=1")
            self._tell()

    def _look(self) -> None:
        self._next = self._loop.call_later(self._look_every_s, self._look)
        self._tell()

    def _tell(self) -> None:
        if (status := self._status()) != self._told:
            self._told = status
            self._waiting.append(f"STATUS={status}")
        while self._waiting and self._send(self._waiting[0]):
            del self._waiting[0]
        now_s = self._loop.time()
        if self._beats_every_s and now_s >= self._next_beat_s:
            # At a look that comes a little early one would be missed.
            self._next_beat_s = now_s + self._beats_every_s - self._look_every_s / 2
            self._send("WATCHDOG=1")

    def _send(self, text: str) -> bool:
        """Sends one datagram; false where it is worth a second try."""
        assert self._socket is not None
        assert self._address is not None
        try:
            self._socket.sendto(text.encode(), self._address)
        except BlockingIOError:
            return False
        except OSError as error:
            logger.warning(
                "the service manager cannot be told %s: %s: %s", text, self._address,
                error.strerror,
            )  # fmt: skip
        return True


def _address(environment: Mapping[str, str]) -> str | None:
    """Where the service manager listens; None: there is none, or none that can be reached here."""
    given = environment.get("NOTIFY_SOCKET", "")
    if given.startswith("@"):
        # A name that is in no directory.
        return "\0" + given[1:]
    return given if given.startswith("/") else None


def _watched_s(environment: Mapping[str, str]) -> float:
    """How long the service manager waits for a beat of this process; 0: it does not."""
    process = environment.get("WATCHDOG_PID", "")
    if process and process != str(os.getpid()):
        return 0.0
    given = environment.get("WATCHDOG_USEC", "")
    return int(given) / 1_000_000 if given.isascii() and given.isdecimal() else 0.0
