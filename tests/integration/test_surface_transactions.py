"""`tx`: publishes and acknowledgements that count together, or not at all.

One transaction concerns one queue in one place; what fedq cannot do atomically it refuses.
"""

import pytest

from tests.integration.stock import BlockingChannel, pika
from tests.integration.surface import (
    Inbox,
    Stage,
    arrives,
    bodies,
    is_other,
    pump,
    refused,
    unless_spread,
)  # fmt: skip
from tests.integration.waiting import until

pytestmark = pytest.mark.slow


def transactional(stage: Stage) -> BlockingChannel:
    """A channel with transactions, next to the consumer's."""
    channel = stage.consumer.connection.channel()
    channel.tx_select()
    return channel


@unless_spread
def test_publishes_are_there_after_the_commit(stage: Stage) -> None:
    queue = stage.queue()
    channel = transactional(stage)
    for number in range(10):
        channel.basic_publish("", queue, b"%d" % number)
    arrives(channel)
    assert stage.depth(queue) == 0
    channel.tx_commit()
    assert bodies(stage.drain(queue, 10)) == [b"%d" % number for number in range(10)]


@unless_spread
def test_a_rollback_forgets_publishes(stage: Stage) -> None:
    queue = stage.queue()
    channel = transactional(stage)
    channel.basic_publish("", queue, b"forgotten")
    channel.tx_rollback()
    channel.basic_publish("", queue, b"kept")
    channel.tx_commit()
    channel.tx_commit()
    assert bodies(stage.drain(queue, 1)) == [b"kept"]


@unless_spread
def test_closing_the_channel_forgets_publishes(stage: Stage) -> None:
    queue = stage.queue()
    channel = transactional(stage)
    channel.basic_publish("", queue, b"forgotten")
    channel.close()
    stage.put(queue, b"kept")
    assert bodies(stage.drain(queue, 1)) == [b"kept"]


@unless_spread
def test_acknowledgements_count_after_the_commit(stage: Stage) -> None:
    queue = stage.queue()
    stage.put(queue, b"1", b"2", b"3")
    channel = transactional(stage)
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(3)]
    channel.basic_ack(tags[1], multiple=True)
    channel.tx_commit()
    channel.basic_ack(tags[2])
    channel.close()
    # The last acknowledgement was never committed.
    stage.wait_depth(queue, 1)
    [left] = stage.drain(queue, 1)
    assert (left.body, left.method.redelivered) == (b"3", True)


@unless_spread
def test_after_a_rollback_deliveries_are_still_out(stage: Stage) -> None:
    queue = stage.queue()
    stage.put(queue, b"1", b"2")
    channel = transactional(stage)
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(2)]
    channel.basic_ack(tags[0])
    channel.tx_rollback()
    assert stage.depth(queue) == 0
    channel.basic_ack(tags[1], multiple=True)
    channel.tx_commit()
    channel.close()
    arrives(stage.consumer)
    assert stage.depth(queue) == 0


@unless_spread
def test_rejections_count_after_the_commit(stage: Stage) -> None:
    queue = stage.queue()
    stage.put(queue, b"1", b"2")
    channel = transactional(stage)
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(2)]
    channel.basic_reject(tags[0], requeue=False)
    channel.basic_nack(tags[1], requeue=True)
    arrives(channel)
    assert stage.depth(queue) == 0
    channel.tx_commit()
    assert bodies(stage.drain(queue, 1)) == [b"2"]


@unless_spread
def test_taken_from_one_queue_and_put_into_the_same_together(stage: Stage) -> None:
    queue = stage.queue()
    stage.put(queue, b"question")
    channel = transactional(stage)
    method, _, _ = channel.basic_get(queue)
    channel.basic_publish("", queue, b"answer")
    channel.basic_ack(method.delivery_tag)
    channel.tx_commit()
    assert bodies(stage.drain(queue, 1)) == [b"answer"]


@unless_spread
def test_many_messages_in_one_transaction(stage: Stage) -> None:
    queue = stage.queue(durable=stage.place != "private")
    channel = transactional(stage)
    for number in range(500):
        properties = pika.BasicProperties(delivery_mode=2)
        channel.basic_publish("", queue, b"%d" % number, properties)
    channel.tx_commit()
    assert bodies(stage.drain(queue, 500)) == [b"%d" % number for number in range(500)]


@unless_spread
def test_a_consumer_hears_of_it_after_the_commit(stage: Stage) -> None:
    queue = stage.queue()
    inbox = Inbox(stage.consumer, queue, ack=True)
    channel = transactional(stage)
    channel.basic_publish("", queue, b"1")
    arrives(channel)
    assert inbox.messages == []
    channel.tx_commit()
    assert bodies(inbox.wait(1)) == [b"1"]


def test_returns_come_with_the_commit(stage: Stage) -> None:
    channel = transactional(stage)
    returned: list[bytes] = []
    channel.add_on_return_callback(lambda _c, _m, _p, body: returned.append(body))
    channel.basic_publish("", f"{stage.name}-nowhere", b"x", mandatory=True)
    channel.tx_commit()

    def is_returned() -> bool:
        pump(channel)
        return returned == [b"x"]

    until("it is returned", is_returned)


@pytest.mark.parametrize("act", [pika.spec.Tx.Commit(), pika.spec.Tx.Rollback()])
def test_without_select_there_is_nothing_to_end(stage: Stage, act: object) -> None:
    channel = stage.channel()
    # pika would refuse it itself; say it as another client would.
    channel._impl._send_method(act)
    with refused(406, "channel is not transactional"):
        arrives(channel)


def test_confirms_and_transactions_exclude_each_other(stage: Stage) -> None:
    channel = transactional(stage)
    with refused(406, "cannot switch from tx to confirm mode"):
        channel.confirm_delivery()
    channel = stage.channel()
    channel.confirm_delivery()
    with refused(406, "cannot switch from confirm to tx mode"):
        channel.tx_select()


def test_select_may_be_said_twice(stage: Stage) -> None:
    channel = transactional(stage)
    channel.tx_select()
    channel.tx_commit()


def test_an_error_ends_the_transaction(stage: Stage) -> None:
    queue = stage.queue()
    channel = transactional(stage)
    channel.basic_publish("", queue, b"forgotten")
    with refused(404):
        channel.queue_declare(f"{stage.name}-nowhere", passive=True)
    stage.put(queue, b"kept")
    assert bodies(stage.drain(queue, 1)) == [b"kept"]


@pytest.mark.skipif(is_other, reason="RabbitMQ commits to several queues, one after the other")
@pytest.mark.parametrize("stage", ["three"], indirect=True)
def test_what_is_not_atomic_is_refused_whole(stage: Stage) -> None:
    first, second = stage.queue(), stage.unused()
    stage.consumer.queue_declare(second)
    channel = transactional(stage)
    channel.basic_publish("", first, b"1")
    channel.basic_publish("", second, b"2")
    with refused(406, "several queues or fragments .*atomic on one"):
        channel.tx_commit()
    assert (stage.depth(first), stage.depth(second)) == (0, 0)
