"""A stage for the tests of the AMQP surface: who declares, who publishes, who consumes, and where.

One feature, several places (`PLACES`): one node; three nodes with publishers and consumers on nodes
that do not serve the queue; a queue in three fragments; a private queue of the consumer's
connection. A test acts on a `Stage` and cannot tell the places apart: that is the point.

The fixture `stage` is in conftest.py.
`Stage.queue(message_ttl=100)` declares with `x-message-ttl`; names are unique; what a stage made
is deleted when it ends. `Inbox` is a consumer that keeps what it gets.
"""

import itertools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import pytest

from tests.integration.harness import eventually
from tests.integration.stock import Address, BlockingChannel, BlockingConnection, pika
from tests.integration.waiting import until
from tests.integration.wire import Wire

ChannelClosed = pika.exceptions.ChannelClosedByBroker
ConnectionClosed = pika.exceptions.ConnectionClosedByBroker

#: For `pytest.mark.parametrize("stage", …, indirect=True)`; a test without it runs on DEFAULT.
ONE, THREE, SPREAD, PRIVATE = "one", "three", "spread", "private"
DEFAULT = (ONE, THREE)
PLACES = (ONE, THREE, SPREAD, PRIVATE)
FRAGMENTS = 3

everywhere = pytest.mark.parametrize("stage", PLACES, indirect=True)
unless_private = pytest.mark.parametrize("stage", [ONE, THREE, SPREAD], indirect=True)
unless_spread = pytest.mark.parametrize("stage", [ONE, THREE, PRIVATE], indirect=True)
only_spread = pytest.mark.parametrize("stage", [SPREAD], indirect=True)

#: Another broker is under test: see conftest.py.
is_other = bool(os.environ.get("FEDQ_TEST_AMQP"))
only_fedq = pytest.mark.skipif(is_other, reason="RabbitMQ has no such thing")

Connect = Callable[..., BlockingConnection]

PUMP_S = 0.02
LOCKED = 405


class Message(NamedTuple):
    """One message as a client gets it."""

    method: Any
    properties: Any
    body: bytes

    @property
    def headers(self) -> dict[str, Any]:
        """Its headers; empty if it has none."""
        return dict(self.properties.headers or {})

    @property
    def deaths(self) -> list[dict[str, Any]]:
        """Its `x-death` entries, the latest first."""
        return list(self.headers.get("x-death") or [])


def bodies(messages: list[Message]) -> list[bytes]:
    """Only what they say."""
    return [message.body for message in messages]


def table(**words: Any) -> dict[str, object]:
    """`message_ttl=5` as the table {"x-message-ttl": 5}."""
    return {"x-" + word.replace("_", "-"): value for word, value in words.items()}


def pump(*channels: BlockingChannel) -> None:
    """Lets pika hand out what has arrived on the channels' connections."""
    for channel in channels:
        channel.connection.process_data_events(time_limit=PUMP_S)


@contextmanager
def refused(code: int, text: str = "") -> Iterator[None]:
    """The broker closes the channel or the connection with this code and these words (regex)."""
    with pytest.raises((ChannelClosed, ConnectionClosed)) as error:
        yield
    assert error.value.reply_code == code, error.value
    assert re.search(text, error.value.reply_text), error.value


def arrives(channel: BlockingChannel) -> None:
    """A question with an answer: raises what the broker has to say about things without one."""
    channel.exchange_declare("amq.direct", passive=True)


class Inbox:
    """A consumer that keeps what it gets."""

    def __init__(
        self, channel: BlockingChannel, queue: str, *, ack: bool = False,
        prefetch: int | None = None, exclusive: bool = False, **arguments: Any,
    ) -> None:  # fmt: skip
        """`ack`: whether it acknowledges by itself; `prefetch=None`: it is sent everything."""
        self.channel = channel
        self.messages: list[Message] = []
        self.cancelled = False
        self._acks = ack
        if prefetch is not None:
            channel.basic_qos(prefetch_count=prefetch)
        channel.add_on_cancel_callback(self._on_cancel)
        self.tag: str = channel.basic_consume(
            queue, self._on_message, exclusive=exclusive, arguments=table(**arguments)
        )

    def _on_message(
        self, channel: BlockingChannel, method: Any, properties: Any, body: bytes
    ) -> None:
        self.messages.append(Message(method, properties, body))
        if self._acks:
            channel.basic_ack(method.delivery_tag)

    def _on_cancel(self, frame: Any) -> None:
        self.cancelled = self.cancelled or frame.method.consumer_tag == self.tag

    @property
    def bodies(self) -> list[bytes]:
        """What has come so far."""
        return bodies(self.messages)

    def wait(self, count: int, *others: "Inbox") -> list[Message]:
        """Waits until so many have come; the others are served meanwhile."""
        channels = [self.channel, *(other.channel for other in others)]

        def have_come() -> bool:
            pump(*channels)
            return len(self.messages) >= count

        until(f"{count} messages arrive at a consumer ({self.bodies[:20]} so far)", have_come)
        assert len(self.messages) == count, self.bodies
        return self.messages

    def ack(self, index: int = -1, multiple: bool = False) -> None:
        """Acknowledges one of its messages."""
        self.channel.basic_ack(self.messages[index].method.delivery_tag, multiple)

    def give_back(self, index: int = -1) -> None:
        """Returns one of its messages to the queue."""
        self.channel.basic_nack(self.messages[index].method.delivery_tag, requeue=True)

    def forget(self) -> None:
        """Acknowledges what it has and begins with an empty list."""
        if self.messages and not self._acks:
            self.ack(multiple=True)
        self.messages.clear()

    def cancel(self) -> None:
        """Ends the consumer; it keeps what it holds."""
        self.channel.basic_cancel(self.tag)


class Stage:
    """Connections to the places of a test, and everything that it declares there."""

    def __init__(
        self, addresses: list[Address], open_connection: Connect, name: str, place: str
    ) -> None:
        """Owners act on the first node, publishers on a middle one, consumers on the last."""
        self.place = place
        self.name = name
        self._addresses = {
            "owner": addresses[0],
            "publisher": addresses[len(addresses) // 2],
            "consumer": addresses[-1],
        }
        self._open = open_connection
        self._numbers = itertools.count(1)
        self._queues: list[str] = []
        self._exchanges: list[str] = []
        self.owner = self.channel("owner")
        self.publisher = self.channel("publisher")
        self.publisher.confirm_delivery()
        self.consumer = self.channel("consumer")
        self._probe = self.consumer.connection.channel()

    def channel(self, role: str = "consumer", **parameters: object) -> BlockingChannel:
        """A channel of a new connection where that role acts."""
        return self._open(self._addresses[role], **parameters).channel()

    def address(self, role: str) -> Address:
        """Where that role connects."""
        return self._addresses[role]

    def unused(self, word: str = "q") -> str:
        """A name that nobody has; what is declared under it later is deleted with the stage."""
        name = f"{self.name}-{word}{next(self._numbers)}"
        self._queues.append(name)
        return name

    # --- declaring --------------------------------------------------------------------------------

    def arguments(self, **words: Any) -> dict[str, object]:
        """A queue's arguments in this place."""
        wide: dict[str, object] = {"fedq_fragments": FRAGMENTS} if self.place == SPREAD else {}
        return table(**(wide | words))

    def queue(self, name: str = "", durable: bool = False, **words: Any) -> str:
        """Declares a queue on the owner's node (a private one: on the consumer's connection)."""
        name = name or self.unused()
        arguments = self.arguments(**words)
        if self.place == PRIVATE:
            self.consumer.connection.channel().queue_declare(
                name, durable=durable, exclusive=True, arguments=arguments
            )
        else:
            self.owner.connection.channel().queue_declare(
                name, durable=durable, arguments=arguments
            )
        return name

    def quorum(self, name: str = "", **words: Any) -> str:
        """Declares a queue of the type `quorum`."""
        return self.queue(name, durable=True, queue_type="quorum", **words)

    def exchange(self, kind: str = "direct", internal: bool = False, **arguments: Any) -> str:
        """Declares an exchange; arguments are spelled as they are, with - for _."""
        name = f"{self.name}-{kind}{next(self._numbers)}"
        spelled = {word.replace("_", "-"): value for word, value in arguments.items()}
        self.owner.connection.channel().exchange_declare(
            name, kind, internal=internal, arguments=spelled
        )
        self._exchanges.append(name)
        return name

    def bind(self, queue: str, exchange: str, key: str = "", **arguments: Any) -> None:
        """Binds from the consumer's connection."""
        self._probe.queue_bind(queue, exchange, key, arguments=dict(arguments))

    def bound(self, exchange: str, key: str = "", **words: Any) -> str:
        """A new queue with one binding."""
        queue = self.queue(**words)
        self.bind(queue, exchange, key)
        return queue

    def close(self) -> None:
        """Hangs up and deletes what was declared; exclusive queues go with their connections."""
        for channel in (self.owner, self.publisher, self.consumer):
            with suppress(pika.exceptions.AMQPError):
                channel.connection.close()
        if not (self._queues or self._exchanges):
            return
        sweeper = self.channel("owner")
        for queue in self._queues:
            try:
                sweeper.queue_delete(queue)
            except ChannelClosed as error:
                if error.reply_code != LOCKED:
                    raise
                # On its way out with a connection that the test opened.
                sweeper = sweeper.connection.channel()
        for exchange in self._exchanges:
            sweeper.exchange_delete(exchange)

    # --- messages ---------------------------------------------------------------------------------

    def put(self, queue: str, *texts: bytes, **properties: Any) -> None:
        """Publishes to the queue and waits for each confirm."""
        for text in texts:
            self.send("", queue, text, **properties)

    def send(
        self, exchange: str, key: str, text: bytes, mandatory: bool = False, **properties: Any
    ) -> None:
        """Publishes one message and waits for its confirm; raises if it is nacked or returned."""
        self.publisher.basic_publish(
            exchange, key, text, pika.BasicProperties(**properties), mandatory=mandatory
        )

    def flood(
        self, texts: Sequence[bytes], key: str = "", exchange: str = "", role: str = "publisher"
    ) -> None:
        """Publishes all at once and waits for the confirms; without a key the text is the key."""
        with Wire(self._addresses[role]) as wire:
            wire.open_channel(1)
            wire.call(1, pika.spec.Confirm.Select(), pika.spec.Confirm.SelectOk)
            for text in texts:
                wire.publish(1, exchange, key or text.decode(), text)
            # Messages to several queues may be confirmed out of their order.
            missing = set(range(1, len(texts) + 1))
            while missing:
                ack = wire.expect(1, pika.spec.Basic.Ack)
                last = ack.delivery_tag
                missing -= set(range(1, last + 1)) if ack.multiple else {last}

    def depth(self, queue: str) -> int:
        """Ready messages of the whole queue."""
        return int(self._probe.queue_declare(queue, passive=True).method.message_count)

    def wait_depth(self, queue: str, count: int) -> None:
        """Waits until the queue has so many ready messages."""
        eventually(
            f"{queue} has {count} ready messages (has {self.depth(queue)})",
            lambda: self.depth(queue) == count,
        )

    def take(self, queue: str) -> Message | None:
        """Gets one message and keeps it unacknowledged on the consumer's channel."""
        method, properties, body = self.consumer.basic_get(queue)
        return Message(method, properties, body) if method else None

    def hold(self, queue: str) -> Message:
        """As `take`, once there is one."""
        found = until(f"there is a message in {queue}", lambda: self.take(queue))
        assert found is not None
        return found

    def drain(self, queue: str, count: int) -> list[Message]:
        """Waits for exactly so many ready messages and takes them out."""
        self.wait_depth(queue, count)
        found: list[Message] = []
        while len(found) < count:
            method, properties, body = self.consumer.basic_get(queue, auto_ack=True)
            assert method, f"get-empty after {len(found)} of {count} messages of {queue}"
            found.append(Message(method, properties, body))
        assert self.consumer.basic_get(queue, auto_ack=True)[0] is None
        return found

    def reject(self, message: Message, requeue: bool = False) -> None:
        """Rejects what `take` took."""
        self.consumer.basic_reject(message.method.delivery_tag, requeue)

    def is_there(self, queue: str) -> bool:
        """Whether the queue exists, asked without using it: whether a message finds it."""
        try:
            self.send("", queue, b"are you there?", mandatory=True, expiration="0")
        except pika.exceptions.UnroutableError:
            return False
        return True

    def let_pass(self, milliseconds: int) -> None:
        """Returns when a message of that age has expired: the broker's own clock."""
        name = self.unused("clock")
        channel = self.owner.connection.channel()
        channel.queue_declare(name, arguments=table(message_ttl=milliseconds))
        self.put(name, b"tick")
        eventually(
            f"a message expires after {milliseconds} ms",
            lambda: channel.queue_declare(name, passive=True).method.message_count == 0,
        )
        channel.close()
