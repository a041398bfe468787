"""Another client of an attacked node: how long it waits, and how much memory the nodes take.

A process of its own, so that the attacker's work does not count: `python -m tests.attacks.probe
HOST PORT PID…`; the first process is the one that it asks. It declares one queue passively every
`PERIOD_S`, until its standard input ends, and then prints one JSON object (`Sight`).

A wait counts as far as the node's process was at work meanwhile: on a busy machine a client waits
for the machine, too. Both are in the answer.
"""

import contextlib
import json
import select
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.integration.harness import ROOT, environment
from tests.integration.stock import Address, connect, pika
from tests.integration.waiting import deadline

PERIOD_S = 0.02
#: How long one question may take before the node counts as one that does not answer.
ANSWER_S = 60.0
QUEUE = "probe"


class Sight(NamedTuple):
    """What the other client saw, in milliseconds and bytes."""

    asked: int
    #: The longest wait for one answer by the clock.
    longest_ms: float
    #: The most processor time that the node's process used during one wait.
    busiest_ms: float
    #: Resident memory of the node that grew most.
    rss_before: int
    rss_largest: int
    #: Why it could not go on asking; "": it could.
    problem: str


def _processor_ns(pid: int) -> int:
    """Processor time of all of the process's threads (proc(5), schedstat)."""
    total = 0
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            total += int(task.read_text().split()[0])
    return total


def _rss(pid: int) -> int:
    """Resident memory of the process in bytes; 0 when it is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * 4_096


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _is_told_to_end() -> bool:
    readable, _, _ = select.select([sys.stdin], [], [], PERIOD_S)
    return bool(readable)


def watch(address: Address, pids: list[int]) -> Sight:
    """Asks until the standard input ends."""
    pid = pids[0]
    before = {each: _rss(each) for each in pids}
    largest = dict(before)
    asked, longest, busiest, problem = 0, 0.0, 0.0, ""
    # That publishers are blocked while memory is full is no fault: this client only asks.
    connection = connect(address, blocked_connection_timeout=None)
    channel = connection.channel()
    channel.queue_declare(QUEUE)
    _say("ready")
    while not _is_told_to_end():
        worked, began = _processor_ns(pid), time.monotonic()
        try:
            with deadline("the node answers", ANSWER_S):
                channel.queue_declare(QUEUE, passive=True)
        except (pika.exceptions.AMQPError, OSError, AssertionError) as error:
            problem = f"{type(error).__name__}: {error}"
            break
        asked += 1
        longest = max(longest, 1_000 * (time.monotonic() - began))
        busiest = max(busiest, (_processor_ns(pid) - worked) / 1e6)
        largest = {each: max(size, _rss(each)) for each, size in largest.items()}
    grown = max(pids, key=lambda each: largest[each] - before[each])
    return Sight(asked, longest, busiest, before[grown], largest[grown], problem)


class Probe:
    """The other client as a context manager; `sight` is known after it."""

    def __init__(self, address: Address, pids: list[int]) -> None:
        """`pids`: of all nodes, first of the one that is asked."""
        self._command = [sys.executable, "-m", "tests.attacks.probe", address.host]
        self._command += [str(address.port), *map(str, pids)]
        self._process: subprocess.Popen[str]
        self.sight: Sight

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, env=environment(), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        assert said == "ready\n", f"the probe could not begin: {said!r}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        try:
            said, _ = self._process.communicate("", timeout=ANSWER_S + 5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise
        answer: dict[str, Any] = json.loads(said)
        self.sight = Sight(**answer)


def main() -> None:
    """The process."""
    host, port, *pids = sys.argv[1:]
    _say(json.dumps(watch(Address(host, int(port)), [int(pid) for pid in pids])._asdict()))


if __name__ == "__main__":
    main()
