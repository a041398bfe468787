"""Spark's driver as a process, and nodes with a stream, for all tests that need them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from tests.integration.harness import UNHURRIED, Cluster, asking_by_forks, environment
from tests.integration.stock import BlockingChannel, connect
from tests.pipeline.spark.settings import TOO_BUSY, TRIES
from tests.plugins.leaks import keep_processes


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of it waits for Java and for nodes."""
    mine = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(mine):
            item.add_marker(pytest.mark.slow)


class Driver:
    """A driver of Spark, in a process of its own."""

    def __init__(self, directory: Path, where: str = "local[2]") -> None:
        """`where`: as `tests.pipeline.spark.driver` has it."""
        directory.mkdir()
        self._log = directory / "driver.log"
        variables = environment() | {
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.pipeline.spark.driver", where], text=True,
                cwd=directory, env=variables,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        assert self._answer()["ready"]

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("ANSWER "):
                found: dict[str, Any] = json.loads(line.removeprefix("ANSWER "))
                return found
        raise AssertionError(
            f"the driver has ended:\n{self._log.read_text(errors='replace')[-4_000:]}"
        )

    def _ask(self, job: str, arguments: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        for _ in range(TRIES):
            self._process.stdin.write(json.dumps({"job": job, "arguments": arguments}) + "\n")
            self._process.stdin.flush()
            answer = self._answer()
            if TOO_BUSY not in str(answer.get("error")):
                break
        return answer

    def run(self, job: str, **arguments: Any) -> Any:
        """The result of a job."""
        answer = self._ask(job, arguments)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def error(self, job: str, **arguments: Any) -> str:
        """The error of a job that fails."""
        return str(self._ask(job, arguments)["error"])

    def kill_workers(self) -> None:
        """Ends the processes in which its tasks run Python, without a word."""
        for each in psutil.Process(self._process.pid).children(recursive=True):
            parent = each.parent()
            # What the daemon has forked, not the daemon.
            if parent is not None and "pyspark.daemon" in parent.cmdline():
                each.kill()

    def kill(self) -> None:
        """Ends the process without a word."""
        self._process.kill()
        self._process.wait()
        self._close()

    def stop(self) -> None:
        """Ends it as users do."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._close()

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    driver = Driver(tmp_path_factory.mktemp("spark") / "driver")
    yield driver
    driver.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("nodes")
    with asking_by_forks(), Cluster(directory, more=UNHURRIED) as running:
        yield running


@pytest.fixture
def channel(cluster: Cluster) -> Iterator[BlockingChannel]:
    """A channel to some node, with confirms; idle for as long as Spark takes."""
    connection = connect(cluster.living().amqp, heartbeat=0)
    channel = connection.channel()
    channel.confirm_delivery()
    yield channel
    connection.close()


@contextmanager
def killing(cluster: Cluster) -> Iterator[None]:
    """Nodes that are killed in the block come back at its end, for the other tests."""
    try:
        yield
    finally:
        cluster.start_all()
        keep_processes(node.process.pid for node in cluster.nodes.values() if node.process)


@pytest.fixture
def url(cluster: Cluster) -> str:
    """All nodes of the shared cluster."""
    return urls(cluster)


@pytest.fixture
def sink(cluster: Cluster) -> str:
    """All nodes of the shared cluster, for publishers."""
    return amqp_urls(cluster)


def amqp_urls(cluster: Cluster) -> str:
    """All nodes, as the option `url` of a write says them."""
    return ",".join(
        f"amqp://guest:guest@{node.amqp.host}:{node.amqp.port}" for node in cluster.nodes.values()
    )


def urls(cluster: Cluster) -> str:
    """All nodes, as the option `url` says them."""
    return ",".join(
        f"fedq://guest:guest@{node.admin.host}:{node.admin.port}" for node in cluster.nodes.values()
    )
