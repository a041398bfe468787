"""What a user of RabbitMQ's firehose sees, told the same way by any broker."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.integration.stock import Address, BlockingChannel, connect, pika

QUIET_S = 2.0


class Seen(NamedTuple):
    """A message of the firehose, without what differs from run to run."""

    key: str
    body: bytes
    headers: dict[str, Any]
    others: list[str]
    #: Present, and of this type.
    kinds: dict[str, str]


def tell(address: Address, switch: Callable[[bool], None]) -> list[Seen]:
    """Publishes, consumes and gets while the firehose is on, and what it says of all that."""
    watching, working = connect(address), connect(address)
    seen: list[Seen] = []
    try:
        watcher, worker = watching.channel(), working.channel()
        watcher.queue_declare("watch", exclusive=True)
        watcher.queue_bind("watch", "amq.rabbitmq.trace", "#")
        worker.exchange_declare("orders", "direct")
        worker.queue_declare("q")
        worker.queue_declare("r")
        worker.queue_bind("q", "orders", "k")
        worker.queue_bind("r", "orders", "k")
        worker.basic_publish("orders", "k", b"before")
        switch(True)
        _work(worker)
        switch(False)
        worker.basic_publish("orders", "k", b"after")
        for method, properties, body in watcher.consume("watch", True, inactivity_timeout=QUIET_S):
            if method is None:
                break
            seen.append(_shown(method.routing_key, properties, body))
        worker.queue_delete("q")
        worker.queue_delete("r")
        worker.exchange_delete("orders")
    finally:
        watching.close()
        working.close()
    return sorted(seen, key=lambda each: (each.key, each.body, repr(each.headers)))


def _work(worker: BlockingChannel) -> None:
    worker.queue_purge("q")
    worker.queue_purge("r")
    properties = pika.BasicProperties(
        content_type="text/plain", headers={"n": 1, "CC": ["copy"]}, delivery_mode=2, priority=3,
        correlation_id="c", message_id="m", app_id="a",
    )  # fmt: skip
    worker.basic_publish("orders", "k", b"one", properties)
    worker.basic_publish("", "q", b"two")
    worker.basic_publish("orders", "nowhere", b"three")
    for queue in ("q", "r"):
        messages = worker.consume(queue, inactivity_timeout=QUIET_S)
        for got, (method, _, _) in enumerate(messages, 1):
            assert method is not None
            if got == (2 if queue == "q" else 1):
                worker.basic_reject(method.delivery_tag, requeue=True)
                break
            worker.basic_ack(method.delivery_tag)
        worker.cancel()
    method, _, _ = worker.basic_get("r", auto_ack=True)
    assert method is not None


def _shown(key: str, properties: pika.BasicProperties, body: bytes) -> Seen:
    headers = dict(properties.headers or {})
    kinds = {name: type(headers.pop(name)).__name__ for name in ("node", "connection", "channel")}
    if "routed_queues" in headers:
        headers["routed_queues"] = sorted(headers["routed_queues"])
    others = [
        name
        for name in ("content_type", "delivery_mode", "priority", "message_id", "timestamp")
        if getattr(properties, name) is not None
    ]
    return Seen(key, body, headers, others, kinds)


PROPERTIES = {
    "app_id": "a", "message_id": "m", "correlation_id": "c", "priority": 3, "delivery_mode": 2,
    "headers": {"n": 1, "CC": ["copy"]}, "content_type": "text/plain",
}  # fmt: skip
ONE = {"exchange_name": "orders", "routing_keys": ["k", "copy"], "properties": PROPERTIES}
TWO = {"exchange_name": "", "routing_keys": ["q"], "properties": {}}
THREE = {"exchange_name": "orders", "routing_keys": ["nowhere"], "properties": {}}


def _said(key: str, body: bytes, what: dict[str, Any], **more: Any) -> Seen:
    headers = {**what, "vhost": "/", "user": "guest", **more}
    return Seen(key, body, headers, [], {"node": "str", "connection": "str", "channel": "int"})


#: What RabbitMQ 3.10.8 says of the story.
STORY = [
    _said("deliver.q", b"one", ONE, redelivered=0),
    _said("deliver.q", b"two", TWO, redelivered=0),
    _said("deliver.q", b"two", TWO, redelivered=1),
    _said("deliver.r", b"one", ONE, redelivered=0),
    _said("deliver.r", b"one", ONE, redelivered=1),
    _said("deliver.r", b"one", ONE, redelivered=1),
    _said("publish.", b"two", TWO, routed_queues=["q"]),
    _said("publish.orders", b"one", ONE, routed_queues=["q", "r"]),
    _said("publish.orders", b"three", THREE, routed_queues=[]),
]
