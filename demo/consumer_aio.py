"""A stock consumer on asyncio: aio-pika, prefetch, manual acknowledgements.

    python -m demo.consumer_aio QUEUE RECORDS HOST:PORT… [--prefetch N]

The same contract as `demo.consumer`.
"""

import argparse
import asyncio
import logging
import signal
from pathlib import Path

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

from demo import records
from demo.addresses import PAUSE_S, Rotation, parse_address

FLUSH_S = 0.05
CONNECT_S = 5.0


async def consume(
    recorder: records.Recorder, options: argparse.Namespace, rotation: Rotation
) -> None:
    """Consumes over one connection until it breaks; raises what broke it."""
    address = rotation.next()
    connection = await aio_pika.connect(f"{address.url}?heartbeat=5", timeout=CONNECT_S)
    try:
        async with asyncio.timeout(CONNECT_S):
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=options.prefetch)
            queue = await channel.get_queue(options.queue, ensure=False)
        closed: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

        def on_close(_sender: object, error: BaseException | None) -> None:
            if not closed.done():
                closed.set_result(error)

        async def on_message(message: AbstractIncomingMessage) -> None:
            publisher, sequence, attempt = records.parse_body(message.body)
            redelivered = bool(message.redelivered)
            recorder.write(records.DELIVERED, publisher, sequence, attempt, redelivered)
            await message.ack()

        connection.close_callbacks.add(on_close)
        channel.close_callbacks.add(on_close)
        async with asyncio.timeout(CONNECT_S):
            await queue.consume(on_message)
        recorder.write(records.CONNECTED, f"{address.host}:{address.port}")
        rotation.succeeded()
        error = await closed
        raise error if isinstance(error, Exception) else ConnectionError("closed by the broker")
    finally:
        await connection.close()


async def flush_often(recorder: records.Recorder) -> None:
    """Makes the records visible while nothing else happens."""
    while True:
        await asyncio.sleep(FLUSH_S)
        recorder.flush()


async def run(options: argparse.Namespace) -> None:
    """Consumes until SIGTERM."""
    recorder = records.Recorder(options.records)
    rotation = Rotation(options.addresses)
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    flusher = asyncio.create_task(flush_often(recorder))
    try:
        while True:
            try:
                await consume(recorder, options, rotation)
            except (aio_pika.exceptions.AMQPError, OSError, TimeoutError, RuntimeError) as error:
                recorder.write(records.LOST, repr(error))
                await asyncio.sleep(PAUSE_S)
    except asyncio.CancelledError:
        recorder.write(records.FINISHED, "all")
    finally:
        flusher.cancel()
        recorder.close()


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("queue")
    parser.add_argument("records", type=Path)
    parser.add_argument("addresses", nargs="+", type=parse_address)
    parser.add_argument("--prefetch", type=int, default=100)
    for name in ("aio_pika", "aiormq", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(run(parser.parse_args()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
