"""Nodes that are drained, and fragments that are moved, under clients that never reconnect."""

import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Connect
from tests.integration.harness import Cluster
from tests.integration.stock import PERSISTENT, connect, pika
from tests.integration.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.patience(240)]

RATE_S = 500
#: Nobody is taken for dead because the machine has much else to do.
PATIENT = {"timing": {"lease_ms": 4_000, "suspect_ms": 12_000}}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, more=PATIENT) as running:
        yield running


DRAIN = ("cluster", "drain")


class Publisher(threading.Thread):
    """Publishes numbers with confirms, at a rate, until it is told to end."""

    def __init__(self, address: Any, queue: str) -> None:
        super().__init__()
        self._address, self._queue = address, queue
        self.confirmed = 0
        self.ending = threading.Event()
        self.failure: Exception | None = None

    def is_past(self, number: int) -> bool:
        """Whether so many are confirmed."""
        return self.confirmed > number

    def run(self) -> None:
        try:
            connection = connect(self._address)
            channel = connection.channel()
            channel.confirm_delivery()
            while not self.ending.is_set():
                begun = time.monotonic()
                channel.basic_publish("", self._queue, b"%d" % self.confirmed, PERSISTENT)
                self.confirmed += 1
                connection.process_data_events(0)
                self.ending.wait(max(0.0, begun + 1 / RATE_S - time.monotonic()))
            connection.close()
        except Exception as error:
            self.failure = error


class Consumer(threading.Thread):
    """Takes messages and acknowledges each only when ten more have come, until told to end."""

    def __init__(self, address: Any, queue: str) -> None:
        super().__init__()
        self._address, self._queue = address, queue
        self.got: list[tuple[int, bool]] = []
        self.ending = threading.Event()
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            connection = connect(self._address)
            channel = connection.channel()
            channel.basic_qos(prefetch_count=20)
            tags: list[int] = []

            def on_message(_: Any, method: Any, __: Any, body: bytes) -> None:
                self.got.append((int(body), method.redelivered))
                tags.append(method.delivery_tag)
                if len(tags) > 10:
                    channel.basic_ack(tags.pop(0))

            channel.basic_consume(self._queue, on_message)
            while not self.ending.is_set():
                connection.process_data_events(0.05)
            for tag in tags:
                channel.basic_ack(tag)
            connection.close()
        except Exception as error:
            self.failure = error


def member(cluster: Cluster, name: str) -> dict[str, Any]:
    """A member, as another one says."""
    other = next(each for each in cluster.nodes if each != name)
    found: list[dict[str, Any]] = cluster.ask("cluster", "status", node=other)["members"]
    return next(each for each in found if each["node"] == name)


def test_every_node_is_drained_in_turn_and_nothing_is_lost_or_comes_twice(
    cluster: Cluster, open_connection: Connect
) -> None:
    first = next(iter(cluster.nodes))
    setup = open_connection(cluster.nodes[first].amqp)
    setup.channel().queue_declare("work", durable=True)
    publisher = Publisher(cluster.nodes[first].amqp, "work")
    consumers = [Consumer(node.amqp, "work") for node in cluster.nodes.values()]
    for thread in (*consumers, publisher):
        thread.start()
    until("messages flow", partial(publisher.is_past, 100))
    led = []
    for name in cluster.nodes:
        other = next(each for each in cluster.nodes if each != name)
        done = cluster.ask(*DRAIN, name, "--keep-clients", "--wait", "30", node=other)
        assert (done["leads"], done["copies"]) == (0, 0)
        assert member(cluster, name)["drained"]
        assert cluster.primary_of("work") != name
        led.append(cluster.primary_of("work"))
        mark = publisher.confirmed
        until("messages flow", partial(publisher.is_past, mark + 100))
        cluster.ask("cluster", "undrain", name, node=other)
    assert len(set(led)) > 1, "it has moved"
    publisher.ending.set()
    publisher.join()
    until("all is delivered", lambda: sum(len(c.got) for c in consumers) >= publisher.confirmed)
    for consumer in consumers:
        consumer.ending.set()
        consumer.join()
    assert [publisher.failure, *(consumer.failure for consumer in consumers)] == [None] * 4
    everything = [each for consumer in consumers for each in consumer.got]
    assert not [number for number, again in everything if again]
    assert sorted(number for number, _ in everything) == list(range(publisher.confirmed))
    for consumer in consumers:
        numbers = [number for number, _ in consumer.got]
        assert numbers == sorted(numbers)
    assert setup.channel().queue_declare("work", passive=True).method.message_count == 0


def test_a_drained_node_turns_clients_away_and_says_where_to_go(
    cluster: Cluster, open_connection: Connect
) -> None:
    first, second, third = cluster.nodes
    here = open_connection(cluster.nodes[first].amqp)
    cluster.ask(*DRAIN, first, "--keep-clients", node=second)
    with pytest.raises(pika.exceptions.AMQPConnectionError) as caught:
        connect(cluster.nodes[first].amqp)
    there = [f"{host}:{port}" for host, port in (cluster.nodes[n].amqp for n in (second, third))]
    assert f"is drained: connect to another one: {', '.join(there)}" in repr(caught.value)
    here.channel().queue_declare("elsewhere", durable=True)
    (fragment,) = cluster.fragments("elsewhere")
    assert first not in (fragment["primary"], *fragment["backups"])
    # It has nothing under way.
    done = cluster.ask(*DRAIN, first, "--wait", "30", node=second)
    assert (done["leads"], done["copies"], done["connections"]) == (0, 0, 0)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="is drained"):
        here.process_data_events(10)
    assert cluster.terminate(first) == 0
    cluster.nodes[first].start()
    until("it is up again", lambda: member(cluster, first)["figures"], 60.0)
    assert member(cluster, first)["drained"], "also after a restart"
    cluster.ask("cluster", "undrain", first, node=second)
    cluster.wait_served(first)


def test_a_fragment_moves_where_it_is_wished_and_leads_are_evened_out(
    cluster: Cluster, open_connection: Connect
) -> None:
    first = next(iter(cluster.nodes))
    channel = open_connection(cluster.nodes[first].amqp).channel()
    for number in range(6):
        channel.queue_declare(f"q{number}", durable=True, arguments={"x-fedq-replicas": 3})
    assert all(cluster.primary_of(f"q{number}") == first for number in range(6))
    target = next(name for name in cluster.nodes if name != first)
    command = ("queue", "move-fragment", "q0", "--to", target, "--wait", "20")
    assert cluster.ask(*command)["primary"] == target
    planned = cluster.ask("cluster", "rebalance", "--dry-run")["moves"]
    assert planned
    assert cluster.primary_of("q1") == first
    assert cluster.ask("cluster", "rebalance")["moves"] == planned
    names = [f"q{number}" for number in range(6)]
    until(
        "each leads two",
        lambda: sorted(map(cluster.primary_of, names)) == sorted([*cluster.nodes] * 2),
    )
