"""Where a node's processor time goes, function by function, while the generator works.

    python -m loadtests.macro.profile [--seconds 6]

Samples the node's loop thread with py-spy (400 times a second, waiting left out) under each work of
`loadtests.macro.throughput` and prints the share of the functions that are on top of the stack.
"""

import argparse
import collections
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from rich.console import Console
from rich.table import Table

from loadtests.macro.brokers import FedqBroker
from loadtests.macro.throughput import WORKS, cores, run_generator

SAMPLES_PER_S = 400
ROWS = 14
WARM_UP_S = 2


def sample(pid: int, seconds: int, file: Path) -> None:
    """Writes collapsed stacks of a process to a file."""
    command = ["py-spy", "record", "--pid", str(pid), "--duration", str(seconds)]
    command += ["--rate", str(SAMPLES_PER_S), "--format", "raw", "--output", str(file)]
    subprocess.run(
        [str(Path(sys.executable).with_name(command[0])), *command[1:]],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def shares(stacks: str) -> list[tuple[str, float]]:
    """(function, share of all samples of the loop's thread), largest first."""
    tops: collections.Counter[str] = collections.Counter()
    for line in stacks.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        if any(frame.startswith(("_worker ", "Thread.run ", "_poll_wrapper")) for frame in frames):
            continue  # other threads, which wait
        tops[frames[-1].rpartition(":")[0] or frames[-1]] += int(count)
    total = sum(tops.values())
    return [(name, count / total) for name, count in tops.most_common(ROWS)]


def profile(work: str, seconds: int) -> list[tuple[str, float]]:
    """Runs one work against a node of its own and samples it meanwhile."""
    broker_core, generator_core = cores()
    with (
        tempfile.TemporaryDirectory() as directory,
        FedqBroker(Path(directory) / "node", broker_core) as broker,
    ):
        stacks = Path(directory) / "stacks"
        late = threading.Timer(WARM_UP_S, sample, (broker.pid, seconds, stacks))
        late.start()
        run_generator(broker, work, seconds + 2.0 * WARM_UP_S, generator_core)
        late.join()
        return shares(stacks.read_text())


def main() -> None:
    """Prints one table for each work."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=6)
    seconds = parser.parse_args().seconds
    screen = Console()
    for work in WORKS:
        table = Table(title=work)
        table.add_column("function on top of the stack")
        table.add_column("share", justify="right")
        for name, share in profile(work, seconds):
            table.add_row(name, f"{share:.1%}")
        screen.print(table)


if __name__ == "__main__":
    main()
