"""Where a node's processor time goes, function by function, while the generator works.

    python -m loadtests.macro.profile [--works transient-16,fanout] [--seconds 6]

Samples the node's loop thread with py-spy (400 times a second, waiting left out) under each work of
`loadtests.macro.works` that one node can do, and prints the share of the functions that are on top
of the stack; a compiled one goes by the name it has in its source, the C functions that any code
uses (of Python, of mypyc) count for their callers, and what stands there as a call of the kernel is
the time within it. `--inclusive` counts a function for whatever it calls, too. The set-up of a work
is done before. A sampler that stops a process finds it where it can be stopped, and so gives too
little to the kernel: the first row is the kernel's own count of the time spent in it, of all
threads. `--write` puts the main works' first functions into docs/PERFORMANCE.md.
"""

import argparse
import collections
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import psutil  # type: ignore[import-untyped]
from rich.console import Console
from rich.table import Table

from loadtests.macro import document
from loadtests.macro.brokers import FedqBroker
from loadtests.macro.machine import cores
from loadtests.macro.running import allow_descriptors, generate, generator_command
from loadtests.macro.works import Work, chosen

SAMPLES_PER_S: Final = 400
ROWS: Final = 20
#: What `--write` shows of which works.
ROWS_WRITTEN: Final = 7
WRITTEN: Final = ("transient-mixed", "persistent-16", "latency-5000", "fanout-1000-paced")
#: Frames of threads that mostly wait: the journal's writer, gRPC's and executors' workers.
OTHER_THREADS: Final = ("_worker ", "Thread.run ", "_poll_wrapper")
#: On top of a stack: nothing to do.
WAITING: Final = ("epoll_pwait", "epoll_wait")
#: mypyc's name of a function: its module, as short as is unique, its class if it has one, itself.
_MACHINE: Final = re.compile(r"CPyDef_(?:\w+?)___(\w+)$")
#: C functions that work for whoever calls them: of mypyc, of Python, of the C library's memory.
_SERVANT: Final = re.compile(
    r"_*(CPy|Py)|(m|c|re)alloc|free|mem|0x|.* \((lib(python|c\.so|m\.so)|object\.h)"
)
#: Calls of the kernel, as the C library names them.
_KERNEL: Final = (
    "send", "sendmsg", "read", "recv", "write", "writev", "fdatasync", "epoll_ctl", "accept4",
)  # fmt: skip
_LOOP_FILES: Final = re.compile(r"\((loop\.c|uvloop/|.*/uvloop/)")
LOOP: Final = "the event loop's own"
IN_KERNEL: Final = "in the kernel, as it counts"


def sample(pid: int, seconds: int, file: Path) -> None:
    """Writes collapsed stacks of a process to a file."""
    command = ["py-spy", "record", "--native", "--pid", str(pid), "--duration", str(seconds)]
    command += ["--rate", str(SAMPLES_PER_S), "--format", "raw", "--output", str(file)]
    subprocess.run(
        [str(Path(sys.executable).with_name(command[0])), *command[1:]],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def kernel_share(before: Any, after: Any) -> float:
    """The part of a process's time that it spent in the kernel, between two `cpu_times`."""
    user, system = after.user - before.user, after.system - before.system
    return float(system / max(user + system, 1e-9))


def shares(stacks: str, is_inclusive: bool = False) -> list[tuple[str, float]]:
    """(function, share of all samples of the loop's thread), largest first."""
    counts: collections.Counter[str] = collections.Counter()
    total = 0
    for line in stacks.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        if any(frame.startswith(OTHER_THREADS) for frame in frames):
            continue
        if frames[-1].startswith(WAITING):
            continue
        names = _named(frames)
        total += int(count)
        for name in dict.fromkeys(names) if is_inclusive else names[-1:]:
            counts[name] += int(count)
    return [(name, count / total) for name, count in counts.most_common(ROWS)]


def _named(frames: Iterable[str]) -> list[str]:
    """The stack's functions by the names of their sources; servants on top are left out."""
    names: list[str] = []
    for frame in frames:
        found = frame.rpartition(":")[0] or frame
        name = found.partition(" (")[0]
        machine = _MACHINE.match(name)
        if machine is not None:
            names.append(machine[1].replace("___", "."))
        elif name in _KERNEL:
            names.append(f"the kernel's {name}")
        elif _LOOP_FILES.search(found):
            names.append(LOOP)
        elif not names or not _SERVANT.match(found):
            names.append(found)
    return names


def profile(work: Work, seconds: int, options: argparse.Namespace) -> list[tuple[str, float]]:
    """Runs one work against a node of its own and samples it meanwhile."""
    broker_core, generator_core = cores()
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory,
        FedqBroker(Path(directory) / "node", broker_core) as broker,
    ):

        def run(length_s: float) -> float:
            command = generator_command(broker, work, length_s, "fedq", generator_core)
            outcome, failure = generate(command, length_s + work.warm_up_s + work.patience_s)
            if failure:
                raise SystemExit(f"{work.name}: {failure}")
            return float(outcome["setup_seconds"])

        # How long connecting takes is not known before it has been done once.
        late_s = run(0.5) + work.warm_up_s + 1.0
        stacks, node = Path(directory) / "stacks", psutil.Process(broker.pids[0])
        times: list[Any] = []

        def measure() -> None:
            times.append(node.cpu_times())
            sample(node.pid, seconds, stacks)
            times.append(node.cpu_times())

        late = threading.Timer(late_s, measure)
        late.start()
        run(seconds + 2.0)
        late.join()
        if not stacks.exists():
            raise SystemExit("py-spy recorded nothing: may it trace processes (ptrace_scope)?")
        return [
            (IN_KERNEL, kernel_share(*times)),
            *shares(stacks.read_text(), options.inclusive),
        ]


def section(tables: dict[str, list[tuple[str, float]]]) -> str:
    """The works' first functions side by side, as Markdown."""
    lines = [
        "| " + " | ".join(f"{work} | share" for work in tables) + " |",
        "|---" * 2 * len(tables) + "|",
    ]
    for place in range(ROWS_WRITTEN):
        cells = []
        for table in tables.values():
            name, share = table[place] if place < len(table) else ("", 0.0)
            short = name.partition(" (")[0]
            shown = (
                short
                if short in (LOOP, IN_KERNEL) or short.startswith("the kernel")
                else f"`{short}`"
            )
            cells += [shown, f"{share:.0%}"] if name else ["", ""]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def table_of(work: Work, found: list[tuple[str, float]], is_inclusive: bool) -> Table:
    """One work's functions for a terminal."""
    table = Table(title=f"{work.name}: {work.about}")
    table.add_column("function and what it calls" if is_inclusive else "function on top")
    table.add_column("share", justify="right")
    for name, share in found:
        table.add_row(name, f"{share:.1%}")
    return table


def main() -> int:
    """Prints one table for each work."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--works", default="", help="names of works or groups, with commas")
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--inclusive", action="store_true", help="count callers, too")
    parser.add_argument("--write", action="store_true", help="into docs/PERFORMANCE.md")
    options = parser.parse_args()
    screen = Console()
    names = [name for name in options.works.split(",") if name]
    try:
        works = chosen(names or (WRITTEN if options.write else ()))
    except ValueError as error:
        screen.print(str(error), markup=False)
        return 2
    allow_descriptors()
    tables: dict[str, list[tuple[str, float]]] = {}
    for work in works:
        if work.group.nodes == 1:
            tables[work.name] = profile(work, options.seconds, options)
            screen.print(table_of(work, tables[work.name], options.inclusive))
    return document.replace(section(tables), "profile") if options.write else 0


if __name__ == "__main__":
    sys.exit(main())
