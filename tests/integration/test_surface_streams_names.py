"""Readers with names, as a stock client has them: they go on where they were, on any node."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Connect
from tests.integration.harness import Cluster
from tests.integration.surface import Inbox, Stage, arrives, only_fedq, pump, refused
from tests.integration.waiting import until

# RabbitMQ has names of readers in its stream protocol alone.
pytestmark = [pytest.mark.slow, only_fedq]


def numbers(*span: int) -> list[bytes]:
    return [b"%d" % number for number in range(*span)]


def begin(
    stage: Stage, queue: str, role: str = "consumer", offset: str = "first", prefetch: int = 100
) -> Inbox:
    """A reader called "app" that has begun when this returns."""
    inbox = Inbox(
        stage.channel(role), queue, prefetch=prefetch, stream_offset=offset,
        fedq_consumer_name="app",
    )  # fmt: skip
    arrives(inbox.channel)
    return inbox


def test_a_name_goes_on_where_it_was(stage: Stage) -> None:
    queue = stage.queue(durable=True, queue_type="stream")
    stage.put(queue, *numbers(20))
    first = begin(stage, queue)
    first.wait(20)
    first.ack(6, multiple=True)
    first.channel.connection.close()
    second = begin(stage, queue, "owner", "next")
    second.wait(13)
    assert second.bodies == numbers(7, 20)
    second.ack(multiple=True)
    second.channel.connection.close()
    stage.put(queue, b"20")
    third = begin(stage, queue)
    third.wait(1)
    assert third.bodies == [b"20"]


def test_one_of_a_name_is_served(stage: Stage) -> None:
    queue = stage.queue(durable=True, queue_type="stream")
    stage.put(queue, *numbers(10))
    first = begin(stage, queue, prefetch=4)
    first.wait(4)
    second = begin(stage, queue, "owner")
    first.ack(1, multiple=True)
    first.wait(6, second)
    assert second.bodies == []
    first.channel.connection.close()
    second.wait(8)
    assert second.bodies == numbers(2, 10)
    assert not any(message.method.redelivered for message in second.messages)


def test_a_name_that_is_none_is_refused(stage: Stage) -> None:
    queue = stage.queue(durable=True, queue_type="stream")
    words = f"invalid arg 'x-fedq-consumer-name' for queue '{queue}' in vhost '/': a name of 0"
    with refused(406, words):
        Inbox(stage.channel(), queue, prefetch=5, fedq_consumer_name="")


def test_a_name_outlives_the_node_that_kept_it(tmp_path: Path, open_connection: Connect) -> None:
    """And all of them: then half a second of what was acknowledged may come again."""
    named: dict[str, Any] = {"fedq_consumer_name": "app", "stream_offset": "first"}
    with Cluster(tmp_path) as cluster:
        channel = open_connection(cluster.nodes["a"].amqp).channel()
        channel.confirm_delivery()
        channel.queue_declare("events", durable=True, arguments={"x-queue-type": "stream"})
        for body in numbers(10):
            channel.basic_publish("", "events", body)
        reader = open_connection(cluster.nodes["c"].amqp).channel()
        inbox = Inbox(reader, "events", prefetch=4, **named)
        inbox.wait(4)
        cluster.kill("a")
        inbox.ack(multiple=True)
        inbox.wait(8)
        inbox.ack(multiple=True)
        inbox.wait(10)
        assert inbox.bodies == numbers(10)
        for name in ("b", "c"):
            cluster.kill(name)
        cluster.start_all()
        publisher = open_connection(cluster.nodes["a"].amqp).channel()
        publisher.confirm_delivery()
        publisher.basic_publish("", "events", b"10")
        again = Inbox(
            open_connection(cluster.nodes["b"].amqp).channel(), "events", prefetch=50, **named
        )

        def has_all() -> bool:
            pump(again.channel)
            return again.bodies[-1:] == [b"10"]

        until("the reader gets the rest", has_all)
        begun = int(again.bodies[0])
        assert begun <= 8
        assert again.bodies == numbers(begun, 11)
