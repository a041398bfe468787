"""Claim: compiled, a publish is parsed and a delivery written in a twentieth of a microsecond.

Each step is measured with both twins where they are built, the compiled one as `compiled`, the
Python source as `pure`.

Alike: one publisher that repeats itself. Sizes: one route, and bodies of 16 to 79 bytes, none like
the one before. Keys: every message has a key of its own, too, so every run is of one message.
"""

from functools import partial
from types import ModuleType
from typing import Final

from fedq.amqp.content import encode_properties
from fedq.amqp.method_types import BasicPublish
from fedq.amqp.methods import encode_method
from fedq.amqp.spec import BASIC, ids_bytes
from fedq.core import message
from loadtests.micro.timing import Case
from tests.twins import COMPILED, PURE, extension_of, twin

BATCH: Final = 200
FRAME_BYTES_MAX: Final = 131_072
PROPERTIES: Final = encode_properties({"delivery_mode": 2})
BASIC_HEADER: Final = ids_bytes(BASIC)
ALIKE, SIZES, KEYS = "alike", "sizes", "keys"


def body(number: int, mix: str) -> bytes:
    """The body of the message with this number."""
    return b"x" * (64 if mix == ALIKE else 16 + number % 64)


def key(number: int, mix: str) -> str:
    """The routing key of the message with this number."""
    return f"stock.nyse.{number}" if mix == KEYS else "stock.nyse.ibm"


def publishes(frames: ModuleType, mix: str) -> bytes:
    """A batch of publishes as a client sends them."""
    parts: list[bytes] = []
    for number in range(BATCH):
        content = body(number, mix)
        method = BasicPublish(exchange="amq.topic", routing_key=key(number, mix))
        header = BASIC_HEADER + len(content).to_bytes(8) + PROPERTIES
        parts += [encode_method(1, method), frames.frame(2, 1, header), frames.frame(3, 1, content)]
    return b"".join(parts)


def messages(mix: str) -> list[bytes]:
    """The same batch as a queue holds it."""
    return [
        message.encode(
            1, message.make_route("amq.topic", key(number, mix)), PROPERTIES, body(number, mix)
        )
        for number in range(BATCH)
    ]


def cases_of(kind: str) -> list[Case]:
    """All steps with the twins of this kind."""
    frames, parser, settlements, deliveries = (
        twin(f"fedq.amqp.{name}", kind)
        for name in ("frames", "publishes", "settlements", "deliveries")
    )
    acks = b"".join(deliveries.ack_frame(1, tag, False) for tag in range(1, BATCH + 1))

    def parse(data: bytes, checked: dict[bytes, int]) -> None:
        stopped = parser.take_publishes(data, 0, FRAME_BYTES_MAX, checked, [])
        assert stopped == len(data), "all of it is parsed"

    def deliver(batch: list[bytes]) -> None:
        deliveries.append_deliveries([], 1, "ctag1.0", 1, batch, None, FRAME_BYTES_MAX)

    def settle() -> None:
        assert settlements.take_settles(acks, 0, []) == len(acks), "all of it is parsed"

    found: list[Case] = []
    checked: dict[bytes, int] = {}
    for mix in (ALIKE, SIZES, KEYS):
        data, held = publishes(frames, mix), messages(mix)
        found += [
            Case(f"publish parse, {mix}, {kind}", BATCH, partial(parse, data, checked)),
            Case(f"deliver encode, {mix}, {kind}", BATCH, partial(deliver, held)),
        ]
    single, held = publishes(frames, ALIKE), messages(ALIKE)[:1]
    single = single[: len(single) // BATCH]
    return [
        *found,
        Case(f"ack parse, {kind}", BATCH, settle),
        Case(f"publish parse, one in a read, {kind}", 1, lambda: parse(single, checked)),
        Case(f"frame scan, {kind}", 1, lambda: frames.scan_frame(single, 0, FRAME_BYTES_MAX)),
        Case(f"deliver encode, one, {kind}", 1, lambda: deliver(held)),
        Case(f"confirm encode, {kind}", 1, lambda: deliveries.ack_frame(1, 7, False)),
    ]


KINDS = [PURE, COMPILED] if extension_of("fedq.amqp.publishes") else [PURE]
# One next to the other, so that what disturbs the machine disturbs both.
CASES = [case for pair in zip(*map(cases_of, KINDS), strict=True) for case in pair]
