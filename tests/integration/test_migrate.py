"""`fedq migrate`: the queues of a broker that runs come here with their messages, and go back."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadtests.macro.brokers import RabbitBroker
from tests.integration.conftest import Connect
from tests.integration.harness import Cluster, eventually
from tests.integration.ports import free_ports
from tests.integration.stock import PERSISTENT, Address, BlockingChannel
from tests.unit.cli.command import fedq

pytestmark = pytest.mark.slow

QUEUES = {"one": 60, "two": 3, "none": 0}


def with_http(directory: Path, name: str) -> tuple[Cluster, int]:
    """A node with the HTTP API at a port."""
    (port,) = free_ports(1)
    cluster = Cluster(directory / name, names=(name,))
    with (cluster.nodes[name].directory / "node.yaml").open("a") as settings:
        settings.write(f"http:\n  port: {port}\n")
    return cluster, port


@pytest.fixture
def here(tmp_path: Path) -> Iterator[tuple[Address, str]]:
    """A node's AMQP address, and the URL of its API."""
    cluster, port = with_http(tmp_path, "here")
    with cluster:
        yield cluster.nodes["here"].amqp, f"http://guest:guest@127.0.0.1:{port}"


def fill(channel: BlockingChannel) -> None:
    for queue, count in QUEUES.items():
        channel.queue_declare(queue, durable=True, arguments={"x-max-length": 10_000})
        for number in range(count):
            channel.basic_publish("", queue, b"%d" % number, PERSISTENT)


def counts(channel: BlockingChannel) -> dict[str, int]:
    return {
        queue: channel.queue_declare(queue, passive=True).method.message_count for queue in QUEUES
    }


def uri(address: Address) -> str:
    return f"amqp://guest:guest@{address.host}:{address.port}"


def test_queues_come_and_go_back(
    here: tuple[Address, str], tmp_path: Path, open_connection: Connect
) -> None:
    address, url = here
    there, port = with_http(tmp_path, "there")
    with there:
        other = there.nodes["there"].amqp
        channel = open_connection(other).channel()
        channel.confirm_delivery()
        fill(channel)
        management = f"http://guest:guest@127.0.0.1:{port}"
        command = ("migrate", "--from", uri(other), "--management", management, "--url", url)
        done = fedq(*command, "--json")
        assert done.exit_code == 0, done.err
        assert done.value["queues"] == len(QUEUES)
        mine = open_connection(address).channel()
        assert counts(mine) == QUEUES
        assert counts(channel) == dict.fromkeys(QUEUES, 0)

        # All that is published there from now on comes, too, until it is to end.
        assert fedq(*command, "--keep").exit_code == 0
        channel.basic_publish("", "none", b"late", PERSISTENT)
        eventually("it comes", lambda: counts(mine)["none"] == 1)
        ended = fedq("migrate", "--end", "--url", url, "--json")
        assert ended.value["ended"] == len(QUEUES)

        # And back.
        done = fedq(*command, "--back")
        assert done.exit_code == 0, done.err
        assert counts(channel) == QUEUES | {"none": 1}
        assert counts(mine) == dict.fromkeys(QUEUES, 0)
        shown = fedq("migrate", "--end", "--url", url, "--json")
        assert shown.value["ended"] == 0


@pytest.mark.skipif(not RabbitBroker.is_installed(), reason="rabbitmq-server is not installed")
def test_the_queues_of_a_rabbitmq_come(
    here: tuple[Address, str], tmp_path: Path, open_connection: Connect
) -> None:
    address, url = here
    with RabbitBroker(tmp_path / "rabbit", cores="") as rabbit:
        channel = open_connection(rabbit.address).channel()
        channel.confirm_delivery()
        fill(channel)
        rows = [
            {
                "vhost": "/", "name": queue, "durable": True, "auto_delete": False,
                "arguments": {"x-max-length": 10_000},
            }
            for queue in QUEUES
        ]  # fmt: skip
        file = tmp_path / "definitions.json"
        file.write_text(json.dumps({"vhosts": [{"name": "/"}], "queues": rows}), "utf-8")
        command = ("migrate", "--from", uri(rabbit.address), "--definitions", str(file))
        done = fedq(*command, "--url", url)
        assert done.exit_code == 0, done.err
        assert done.out.splitlines()[-1] == "3 queues are moved"
        assert counts(open_connection(address).channel()) == QUEUES
        assert counts(channel) == dict.fromkeys(QUEUES, 0)
