"""The examples of the blocking adapter: get, consume, generator, confirms, returns, timeouts."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pika  # type: ignore[import-untyped]
import pika.exceptions  # type: ignore[import-untyped]
import pytest

from conformance.scenarios.pika.broker import (
    HOST,
    PATIENCE_S,
    PORT,
    URL,
    Blocking,
    Channel,
    connect,
    fresh,
    parameters,
    pump,
)


def test_basic_get(channel: Channel) -> None:
    """A get from an empty queue brings nothing; from a full one a message and what is left."""
    queue = channel.queue_declare(queue=fresh("get"), auto_delete=True).method.queue
    assert channel.basic_get(queue) == (None, None, None)
    channel.confirm_delivery()
    for body in (b"one", b"two"):
        channel.basic_publish("", queue, body, pika.BasicProperties(content_type="text/plain"))
    method, properties, body = channel.basic_get(queue)
    assert (method.message_count, properties.content_type, body) == (1, "text/plain", b"one")
    channel.basic_ack(method.delivery_tag)
    method, _, body = channel.basic_get(queue, auto_ack=True)
    assert (method.message_count, body) == (0, b"two")
    channel.queue_delete(queue)


def test_consume_stops_when_asked(channel: Channel) -> None:
    """`start_consuming` returns after `stop_consuming`, and nothing that came late is lost."""
    queue = channel.queue_declare(queue=fresh("consume")).method.queue
    for number in range(3):
        channel.basic_publish("", queue, str(number).encode())
    seen: list[bytes] = []

    def on_message(own: Channel, method: object, _properties: object, body: bytes) -> None:
        seen.append(body)
        own.basic_ack(method.delivery_tag)  # type: ignore[attr-defined]
        if len(seen) == 2:
            own.stop_consuming()

    channel.basic_qos(prefetch_count=1)
    channel.basic_consume(queue, on_message)
    channel.start_consuming()
    assert seen == [b"0", b"1"]
    assert channel.basic_get(queue, auto_ack=True)[2] == b"2"
    channel.queue_delete(queue)


def test_consumer_generator(channel: Channel) -> None:
    """Ten messages by `consume`, then `cancel` gives back what had come in advance."""
    queue = channel.queue_declare(queue=fresh("generator")).method.queue
    channel.confirm_delivery()
    for number in range(15):
        channel.basic_publish("", queue, str(number).encode())
    seen: list[bytes] = []
    for method, _, body in channel.consume(queue, inactivity_timeout=PATIENCE_S):
        assert method is not None, "nothing came"
        seen.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(seen) == 10:
            break
    channel.cancel()
    assert seen == [str(number).encode() for number in range(10)]
    assert channel.queue_declare(queue=queue, passive=True).method.message_count == 5
    channel.queue_delete(queue)


def test_generator_gives_up_when_idle(channel: Channel) -> None:
    """`inactivity_timeout` brings empty triples while nothing comes."""
    queue = channel.queue_declare(queue="", exclusive=True).method.queue
    first = next(iter(channel.consume(queue, inactivity_timeout=0.1)))
    assert first == (None, None, None)
    channel.cancel()


def test_delivery_confirmations(channel: Channel) -> None:
    """In confirm mode a publish returns when the broker has the message."""
    queue = channel.queue_declare(queue=fresh("confirm"), durable=True).method.queue
    channel.confirm_delivery()
    persistent = pika.BasicProperties(content_type="text/plain", delivery_mode=2)
    for number in range(20):
        channel.basic_publish("", queue, str(number).encode(), persistent, mandatory=True)
    assert channel.queue_declare(queue=queue, passive=True).method.message_count == 20
    channel.queue_delete(queue)


def test_mandatory_message_without_a_queue(channel: Channel) -> None:
    """A mandatory message that reaches no queue comes back before its confirm."""
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.UnroutableError) as caught:
        channel.basic_publish("", fresh("nowhere"), b"lost?", mandatory=True)
    (returned,) = caught.value.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert returned.body == b"lost?"
    assert channel.is_open


def test_mandatory_message_without_confirms(connection: Blocking, channel: Channel) -> None:
    """Without confirms it comes to the callback for returned messages."""
    returned: list[bytes] = []
    channel.add_on_return_callback(lambda _c, _m, _p, body: returned.append(body))
    channel.basic_publish("", fresh("nowhere"), b"back", mandatory=True)
    pump(connection, lambda: returned)
    assert returned == [b"back"]


def test_url_parameters() -> None:
    """A URL carries the virtual host and tuning values, which the broker takes over."""
    url = f"{URL}?connection_attempts=3&heartbeat=60&frame_max=8192&channel_max=7"
    connection = pika.BlockingConnection(pika.URLParameters(url))
    assert connection.channel().is_open
    inner = connection._impl
    assert (inner.params.heartbeat, inner.params.frame_max, inner.params.channel_max) == (
        60, 8192, 7,
    )  # fmt: skip
    big = bytes(range(256)) * 200
    channel = connection.channel()
    queue = channel.queue_declare(queue="", exclusive=True).method.queue
    channel.basic_publish("", queue, big)
    got: list[bytes] = []
    channel.basic_consume(queue, lambda _c, _m, _p, body: got.append(body), auto_ack=True)
    pump(connection, lambda: got)
    assert got == [big]
    connection.close()


def test_several_hosts_to_try() -> None:
    """The second of two addresses is tried when nobody listens at the first."""
    nobody = pika.ConnectionParameters(host=HOST, port=1, connection_attempts=1)
    connection = pika.BlockingConnection([nobody, parameters()])
    assert connection.channel().is_open
    assert connection._impl.params.port == PORT
    connection.close()


def test_wrong_password_says_so() -> None:
    """The broker says ACCESS_REFUSED, since pika says it understands that."""
    wrong = pika.PlainCredentials("guest", "wrong")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError, match="ACCESS_REFUSED"):
        connect(credentials=wrong)


def test_unknown_virtual_host_says_so() -> None:
    """The broker names the host that it does not have."""
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as caught:
        connect(virtual_host="nobody-made-this")
    assert "(530)" in str(caught.value)
    assert "vhost nobody-made-this not found" in str(caught.value)


def test_heartbeats_keep_a_quiet_connection() -> None:
    """With heartbeats each second, an idle connection is alive after several of them."""
    connection = connect(heartbeat=1, blocked_connection_timeout=300)
    beats: list[int] = []
    for second in range(1, 4):
        connection.call_later(second, lambda: beats.append(1))
    pump(connection, lambda: len(beats) == 3)
    assert connection.channel().is_open
    connection.close()


def test_heartbeat_chosen_by_callback() -> None:
    """A client may take the broker's suggestion and halve it."""
    suggested: list[int] = []

    def halve(_connection: object, value: int) -> int:
        suggested.append(value)
        return value // 2

    connection = connect(heartbeat=halve)
    assert suggested
    assert suggested[0] > 0
    assert connection._impl.params.heartbeat == suggested[0] // 2
    connection.close()


def test_acknowledging_from_other_threads(connection: Blocking, channel: Channel) -> None:
    """Work in threads, acknowledged through `add_callback_threadsafe`."""
    queue = channel.queue_declare(queue=fresh("threads")).method.queue
    channel.basic_qos(prefetch_count=4)
    for number in range(12):
        channel.basic_publish("", queue, str(number).encode())
    done: list[bytes] = []
    lock = threading.Lock()
    with ThreadPoolExecutor(4) as pool:

        def work(tag: int, body: bytes) -> None:
            with lock:
                done.append(body)
            connection.add_callback_threadsafe(lambda: channel.basic_ack(tag))

        tag = channel.basic_consume(
            queue, lambda _c, method, _p, body: pool.submit(work, method.delivery_tag, body)
        )
        pump(connection, lambda: len(done) == 12)
    connection.process_data_events(time_limit=0)
    channel.basic_cancel(tag)
    assert sorted(done, key=int) == [str(number).encode() for number in range(12)]
    assert channel.queue_declare(queue=queue, passive=True).method.message_count == 0
    channel.queue_delete(queue)


def test_direct_reply_to(connection: Blocking, channel: Channel) -> None:
    """Answers over `amq.rabbitmq.reply-to`, without a queue for them."""
    queue = channel.queue_declare(queue=fresh("rpc"), exclusive=True).method.queue
    answers: list[bytes] = []
    pseudo = "amq.rabbitmq.reply-to"
    channel.basic_consume(pseudo, lambda _c, _m, _p, body: answers.append(body), auto_ack=True)
    channel.basic_publish("", queue, b"Marco", pika.BasicProperties(reply_to=pseudo))
    server = connection.channel()

    def answer(own: Channel, method: object, properties: object, _body: bytes) -> None:
        own.basic_publish("", properties.reply_to, b"Polo")  # type: ignore[attr-defined]
        own.basic_ack(method.delivery_tag)  # type: ignore[attr-defined]

    server.basic_consume(queue, answer)
    pump(connection, lambda: answers)
    assert answers == [b"Polo"]


def test_errors_of_a_channel_leave_the_connection(connection: Blocking) -> None:
    """404, 406 and 405 close their channel only; the next one works."""
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        connection.channel().queue_declare(queue=fresh("missing"), passive=True)
    assert caught.value.reply_code == 404
    queue = fresh("durable")
    connection.channel().queue_declare(queue=queue, durable=True)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        connection.channel().queue_declare(queue=queue, durable=False)
    assert caught.value.reply_code == 406
    assert "inequivalent arg 'durable'" in caught.value.reply_text
    connection.channel().queue_delete(queue)
    mine = connection.channel().queue_declare(queue="", exclusive=True).method.queue
    other = connect()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        other.channel().queue_declare(queue=mine, passive=True)
    assert caught.value.reply_code == 405
    assert other.channel().is_open
    other.close()


def test_consumer_is_told_that_its_queue_is_gone(connection: Blocking, channel: Channel) -> None:
    """Deleting a queue cancels its consumers, and `consume` ends."""
    queue = channel.queue_declare(queue=fresh("cancel")).method.queue
    cancelled: list[object] = []
    channel.add_on_cancel_callback(cancelled.append)
    channel.basic_consume(queue, lambda *_: None)
    connection.channel().queue_delete(queue)
    pump(connection, lambda: cancelled)
    assert channel.is_open
    assert not channel.consumer_tags
