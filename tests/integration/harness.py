"""Real clusters of fedq nodes: processes of their own on free loopback ports.

`Cluster` writes a configuration for each node, starts `python -m fedq node --config …`, waits
until a stock client is served, kills nodes by process id, starts them again on their data, and
asks them through the admin command line. Used by the integration tests, the demo and the load
tests. Every process it starts ends with it.
"""

import gc
import json
import os
import random
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from tests.integration.ports import LOOPBACK, free_ports
from tests.integration.questions import Answer, Forked, Questions
from tests.integration.stock import Address, connect, pika
from tests.integration.waiting import TooLateError, deadline, patient, until

ROOT = Path(__file__).resolve().parents[2]
#: Runs Python with fedq's modules from their own sources, which alone can be patched.
UNCOMPILED = ("env", "FEDQ_PURE=1", sys.executable)
#: Runs fedq's command line.
PLAINLY = [sys.executable, "-m", "fedq"]
LOG_LINES_SHOWN = 40
START_S = 30.0
#: Timing of a cluster that many tests share: a machine with much else to do must not keep a node
#: from being heard for so long that others take over.
UNHURRIED = {"timing": {"heartbeat_ms": 300, "lease_ms": 2_100, "suspect_ms": 5_400}}
#: Clusters whose logs belong into the report of a failed test, until somebody takes them out.
watched: list["Cluster"] = []


#: The process that forks for questions, while there is one.
asked: list[Questions] = []


def environment() -> dict[str, str]:
    """What child processes see: this repository first on the import path."""
    return os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


@contextmanager
def asking_by_forks() -> Iterator[None]:
    """The command line is asked, and nodes are started, by forks of one process in the block."""
    questions = Questions(environment())
    asked.append(questions)
    try:
        yield
    finally:
        asked.remove(questions)
        questions.close()


def run(*arguments: str) -> Answer:
    """Runs a command: by the process that forks, where a run of tests has one."""
    if asked:
        return asked[0].ask(*arguments)
    done = subprocess.run(
        [*PLAINLY, *arguments],
        env=environment(), capture_output=True, text=True, timeout=patient(20), check=False,
    )  # fmt: skip
    return Answer(done.returncode, done.stdout, done.stderr)


class NodeProcess:
    """One node: its name, ports, directory and, while it runs, its process."""

    def __init__(self, name: str, directory: Path, command: list[str], ports: list[int]) -> None:
        """`ports`: for AMQP, peers and administration."""
        self.name = name
        self.directory = directory
        self.amqp = Address(LOOPBACK, ports[0])
        self.peer = Address(LOOPBACK, ports[1])
        self.admin = Address(LOOPBACK, ports[2])
        self._command = command
        self._log_path = directory / "node.log"
        self.process: subprocess.Popen[bytes] | Forked | None = None

    def start(self) -> None:
        """Starts the process; does not wait until it serves."""
        assert self.process is None, f"{self.name} runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        self.process = self._fork()
        if self.process is not None:
            return
        with self._log_path.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, cwd=self.directory, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, env=environment(),
            )  # fmt: skip

    def _fork(self) -> Forked | None:
        """A fork of a process that has imported all, where a run of tests has one: much cheaper."""
        if not asked or self._command[: len(PLAINLY)] != PLAINLY:
            return None
        arguments = self._command[len(PLAINLY) :]
        return asked[0].start(arguments, self.directory, self._log_path, environment())

    def end(self, number: signal.Signals, seconds: float = 15.0) -> int:
        """Sends the signal and waits; returns the exit code. Killed if it does not end in time."""
        assert self.process is not None, f"{self.name} does not run"
        self.process.send_signal(number)
        try:
            return self.process.wait(patient(seconds))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise TooLateError(
                f"{self.name} did not end within {seconds:g} s of {number.name}\n{self.log()}"
            ) from None
        finally:
            self.process = None

    @property
    def is_running(self) -> bool:
        """Whether the process has been started and has not ended."""
        return self.process is not None and self.process.poll() is None

    def log(self) -> str:
        """The last lines of what the node wrote."""
        if not self._log_path.exists():
            return f"(no log of {self.name})"
        lines = self._log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-LOG_LINES_SHOWN:])


def node_configuration(node: NodeProcess, nodes: Iterable[NodeProcess]) -> dict[str, Any]:
    """The content of the node's `node.yaml`: loopback without TLS; `nodes` are all, in order."""
    peers = {one.name: f"{one.peer.host}:{one.peer.port}" for one in nodes}
    configuration: dict[str, Any] = {
        "node": node.name,
        "data": "data",
        "amqp": {"listen": [{"host": node.amqp.host, "port": node.amqp.port}]},
        "admin": {"host": node.admin.host, "port": node.admin.port},
    }
    return configuration | ({"peers": peers} if len(peers) > 1 else {})


def listens(address: Address) -> bool:
    """Whether anybody is there at all: much cheaper to ask than `serves`."""
    with socket.socket() as probe:
        return probe.connect_ex((address.host, address.port)) == 0


def serves(address: Address) -> bool:
    """Whether a stock client can connect and have a shared queue declared and deleted."""
    if not listens(address):
        return False
    name = f"probe-{random.getrandbits(64):x}"
    with suppress(pika.exceptions.AMQPError, OSError, TooLateError):
        with deadline(f"{address.url} answers", 5.0):
            connection = connect(address)
            channel = connection.channel()
            channel.queue_declare(name)
            channel.queue_delete(name)
            connection.close()
        return True
    # A connection that pika was still opening leaves the sockets it wakes itself with.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    return False


class Cluster:
    """Nodes that know each other; a context manager that starts them and ends them all."""

    def __init__(
        self, directory: Path, names: Iterable[str] = ("a", "b", "c"),
        prefix: Iterable[str] = (), more: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """`prefix` goes before each command (taskset …); `more` into each configuration."""
        self.nodes: dict[str, NodeProcess] = {}
        names = tuple(names)
        ports = free_ports(3 * len(names))
        for index, name in enumerate(names):
            own = directory / name
            command = [*prefix, *PLAINLY, "node", "--config", str(own / "node.yaml")]
            self.nodes[name] = NodeProcess(name, own, command, ports[3 * index : 3 * index + 3])
        for node in self.nodes.values():
            node.directory.mkdir(parents=True)
            configuration = node_configuration(node, self.nodes.values()) | (more or {})
            (node.directory / "node.yaml").write_text(yaml.safe_dump(configuration))

    # --- life -------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        watched.append(self)
        try:
            self.start_all()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.stop()

    def start_all(self) -> None:
        """Starts every node that does not run and waits until all serve."""
        for node in self.nodes.values():
            if node.process is None:
                node.start()
        for name in self.nodes:
            self.wait_served(name)

    def stop(self) -> None:
        """Ends every process at once; data stays."""
        for node in self.nodes.values():
            if node.process is not None:
                node.process.kill()
        for node in self.nodes.values():
            if node.process is not None:
                node.process.wait()
                node.process = None

    def kill(self, name: str) -> None:
        """Sends SIGKILL: nothing is flushed, nobody is told."""
        self.nodes[name].end(signal.SIGKILL)

    def terminate(self, name: str) -> int:
        """Asks the node to stop as an operator would; returns its exit code."""
        return self.nodes[name].end(signal.SIGTERM)

    def restart(self, name: str) -> None:
        """Starts an ended node on its data and waits until it serves."""
        self.nodes[name].start()
        self.wait_served(name)

    def wait_served(self, name: str, seconds: float = START_S) -> None:
        """Waits until the node serves a stock client; shows its log if it does not."""
        node = self.nodes[name]

        def served() -> bool:
            if not node.is_running:
                raise TooLateError(f"node {name} ended by itself\n{node.log()}")
            return serves(node.amqp)

        until(f"node {name} serves clients", served, seconds)

    # --- questions --------------------------------------------------------------------------------

    def addresses(self, first: str | None = None) -> list[Address]:
        """Where clients connect, beginning with the node `first`."""
        names = sorted(self.nodes, key=lambda name: name != first)
        return [self.nodes[name].amqp for name in names]

    def living(self) -> NodeProcess:
        """Some node that runs."""
        return next(node for node in self.nodes.values() if node.is_running)

    def ask(self, *command: str, node: str | None = None) -> dict[str, Any]:
        """What the command line says with `--json`, asked of `node` or any living one."""
        target = self.nodes[node] if node else self.living()
        place = f"{target.admin.host}:{target.admin.port}"
        done = run(*command, "--json", "--node", place)
        # 4: the answer says that something is wrong with the cluster.
        if done.code not in (0, 4):
            raise LookupError(f"fedq {' '.join(command)}: {done.err.strip()}")
        answer: dict[str, Any] = json.loads(done.out)
        return answer

    def fragments(self, queue: str) -> list[dict[str, Any]]:
        """The fragments of a queue as the command line shows them."""
        found: list[dict[str, Any]] = self.ask("queue", "show", queue)["fragments"]
        return found

    def primary_of(self, queue: str) -> str:
        """The node that serves the queue's first fragment."""
        return str(self.fragments(queue)[0]["primary"])

    def leader(self) -> str:
        """The node that leads the cluster map's consensus, or "" while there is none."""
        return str(self.ask("cluster", "status")["leader"] or "")

    def is_whole(self, queue: str) -> bool:
        """Whether every fragment serves and has all the copies it should have, in sync."""
        try:
            fragments = self.fragments(queue)
        except LookupError:
            return False
        return bool(fragments) and all(
            fragment["state"] == "serving"
            and len(fragment["in_sync"]) == 1 + len(fragment["backups"])
            and len(fragment["in_sync"]) >= min(2, len(self.nodes))
            for fragment in fragments
        )

    def wait_whole(self, queue: str, seconds: float = START_S) -> None:
        """Waits until `is_whole`."""
        until(f"queue {queue} is in sync everywhere", lambda: self.is_whole(queue), seconds)


def logs_of(clusters: Iterable[Cluster]) -> list[tuple[str, str]]:
    """(title, text) of each node's log, for a failed test's report."""
    return [
        (f"log of node {node.name}", node.log())
        for cluster in clusters
        for node in cluster.nodes.values()
    ]


def eventually(what: str, condition: Callable[[], object], seconds: float = 15.0) -> None:
    """Waits until the condition holds; a closed or refused connection counts as not yet."""

    def holds() -> bool:
        try:
            return bool(condition())
        except (pika.exceptions.AMQPError, OSError):
            return False

    until(what, holds, seconds)
