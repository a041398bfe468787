"""Publishers with names on real nodes: whatever dies, what a stock client repeats is there once."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.integration.conftest import Connect
from tests.integration.harness import Cluster
from tests.integration.stock import Address, BlockingChannel, pika
from tests.integration.waiting import until

pytestmark = pytest.mark.slow

EXCHANGE = "once"
#: The queues, with their types.
QUEUES = {"once": "classic", "once and kept": "stream"}


def send(channel: BlockingChannel, sequences: Iterable[int]) -> None:
    """Publishes these; a channel with confirms waits for each."""
    for sequence in sequences:
        headers = {"x-fedq-publisher": "sink", "x-fedq-sequence": sequence}
        properties = pika.BasicProperties(delivery_mode=2, headers=headers)
        channel.basic_publish(EXCHANGE, "", b"%d" % sequence, properties, mandatory=True)


def repeat(open_connection: Connect, address: Address, through: int) -> None:
    """Publishes all anew through a node, until each of them is confirmed."""
    done = [0]

    def confirmed() -> bool:
        try:
            connection = open_connection(address)
            channel = connection.channel()
            channel.confirm_delivery()
            for sequence in range(done[0] + 1, through + 1):
                send(channel, [sequence])
                done[0] = sequence
            connection.close()
        except (pika.exceptions.AMQPError, OSError):
            return False
        return True

    until("all is confirmed", confirmed, 60)


def contents(open_connection: Connect, address: Address, count: int, queue: str) -> list[int]:
    """What is in a queue, when so many have come and nothing more does."""
    connection = open_connection(address)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=1_000)
    found: list[int] = []
    arguments = {"x-stream-offset": "first"} if QUEUES[queue] == "stream" else {}
    for method, properties, body in channel.consume(
        queue, arguments=arguments, inactivity_timeout=2
    ):
        if method is None:
            if len(found) >= count:
                break
            continue
        assert properties.headers["x-fedq-sequence"] == int(body)
        found.append(int(body))
        channel.basic_ack(method.delivery_tag)
    connection.close()
    return found


@pytest.mark.patience(150)
def test_each_is_there_once_after_kills_and_a_restart_of_all(
    open_connection: Connect, tmp_path: Path
) -> None:
    with Cluster(tmp_path) as cluster:
        channel = open_connection(cluster.nodes["a"].amqp).channel()
        channel.exchange_declare(EXCHANGE, "fanout", durable=True)
        for queue, kind in QUEUES.items():
            channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
            channel.queue_bind(queue, EXCHANGE)
            cluster.wait_whole(queue)

        # Its node serves the queues, and dies with as much on its way as a socket takes.
        connection = open_connection(cluster.nodes["a"].amqp)
        send(connection.channel(), range(1, 401))
        cluster.kill("a")
        repeat(open_connection, cluster.nodes["b"].amqp, 420)

        # Another one serves them by now; the client is elsewhere, and hears no more of its own.
        second = cluster.primary_of("once")
        cluster.restart("a")
        for queue in QUEUES:
            cluster.wait_whole(queue)
        elsewhere = next(name for name in cluster.nodes if name != second)
        send(open_connection(cluster.nodes[elsewhere].amqp).channel(), range(400, 601))
        cluster.kill(second)
        repeat(open_connection, cluster.nodes[elsewhere].amqp, 610)

        cluster.stop()
        cluster.start_all()
        repeat(open_connection, cluster.nodes["c"].amqp, 620)
        for queue in QUEUES:
            found = contents(open_connection, cluster.nodes["b"].amqp, 620, queue)
            assert found == list(range(1, 621)), queue
