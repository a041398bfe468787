"""The tutorials with pika: hello world, work queues, publish/subscribe, routing, topics, RPC."""

import pika  # type: ignore[import-untyped]
import pytest

from conformance.scenarios.pika.broker import Blocking, Channel, connect, fresh, pump


def bound_queue(channel: Channel, exchange: str, *keys: str) -> str:
    """An exclusive queue that the server names, bound with each key."""
    name: str = channel.queue_declare(queue="", exclusive=True).method.queue
    for key in keys:
        channel.queue_bind(exchange=exchange, queue=name, routing_key=key)
    return name


def drained(
    connection: Blocking, channel: Channel, queue: str, count: int
) -> list[tuple[str, str]]:
    """The keys and bodies of `count` messages, by a consumer that needs no acknowledgement."""
    seen: list[tuple[str, str]] = []
    tag = channel.basic_consume(
        queue,
        lambda _channel, method, _properties, body: seen.append(
            (method.routing_key, body.decode())
        ),
        auto_ack=True,
    )
    pump(connection, lambda: len(seen) >= count)
    channel.basic_cancel(tag)
    return seen


def test_hello_world(connection: Blocking, channel: Channel) -> None:
    """One producer, one consumer, the default exchange."""
    queue = fresh("hello")
    channel.queue_declare(queue=queue)
    channel.basic_publish(exchange="", routing_key=queue, body=b"Hello World!")
    assert drained(connection, channel, queue, 1) == [(queue, "Hello World!")]
    channel.queue_delete(queue)


def test_work_queue_is_fair() -> None:
    """With prefetch 1 a busy worker gets nothing while an idle one works everything off."""
    queue = fresh("tasks")
    busy, idle = connect(), connect()
    producer = busy.channel()
    producer.queue_declare(queue=queue, durable=True)
    held: list[int] = []
    done: list[bytes] = []
    slow, quick = busy.channel(), idle.channel()
    for channel in (slow, quick):
        channel.basic_qos(prefetch_count=1)
    slow.basic_consume(queue, lambda _c, method, _p, _b: held.append(method.delivery_tag))
    persistent = pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent)
    producer.basic_publish("", queue, b"slow", persistent)
    pump(busy, lambda: held)

    def work(channel: Channel, method: object, _properties: object, body: bytes) -> None:
        done.append(body)
        channel.basic_ack(delivery_tag=method.delivery_tag)  # type: ignore[attr-defined]

    quick.basic_consume(queue, work)
    for number in range(5):
        producer.basic_publish("", queue, str(number).encode(), persistent)
    pump(idle, lambda: len(done) == 5)
    busy.process_data_events(time_limit=0.1)
    assert done == [b"0", b"1", b"2", b"3", b"4"]
    assert len(held) == 1
    slow.basic_ack(held[0])
    producer.queue_delete(queue)
    busy.close()
    idle.close()


def test_work_of_a_dead_worker_is_done_by_another() -> None:
    """What a worker had not acknowledged when its connection went is delivered again, flagged."""
    queue = fresh("tasks")
    first, second = connect(), connect()
    channel = first.channel()
    channel.queue_declare(queue=queue, durable=True)
    channel.basic_publish("", queue, b"task")
    held: list[bytes] = []
    channel.basic_consume(queue, lambda _c, _m, _p, body: held.append(body))
    pump(first, lambda: held)
    first.close()
    again: list[tuple[bool, bytes]] = []
    other = second.channel()
    other.basic_consume(
        queue, lambda _c, method, _p, body: again.append((method.redelivered, body)), auto_ack=True
    )
    pump(second, lambda: again)
    assert again == [(True, b"task")]
    other.queue_delete(queue)
    second.close()


def test_publish_subscribe(connection: Blocking, channel: Channel) -> None:
    """Every subscriber of a fanout exchange gets its own copy."""
    exchange = fresh("logs")
    channel.exchange_declare(exchange=exchange, exchange_type="fanout")
    queues = [bound_queue(channel, exchange, "") for _ in range(3)]
    channel.basic_publish(exchange=exchange, routing_key="ignored", body=b"info")
    for queue in queues:
        assert drained(connection, channel, queue, 1) == [("ignored", "info")]
    channel.exchange_delete(exchange)


def test_routing(connection: Blocking, channel: Channel) -> None:
    """A direct exchange: one queue for errors, one for everything."""
    exchange = fresh("direct")
    channel.exchange_declare(exchange=exchange, exchange_type="direct")
    errors = bound_queue(channel, exchange, "error")
    everything = bound_queue(channel, exchange, "info", "warning", "error")
    for severity in ("info", "warning", "error"):
        channel.basic_publish(exchange, severity, severity.encode())
    assert drained(connection, channel, errors, 1) == [("error", "error")]
    assert [key for key, _ in drained(connection, channel, everything, 3)] == [
        "info", "warning", "error",
    ]  # fmt: skip
    channel.exchange_delete(exchange)


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (("#",), ["quick.orange.rabbit", "lazy.brown.fox", "orange", "lazy.pink.male.rabbit"]),
        (("*.orange.*",), ["quick.orange.rabbit"]),
        (
            ("*.*.rabbit", "lazy.#"),
            ["quick.orange.rabbit", "lazy.brown.fox", "lazy.pink.male.rabbit"],
        ),
        (("*",), ["orange"]),
    ],
)  # fmt: skip
def test_topics(
    connection: Blocking, channel: Channel, patterns: tuple[str, ...], expected: list[str]
) -> None:
    """A star stands for one word, a hash for any number of them; a queue gets a message once."""
    exchange = fresh("topics")
    channel.exchange_declare(exchange=exchange, exchange_type="topic")
    queue = bound_queue(channel, exchange, *patterns)
    last = bound_queue(channel, exchange, "#")
    keys = ["quick.orange.rabbit", "lazy.brown.fox", "orange", "lazy.pink.male.rabbit"]
    for key in keys:
        channel.basic_publish(exchange, key, b"")
    assert [key for key, _ in drained(connection, channel, queue, len(expected))] == expected
    drained(connection, channel, last, len(keys))
    assert channel.queue_declare(queue=queue, passive=True).method.message_count == 0
    channel.exchange_delete(exchange)


def test_rpc(connection: Blocking, channel: Channel) -> None:
    """A server that answers to `reply_to`, and a client that finds its answer by correlation id."""
    requests = fresh("rpc")
    channel.queue_declare(queue=requests)

    def serve(server: Channel, method: object, properties: object, body: bytes) -> None:
        server.basic_publish(
            exchange="",
            routing_key=properties.reply_to,  # type: ignore[attr-defined]
            properties=pika.BasicProperties(
                correlation_id=properties.correlation_id,  # type: ignore[attr-defined]
            ),
            body=str(int(body) ** 2).encode(),
        )
        server.basic_ack(delivery_tag=method.delivery_tag)  # type: ignore[attr-defined]

    server = connection.channel()
    server.basic_qos(prefetch_count=1)
    server.basic_consume(queue=requests, on_message_callback=serve)
    answers: dict[str, bytes] = {}
    replies = channel.queue_declare(queue="", exclusive=True).method.queue
    channel.basic_consume(
        replies,
        lambda _c, _m, properties, body: answers.update({properties.correlation_id: body}),
        auto_ack=True,
    )
    for number in range(10):
        request = pika.BasicProperties(reply_to=replies, correlation_id=f"id-{number}")
        channel.basic_publish("", requests, str(number).encode(), request)
    pump(connection, lambda: len(answers) == 10)
    assert answers == {f"id-{number}": str(number**2).encode() for number in range(10)}
    channel.queue_delete(requests)
