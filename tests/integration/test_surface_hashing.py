"""The consistent-hash exchange: each message to one queue, by its key, as weights say."""

from collections import Counter
from typing import Any

import pytest

from tests.integration.stock import pika
from tests.integration.surface import Stage, bodies, everywhere, is_other, refused

pytestmark = pytest.mark.slow

KIND = "x-consistent-hash"


def spread_out(
    stage: Stage, exchange: str, queues: list[str], count: int, role: str = "publisher"
) -> Counter[str]:
    """Publishes messages with as many keys; how many each queue got. Keys are the bodies."""
    stage.flood([b"key-%d" % number for number in range(count)], "", exchange, role)
    return Counter({queue: stage.depth(queue) for queue in queues})


def emptied(stage: Stage, queues: list[str]) -> list[list[bytes]]:
    """Takes everything out; what each queue had, sorted."""
    return [sorted(bodies(stage.drain(queue, stage.depth(queue)))) for queue in queues]


def ringed(stage: Stage, exchange: str, *weights: str) -> list[str]:
    """Queues bound with these weights."""
    return [stage.bound(exchange, weight) for weight in weights]


@everywhere
def test_each_message_goes_to_one_queue(stage: Stage) -> None:
    exchange = stage.exchange(KIND)
    queues = ringed(stage, exchange, "10", "10", "10", "10")
    counts = spread_out(stage, exchange, queues, 800)
    assert sum(counts.values()) == 800
    assert all(50 < count < 400 for count in counts.values()), counts


@everywhere
def test_weights_count(stage: Stage) -> None:
    exchange = stage.exchange(KIND)
    light, heavy = ringed(stage, exchange, "10", "40")
    counts = spread_out(stage, exchange, [light, heavy], 1_000)
    assert sum(counts.values()) == 1_000
    assert counts[heavy] > 2 * counts[light] > 0, counts


@everywhere
def test_a_key_always_goes_to_the_same_queue_from_any_node(stage: Stage) -> None:
    exchange = stage.exchange(KIND)
    queues = ringed(stage, exchange, "5", "5", "5")
    spread_out(stage, exchange, queues, 60)
    placed = emptied(stage, queues)
    for role in ("owner", "consumer"):
        spread_out(stage, exchange, queues, 60, role)
        assert emptied(stage, queues) == placed


@everywhere
@pytest.mark.skipif(is_other, reason="RabbitMQ's buckets are numbered: one less shifts the others")
def test_who_goes_leaves_the_others_theirs(stage: Stage) -> None:
    exchange = stage.exchange(KIND)
    queues = ringed(stage, exchange, "10", "10", "10")
    spread_out(stage, exchange, queues, 150)
    before = emptied(stage, queues)
    stage.consumer.connection.channel().queue_unbind(queues[0], exchange, "10")
    spread_out(stage, exchange, queues[1:], 150)
    after = emptied(stage, queues[1:])
    assert set(before[1]) <= set(after[0])
    assert set(before[2]) <= set(after[1])


@everywhere
@pytest.mark.parametrize(
    "arguments", [{"hash_header": "who"}, {"hash_property": "message_id"}], ids=str
)
def test_what_is_hashed_may_be_something_else(stage: Stage, arguments: dict[str, Any]) -> None:
    exchange = stage.exchange(KIND, **arguments)
    queues = ringed(stage, exchange, "10", "10", "10")
    for number in range(60):
        who = f"client-{number % 20}"
        stage.send(exchange, f"key-{number}", who.encode(), headers={"who": who}, message_id=who)
    placed = [set(clients) for clients in emptied(stage, queues)]
    assert sum(len(clients) for clients in placed) == 20
    assert sum(1 for clients in placed if clients) >= 2


def test_without_a_queue_it_is_returned(stage: Stage) -> None:
    exchange = stage.exchange(KIND)
    with pytest.raises(pika.exceptions.UnroutableError):
        stage.send(exchange, "key", b"x", mandatory=True)


@pytest.mark.parametrize("weight", ["heavy", "", "-1", "0"])
def test_a_weight_is_a_number(stage: Stage, weight: str) -> None:
    exchange = stage.exchange(KIND)
    queue = stage.queue()
    with refused(406):
        stage.channel().queue_bind(queue, exchange, weight)
