"""What a node holds for each thing its clients have: bytes by tracemalloc, for 1,000 of them.

In: nothing. Out: a `Holding` per kind of thing. Counted is what Python's allocators were asked for
below the node; sockets, transports and the allocators' own losses come on top in a process.
"""

import gc
import tracemalloc
from collections.abc import Callable
from typing import NamedTuple

from fedq.amqp.content import NO_PROPERTIES
from fedq.amqp.methods import BasicConsume, ExchangeDeclare, QueueBind, QueueDeclare
from tests.cost.meters import source_name
from tests.cost.rig import Rig
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import PERSISTENT

#: How many there are of each thing. As many again come first: tables grow in leaps, and the first
#: of a kind fills caches.
COUNT = 1_000
SITES_MAX = 12


class Kind(NamedTuple):
    """A thing to be weighed: `prepare` makes a rig, and a function that adds one or more things."""

    name: str
    prepare: Callable[[], tuple[Rig, Callable[[int, int], None]]]


class Holding(NamedTuple):
    """Bytes for each thing, and the places in the source that allocated most of them."""

    bytes_each: float
    sites: dict[str, float]


def _settled(rig: Rig) -> None:
    rig.pass_ms(200)
    gc.collect()


def weigh(kind: Kind) -> Holding:
    """What one more thing of this kind occupies."""
    rig, add = kind.prepare()
    add(0, COUNT)
    _settled(rig)
    tracemalloc.start(1)
    try:
        # Once more what is there for a moment only, so that it is not taken for what is kept.
        _settled(rig)
        before, _ = tracemalloc.get_traced_memory()
        add(COUNT, COUNT)
        _settled(rig)
        after, _ = tracemalloc.get_traced_memory()
        snapshot = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    sites: dict[str, float] = {}
    for found in snapshot.statistics("lineno")[:SITES_MAX]:
        place = found.traceback[0]
        sites[f"{source_name(place.filename)}:{place.lineno}"] = found.size / COUNT
    return Holding((after - before) / COUNT, sites)


def _connections(channels: int) -> tuple[Rig, Callable[[int, int], None]]:
    rig = Rig()

    def add(_: int, count: int) -> None:
        for _ in range(count):
            rig.client(channels=channels, kept=False)

    return rig, add


def _subscribers() -> tuple[Rig, Callable[[int, int], None]]:
    rig = Rig()
    rig.client(ExchangeDeclare("fan", "fanout"))

    def add(first: int, count: int) -> None:
        for number in range(first, first + count):
            queue = f"sub.{number}"
            rig.client(
                QueueDeclare(queue, exclusive=True),
                QueueBind(queue, "fan"),
                BasicConsume(queue, "c", no_ack=True),
                kept=False,
            )

    return rig, add


def _messages(*, durable: bool, consumed: bool) -> tuple[Rig, Callable[[int, int], None]]:
    rig = Rig()
    producer = rig.client(QueueDeclare("orders", durable=durable))
    if consumed:
        rig.client(BasicConsume("orders", "c"), kept=False)
    properties = PERSISTENT if durable else NO_PROPERTIES

    def add(first: int, count: int) -> None:
        for start in range(first, first + count, 100):
            rig.say(
                producer,
                b"".join(
                    publish(1, "", "orders", b"%016d" % number, properties)
                    for number in range(start, start + 100)
                ),
            )

    return rig, add


KINDS = (
    Kind("connection", lambda: _connections(0)),
    Kind("connection, channel", lambda: _connections(1)),
    Kind("subscriber", _subscribers),
    Kind("message of 16 bytes, queued", lambda: _messages(durable=False, consumed=False)),
    Kind("message of 16 bytes, persistent", lambda: _messages(durable=True, consumed=False)),
    Kind("message of 16 bytes, unacknowledged", lambda: _messages(durable=False, consumed=True)),
)
