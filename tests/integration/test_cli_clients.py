"""Lists of connections, channels and consumers of a real cluster; connections that are ended."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.harness import UNHURRIED, Cluster
from tests.integration.stock import connect, pika
from tests.integration.waiting import until

pytestmark = pytest.mark.slow

SINGLE = {"x-single-active-consumer": True}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("clients"), more=UNHURRIED) as running:
        yield running


def listed(cluster: Cluster, what: str, node: str, *more: str) -> list[dict[str, Any]]:
    """What a node answers; of a cluster at rest nobody is silent."""
    answer = cluster.ask(what, "list", "--json", *more, node=node)
    assert answer["silent_members"] == []
    found: list[dict[str, Any]] = answer[f"{what}s"]
    return found


def test_every_node_lists_the_clients_of_all_and_ends_them(cluster: Cluster) -> None:
    connections = {name: connect(node.amqp) for name, node in cluster.nodes.items()}
    for connection in connections.values():
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("single", durable=True, arguments=SINGLE)
        channel.basic_qos(prefetch_count=7)
        channel.basic_consume("single", lambda *_: None, arguments={"x-priority": 2})
    # Who asked whether the nodes serve may still be there on a busy machine.
    until("no others are there", lambda: len(listed(cluster, "connection", "a")) == 3)
    for asked in cluster.nodes:
        held = listed(cluster, "connection", asked)
        assert [each["node"] for each in held] == sorted(cluster.nodes)
        assert {each["user"] for each in held} == {"guest"}
        channels = listed(cluster, "channel", asked)
        assert [each["connection"] for each in channels] == [each["name"] for each in held]
        assert {(each["confirm"], each["consumer_count"]) for each in channels} == {(True, 1)}
        consumers = listed(cluster, "consumer", asked, "--vhost", "/", "--limit", "50")
        assert [each["channel"] for each in consumers] == [f"{each['name']} (1)" for each in held]
        assert {each["prefetch_count"] for each in consumers} == {7}
        assert consumers[0]["arguments"] == {"x-priority": 2}
        # The first that came is the one that gets messages, wherever the queue is.
        assert [each["active"] for each in consumers] == [
            each["node"] == next(iter(cluster.nodes)) for each in consumers
        ]
        assert listed(cluster, "consumer", asked, "--vhost", "elsewhere") == []
    first, second, third = cluster.nodes
    name = listed(cluster, "connection", second)[0]["name"]
    done = cluster.ask("connection", "close", name, "--reason", "so long", "--json", node=third)
    assert done == {"closed": 1, "silent_members": []}
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="so long") as caught:
        connections[first].process_data_events(10)
    assert caught.value.reply_code == 320
    until("the next one is active", lambda: listed(cluster, "consumer", first)[0]["active"])
    done = cluster.ask("connection", "close", "--user", "guest", "--json", node=first)
    assert done["closed"] == 2
    for name in (second, third):
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
            connections[name].process_data_events(10)
    until("all are gone", lambda: not listed(cluster, "connection", second))
