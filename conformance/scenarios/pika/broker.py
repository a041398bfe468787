"""The broker under test, and what every scenario of pika's documentation needs.

Input: `CONFORMANCE_HOST` and `CONFORMANCE_PORT`. Invariant: every scenario has names of its own,
so that scenarios neither meet each other nor what an earlier run left behind.
"""

import os
import uuid
from collections.abc import Callable
from typing import Any

import pika  # type: ignore[import-untyped]

HOST = os.environ["CONFORMANCE_HOST"]
PORT = int(os.environ["CONFORMANCE_PORT"])
URL = f"amqp://guest:guest@{HOST}:{PORT}/%2F"
#: What a scenario waits for at most, in seconds.
PATIENCE_S = 15.0

#: pika has no types.
Blocking = Any
Channel = Any


def parameters(**more: object) -> Any:
    """Where the broker is; `more` is pika's."""
    return pika.ConnectionParameters(host=HOST, port=PORT, **more)


def connect(**more: object) -> Blocking:
    """An open blocking connection."""
    return pika.BlockingConnection(parameters(**more))


def fresh(stem: str) -> str:
    """A name nobody has used."""
    return f"pika.{stem}.{uuid.uuid4().hex}"


def pump(connection: Blocking, done: Callable[[], object]) -> None:
    """Lets a blocking connection work until `done`; fails after `PATIENCE_S`."""
    late: list[bool] = []
    timer = connection.call_later(PATIENCE_S, lambda: late.append(True))
    while not done():
        assert not late, "what the scenario waits for did not happen"
        connection.process_data_events(time_limit=0.2)
    connection.remove_timeout(timer)
