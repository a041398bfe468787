"""A standalone cluster of Spark on loopback: a master and workers, from the installed PySpark."""

import importlib.util
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from fedq.pipeline.java import cache_directory, find_java
from tests.integration.harness import environment, listens
from tests.integration.ports import LOOPBACK, free_ports
from tests.integration.stock import Address
from tests.integration.waiting import until
from tests.pipeline.spark.settings import JAVA_OPTIONS

_DEPLOY = "org.apache.spark.deploy"
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


class SparkCluster:
    """Its master and its workers, of one core each."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        self._place = Address(LOOPBACK, free_ports(1)[0])

    @property
    def url(self) -> str:
        """What `--master` says."""
        return f"spark://{self._place.host}:{self._place.port}"

    def start(self, workers: int) -> None:
        """Starts all of it, and waits until the workers are known to the master."""
        place = ["--host", LOOPBACK, "--webui-port", "0"]
        self._begin("master", f"{_DEPLOY}.master.Master", *place, "--port", str(self._place.port))
        until("the master listens", lambda: listens(self._place), 60)
        for number in range(workers):
            own = ["--cores", "1", "--memory", "1g", "--work-dir", str(self._directory)]
            name = f"worker{number}"
            self._begin(name, f"{_DEPLOY}.worker.Worker", *place, *own, self.url)
            log = self._directory / f"{name}.log"
            until(
                f"{name} is known",
                lambda: "Successfully registered with master" in log.read_text(),  # noqa: B023
                60,
            )

    def _begin(self, name: str, program: str, *arguments: str) -> None:
        found = importlib.util.find_spec("pyspark")
        assert found is not None
        assert found.origin is not None
        home = Path(found.origin).parent
        variables = environment() | {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
        }
        java = find_java(os.environ, cache_directory(os.environ)).home
        variables |= {"JAVA_HOME": java} if java else {}
        with (self._directory / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), program, *arguments],
                cwd=self._directory, env=variables, stdout=log, stderr=log,
            )  # fmt: skip
        self._processes.append(process)

    def at_work(self) -> list[psutil.Process]:
        """The executors that have begun a task, as their logs say."""
        logs = self._directory.glob("app-*/*/stderr")
        begun = {log.parent.parts[-2:] for log in logs if "Running task" in log.read_text()}
        # Whoever asks again and again reads some lines, and looks at no processes.
        return [each for place, each in self._executors() if place in begun] if begun else []

    def _executors(self) -> Iterator[tuple[tuple[str, ...], psutil.Process]]:
        """Each with its application and its number there, as its directory is named."""
        for process in self._processes:
            for child in _children(psutil.Process(process.pid)):
                command = _command(child)
                if _EXECUTOR in command:
                    options = ("--app-id", "--executor-id")
                    yield tuple(command[command.index(each) + 1] for each in options), child

    def stop(self) -> None:
        """Ends all of it."""
        for process in self._processes:
            for child in _children(psutil.Process(process.pid)):
                with suppress(psutil.NoSuchProcess):
                    child.kill()
            process.kill()
            process.wait()


def _command(process: psutil.Process) -> list[str]:
    """Its command; of one that has ended, nothing."""
    try:
        return list(process.cmdline())
    except psutil.NoSuchProcess:
        return []


def _children(process: psutil.Process) -> list[psutil.Process]:
    """Those below it; of one that has ended, none."""
    try:
        return list(process.children(recursive=True))
    except psutil.NoSuchProcess:
        return []
