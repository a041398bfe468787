"""Processor time and memory of processes by their ids, with all their descendants (Linux).

Time is the kernel's own account in nanoseconds, taken from the process's clock; memory is the
resident size. A process that has ended counts as nothing from then on.
"""

import os
import time
from pathlib import Path
from typing import Final, NamedTuple

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
#: The kind of a process's clock that counts what the scheduler gave it.
_SCHEDULED: Final = 2


class Usage(NamedTuple):
    """What a process and its descendants have used so far, and hold now."""

    cpu_seconds: float
    rss_bytes: int


def exists(pid: int) -> bool:
    """Whether the process runs."""
    return Path(f"/proc/{pid}/stat").exists()


def cpu_seconds(pid: int) -> float:
    """User and system time of the process itself, all threads; 0 when it has ended."""
    try:
        return time.clock_gettime(~pid << 3 | _SCHEDULED)
    except OSError:
        return 0.0


def usage(pid: int) -> Usage:
    """The usage of a process and its living descendants."""
    tree = _tree(pid)
    return Usage(sum(map(cpu_seconds, tree)), sum(map(_rss_bytes, tree)))


def _tree(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        found += _children(parent)
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    for thread in _listed(f"/proc/{pid}/task"):
        try:
            text = Path(f"/proc/{pid}/task/{thread}/children").read_text(encoding="ascii")
        except OSError:
            continue  # The thread has ended since it was listed.
        children += map(int, text.split())
    return children


def _listed(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []  # The process has ended.


def _rss_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES
    except OSError:
        return 0  # The process has ended.
