"""How many tasks a worker holds: prefetch that changes live, tasks with an ETA, long tasks.

A worker that holds a task with an ETA raises its prefetch count by one (`basic.qos`, global, on
the channel that consumes already), else such tasks would fill its window and block it.
"""

from pathlib import Path

import pytest

from tests.integration.celery_app import Event, Setting, read_events
from tests.integration.celery_worker import ALONE, DONE_S, Worker, client
from tests.integration.conftest import Connect
from tests.integration.stock import Address
from tests.integration.waiting import until

pytestmark = [
    pytest.mark.slow, pytest.mark.patience(120), pytest.mark.usefixtures("_forked_workers")
]  # fmt: skip

AN_HOUR_S = 3600


def ended(path: Path) -> list[str]:
    """The names of the tasks that are done, in order."""
    return [event.name for event in read_events(path) if event.what == "end"]


def begun(path: Path) -> list[Event]:
    """The tasks that have begun, in order."""
    return [event for event in read_events(path) if event.what == "begin"]


def test_tasks_for_later_do_not_block_a_worker(
    brokers: list[Address], open_connection: Connect, name: str, tmp_path: Path
) -> None:
    records = tmp_path / "records"
    setting = Setting(brokers[0].url, name, str(records))
    with client(setting) as app:
        with Worker(setting._replace(url=brokers[-1].url), "w", tmp_path, *ALONE) as worker:
            for number in range(5):
                app.send_task("note", (f"later {number}",), countdown=AN_HOUR_S)
            for number in range(5):
                app.send_task("note", (f"now {number}",))
            until("tasks for now are done", lambda: len(ended(records)) == 5, 20)
            inspect = app.control.inspect([worker.hostname], timeout=DONE_S, limit=1)
            assert inspect.stats()[worker.hostname]["prefetch_count"] == 1 + 5
            scheduled = inspect.scheduled()[worker.hostname]
            names = sorted(entry["request"]["args"][0] for entry in scheduled)
            assert names == [f"later {number}" for number in range(5)]
        assert ended(records) == [f"now {number}" for number in range(5)]
    # Nothing is lost with the worker that held them.
    channel = open_connection(brokers[0]).channel()
    until(
        "what the worker held is back",
        lambda: channel.queue_declare(name, passive=True).method.message_count == 5,
    )


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_task_with_an_eta_outlives_its_worker(
    brokers: list[Address], name: str, tmp_path: Path, end: str
) -> None:
    """Restarted, or killed and restarted: the task runs once, when its time has come."""
    records = tmp_path / "records"
    setting = Setting(brokers[0].url, name, str(records))
    worker = Worker(setting._replace(url=brokers[-1].url), "w", tmp_path, *ALONE)
    with client(setting) as app, worker:
        app.send_task("note", ("first",))
        until("the worker works", lambda: ended(records) == ["first"])
        later = app.send_task("note", ("later",), countdown=8)
        worker.wait_logged(f"{later.id}] received")
        if end == "stop":
            worker.stop()
        else:
            worker.kill()
        assert ended(records) == ["first"]
        worker.start()
        until("the task has run", lambda: ended(records) == ["first", "later"], 20)
        early, late = begun(records)
        assert late.is_redelivered
        assert not early.is_redelivered
        assert late.at_s - early.at_s > 7.5


def test_a_long_task_keeps_nobody_waiting(
    brokers: list[Address], name: str, tmp_path: Path
) -> None:
    """Prefetch 1 and late acks: who works holds one task, and the others get all the rest.

    The long task is not taken away from its worker either: there is no ack timeout.
    """
    records, gate = tmp_path / "records", tmp_path / "gate"
    setting = Setting(brokers[0].url, name, str(records))
    there = setting._replace(url=brokers[-1].url)
    with (
        client(setting) as app,
        Worker(setting, "w1", tmp_path, *ALONE),
        Worker(there, "w2", tmp_path, *ALONE),
    ):
        app.send_task("waits", ("long", str(gate)))
        until("the long task has begun", lambda: begun(records))
        for number in range(20):
            app.send_task("note", (f"{number}", 0.02))
        until("the short tasks are done", lambda: len(ended(records)) == 20, 20)
        [busy] = {event.worker for event in begun(records) if event.name == "long"}
        assert {event.worker for event in begun(records) if event.name != "long"} - {busy}
        assert busy not in {event.worker for event in begun(records) if event.name != "long"}
        gate.touch()
        until("the long task is done", lambda: "long" in ended(records))
    assert len(begun(records)) == 21


def test_one_window_for_all_queues_of_a_worker(
    brokers: list[Address], open_connection: Connect, name: str, tmp_path: Path
) -> None:
    """Global prefetch 1, two queues: a worker that has a task of one takes none of the other."""
    records, gate = tmp_path / "records", tmp_path / "gate"
    setting = Setting(brokers[0].url, name, str(records))
    queues = (name, f"{name}.second")
    with (
        client(setting) as app,
        Worker(setting._replace(url=brokers[-1].url), "w", tmp_path, *ALONE) as worker,
    ):
        one = {"destination": [worker.hostname], "reply": True, "timeout": 10, "limit": 1}
        app.control.add_consumer(queues[1], **one)
        worker.wait_logged(f"Started consuming from {queues[1]}")
        for number in range(6):
            app.send_task("waits", (f"{number}", str(gate)), queue=queues[number % 2])
        until("one of them runs", lambda: begun(records))
        channel = open_connection(brokers[0]).channel()

        def waiting() -> int:
            answers = [channel.queue_declare(queue, passive=True) for queue in queues]
            return sum(answer.method.message_count for answer in answers)

        until("the others wait in their queues", lambda: waiting() == 5)
        gate.touch()
        until("all are done", lambda: len(ended(records)) == 6)
    assert len(begun(records)) == 6


def test_long_tasks_spread_over_the_workers_of_all_nodes(
    nodes: dict[str, Address], name: str, tmp_path: Path
) -> None:
    """Three workers on three nodes, three long tasks from one client: one each."""
    records, gate = tmp_path / "records", tmp_path / "gate"
    setting = Setting(nodes["a"].url, name, str(records))
    with (
        client(setting) as app,
        Worker(setting, "wa", tmp_path, *ALONE),
        Worker(setting._replace(url=nodes["b"].url), "wb", tmp_path, *ALONE),
        Worker(setting._replace(url=nodes["c"].url), "wc", tmp_path, *ALONE),
    ):
        for number in range(3):
            app.send_task("waits", (f"long {number}", str(gate)))
        until("all of them run at once", lambda: len(begun(records)) == 3, 20)
        gate.touch()
        assert len({event.worker for event in begun(records)}) == 3
        until("all of them are done", lambda: len(ended(records)) == 3)
        for number in range(60):
            app.send_task("note", (f"{number}", 0.05))
        until("the short tasks are done", lambda: len(ended(records)) == 63, 30)
    share: dict[str, int] = {}
    for event in begun(records):
        share[event.worker] = share.get(event.worker, 0) + 1
    # A fair third would be 21; a worker that starved or hoarded would be far from it.
    assert len(share) == 3
    assert min(share.values()) >= 12
