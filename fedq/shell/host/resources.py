"""What the machine has, and what of it this node uses: memory and disk.

In: the system's files about this process, its control group and its disk. Out: the default of
`limits.memory_bytes`, and a report to the node twice a second (`Node.on_resources`). The disk is
asked in a thread: one that hangs must not hang the node.

Invariant: what a system does not tell is left out (no bound, no memory, disk -1), never guessed.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fedq.core.limits import MEMORY_SHARE_PERCENT, MIB, NODE_MEMORY_BYTES_MAX

#: How often the node hears how things stand.
REPORT_S: Final = 0.5

#: (bytes that wait to be written, resident memory beyond the first, bytes free on the disk)
Report = Callable[[int, int, int], None]


def memory_default(root: Path = Path("/")) -> int:
    """`limits.memory_bytes` unless configured: a share of what this process may have.

    `root`: where the system's directories are, for tests.
    """
    known = memory_there(root)
    if not known:
        return NODE_MEMORY_BYTES_MAX
    return max(known * MEMORY_SHARE_PERCENT // 100, MIB)


def memory_there(root: Path = Path("/")) -> int:
    """What this process may have at all: the machine's memory, or its group's bound; 0: unknown."""
    known = [size for size in (_machine_bytes(root), _group_bytes(root)) if size]
    return min(known, default=0)


def _machine_bytes(root: Path) -> int:
    for line in _read(root / "proc/meminfo").splitlines():
        name, _, value = line.partition(":")
        if name == "MemTotal":
            return int(value.split()[0]) * 1024
    return 0


def _group_bytes(root: Path) -> int:
    """The smallest bound of this process's control groups; 0: none."""
    found: list[int] = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        base, name = ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        if not controllers:
            base, name = ("sys/fs/cgroup", "memory.max")
        # In a container the group's own directory may be the root of what is to be seen.
        place = Path(path.strip("/"))
        for each in (place, *place.parents):
            text = _read(root / base / each / name).strip()
            if text.isdigit():
                found.append(int(text))
    return min(found, default=0)


def _read(path: Path) -> str:
    """A file of the system; "" where there is none, as on systems other than Linux."""
    try:
        return path.read_text("ascii")
    except OSError:
        return ""


def resident_bytes() -> int:
    """The memory of this process; 0 where the system does not say."""
    fields = _read(Path("/proc/self/statm")).split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if fields else 0


class ResourceWatch:
    """Reports how things stand, until `stop`."""

    __slots__ = ("_asking", "_before", "_directory", "_free", "_loop", "_next", "_report",
                 "_waiting")  # fmt: skip

    def __init__(
        self, loop: asyncio.AbstractEventLoop, directory: Path, before: int,
        waiting: Callable[[], int], report: Report,
    ) -> None:  # fmt: skip
        """`before`: resident memory when the process held nothing yet."""
        self._loop = loop
        self._directory = directory
        self._before = before
        self._waiting = waiting
        self._report = report
        #: What the disk had free when it was last heard of.
        self._free = -1
        self._asking: asyncio.Future[int] | None = None
        self._next: asyncio.Handle = loop.call_soon(self._look)

    def stop(self) -> None:
        """Stops reporting."""
        self._next.cancel()

    def _look(self) -> None:
        self._next = self._loop.call_later(REPORT_S, self._look)
        if self._asking is None:
            self._asking = self._loop.run_in_executor(None, _free_bytes, self._directory)
            self._asking.add_done_callback(self._on_free)
        resident = max(resident_bytes() - self._before, 0)
        self._report(self._waiting(), resident, self._free)

    def _on_free(self, asked: "asyncio.Future[int]") -> None:
        self._asking = None
        if not asked.cancelled():
            self._free = asked.result()


def _free_bytes(directory: Path) -> int:
    """What this process may still write there; -1 where the system does not say."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return -1
    return found.f_bavail * found.f_frsize
