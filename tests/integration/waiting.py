"""Waiting for conditions with a deadline, never for time to pass.

`until` polls; `deadline` bounds code that cannot be asked (a stock client that waits for a reply).
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

POLL_S = 0.02


class TooLateError(AssertionError):
    """What was awaited did not happen in time."""


def until(what: str, condition: Callable[[], T], seconds: float = 15.0) -> T:
    """The first true value of `condition`; `TooLateError` names `what` after `seconds`."""
    end = time.monotonic() + seconds
    pause = threading.Event()
    while not (value := condition()):
        if time.monotonic() > end:
            raise TooLateError(f"not within {seconds:g} s: {what} (last seen: {value!r})")
        pause.wait(POLL_S)
    return value


@contextmanager
def deadline(what: str, seconds: float) -> Iterator[None]:
    """Interrupts the block after `seconds` with `TooLateError`; main thread only; may be nested.

    pika's blocking calls wait for ever when a broker does not answer: only a signal ends them.
    """

    def ring(number: int, frame: FrameType | None) -> None:
        raise TooLateError(f"not within {seconds:g} s: {what}")

    started = time.monotonic()
    handler = signal.signal(signal.SIGALRM, ring)
    outer_s, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if outer_s:
            left_s = outer_s - (time.monotonic() - started)
            signal.setitimer(signal.ITIMER_REAL, max(left_s, 0.001))
