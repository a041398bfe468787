"""What a node wants of the process it runs in: descriptors, and a patient garbage collector.

Both settings hold for the whole process, which runs one node. Invariant: neither asks for a
privilege; a system that refuses leaves things as they were.

The collector looks for garbage that refers to itself. A node makes next to none: what clients leave
goes by reference counts (`tests/unit/node/clients/test_garbage.py`). But looking through all that
10,000 subscribers have takes 0.2 to 0.6 s, in which the node does nothing else. So what has
survived two looks counts as living as long as the process: it is still freed when nobody refers to
it any more, but never looked through again. Then no look concerns more than 60,000 objects.
"""

import asyncio
import gc
import logging
import resource
from typing import Final

from fedq.core.limits import RESERVED_DESCRIPTORS
from fedq.shell.disk.descriptors import SPARES

#: A node has room for so many clients, whatever the system says.
CLIENTS_MIN: Final = 16
#: How often spare descriptors are looked at.
_SPARES_S: Final = 1.0
#: New objects until the young ones are looked through, and how often that happens until those that
#: survived are looked through once more; then they are frozen.
_COLLECTOR_THRESHOLDS: Final = (20_000, 1, 10)

logger = logging.getLogger(__name__)


def clients_max() -> int:
    """Takes all descriptors the system allows; returns for how many clients they are enough."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return max(soft - RESERVED_DESCRIPTORS, CLIENTS_MIN)


class SpareKeeper:
    """Keeps descriptors back for files, and takes back those that were used, until `stop`."""

    __slots__ = ("_are_there", "_loop", "_next")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._are_there = True
        self._next: asyncio.Handle = loop.call_soon(self._look)

    def stop(self) -> None:
        """Stops looking; what is kept stays kept."""
        self._next.cancel()

    def _look(self) -> None:
        are_there = SPARES.refill()
        if self._are_there and not are_there:
            logger.warning(
                "no descriptors are left to keep for files: raise the limit of open files of this "
                "process (ulimit -n, LimitNOFILE) or of the system"
            )
        self._are_there = are_there
        self._next = self._loop.call_later(_SPARES_S, self._look)


def settle_collector() -> None:
    """Settles the collector once a node has started: what lives now lives till the end."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTOR_THRESHOLDS)
    if _freeze_survivors not in gc.callbacks:
        gc.callbacks.append(_freeze_survivors)


def _freeze_survivors(phase: str, info: dict[str, int]) -> None:
    """Freezes what survives; called by the collector around each of its looks."""
    if phase == "stop" and info["generation"]:
        gc.freeze()
