"""A stock Celery client: sends tasks one by one, in groups and in chords, and writes down each.

    python -m demo.celery_client RECORDS [--tasks N] [--rate N]

The place is in the environment (`demo.celery_app.Place`). A task counts as submitted when
`apply_async` has returned, which is when the broker has confirmed it. Ends when all are submitted.
"""

import argparse
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import kombu.exceptions
from celery import chord, group

from demo import records
from demo.celery_app import CHORD, HASTY, STEP, chord_body, hasty, step

#: Every so many turns there is a group, a chord, and every few turns a task with an early ack.
GROUP_EVERY, CHORD_EVERY, HASTY_EVERY = 45, 60, 6
TOGETHER = 10


class Submitter:
    """Sends and records."""

    def __init__(self, path: Path, rate: float) -> None:
        """`rate`: tasks a second at most."""
        self._recorder = records.Recorder(path)
        self._rate = rate
        self._started_s = time.monotonic()
        self.sent = 0

    def run(self, tasks: int) -> None:
        """Submits about so many tasks."""
        turn = 0
        while self.sent < tasks:
            turn += 1
            if turn % CHORD_EVERY == 0:
                self._chord(turn)
            elif turn % GROUP_EVERY == 0:
                numbers = self._numbers()
                steps = group(step.s(number) for number in numbers)
                self._submit(STEP, numbers, steps.apply_async)
            elif turn % HASTY_EVERY == 0:
                self._submit(HASTY, [turn], partial(hasty.delay, turn))
            else:
                number = self.sent + 1
                self._submit(STEP, [number], partial(step.delay, number))
        self._recorder.write(records.FINISHED, "all")
        self._recorder.close()

    def _numbers(self) -> list[int]:
        return list(range(self.sent + 1, self.sent + 1 + TOGETHER))

    def _chord(self, turn: int) -> None:
        numbers = self._numbers()
        whole = chord([step.s(number) for number in numbers], chord_body.s(turn, numbers))
        self._submit(STEP, numbers, whole.apply_async)
        self._recorder.write(records.CONFIRMED, CHORD, turn, 1)

    def _submit(self, name: str, numbers: list[int], send: Callable[[], Any]) -> None:
        """Sends until it works: Celery itself has gone round all brokers when it raises."""
        attempt = 1
        while True:
            for number in numbers:
                self._recorder.write(records.SENT, name, number, attempt)
            try:
                send()
                break
            except kombu.exceptions.OperationalError as error:
                self._recorder.write(records.LOST, str(error))
                attempt += 1
        for number in numbers:
            self._recorder.write(records.CONFIRMED, name, number, attempt)
        self._recorder.flush()
        self.sent += len(numbers)
        ahead_s = self._started_s + self.sent / self._rate - time.monotonic()
        if ahead_s > 0:
            threading.Event().wait(ahead_s)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("records", type=Path)
    parser.add_argument("--tasks", type=int, default=2500)
    parser.add_argument("--rate", type=float, default=200.0, help="tasks a second at most")
    options = parser.parse_args()
    Submitter(options.records, options.rate).run(options.tasks)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
