"""kombu without Celery, as its documentation shows it, on three nodes."""

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kombu.connection
import kombu.entity
import kombu.mixins
import kombu.pools
import pytest

from tests.integration.celery_worker import DONE_S, urls
from tests.integration.harness import Cluster
from tests.integration.stock import Address
from tests.integration.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.patience(90)]


#: kombu is typed in part only.
Connection: Any = kombu.connection.Connection
Exchange: Any = kombu.entity.Exchange
Queue: Any = kombu.entity.Queue
reset_pools: Any = kombu.pools.reset


class Listener(kombu.mixins.ConsumerMixin):
    """A consumer that reconnects by itself; what it hears goes into a list."""

    def __init__(self, connection: Any, queues: list[Any]) -> None:
        self.connection = connection
        self.heard: list[Any] = []
        self.brokers: queue.Queue[str] = queue.Queue()
        self._queues = queues

    def get_consumers(self, consumer: Any, channel: Any) -> list[Any]:
        """One consumer of all queues, five messages at a time."""
        return [consumer(self._queues, callbacks=[self.on_message], prefetch_count=5)]

    def on_connection_revived(self) -> None:
        """A connection to some broker is open."""
        self.brokers.put(self.connection.as_uri())

    def on_message(self, body: Any, message: Any) -> None:
        """Takes it and acknowledges it."""
        self.heard.append(body)
        message.ack()


@contextmanager
def listening(address: str, *queues: Any) -> Iterator[Listener]:
    """A listener in a thread of its own that consumes already."""
    with Connection(address, heartbeat=4) as connection:
        listener = Listener(connection, list(queues))
        thread = threading.Thread(target=listener.run, daemon=True)
        thread.start()
        try:
            listener.brokers.get(timeout=DONE_S)
            yield listener
        finally:
            listener.should_stop = True
            thread.join(20)
            assert not thread.is_alive()


def test_a_consumer_goes_on_at_another_node(tmp_path: Path) -> None:
    """ConsumerMixin and `ensure`, brokers as a failover list: no confirmed message is lost."""
    exchange = Exchange("media", "direct", durable=True)
    video = Queue("video", exchange=exchange, routing_key="video")
    with Cluster(tmp_path) as cluster:
        with (
            listening(urls(cluster.addresses("a")), video) as listener,
            Connection(
                urls(cluster.addresses("a")), transport_options={"confirm_publish": True}
            ) as connection,
        ):
            producer = connection.Producer(serializer="json")
            for number in range(100):
                if number == 40:
                    cluster.kill("a")
                producer.publish(
                    {"number": number}, exchange=exchange, routing_key="video", declare=[video],
                    retry=True, retry_policy={"max_retries": 30, "interval_max": 0.3},
                )  # fmt: skip
            until(
                "all is heard",
                lambda: {body["number"] for body in listener.heard} == set(range(100)),
                30,
            )
        reset_pools()


def test_simple_queues(brokers: list[Address], name: str) -> None:
    """`SimpleQueue`: put on one node, get and requeue on another, until it is empty."""
    with (
        Connection(brokers[0].url) as here,
        Connection(brokers[-1].url) as there,
        here.SimpleQueue(name) as sending,
        there.SimpleQueue(name) as receiving,
    ):
        for number in range(10):
            sending.put({"number": number}, compression="zlib")
        first = receiving.get(timeout=DONE_S)
        first.requeue()
        numbers = []
        for _ in range(10):
            message = receiving.get(timeout=DONE_S)
            numbers.append(message.payload["number"])
            message.ack()
        assert sorted(numbers) == list(range(10))
        with pytest.raises(queue.Empty):
            receiving.get_nowait()
        assert receiving.qsize() == 0
        assert sending.clear() == 0


def test_queues_with_all_of_kombu_s_options(brokers: list[Address], name: str) -> None:
    """`expires`, `message_ttl`, `max_length`, `max_priority`: kombu turns them into arguments."""
    exchange = Exchange(name, "topic", durable=False, auto_delete=True)
    full = Queue(
        name, exchange, "some.#", durable=False, auto_delete=True, expires=60.0, message_ttl=30.0,
        max_length=100, max_length_bytes=1_000_000, max_priority=3,
    )  # fmt: skip
    with Connection(brokers[0].url) as here, Connection(brokers[-1].url) as there:
        bound = full(here.channel())
        bound.declare()
        # The same declaration from elsewhere is equivalent, and its binding is the same one.
        full(there.channel()).declare()
        there.Producer().publish(
            "text", exchange=name, routing_key="some.key", priority=2, expiration=20
        )
        message = until("the message is there", bound.get, 10)
        assert message.payload == "text"
        assert message.properties["expiration"] == "20000"
        message.ack()
        other = Queue(name, exchange, "some.#", durable=True)
        with pytest.raises(there.channel_errors) as refused:
            other(there.channel()).declare()
        assert refused.value.code == 406
        bound.unbind_from(exchange, "some.#")
        bound.delete()
