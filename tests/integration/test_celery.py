"""Celery as it comes: workers on some nodes, clients on others, results over AMQP."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import celery.exceptions
import pytest
from celery import chain, chord, group

from tests.integration.celery_app import Event, Setting, read_events
from tests.integration.celery_worker import ALONE, DONE_S, Worker, client
from tests.integration.conftest import Connect
from tests.integration.harness import environment
from tests.integration.stock import Address
from tests.integration.waiting import patient, until

pytestmark = [
    pytest.mark.slow, pytest.mark.patience(90), pytest.mark.usefixtures("_forked_workers")
]  # fmt: skip


def events_of(path: Path, name: str) -> list[Event]:
    """What happened in the tasks of one name."""
    return [event for event in read_events(path) if event.name == name]


def test_tasks_and_results(brokers: list[Address], name: str, tmp_path: Path) -> None:
    """The worker on the last node, the client on the first; several queues are transient."""
    setting = Setting(brokers[0].url, name)
    with (
        Worker(setting._replace(url=brokers[-1].url), "w", tmp_path, concurrency=2),
        client(setting) as app,
    ):
        results = [app.send_task("add", (number, 1)) for number in range(20)]
        assert [result.get(timeout=DONE_S) for result in results] == list(range(1, 21))
        assert app.send_task("shout", ("grüße",)).get(timeout=DONE_S) == "GRÜSSE"
        # Of several frames each way.
        long = "long " * 300_000
        assert app.send_task("shout", (long,)).get(timeout=DONE_S) == long.upper()
        failed = app.send_task("fails", ("not today",))
        with pytest.raises(ValueError, match="not today"):
            failed.get(timeout=DONE_S)
        assert failed.state == "FAILURE"


@pytest.mark.parametrize("pool", ["solo", "threads"])
def test_a_transient_queue(brokers: list[Address], name: str, tmp_path: Path, pool: str) -> None:
    """`durable=False`, not exclusive: what RabbitMQ 4 refuses and many applications still use."""
    setting = Setting(brokers[0].url, name, durable=False)
    with (
        Worker(setting._replace(url=brokers[-1].url), "w", tmp_path, *ALONE, pool=pool),
        client(setting) as app,
    ):
        assert app.send_task("add", (1, 2)).get(timeout=DONE_S) == 3


def test_a_task_for_every_worker(brokers: list[Address], name: str, tmp_path: Path) -> None:
    """A Broadcast of kombu: a fanout exchange and a queue of its own for each worker."""
    records = tmp_path / "records"
    setting = Setting(brokers[0].url, name, str(records), broadcast=f"{name}.all")
    there = setting._replace(url=brokers[-1].url)
    with (
        Worker(setting, "w1", tmp_path, *ALONE),
        Worker(there, "w2", tmp_path, *ALONE),
        client(setting) as app,
    ):
        for number in range(5):
            app.send_task("note", (f"{number}",), queue=f"{name}.all")
        until("both have had all", lambda: len(read_events(records)) == 20, 20)
    heard = sorted(
        (event.name, event.worker.partition("@")[2])
        for event in read_events(records)
        if event.what == "end"
    )
    assert heard == [(f"{n}", f"{w}@test") for n in range(5) for w in ("w1", "w2")]


def test_the_command_line(nodes: dict[str, Address], name: str, tmp_path: Path) -> None:
    """`celery status`, `inspect` and `purge`, as an operator types them, at another node."""
    setting = Setting(nodes["a"].url, name)
    there = setting._replace(url=nodes["c"].url)

    def celery_says(*words: str) -> str:
        command = [sys.executable, "-m", "celery", "-A", "tests.integration.celery_app", *words]
        return subprocess.run(
            command, env=environment() | there.to_environment(), capture_output=True, text=True,
            timeout=patient(30), check=True,
        ).stdout  # fmt: skip

    with client(setting) as app:
        with Worker(setting, "w", tmp_path, *ALONE, is_fork=False):
            assert "w@test: OK" in celery_says("status")
            assert "w@test" in celery_says("inspect", "active_queues")
        for number in range(7):
            app.send_task("add", (number, 1))
        assert "Purged 7 messages from 1 known task queue." in celery_says("purge", "-f")


def test_clients_of_all_nodes_get_their_results(
    nodes: dict[str, Address], name: str, tmp_path: Path
) -> None:
    setting = Setting(nodes["a"].url, name)
    with Worker(setting, "w", tmp_path, *ALONE, concurrency=2):
        for first, address in enumerate(nodes.values()):
            with client(setting._replace(url=address.url)) as app:
                results = [app.send_task("add", (first, number)) for number in range(10)]
                got = [result.get(timeout=DONE_S) for result in results]
                assert got == list(range(first, first + 10))


def test_chains_and_groups_with_results_over_amqp(
    brokers: list[Address], name: str, tmp_path: Path
) -> None:
    setting = Setting(brokers[0].url, name)
    with (
        Worker(setting._replace(url=brokers[-1].url), "w", tmp_path, *ALONE, concurrency=2),
        client(setting) as app,
    ):
        add = app.signature("add")
        one_after_the_other = chain(add.clone((1, 2)), add.clone((3,)), add.clone((4,)), app=app)
        assert one_after_the_other.apply_async().get(timeout=DONE_S) == 10
        side_by_side = group([add.clone((n, n)) for n in range(10)], app=app).apply_async()
        assert side_by_side.get(timeout=DONE_S) == [2 * n for n in range(10)]


def test_chords_with_results_in_files(brokers: list[Address], name: str, tmp_path: Path) -> None:
    """`rpc://` has no chords, says Celery; the backend of files has, and needs no server.

    It unlocks a chord by a task that is retried with a countdown, so the workers hold tasks with
    an ETA all the while.
    """
    results = tmp_path / "results"
    results.mkdir()
    setting = Setting(brokers[0].url, name, backend=f"file://{results}")
    more = setting._replace(url=brokers[-1].url)
    with (
        Worker(setting, "w1", tmp_path, *ALONE, concurrency=2),
        Worker(more, "w2", tmp_path, *ALONE),
        client(setting) as app,
    ):
        add, total = app.signature("add"), app.signature("total")
        header = [add.clone((n, 1)) for n in range(20)]
        done = chord(header, total, app=app).apply_async()
        assert done.get(timeout=DONE_S) == sum(range(1, 21))
        fan_out = group([add.clone((n,)) for n in range(3)], app=app)
        nested = chain(add.clone((1, 1)), fan_out, total, app=app).apply_async()
        assert nested.get(timeout=DONE_S) == 2 + 3 + 4


def test_retries_rejections_and_lost_pool_processes(
    brokers: list[Address], name: str, tmp_path: Path
) -> None:
    records = tmp_path / "records"
    setting = Setting(brokers[0].url, name, str(records))
    with (
        Worker(setting._replace(url=brokers[-1].url), "w", tmp_path, *ALONE, concurrency=2),
        client(setting) as app,
    ):
        assert app.send_task("retries", ("retried", 3, 0.2)).get(timeout=DONE_S) == 3
        assert app.send_task("rejects", ("requeued", True)).get(timeout=DONE_S) == "requeued"
        assert app.send_task("dies", ("died",)).get(timeout=DONE_S) == "died"
        refused = app.send_task("rejects", ("refused", False))
        with pytest.raises(celery.exceptions.Reject):
            refused.get(timeout=DONE_S)
    retried = [event.what for event in events_of(records, "retried")]
    assert retried == ["try 0", "try 1", "try 2", "try 3"]
    for marked in ("requeued", "died"):
        assert [e.is_redelivered for e in events_of(records, marked)] == [False, True]
    assert len(events_of(records, "refused")) == 1


def test_a_rejected_task_goes_to_the_dead_letter_queue(
    brokers: list[Address], open_connection: Connect, name: str, tmp_path: Path
) -> None:
    channel = open_connection(brokers[0]).channel()
    channel.queue_declare(f"{name}.dead", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}.dead"}
    setting = Setting(brokers[0].url, name, str(tmp_path / "records"), arguments=arguments)
    with (
        Worker(setting._replace(url=brokers[-1].url), "w", tmp_path, *ALONE),
        client(setting) as app,
    ):
        rejected = app.send_task("rejects", ("unwanted", False))

        def dead() -> Any:
            _, properties, _ = channel.basic_get(f"{name}.dead", auto_ack=True)
            return properties

        properties = until("the task is a dead letter", dead, 20)
    assert properties.correlation_id == rejected.id
    [death] = properties.headers["x-death"]
    assert (death["queue"], death["reason"], death["count"]) == (name, "rejected", 1)
    assert death["routing-keys"] == [name]


def test_tasks_of_higher_priority_run_first(
    brokers: list[Address], name: str, tmp_path: Path
) -> None:
    records = tmp_path / "records"
    setting = Setting(
        brokers[0].url, name, str(records), arguments={"x-max-priority": 10},
        more={"task_queue_max_priority": 10, "task_default_priority": 5},
    )  # fmt: skip
    with client(setting) as app:
        # Sent while nobody works, so that all of them wait in the queue.
        with app.connection_for_write() as connection:
            app.amqp.queues[name].bind(connection.default_channel).declare()
        for number in range(12):
            app.send_task("note", (f"{number % 3}",), priority=number % 3 * 4)
        with Worker(setting._replace(url=brokers[-1].url), "w", tmp_path, *ALONE):
            until("all have run", lambda: len(read_events(records)) == 24, 20)
    order = [event.name for event in read_events(records) if event.what == "begin"]
    assert order == ["2"] * 4 + ["1"] * 4 + ["0"] * 4
