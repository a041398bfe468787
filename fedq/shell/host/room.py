"""How many workers a host has room for: cores, memory, descriptors.

In: the system's files, the limits of this process. Out: a number, or a `ConfigError` that says
which number would work. What a system does not tell bounds nothing.
"""

import os
import resource
from pathlib import Path
from typing import Final

from fedq.core.limits import MIB, RESERVED_DESCRIPTORS
from fedq.shell.config.values import NodeConfig
from fedq.shell.host.process import CLIENTS_MIN
from fedq.shell.host.resources import memory_default, memory_there

#: More would only take the cores from each other.
WORKERS_PER_CORE_MAX: Final = 4
#: `auto` takes no more: a cluster has 64 nodes, and each has links to all others.
AUTO_MAX: Final = 16
#: What the process of a worker takes before it holds anything, and its smallest share beside that.
WORKER_BYTES: Final = 128 * MIB
#: The connections between two nodes of one cluster, at each end.
_DESCRIPTORS_PER_PEER: Final = 4


def cores() -> int:
    """The cores on which this process may run."""
    return len(os.sched_getaffinity(0))


def worker_count(config: NodeConfig, root: Path = Path("/")) -> int:
    """How many workers the host is to have. Raises `ConfigError` if it has no room for them.

    `root`: where the system's directories are, for tests.
    """
    if config.workers == 1:
        return 1
    bounds = _bounds(root)
    if config.workers is None:
        return max(min(cores(), AUTO_MAX, *[most for most, _ in bounds]), 1)
    for most, why in bounds:
        if config.workers > most:
            fits = f"{max(most, 1)} would work" if most > 1 else "leave `workers` out"
            raise config.error("workers", f"{config.workers} are too many: {why}; {fits}")
    return config.workers


def workers_memory(config: NodeConfig) -> int:
    """What all workers of the host may hold together, in bytes."""
    return config.memory_bytes_max or memory_default()


def _bounds(root: Path) -> list[tuple[int, str]]:
    """Pairs of the most that would work, and why no more do."""
    here = cores()
    found = [
        (
            here * WORKERS_PER_CORE_MAX,
            f"this process may use {here} cores, and more than {WORKERS_PER_CORE_MAX} workers on "
            "each gain nothing",
        )
    ]
    memory = memory_there(root)
    if memory:
        found.append(
            (
                memory // WORKER_BYTES,
                f"each takes {WORKER_BYTES // MIB} MiB before it holds anything, and there are "
                f"{memory // MIB} MiB",
            )
        )
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY:
        left = most - RESERVED_DESCRIPTORS - CLIENTS_MIN
        found.append(
            (
                left // _DESCRIPTORS_PER_PEER,
                f"each may open {most} descriptors (ulimit -n, LimitNOFILE), and its links to the "
                f"others take {_DESCRIPTORS_PER_PEER} for each of them",
            )
        )
    free = _files_free(root)
    if free is not None:
        each = RESERVED_DESCRIPTORS + CLIENTS_MIN
        found.append(
            (free // each, f"each needs {each} open files, and the system has {free} left")
        )
    return found


def _files_free(root: Path) -> int | None:
    """How many files may still be opened on this machine; None where the system does not say."""
    try:
        used, _, most = (root / "proc/sys/fs/file-nr").read_text("ascii").split()
    except (OSError, ValueError):
        return None
    return int(most) - int(used)
