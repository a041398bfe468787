"""kill -9 of the node that a worker or a client uses: they go to the next one, nothing is lost.

Brokers are given as `amqp://a;amqp://b;amqp://c`, as Celery has it. With late acks every task
runs at least once; one that runs twice says so by its `redelivered` flag.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pika.exceptions  # type: ignore[import-untyped]
import pytest
from celery import Celery

from tests.integration.celery_app import Setting, read_events
from tests.integration.celery_worker import ALONE, DONE_S, Worker, client, urls
from tests.integration.harness import Cluster
from tests.integration.stock import connect
from tests.integration.waiting import until

pytestmark = [
    pytest.mark.slow, pytest.mark.patience(150), pytest.mark.usefixtures("_forked_workers")
]  # fmt: skip

QUEUE = "work"
TASKS = 60


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of the test's own."""
    with Cluster(tmp_path / "nodes") as cluster:
        yield cluster


def setting_for(cluster: Cluster, first: str, directory: Path) -> Setting:
    """Brokers in turn, beginning with the node `first`."""
    return Setting(urls(cluster.addresses(first)), QUEUE, str(directory / "records"))


def names_of(path: Path, what: str) -> dict[str, int]:
    """How often that happened in each task, by the tasks' names."""
    found: dict[str, int] = {}
    for event in read_events(path):
        if event.what == what:
            found[event.name] = found.get(event.name, 0) + 1
    return found


def wait_ended(path: Path, name: str) -> None:
    """Waits until the task of that name is done."""
    until(f"{name} is done", lambda: name in names_of(path, "end"), 20)


def check_once_or_marked(path: Path, app: Celery) -> None:
    """A task that ran again was marked as redelivered: all its runs but one.

    A message that the client published once more, since it had heard no confirm before its
    connection ended, is another one.
    """
    unmarked = {}
    for name, count in names_of(path, "begin").items():
        marks = [e.is_redelivered for e in read_events(path) if (e.name, e.what) == (name, "begin")]
        if count - 1 > sum(marks):
            unmarked[name] = count - 1 - sum(marks)
    assert sum(unmarked.values()) <= len(app.repeats), (unmarked, app.repeats)


def wait_empty(cluster: Cluster, node: str) -> None:
    """Nothing is left in the queue, ready or held back."""
    with_client = connect(cluster.nodes[node].amqp)
    channel = with_client.channel()
    until(
        "the queue is empty",
        lambda: channel.queue_declare(QUEUE, passive=True).method.message_count == 0,
    )
    with_client.close()


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_worker_goes_on_at_another_node(three: Cluster, tmp_path: Path, pool: str) -> None:
    """Its node is killed while it works; what it held is not lost, results find their client."""
    records = tmp_path / "records"
    with (
        client(setting_for(three, "c", tmp_path)) as app,
        Worker(
            setting_for(three, "a", tmp_path), "wa", tmp_path, *ALONE, concurrency=2, pool=pool
        ) as worker,
    ):
        results = [app.send_task("note", (f"{n}", 0.05)) for n in range(TASKS)]
        until("some have run", lambda: len(names_of(records, "end")) > 5)
        three.kill("a")
        assert [result.get(timeout=DONE_S) for result in results] == [f"{n}" for n in range(TASKS)]
        # The reconnected worker is a whole one: remote control reaches it, its prefetch is right.
        worker.wait_logged("Connected to", 20)
        inspect = app.control.inspect([worker.hostname], timeout=DONE_S, limit=1)
        until("it answers questions", inspect.stats, 30)
        wait_empty(three, "c")
    assert set(names_of(records, "end")) == {f"{n}" for n in range(TASKS)}
    check_once_or_marked(records, app)


def test_a_client_goes_on_at_another_node(three: Cluster, tmp_path: Path) -> None:
    """Its node is killed between sending and hearing the results."""
    records, gate = tmp_path / "records", tmp_path / "gate"
    with (
        Worker(setting_for(three, "b", tmp_path), "wb", tmp_path, *ALONE, concurrency=2),
        client(setting_for(three, "a", tmp_path)) as app,
    ):
        before = [app.send_task("waits", (f"{n}", str(gate))) for n in range(10)]
        until("the tasks run", lambda: names_of(records, "begin"))
        three.kill("a")
        after = [app.send_task("note", (f"{n}",)) for n in range(10, 20)]
        gate.touch()
        got = [result.get(timeout=DONE_S) for result in before + after]
        assert got == [f"{n}" for n in range(20)]
    check_once_or_marked(records, app)


def test_tasks_for_later_outlive_the_node(three: Cluster, tmp_path: Path) -> None:
    """A worker holds tasks with an ETA and loses its node; another worker is killed with its own.

    Each task runs when its time has come, and none before it.
    """
    records = tmp_path / "records"
    with client(setting_for(three, "c", tmp_path)) as app:
        lost = Worker(setting_for(three, "a", tmp_path), "lost", tmp_path, *ALONE)
        with lost, Worker(setting_for(three, "a", tmp_path), "wa", tmp_path, *ALONE):
            app.send_task("note", ("now",)).get(timeout=DONE_S)
            # Its result comes before its acknowledgement, and without that it would run again.
            until("it is acknowledged", lambda: three.ask("queue", "show", QUEUE)["messages"] == 0)
            results = [app.send_task("note", (f"{n}",), countdown=12) for n in range(8)]
            until(
                "they wait in the workers",
                lambda: all(result.id in worker_logs(tmp_path) for result in results),
            )
            three.kill("a")
            lost.kill()
            assert [result.get(timeout=DONE_S) for result in results] == [f"{n}" for n in range(8)]
    first, *later = [event for event in read_events(records) if event.what == "begin"]
    assert {event.name for event in later} == {f"{n}" for n in range(8)}
    assert min(event.at_s for event in later) - first.at_s > 11.5
    check_once_or_marked(records, app)


def worker_logs(directory: Path) -> str:
    """What all workers of the test wrote."""
    return "".join(path.read_text(errors="replace") for path in directory.glob("*.log"))


def test_results_wait_for_a_client_that_asks_later(three: Cluster, tmp_path: Path) -> None:
    """The node that serves the queue of results is killed before anybody consumes from it."""
    records = tmp_path / "records"
    with (
        Worker(setting_for(three, "b", tmp_path), "wb", tmp_path, *ALONE, concurrency=2),
        client(setting_for(three, "a", tmp_path)) as app,
    ):
        results = [app.send_task("note", (f"{n}",)) for n in range(20)]
        until("all have run", lambda: len(names_of(records, "end")) == 20)
        queue = app.thread_oid
        three.wait_whole(queue)
        primary = three.primary_of(queue)
        three.kill(primary)
        three.restart(primary)
        assert [result.get(timeout=DONE_S) for result in results] == [f"{n}" for n in range(20)]


def test_every_node_is_killed_in_turn(three: Cluster, tmp_path: Path) -> None:
    """Two workers, one client, each node once: as a rolling restart that nobody prepared."""
    records = tmp_path / "records"
    with (
        client(setting_for(three, "c", tmp_path)) as app,
        Worker(setting_for(three, "a", tmp_path), "wa", tmp_path, *ALONE, concurrency=2),
        Worker(setting_for(three, "b", tmp_path), "wb", tmp_path, *ALONE, concurrency=2),
    ):
        results = []
        for node in "abc":
            results += [app.send_task("note", (f"{node}{n}", 0.05)) for n in range(40)]
            wait_ended(records, f"{node}5")
            three.kill(node)
            results += [app.send_task("note", (f"{node}{n}", 0.02)) for n in range(40, 50)]
            three.restart(node)
            three.wait_whole(QUEUE)
        got = [result.get(timeout=DONE_S) for result in results]
        assert got == [f"{node}{n}" for node in "abc" for n in range(50)]
    assert set(names_of(records, "end")) == {f"{node}{n}" for node in "abc" for n in range(50)}
    check_once_or_marked(records, app)


@pytest.mark.parametrize("end", ["close", "kill"])
def test_the_name_of_an_exclusive_queue_is_free_again_elsewhere(three: Cluster, end: str) -> None:
    """A worker's mailbox has a fixed name and is exclusive: 405 would end the worker for good.

    Celery reconnects within milliseconds, so the name must be free when close-ok is there, and a
    declaration must wait until it is known whether a node that does not answer is dead.
    """
    for turn in range(10 if end == "close" else 3):
        first = three.leader() if end == "kill" else "abc"[turn % 3]
        second = next(name for name in "abc" if name != first)
        before, after = connect(three.nodes[first].amqp), connect(three.nodes[second].amqp)
        before.channel().queue_declare("mailbox", exclusive=True)
        if end == "kill":
            three.kill(first)
        else:
            before.close()
        after.channel().queue_declare("mailbox", exclusive=True)
        after.close()
        if end == "kill":
            with suppress(pika.exceptions.AMQPError):
                before.close()
            three.restart(first)
