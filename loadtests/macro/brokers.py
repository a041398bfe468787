"""The brokers that are measured, as processes of their own on free loopback ports.

`FedqBroker` is a single node; `RabbitBroker` a RabbitMQ that happens to be installed, started
without its service, its user and its directories. Both are pinned to given cores and report the
processor time of their whole process tree.
"""

import os
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import Protocol, Self

import psutil  # type: ignore[import-untyped]

from tests.integration.harness import Cluster, free_ports, serves
from tests.integration.stock import Address
from tests.integration.waiting import until

START_S = 60.0
RABBIT_HOME = Path("/usr/lib/rabbitmq/bin")


class Broker(Protocol):
    """What a measurement needs of a broker; a context manager."""

    @property
    def name(self) -> str:
        """The broker's name and version."""

    @property
    def address(self) -> Address:
        """Where it listens for clients."""

    @property
    def pid(self) -> int:
        """Its first process; all others descend from it."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *details: object) -> None: ...


def tree_cpu_s(pid: int) -> float:
    """User and system seconds of a process and its living descendants."""
    root = psutil.Process(pid)
    total = 0.0
    for process in [root, *root.children(recursive=True)]:
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
    """A single fedq node."""

    def __init__(self, directory: Path, cores: str) -> None:
        """`cores`: as taskset lists them, "" for all."""
        self._cluster = Cluster(directory, names=("bench",), prefix=pinned(cores))

    @property
    def name(self) -> str:
        """The broker's name."""
        return "fedq"

    @property
    def address(self) -> Address:
        """Where it listens for clients."""
        return self._cluster.nodes["bench"].amqp

    @property
    def pid(self) -> int:
        """The node's process."""
        process = self._cluster.nodes["bench"].process
        assert process is not None
        return process.pid

    def __enter__(self) -> Self:
        self._cluster.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        self._cluster.stop()


class RabbitBroker:
    """A RabbitMQ node with default settings, apart from its ports and directories."""

    def __init__(self, directory: Path, cores: str) -> None:
        """`cores`: as taskset lists them, "" for all."""
        self._directory = directory
        self._prefix = pinned(cores)
        self._port, self._distribution_port, self._names_port = free_ports(3)
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
    def address(self) -> Address:
        """Where it listens for clients."""
        return Address("127.0.0.1", self._port)

    @property
    def pid(self) -> int:
        """The start script's process, the parent of the Erlang machine."""
        return self._processes[-1].pid

    def _environment(self) -> dict[str, str]:
        base = str(self._directory)
        return os.environ | {
            "HOME": base,
            "RABBITMQ_NODENAME": f"bench{self._port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self._port),
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "ERL_EPMD_PORT": str(self._names_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_MNESIA_BASE": f"{base}/mnesia",
            "RABBITMQ_LOG_BASE": f"{base}/log",
            "RABBITMQ_CONFIG_FILE": f"{base}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{base}/enabled_plugins",
            "RABBITMQ_CONF_ENV_FILE": f"{base}/rabbitmq-env.conf",
            "RABBITMQ_PID_FILE": f"{base}/pid",
        }

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        (self._directory / "rabbitmq.conf").write_text("loopback_users.guest = true\n")
        (self._directory / "enabled_plugins").write_text("[].\n")
        cookie = self._directory / ".erlang.cookie"
        cookie.write_text(secrets.token_hex(16))
        cookie.chmod(0o400)
        try:
            # Erlang would leave its name server behind as a daemon: run it as a child instead.
            self._start("epmd", ["epmd", "-port", str(self._names_port)])
            self._start("server", [*self._prefix, str(RABBIT_HOME / "rabbitmq-server")])
            until(f"{self.name} serves clients", self._serves, START_S)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self, name: str, command: list[str]) -> None:
        with (self._directory / f"{name}.out").open("wb") as output:
            self._processes.append(
                subprocess.Popen(
                    command, cwd=self._directory, env=self._environment(),
                    stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                )
            )  # fmt: skip

    def _serves(self) -> bool:
        if self._processes[-1].poll() is not None:
            output = (self._directory / "server.out").read_text(errors="replace")
            raise RuntimeError(f"{self.name} did not start:\n{output[-2000:]}")
        return serves(self.address)

    def __exit__(self, *details: object) -> None:
        for process in reversed(self._processes):
            # The server's start script has the Erlang machine as its child: end the whole tree.
            tree = psutil.Process(process.pid).children(recursive=True)
            process.terminate()
            for child in tree:
                if child.is_running():
                    child.terminate()
            psutil.wait_procs(tree, timeout=10)
            process.wait(10)
        self._processes.clear()
