"""A fleet opens, hears, comes back and goes, and its book says what each subscriber got."""

import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from fedq.amqp import methods as m
from loadtests.locust.fleet import PAUSE_NS_MAX, Fleet, FleetPlan
from loadtests.locust.lives import Book
from loadtests.locust.tally import Tally
from tests.unit.loadtests.fake_broker import FakeBroker

WAIT_S = 10.0


class Scene:
    """A fleet, its broker, and a clock that the test sets."""

    def __init__(self, broker: FakeBroker, plan: FleetPlan, count: int) -> None:
        self.broker = broker
        self.book = Book()
        self.tally = Tally()
        self.now_ns = 1_000_000_000
        self.fleet = Fleet(
            plan, range(count), self.book, self.tally, lambda: self.now_ns, select.epoll,
            socket.socket,
        )  # fmt: skip

    def until(self, condition: Callable[[], bool]) -> None:
        """Lets both go on until it holds."""
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < deadline, "it did not come to that"
            self.fleet.turn()
            self.broker.turn()

    def due(self) -> list[int]:
        """The next sequence of each life that goes on, and of those that ended."""
        tails = self.book.tables().tails
        return sorted(row[1] for row, count in tails.items() for _ in range(count))


@contextmanager
def scene(count: int = 3, slow: int = 0, refuses: m.Method | None = None) -> Iterator[Scene]:
    broker = FakeBroker(refuses)
    plan = FleetPlan((broker.target,), "fedq-load", 1, slow_per_100_000=slow, slow_pause_s=1.0)
    made = Scene(broker, plan, count)
    try:
        yield made
    finally:
        made.fleet.close()
        broker.close()


def test_all_subscribe_and_hear_the_same() -> None:
    with scene() as it:
        it.until(lambda: it.fleet.live == 3)
        assert it.fleet.opening == 0
        for session in it.broker.subscribed:
            it.broker.send(session, 0, 1, 2)
        it.until(lambda: it.tally.deliveries == 9)
        assert it.due() == [3, 3, 3]
        assert it.book.tables().sums["repeats"] == 0


def test_equal_bytes_in_the_middle_of_a_delivery_are_not_taken_for_whole_ones() -> None:
    with scene(1) as it:
        it.until(lambda: it.fleet.live == 1)
        (session,) = it.broker.subscribed
        it.broker.send(session, 0)
        it.until(lambda: it.tally.deliveries == 1)
        it.broker.send(session, 0)
        it.until(lambda: it.tally.deliveries == 2)
        assert it.book.tables().sums["repeats"] == 1


def test_who_loses_its_connection_comes_back_and_begins_another_life() -> None:
    with scene(2) as it:
        it.until(lambda: it.fleet.live == 2)
        it.broker.drop(it.broker.subscribed[0])
        it.until(lambda: it.fleet.live == 1)
        assert it.fleet.opening == 1
        assert it.book.tables().sums["lives broken"] == 1
        it.now_ns += PAUSE_NS_MAX
        it.until(lambda: it.fleet.live == 2)
        assert it.book.tables().sums["lives live"] == 2


def test_renewing_closes_as_many_as_were_asked_for_and_opens_them_at_once() -> None:
    with scene(3) as it:
        it.until(lambda: it.fleet.live == 3)
        it.fleet.renew(2)
        assert it.fleet.live == 1
        it.until(lambda: it.fleet.live == 3)
        sums = it.book.tables().sums
        assert (sums["lives closed"], sums["lives live"]) == (2, 3)


def test_a_refusal_is_told_and_tried_again_later() -> None:
    with scene(1, refuses=m.ChannelClose(406, "no such argument", 50, 10)) as it:
        it.until(lambda: it.tally.failures.total() == 1)
        assert "no such argument" in next(iter(it.tally.failures))
        assert (it.fleet.live, it.fleet.opening) == (0, 1)


def test_a_broken_stream_ends_that_subscriber_alone() -> None:
    with scene(2) as it:
        it.until(lambda: it.fleet.live == 2)
        it.broker.subscribed[0].socket.sendall(b"this is no frame, whatever it may be")
        it.until(lambda: it.fleet.live == 1)
        assert it.book.tables().sums["lives broken"] == 1


def test_slow_ones_are_read_now_and_then_and_stand_apart() -> None:
    with scene(2, slow=100_000) as it:
        it.until(lambda: it.fleet.live == 2)
        for session in it.broker.subscribed:
            it.broker.send(session, 0, 4)
        for _ in range(5):
            it.fleet.turn()
        assert it.book.tables().sums["slow missed"] == 0
        it.now_ns += 2_000_000_000
        it.until(lambda: it.book.tables().sums["slow missed"] == 6)
        assert it.tally.deliveries == 0


@pytest.mark.parametrize("share", [0, 1_000, 50_000, 100_000])
def test_the_share_of_slow_ones_is_as_asked_for(share: int) -> None:
    plan = replace(FleetPlan((), "", 1), slow_per_100_000=share)
    assert sum(plan.is_slow(number) for number in range(1_000)) == share // 100


def test_nothing_is_left_open_in_the_end() -> None:
    with scene(3) as it:
        it.until(lambda: it.fleet.live == 3)
        it.fleet.close()
        assert it.book.live == 0
        assert it.book.tables().sums["lives closed"] == 3
        deadline = time.monotonic() + WAIT_S
        while it.broker.sessions:
            assert time.monotonic() < deadline
            it.broker.turn()
