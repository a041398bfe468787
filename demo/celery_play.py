"""`python -m demo.celery_play`: Celery on three nodes; a node and a worker are killed mid-run.

Each node has a Celery worker and all workers know all brokers. A client sends single tasks, groups
and chords through node a. After a third of them node a is killed (kill -9), after two thirds a
whole worker; both come back. The verdict is made of what the tasks wrote down.

The worker that is killed serves late acknowledgements only. A task that is acknowledged before
it runs is gone with its worker whatever the broker does: that is what the setting means.

Exit code 1 if a submitted task was not executed, 2 if the play broke off.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console

from demo import records
from demo.__main__ import on_terminate
from demo.account import Account, seconds, tell_verdict
from demo.celery_app import EARLY, LATE, Place, records_of, results_of
from demo.celery_verdict import Verdict, judge, missing
from demo.verdict import Gap, longest_gap
from tests.integration.celery_worker import READY_S, Worker, urls
from tests.integration.harness import Cluster, environment
from tests.integration.stock import connect
from tests.integration.waiting import TooLateError, deadline, until

LIVELY_S = 20.0
CAUGHT_UP_S = 40.0
FIGURES_S = 2.0
#: Worker -> the node it prefers, and what it consumes.
WORKERS = {"wa": ("a", f"{LATE},{EARLY}"), "wb": ("b", f"{LATE},{EARLY}"), "wc": ("c", LATE)}


class Play:
    """The cluster, the workers and the client; a context manager."""

    def __init__(self, directory: Path, console: Console, tasks: int, rate: float) -> None:
        """`rate`: submissions a second at most."""
        self.cluster = Cluster(directory / "nodes")
        self.account = Account(console, self.cluster, [])
        self._console = console
        self._directory = directory
        self._tasks = tasks
        self._rate = rate
        self._workers = {
            name: Worker(
                self._place(node), name, directory, f"--queues={queues}", concurrency=2,
                application="demo.celery_app",
            )
            for name, (node, queues) in WORKERS.items()
        }  # fmt: skip
        self._client: subprocess.Popen[bytes] | None = None
        self._followers: dict[Path, records.Follower] = {}
        self._records: list[records.Record] = []
        self._submitted = 0
        self._executed = 0
        self._told_s = 0.0

    def _place(self, first: str) -> Place:
        return Place(urls(self.cluster.addresses(first)), str(self._directory))

    # --- beginning and end ------------------------------------------------------------------------

    def __enter__(self) -> Self:
        place = self._place("a")
        records_of(place).mkdir(parents=True)
        results_of(place).mkdir()
        self.account.event("three nodes start")
        self.cluster.__enter__()
        try:
            for name, node in self.cluster.nodes.items():
                self.account.event(f"node {name} serves {node.amqp.url}")
            self._declare("a")
            self._start_workers()
            self._start_client(place)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if self._client is not None and self._client.poll() is None:
            self._client.kill()
            self._client.wait()
        for worker in self._workers.values():
            worker.kill()
        self.cluster.stop()

    def _declare(self, node: str) -> None:
        """The queues exist before the workers do, so that it is `node` that serves them."""
        with deadline("the queues are declared", 10):
            connection = connect(self.cluster.nodes[node].amqp)
            for queue in (LATE, EARLY):
                connection.channel().queue_declare(queue, durable=True)
            connection.close()
        for queue in (LATE, EARLY):
            self.cluster.wait_whole(queue)
            self.account.event(f"queue {queue}: served by {self.cluster.primary_of(queue)}")

    def _start_workers(self) -> None:
        for worker in self._workers.values():
            worker.launch()
        for name, worker in self._workers.items():
            worker.wait_logged(" ready.", READY_S)
            node, queues = WORKERS[name]
            self.account.event(f"worker {name} consumes {queues} from node {node}", "cyan")

    def _start_client(self, place: Place) -> None:
        command = [sys.executable, "-m", "demo.celery_client"]
        command += [str(records_of(place) / "client.txt"), "--tasks", str(self._tasks)]
        command += ["--rate", str(self._rate)]
        with (self._directory / "client.log").open("wb") as log:
            self._client = subprocess.Popen(
                command, env=environment() | place.to_environment(), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.account.event("the client sends tasks through node a", "cyan")

    # --- time passing -----------------------------------------------------------------------------

    def _look(self) -> None:
        """Reads what was written since the last look, and says where the run stands."""
        for path in sorted(records_of(self._place("a")).glob("*.txt")):
            follower = self._followers.setdefault(path, records.Follower(path))
            for record in follower.new():
                self._records.append(record)
                self._submitted += record.kind == records.CONFIRMED
                self._executed += record.kind == records.DELIVERED
        if self._client is not None and self._client.poll() not in (None, 0):
            log = (self._directory / "client.log").read_text(errors="replace")
            raise RuntimeError(f"the client ended by itself:\n{log[-2000:]}")
        if time.monotonic() - self._told_s > FIGURES_S:
            self._told_s = time.monotonic()
            self.account.event(f"{self._submitted:,} submitted, {self._executed:,} executed", "dim")

    def _wait(self, what: str, condition: Callable[[], bool], limit_s: float = LIVELY_S) -> None:
        def holds() -> bool:
            self._look()
            return condition()

        until(what, holds, limit_s)

    def _wait_submitted(self, share: float) -> None:
        goal = int(self._tasks * share)
        limit_s = LIVELY_S + self._tasks / self._rate
        self._wait(f"{goal} tasks are submitted", lambda: self._submitted >= goal, limit_s)

    # --- the acts ---------------------------------------------------------------------------------

    def play(self) -> Verdict:
        """Everything between start and verdict."""
        self._wait_submitted(1 / 3)
        self._kill_node("a")
        self._wait_submitted(2 / 3)
        self._kill_worker("wc")
        self.account.event("node a starts again on its data, worker wc starts again")
        self._workers["wc"].launch()
        self.cluster.restart("a")
        self.account.event("node a serves again", "green")
        self._wait_submitted(1)
        client = self._client
        self._wait("the client ends", lambda: client is None or client.poll() == 0)
        try:
            self._wait("all is executed", lambda: not missing(self._records), CAUGHT_UP_S)
        except TooLateError as error:
            # The verdict names what is missing; it is the better account of the same fact.
            self.account.event(str(error)[:100], "red")
        self._wait("the queues are empty", self._is_idle)
        self._look()
        return judge(self._records)

    def _kill_node(self, name: str) -> None:
        queues = [queue for queue in (LATE, EARLY) if self.cluster.primary_of(queue) == name]
        role = " and ".join(queues) or "no queue"
        at_ms = time.monotonic_ns() // 1_000_000
        self.cluster.kill(name)
        self.account.event(f"kill -9 of node {name}, which serves {role}", "bold red")
        self._go_on(at_ms)

    def _kill_worker(self, name: str) -> None:
        at_ms = time.monotonic_ns() // 1_000_000
        self._workers[name].kill()
        self.account.event(f"kill -9 of worker {name} and its pool processes", "bold red")
        self._go_on(at_ms)

    def _go_on(self, at_ms: int) -> None:
        """Waits until tasks are submitted and executed again; says how long nothing was."""
        self._look()
        submitted, executed = self._submitted, self._executed
        self._wait(
            "tasks are submitted and executed again",
            lambda: self._submitted > submitted + 50 and self._executed > executed + 50,
        )
        pause = self._pause_since(at_ms)
        self.account.event(f"work goes on; nothing was executed for {seconds(pause)}", "green")

    def _pause_since(self, at_ms: int) -> Gap:
        return longest_gap(
            record.at_ms
            for record in self._records
            if record.kind == records.DELIVERED and record.at_ms > at_ms - 500
        )

    def _is_idle(self) -> bool:
        """Nothing waits in the queues; what is held is executed or has been."""
        with deadline("the queues are counted", 10):
            connection = connect(self.cluster.nodes["b"].amqp)
            channel = connection.channel()
            counts = [
                channel.queue_declare(name, passive=True).method.message_count
                for name in (LATE, EARLY)
            ]
            connection.close()
        return not any(counts)

    # --- the verdict ------------------------------------------------------------------------------

    def tell(self, verdict: Verdict) -> None:
        """The end of the story."""
        tell_verdict(self._console, "the tasks' own records", verdict_rows(verdict), verdict.lost)
        if verdict.is_good:
            self._console.print("Every submitted task was executed.", style="bold green")
        elif not verdict.lost:
            self._console.print("A chord's body got wrong results.", style="bold red")


def verdict_rows(verdict: Verdict) -> dict[str, str]:
    """The verdict as titles and values."""
    return {
        "submitted (confirmed by the broker)": f"{verdict.submitted:,}",
        "executed": f"{verdict.executed:,}",
        "lost (submitted, never executed)": f"{len(verdict.lost):,}",
        "executed twice": f"{verdict.executed_twice:,}",
        "sent again by the client": f"{verdict.sent_again:,}",
        "chords whose body got all results": f"{verdict.chords:,}",
        "chords whose body did not": f"{verdict.chords_wrong:,}",
        "longest pause in executions": seconds(verdict.pause),
    }


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="demo.celery_play", description=__doc__.split("\n")[0])
    parser.add_argument("--tasks", type=int, default=2500, help="submitted, about")
    parser.add_argument("--rate", type=float, default=200.0, help="submissions a second at most")
    parser.add_argument("--data", type=Path, help="keep all data, logs and records here")
    options = parser.parse_args()
    console = Console(highlight=False)
    signal.signal(signal.SIGTERM, on_terminate)
    try:
        with tempfile.TemporaryDirectory(prefix="fedq-celery-") as temporary:
            directory = options.data or Path(temporary)
            with Play(directory, console, options.tasks, options.rate) as play:
                verdict = play.play()
            play.tell(verdict)
    except KeyboardInterrupt:
        console.print("stopped")
        return 130
    except (AssertionError, LookupError, RuntimeError, OSError) as error:
        console.print(f"The demo broke off: {error}", style="bold red", soft_wrap=True)
        return 2
    return 0 if verdict.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
