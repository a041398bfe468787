"""Waiting for conditions with a deadline, never for time to pass.

`until` polls, less often the longer it waits; `deadline` bounds code that cannot be asked (a stock
client that waits for a reply).
How long is given for a machine that is not busy; the lanes of `make test` wait three times as long
before they give up (FEDQ_TEST_PATIENCE=3), since they have each other beside them.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

POLL_S = 0.02
#: Looking is work: what is waited for long is seen later by so much of the time that it took.
LATER = 0.05
LONGEST_POLL_S = 0.1
PATIENCE = float(os.environ.get("FEDQ_TEST_PATIENCE", "1"))


def patient(seconds: float) -> float:
    """How long to wait on this machine for what takes at most `seconds` on one that is not busy."""
    return seconds * PATIENCE


class TooLateError(AssertionError):
    """What was awaited did not happen in time."""


def until(what: str, condition: Callable[[], T], seconds: float = 15.0) -> T:
    """The first true value of `condition`; `TooLateError` names `what` after `patient(seconds)`."""
    seconds = patient(seconds)
    start = time.monotonic()
    pause = threading.Event()
    while not (value := condition()):
        waited = time.monotonic() - start
        if waited > seconds:
            raise TooLateError(f"not within {seconds:g} s: {what} (last seen: {value!r})")
        pause.wait(min(max(POLL_S, waited * LATER), LONGEST_POLL_S))
    return value


@contextmanager
def deadline(what: str, seconds: float) -> Iterator[None]:
    """Interrupts the block after `patient(seconds)` with `TooLateError`; main thread only; nests.

    pika's blocking calls wait for ever when a broker does not answer: only a signal ends them.
    """

    def ring(number: int, frame: FrameType | None) -> None:
        raise TooLateError(f"not within {seconds:g} s: {what}")

    seconds = patient(seconds)
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
