"""Claim: publishes are parsed and deliveries encoded in batches, near a microsecond each.

Alike: one publisher that repeats itself, which the parser and the encoder take advantage of.
Mixed: every message has its own key and size, which leaves them no such advantage.
"""

from fedq.amqp.content import encode_properties
from fedq.amqp.deliveries import ack_frame, append_deliveries
from fedq.amqp.frames import frame
from fedq.amqp.method_types import BasicPublish
from fedq.amqp.methods import encode_method
from fedq.amqp.publishes import PublishRun, take_publishes
from fedq.amqp.settlements import Settle, take_settles
from fedq.core import message
from loadtests.micro.timing import Case

BATCH = 200
FRAME_BYTES_MAX = 131_072
PROPERTIES = encode_properties({"delivery_mode": 2})
BASIC_HEADER = b"\x00\x3c\x00\x00"


def body(number: int, is_mixed: bool) -> bytes:
    """The body of the message with this number."""
    return b"x" * (100 + (number % 64 if is_mixed else 0))


def key(number: int, is_mixed: bool) -> str:
    """The routing key of the message with this number."""
    return f"stock.nyse.{number}" if is_mixed else "stock.nyse.ibm"


def publishes(is_mixed: bool) -> bytes:
    """A batch of publishes as a client sends them."""
    parts: list[bytes] = []
    for number in range(BATCH):
        content = body(number, is_mixed)
        method = BasicPublish(exchange="amq.topic", routing_key=key(number, is_mixed))
        header = BASIC_HEADER + len(content).to_bytes(8) + PROPERTIES
        parts += [encode_method(1, method), frame(2, 1, header), frame(3, 1, content)]
    return b"".join(parts)


def messages(is_mixed: bool) -> list[bytes]:
    """The same batch as a queue holds it."""
    return [
        message.encode(
            1, message.make_route("amq.topic", key(number, is_mixed)), PROPERTIES,
            body(number, is_mixed),
        )
        for number in range(BATCH)
    ]  # fmt: skip


def parse(data: bytes) -> int:
    """Parses the batch; returns how far it came."""
    batch: list[PublishRun] = []
    return take_publishes(data, 0, FRAME_BYTES_MAX, {}, batch)


def deliver(batch: list[bytes]) -> list[bytes]:
    """Encodes the batch for one consumer."""
    parts: list[bytes] = []
    append_deliveries(parts, 1, "ctag1.0", 1, batch, None, FRAME_BYTES_MAX)
    return parts


def settle(data: bytes) -> int:
    """Parses a batch of acknowledgements."""
    batch: list[Settle] = []
    return take_settles(data, 0, batch)


ALIKE, MIXED = publishes(False), publishes(True)
HELD_ALIKE, HELD_MIXED = messages(False), messages(True)
ACKS = b"".join(ack_frame(1, tag, False) for tag in range(1, BATCH + 1))
assert parse(ALIKE) == len(ALIKE)
assert parse(MIXED) == len(MIXED)
assert settle(ACKS) == len(ACKS)

CASES = [
    Case("publish parse, alike", BATCH, lambda: parse(ALIKE)),
    Case("publish parse, mixed", BATCH, lambda: parse(MIXED)),
    Case("deliver encode, alike", BATCH, lambda: deliver(HELD_ALIKE)),
    Case("deliver encode, mixed", BATCH, lambda: deliver(HELD_MIXED)),
    Case("ack parse", BATCH, lambda: settle(ACKS)),
]
