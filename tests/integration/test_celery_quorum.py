"""Quorum queues as Celery 5.5 and later use them: static prefetch, delays kept by the broker.

Where a queue is declared with `x-queue-type: quorum`, Celery does not hold tasks with an ETA in
its workers. It declares 28 topic exchanges and queues, one per bit of the delay in seconds
(`kombu.transport.native_delayed_delivery`): a message waits by `x-message-ttl` in those whose bit
is set, and goes from each to the next by dead-lettering.
"""

from pathlib import Path

import pytest

from tests.integration.celery_app import Event, Setting, read_events
from tests.integration.celery_worker import ALONE, Worker, client
from tests.integration.stock import Address
from tests.integration.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.patience(120)]


def quorum(address: Address, name: str, records: Path) -> Setting:
    """A quorum queue behind a topic exchange: delays do not work behind direct ones."""
    return Setting(
        address.url, name, str(records), arguments={"x-queue-type": "quorum"},
        exchange_type="topic",
        more={"task_default_queue_type": "quorum", "task_default_exchange_type": "topic"},
    )  # fmt: skip


def begun(path: Path) -> dict[str, Event]:
    """When each task began, by its name; a task that began twice is an error."""
    found: dict[str, Event] = {}
    for event in read_events(path):
        if event.what == "begin":
            assert event.name not in found, event
            found[event.name] = event
    return found


def test_tasks_on_a_quorum_queue(brokers: list[Address], name: str, tmp_path: Path) -> None:
    setting = quorum(brokers[0], name, tmp_path / "records")
    with (
        Worker(setting._replace(url=brokers[-1].url), "w", tmp_path, *ALONE) as worker,
        client(setting) as app,
    ):
        assert "Global QoS is disabled" in worker.log()
        results = [app.send_task("add", (number, 1)) for number in range(20)]
        assert [result.get(timeout=20) for result in results] == list(range(1, 21))


@pytest.mark.xfail(reason="TTL and dead-lettering are being built", strict=False)
def test_the_broker_keeps_tasks_for_later(
    brokers: list[Address], name: str, tmp_path: Path
) -> None:
    """They wait in the broker, not in the worker, and run when their time has come."""
    records = tmp_path / "records"
    setting = quorum(brokers[0], name, records)
    with (
        Worker(setting._replace(url=brokers[-1].url), "w", tmp_path, *ALONE) as worker,
        client(setting) as app,
    ):
        app.send_task("note", ("start",)).get(timeout=20)
        delays = (3, 1, 6, 2, 5)
        for delay in delays:
            app.send_task("note", (f"{delay}",), countdown=delay)
        app.send_task("note", ("an hour later",), countdown=3600)
        app.send_task("note", ("now",)).get(timeout=20)
        inspect = app.control.inspect([worker.hostname], timeout=10, limit=1)
        assert inspect.scheduled() == {worker.hostname: []}
        until("all have run", lambda: len(begun(records)) == 2 + len(delays), 25)
        started_s = begun(records)["start"].at_s
        for delay in delays:
            waited_s = begun(records)[f"{delay}"].at_s - started_s
            # Celery cuts the delay to whole seconds, and the worker waits out what is missing.
            assert delay - 1 < waited_s < delay + 3, (delay, waited_s)
        assert app.send_task("retries", ("retried", 2, 1)).get(timeout=20) == 2
