"""The examples of the adapters that work by callbacks: `SelectConnection` and asyncio."""

import asyncio
import functools
from typing import Any

import pika  # type: ignore[import-untyped]
from pika.adapters.asyncio_connection import (  # type: ignore[import-untyped]
    AsyncioConnection,
)

from conformance.scenarios.pika.broker import PATIENCE_S, fresh, parameters

MESSAGES = 50


class Journey:
    """The asynchronous publisher and consumer of the documentation, in one connection.

    Step by step by callbacks: open, channel, exchange, queue, bind, qos, confirm, consume, publish,
    acknowledge, cancel, close.
    """

    def __init__(self) -> None:
        self.exchange, self.queue, self.key = fresh("events"), fresh("events"), "example.text"
        self.confirmed = 0
        self.bodies: list[bytes] = []
        self.closed_with = ""
        self.channel: Any = None
        self.tag = ""

    def on_open(self, connection: Any) -> None:
        """The connection is open."""
        connection.channel(on_open_callback=self.on_channel)

    def on_channel(self, channel: Any) -> None:
        """The channel is open."""
        self.channel = channel
        channel.exchange_declare(
            self.exchange, exchange_type="topic", auto_delete=True, callback=self.on_exchange
        )

    def on_exchange(self, _frame: object) -> None:
        """The exchange is there."""
        self.channel.queue_declare(self.queue, auto_delete=True, callback=self.on_queue)

    def on_queue(self, _frame: object) -> None:
        """The queue is there."""
        self.channel.queue_bind(
            self.queue, self.exchange, routing_key=self.key, callback=self.on_bound
        )

    def on_bound(self, _frame: object) -> None:
        """The queue is bound."""
        self.channel.basic_qos(prefetch_count=5, callback=self.on_qos)

    def on_qos(self, _frame: object) -> None:
        """The prefetch count is set."""
        self.channel.confirm_delivery(ack_nack_callback=self.on_confirm, callback=self.on_mode)

    def on_mode(self, _frame: object) -> None:
        """The channel confirms from now on."""
        self.tag = self.channel.basic_consume(self.queue, self.on_message)
        for number in range(MESSAGES):
            self.channel.basic_publish(self.exchange, self.key, str(number).encode())

    def on_confirm(self, frame: Any) -> None:
        """Some publishes are safe."""
        assert isinstance(frame.method, pika.spec.Basic.Ack)
        self.confirmed = max(self.confirmed, frame.method.delivery_tag)
        self._end_when_done()

    def on_message(self, channel: Any, method: Any, _properties: object, body: bytes) -> None:
        """A message came."""
        self.bodies.append(body)
        channel.basic_ack(method.delivery_tag)
        self._end_when_done()

    def _end_when_done(self) -> None:
        if len(self.bodies) == MESSAGES and self.confirmed == MESSAGES and self.tag:
            tag, self.tag = self.tag, ""
            self.channel.basic_cancel(tag, callback=lambda _frame: self.channel.connection.close())

    def check(self) -> None:
        """What must have happened."""
        assert self.bodies == [str(number).encode() for number in range(MESSAGES)]
        assert self.confirmed == MESSAGES
        assert "Normal shutdown" in self.closed_with


def test_select_connection() -> None:
    """The whole journey over `SelectConnection`."""
    journey = Journey()

    def on_closed(connection: Any, reason: object) -> None:
        journey.closed_with = str(reason)
        connection.ioloop.stop()

    connection = pika.SelectConnection(
        parameters(),
        on_open_callback=journey.on_open,
        on_open_error_callback=on_closed,
        on_close_callback=on_closed,
    )
    connection.ioloop.call_later(PATIENCE_S, connection.ioloop.stop)
    connection.ioloop.start()
    journey.check()


def test_asyncio_connection() -> None:
    """The whole journey over `AsyncioConnection`."""

    async def travel() -> Journey:
        journey = Journey()
        ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def end(_connection: object, reason: object) -> None:
            ended.set_result(str(reason))

        AsyncioConnection(
            parameters(),
            on_open_callback=journey.on_open,
            on_open_error_callback=end,
            on_close_callback=end,
        )
        journey.closed_with = await asyncio.wait_for(ended, PATIENCE_S)
        return journey

    asyncio.run(travel()).check()


def test_connection_refused_is_an_error_callback() -> None:
    """Where nobody listens, the error callback comes, and none of the others."""
    errors: list[object] = []

    def on_error(connection: Any, error: object) -> None:
        errors.append(error)
        connection.ioloop.stop()

    nobody = pika.ConnectionParameters(host="127.0.0.1", port=1, connection_attempts=1)
    connection = pika.SelectConnection(
        nobody,
        on_open_callback=functools.partial(errors.append),
        on_open_error_callback=on_error,
    )
    connection.ioloop.start()
    assert len(errors) == 1
    assert isinstance(errors[0], Exception)
