"""Publishers note what they send, and what nobody confirmed before their broker was gone."""

import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fedq.bench.board import Board, Cell
from loadtests.locust.publishing import Publishers, PublishPlan
from loadtests.locust.sends import Sends
from loadtests.locust.tally import Tally
from tests.unit.loadtests.fake_broker import FakeBroker

SECOND = 1_000_000_000


class Scene:
    """One publisher of two messages a second, a broker that never confirms, and a set clock."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.now_ns = SECOND
        self.board = Board(1)
        self.sends: dict[int, Sends] = {}
        plan = PublishPlan((broker.target,), "fedq-load", 1, rate=2.0, body_bytes=16)
        self.publishers = Publishers(
            plan, self.sends, self.board, Tally(), lambda: self.now_ns, select.epoll, socket.socket
        )

    def until(self, condition: Callable[[], bool], may_publish: bool = True) -> None:
        """Lets both go on until it holds."""
        deadline = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < deadline, "it did not come to that"
            self.publishers.turn(may_publish)
            self.broker.turn()

    @property
    def sent(self) -> int:
        """How many messages have been sent."""
        return len(self.sends[0].sent_ns)


@contextmanager
def scene() -> Iterator[Scene]:
    broker = FakeBroker()
    made = Scene(broker)
    try:
        yield made
    finally:
        made.publishers.close()
        broker.close()


def test_messages_are_sent_when_they_are_due_and_noted() -> None:
    with scene() as it:
        it.until(lambda: it.sent == 1)
        it.now_ns += SECOND
        it.until(lambda: it.sent == 3)
        assert it.board.total(Cell.PUBLISHED) == 3
        assert it.sends[0].sent_ns[0] == SECOND


def test_nothing_is_sent_once_the_time_of_publishing_is_over() -> None:
    with scene() as it:
        it.until(lambda: it.sent == 1)
        it.now_ns += 9 * SECOND
        for _ in range(5):
            it.publishers.turn(may_publish=False)
        assert it.sent == 1


def test_who_comes_back_goes_on_counting_and_says_what_is_unsettled() -> None:
    with scene() as it:
        it.until(lambda: it.sent == 1)
        it.now_ns += SECOND
        it.until(lambda: it.sent == 3)
        it.broker.drop(it.broker.sessions[0])
        it.until(lambda: it.sends[0].unsettled == [(0, 3)])
        it.now_ns += SECOND
        it.until(lambda: it.sent == 4)
        assert it.sends[0].settled_in(0, 9) == 1
        assert it.sends[0].settled_in(0, 3) == 0
        it.publishers.close()
        assert it.sends[0].unsettled == [(0, 3), (3, 4)]
