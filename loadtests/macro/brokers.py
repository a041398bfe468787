"""The brokers that are measured, as processes of their own on free loopback ports.

`FedqBroker` is one fedq node or several; `RabbitBroker` one RabbitMQ or a cluster of them that
happens to be installed, started without its service, its user and its directories. All are pinned
to given cores and end with their context.

In: a directory that may be filled, the cores, how many nodes. Out: addresses for clients and the
processes whose trees are the broker. Everything has a deadline.
"""

import json
import os
import secrets
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

import psutil  # type: ignore[import-untyped]

from tests.integration.harness import Cluster, serves
from tests.integration.ports import free_ports
from tests.integration.stock import Address
from tests.integration.waiting import until

START_S = 60.0
#: An Erlang node with ten thousand connections ends slowly; after this it is killed.
STOP_S = 10.0
RABBIT_HOME = Path("/usr/lib/rabbitmq/bin")
NODE_NAMES = ("a", "b", "c", "d", "e")


class Broker(Protocol):
    """What a measurement needs of a broker; a context manager."""

    @property
    def name(self) -> str:
        """The broker's name and version."""

    @property
    def addresses(self) -> list[Address]:
        """Where its nodes listen for clients."""

    @property
    def pids(self) -> list[int]:
        """The first process of each node; all others descend from them."""

    @property
    def directory(self) -> Path:
        """Where everything is that it keeps."""

    def kill(self) -> None:
        """Ends all its processes at once; what is on the disk stays."""

    def start(self) -> None:
        """Starts them again, and returns before they serve."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *details: object) -> None: ...


def tree_cpu_s(pid: int) -> float:
    """User and system seconds of a process and its living descendants; 0 when it is gone."""
    total = 0.0
    try:
        root = psutil.Process(pid)
        tree = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return total
    for process in tree:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def pinned(cores: str) -> list[str]:
    """The command prefix that keeps a process and its children on the given cores."""
    return ["taskset", "--cpu-list", cores] if cores else []


class FedqBroker:
    """Nodes of fedq with the configuration that `fedq up` gives them: real disks, real syncs."""

    def __init__(
        self, directory: Path, cores: str, count: int = 1, memory_bytes: int | None = None
    ) -> None:
        """`cores`: as taskset lists them, "" for all; all nodes share them."""
        more = None if memory_bytes is None else {"limits": {"memory_bytes": memory_bytes}}
        self.directory = directory
        self.cluster = Cluster(directory, names=NODE_NAMES[:count], prefix=pinned(cores), more=more)

    @property
    def name(self) -> str:
        """The broker's name."""
        return "fedq"

    @property
    def addresses(self) -> list[Address]:
        """Where its nodes listen for clients."""
        return [node.amqp for node in self.cluster.nodes.values()]

    @property
    def pids(self) -> list[int]:
        """The nodes' processes."""
        processes = [node.process for node in self.cluster.nodes.values()]
        return [process.pid for process in processes if process is not None]

    def kill(self) -> None:
        """Ends all its processes at once; what is on the disk stays."""
        self.cluster.stop()

    def start(self) -> None:
        """Starts them again, and returns before they serve."""
        for node in self.cluster.nodes.values():
            node.start()

    def __enter__(self) -> Self:
        self.cluster.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        self.cluster.stop()


@dataclass(frozen=True, slots=True)
class RabbitNode:
    """One node of a RabbitMQ: its number and its ports, for clients and for other nodes."""

    number: int
    port: int
    distribution_port: int

    @property
    def name(self) -> str:
        """What Erlang calls it."""
        return f"bench{self.port}@localhost"


class RabbitBroker:
    """RabbitMQ nodes with default settings, apart from their ports and directories."""

    def __init__(
        self, directory: Path, cores: str, count: int = 1, memory_bytes: int | None = None
    ) -> None:
        """`cores`: as taskset lists them, "" for all; all nodes share them.

        `memory_bytes` is fedq's alone: RabbitMQ keeps its own bound, as its settings are default.
        """
        del memory_bytes
        self.directory = directory
        self._prefix = pinned(cores)
        self._names_port, *ports = free_ports(1 + 2 * count)
        self._nodes = [
            RabbitNode(number, *ports[2 * number : 2 * number + 2]) for number in range(count)
        ]
        #: The name server, then one start script for each node, the parent of its Erlang machine.
        self._processes: list[subprocess.Popen[bytes]] = []

    @staticmethod
    def is_installed() -> bool:
        """Whether this machine has RabbitMQ and Erlang's name server."""
        return (RABBIT_HOME / "rabbitmq-server").exists() and shutil.which("epmd") is not None

    @property
    def name(self) -> str:
        """The broker's name and version."""
        versions = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"))
        return f"RabbitMQ {versions[-1].name.partition('-')[2]}" if versions else "RabbitMQ"

    @property
    def addresses(self) -> list[Address]:
        """Where its nodes listen for clients."""
        return [Address("127.0.0.1", node.port) for node in self._nodes]

    @property
    def address(self) -> Address:
        """Where its first node listens for clients."""
        return self.addresses[0]

    @property
    def pids(self) -> list[int]:
        """The nodes' start scripts."""
        return [process.pid for process in self._processes[1:]]

    def _environment(self, node: RabbitNode) -> dict[str, str]:
        base = str(self.directory)
        return os.environ | {
            "HOME": base,
            "RABBITMQ_NODENAME": node.name,
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(node.port),
            "RABBITMQ_DIST_PORT": str(node.distribution_port),
            "ERL_EPMD_PORT": str(self._names_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_MNESIA_BASE": f"{base}/mnesia",
            "RABBITMQ_LOG_BASE": f"{base}/log",
            "RABBITMQ_CONFIG_FILE": f"{base}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{base}/enabled_plugins",
            "RABBITMQ_CONF_ENV_FILE": f"{base}/rabbitmq-env.conf",
            "RABBITMQ_PID_FILE": f"{base}/{node.name}.pid",
        }

    def _write_files(self) -> None:
        lines = ["loopback_users.guest = true"]
        if len(self._nodes) > 1:
            lines.append("cluster_formation.peer_discovery_backend = classic_config")
            lines += [
                f"cluster_formation.classic_config.nodes.{node.number + 1} = {node.name}"
                for node in self._nodes
            ]
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
        (self.directory / "enabled_plugins").write_text("[].\n")
        cookie = self.directory / ".erlang.cookie"
        cookie.write_text(secrets.token_hex(16))
        cookie.chmod(0o400)

    def __enter__(self) -> Self:
        self._write_files()
        first, *others = self._nodes
        try:
            # Erlang would leave its name server behind as a daemon: run it as a child instead.
            self._start("epmd", ["epmd", "-port", str(self._names_port)], first)
            self._start_node(first)
            self._wait_served(first)
            # The others find the first one running and join it.
            for node in others:
                self._start_node(node)
            for node in others:
                self._wait_served(node)
            if others:
                until(f"{self.name}: all nodes have joined", self._is_whole, START_S)
        except BaseException:
            self.__exit__()
            raise
        return self

    def kill(self) -> None:
        """Ends all its processes at once, but the name server; what is on the disk stays."""
        names, *started = self._processes
        for process in started:
            for each in [*psutil.Process(process.pid).children(recursive=True), process]:
                each.kill()
            process.wait()
        self._processes = [names]

    def start(self) -> None:
        """Starts them again, and returns before they serve."""
        for node in self._nodes:
            self._start_node(node)

    def _start_node(self, node: RabbitNode) -> None:
        self._start(node.name, [*self._prefix, str(RABBIT_HOME / "rabbitmq-server")], node)

    def _start(self, name: str, command: list[str], node: RabbitNode) -> None:
        with (self.directory / f"{name}.out").open("wb") as output:
            self._processes.append(
                subprocess.Popen(
                    command, cwd=self.directory, env=self._environment(node),
                    stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                )
            )  # fmt: skip

    def _wait_served(self, node: RabbitNode) -> None:
        process = self._processes[1 + node.number]

        def is_served() -> bool:
            if process.poll() is not None:
                output = (self.directory / f"{node.name}.out").read_text(errors="replace")
                raise RuntimeError(f"{self.name} did not start:\n{output[-2000:]}")
            return serves(self.addresses[node.number])

        until(f"{self.name} serves clients", is_served, START_S)

    def _is_whole(self) -> bool:
        """Whether the first node counts all the others as running members."""
        first = self._nodes[0]
        asked = subprocess.run(
            [
                str(RABBIT_HOME / "rabbitmqctl"), "--node", first.name, "--quiet",
                "cluster_status", "--formatter", "json",
            ],
            env=self._environment(first), capture_output=True, text=True, check=False,
            timeout=START_S,
        )  # fmt: skip
        if asked.returncode != 0:
            return False
        return len(json.loads(asked.stdout)["running_nodes"]) == len(self._nodes)

    def __exit__(self, *details: object) -> None:
        trees = [
            process
            for started in reversed(self._processes)
            for process in [*psutil.Process(started.pid).children(recursive=True), started]
        ]
        # The start scripts have the Erlang machines as children: end the whole trees.
        for process in trees:
            if isinstance(process, subprocess.Popen) or process.is_running():
                process.terminate()
        descendants = [p for p in trees if not isinstance(p, subprocess.Popen)]
        _, alive = psutil.wait_procs(descendants, timeout=STOP_S)
        for process in alive:
            process.kill()
        for started in self._processes:
            try:
                started.wait(STOP_S)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()
        self._processes.clear()
