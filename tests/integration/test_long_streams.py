"""Streams several times larger than the memory of real nodes: real disks, kills, stock clients."""

import time
from datetime import UTC, datetime
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from tests.integration.conftest import Connect
from tests.integration.harness import Cluster
from tests.integration.stock import PERSISTENT, Address, BlockingChannel, pika
from tests.integration.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.patience(120)]

MIB = 1 << 20
#: 40 MiB of messages, where a node may hold 16, and begins to let bodies go at 6.
COUNT, SIZE = 2_500, 16_384
MORE = {"limits": {"memory_bytes": 16 * MIB}}
STREAM = {"x-queue-type": "stream", "x-fedq-replicas": 3}


def body(number: int) -> bytes:
    return b"%08d" % number + bytes(SIZE - 8)


def publish(connect: Connect, address: Address, numbers: range) -> None:
    """Publishes, with a confirm for the last one, which comes after all others'."""
    connection = connect(address)
    channel = connection.channel()
    channel.queue_declare("deep", durable=True, arguments=STREAM)
    for number in numbers[:-1]:
        channel.basic_publish("", "deep", body(number), PERSISTENT)
        if number % 200 == 0:
            connection.process_data_events(0)
    channel.confirm_delivery()
    channel.basic_publish("", "deep", body(numbers[-1]), PERSISTENT)
    connection.close()


class Reader:
    """A stock client that reads from an offset on and acknowledges as it goes."""

    def __init__(self, connect: Connect, address: Address, offset: str | int) -> None:
        self.connection = connect(address)
        self.numbers: list[int] = []
        self.offsets: list[int] = []
        channel = self.connection.channel()
        channel.basic_qos(prefetch_count=50)
        channel.basic_consume("deep", self._on_message, arguments={"x-stream-offset": offset})

    def _on_message(
        self, channel: BlockingChannel, method: pika.spec.Basic.Deliver,
        properties: pika.BasicProperties, found: bytes,
    ) -> None:  # fmt: skip
        assert properties.headers is not None
        self.offsets.append(properties.headers["x-stream-offset"])
        self.numbers.append(int(found[:8]))
        assert found == body(self.numbers[-1])
        channel.basic_ack(method.delivery_tag)

    def read(self, last: int) -> None:
        """Reads up to this number."""

        def has_all() -> bool:
            self.connection.process_data_events(0.05)
            return bool(self.numbers) and self.numbers[-1] >= last

        until(f"{last} is read", has_all, 60.0)
        assert self.offsets == sorted(set(self.offsets))


def read(connect: Connect, address: Address, offset: str | int, last: int) -> list[int]:
    """What a reader gets from there up to this number."""
    reader = Reader(connect, address, offset)
    reader.read(last)
    reader.connection.close()
    return reader.numbers


def test_a_stream_larger_than_memory_is_read_from_anywhere_and_after_a_kill(
    open_connection: Connect, tmp_path: Path
) -> None:
    with Cluster(tmp_path, names="a", more=MORE) as cluster:
        node = cluster.nodes["a"]
        assert node.process is not None
        process = psutil.Process(node.process.pid)
        before = process.memory_info().rss
        publish(open_connection, node.amqp, range(COUNT))
        tail = Reader(open_connection, node.amqp, "next")
        middle = COUNT // 2
        assert read(open_connection, node.amqp, "first", COUNT - 1) == list(range(COUNT))
        assert read(open_connection, node.amqp, middle, COUNT - 1) == list(range(middle, COUNT))
        publish(open_connection, node.amqp, range(COUNT, COUNT + 5))
        tail.read(COUNT + 4)
        assert tail.numbers == list(range(COUNT, COUNT + 5))
        # What it may hold, and what the allocator keeps of as much again.
        assert process.memory_info().rss - before < 32 * MIB
        cluster.kill("a")
        node.start()
        cluster.wait_served("a")
        for offset in (0, middle, COUNT):
            got = read(open_connection, node.amqp, offset, COUNT + 4)
            assert got == list(range(offset, COUNT + 5))


def test_a_long_stream_fails_over_to_what_another_node_has_on_disk(
    open_connection: Connect, tmp_path: Path
) -> None:
    count = 1_500
    with Cluster(tmp_path, names="abc", more={"limits": {"memory_bytes": 32 * MIB}}) as cluster:
        publish(open_connection, cluster.nodes["a"].amqp, range(count))
        reader = Reader(open_connection, cluster.nodes["c"].amqp, "first")
        reader.read(count // 3)
        cluster.kill("a")
        reader.read(count - 1)
        assert reader.numbers == list(range(count))
        got = read(open_connection, cluster.nodes["b"].amqp, count // 2, count - 1)
        assert got == list(range(count // 2, count))


def test_times_of_a_stream_outlive_its_node(open_connection: Connect, tmp_path: Path) -> None:
    """An age, and a time to begin at, mean the same after a restart."""
    arguments = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 20_000}
    with Cluster(tmp_path, names="a") as cluster:
        node = cluster.nodes["a"]

        def say(name: str, *numbers: int) -> BlockingChannel:
            channel = open_connection(node.amqp).channel()
            more = {"x-max-age": "3s"} if name == "aging" else {}
            channel.queue_declare(name, durable=True, arguments={**arguments, **more})
            channel.confirm_delivery()
            for number in numbers:
                channel.basic_publish("", name, body(number), PERSISTENT)
            return channel

        # The node is a member, and has said which version it speaks: nothing is noted before.
        until("it has", lambda: int(cluster.ask("cluster", "status")["map_version"]) >= 3)
        # Two of them make a segment.
        say("aging", *range(6))
        say("lasting", *range(6))
        began = time.time()
        until("they are old", lambda: time.time() > began + 5.0)
        say("lasting", *range(6, 10))
        cluster.kill("a")
        node.start()
        cluster.wait_served("a")
        channel = say("aging", *range(6, 10))
        channel.basic_qos(prefetch_count=50)
        got: dict[str, list[int]] = {"aging": [], "lasting": []}
        offset = datetime.fromtimestamp(int(began) + 3, UTC)
        for name, start in (("aging", "first"), ("lasting", offset)):
            channel.basic_consume(
                name,
                lambda channel, method, properties, found, into=got[name]: into.append(
                    int(found[:8])
                ),
                arguments={"x-stream-offset": start},
            )

        def have_last() -> bool:
            channel.connection.process_data_events(0.05)
            return all(9 in found for found in got.values())

        until("the last ones are read", have_last)
        assert got == {"aging": list(range(6, 10)), "lasting": list(range(6, 10))}
