"""Celery as it comes: the worker on one node, the client on another, results over AMQP."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.celery_app import make_app
from tests.integration.conftest import Connect
from tests.integration.harness import environment
from tests.integration.stock import Address
from tests.integration.waiting import TooLateError, until

pytestmark = pytest.mark.slow


@contextmanager
def worker(address: Address, queue: str, directory: Path) -> Iterator[None]:
    """A Celery worker process, ended at the end; its log is shown if it does not get ready."""
    log_path = directory / "worker.log"
    command = [sys.executable, "-m", "celery", "-A", "tests.integration.celery_app", "worker"]
    command += ["--concurrency=2", "--loglevel=INFO", f"--hostname={queue}@here"]
    variables = environment() | {"FEDQ_TEST_WORKER_URL": address.url, "FEDQ_TEST_QUEUE": queue}
    with log_path.open("wb") as log:
        process = subprocess.Popen(command, env=variables, stdout=log, stderr=log)
    try:
        try:
            until("the worker is ready", lambda: " ready." in log_path.read_text(), 30)
        except TooLateError as error:
            raise AssertionError(log_path.read_text()[-3000:]) from error
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.mark.patience(90)
def test_tasks_and_results(
    brokers: list[Address], open_connection: Connect, name: str, tmp_path: Path
) -> None:
    app = make_app(brokers[0].url, name)
    with worker(brokers[-1], name, tmp_path):
        results = [app.send_task("add", (number, 1)) for number in range(20)]
        assert [result.get(timeout=20) for result in results] == list(range(1, 21))
        assert app.send_task("shout", ("grüße",)).get(timeout=20) == "GRÜSSE"
    # Celery keeps the connection on which results arrive until its process ends.
    app.backend.result_consumer.stop()
    app.close()
    gc.collect()
    open_connection(brokers[0]).channel().queue_delete(name)
