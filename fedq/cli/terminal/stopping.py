"""Ctrl-C and SIGTERM as a question that a loop asks, so that it ends where its work is whole.

In: signals. Out: `Stop.asked`, and a descriptor that becomes readable, which ends a wait at once. A
second signal ends the process as it would without this.
"""

import contextlib
import signal
import socket
from types import FrameType, TracebackType
from typing import Any, Final, Self

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether the user wants an end; a context manager, for the main thread."""

    __slots__ = ("_before", "_read", "_write", "asked")

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._read, self._write = socket.socketpair()
        self._write.setblocking(False)
        self._before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._restore()
        self._read.close()
        self._write.close()

    def fileno(self) -> int:
        """What becomes readable when an end is wanted."""
        return self._read.fileno()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        # Whoever is impatient is not held up.
        self._restore()
        with contextlib.suppress(OSError):
            self._write.send(b"\0")

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
