"""The Celery application of the demo: what a user would write, with nothing in it for fedq.

In: `Place` from the environment. Out: each task that was executed is one record, written by the
process that ran it, in a file of its own. Results and the state of chords are files, too: `rpc://`
has no chords, and this backend needs no other server.
"""

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

from celery import Celery, Task
from kombu.entity import Queue

from demo import records

VARIABLE = "FEDQ_DEMO_CELERY"
LATE, EARLY = "demo.late", "demo.early"
#: Names of records: a step of a task or chord, a task that is acknowledged early, a chord's body.
STEP, HASTY, CHORD = "step", "hasty", "chord"
#: A chord's body that did not get the results of its header.
WRONG = "wrong"
WORK_S = 0.01


class Place(NamedTuple):
    """Where a process works."""

    #: Brokers in the order in which they are tried, `amqp://…;amqp://…`.
    brokers: str = "amqp://"
    directory: str = "."

    @classmethod
    def from_environment(cls) -> Self:
        """What the demo chose for this process."""
        return cls(*json.loads(os.environ.get(VARIABLE, "[]")))

    def to_environment(self) -> dict[str, str]:
        """The variable that makes a child process use this place."""
        return {VARIABLE: json.dumps(self)}


def records_of(place: Place) -> Path:
    """The directory of the record files."""
    return Path(place.directory) / "records"


def results_of(place: Place) -> Path:
    """The directory of the results."""
    return Path(place.directory) / "results"


place = Place.from_environment()
app = Celery("demo", broker=place.brokers, backend=f"file://{results_of(place)}")
app.conf.update(
    task_queues=[Queue(LATE), Queue(EARLY)],  # type: ignore[no-untyped-call]
    task_default_queue=LATE,
    task_routes={HASTY: {"queue": EARLY}},
    # A task is sent when the broker has confirmed it, not when it has been written to a socket.
    broker_transport_options={"confirm_publish": True},
    # The next broker is tried at once, then again and again; the default gives up after 0.6 s.
    task_publish_retry_policy={"max_retries": 50, "interval_start": 0, "interval_max": 0.5},
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    worker_prefetch_multiplier=4,
    task_reject_on_worker_lost=True,
    result_chord_retry_interval=0.3,
)


class Notes:
    """The record file of this process; made after the pool has forked."""

    def __init__(self) -> None:
        self._recorder: records.Recorder | None = None
        self._pid = 0

    def write(self, task: Task, kind: str, name: str, number: int) -> None:
        """One record, on the file before the task can be acknowledged."""
        if self._recorder is None or self._pid != os.getpid():
            self._pid = os.getpid()
            host = str(task.request.hostname).partition("@")[0]
            self._recorder = records.Recorder(records_of(place) / f"{host}-{self._pid}.txt")
        marked = bool((task.request.delivery_info or {}).get("redelivered"))
        self._recorder.write(kind, name, number, 1, marked)
        self._recorder.flush()


notes = Notes()


@app.task(name=STEP, bind=True, acks_late=True)  # type: ignore[untyped-decorator]
def step(self: Task, number: int) -> int:
    """Some work; acknowledged when it is done."""
    threading.Event().wait(WORK_S)
    notes.write(self, records.DELIVERED, STEP, number)
    return number


@app.task(name=HASTY, bind=True, ignore_result=True)  # type: ignore[untyped-decorator]
def hasty(self: Task, number: int) -> None:
    """Work that is acknowledged before it is done, as Celery does unless told otherwise."""
    notes.write(self, records.DELIVERED, HASTY, number)


@app.task(name=CHORD, bind=True, acks_late=True)  # type: ignore[untyped-decorator]
def chord_body(self: Task, numbers: Sequence[int], chord: int, expected: Sequence[int]) -> int:
    """What comes after a chord's header: checks that the results of all its steps are here."""
    kind = records.DELIVERED if list(numbers) == list(expected) else WRONG
    notes.write(self, kind, CHORD, chord)
    return chord
