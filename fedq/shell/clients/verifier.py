"""Verifies passwords in a thread, since each takes longer than a turn may.

In: passwords with the records of the map, in order. Out: `on_verdict(number, verdict)` on the event
loop, for each in that order; None where there is no verdict, because the machine could not tell.
scrypt works without the interpreter's lock, so the loop goes on meanwhile.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from fedq.node.outbox import Verification
from fedq.wiring.cluster_map.passwords import verify

logger = logging.getLogger(__name__)


class Verifier:
    """A thread that verifies passwords, and what it was given."""

    __slots__ = ("_loop", "_on_verdict", "_pool")

    def __init__(self, on_verdict: Callable[[int, bool | None], None]) -> None:
        self._on_verdict = on_verdict
        self._loop = asyncio.get_running_loop()
        self._pool = ThreadPoolExecutor(1, "fedq-passwords")

    def verify(self, wanted: list[Verification]) -> None:
        """Verifies these passwords; the verdicts come later."""
        for one in wanted:
            self._loop.run_in_executor(self._pool, self._look, one)

    def stop(self) -> None:
        """Stops: no verdict comes any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _look(self, wanted: Verification) -> None:
        verdict: bool | None
        try:
            verdict = verify(wanted.record, wanted.password)
        except (MemoryError, ValueError) as error:
            # Not the client's fault, so it is not remembered against the password.
            logger.warning("a password could not be verified: %s", error or type(error).__name__)
            verdict = None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._on_verdict, wanted.number, verdict)
