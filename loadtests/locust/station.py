"""One worker's part of a run: its lives, its counts, its publishers' notes, in reports.

In: what its users do. Out: a report of plain values whenever it is asked for one. What sends of
publishers the master has is known here, so that each report has what is new.
"""

import time
from typing import Any

from fedq.bench.board import Board, Cell
from loadtests.locust.lives import Book
from loadtests.locust.options import Wishes
from loadtests.locust.sends import Sends
from loadtests.locust.tally import Tally


class Station:
    """What users of one process share."""

    def __init__(self, wishes: Wishes, source: str) -> None:
        self.wishes = wishes
        self.source = source
        self.book = Book()
        self.tally = Tally()
        self.board = Board(1)
        self.sends: dict[int, Sends] = {}
        self.started_s = time.monotonic()
        #: Subscribers on their way, by fleet.
        self.opening: dict[int, int] = {}
        self._told: dict[int, int] = {}
        self._numbers = 0
        #: Of fleets that are gone.
        self._free: list[range] = []

    def numbers(self) -> range:
        """The numbers of one more fleet's subscribers."""
        if self._free:
            return self._free.pop()
        first, self._numbers = self._numbers, self._numbers + self.wishes.sockets_per_user
        return range(first, self._numbers)

    def release(self, numbers: range) -> None:
        """Takes back the numbers of a fleet that is gone."""
        self._free.append(numbers)

    @property
    def run_s(self) -> float:
        """How long the run has been going on here."""
        return time.monotonic() - self.started_s

    @property
    def may_publish(self) -> bool:
        """Whether publishers still publish."""
        course = self.wishes.course
        return course is None or self.run_s < course.publish_until_s

    def report(self, now_ns: int) -> dict[str, Any]:
        """What the master has to hear now."""
        sends = []
        for publisher, sent in self.sends.items():
            known = self._told.get(publisher, 0)
            sends.append([publisher, sent.since(known)])
            self._told[publisher] = len(sent.sent_ns)
        return {
            "at_ns": now_ns,
            "live": self.book.live,
            "opening": sum(self.opening.values()),
            "published": self.board.total(Cell.PUBLISHED),
            "confirmed": self.board.total(Cell.CONFIRMED),
            "refused": self.board.total(Cell.REFUSED),
            "tables": self.book.tables().packed(),
            "sends": sends,
            **self.tally.report(),
        }
