"""Quorum queues as Celery 5.5 and later use them: static prefetch, delays kept by the broker.

Where a queue is declared with `x-queue-type: quorum`, Celery does not hold tasks with an ETA in
its workers. It declares 28 topic exchanges and queues, one per bit of the delay in seconds
(`kombu.transport.native_delayed_delivery`): a message waits by `x-message-ttl` in those whose bit
is set, and goes from each to the next by dead-lettering.
"""

from pathlib import Path

import pytest

from tests.integration.celery_app import Event, Setting, read_events
from tests.integration.celery_worker import ALONE, DONE_S, Worker, client, urls
from tests.integration.harness import Cluster
from tests.integration.stock import Address
from tests.integration.waiting import patient, until

pytestmark = [
    pytest.mark.slow, pytest.mark.patience(120), pytest.mark.usefixtures("_forked_workers")
]  # fmt: skip


def quorum(url: str, name: str, records: Path) -> Setting:
    """A quorum queue behind a topic exchange: delays do not work behind direct ones."""
    return Setting(
        url, name, str(records), arguments={"x-queue-type": "quorum"},
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


def begun_at_least_once(path: Path) -> dict[str, Event]:
    """When each task began first, by its name; one that began again was marked as redelivered."""
    found: dict[str, Event] = {}
    for event in read_events(path):
        if event.what == "begin":
            assert event.name not in found or event.is_redelivered, event
            found.setdefault(event.name, event)
    return found


def test_tasks_on_a_quorum_queue(brokers: list[Address], name: str, tmp_path: Path) -> None:
    setting = quorum(brokers[0].url, name, tmp_path / "records")
    with (
        Worker(setting._replace(url=brokers[-1].url), "w", tmp_path, *ALONE) as worker,
        client(setting) as app,
    ):
        assert "Global QoS is disabled" in worker.log()
        results = [app.send_task("add", (number, 1)) for number in range(20)]
        assert [result.get(timeout=DONE_S) for result in results] == list(range(1, 21))


def test_the_broker_keeps_tasks_for_later(
    brokers: list[Address], name: str, tmp_path: Path
) -> None:
    """They wait in the broker, not in the worker, and run when their time has come."""
    records = tmp_path / "records"
    setting = quorum(brokers[0].url, name, records)
    with (
        Worker(setting._replace(url=brokers[-1].url), "w", tmp_path, *ALONE) as worker,
        client(setting) as app,
    ):
        app.send_task("note", ("start",)).get(timeout=DONE_S)
        delays = (3, 1, 6, 2, 5)
        for delay in delays:
            app.send_task("note", (f"{delay}",), countdown=delay)
        app.send_task("note", ("an hour later",), countdown=3600)
        app.send_task("note", ("now",)).get(timeout=DONE_S)
        inspect = app.control.inspect([worker.hostname], timeout=DONE_S, limit=1)
        assert inspect.scheduled() == {worker.hostname: []}
        until("all have run", lambda: len(begun(records)) == 2 + len(delays), 25)
        started_s = begun(records)["start"].at_s
        for delay in delays:
            waited_s = begun(records)[f"{delay}"].at_s - started_s
            # Celery cuts the delay to whole seconds, and the worker waits out what is missing.
            assert delay - 1 < waited_s < delay + patient(3), (delay, waited_s)
        assert app.send_task("retries", ("retried", 2, 1)).get(timeout=DONE_S) == 2


def test_tasks_that_the_broker_keeps_outlive_its_node(tmp_path: Path) -> None:
    """The node that serves the queue in which they wait is killed, a link of the chain."""
    records = tmp_path / "records"
    with Cluster(tmp_path / "nodes") as three:
        setting = quorum(urls(three.addresses("a")), "work", records)
        others = quorum(urls(three.addresses("b")), "work", records)
        with Worker(others, "w", tmp_path, *ALONE), client(setting) as app:
            app.send_task("note", ("start",)).get(timeout=DONE_S)
            # Ten seconds are 0b1010: they wait in level 3, then in level 1.
            for number in range(10):
                app.send_task("note", (f"{number}",), countdown=10)
            three.wait_whole("celery_delayed_3")
            three.kill(three.primary_of("celery_delayed_3"))
            until("all have run", lambda: len(begun_at_least_once(records)) == 11, 30)
    started = begun_at_least_once(records)
    for number in range(10):
        assert started[f"{number}"].at_s - started["start"].at_s > 9
