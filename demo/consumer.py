"""A stock consumer: pika, prefetch, manual acknowledgements.

    python -m demo.consumer QUEUE RECORDS HOST:PORT… [--prefetch N]

It consumes until SIGTERM. When its connection breaks it goes to the next address. Every delivery
is written to its record file before it is acknowledged.
"""

import argparse
import signal
import time
from pathlib import Path
from typing import Any

from demo import records
from demo.addresses import Rotation, parse_address
from tests.integration.stock import connect, pika

TURN_S = 0.05


class StopAsked(BaseException):
    """SIGTERM arrived."""


def on_signal(*_: object) -> None:
    """Ends whatever the consumer is waiting for."""
    raise StopAsked


def consume(recorder: records.Recorder, options: argparse.Namespace, rotation: Rotation) -> None:
    """Consumes over one connection until it breaks."""
    address = rotation.next()
    try:
        connection = connect(address, heartbeat=5)
    except ValueError as error:
        # So pika says that a connection was reset in the moment in which it was made.
        raise ConnectionResetError(str(error)) from error
    channel = connection.channel()
    channel.basic_qos(prefetch_count=options.prefetch)
    flushed_s = time.monotonic()

    def on_message(channel: Any, method: Any, _properties: object, body: bytes) -> None:
        nonlocal flushed_s
        publisher, sequence, attempt = records.parse_body(body)
        recorder.write(records.DELIVERED, publisher, sequence, attempt, method.redelivered)
        channel.basic_ack(method.delivery_tag)
        if time.monotonic() - flushed_s > TURN_S:
            recorder.flush()
            flushed_s = time.monotonic()

    channel.basic_consume(options.queue, on_message)
    recorder.write(records.CONNECTED, f"{address.host}:{address.port}")
    rotation.succeeded()
    while channel.consumer_tags:
        connection.process_data_events(time_limit=TURN_S)
        recorder.flush()
    # A broker may cancel a consumer, for one when it can no longer serve the queue.
    connection.close()
    raise pika.exceptions.ConsumerCancelled("the broker cancelled the consumer")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("queue")
    parser.add_argument("records", type=Path)
    parser.add_argument("addresses", nargs="+", type=parse_address)
    parser.add_argument("--prefetch", type=int, default=100)
    options = parser.parse_args()
    recorder = records.Recorder(options.records)
    rotation = Rotation(options.addresses)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, on_signal)
    try:
        while True:
            try:
                consume(recorder, options, rotation)
            except (pika.exceptions.AMQPError, OSError) as error:
                recorder.write(records.LOST, repr(error))
                recorder.flush()
                rotation.rest()
    except StopAsked:
        recorder.write(records.FINISHED, "all")
        recorder.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
