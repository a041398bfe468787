"""What a broker would send to the generator's consumers, made by fedq's own encoder."""

import struct
from collections.abc import Sequence

from fedq.amqp.content import Body, encode_properties
from fedq.amqp.deliveries import append_deliveries
from fedq.bench.blocks import PRODUCER_SHIFT
from fedq.core.message import encode

CHANNEL = 1
TAG = "00000000"


def number_of(sequence: int, producer: int = 0) -> int:
    """A message's number."""
    return producer << PRODUCER_SHIFT | sequence


def body(number: int, time_ns: int = 0, padding: int = 0) -> bytes:
    """The body of a message."""
    return struct.pack("<QQ", number, time_ns) + b"x" * padding


def deliveries(
    bodies: Sequence[bytes], tag: str = TAG, first_tag: int = 1, key: str = "queue",
    persistent: bool = False,
) -> bytes:  # fmt: skip
    """basic.deliver frames with these contents."""
    route = b"\0" + bytes((len(key),)) + key.encode()
    properties = encode_properties({"delivery_mode": 2} if persistent else {})
    messages = [encode(0, route, properties, each) for each in bodies]
    parts: list[Body] = []
    append_deliveries(parts, CHANNEL, tag, first_tag, messages, None, 131_072)
    return b"".join(parts)


def numbered(numbers: Sequence[int], padding: int = 0, tag: str = TAG) -> bytes:
    """Deliveries of these messages; each was sent at its number in nanoseconds."""
    return deliveries([body(number, number, padding) for number in numbers], tag)


def redelivered(delivery: bytes) -> bytes:
    """The same delivery, come back from another consumer; its tag has 8 bytes."""
    return delivery[:28] + b"\1" + delivery[29:]
