"""Consuming, prefetch, confirms, returns, cancels and heartbeats, with pika.

Runs on one node and on a cluster like test_plain_queues; RabbitMQ passes all of it.
"""

import socket
import time
from collections.abc import Callable
from itertools import pairwise

import pytest

from tests.integration.conftest import Connect
from tests.integration.harness import eventually
from tests.integration.stock import Address, BlockingChannel, pika
from tests.integration.test_plain_queues import depth, put
from tests.integration.waiting import patient, until
from tests.integration.wire import Wire

pytestmark = pytest.mark.slow

#: How long a client with heartbeats of one second is idle: it would be let go after two.
IDLE_S = 3.5


def pump(channel: BlockingChannel) -> None:
    """Lets pika hand out what has arrived."""
    channel.connection.process_data_events(time_limit=0.02)


def receive(channel: BlockingChannel, what: str, condition: Callable[[], bool]) -> None:
    """Lets pika hand out deliveries until the condition holds."""

    def holds() -> bool:
        pump(channel)
        return condition()

    until(what, holds)


def test_consumers_get_everything_in_order(
    here: BlockingChannel, there: BlockingChannel, queue: str
) -> None:
    put(here, queue, *(b"%d" % number for number in range(50)))
    seen: list[bytes] = []
    there.basic_consume(queue, lambda _c, _m, _p, body: seen.append(body), auto_ack=True)
    put(here, queue, *(b"%d" % number for number in range(50, 100)))
    receive(there, "all arrive", lambda: len(seen) >= 100)
    assert seen == [b"%d" % number for number in range(100)]


def test_prefetch_limits_what_is_out(
    here: BlockingChannel, there: BlockingChannel, queue: str
) -> None:
    put(here, queue, *(b"%d" % number for number in range(10)))
    tags: list[int] = []
    there.basic_qos(prefetch_count=3)
    there.basic_consume(queue, lambda _c, method, _p, _b: tags.append(method.delivery_tag))
    receive(there, "three arrive", lambda: len(tags) >= 3)
    assert depth(here, queue) == 7
    pump(there)
    assert tags == [1, 2, 3]
    there.basic_ack(2, multiple=True)
    receive(there, "two more arrive", lambda: len(tags) >= 5)
    assert tags == [1, 2, 3, 4, 5]
    assert depth(here, queue) == 5


def test_consumers_share_the_work(
    here: BlockingChannel, there: BlockingChannel, queue: str
) -> None:
    counts = {"here": 0, "there": 0}

    def count(channel: BlockingChannel, who: str) -> None:
        def on_message(_c: object, method: pika.spec.Basic.Deliver, _p: object, _b: bytes) -> None:
            counts[who] += 1
            channel.basic_ack(method.delivery_tag)

        channel.basic_qos(prefetch_count=1)
        channel.basic_consume(queue, on_message)

    count(here, "here")
    count(there, "there")
    publisher = here.connection.channel()
    put(publisher, queue, *(b"x" for _ in range(100)))

    def all_done() -> bool:
        pump(here)
        pump(there)
        return sum(counts.values()) == 100

    until("all are consumed", all_done)
    assert min(counts.values()) >= 10


def test_cancel_stops_deliveries_and_keeps_messages(
    here: BlockingChannel, there: BlockingChannel, queue: str
) -> None:
    seen: list[bytes] = []
    tag = there.basic_consume(queue, lambda _c, _m, _p, body: seen.append(body), auto_ack=True)
    there.basic_cancel(tag)
    put(here, queue, b"kept")
    pump(there)
    assert (seen, depth(here, queue)) == ([], 1)


def test_deleting_a_queue_cancels_its_consumers(
    here: BlockingChannel, there: BlockingChannel, queue: str
) -> None:
    cancelled: list[str] = []
    there.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tag = there.basic_consume(queue, lambda *_: None)
    here.queue_delete(queue)
    receive(there, "the consumer is told", lambda: bool(cancelled))
    assert cancelled == [tag]


def test_an_exclusive_consumer_keeps_others_out(
    here: BlockingChannel, there: BlockingChannel, queue: str
) -> None:
    here.basic_consume(queue, lambda *_: None, exclusive=True)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        there.basic_consume(queue, lambda *_: None)
    assert refused.value.reply_code == 403


def test_a_mandatory_message_without_a_queue_comes_back(here: BlockingChannel, name: str) -> None:
    here.confirm_delivery()
    with pytest.raises(pika.exceptions.UnroutableError) as returned:
        here.basic_publish("", f"{name}-nowhere", b"body", mandatory=True)
    message = returned.value.messages[0]
    assert (message.method.reply_code, message.body) == (312, b"body")
    # Without the flag it is confirmed and dropped.
    here.basic_publish("", f"{name}-nowhere", b"body")


def test_a_mandatory_message_with_a_queue_stays(
    here: BlockingChannel, there: BlockingChannel, queue: str
) -> None:
    there.confirm_delivery()
    there.basic_publish("", queue, b"body", mandatory=True)
    assert depth(here, queue) == 1


def test_confirms_count_every_publish(
    brokers: list[Address], here: BlockingChannel, queue: str
) -> None:
    """Confirms name delivery tags in publish order; `multiple` may stand for several."""
    with Wire(brokers[-1]) as wire:
        wire.open_channel(1)
        wire.call(1, pika.spec.Confirm.Select(), pika.spec.Confirm.SelectOk)
        for number in range(1, 101):
            wire.publish(1, "", queue, b"%d" % number)
        confirmed = 0
        while confirmed < 100:
            ack = wire.expect(1, pika.spec.Basic.Ack)
            assert ack.delivery_tag > confirmed
            assert ack.multiple or ack.delivery_tag == confirmed + 1
            confirmed = ack.delivery_tag
    assert depth(here, queue) == 100


def test_closing_a_channel_puts_messages_back_in_order(
    here: BlockingChannel, there: BlockingChannel, queue: str
) -> None:
    put(here, queue, *(b"%d" % number for number in range(6)))
    side = there.connection.channel()
    tags: list[int] = []
    side.basic_qos(prefetch_count=4)
    side.basic_consume(queue, lambda _c, method, _p, _b: tags.append(method.delivery_tag))
    receive(side, "four are out", lambda: len(tags) == 4)
    side.basic_ack(2)
    side.close()
    eventually("three are back", lambda: depth(here, queue) == 5)
    seen = [there.basic_get(queue, auto_ack=True) for _ in range(5)]
    assert [body for _, _, body in seen] == [b"0", b"2", b"3", b"4", b"5"]
    redelivered = [method.redelivered for method, _, _ in seen]
    # The room that the acknowledged message left may or may not have been used for b"4".
    assert redelivered in ([True] * 3 + [False] * 2, [True] * 4 + [False])


def test_recover_delivers_again(here: BlockingChannel, there: BlockingChannel, queue: str) -> None:
    put(here, queue, b"again")
    seen: list[bool] = []
    there.basic_consume(queue, lambda _c, method, _p, _b: seen.append(method.redelivered))
    receive(there, "it arrives", lambda: bool(seen))
    there.basic_recover(requeue=True)
    receive(there, "it arrives again", lambda: len(seen) == 2)
    assert seen == [False, True]


@pytest.mark.patience(20)
def test_heartbeats_keep_an_idle_connection(
    brokers: list[Address], open_connection: Connect
) -> None:
    connection = open_connection(brokers[0], heartbeat=1)
    channel = connection.channel()
    started = time.monotonic()
    connection.process_data_events(time_limit=IDLE_S)
    assert time.monotonic() - started > IDLE_S - 0.5
    channel.queue_declare("", exclusive=True)


@pytest.mark.patience(20)
def test_a_silent_client_is_let_go(brokers: list[Address]) -> None:
    """The specification's rule: two heartbeat intervals without a byte, and the peer is dead."""
    with Wire(brokers[0], heartbeat_s=1) as wire:
        wire.open_channel(1)
        started = time.monotonic()
        arrivals = [started]
        wire.socket.settimeout(10)
        try:
            while wire.socket.recv(4096):
                arrivals.append(time.monotonic())
        except ConnectionResetError:
            arrivals.append(time.monotonic())
        assert 1 <= time.monotonic() - started < patient(8)
        # Until then the broker, for its part, was never silent for long.
        assert max(later - earlier for earlier, later in pairwise(arrivals)) < patient(2.5)


def test_flow_of_a_slow_reader_is_bounded(
    here: BlockingChannel, brokers: list[Address], queue: str
) -> None:
    """A consumer that reads nothing does not keep others from being served."""
    with Wire(brokers[-1]) as lazy:
        lazy.open_channel(1)
        lazy.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.call(1, pika.spec.Basic.Consume(queue=queue, no_ack=True), pika.spec.Basic.ConsumeOk)
        put(here, queue, *(b"x" * 50_000 for _ in range(60)))
        other = here.connection.channel()
        private = other.queue_declare("", exclusive=True).method.queue
        put(other, private, b"served")
        assert other.basic_get(private, auto_ack=True)[2] == b"served"
