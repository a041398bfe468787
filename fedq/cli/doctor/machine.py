"""Looks at the machine: its disk, its clock, and how much of it this process may have."""

import ctypes
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

from fedq.cli.doctor.files import nearest
from fedq.cli.doctor.findings import Finding, error, ok, warning
from fedq.cli.terminal.screen import size
from fedq.compiled import survey
from fedq.core.limits import RESERVED_DESCRIPTORS
from fedq.shell.config.values import NodeConfig
from fedq.shell.host.resources import memory_there
from fedq.shell.node_settings import memory_bytes

#: What a sync is tried with, and how often.
_SYNC_BYTES: Final = 4_096
_SYNCS: Final = 16
#: A disk that takes longer for a sync holds up who waits for confirms.
_SLOW_MS: Final = 20.0
#: With less than so many times `limits.disk_free_bytes` free publishers soon wait.
_ROOM: Final = 10
_CLIENTS_FEW: Final = 1_000
#: More than this of what there is leaves too little for the rest of the process.
_MEMORY_PERCENT: Final = 80
_VOLATILE: Final = ("tmpfs", "ramfs")
_REMOTE: Final = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs")
#: What adjtimex(2) says of a clock that nobody sets; and room for what else it says.
_TIME_ERROR: Final = 5
_TIMEX_BYTES: Final = 512


def disk(config: NodeConfig) -> Iterator[Finding]:
    """How much room there is for the journal, and how long a sync takes there."""
    place = nearest(config.data)
    yield from _room(config, place)
    kind = file_system(place, Path("/proc/self/mounts"))
    if kind in _VOLATILE:
        yield warning(
            "disk", f"{place} is a {kind}: what is there is gone when the machine stops",
            "put `data` on a disk",
        )  # fmt: skip
    elif kind in _REMOTE:
        yield warning(
            "disk",
            f"{place} is on the network ({kind}): its syncs and locks are another machine's",
            "put `data` on a disk of this machine",
        )  # fmt: skip
    yield from _syncs(config, place)


def _room(config: NodeConfig, place: Path) -> Iterator[Finding]:
    found = os.statvfs(place)
    free, least = found.f_bavail * found.f_frsize, config.disk_free_bytes_min
    text = f"{size(free)} free at {place}"
    if free < least:
        yield error(
            "disk", f"{text}, less than limits.disk_free_bytes ({size(least)}): publishers wait",
            "make room, or lower the limit",
        )  # fmt: skip
    elif free < _ROOM * least:
        yield warning(
            "disk", f"{text}; at {size(least)} publishers wait", "make room for the journal"
        )
    else:
        yield ok("disk", text)
    if found.f_files and not found.f_favail:
        yield error("disk", f"no file can be made at {place}: no inodes", "remove files there")


def _syncs(config: NodeConfig, place: Path) -> Iterator[Finding]:
    try:
        times_ms = sync_times_ms(place)
    except OSError as wrong:
        yield error(
            "disk", f"nothing can be written at {place}: {wrong.strerror}",
            "run this as the node's user, or choose another directory",
        )  # fmt: skip
        return
    usual, longest = median(times_ms), max(times_ms)
    text = f"a sync takes {usual:.1f} ms there, {longest:.1f} ms at most of {len(times_ms)}"
    if longest >= config.timing.backup_stall_ms:
        yield error(
            "disk", f"{text}: longer than timing.backup_stall_ms, so copies here are left behind",
            "use a faster disk, or raise it on all nodes",
        )  # fmt: skip
    elif usual > _SLOW_MS:
        yield warning(
            "disk", f"{text}: each confirm of a persistent message waits for one",
            "use a faster disk",
        )  # fmt: skip
    else:
        yield ok("disk", text)


def sync_times_ms(place: Path) -> list[float]:
    """How long each of some syncs takes, in milliseconds; the file is gone after that."""
    found: list[float] = []
    with tempfile.TemporaryFile(dir=place, buffering=0) as file:
        for _ in range(_SYNCS):
            file.write(bytes(_SYNC_BYTES))
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            found.append((time.perf_counter() - began) * 1_000)
    return found


def file_system(place: Path, mounts: Path) -> str:
    """The kind of file system that a directory is on; "" where the system does not say."""
    try:
        lines = mounts.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    kinds = {Path(fields[1]): fields[2] for line in lines if len(fields := line.split()) > 2}
    return next((kinds[each] for each in (place, *place.parents) if each in kinds), "")


def open_files(config: NodeConfig) -> Iterator[Finding]:
    """For how many clients this user's processes may open descriptors."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    advice = "raise the limit of open files for the node's user (ulimit -n, LimitNOFILE)"
    if hard == resource.RLIM_INFINITY:
        yield ok("open files", "no limit")
        return
    there, wanted = max(hard - RESERVED_DESCRIPTORS, 0), config.connections_max
    text = f"{hard} may be open: enough for {there} clients"
    if wanted is not None and wanted > there:
        yield warning("open files", f"{text}, limits.connections says {wanted}", advice)
    elif there < _CLIENTS_FEW:
        yield warning("open files", text, advice)
    else:
        yield ok("open files", text)


def memory(config: NodeConfig, root: Path = Path("/")) -> Iterator[Finding]:
    """Whether the machine has what the node may hold; `root`: of the system's directories."""
    wanted, there = memory_bytes(config), memory_there(root)
    text = f"the node may hold {size(wanted)}"
    if not there:
        yield ok("memory", f"{text}; how much there is the system does not say")
    elif wanted > there:
        yield error(
            "memory", f"{text}, and there are {size(there)}: the system would end it",
            "lower limits.memory_bytes",
        )  # fmt: skip
    elif wanted * 100 > there * _MEMORY_PERCENT:
        yield warning(
            "memory", f"{text} of {size(there)}: little is left for all else of the process",
            "lower limits.memory_bytes; 40 % is the default",
        )  # fmt: skip
    else:
        yield ok("memory", f"{text} of {size(there)}; nodes on one machine share it")


def clock(config: NodeConfig) -> Iterator[Finding]:
    """Whether somebody sets this machine's clock."""
    del config
    is_set = is_clock_set()
    if is_set is None:
        yield ok("clock", "whether it is set by others the system does not say")
    elif is_set:
        yield ok("clock", "the system says that it is synchronised")
    else:
        yield warning(
            "clock", "the system says that it is not synchronised: times of messages, certificates "
            "and logs go by it",
            "run an NTP client, such as chrony or systemd-timesyncd",
        )  # fmt: skip


def is_clock_set() -> bool | None:
    """Whether the kernel counts the clock as synchronised; None where it does not say."""
    adjtimex = getattr(ctypes.CDLL(None), "adjtimex", None)
    if adjtimex is None:
        return None
    answer = adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    return None if answer < 0 else answer != _TIME_ERROR


def program(config: NodeConfig) -> Iterator[Finding]:
    """Whether the hot modules are compiled."""
    del config
    found = survey()
    if found.pure:
        yield warning(
            "program", found.text, "install a C compiler and fedq again, for several times the "
            "speed",
        )  # fmt: skip
    else:
        yield ok("program", found.text)
