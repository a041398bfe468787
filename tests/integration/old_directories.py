"""What a node of an earlier release has in its data directory, and what must be there afterwards.

    python -m tests.integration.old_directories HOST:PORT [--streams]

fills a node of that release. It is killed then, and its directory packed: see `tests/golden`.
"""

import sys
from collections.abc import Iterator
from typing import Any, Final

from tests.integration.stock import Address, connect, pika

#: Published, and how many of them were acknowledged, and are out at the kill.
ORDERS: Final = 100
ACKNOWLEDGED: Final = 30
HELD: Final = 3
LONG: Final = b"long " * 40_000
STREAMED: Final = 50
PRIORITIES: Final = (1, 5, 3, 5, 0)


def properties(number: int) -> Any:
    """Of the message with this number."""
    return pika.BasicProperties(
        delivery_mode=2, message_id=f"m{number}", content_type="text/plain", timestamp=number,
        correlation_id="c", headers={"number": number, "deep": {"list": [1, "two", None, True]}},
    )  # fmt: skip


def fill(address: Address, streams: bool) -> None:
    """Declares and publishes; all is confirmed when it returns."""
    connection = connect(address)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.exchange_declare("events", "topic", durable=True)
    channel.exchange_declare("dead", "fanout", durable=True)
    channel.queue_declare("orders", durable=True)
    channel.queue_bind("orders", "events", "order.*.#")
    channel.queue_declare("ranked", durable=True, arguments={"x-max-priority": 5})
    channel.queue_declare("rejected", durable=True)
    channel.queue_bind("rejected", "dead")
    channel.queue_declare(
        "strict", durable=True,
        arguments={"x-dead-letter-exchange": "dead", "x-max-length": 10, "x-message-ttl": 10**9},
    )  # fmt: skip
    for number in range(ORDERS):
        channel.basic_publish("events", f"order.{number}", b"order %d" % number, properties(number))
    channel.basic_publish("events", "order.long.one", LONG, properties(ORDERS))
    for priority in PRIORITIES:
        ranked = pika.BasicProperties(delivery_mode=2, priority=priority)
        channel.basic_publish("", "ranked", b"%d" % priority, ranked)
    for number in range(12):
        channel.basic_publish("", "strict", b"strict %d" % number, properties(number))
    method, _, _ = channel.basic_get("strict")
    channel.basic_reject(method.delivery_tag, requeue=False)
    for number in range(ACKNOWLEDGED + HELD):
        method, _, body = channel.basic_get("orders")
        assert body == b"order %d" % number
        if number < ACKNOWLEDGED:
            channel.basic_ack(method.delivery_tag)
    if streams:
        arguments = {"x-queue-type": "stream", "x-fedq-fragments": 2}
        channel.queue_declare("log", durable=True, arguments=arguments)
        for number in range(STREAMED):
            channel.basic_publish("", "log", b"entry %d" % number, properties(number))
    # What is settled is written with the next message that somebody waits for.
    channel.basic_publish("", "rejected", b"the last", properties(0))


def drained(channel: Any, queue: str) -> Iterator[tuple[bytes, Any, bool]]:
    """All messages of a queue: body, properties, whether it was delivered before."""
    while True:
        method, found, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return
        yield body, found, method.redelivered


def check(address: Address, streams: bool) -> None:
    """Asserts that all of it is there, as it was published, and can be used as before."""
    connection = connect(address)
    channel = connection.channel()
    channel.confirm_delivery()
    orders = list(drained(channel, "orders"))
    bodies = [b"order %d" % number for number in range(ACKNOWLEDGED, ORDERS)]
    assert [body for body, _, _ in orders] == [*bodies, LONG]
    for number, (_, found, _) in enumerate(orders, ACKNOWLEDGED):
        assert found == properties(number)
    assert [again for _, _, again in orders[:HELD]] == [True] * HELD
    ranked = [int(body) for body, _, _ in drained(channel, "ranked")]
    assert ranked == sorted(PRIORITIES, reverse=True)
    assert [body for body, _, _ in drained(channel, "strict")] == [
        b"strict %d" % number for number in range(3, 12)
    ]
    dead = {body: found for body, found, _ in drained(channel, "rejected")}
    assert sorted(dead) == [b"strict 0", b"strict 1", b"strict 2", b"the last"]
    assert dead[b"strict 2"].headers["x-death"][0]["reason"] == "rejected"
    channel.basic_publish("events", "order.new", b"new", properties(0), mandatory=True)
    assert [body for body, _, _ in drained(channel, "orders")] == [b"new"]
    if streams:
        assert sorted(entries(channel)) == sorted(b"entry %d" % n for n in range(STREAMED))
    connection.close()


def entries(channel: Any) -> list[bytes]:
    """All that the stream has, from its beginning."""
    found: list[bytes] = []
    channel.basic_qos(prefetch_count=STREAMED)
    for method, _, body in channel.consume(
        "log", arguments={"x-stream-offset": "first"}, inactivity_timeout=5
    ):
        if method is None:
            break
        channel.basic_ack(method.delivery_tag)
        found.append(body)
        if len(found) == STREAMED:
            break
    channel.cancel()
    return found


if __name__ == "__main__":
    host, _, port = sys.argv[1].partition(":")
    fill(Address(host, int(port)), "--streams" in sys.argv)
