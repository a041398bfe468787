"""Fragments come where publishes arrive, and go when these stop: clients notice nothing."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Connect
from tests.integration.harness import Cluster
from tests.integration.stock import PERSISTENT, Address, BlockingChannel
from tests.integration.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.patience(180)]

#: Nobody is taken for dead because the machine has much else to do: then nothing is retired.
SOON = {
    "limits": {"fragment_threshold": 10},
    "timing": {
        "lease_ms": 4_000, "suspect_ms": 12_000, "retire_idle_ms": 1_500, "retire_age_ms": 3_000,
    },
}  # fmt: skip


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, more=SOON) as running:
        yield running


def shown(cluster: Cluster) -> list[dict[str, Any]]:
    fragments: list[dict[str, Any]] = cluster.ask("queue", "show", "work")["fragments"]
    return fragments


def confirming(open_connection: Connect, address: Address) -> list[BlockingChannel]:
    """Channels of four publishers that wait for each confirm."""
    publishers = [open_connection(address).channel() for _ in range(4)]
    for publisher in publishers:
        publisher.confirm_delivery()
    return publishers


def two_of_them(cluster: Cluster) -> list[dict[str, Any]]:
    """Both fragments, once there are two."""
    fragments = shown(cluster)
    return fragments if len(fragments) == 2 else []


def test_a_fragment_goes_and_comes_and_nothing_is_lost_or_twice_or_out_of_order(
    cluster: Cluster, open_connection: Connect
) -> None:
    first, second, third = (node.amqp for node in cluster.nodes.values())
    open_connection(first).channel().queue_declare("work", durable=True)
    consumer = open_connection(second).channel()
    consumer.basic_qos(prefetch_count=20)
    got: list[tuple[int, int, bool]] = []

    def on_message(channel: Any, method: Any, _: Any, body: bytes) -> None:
        who, number = map(int, body.split(b"."))
        got.append((who, number, method.redelivered))
        channel.basic_ack(method.delivery_tag)

    consumer.basic_consume("work", on_message)

    def has_all(count: int) -> bool:
        consumer.connection.process_data_events(0.05)
        return len(got) >= count

    # One connection after the other at the third node: so the fragment comes, and is used.
    publishers = confirming(open_connection, third)
    sent = [0] * len(publishers)

    def publish(who: int, count: int) -> None:
        for _ in range(count):
            publishers[who].basic_publish("", "work", b"%d.%d" % (who, sent[who]), PERSISTENT)
            sent[who] += 1

    def have_come(who: int) -> list[dict[str, Any]]:
        # Unless something happens there it may be gone before a busy machine has looked.
        publish(who, 3)
        return two_of_them(cluster)

    for who in range(len(publishers)):
        publish(who, 12)
        both = until("a fragment came", partial(have_come, who))
        assert [each["why"]["cause"] for each in both] == ["declared", "traffic"]
        publish((who + 1) % len(publishers), 3)
        until("all is delivered", partial(has_all, sum(sent)))

        def is_gone() -> bool:
            consumer.connection.process_data_events(0.01)
            return len(shown(cluster)) == 1

        until("it went", is_gone)
        for other in range(len(publishers)):
            publish(other, 2)
        until("all is delivered", partial(has_all, sum(sent)))
    # As it is going.
    for _ in range(20):
        for who in range(len(publishers)):
            publish(who, 2)
            consumer.connection.process_data_events(0.1)
    until("all is delivered", partial(has_all, sum(sent)))
    assert not [each for each in got if each[2]]
    for who, count in enumerate(sent):
        assert [number for by, number, _ in got if by == who] == list(range(count))
    passive = open_connection(first).channel().queue_declare("work", passive=True)
    assert passive.method.message_count == 0
