"""Producers keep to window, pace and what may be owed; consumers acknowledge what they got."""

import socket
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.amqp.deliveries import ack_frame, nack_frame
from fedq.amqp.methods import ChannelClose, encode_method
from fedq.bench.blocks import AckRun, Block, Shape
from fedq.bench.board import Cell
from fedq.bench.clients import Consumer, Measure, Producer, Subscribers
from fedq.bench.ledger import Ledger, Members, Sequence
from fedq.bench.opening import BrokerFailure
from fedq.bench.pacing import Pace
from tests.unit.bench.connected import connected, measure
from tests.unit.bench.streams import numbered

MANY = 10**6
READ_BYTES = 1 << 20


def producer_with(
    figures: Measure, window: int | None = None, deliveries: int = 1
) -> Callable[[socket.socket], Producer]:
    """What makes a producer of 16-byte messages of which each is delivered so often."""
    block = Block(0, [Shape("", "q", 16)] * 256, is_persistent=False)
    counts = [deliveries] * 256
    return lambda near: Producer(near, "producer 0", figures, block, counts, window)


def ledger() -> Ledger:
    """A queue that gets everything of one producer."""
    return Ledger({0: Sequence(Members(256))})


def test_a_window_bounds_what_is_unconfirmed() -> None:
    figures = measure()
    with connected(producer_with(figures, window=10)) as (producer, end):
        producer.start(None)
        assert producer.send_due(1_000, MANY) == -1
        assert (producer.sent, producer.unconfirmed) == (10, 10)
        end.sendall(ack_frame(1, 4, multiple=True) + ack_frame(1, 7, multiple=False))
        producer.on_readable(51_000)
        assert producer.unconfirmed == 5
        producer.send_due(60_000, MANY)
        assert (producer.sent, producer.unconfirmed) == (15, 10)
        assert figures.board.total(Cell.CONFIRMED) == 5
        # The seventh is told, but not counted as long as those before it may still be lost.
        assert figures.confirms.summary()["count"] == 4
        assert figures.confirms.percentile(0.5) == 50


def test_a_limit_ends_what_is_published() -> None:
    with connected(producer_with(measure())) as (producer, _):
        producer.start(None, limit=300)
        assert producer.send_due(0, MANY) == -1
        assert producer.sent == 300
        assert producer.send_due(1_000, MANY) == -1
        assert producer.sent == 300


def test_confirms_one_by_one_and_in_pieces() -> None:
    figures = measure()
    with connected(producer_with(figures, window=300)) as (producer, end):
        producer.start(None)
        producer.send_due(0, MANY)
        data = AckRun(1).take(1, 280)
        for at in range(0, len(data), 1_000):
            end.sendall(data[at : at + 1_000])
            producer.on_readable(5_000)
        assert figures.board.total(Cell.CONFIRMED) == 280
        assert figures.confirms.count == 280


def test_what_is_refused_is_not_confirmed() -> None:
    figures = measure()
    with connected(producer_with(figures, window=8)) as (producer, end):
        producer.start(None)
        producer.send_due(0, MANY)
        end.sendall(ack_frame(1, 2, False) + nack_frame(1, 3, False) + nack_frame(1, 8, True))
        producer.on_readable(0)
        assert producer.unconfirmed == 0
        assert figures.board.total(Cell.CONFIRMED) == 1
        assert figures.board.total(Cell.REFUSED) == 7


def test_no_more_deliveries_than_may_be_owed() -> None:
    figures = measure()
    make = producer_with(figures, deliveries=7)
    with connected(make) as (producer, _):
        producer.start(None)
        assert producer.send_due(0, 50) == -1
        assert producer.sent == 7
        assert figures.board.total(Cell.OWED) == 49
        assert producer.send_due(0, 0) == -1


def test_a_pace_bounds_what_is_sent_and_says_when_to_come_again() -> None:
    with connected(producer_with(measure())) as (producer, end):
        producer.start(Pace(1_000.0, 0))
        assert producer.send_due(2_500_000, MANY) == 3_000_000
        assert producer.sent == 3
        assert producer.send_due(2_600_000, MANY) == 3_000_000
        first = end.recv(READ_BYTES)
        assert first.count((2_500_000).to_bytes(8, "little")) == 3


def test_what_the_broker_held_back_counts_from_when_it_was_due() -> None:
    with connected(producer_with(measure())) as (producer, end):
        producer.start(Pace(1_000.0, 0))
        assert producer.send_due(0, 0) == -1
        assert producer.send_due(5_000_000, 0) == -1
        producer.send_due(9_000_000, 2)
        assert end.recv(READ_BYTES).count(bytes(8) + b"\xce") == 2


def test_a_full_socket_is_waited_for() -> None:
    figures = measure()
    with connected(producer_with(figures)) as (producer, end):
        producer.start(None)
        while producer.send_due(0, MANY) == 0:
            pass
        assert producer.send_due(0, MANY) == -1
        sent, received = producer.sent, 0
        while not producer.flush():
            received += len(end.recv(READ_BYTES))
        assert received
        assert producer.sent == sent
        producer.send_due(0, MANY)
        assert producer.sent > sent


def test_a_closed_channel_is_told() -> None:
    with connected(producer_with(measure())) as (producer, end):
        end.sendall(encode_method(1, ChannelClose(404, "NOT_FOUND - no exchange")))
        with pytest.raises(BrokerFailure, match=r"producer 0: .* channel: 404 NOT_FOUND"):
            producer.on_readable(0)


@pytest.mark.parametrize("every", [1, 4])
def test_a_consumer_acknowledges(every: int) -> None:
    with connected(
        lambda near: Consumer(near, "consumer 0", measure(), ledger(), every)
    ) as (consumer, end):  # fmt: skip
        for first in (0, 5):
            end.sendall(numbered(range(first, first + 5)))
            consumer.on_readable(0)
        wanted = (
            AckRun(1).take(1, 10) if every == 1
            else ack_frame(1, 4, multiple=True) + ack_frame(1, 8, multiple=True)
        )  # fmt: skip
        assert end.recv(READ_BYTES) == wanted


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 5)), max_size=20), st.integers(1, 9))
def test_subscribers_find_what_ledgers_find(came: list[tuple[int, int]], cut: int) -> None:
    tags = (b"00000000", b"00000001")
    figures = measure()
    ledgers = {tag: ledger() for tag in tags}
    plain = {tag: ledger() for tag in tags}
    with connected(lambda near: Subscribers(near, "it", figures, ledgers)) as (client, _):
        for at in range(0, len(came), cut):
            data = b"".join(numbered([n], tag=tags[tag].decode()) for tag, n in came[at : at + cut])
            client.take(data, 0)
        client.settle()
        client.settle()
    for tag, number in came:
        plain[tags[tag]].take([number])
    for name in tags:
        one, other = ledgers[name], plain[name]
        assert (one.count, one.repeated, one.out_of_order, one.lost([6])) == (
            other.count, other.repeated, other.out_of_order, other.lost([6])
        )  # fmt: skip


def test_subscribers_on_one_connection_are_told_apart() -> None:
    tags = ("00000000", "00000001")
    figures = measure()
    ledgers = {tag.encode(): ledger() for tag in tags}
    with connected(
        lambda near: Subscribers(near, "connection 0", figures, ledgers)
    ) as (client, end):  # fmt: skip
        end.sendall(b"".join(numbered([at], tag=tag) for at in range(9) for tag in tags))
        client.on_readable(0)
        end.sendall(numbered([10], tag=tags[0]))
        client.on_readable(0)
        assert [each.lost([9]) for each in ledgers.values()] == [0, 0]
        assert [each.lost([11]) for each in ledgers.values()] == [1, 2]
        client.settle()
        assert [each.count for each in ledgers.values()] == [10, 9]
        end.sendall(numbered([9], tag="0000000b"))
        with pytest.raises(BrokerFailure, match="nobody"):
            client.on_readable(0)
