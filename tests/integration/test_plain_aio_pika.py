"""The same broker through aio-pika, the usual asyncio client.

RabbitMQ passes all of it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractRobustConnection

from tests.integration.stock import Address

pytestmark = pytest.mark.slow

STEP_S = 20.0


def run(steps: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs the test's steps on a loop of their own, bounded."""

    async def bounded() -> None:
        async with asyncio.timeout(STEP_S):
            await steps()

    asyncio.run(bounded())


async def both_ends(
    brokers: list[Address],
) -> tuple[AbstractRobustConnection, AbstractRobustConnection]:
    """Connections to the first and the last node."""
    return await aio_pika.connect_robust(brokers[0].url), await aio_pika.connect_robust(
        brokers[-1].url
    )


async def depth(channel: AbstractChannel, queue: str) -> int:
    """Ready messages of the queue."""
    # A robust channel answers for a queue that it knows itself; the one below it asks the broker.
    below = await channel.get_underlay_channel()
    declared = await below.queue_declare(queue, passive=True)
    return int(declared.message_count or 0)


def test_publish_confirm_consume_ack(brokers: list[Address], name: str) -> None:
    async def steps() -> None:
        near, far = await both_ends(brokers)
        async with near, far:
            queue = await (await near.channel()).declare_queue(name, durable=True)
            sender = await far.channel(publisher_confirms=True)
            for number in range(20):
                message = aio_pika.Message(
                    b"%d" % number, delivery_mode=aio_pika.DeliveryMode.PERSISTENT
                )
                await sender.default_exchange.publish(message, routing_key=name)
            seen: list[bytes] = []
            async with queue.iterator() as deliveries:
                async for message_in in deliveries:
                    async with message_in.process():
                        seen.append(message_in.body)
                    if len(seen) == 20:
                        break
            assert seen == [b"%d" % number for number in range(20)]
            left = await (await far.channel()).declare_queue(name, passive=True)
            assert left.declaration_result.message_count == 0
            await left.delete()

    run(steps)


def test_callbacks_prefetch_and_cancel(brokers: list[Address], name: str) -> None:
    async def steps() -> None:
        near, far = await both_ends(brokers)
        async with near, far:
            queue = await (await near.channel()).declare_queue(name, auto_delete=False)
            held: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
            channel = await far.channel()
            await channel.set_qos(prefetch_count=2)
            remote = await channel.get_queue(name)
            keep: Callable[[AbstractIncomingMessage], Awaitable[None]] = held.put
            tag = await remote.consume(keep)
            sender = await near.channel()
            for number in range(4):
                await sender.default_exchange.publish(
                    aio_pika.Message(b"%d" % number), routing_key=name
                )
            first, second = await held.get(), await held.get()
            assert (first.body, second.body, held.qsize()) == (b"0", b"1", 0)
            await remote.cancel(tag)
            await first.ack()
            await second.reject(requeue=True)
            # A rejection has no answer: only the queue's count tells when it took effect.
            probe = await near.channel()
            while await depth(probe, name) != 3:
                pass
            bodies: list[bytes] = []
            while len(bodies) < 3:
                if message := await queue.get(no_ack=True, fail=False):
                    bodies.append(message.body)
            assert bodies == [b"1", b"2", b"3"]
            await queue.delete()

    run(steps)


def test_exchanges_and_returned_messages(brokers: list[Address], name: str) -> None:
    async def steps() -> None:
        near, far = await both_ends(brokers)
        async with near, far:
            channel = await near.channel(on_return_raises=True)
            exchange = await channel.declare_exchange(name, aio_pika.ExchangeType.TOPIC)
            queue = await (await far.channel()).declare_queue(exclusive=True)
            await queue.bind(exchange, "stock.#")
            await exchange.publish(aio_pika.Message(b"in"), routing_key="stock.nyse")
            message = await queue.get(no_ack=True)
            assert (message.body, message.routing_key) == (b"in", "stock.nyse")
            with pytest.raises(aio_pika.exceptions.DeliveryError):
                await exchange.publish(aio_pika.Message(b"out"), routing_key="weather")
            await exchange.delete()

    run(steps)


def test_errors_are_errors_and_the_connection_lives(brokers: list[Address], name: str) -> None:
    async def steps() -> None:
        near, far = await both_ends(brokers)
        async with near, far:
            with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):
                await (await near.channel()).declare_queue(name, passive=True)
            queue = await (await near.channel()).declare_queue(name)
            with pytest.raises(aio_pika.exceptions.ChannelPreconditionFailed):
                await (await far.channel()).declare_queue(name, durable=True)
            await queue.delete()

    run(steps)


def test_many_tasks_publish_and_consume_at_once(brokers: list[Address], name: str) -> None:
    """Ten publishers and three consumers on all nodes: everything arrives, in publisher order."""

    async def steps() -> None:
        connections = [await aio_pika.connect_robust(address.url) for address in brokers]
        first = await connections[0].channel()
        queue = await first.declare_queue(name)
        seen: list[tuple[int, int]] = []
        done = asyncio.Event()

        async def keep(message: AbstractIncomingMessage) -> None:
            publisher, number = message.body.split(b":")
            seen.append((int(publisher), int(number)))
            await message.ack()
            if len(seen) == 500:
                done.set()

        async def publish(publisher: int) -> None:
            channel = await connections[publisher % len(connections)].channel()
            for number in range(50):
                message = aio_pika.Message(b"%d:%d" % (publisher, number))
                await channel.default_exchange.publish(message, routing_key=name)

        consumer = await connections[-1].channel()
        await consumer.set_qos(prefetch_count=50)
        await (await consumer.get_queue(name)).consume(keep)
        await asyncio.gather(*(publish(publisher) for publisher in range(10)))
        await done.wait()
        for publisher in range(10):
            assert [n for p, n in seen if p == publisher] == list(range(50))
        await queue.delete(if_empty=False, if_unused=False)
        for connection in connections:
            await connection.close()

    run(steps)
