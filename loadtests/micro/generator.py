"""Claim: `fedq bench` makes a publish and checks a delivery in a fraction of a microsecond.

So it can load brokers that need one microsecond a message without being the limit. Alike and mixed
as in `wire`: mixed bodies have 16 to 79 bytes.
"""

import random

from fedq.amqp.content import NO_PROPERTIES, Body
from fedq.amqp.deliveries import append_deliveries
from fedq.bench.blocks import Block, Shape
from fedq.bench.columns import Reader
from fedq.bench.cut import TAG_BYTES
from fedq.bench.histogram import Histogram
from fedq.bench.ledger import Ledger, Members, Sequence
from fedq.core.message import encode, make_route
from loadtests.micro.timing import Case

BATCH = 256
_CHANCE = random.Random(1)
SIZES = {
    "alike": [16] * BATCH,
    "mixed": [_CHANCE.randint(16, 79) for _ in range(BATCH)],
}
BLOCKS = {
    name: Block(0, [Shape("", "queue", size) for size in sizes], is_persistent=False)
    for name, sizes in SIZES.items()
}


def deliveries(name: str) -> bytes:
    """The block's messages as a broker delivers them, sent in four pieces."""
    parts: list[Body] = []
    bodies = [
        number.to_bytes(8, "little") + (number // 64).to_bytes(8, "little") + bytes(size - 16)
        for number, size in enumerate(SIZES[name])
    ]
    route = make_route("", "queue")
    held = [encode(0, route, NO_PROPERTIES, each) for each in bodies]
    append_deliveries(parts, 1, "0" * TAG_BYTES, 1, held, None, 131_072)
    return b"".join(parts)


STREAMS = {name: deliveries(name) for name in SIZES}
HISTOGRAM = Histogram()


def check(name: str) -> Ledger:
    """Cuts the deliveries, compares their numbers with what is due, and records latencies."""
    ledger = Ledger({0: Sequence(Members(BATCH))})
    batch = Reader().take(STREAMS[name])
    ledger.take(batch.numbers)
    HISTOGRAM.record_since(batch.times, 1_000_000)
    return ledger


assert all(check(name).lost([BATCH]) == 0 for name in SIZES)

CASES = [
    Case("generator publish, alike", BATCH, lambda: BLOCKS["alike"].take(0, BATCH, 1)),
    Case("generator publish, mixed", BATCH, lambda: BLOCKS["mixed"].take(0, BATCH, 1)),
    Case("generator check, alike", BATCH, lambda: check("alike")),
    Case("generator check, mixed", BATCH, lambda: check("mixed")),
]
