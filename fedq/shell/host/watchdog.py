"""A thread that sees when the event loop does not turn any more, and ends the process in the end.

Inputs: the loop, and how long it may stand. Outputs: once for each standstill, where the loop's
thread stands, in the log; and after `ends_after_ms` the end of the process, with an exit code of
its own: the node has long been replaced by then, but its clients wait at open connections.

Invariants: time counts in the thread's own looks, so a process that was stopped as a whole
(SIGSTOP, a paused machine) is not taken for one that hangs. Compiled code that never lets go of
Python's lock stops this thread, too, and is not seen.
"""

import asyncio
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Final

#: What the process ends with.
HUNG: Final = 5
#: The loop says that it turns, and the thread looks, so often.
_BEAT_S: Final = 0.25
#: A standstill of so many looks is told.
_TOLD_AFTER: Final = 8

logger = logging.getLogger("fedq.node")


def _end() -> None:
    for handler in logging.getLogger().handlers:
        handler.flush()
    os._exit(HUNG)


class Watchdog:
    """Watches the running loop of the thread that makes it, as long as it is entered."""

    __slots__ = (
        "_beats",
        "_end",
        "_ends_after",
        "_loop",
        "_next",
        "_stopped",
        "_thread",
        "_watched",
    )

    def __init__(self, ends_after_ms: int, end: Callable[[], None] = _end) -> None:
        """`ends_after_ms`: 0: a standstill is told, and nothing else happens."""
        self._loop = asyncio.get_running_loop()
        self._watched = threading.get_ident()
        looks = round(ends_after_ms / 1_000 / _BEAT_S)
        self._ends_after = max(looks, 1) if ends_after_ms else 0
        self._end = end
        self._beats = 0
        self._next: asyncio.TimerHandle | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> "Watchdog":
        self._beat()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()
        if self._next is not None:
            self._next.cancel()
        self._thread.join()

    def _beat(self) -> None:
        self._beats += 1
        self._next = self._loop.call_later(_BEAT_S, self._beat)

    def _watch(self) -> None:
        seen, stands = -1, 0
        while not self._stopped.wait(_BEAT_S):
            if self._beats != seen:
                seen, stands = self._beats, 0
                continue
            stands += 1
            if stands == min(_TOLD_AFTER, self._ends_after or _TOLD_AFTER):
                logger.error(
                    "the event loop has stood still for %.1f s, here:\n%s",
                    stands * _BEAT_S,
                    self._where(),
                )
            if stands == self._ends_after:
                logger.critical(
                    "the event loop has stood still for %.1f s (timing.loop_hang_ms): the process "
                    "ends with exit code %d; please report where it stood, see above",
                    stands * _BEAT_S,
                    HUNG,
                )
                self._end()

    def _where(self) -> str:
        frame = sys._current_frames().get(self._watched)
        return "".join(traceback.format_stack(frame)) if frame is not None else "(nowhere)"
