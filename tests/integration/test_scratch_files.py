"""Transient queues longer than the memory of a real node: scratch files on a real disk."""

import os
from pathlib import Path

import pytest

from tests.integration.conftest import Connect
from tests.integration.harness import Cluster
from tests.integration.stock import BlockingChannel, pika
from tests.integration.test_long_queues import MIB, body, drained
from tests.integration.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.patience(120)]

#: 40 MiB of messages, where a node may hold 8.
COUNT = 10_000
MORE = {"limits": {"memory_bytes": 8 * MIB}}
TRANSIENT = pika.BasicProperties(delivery_mode=1)


def fill(channel: BlockingChannel) -> None:
    for number in range(COUNT - 1):
        channel.basic_publish("", "long", body(number), TRANSIENT)
        if number % 200 == 0:
            channel.connection.process_data_events(0)
    channel.confirm_delivery()
    channel.basic_publish("", "long", body(COUNT - 1), TRANSIENT)


@pytest.mark.parametrize("durable", [True, False])
def test_a_transient_queue_larger_than_memory_is_drained_in_order(
    open_connection: Connect, tmp_path: Path, durable: bool
) -> None:
    with Cluster(tmp_path, names="a", more=MORE) as cluster:
        node = cluster.nodes["a"]
        scratch = next(tmp_path.rglob("scratch"))
        connection = open_connection(node.amqp)
        channel = connection.channel()
        channel.queue_declare("long", durable=durable)
        fill(channel)
        until("bodies are in scratch files", lambda: size_of(scratch) > 24 * MIB, 30.0)
        assert drained(open_connection, node.amqp, COUNT) == list(range(COUNT))
        assert channel.queue_declare("long", passive=True).method.message_count == 0
        until("the files are gone", lambda: not os.listdir(scratch), 30.0)


def size_of(directory: Path) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(directory))
