"""A stranger's Celery application, run by the test_celery modules as worker and client.

A worker process takes everything from its environment (`Setting.from_environment`); a test makes
the same `Setting` for its client. Tasks that tell what happened to them append one line each to
the file of the setting's `records`; the line is the evidence of the tests, not Celery's word.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from celery import Celery, Task
from celery.exceptions import Reject
from kombu.common import Broadcast
from kombu.entity import Exchange, Queue

VARIABLE = "FEDQ_TEST_CELERY"


class Setting(NamedTuple):
    """What a worker and its clients must agree on, and what differs between tests."""

    #: Brokers in the order in which they are tried; joined by ";" as Celery wants it.
    url: str = "amqp://"
    #: The default queue; also names the exchanges of remote control and events.
    queue: str = "celery"
    records: str = ""
    backend: str = "rpc://"
    #: `queue_arguments` of the default queue.
    arguments: dict[str, Any] = {}  # noqa: RUF012 (never changed)
    exchange_type: str = "direct"
    durable: bool = True
    #: A queue of which every worker gets every task, by the name of its fanout exchange.
    broadcast: str = ""
    #: More of Celery's settings, by name.
    more: dict[str, Any] = {}  # noqa: RUF012 (never changed)

    @classmethod
    def from_environment(cls) -> Self:
        """The setting that a worker's parent process chose."""
        return cls(**json.loads(os.environ.get(VARIABLE, "{}")))

    def to_environment(self) -> dict[str, str]:
        """The variable that makes a child process use this setting."""
        return {VARIABLE: json.dumps(self._asdict())}


class Event(NamedTuple):
    """One line of a record file: something that happened in a task, where and when."""

    at_s: float
    #: The task's own name for itself, chosen by the test.
    name: str
    what: str
    #: `pid@hostname` of the worker.
    worker: str
    is_redelivered: bool


def make_app(setting: Setting) -> Celery:
    """An application with its own connections, as each process of its users has one."""
    made = Celery("strangers", broker=setting.url, backend=setting.backend, set_as_current=False)
    exchange = Exchange(  # type: ignore[no-untyped-call]
        setting.queue, type=setting.exchange_type, durable=setting.durable
    )
    queue = Queue(  # type: ignore[no-untyped-call]
        setting.queue, exchange, setting.queue, durable=setting.durable,
        queue_arguments=setting.arguments or None,
    )  # fmt: skip
    broadcasts = []
    if setting.broadcast:
        broadcasts.append(Broadcast(setting.broadcast))  # type: ignore[no-untyped-call]
    made.conf.update(
        task_queues=[queue, *broadcasts],
        task_default_queue=setting.queue,
        task_default_exchange=setting.queue,
        task_default_routing_key=setting.queue,
        task_default_delivery_mode="persistent" if setting.durable else "transient",
        control_exchange=setting.queue,
        event_exchange=f"{setting.queue}.events",
        broker_connection_retry_on_startup=True,
        broker_transport_options={"confirm_publish": True},
        task_acks_late=True,
        worker_prefetch_multiplier=1,
        # Celery restores the reduced count from a pool thread, on the connection that its main
        # thread reads: with pool "threads" either may take the other's answer and hang.
        worker_enable_prefetch_count_reduction=False,
        result_chord_retry_interval=0.2,
    )
    made.conf.update(setting.more)
    return made


def read_events(path: Path) -> list[Event]:
    """Everything written so far, in the order in which it was written."""
    if not path.exists():
        return []
    whole, _, _ = path.read_text().rpartition("\n")
    return [Event(*json.loads(line)) for line in whole.splitlines()]


setting = Setting.from_environment()
#: What the worker process runs.
app = make_app(setting)


def write_event(task: Task, name: str, what: str) -> None:
    """Appends a line; one write, so lines of several processes do not mix."""
    request = task.request
    redelivered = bool((request.delivery_info or {}).get("redelivered"))
    event = Event(time.monotonic(), name, what, f"{os.getpid()}@{request.hostname}", redelivered)
    file = os.open(setting.records, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, (json.dumps(event) + "\n").encode())
    finally:
        os.close(file)


@app.task(name="add")  # type: ignore[untyped-decorator]
def add(left: int, right: int) -> int:
    """The usual first task."""
    return left + right


@app.task(name="total")  # type: ignore[untyped-decorator]
def total(numbers: Sequence[int]) -> int:
    """The usual body of a chord."""
    return sum(numbers)


@app.task(name="shout")  # type: ignore[untyped-decorator]
def shout(text: str) -> str:
    """A task on text that is not ASCII."""
    return text.upper()


@app.task(name="fails")  # type: ignore[untyped-decorator]
def fails(text: str) -> None:
    """A task that ends with an exception."""
    raise ValueError(text)


@app.task(name="note", bind=True)  # type: ignore[untyped-decorator]
def note(self: Task, name: str, seconds: float = 0.0) -> str:
    """Works for a while; tells when it began and when it ended."""
    write_event(self, name, "begin")
    if seconds:
        # The worker under test works; nobody waits for this instead of for a condition.
        threading.Event().wait(seconds)
    write_event(self, name, "end")
    return name


@app.task(name="waits", bind=True)  # type: ignore[untyped-decorator]
def waits(self: Task, name: str, gate: str) -> str:
    """Works until the file `gate` is there: as long as a test wants."""
    write_event(self, name, "begin")
    while not Path(gate).exists():
        threading.Event().wait(0.02)
    write_event(self, name, "end")
    return name


@app.task(name="retries", bind=True)  # type: ignore[untyped-decorator]
def retries(self: Task, name: str, times: int, seconds: float) -> int:
    """Fails so many times, and asks to be tried again `seconds` later each time."""
    write_event(self, name, f"try {self.request.retries}")
    if self.request.retries < times:
        raise self.retry(countdown=seconds, max_retries=times)
    return int(self.request.retries)


@app.task(name="rejects", bind=True)  # type: ignore[untyped-decorator]
def rejects(self: Task, name: str, requeue: bool) -> str:
    """Rejects its message: for ever, or until it comes back marked as redelivered."""
    write_event(self, name, "begin")
    if not requeue or not self.request.delivery_info.get("redelivered"):
        raise Reject(f"{name} is not wanted", requeue=requeue)
    return name


@app.task(name="dies", bind=True, reject_on_worker_lost=True)  # type: ignore[untyped-decorator]
def dies(self: Task, name: str) -> str:
    """Kills the pool process that runs it, unless its message comes for a second time."""
    write_event(self, name, "begin")
    if not self.request.delivery_info.get("redelivered"):
        os.kill(os.getpid(), signal.SIGKILL)
    return name
