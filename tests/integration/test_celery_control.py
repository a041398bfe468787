"""Remote control, gossip, mingle and events of workers that live on different nodes.

All of it runs over fanout and topic exchanges, exclusive and transient queues with `x-expires` and
`x-message-ttl`, and replies by name: across nodes it must feel like one broker.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.celery_app import Setting, read_events
from tests.integration.celery_worker import ALONE, DONE_S, Worker, client
from tests.integration.stock import Address
from tests.integration.waiting import patient, until

pytestmark = [
    pytest.mark.slow, pytest.mark.patience(120), pytest.mark.usefixtures("_forked_workers")
]  # fmt: skip

ANSWER_S = patient(10)


def test_remote_control(brokers: list[Address], name: str, tmp_path: Path) -> None:
    records, gate = tmp_path / "records", tmp_path / "gate"
    setting = Setting(brokers[0].url, name, str(records))
    there = setting._replace(url=brokers[-1].url)
    with (
        Worker(setting, "w1", tmp_path) as w1,
        Worker(there, "w2", tmp_path) as w2,
        client(setting) as app,
    ):
        both = {w1.hostname, w2.hostname}
        pongs = app.control.ping(timeout=ANSWER_S, limit=2)
        answers = {host: answer for pong in pongs for host, answer in pong.items()}
        assert answers == {host: {"ok": "pong"} for host in both}
        inspect = app.control.inspect(timeout=ANSWER_S, limit=2)
        assert set(inspect.stats()) == both
        assert all("add" in tasks for tasks in inspect.registered().values())
        assert [queues[0]["name"] for queues in inspect.active_queues().values()] == [name] * 2

        held = app.send_task("waits", ("long", str(gate)))
        until("the task has begun", lambda: read_events(records))
        active = {host: [task["id"] for task in tasks] for host, tasks in inspect.active().items()}
        assert sorted(active.values()) == [[], [held.id]]
        gate.touch()
        assert held.get(timeout=DONE_S) == "long"

        limited = app.control.rate_limit("note", "100/s", reply=True, timeout=ANSWER_S, limit=2)
        assert len(limited) == 2
        assert all("ok" in answer for one in limited for answer in one.values())
        app.control.pool_grow(2, destination=[w1.hostname], reply=True, timeout=ANSWER_S, limit=1)
        first = app.control.inspect([w1.hostname], timeout=ANSWER_S, limit=1)
        until(
            "the grown pool prefetches more",
            lambda: first.stats()[w1.hostname]["prefetch_count"] == 3,
        )
        app.control.cancel_consumer(name, [w1.hostname], reply=True, timeout=ANSWER_S, limit=1)
        until("w1 consumes nothing", lambda: first.active_queues() == {w1.hostname: []})
        app.send_task("note", ("elsewhere",)).get(timeout=DONE_S)
        assert read_events(records)[-1].worker.endswith(w2.hostname)
        app.control.add_consumer(
            name, destination=[w1.hostname], reply=True, timeout=ANSWER_S, limit=1
        )

        app.control.shutdown(destination=[w2.hostname])
        until("the worker ends as asked", lambda: not w2.is_running, 20)
        assert app.send_task("add", (1, 2)).get(timeout=DONE_S) == 3
        assert read_events(records)


def test_a_new_worker_learns_what_the_others_know(
    brokers: list[Address], name: str, tmp_path: Path
) -> None:
    """Mingle brings it the revoked tasks; gossip tells of workers that come and go."""
    records = tmp_path / "records"
    setting = Setting(brokers[0].url, name, str(records))
    there = setting._replace(url=brokers[-1].url)
    with (
        client(setting) as app,
        Worker(setting, "w1", tmp_path, "--loglevel=DEBUG") as w1,
        Worker(there, "w2", tmp_path) as w2,
    ):
        w1.wait_logged("w2@test joined the party")
        revoked = app.send_task("note", ("revoked",), countdown=3600)
        app.control.revoke(revoked.id, reply=True, timeout=ANSWER_S, limit=2)
        with Worker(there, "w3", tmp_path) as w3:
            w3.wait_logged("mingle: sync with 2 nodes")
            inspect = app.control.inspect([w3.hostname], timeout=ANSWER_S, limit=1)
            assert inspect.revoked() == {w3.hostname: [revoked.id]}
            w1.wait_logged("w3@test joined the party")
        w1.wait_logged("w3@test left")
        w2.kill()
        w1.wait_logged("missed heartbeat from w2@test", 40)


def test_events_of_workers_everywhere(brokers: list[Address], name: str, tmp_path: Path) -> None:
    """What `celery events` and Flower live on: a receiver on one node, workers on others."""
    setting = Setting(brokers[0].url, name, str(tmp_path / "records"))
    there = setting._replace(url=brokers[-1].url)
    seen: list[dict[str, Any]] = []
    with (
        client(setting._replace(url=brokers[len(brokers) // 2].url)) as watcher,
        client(setting._replace(more={"task_send_sent_event": True})) as app,
        Worker(setting, "w1", tmp_path, *ALONE, "-E"),
        Worker(there, "w2", tmp_path, *ALONE, "-E"),
        watcher.connection_for_read() as connection,
    ):
        receiver = watcher.events.Receiver(connection, handlers={"*": seen.append})
        with receiver.consumer_context() as (used, _, _):

            def has_seen(kind: str, count: int) -> bool:
                used.drain_events(timeout=ANSWER_S)
                return len([event for event in seen if event["type"] == kind]) >= count

            until("both workers beat", lambda: has_seen("worker-heartbeat", 2))
            results = [app.send_task("note", (f"{n}", 0.05)) for n in range(10)]
            until("all successes are heard", lambda: has_seen("task-succeeded", 10), 30)
            assert [result.get(timeout=DONE_S) for result in results] == [f"{n}" for n in range(10)]
    for kind in ("task-sent", "task-received", "task-started", "task-succeeded"):
        heard = [event["uuid"] for event in seen if event["type"] == kind]
        assert sorted(heard) == sorted(result.id for result in results), kind
    assert {event["hostname"] for event in seen if event["type"] == "task-succeeded"} == {
        "w1@test",
        "w2@test",
    }
