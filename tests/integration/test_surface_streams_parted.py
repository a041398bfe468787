"""Streams in several fragments, as stock clients have them: order for a key, through a failover."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.integration.conftest import Connect
from tests.integration.harness import Cluster
from tests.integration.stock import BlockingChannel, pika
from tests.integration.surface import Inbox, Stage, arrives, only_fedq, pump
from tests.integration.waiting import until

# RabbitMQ has them as several queues behind an exchange.
pytestmark = [pytest.mark.slow, only_fedq]

KEYS = [f"customer {number}" for number in range(12)]
LASTING = pika.BasicProperties(delivery_mode=2)


def put(channel: BlockingChannel, exchange: str, *rounds: int) -> None:
    """A message for each key, in rounds; each of them is confirmed when this returns."""
    for number in rounds:
        for key in KEYS:
            channel.basic_publish(exchange, key, f"{key}:{number}".encode(), LASTING)


def numbers_by_key(inboxes: Sequence[Inbox]) -> dict[str, list[int]]:
    """What came of each key, in order of the readers."""
    found: dict[str, list[int]] = {}
    for inbox in inboxes:
        for message in inbox.messages:
            key, _, number = message.body.decode().partition(":")
            assert message.method.routing_key == key
            found.setdefault(key, []).append(int(number))
    return found


def fragments_of(inbox: Inbox) -> dict[int, list[int]]:
    """The offsets that a reader saw, by fragment."""
    found: dict[int, list[int]] = {}
    for message in inbox.messages:
        fragment = message.headers["x-fedq-fragment"]
        found.setdefault(fragment, []).append(message.headers["x-stream-offset"])
    return found


def all_have(inboxes: Sequence[Inbox], count: int) -> None:
    """Waits until they have so many together; they acknowledge what they get."""

    def have_all() -> bool:
        pump(*[inbox.channel for inbox in inboxes])
        return sum(len(inbox.messages) for inbox in inboxes) >= count

    until("all messages arrive", have_all, 30)


def test_a_key_is_in_order_and_a_reader_gets_all(stage: Stage) -> None:
    queue = stage.queue(durable=True, queue_type="stream", fedq_fragments=4)
    owner = stage.channel("owner")
    owner.exchange_declare("by key", "fanout", durable=True)
    owner.queue_bind(queue, "by key")
    publishers = [stage.channel("publisher"), stage.channel("owner")]
    for number in range(6):
        publisher = publishers[number % 2]
        if number < 2:
            publisher.confirm_delivery()
        put(publisher, "by key", number)
    found = owner.queue_declare(queue, passive=True)
    assert found.method.message_count == 6 * len(KEYS)
    inbox = Inbox(stage.channel(), queue, ack=True, prefetch=5, stream_offset="first")
    all_have([inbox], 6 * len(KEYS))
    assert numbers_by_key([inbox]) == {key: list(range(6)) for key in KEYS}
    offsets = fragments_of(inbox)
    assert 1 < len(offsets) <= 4
    assert all(mine == list(range(len(mine))) for mine in offsets.values())
    half = Inbox(stage.channel(), queue, ack=True, prefetch=5, stream_offset=9)
    rest = sum(max(0, len(mine) - 9) for mine in offsets.values())
    all_have([half], rest)
    assert all(min(mine) == 9 for mine in fragments_of(half).values())
    owner.exchange_delete("by key")


def test_those_with_a_name_share_the_fragments_and_take_over(
    tmp_path: Path, open_connection: Connect
) -> None:
    """The node of a reader dies, which serves a fragment, too, while its messages come."""
    arguments = {"x-queue-type": "stream", "x-fedq-fragments": 6}
    with Cluster(tmp_path) as cluster:
        publisher = open_connection(cluster.nodes["b"].amqp).channel()
        publisher.confirm_delivery()
        publisher.queue_declare("events", durable=True, arguments=arguments)
        publisher.exchange_declare("x", "fanout", durable=True)
        publisher.queue_bind("events", "x")
        served = [each["primary"] for each in cluster.fragments("events")]
        assert sorted(served) == ["a", "a", "b", "b", "c", "c"]
        group: list[Inbox] = []
        for name in "abc":
            channel = open_connection(cluster.nodes[name].amqp).channel()
            inbox = Inbox(
                channel, "events", ack=True, prefetch=10, stream_offset="first",
                fedq_consumer_name="app",
            )  # fmt: skip
            arrives(channel)
            group.append(inbox)
        alone = Inbox(
            open_connection(cluster.nodes["c"].amqp).channel(), "events", ack=True, prefetch=10,
            stream_offset="first",
        )  # fmt: skip
        put(publisher, "x", *range(5))
        all_have(group, 5 * len(KEYS))
        shares = [dict.fromkeys(fragments_of(inbox)) for inbox in group]
        assert all(len(share) <= 2 for share in shares)
        assert len({f for share in shares for f in share}) == sum(map(len, shares))
        assert numbers_by_key(group) == {key: list(range(5)) for key in KEYS}
        pump(*[inbox.channel for inbox in group])
        cluster.kill("a")
        # Those of its fragments wait; none goes elsewhere.
        put(publisher, "x", *range(5, 10))
        left = group[1:]
        all_have([alone], 10 * len(KEYS))
        assert numbers_by_key([alone]) == {key: list(range(10)) for key in KEYS}

        def have_the_rest() -> bool:
            pump(*[inbox.channel for inbox in left])
            found = numbers_by_key(left)
            return all({*range(5, 10)} <= {*found.get(key, [])} for key in KEYS)

        until("the others take over", have_the_rest, 30)
        for inbox in left:
            for key, found in numbers_by_key([inbox]).items():
                assert found == sorted(set(found)), key
