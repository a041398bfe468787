"""Queues longer than the memory of real nodes: bodies on real disks, real kills, stock clients."""

from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from tests.integration.conftest import Connect
from tests.integration.harness import Cluster
from tests.integration.stock import PERSISTENT, Address, BlockingChannel, pika
from tests.integration.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.patience(120)]

MIB = 1 << 20
#: 24 MiB of messages, where a node may hold 16.
COUNT, SIZE = 6_000, 4_096
#: A little more than that, for a consumer that acknowledges nothing.
HELD = 4_500
#: Priorities from 0 on.
RANKS = 4
MORE = {"limits": {"memory_bytes": 16 * MIB}}


def body(number: int) -> bytes:
    return b"%08d" % number + bytes(SIZE - 8)


def properties(number: int, arguments: dict[str, int]) -> pika.BasicProperties:
    """Of a queue with priorities each is as frequent as the others, and half are transient."""
    ranks = arguments.get("x-max-priority", 0) + 1
    if ranks == 1:
        return PERSISTENT
    mode = 1 if number // ranks % 2 and arguments.get("x-fedq-replicas") == 1 else 2
    return pika.BasicProperties(delivery_mode=mode, priority=number % ranks)


def ranked(numbers: range) -> list[int]:
    """The numbers as a queue with priorities gives them."""
    return sorted(numbers, key=lambda number: (-(number % RANKS), number))


def fill(connect: Connect, address: Address, numbers: range, arguments: dict[str, int]) -> None:
    """Publishes, with a confirm for the last one, which comes after all others'."""
    connection = connect(address)
    blocked: list[object] = []
    connection.add_on_connection_blocked_callback(lambda *found: blocked.append(found))
    channel = connection.channel()
    channel.queue_declare("long", durable=True, arguments=arguments)
    for number in numbers[:-1]:
        channel.basic_publish("", "long", body(number), properties(number, arguments))
        if number % 500 == 0:
            # A node with much else to do takes in what was sent first; on disk it comes later.
            channel.queue_declare("long", passive=True)
    channel.confirm_delivery()
    channel.basic_publish("", "long", body(numbers[-1]), properties(numbers[-1], arguments))
    assert not blocked, "memory stops no publisher whose messages may be on disk alone"
    connection.close()


def drained(connect: Connect, address: Address, count: int) -> list[int]:
    """The numbers of what a consumer gets, which acknowledges as it goes, in order."""
    connection = connect(address)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=100)
    got: list[int] = []

    def on_message(
        channel: BlockingChannel, method: pika.spec.Basic.Deliver,
        properties: pika.BasicProperties, found: bytes,
    ) -> None:  # fmt: skip
        got.append(int(found[:8]))
        assert found == body(got[-1])
        channel.basic_ack(method.delivery_tag)

    channel.basic_consume("long", on_message)

    def has_all() -> bool:
        connection.process_data_events(0.05)
        return len(got) >= count

    until("all is delivered", has_all, 60.0)
    connection.process_data_events(0.2)
    connection.close()
    return got


def test_a_queue_longer_than_memory_is_drained_in_order_after_a_kill(
    open_connection: Connect, tmp_path: Path
) -> None:
    with Cluster(tmp_path, names="a", more=MORE) as cluster:
        node = cluster.nodes["a"]
        assert node.process is not None
        before = psutil.Process(node.process.pid).memory_info().rss
        fill(open_connection, node.amqp, range(COUNT), {})
        assert psutil.Process(node.process.pid).memory_info().rss < before + 20 * MIB
        cluster.kill("a")
        node.start()
        cluster.wait_served("a")
        assert drained(open_connection, node.amqp, COUNT) == list(range(COUNT))
        channel = open_connection(node.amqp).channel()
        assert channel.queue_declare("long", passive=True).method.message_count == 0


def test_a_consumer_that_acknowledges_nothing_takes_nothing_from_its_neighbours(
    open_connection: Connect, tmp_path: Path
) -> None:
    with Cluster(tmp_path, names="a", more=MORE) as cluster:
        node = cluster.nodes["a"]
        assert node.process is not None
        process = psutil.Process(node.process.pid)
        before = process.memory_info().rss
        fill(open_connection, node.amqp, range(HELD), {})
        holder = open_connection(node.amqp)
        channel = holder.channel()
        got: list[int] = []
        channel.basic_consume("long", lambda _, method, __, body: got.append(int(body[:8])))

        def has_all() -> bool:
            holder.process_data_events(0.05)
            return len(got) >= HELD

        until("all is delivered", has_all, 60.0)
        fill(open_connection, node.amqp, range(HELD, HELD + 200), {})
        until("the rest is delivered", lambda: has_all() and len(got) == HELD + 200, 60.0)
        assert process.memory_info().rss < before + 20 * MIB
        holder.close()
        assert drained(open_connection, node.amqp, HELD + 200) == got
        assert process.memory_info().rss < before + 20 * MIB


def test_a_long_queue_fails_over_to_what_another_node_has_on_disk(
    open_connection: Connect, tmp_path: Path
) -> None:
    with Cluster(tmp_path, names="abc", more=MORE) as cluster:
        fill(open_connection, cluster.nodes["a"].amqp, range(COUNT), {"x-fedq-replicas": 3})
        cluster.kill("a")
        got = drained(open_connection, cluster.nodes["b"].amqp, COUNT)
        assert got == list(range(COUNT))


def test_a_queue_with_priorities_longer_than_memory_is_drained_by_priority(
    open_connection: Connect, tmp_path: Path
) -> None:
    with Cluster(tmp_path, names="a", more=MORE) as cluster:
        node = cluster.nodes["a"]
        assert node.process is not None
        process = psutil.Process(node.process.pid)
        before = process.memory_info().rss
        arguments = {"x-max-priority": RANKS - 1, "x-fedq-replicas": 1}
        fill(open_connection, node.amqp, range(COUNT), arguments)
        assert process.memory_info().rss < before + 20 * MIB
        assert drained(open_connection, node.amqp, COUNT) == ranked(range(COUNT))
        assert process.memory_info().rss < before + 20 * MIB


def test_priorities_are_known_again_after_a_kill(open_connection: Connect, tmp_path: Path) -> None:
    with Cluster(tmp_path, names="a", more=MORE) as cluster:
        node = cluster.nodes["a"]
        fill(open_connection, node.amqp, range(COUNT), {"x-max-priority": RANKS - 1})
        cluster.kill("a")
        node.start()
        cluster.wait_served("a")
        assert node.process is not None
        process = psutil.Process(node.process.pid)
        before = process.memory_info().rss
        assert drained(open_connection, node.amqp, COUNT) == ranked(range(COUNT))
        assert process.memory_info().rss < before + 20 * MIB


def test_a_long_queue_with_priorities_fails_over(open_connection: Connect, tmp_path: Path) -> None:
    with Cluster(tmp_path, names="abc", more=MORE) as cluster:
        arguments = {"x-max-priority": RANKS - 1, "x-fedq-replicas": 3}
        fill(open_connection, cluster.nodes["a"].amqp, range(COUNT), arguments)
        # Those that a consumer has when its node dies come back to their places.
        channel = open_connection(cluster.nodes["b"].amqp).channel()
        assert [int(channel.basic_get("long")[2][:8]) for _ in range(5)] == ranked(range(COUNT))[:5]
        channel.connection.close()
        cluster.kill("a")
        got = drained(open_connection, cluster.nodes["b"].amqp, COUNT)
        assert got == ranked(range(COUNT))
