"""What is counted: the hot paths of issue 4's table, each as steps that can be repeated for ever.

A work is built once (clients connected, queues declared, steady state reached) and then stepped. A
step hands in bytes that real clients would send, runs the nodes until they are at rest, checks that
all deliveries and confirms came, and says how many items (messages, deliveries, subscribers) it was
about. Nothing is random but for a fixed seed.
"""

from collections.abc import Callable
from itertools import product
from random import Random
from typing import NamedTuple

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicQos,
    ConfirmSelect,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
    encode_method,
)
from fedq.amqp.spec import BASIC, BASIC_DELIVER, ids_bytes
from fedq.core.ids import ConnectionId, NodeId
from tests.cost.rig import Rig
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import PERSISTENT

DELIVER = ids_bytes(BASIC, BASIC_DELIVER)
QUEUE = "orders"
#: What one read of a socket brings at most.
READ_BYTES = 65_536
SUBSCRIBERS = 1_000


class Running(NamedTuple):
    """A work that has been built: the nodes, and one step, which returns its items."""

    rig: Rig
    step: Callable[[], int]


class Work(NamedTuple):
    """One figure to watch. Steps before counting warm up caches, windows and containers."""

    name: str
    build: Callable[[], Running]
    steps: int
    warm_up: int
    node: NodeId = NodeId("n1")


def _delivered(rig: Rig, consumer: ConnectionId) -> int:
    # The bodies here consist of digits: they never look like the opening of a delivery.
    return rig.heard(consumer).count(DELIVER)


def _consume(*, queue: str = QUEUE, no_ack: bool = True, tag: str = "c") -> BasicConsume:
    return BasicConsume(queue, tag, no_ack=no_ack)


def _acks(first: int, count: int) -> bytes:
    return b"".join(encode_method(1, BasicAck(tag)) for tag in range(first, first + count))


def _block(count: int, size: Callable[[int], int], exchange: str = "", key: str = QUEUE) -> bytes:
    return b"".join(
        publish(1, exchange, key, b"%d" % (number % 10) * size(number)) for number in range(count)
    )


# --- one producer, one consumer ------------------------------------------------------------------


def _one_to_one(count: int, size: Callable[[int], int], read_bytes: int) -> Running:
    rig = Rig()
    producer = rig.client(QueueDeclare(QUEUE))
    consumer = rig.client(_consume())
    rig.pass_ms(100)
    data = _block(count, size)

    def step() -> int:
        for start in range(0, len(data), read_bytes):
            rig.say(producer, data[start : start + read_bytes])
        assert _delivered(rig, consumer) == count
        return count

    step()
    return Running(rig, step)


def alike() -> Running:
    """Transient messages of 16 bytes, 200 a turn, automatic acknowledgements."""
    return _one_to_one(200, lambda _: 16, READ_BYTES)


def unlike() -> Running:
    """The same with bodies of 16 to 79 bytes: none is like the one before."""
    return _one_to_one(200, lambda number: 16 + number * 37 % 64, READ_BYTES)


def large() -> Running:
    """Bodies of 1 KiB in reads of 64 KiB, cut anywhere."""
    return _one_to_one(500, lambda _: 1_024, READ_BYTES)


def single() -> Running:
    """One transient message a turn: what latency consists of."""
    return _one_to_one(1, lambda _: 16, READ_BYTES)


# --- kept safe -----------------------------------------------------------------------------------


def _reliable(
    count: int, rig: Rig, publisher_at: str, consumer_at: str, **arguments: int
) -> Running:
    """Persistent messages; confirms; each step acknowledges the deliveries of the one before."""
    producer = rig.client(
        QueueDeclare(QUEUE, durable=True, arguments={**arguments}), ConfirmSelect()
    )
    rig.pass_ms(1_000)
    if publisher_at != "n1":
        producer = rig.client(ConfirmSelect(), node=publisher_at)
    consumer = rig.client(BasicQos(0, 200), _consume(no_ack=False), node=consumer_at)
    rig.pass_ms(1_000)
    data = b"".join(publish(1, "", QUEUE, b"%016d" % number, PERSISTENT) for number in range(count))
    # So that acknowledgements are as long as those of a consumer that has been there for a while.
    delivered = 0
    rig.heard(producer)

    def step() -> int:
        nonlocal delivered
        rig.put(producer, data, publisher_at)
        if delivered:
            rig.put(consumer, _acks(delivered - count + 1, count), consumer_at)
        rig.settle()
        assert _delivered(rig, consumer) == count
        assert rig.heard(producer), "no confirm came"
        delivered += count
        return count

    return Running(rig, step)


def persistent() -> Running:
    """Persistent, confirms, an acknowledgement each, 50 a turn, on one node."""
    return _reliable(50, Rig(), "n1", "n1")


def persistent_single() -> Running:
    """The same, one a turn."""
    return _reliable(1, Rig(), "n1", "n1")


def replicated() -> Running:
    """The same on three nodes with three copies; clients at the primary's node."""
    return _reliable(50, Rig(3), "n1", "n1", **{"x-fedq-replicas": 3})


def proxied() -> Running:
    """Published at n2, kept on n1 alone, consumed at n3."""
    return _reliable(50, Rig(3), "n2", "n3", **{"x-fedq-replicas": 1, "x-fedq-fragments": 1})


def spread() -> Running:
    """Persistent, confirms, 100 a turn, each to three of 20 queues, in no regular order."""
    dice = Random(1)
    rig = Rig()
    methods: list[Method] = [ExchangeDeclare("spread", "direct")]
    for number in range(20):
        queue = f"q{number}"
        methods += [QueueDeclare(queue, durable=True), _consume(queue=queue, tag=queue)]
    ways = [dice.sample(range(20), 3) for _ in range(100)]
    methods += [
        QueueBind(f"q{queue}", "spread", str(key)) for key, way in enumerate(ways) for queue in way
    ]
    consumer = rig.client(*methods)
    producer = rig.client(ConfirmSelect())
    rig.pass_ms(1_000)
    rig.heard(consumer)
    data = b"".join(publish(1, "spread", str(key), b"0" * 16, PERSISTENT) for key in range(100))

    def step() -> int:
        rig.heard(producer)
        rig.say(producer, data)
        assert _delivered(rig, consumer) == 300
        assert rig.heard(producer), "no confirm came"
        return 100

    return Running(rig, step)


# --- fan-out -------------------------------------------------------------------------------------


def _subscribe(queue: str, tag: str = "c") -> list[Method]:
    return [
        QueueDeclare(queue, exclusive=True),
        QueueBind(queue, "fan"),
        _consume(queue=queue, tag=tag),
    ]


def _fan_out(count: int, connections: int, queues_each: int) -> Running:
    rig = Rig()
    producer = rig.client(ExchangeDeclare("fan", "fanout"))
    consumers = [
        rig.client(
            *(
                method
                for queue in range(queues_each)
                for method in _subscribe(f"sub.{connection}.{queue}", f"c{queue}")
            ),
            # One speaks for all: parsing what 1,000 hear is not what is counted.
            kept=connection == 0,
        )
        for connection in range(connections)
    ]
    rig.pass_ms(1_000)
    _delivered(rig, consumers[0])
    data = _block(count, lambda _: 16, "fan", "")

    def step() -> int:
        rig.say(producer, data)
        assert _delivered(rig, consumers[0]) == count * queues_each
        return count * connections * queues_each

    return Running(rig, step)


def fan_out_paced() -> Running:
    """One message a turn to 1,000 private queues, one connection each: per delivery."""
    return _fan_out(1, SUBSCRIBERS, 1)


def fan_out_full() -> Running:
    """Ten messages a turn to the same."""
    return _fan_out(10, SUBSCRIBERS, 1)


def fan_out_channels() -> Running:
    """Ten messages a turn to 100 consumers on each of 10 connections."""
    return _fan_out(10, 10, 100)


# --- topics --------------------------------------------------------------------------------------

_WORDS = ("red", "green", "blue", "black", "white", "grey", "pink", "brown")


def topics() -> Running:
    """2,000 bindings with wildcards in all places, 20 on each of 100 queues; every key is new."""
    dice = Random(1)
    rig = Rig()
    patterns = [".".join(words) for words in product([*_WORDS, "*", "#"], repeat=3)]
    dice.shuffle(patterns)
    # The widest would send everything everywhere; the rest is rare enough for a few matches each.
    chosen = sorted(patterns, key=lambda pattern: pattern.count("#"))[:200]
    chosen += [f"{pattern}.{word}" for pattern in chosen for word in (*_WORDS, "*")]
    methods: list[Method] = [ExchangeDeclare("topics", "topic")]
    for number in range(100):
        queue = f"q{number}"
        methods.append(QueueDeclare(queue, exclusive=True))
        methods += [QueueBind(queue, "topics", key) for key in chosen[number * 20 :][:20]]
        methods.append(_consume(queue=queue, tag=f"c{number}"))
    consumer = rig.client(*methods)
    producer = rig.client()
    rig.pass_ms(1_000)
    rig.heard(consumer)
    serial = 0

    def step() -> int:
        nonlocal serial
        keys: list[str] = []
        for _ in range(100):
            serial += 1
            keys.append(".".join([*dice.choices(_WORDS, k=4), str(serial)][dice.randrange(2) :]))
        rig.say(producer, b"".join(publish(1, "topics", key, b"0" * 16) for key in keys))
        assert _delivered(rig, consumer)
        return len(keys)

    return Running(rig, step)


# --- what connections cost -----------------------------------------------------------------------


def set_up() -> Running:
    """Connecting, a channel, an exclusive queue, a binding and a consumer, beside 200 others."""
    rig = Rig()
    rig.client(ExchangeDeclare("fan", "fanout"))
    serial = 0

    def step() -> int:
        nonlocal serial
        serial += 1
        rig.client(*_subscribe(f"sub.{serial}"), kept=False)
        return 1

    for _ in range(200):
        step()
    return Running(rig, step)


def idle_tick() -> Running:
    """A tick of a node (20 a second) with 1,000 idle subscribers: per subscriber."""
    running = _fan_out(1, SUBSCRIBERS, 1)

    def step() -> int:
        running.rig.pass_ms(50)
        return SUBSCRIBERS

    return Running(running.rig, step)


WORKS = (
    Work("one_to_one.alike", alike, steps=5, warm_up=5),
    Work("one_to_one.unlike", unlike, steps=5, warm_up=5),
    Work("one_to_one.large", large, steps=2, warm_up=2),
    Work("one_to_one.single", single, steps=100, warm_up=200),
    Work("persistent.many", persistent, steps=10, warm_up=10),
    Work("persistent.single", persistent_single, steps=50, warm_up=200),
    Work("persistent.spread", spread, steps=5, warm_up=5),
    Work("replicated.primary", replicated, steps=10, warm_up=10),
    Work("replicated.backup", replicated, steps=10, warm_up=10, node=NodeId("n2")),
    Work("proxied.publisher", proxied, steps=10, warm_up=10, node=NodeId("n2")),
    Work("proxied.primary", proxied, steps=10, warm_up=10),
    Work("proxied.consumer", proxied, steps=10, warm_up=10, node=NodeId("n3")),
    Work("fan_out.paced", fan_out_paced, steps=3, warm_up=3),
    Work("fan_out.full", fan_out_full, steps=1, warm_up=1),
    Work("fan_out.channels", fan_out_channels, steps=1, warm_up=1),
    Work("topics", topics, steps=5, warm_up=5),
    Work("set_up", set_up, steps=50, warm_up=0),
    Work("idle_tick", idle_tick, steps=20, warm_up=2),
)
