"""Processor seconds of this process and of all that it has started, by module of tests.

The clock on the wall says little of a lane that has two others beside it: it waits for its nodes,
and for the machine. What is added up here is what a lane takes from the others. Of processes that
nobody waits for, as when a worker is killed before its pool, the last seconds are missing.
"""

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
#: Where user and system time are after the command's name, and those of ended children (proc(5)).
_TIMES: Final = slice(11, 15)


def spent_s() -> float:
    """Processor seconds so far: of this process, and of those below it that run or have ended."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    ticks = sum(_ticks(pid) for pid in _below(os.getpid()))
    return sum(each.ru_utime + each.ru_stime for each in usages) + ticks / _TICKS_A_SECOND


def _below(pid: int) -> Iterator[int]:
    for task in (_PROC / f"{pid}" / "task").glob("*/children"):
        # It may have ended since, and then counts with its parent.
        with suppress(OSError):
            for child in map(int, task.read_text().split()):
                yield child
                yield from _below(child)


def _ticks(pid: int) -> int:
    with suppress(OSError):
        _, _, rest = (_PROC / f"{pid}" / "stat").read_text().rpartition(")")
        return sum(map(int, rest.split()[_TIMES]))
    return 0


class Effort:
    """What each module has taken, the looks at it from one to the next."""

    def __init__(self) -> None:
        self._seen = 0.0
        #: Seconds by the name of the module.
        self.modules: dict[str, float] = {}

    def note(self, module: str) -> None:
        """All since the last look was this module's."""
        spent = spent_s()
        self.modules[module] = self.modules.get(module, 0.0) + max(0.0, spent - self._seen)
        self._seen = spent
