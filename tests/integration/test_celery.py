"""Celery as it comes: the worker on one node, the client on another, results over AMQP."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.celery_app import app
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
    with (
        worker(brokers[-1], name, tmp_path),
        app.connection_for_write(brokers[0].url) as connection,
    ):
        # The result backend uses the application's own connection: it goes to the same node.
        app.conf.broker_url = brokers[0].url
        results = [
            app.send_task("add", (number, 1), queue=name, connection=connection)
            for number in range(20)
        ]
        assert [result.get(timeout=20) for result in results] == list(range(1, 21))
        loud = app.send_task("shout", ("grüße",), queue=name, connection=connection)
        assert loud.get(timeout=20) == "GRÜSSE"
    app.pool.force_close_all()
    channel = open_connection(brokers[0]).channel()
    channel.queue_delete(name)
