"""Declaring, publishing, getting, settling, purging and deleting, with pika.

Every test runs on one node and, with its two channels on different nodes, on a cluster: a client
notices no difference. RabbitMQ passes all of them.
"""

import pytest

from tests.integration.conftest import Connect
from tests.integration.harness import eventually
from tests.integration.stock import Address, BlockingChannel, pika

pytestmark = pytest.mark.slow


def depth(channel: BlockingChannel, queue: str) -> int:
    """Ready messages of the whole queue, as a passive declare tells."""
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def put(channel: BlockingChannel, queue: str, *bodies: bytes) -> None:
    """Publishes and waits until every message is in the queue."""
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", queue, body)


def test_what_is_published_is_got(
    here: BlockingChannel, there: BlockingChannel, queue: str
) -> None:
    put(here, queue, b"one", b"two")
    method, _, body = there.basic_get(queue)
    assert (body, method.redelivered, method.message_count) == (b"one", False, 1)
    assert (method.exchange, method.routing_key) == ("", queue)
    there.basic_ack(method.delivery_tag)
    method, _, body = there.basic_get(queue, auto_ack=True)
    assert (body, method.message_count) == (b"two", 0)
    assert there.basic_get(queue) == (None, None, None)


def test_a_passive_declare_counts_messages_and_consumers(
    here: BlockingChannel, there: BlockingChannel, queue: str
) -> None:
    put(here, queue, b"1", b"2", b"3")
    assert depth(here, queue) == depth(there, queue) == 3
    there.basic_qos(prefetch_count=1)
    there.basic_consume(queue, lambda *_: None)
    eventually(
        "the consumer is counted on the other node",
        lambda: here.queue_declare(queue, passive=True).method.consumer_count == 1,
    )
    eventually("one message is out with it", lambda: depth(here, queue) == 2)


def test_purge_and_delete_say_how_many_messages_went(
    here: BlockingChannel, there: BlockingChannel, queue: str
) -> None:
    put(here, queue, b"1", b"2", b"3")
    assert there.queue_purge(queue).method.message_count == 3
    assert depth(here, queue) == 0
    put(here, queue, b"4", b"5")
    assert there.queue_delete(queue).method.message_count == 2
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="404"):
        here.queue_declare(queue, passive=True)


def test_purge_spares_what_is_out_with_consumers(
    here: BlockingChannel, there: BlockingChannel, queue: str
) -> None:
    put(here, queue, b"out", b"waiting")
    method, _, _ = there.basic_get(queue)
    assert here.queue_purge(queue).method.message_count == 1
    there.basic_nack(method.delivery_tag, requeue=True)
    eventually("the message is back", lambda: depth(here, queue) == 1)


def test_rejected_messages_come_back_redelivered_at_their_old_place(
    here: BlockingChannel, there: BlockingChannel, queue: str
) -> None:
    put(here, queue, b"one", b"two", b"three")
    tags = [there.basic_get(queue)[0].delivery_tag for _ in range(2)]
    there.basic_reject(tags[1], requeue=True)
    there.basic_nack(tags[0], requeue=True)
    eventually("all are back", lambda: depth(here, queue) == 3)
    seen = [there.basic_get(queue, auto_ack=True) for _ in range(3)]
    assert [(method.redelivered, body) for method, _, body in seen] == [
        (True, b"one"),
        (True, b"two"),
        (False, b"three"),
    ]


def test_nack_without_requeue_discards(
    here: BlockingChannel, there: BlockingChannel, queue: str
) -> None:
    put(here, queue, b"one", b"two", b"three")
    for _ in range(2):
        method, _, _ = there.basic_get(queue)
    there.basic_nack(method.delivery_tag, multiple=True, requeue=False)
    assert there.basic_get(queue, auto_ack=True)[2] == b"three"
    assert depth(here, queue) == 0


def test_ack_multiple_settles_everything_before(
    here: BlockingChannel, there: BlockingChannel, queue: str
) -> None:
    put(here, queue, *(b"%d" % number for number in range(5)))
    tags = [there.basic_get(queue)[0].delivery_tag for _ in range(4)]
    there.basic_ack(tags[2], multiple=True)
    there.close()
    eventually("the unacknowledged one is back", lambda: depth(here, queue) == 2)
    seen = [here.basic_get(queue, auto_ack=True)[2] for _ in range(2)]
    assert seen == [b"3", b"4"]


def test_a_lost_connection_gives_its_messages_back(
    here: BlockingChannel, brokers: list[Address], open_connection: Connect, queue: str
) -> None:
    put(here, queue, b"one", b"two")
    other = open_connection(brokers[-1])
    assert other.channel().basic_get(queue)[2] == b"one"
    other.close()
    eventually("the message is back", lambda: depth(here, queue) == 2)
    method, _, body = here.basic_get(queue, auto_ack=True)
    assert (method.redelivered, body) == (True, b"one")


def test_properties_arrive_as_they_were_sent(
    here: BlockingChannel, there: BlockingChannel, queue: str
) -> None:
    headers = {
        "text": "é", "number": 7, "big": 2**40, "yes": True, "list": [1, "a"],
        "table": {"deep": {"deeper": None}}, "bytes": b"\x00\xff",
    }  # fmt: skip
    sent = pika.BasicProperties(
        content_type="text/plain", content_encoding="utf-8", headers=headers, delivery_mode=2,
        priority=3, correlation_id="c", reply_to="r", expiration="60000", message_id="m",
        timestamp=1_700_000_000, type="t", user_id="guest", app_id="a",
    )  # fmt: skip
    here.confirm_delivery()
    here.basic_publish("", queue, b"body", sent)
    _, received, _ = there.basic_get(queue, auto_ack=True)
    assert received == sent


@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065, 3_000_000])
def test_bodies_of_any_size(
    here: BlockingChannel, there: BlockingChannel, queue: str, size: int
) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    put(here, queue, body)
    assert there.basic_get(queue, auto_ack=True)[2] == body


def test_delete_only_if_unused_or_empty(
    here: BlockingChannel, there: BlockingChannel, brokers: list[Address],
    open_connection: Connect, queue: str,
) -> None:  # fmt: skip
    put(here, queue, b"one")
    connection = open_connection(brokers[-1])
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        connection.channel().queue_delete(queue, if_empty=True)
    assert refused.value.reply_code == 406
    tag = there.basic_consume(queue, lambda *_: None)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        connection.channel().queue_delete(queue, if_unused=True)
    assert refused.value.reply_code == 406
    there.basic_cancel(tag)
    connection.channel().queue_delete(queue, if_unused=True)


def test_an_auto_delete_queue_goes_with_its_last_consumer(
    here: BlockingChannel, there: BlockingChannel, brokers: list[Address],
    open_connection: Connect, name: str,
) -> None:  # fmt: skip
    here.queue_declare(name, auto_delete=True)
    tags = [channel.basic_consume(name, lambda *_: None) for channel in (here, there)]
    here.basic_cancel(tags[0])
    here.queue_declare(name, passive=True)
    there.basic_cancel(tags[1])

    def is_gone() -> bool:
        probe = open_connection(brokers[0]).channel()
        try:
            probe.queue_declare(name, passive=True)
        except pika.exceptions.ChannelClosedByBroker as error:
            return bool(error.reply_code == 404)
        return False

    eventually("the queue is gone", is_gone)


def test_server_named_queues_have_different_names(
    here: BlockingChannel, there: BlockingChannel
) -> None:
    names = [
        channel.queue_declare("", exclusive=True).method.queue for channel in (here, there, here)
    ]
    assert len(set(names)) == 3
    assert all(name.startswith("amq.") for name in names)


def test_the_empty_queue_name_means_the_last_declared_one(here: BlockingChannel, name: str) -> None:
    here.confirm_delivery()
    here.queue_declare(name, auto_delete=True)
    here.basic_publish("", name, b"here")
    assert here.basic_get("", auto_ack=True)[2] == b"here"
    assert here.queue_delete("").method.message_count == 0


def test_declaring_again_with_the_same_properties_changes_nothing(
    here: BlockingChannel, there: BlockingChannel, queue: str
) -> None:
    put(here, queue, b"one")
    assert there.queue_declare(queue).method.message_count == 1


def test_many_channels_of_one_connection_do_not_mix(
    brokers: list[Address], open_connection: Connect, here: BlockingChannel, name: str
) -> None:
    connection = open_connection(brokers[-1])
    channels = [connection.channel() for _ in range(20)]
    for number, channel in enumerate(channels):
        channel.queue_declare(f"{name}-{number}", exclusive=True)
        channel.confirm_delivery()
    for number, channel in enumerate(channels):
        channel.basic_publish("", f"{name}-{number}", b"%d" % number)
    for number, channel in enumerate(channels):
        assert channel.basic_get(f"{name}-{number}", auto_ack=True)[2] == b"%d" % number
