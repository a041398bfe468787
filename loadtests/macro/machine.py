"""The machine under the figures: which cores are whose, what it is, and who else used it.

`Stretch` counts the processor time of the whole machine beside that of the measured processes:
what is left over was spent by others, or withheld by the machine's host (stolen). A figure that was
taken while others were busy is reported as such, never left out.

In: /proc of Linux and git. Out: plain values.
"""

import os
import platform
import resource
import subprocess
import time
from pathlib import Path
from typing import Any, Final

from loadtests.macro.brokers import tree_cpu_s
from tests.integration.harness import ROOT

#: Above this share of the machine, spent by others in the median run, rates are not to be quoted.
OTHERS_MAX: Final = 0.05
#: Columns of the first line of /proc/stat (proc(5)): all but idle, iowait and the guests' times,
#: which are within the users'.
BUSY_COLUMNS: Final = (1, 2, 3, 6, 7, 8)
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def cores() -> tuple[str, str]:
    """Where the broker and the generator are pinned; one core serves both if it must."""
    available = sorted(os.sched_getaffinity(0))
    return str(available[0]), str(available[1 % len(available)])


def facts() -> dict[str, str]:
    """Where and of what the figures are."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    compiled = sorted(path.stem.partition(".")[0] for path in (ROOT / "fedq").rglob("*.so"))
    is_pure = bool(os.environ.get("FEDQ_PURE"))
    return {
        "commit": commit.stdout.strip() or "unknown",
        "processor": f"{models[0] if models else platform.processor()}, "
        f"{len(os.sched_getaffinity(0))} cores",
        "system": platform.platform(),
        "python": platform.python_version(),
        "compiled modules": "none" if is_pure or not compiled else ", ".join(compiled),
        "load average before": f"{os.getloadavg()[0]:.2f}",
    }


def machine_busy_s(stat: str) -> float:
    """Processor seconds of all cores that were not idle, from the text of /proc/stat."""
    columns = stat.partition("\n")[0].split()
    return sum(int(columns[number]) for number in BUSY_COLUMNS) / TICKS_PER_S


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Stretch:
    """A stretch of time that begins now; its generators must be children that ended in it."""

    def __init__(self, pids: list[int]) -> None:
        """`pids`: the broker's processes; they must outlive the stretch."""
        self._pids = pids
        self._began = self._sample()

    def _sample(self) -> tuple[float, float, float]:
        own = _children_s() + time.process_time() + sum(tree_cpu_s(pid) for pid in self._pids)
        return time.monotonic(), machine_busy_s(Path("/proc/stat").read_text()), own

    def others_share(self) -> float:
        """The part of the machine that others used since the beginning, 0 to 1."""
        seconds, busy_s, own_s = (
            now - then for now, then in zip(self._sample(), self._began, strict=True)
        )
        capacity_s = seconds * (os.cpu_count() or 1)
        return round(min(max((busy_s - own_s) / capacity_s, 0.0), 1.0), 3)


def disturbance(shares: list[Any]) -> str:
    """A sentence for the reader of the results; "" when nobody else used the machine much."""
    known = sorted(share for share in shares if share is not None)
    if not known:
        return ""
    median = known[len(known) // 2]
    if median <= OTHERS_MAX:
        return ""
    return (
        f"Others were using this machine: {median:.0%} of it in the median run, {known[-1]:.0%} at "
        "most. Rates, latencies and set-up times mean little, and those of fedq and RabbitMQ may "
        "have been disturbed differently; figures per CPU-second are rough."
    )
