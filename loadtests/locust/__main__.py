"""`python -m loadtests.locust`: a cluster by `fedq up`, Locust against it, and the verdict.

Exit codes: 0 good; 1 the verdict is bad, or something did not start; 2 it cannot work on this
machine, or the options make no sense. All it starts ends with it.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Final

import psutil  # type: ignore[import-untyped]
import yaml

from fedq.bench.plan import parse_url
from fedq.cli.terminal.failure import CommandError
from fedq.cli.up.plan import HOST, Plan, is_free, open_plan
from fedq.core.limits import RESERVED_DESCRIPTORS, VOTERS_MAX
from fedq.shell.config.values import Timing
from fedq.shell.config.workers import PORT_STEP
from loadtests.locust import preflight
from loadtests.locust.shapes import KINDS

ROOT: Final = Path(__file__).resolve().parents[2]
RESULTS: Final = ROOT / "loadtests" / "results"
METRICS_PORT: Final = 15_691
READY_S: Final = 60
#: The most that a worker has of thousands of connections, over a fair share, and some (ADR 0098).
UNEVEN: Final = 1.1
STOP_S: Final = 30.0
#: What a line of a log has that is shown after a bad run, and how many of a node.
_WORTH: Final = ("WARNING", "ERROR", "CRITICAL")
LINES_SHOWN: Final = 8
#: Of a shape that begins, opens its last subscribers and lets Locust end.
SPARE_S: Final = 300.0


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """What is asked for; everything behind `--` is Locust's."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.locust", description=__doc__)
    add = parser.add_argument
    add("--nodes", type=int, default=3, choices=range(1, VOTERS_MAX + 1), help="of the cluster")
    add("--host-workers", type=int, default=1, help="of each node, behind one port (ADR 0098)")
    add("--subscribers", type=int, default=3_000)
    add("--as-many-as-fit", action="store_true", help="fewer subscribers instead of a refusal")
    add("--workers", type=int, default=2, help="processes of Locust")
    add("--shape", default="ramp", choices=list(KINDS))
    add("--seconds", type=float, default=60.0)
    add("--rate", type=float, default=2.0, help="messages a second")
    add("--timing", type=float, default=1.0, help="nodes wait so many times as long for each other")
    add("--label", default="", help="write results/DATE-LABEL; without it nothing is kept")
    add("more", nargs="*", help="options of loadtests/locustfile.py, behind --")
    return parser.parse_args(arguments)


def fitting(wanted: argparse.Namespace, descriptors: int, ports: int) -> int:
    """How many of the subscribers fit: what a node takes, what a worker may open, ports."""
    nodes, workers = int(wanted.nodes), int(wanted.workers)
    return min(
        int(wanted.subscribers),
        nodes * node_room(wanted, descriptors),
        workers * max(descriptors - preflight.WORKER_RESERVE, 0),
        nodes * ports * min(workers, preflight.SOURCES),
    )


def node_room(wanted: argparse.Namespace, descriptors: int) -> int:
    """How many clients a node takes, with all its workers: the kernel does not spread evenly."""
    each, count = max(descriptors - RESERVED_DESCRIPTORS, 0), int(wanted.host_workers)
    return each if count == 1 else int(each * count / UNEVEN)


def refusals(wanted: argparse.Namespace, descriptors: int, ports: int) -> list[str]:
    """What cannot work on this machine, as sentences."""
    targets = [parse_url(f"amqp://{HOST}")] * wanted.nodes
    room = node_room(wanted, descriptors)
    found = preflight.check(wanted.subscribers, wanted.workers, targets, descriptors, ports, room)
    if not room:
        each = -(-wanted.subscribers // (wanted.nodes * wanted.host_workers))
        found.append(
            f"a node keeps {RESERVED_DESCRIPTORS} files for others, and may open {descriptors:,}: "
            f"raise `ulimit -n` to {RESERVED_DESCRIPTORS + each:,}"
        )
    return found


def _configure(plan: Plan, timing: float) -> list[str]:
    """Gives nodes ports for metrics, and more patience; returns the addresses of metrics."""
    times = {
        name: int(timing * getattr(Timing(), name))
        for name in ("heartbeat_ms", "lease_ms", "suspect_ms", "backup_stall_ms")
    }
    urls, port = [], METRICS_PORT + 1_000
    for node in plan.nodes:
        steps = [PORT_STEP * number for number in range(len(node.members))]
        port = next(
            each
            for each in range(port, 32_000)
            if all(is_free(each + step, HOST) for step in steps)
        )
        configuration = yaml.safe_load(node.config.read_text())
        configuration["metrics"] = {"host": HOST, "port": port}
        if timing != 1:
            configuration["timing"] = times
        node.config.write_text(yaml.safe_dump(configuration))
        urls += [f"http://{HOST}:{port + step}/metrics" for step in steps]
        port += 1
    return urls


@contextmanager
def cluster(
    directory: Path, nodes: int, timing: float, workers: int = 1
) -> Iterator[tuple[Plan, list[str], list[int]]]:
    """A cluster of `fedq up`: its plan, its addresses for metrics, its nodes' process ids."""
    plan = open_plan(directory, nodes, None, workers=workers)
    metrics = _configure(plan, timing)
    command = [sys.executable, "-m", "fedq", "up", "--data", str(directory), "--json"]
    with (directory / "up.out").open("wb") as output:
        up = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
    try:
        subprocess.run(
            [
                sys.executable, "-m", "fedq", "cluster", "status",
                "--wait", str(round(READY_S * max(1.0, timing))),
                "--config", str(plan.nodes[0].config),
            ],
            cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        yield plan, metrics, _pids(up.pid, plan)
    finally:
        up.send_signal(signal.SIGTERM)
        try:
            up.wait(STOP_S)
        except subprocess.TimeoutExpired:
            up.kill()
            up.wait()


def _pids(parent: int, plan: Plan) -> list[int]:
    """The processes that serve clients, in the order of their addresses for metrics."""
    found = []
    nodes = _by_argument(psutil.Process(parent))
    for node in plan.nodes:
        process, count = nodes[str(node.config)], len(node.members)
        if count == 1:
            found.append(process.pid)
            continue
        workers = _by_argument(process)
        found += [workers[f"{number}/{count}"].pid for number in range(1, count + 1)]
    return found


def _by_argument(parent: psutil.Process) -> dict[str, psutil.Process]:
    """What a process has started, by each word of its command."""
    return {word: child for child in parent.children() for word in child.cmdline()}


def run(wanted: argparse.Namespace) -> int:
    """Does all of it; returns the exit code."""
    with tempfile.TemporaryDirectory(prefix="fedq-load-") as temporary:
        directory = Path(temporary) / "cluster"
        started = cluster(directory, wanted.nodes, wanted.timing, wanted.host_workers)
        with started as (plan, metrics, pids):
            report = Path(temporary) / "report"
            if wanted.label:
                report = RESULTS / f"{date.today().isoformat()}-{wanted.label}"
            command = [
                sys.executable, "-m", "locust", "-f", str(ROOT / "loadtests" / "locustfile.py"),
                "--headless", "--only-summary", "--processes", str(wanted.workers),
                "--broker", ",".join(node.amqp_url for node in plan.nodes),
                "--shape", wanted.shape, "--seconds", str(wanted.seconds),
                "--subscribers", str(wanted.subscribers), "--publish-rate", str(wanted.rate),
                "--pids", ",".join(map(str, pids)), "--metrics", ",".join(metrics),
                "--report", str(report), *wanted.more,
            ]  # fmt: skip
            began = time.monotonic()
            code = _locust(command, wanted.seconds + SPARE_S)
            sys.stderr.write(f"fedq load: {time.monotonic() - began:.0f} s; exit code {code}\n")
            if code:
                _show_logs(plan)
            if wanted.label:
                sys.stderr.write(f"fedq load: {report.relative_to(ROOT)}.md, .json, .svg\n")
            return code


def _show_logs(plan: Plan) -> None:
    """Shows what nodes complained about last: their logs go with the cluster."""
    for node in plan.nodes:
        text = node.log.read_text(encoding="utf-8", errors="replace")
        lines = [line for line in text.splitlines() if any(word in line for word in _WORTH)]
        for line in lines[-LINES_SHOWN:]:
            sys.stderr.write(f"{node.name}: {line}\n")


def _locust(command: list[str], seconds: float) -> int:
    """Runs Locust with a deadline; its workers end with it."""
    locust = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    try:
        return locust.wait(seconds)
    except subprocess.TimeoutExpired:
        sys.stderr.write(f"fedq load: Locust did not end within {seconds:.0f} s\n")
        return 1
    finally:
        if locust.poll() is None:
            os.killpg(locust.pid, signal.SIGKILL)
            locust.wait()


def main(arguments: Sequence[str]) -> int:
    """The whole command; returns its exit code."""
    wanted = options(arguments)
    descriptors, ports = preflight.descriptors(), preflight.ports_of_a_source()
    if wanted.as_many_as_fit:
        fit = fitting(wanted, descriptors, ports)
        if 0 < fit < wanted.subscribers:
            problems = refusals(wanted, descriptors, ports)
            sys.stderr.write("".join(f"fedq load: {each}\n" for each in problems))
            sys.stderr.write(f"fedq load: going on with {fit:,} subscribers\n")
            wanted.subscribers = fit
    if problems := refusals(wanted, descriptors, ports):
        sys.stderr.write("".join(f"fedq load: {each}\n" for each in problems))
        return 2
    try:
        return run(wanted)
    except (CommandError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"fedq load: the cluster did not start: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
