"""Shovels between real brokers: whatever is killed, nothing is lost, and what repeats says so.

A shovel of a cluster of three nodes moves messages to another broker: a fedq of one node, and a
real RabbitMQ where one is installed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from loadtests.macro.brokers import RabbitBroker
from tests.integration.conftest import Connect
from tests.integration.harness import Cluster, eventually
from tests.integration.stock import PERSISTENT, Address, BlockingChannel, connect

pytestmark = pytest.mark.slow

MANY = 180


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "here") as running:
        yield running


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "here", names=("here",)) as running:
        yield running


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "there", names=("there",)) as running:
        yield running


def uri(address: Address) -> str:
    return f"amqp://guest:guest@{address.host}:{address.port}/%2F"


def shovel(cluster: Cluster, name: str, **said: Any) -> None:
    value = {key.replace("_", "-"): each for key, each in said.items()}
    cluster.ask("parameter", "set", "shovel", name, orjson.dumps(value).decode())


def status(cluster: Cluster, name: str) -> dict[str, Any]:
    found = cluster.ask("shovel", "status", name)
    assert isinstance(found, dict)
    return found


def publish(channel: BlockingChannel, queue: str, start: int, amount: int) -> None:
    for number in range(start, start + amount):
        channel.basic_publish("", queue, b"%d" % number, PERSISTENT)


def confirming(open_connection: Connect, address: Address, queue: str) -> BlockingChannel:
    channel = open_connection(address).channel()
    channel.queue_declare(queue, durable=True)
    channel.confirm_delivery()
    return channel


def taken(address: Address, queue: str, wanted: int) -> list[tuple[int, bool]]:
    """Each message that arrives until there are so many different ones, and whether it repeats."""
    found: list[tuple[int, bool]] = []
    connection = connect(address)
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)

    def all_there() -> bool:
        while True:
            method, properties, body = channel.basic_get(queue, auto_ack=True)
            if method is None or body is None:
                return len({number for number, _ in found}) == wanted
            headers = (properties.headers if properties is not None else None) or {}
            found.append((int(body), bool(headers.get("x-fedq-redelivered"))))

    eventually(f"all of {queue} arrive", all_there)
    connection.close()
    return found


def check(found: list[tuple[int, bool]], wanted: int) -> None:
    """Nothing is lost, and what came again says that it may have come before."""
    assert {number for number, _ in found} == set(range(wanted))
    seen: set[int] = set()
    for number, is_marked in found:
        assert is_marked or number not in seen, f"{number} came again, and does not say so"
        seen.add(number)


def test_the_destination_is_killed_and_all_arrives(
    here: Cluster, other: Cluster, open_connection: Connect
) -> None:
    there = other.nodes["there"]
    channel = confirming(open_connection, here.nodes["here"].amqp, "from")
    shovel(
        here, "move", src_uri="amqp://guest:guest@/", src_queue="from",
        dest_uri=uri(there.amqp), dest_queue="to", reconnect_delay=0.5, src_prefetch_count=50,
    )  # fmt: skip
    publish(channel, "from", 0, MANY // 3)
    eventually("it moves", lambda: status(here, "move")["messages_moved"] > 0)
    other.kill("there")
    publish(channel, "from", MANY // 3, MANY // 3)
    eventually("it says why", lambda: "destination" in status(here, "move").get("reason", ""))
    other.restart("there")
    publish(channel, "from", 2 * (MANY // 3), MANY // 3)
    check(taken(there.amqp, "to", MANY), MANY)


def test_the_node_that_runs_it_is_killed_and_another_one_goes_on(
    cluster: Cluster, open_connection: Connect
) -> None:
    first = next(iter(cluster.nodes))
    channel = open_connection(cluster.nodes[first].amqp).channel()
    for queue in ("from", "to"):
        channel.queue_declare(queue, durable=True)
        cluster.wait_whole(queue)
    local = "amqp://guest:guest@/"
    shovel(
        cluster, "move", src_uri=local, src_queue="from", dest_uri=local, dest_queue="to",
        reconnect_delay=0.5, src_prefetch_count=50,
    )  # fmt: skip
    eventually("it runs", lambda: status(cluster, "move")["state"] == "running")
    runner = status(cluster, "move")["node"]
    survivor = next(name for name in cluster.nodes if name != runner)
    channel = confirming(open_connection, cluster.nodes[survivor].amqp, "from")
    publish(channel, "from", 0, MANY // 2)
    cluster.kill(runner)
    publish(channel, "from", MANY // 2, MANY // 2)

    def taken_over() -> bool:
        found = cluster.ask("shovel", "status", "move", node=survivor)
        return bool(found["node"] != runner and found["state"] == "running")

    eventually("another node runs it", taken_over)
    check(taken(cluster.nodes[survivor].amqp, "to", MANY), MANY)


def test_what_was_there_is_moved_and_the_shovel_is_gone(
    here: Cluster, open_connection: Connect
) -> None:
    cluster, address = here, here.nodes["here"].amqp
    channel = confirming(open_connection, address, "from")
    publish(channel, "from", 0, 100)
    shovel(
        cluster, "all", src_uri="amqp://guest:guest@/", src_queue="from", dest_uri=uri(address),
        dest_exchange="amq.topic", dest_exchange_key="a.b", src_delete_after="queue-length",
        dest_add_forward_headers=True, dest_add_timestamp_header=True,
    )  # fmt: skip
    eventually("it is gone", lambda: not cluster.ask("shovel", "list")["shovels"])
    declared = channel.queue_declare("from", passive=True)
    assert declared.method.message_count == 0

    # Wrong passwords are told, and not told: not in the status, not in the list, not in a log.
    wrong = f"amqp://guest:s3cret@{address.host}:{address.port}"
    shovel(cluster, "wrong", src_uri=wrong, src_queue="from", dest_uri=wrong, reconnect_delay=0.5)
    eventually("it says why", lambda: "refused: 403" in status(cluster, "wrong").get("reason", ""))
    told = [cluster.ask("shovel", "list"), cluster.ask("parameter", "list")]
    assert "s3cret" not in str(told)
    assert all("s3cret" not in node.log() for node in cluster.nodes.values())
    cluster.ask("parameter", "clear", "shovel", "wrong")
    eventually("it is gone", lambda: not cluster.ask("shovel", "list")["shovels"])


@pytest.mark.skipif(not RabbitBroker.is_installed(), reason="rabbitmq-server is not installed")
def test_a_rabbitmq_may_be_either_end(tmp_path: Path, open_connection: Connect) -> None:
    with (
        RabbitBroker(tmp_path / "rabbit", cores="") as rabbit,
        Cluster(tmp_path / "here", names=("here",)) as here,
    ):
        address = here.nodes["here"].amqp
        channel = confirming(open_connection, rabbit.address, "from")
        publish(channel, "from", 0, 150)
        shovel(
            here, "in", src_uri=uri(rabbit.address), src_queue="from",
            dest_uri="amqp://guest:guest@/", dest_queue="between", reconnect_delay=0.5,
        )  # fmt: skip
        eventually("all came", lambda: status(here, "in")["messages_moved"] >= 150)
        shovel(
            here, "out", src_uri=uri(address), src_queue="between", dest_uri=uri(rabbit.address),
            dest_queue="to", reconnect_delay=0.5, src_prefetch_count=50,
        )  # fmt: skip
        eventually("it runs", lambda: status(here, "out")["messages_moved"] > 0)
        # The node is killed in the midst, and its process of shovels ends with it.
        here.kill("here")
        publish(channel, "from", 150, 150)
        here.restart("here")
        check(taken(rabbit.address, "to", 300), 300)
