"""The pace of the HTTP thread: what it took beyond its share of a core, it sleeps off.

The interpreter's lock goes to whoever asks for it, so a thread that is always busy would have half
of it, in pieces of 5 ms, whatever the node's clients wait for (docs/adr/0087). Input: a share, and
what may be taken at once. Sleeping blocks this thread's own loop on purpose: whatever arrives
meanwhile waits in the system's buffers, which are bounded.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from fedq.http.bounds import HTTP_CPU_BURST_MS, HTTP_CPU_PERCENT, HTTP_LOOK_MS

#: A sleep is no longer than that; the rest follows at the next look.
_SLEEP_S_MAX: Final = 1.0


class Pace:
    """How long a thread has to sleep, by what it has used."""

    __slots__ = ("_burst_s", "_debt_s", "_now_s", "_share", "_used_s")

    def __init__(self, now_s: float, used_s: float, share: float, burst_s: float) -> None:
        self._now_s = now_s
        self._used_s = used_s
        self._share = share
        self._burst_s = burst_s
        #: What it took beyond its share.
        self._debt_s = 0.0

    def look(self, now_s: float, used_s: float) -> float:
        """How long to sleep now, in seconds; `used_s`: the processor time so far."""
        grown = used_s - self._used_s - self._share * (now_s - self._now_s)
        self._debt_s = max(0.0, self._debt_s + grown)
        self._now_s, self._used_s = now_s, used_s
        if self._debt_s <= self._burst_s:
            return 0.0
        return min(self._debt_s / self._share, _SLEEP_S_MAX)


class Governor:
    """Looks again and again what this thread uses, until `stop`."""

    __slots__ = ("_loop", "_next", "_pace", "_sleep", "_used_s", "slept_s")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sleep: Callable[[float], None] = time.sleep,
        used_s: Callable[[], float] = time.thread_time,
    ) -> None:  # fmt: skip
        """To be made in the thread that it holds back; the loop is that thread's."""
        self._loop = loop
        self._sleep = sleep
        self._used_s = used_s
        burst_s = HTTP_CPU_BURST_MS / 1_000
        share = HTTP_CPU_PERCENT / 100
        self._pace = Pace(time.monotonic(), self._used_s(), share, burst_s)
        #: How long it was held back in all.
        self.slept_s = 0.0
        self._next = loop.call_soon(self._look)

    def stop(self) -> None:
        """Holds nothing back any more."""
        self._next.cancel()

    def _look(self) -> None:
        wanted_s = self._pace.look(time.monotonic(), self._used_s())
        if wanted_s:
            self.slept_s += wanted_s
            self._sleep(wanted_s)
        self._next = self._loop.call_later(HTTP_LOOK_MS / 1_000, self._look)
