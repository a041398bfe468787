"""Filters of streams, as stock clients say them: who asks for some messages gets those alone."""

from typing import Any

import pytest

from tests.integration.stock import pika
from tests.integration.surface import Inbox, Stage, arrives, only_fedq, refused

# RabbitMQ has filters since 3.13, and leaves it to clients to look once more.
pytestmark = [pytest.mark.slow, only_fedq]

REGIONS = (None, "eu", "us")


def stream(stage: Stage, count: int) -> str:
    """A stream with messages of no region, of "eu", of "us" in turn: b"0", b"1" and so on."""
    queue = stage.queue(durable=True, queue_type="stream")
    for number in range(count):
        put(stage, queue, number)
    return queue


def put(stage: Stage, queue: str, number: int) -> None:
    region = REGIONS[number % len(REGIONS)]
    headers = {"x-stream-filter-value": region, "n": number} if region else {"n": number}
    properties = pika.BasicProperties(headers=headers, delivery_mode=2)
    stage.publisher.basic_publish("", queue, b"%d" % number, properties)


def begin(stage: Stage, queue: str, **arguments: Any) -> Inbox:
    """A reader that has begun when this returns."""
    inbox = Inbox(stage.channel(), queue, ack=True, prefetch=5, **arguments)
    arrives(inbox.channel)
    return inbox


@pytest.mark.parametrize(
    ("wanted", "more", "regions"),
    [
        ("eu", {}, ["eu"]),
        (["us", "eu"], {}, ["eu", "us"]),
        ("us", {"stream_match_unfiltered": True}, [None, "us"]),
        (["us"], {"stream_match_unfiltered": False}, ["us"]),
    ],
)
def test_a_reader_gets_what_it_asked_for(
    stage: Stage, wanted: object, more: dict[str, Any], regions: list[str | None]
) -> None:
    queue = stream(stage, 30)
    inbox = begin(stage, queue, stream_offset="first", stream_filter=wanted, **more)
    late = begin(stage, queue, stream_offset="next", stream_filter=wanted, **more)
    for number in range(30, 60):
        put(stage, queue, number)
    expected = [number for number in range(60) if REGIONS[number % 3] in regions]
    got = inbox.wait(len(expected), late)
    assert [message.headers["n"] for message in got] == expected
    assert [message.headers["x-stream-offset"] for message in got] == expected
    later = [number for number in expected if number >= 30]
    assert [message.headers["n"] for message in late.wait(len(later))] == later


@pytest.mark.parametrize("wanted", [7, {"a": "eu"}, ["eu", 7], [], "x" * 256, ["eu"] * 65])
def test_what_makes_no_sense_is_refused(stage: Stage, wanted: object) -> None:
    queue = stage.queue(durable=True, queue_type="stream")
    with refused(406, f"invalid arg 'x-stream-filter' for queue '{queue}' in vhost '/': "):
        begin(stage, queue, stream_filter=wanted)
