"""`fedq store` on the directory of a real node, and messages back into a cluster that runs."""

from pathlib import Path

import pytest

from tests.integration.conftest import Connect
from tests.integration.harness import Cluster
from tests.integration.stock import pika
from tests.unit.cli.command import Outcome, fedq_alone

pytestmark = [pytest.mark.slow, pytest.mark.patience(120)]

COUNT = 150


def store(*arguments: object) -> Outcome:
    return fedq_alone("store", *map(str, arguments))


def test_messages_leave_a_stopped_store_and_come_back(
    open_connection: Connect, tmp_path: Path
) -> None:
    with Cluster(tmp_path, names="a") as cluster:
        node = cluster.nodes["a"]
        data, file = node.directory / "data", tmp_path / "orders.export"
        channel = open_connection(node.amqp).channel()
        channel.confirm_delivery()
        channel.queue_declare("orders", durable=True)
        channel.queue_declare("other", durable=True)
        properties = pika.BasicProperties(
            delivery_mode=2, message_id="id", headers={"kind": "test", "n": 1}
        )
        for number in range(COUNT):
            channel.basic_publish("", "orders", b"%d" % number, properties)
        channel.basic_publish("", "other", b"not this", properties)
        assert "stop that node first" in store("verify", data).sentence
        assert cluster.terminate("a") == 0

        verified = store("verify", data, "--json")
        assert verified.exit_code == 0, verified.err
        found = {each["queue"]: each for each in verified.value["fragments"]}
        assert found["orders"]["messages"] == COUNT
        assert found["orders"]["in_sync"]
        assert found["orders"]["whole"]
        outcome = store("export", data, file, "--queue", "orders", "--json")
        assert outcome.exit_code == 0, outcome.err
        assert outcome.value == {"messages": COUNT, "missing": 0, "queues": [["/", "orders"]]}

        cluster.restart("a")
        cluster.wait_served("a")
        url = f"amqp://guest:guest@{node.amqp.host}:{node.amqp.port}/"
        channel = open_connection(node.amqp).channel()
        channel.queue_purge("orders")
        # So many have room in the queue; the rest follows once there is some.
        arguments = {"x-max-length": 100, "x-overflow": "reject-publish"}
        channel.queue_declare("narrow", durable=True, arguments=arguments)
        refused = store("import", file, "--queue", "narrow", "--url", url)
        assert refused.exit_code == 1
        assert "100 messages were published" in refused.sentence
        other = store("import", file, "--url", url)
        assert "is about another import" in other.sentence
        assert bodies(channel, "narrow") == [b"%d" % number for number in range(100)]
        done = store("import", file, "--queue", "narrow", "--url", url, "--json")
        assert done.value == {"published": COUNT - 100, "published_before": 100}
        assert bodies(channel, "narrow") == [b"%d" % number for number in range(100, COUNT)]

        assert store("import", file, "--url", url).exit_code == 0
        method, got, body = channel.basic_get("orders", auto_ack=True)
        assert method is not None
        assert (body, got.message_id, got.headers) == (b"0", "id", {"kind": "test", "n": 1})
        assert bodies(channel, "orders") == [b"%d" % number for number in range(1, COUNT)]


def bodies(channel: "pika.adapters.blocking_connection.BlockingChannel", queue: str) -> list[bytes]:
    """All messages of a queue, which are taken out of it."""
    found: list[bytes] = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append(got[2])
    return found
