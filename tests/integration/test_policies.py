"""Policies of a cluster of real processes: what they ask holds at once, and after every restart."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import Connect
from tests.integration.harness import Cluster, eventually
from tests.integration.stock import PERSISTENT, BlockingChannel, pika

pytestmark = pytest.mark.slow

DEAD = "dead"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as running:
        yield running


def count(channel: BlockingChannel, queue: str) -> int:
    """How many messages are ready."""
    ready: int = channel.queue_declare(queue, passive=True).method.message_count
    return ready


def holds(channel: BlockingChannel, queue: str, wanted: int) -> None:
    eventually(f"{queue} has {wanted}", lambda: count(channel, queue) == wanted)


def publish(channel: BlockingChannel, queue: str, amount: int) -> None:
    for number in range(amount):
        channel.basic_publish("", queue, b"%d" % number, PERSISTENT)


def test_policies_hold_at_once_on_all_nodes_and_outlive_all_of_them(
    cluster: Cluster, open_connection: Connect
) -> None:
    first, second, third = cluster.nodes
    channel = open_connection(cluster.nodes[first].amqp).channel()
    channel.confirm_delivery()
    for queue in ("events.a", "events.b", DEAD):
        channel.queue_declare(queue, durable=True, arguments={"x-fedq-replicas": 3})
    own = {"x-max-length": 20, "x-overflow": "drop-head"}
    channel.queue_declare("events.own", durable=True, arguments=own)
    for queue in ("events.a", "events.b", "events.own"):
        publish(channel, queue, 30)

    # What is there is cut, and dies where the policy says.
    definition = '{"max-length": 10, "dead-letter-exchange": "", "dead-letter-routing-key": "dead"}'
    command = ("policy", "set", "short", "^events\\.", definition, "--apply-to", "queues")
    assert cluster.ask(*command, node=second)["changed"]
    for queue in ("events.a", "events.b", "events.own"):
        holds(channel, queue, 10)
    holds(channel, DEAD, 20 + 20 + 10)
    shown = cluster.ask("queue", "show", "events.own", node=third)
    assert (shown["policy"], shown["operator_policy"]) == ("short", None)
    assert shown["effective_policy_definition"]["max-length"] == 10

    # An operator's smaller number counts, and a new queue has both.
    bound = ("policy", "set", "bound", "", '{"max-length": 4}', "--operator")
    cluster.ask(*bound, node=third)
    holds(channel, "events.a", 4)
    channel.queue_declare("events.new", durable=True)
    publish(channel, "events.new", 9)
    holds(channel, "events.new", 4)
    cluster.ask("policy", "clear", "bound", "--operator", node=first)

    # After a start of all nodes the policy is there, and counts.
    cluster.stop()
    cluster.start_all()
    channel = open_connection(cluster.nodes[second].amqp).channel()
    channel.confirm_delivery()
    publish(channel, "events.a", 30)
    holds(channel, "events.a", 10)
    assert [each["name"] for each in cluster.ask("policy", "list")["policies"]] == ["short"]

    # And with the next primary.
    cluster.wait_whole("events.b")
    primary = cluster.primary_of("events.b")
    cluster.kill(primary)
    other = next(name for name in cluster.nodes if name != primary)
    channel = open_connection(cluster.nodes[other].amqp).channel()
    channel.confirm_delivery()
    publish(channel, "events.b", 30)
    holds(channel, "events.b", 10)

    # Gone, it asks for nothing; a declaration goes on asking.
    cluster.ask("policy", "clear", "short", node=other)
    for queue, wanted in (("events.b", 40), ("events.own", 20)):
        publish(channel, queue, 30)
        holds(channel, queue, wanted)


def test_times_and_refusals_of_policies_come_and_go(
    cluster: Cluster, open_connection: Connect
) -> None:
    first, second, _ = cluster.nodes
    channel = open_connection(cluster.nodes[first].amqp).channel()
    channel.queue_declare("q", durable=True)
    publish(channel, "q", 3)
    cluster.ask("policy", "set", "ttl", "^q$", '{"message-ttl": 200}', node=second)
    publish(channel, "q", 3)
    # Those that were there before stay.
    holds(channel, "q", 3)
    refuse = '{"max-length": 3, "overflow": "reject-publish"}'
    cluster.ask("policy", "set", "ttl", "^q$", refuse, node=second)
    channel.confirm_delivery()
    eventually("the queue refuses", lambda: is_refused(channel, "q"))
    cluster.ask("policy", "clear", "ttl", node=second)
    eventually("the queue takes", lambda: not is_refused(channel, "q"))


def is_refused(channel: BlockingChannel, queue: str) -> bool:
    """Whether a publish is refused."""
    try:
        channel.basic_publish("", queue, b"more", PERSISTENT)
    except pika.exceptions.NackError:
        return True
    return False
