"""What stops the process of a node, or of a host's workers: signals, and its stdin if that is said.

In: what to call. Out: nothing; the running event loop calls it. A terminal that goes away takes its
node with it; what rotates logs does not mean to.
"""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Final

_READ_BYTES: Final = 4_096
#: So often, in seconds, it is said of signals that they change nothing.
_HANG_UPS_TOLD_S: Final = 60.0
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def heed(stop: Callable[[], None], *, stop_with_stdin: bool) -> None:
    """Has `stop` called for each signal that asks for it, and when stdin closes if that counts."""
    loop = asyncio.get_running_loop()
    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, stop)
    is_in_terminal = sys.stdin is not None and sys.stdin.isatty()
    loop.add_signal_handler(signal.SIGHUP, stop if is_in_terminal else _HangUps().ignore)
    if stop_with_stdin:
        _watch_stdin(loop, stop)


class _HangUps:
    """Hang-up signals, which change nothing: the first is told, and then one a minute."""

    def __init__(self) -> None:
        self._told_s = -_HANG_UPS_TOLD_S

    def ignore(self) -> None:
        """Takes note of a hang-up signal, and ignores it."""
        now_s = time.monotonic()
        if now_s - self._told_s >= _HANG_UPS_TOLD_S:
            self._told_s = now_s
            logging.getLogger("fedq.node").info(
                "SIGHUP changes nothing: the log goes to stderr; SIGTERM stops the node"
            )


def _watch_stdin(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """Asks for a stop when the other end of stdin closes; what is written there is ignored."""
    descriptor = sys.stdin.fileno()

    def on_readable() -> None:
        if not os.read(descriptor, _READ_BYTES):
            loop.remove_reader(descriptor)
            stop()

    loop.add_reader(descriptor, on_readable)
