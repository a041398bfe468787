"""Celery workers as processes of their own, and clients of the same application in the test.

Workers are started by the command a user types, as forks of a process that has imported Celery
where a run of tests has one; each has a log and ends with its test, pool processes
included. `client` closes what Celery leaves open, since tests treat warnings as errors.
"""

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol, Self

import kombu.pools
from celery import Celery

from tests.integration.celery_app import Setting, make_app
from tests.integration.harness import environment
from tests.integration.questions import CELERY, Forked, Questions
from tests.integration.stock import Address
from tests.integration.waiting import TooLateError, patient, until

READY_S = 40.0
#: How long a result may take; `get` returns as soon as it is there.
DONE_S = patient(40.0)
STOP_S = 20.0
#: Workers that need nobody to talk to start a second sooner.
ALONE = ("--without-gossip", "--without-mingle")
PLAINLY = [sys.executable, "-m", "celery"]
#: The process that forks for workers, while there is one.
forking: list[Questions] = []


@contextmanager
def workers_as_forks() -> Iterator[None]:
    """Workers that are started within are forks of one process."""
    process = Questions(environment(), CELERY)
    forking.append(process)
    try:
        yield
    finally:
        forking.remove(process)
        process.close()


def urls(addresses: Sequence[Address]) -> str:
    """Brokers as Celery takes them: it turns to the next one when it loses one."""
    return ";".join(address.url for address in addresses)


class Environment(Protocol):
    """What a worker's application reads from its environment."""

    def to_environment(self) -> dict[str, str]:
        """Variables and their values."""


class Worker:
    """A worker process; a context manager that waits until it is ready, and ends it."""

    def __init__(
        self, setting: Environment, name: str, directory: Path, *options: str,
        concurrency: int = 1, pool: str = "prefork",
        application: str = "tests.integration.celery_app", is_fork: bool = True,
    ) -> None:  # fmt: skip
        """`name` goes before the @ of the worker's host name; `options` are the command's.

        `is_fork=False`: in no case a fork.
        """
        self.hostname = f"{name}@test"
        self._setting = setting.to_environment()
        self.log_path = directory / f"{name}.log"
        self._is_fork = is_fork
        self._arguments = [
            "-A", application, "worker",
            f"--concurrency={concurrency}", f"--pool={pool}", "--loglevel=INFO",
            f"--hostname={self.hostname}", *options,
        ]  # fmt: skip
        self.process: subprocess.Popen[bytes] | Forked | None = None
        self._seen = 0

    def start(self) -> None:
        """Starts the process and waits until it consumes."""
        self.launch()
        self.wait_logged(" ready.", READY_S)

    def launch(self) -> None:
        """Starts the process."""
        self._seen = len(self.log())
        if forking and self._is_fork:
            self.process = forking[-1].start(
                self._arguments, self.log_path.parent, self.log_path, environment(),
                late=self._setting,
            )  # fmt: skip
        if self.process is not None:
            return
        with self.log_path.open("ab") as log:
            # A session of its own, so that its pool processes can be ended with it.
            self.process = subprocess.Popen(
                [*PLAINLY, *self._arguments], env=environment() | self._setting,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def wait_logged(self, text: str, seconds: float = 20.0) -> None:
        """Waits until the log since the last start has the text; shows the log if it has not."""
        process = self.process
        assert process is not None

        def found() -> bool:
            if text in self.log()[self._seen :]:
                return True
            if process.poll() is not None:
                raise TooLateError(f"{self.hostname} ended by itself with {process.returncode}")
            return False

        try:
            until(f"{self.hostname} writes {text!r}", found, seconds)
        except TooLateError as error:
            raise AssertionError(f"{error}\n{self.log()[-4000:]}") from error

    def log(self) -> str:
        """Everything it wrote, over all its starts."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    @property
    def is_running(self) -> bool:
        """Whether the main process lives."""
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """Sends SIGKILL to the worker and all its pool processes."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """SIGTERM, a warm shutdown; kill -9 for a worker that does not end in time."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(patient(STOP_S))
        except subprocess.TimeoutExpired:
            self.kill()
            raise TooLateError(f"{self.hostname} did not end\n{self.log()[-4000:]}") from None
        self.process = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.stop()
        else:
            self.kill()
            error.add_note(f"the end of the log of {self.hostname}:\n{self.log()[-4000:]}")


@contextmanager
def client(setting: Setting) -> Iterator[Celery]:
    """The application as a client has it; its connections are closed at the end."""
    app = make_app(setting)
    repeats: list[Exception] = []
    app.conf.task_publish_retry_policy = {
        **app.conf.task_publish_retry_policy,
        "errback": lambda error, _: repeats.append(error),
    }
    #: Why it published a message once more: it had heard no confirm.
    app.repeats = repeats
    try:
        yield app
    finally:
        consumer = getattr(app.backend, "result_consumer", None)
        if consumer is not None and consumer._consumer is not None:
            # Celery keeps the connection on which results arrive until its process ends. Its node
            # may have been killed: then there is nothing to cancel.
            with suppress(*app.connection().connection_errors):
                consumer.stop()
        app.close()
        kombu.pools.reset()  # type: ignore[no-untyped-call]
        gc.collect()
