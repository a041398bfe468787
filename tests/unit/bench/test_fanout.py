"""Equal streams are compared, and whoever has another one is looked at alone."""

import select
import socket
from contextlib import ExitStack

import pytest

from fedq.amqp.methods import ConnectionClose, encode_method
from fedq.bench import fanout
from fedq.bench.board import Cell
from fedq.bench.clients import Measure
from fedq.bench.fanout import Stream, Subscriber
from fedq.bench.ledger import Members
from fedq.bench.opening import BrokerFailure
from tests.unit.bench.connected import connected, measure
from tests.unit.bench.streams import number_of, numbered


class Group:
    """Some subscribers of one stream, and the broker's ends of their connections."""

    def __init__(self, stack: ExitStack, count: int, producers: int = 1) -> None:
        self.measure: Measure = measure()
        self.stream = Stream(self.measure, Members(256), producers)
        self.subscribers: list[Subscriber] = []
        self._ends: list[socket.socket] = []
        for _ in range(count):
            subscriber, end = stack.enter_context(
                connected(lambda near: Subscriber(near, "subscriber", self.measure, self.stream))
            )
            self.subscribers.append(subscriber)
            self._ends.append(end)

    def end(self, index: int) -> socket.socket:
        """The broker's end."""
        return self._ends[index]

    def give(self, index: int, data: bytes, now_ns: int = 10**6) -> None:
        """A subscriber gets these bytes."""
        self._ends[index].sendall(data)
        self.subscribers[index].on_readable(now_ns)

    def results(self, totals: list[int]) -> list[tuple[int, int, int]]:
        """(lost, repeated, out of order) of each."""
        return [subscriber.result(totals) for subscriber in self.subscribers]

    @property
    def delivered(self) -> int:
        """Deliveries counted."""
        return self.measure.board.total(Cell.DELIVERED)


def test_equal_streams_in_any_pieces() -> None:
    data = numbered(range(20)) + numbered(range(20, 30), padding=3)
    with ExitStack() as stack:
        group = Group(stack, 3)
        group.give(0, data[:700])
        group.give(1, data[:10])
        group.give(1, data[10:])
        group.give(2, data)
        group.give(0, data[700:])
        assert group.results([30]) == [(0, 0, 0)] * 3
        assert group.delivered == 90
        assert group.measure.latencies.count == 90


def test_what_did_not_come_is_lost() -> None:
    with ExitStack() as stack:
        group = Group(stack, 2)
        group.give(0, numbered(range(9)))
        group.give(1, numbered(range(7)))
        assert group.results([9]) == [(0, 0, 0), (2, 0, 0)]


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        ([0, 1, 2, 4, 5, 6], (1, 0, 0)),
        ([0, 1, 2, 2, 3, 4, 5, 6], (0, 1, 0)),
        ([0, 1, 3, 2, 4, 5, 6], (0, 0, 1)),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_one_with_a_fault_is_found_whether_it_is_ahead_or_behind(
    numbers: list[int], verdict: tuple[int, int, int], is_first: bool
) -> None:
    good, bad = numbered(range(7)), numbered(numbers)
    with ExitStack() as stack:
        group = Group(stack, 3)
        group.give(0, good[:400])
        order = [1, 0, 2] if is_first else [0, 2, 1]
        for index in order:
            data = bad if index == 1 else good[400 if index == 0 else 0 :]
            group.give(index, data[:250])
            group.give(index, data[250:])
        assert group.results([7]) == [(0, 0, 0), verdict, (0, 0, 0)]
        assert group.delivered == 14 + len(numbers)


def test_several_producers_in_the_same_order() -> None:
    numbers = [number_of(0, 1), number_of(0, 0), number_of(1, 1), number_of(2, 1), number_of(1, 0)]
    with ExitStack() as stack:
        group = Group(stack, 2, producers=2)
        group.give(0, numbered(numbers))
        group.give(1, numbered(numbers[:2]))
        group.give(1, numbered([number_of(1, 0), *numbers[2:4]]))
        assert group.results([2, 3]) == [(0, 0, 0), (0, 0, 0)]
        assert group.results([3, 3]) == [(1, 0, 0), (1, 0, 0)]


@pytest.mark.parametrize("odd", [[0, 1, 3, 4], [0, 1, 2, 2]])
def test_many_are_read_together(odd: list[int]) -> None:
    moments = iter(range(1_000_000, 2_000_000, 1_000))
    with ExitStack() as stack:
        group = Group(stack, 9)
        for first, last in ((0, 2), (2, 4)):
            for each in range(9):
                data = numbered(odd[first:last] if each == 4 else range(first, last))
                group.end(each).sendall(data)
            polled = [(each.socket.fileno(), select.EPOLLIN) for each in group.subscribers]
            stranger = (999, select.EPOLLIN)
            left = group.stream.read([stranger, *polled], lambda: next(moments))
            for descriptor, _ in left[1:]:
                next(
                    each for each in group.subscribers if each.socket.fileno() == descriptor
                ).on_readable(next(moments))
            assert left[0] == stranger
        lost = int(2 not in odd)
        assert group.results([4 if not lost else 5])[4] == ((1, 0, 0) if lost else (1, 1, 0))
        assert group.delivered == 36
        assert group.measure.latencies.count == 36
        assert group.results([4])[:4] == [(0, 0, 0)] * 4


def test_the_end_is_left_to_others() -> None:
    with ExitStack() as stack:
        group = Group(stack, 2)
        group.end(0).close()
        group.end(1).sendall(numbered([0]))
        polled = [(each.socket.fileno(), select.EPOLLIN) for each in group.subscribers]
        assert group.stream.read(polled, lambda: 5) == polled[:1]
        assert group.delivered == 1


def test_when_the_last_one_had_it() -> None:
    with ExitStack() as stack:
        group = Group(stack, 3)
        for index, now_ns in ((0, 5_000), (2, 7_000), (1, 9_000)):
            group.give(index, numbered([0]), now_ns)
        group.give(2, numbered([1]), 11_000)
        assert group.stream.last_seen == {0: (0, 9_000)}


def test_a_refusal_is_told() -> None:
    with ExitStack() as stack:
        group = Group(stack, 2)
        group.give(0, numbered(range(3)))
        close = encode_method(0, ConnectionClose(541, "INTERNAL_ERROR"))
        with pytest.raises(BrokerFailure, match="541 INTERNAL_ERROR"):
            group.give(1, numbered([0]) + close)


def test_a_connection_that_ends_is_told() -> None:
    with ExitStack() as stack:
        group = Group(stack, 1)
        group.end(0).close()
        with pytest.raises(BrokerFailure, match="hung up"):
            group.subscribers[0].on_readable(0)


def test_a_slow_one_is_not_kept_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fanout, "KEPT_BYTES_MAX", 2_000)
    data = numbered(range(100))
    size = len(data) // 100
    with ExitStack() as stack:
        group = Group(stack, 3)
        group.give(1, data[: size + 5])
        for at in range(0, len(data), 3 * size):
            group.give(0, data[at : at + 3 * size])
            group.give(2, data[at : at + 3 * size])
        group.give(1, data[size + 5 :])
        assert group.results([100]) == [(0, 0, 0)] * 3
        assert group.delivered == 300
