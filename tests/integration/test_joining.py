"""A cluster that grows from one node, loses one, and replaces it, while clients go on."""

import itertools
import random
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.conftest import Connect
from tests.integration.harness import Cluster, NodeProcess
from tests.integration.ports import LOOPBACK, free_ports
from tests.integration.stock import PERSISTENT
from tests.integration.test_planned_moves import PATIENT, Consumer, Publisher, member
from tests.integration.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.patience(240)]

WITHIN_S = 60.0


class Growing(Cluster):
    """A cluster that begins with one node, which others may join."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, ("a",), more=PATIENT)
        self._base = directory
        self._configure(self.nodes["a"], [])

    def add(self, name: str, *known: str) -> NodeProcess:
        """Starts a node that joins those; what its directory had is gone."""
        own = self._base / f"{name}-{len(self.nodes)}"
        own.mkdir()
        command = [sys.executable, "-m", "fedq", "node", "--config", str(own / "node.yaml")]
        node = NodeProcess(name, own, command, free_ports(3))
        # The first of those that it is to ask does not answer.
        nobody = f"localhost:{free_ports(1)[0]}"
        addresses = [f"{LOOPBACK}:{self.nodes[each].peer.port}" for each in known]
        self._configure(node, [nobody, *addresses])
        self.nodes[name] = node
        node.start()
        return node

    def join(self, name: str, *known: str) -> None:
        """As `add`, and waits until it serves and votes."""
        self.add(name, *known)
        self.wait_served(name, WITHIN_S)
        until(f"{name} votes", lambda: self.role(name) == "voter", WITHIN_S)

    def role(self, name: str) -> str:
        """What a node is, by the others."""
        return str(member(self, name)["role"])

    def _configure(self, node: NodeProcess, join: list[str]) -> None:
        form: dict[str, Any] = {
            "node": node.name,
            "data": "data",
            "amqp": {"listen": [{"host": node.amqp.host, "port": node.amqp.port}]},
            "admin": {"host": node.admin.host, "port": node.admin.port},
            "peer": {"host": node.peer.host, "port": node.peer.port},
            **PATIENT,
        }
        if join:
            form["join"] = join
        (node.directory / "node.yaml").write_text(yaml.safe_dump(form))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Growing]:
    with Growing(tmp_path) as running:
        yield running


def test_one_node_becomes_three_and_a_dead_one_is_replaced_under_clients(
    cluster: Growing, open_connection: Connect
) -> None:
    setup = open_connection(cluster.nodes["a"].amqp)
    setup.channel().queue_declare("work", durable=True)
    publisher = Publisher(cluster.nodes["a"].amqp, "work")
    consumer = Consumer(cluster.nodes["a"].amqp, "work")
    for thread in (consumer, publisher):
        thread.start()
    until("messages flow", partial(publisher.is_past, 50))
    cluster.join("b", "a")
    cluster.join("c", "b", "a")
    cluster.wait_whole("work", WITHIN_S)

    cluster.kill("b")
    until("it counts as down", lambda: member(cluster, "b")["state"] == "down", WITHIN_S)
    assert cluster.ask("cluster", "forget", "b", node="a")["changed"] is True
    assert "b" not in {each["node"] for each in status(cluster, "c")["members"]}
    cluster.nodes["b"].start()
    ended = cluster.nodes["b"].process
    assert ended is not None
    until("it is told, and ends", lambda: ended.poll() is not None, WITHIN_S)
    assert ended.poll() == 1
    assert "was taken out of this cluster" in cluster.nodes["b"].log()
    cluster.nodes["b"].process = None
    old = cluster.nodes.pop("b")
    cluster.join("b", "c")
    cluster.wait_whole("work", WITHIN_S)
    the_old_one_stays_out(cluster, old)

    known = publisher.confirmed
    until("messages flow still", partial(publisher.is_past, known + 50))
    publisher.ending.set()
    publisher.join()
    until("all came", lambda: len(consumer.got) >= publisher.confirmed, WITHIN_S)
    consumer.ending.set()
    consumer.join()
    assert (publisher.failure, consumer.failure) == (None, None)
    assert consumer.got == [(number, False) for number in range(publisher.confirmed)]
    start_all_again(cluster, open_connection)


def the_old_one_stays_out(cluster: Growing, old: NodeProcess) -> None:
    """While its successor is stopped, the machine that was forgotten is switched on again."""
    cluster.kill("b")
    until("b counts as down", lambda: member(cluster, "b")["state"] == "down", WITHIN_S)
    known = member(cluster, "b")["incarnation"]
    old.start()
    ended = old.process
    assert ended is not None
    until("it is told, and ends", lambda: ended.poll() is not None, WITHIN_S)
    assert "has another data directory" in old.log()
    old.process = None
    assert member(cluster, "b")["incarnation"] == known
    cluster.nodes["b"].start()
    cluster.wait_served("b", WITHIN_S)
    cluster.wait_whole("work", WITHIN_S)


def status(cluster: Growing, node: str) -> dict[str, Any]:
    return cluster.ask("cluster", "status", node=node)


def start_all_again(cluster: Growing, open_connection: Connect) -> None:
    """In a fixed order of its own, though the node under `join` is gone."""
    with open_connection(cluster.nodes["a"].amqp) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", "work", b"kept", PERSISTENT)
    order = random.Random(len(cluster.nodes)).choice([*itertools.permutations(cluster.nodes)])
    for name in cluster.nodes:
        assert cluster.terminate(name) == 0
    for name in order:
        cluster.nodes[name].start()
    for name in order:
        cluster.wait_served(name, WITHIN_S)
    assert [cluster.role(name) for name in order] == ["voter"] * 3
    with open_connection(cluster.nodes[order[0]].amqp) as connection:
        _, _, body = connection.channel().basic_get("work", auto_ack=True)
    assert body == b"kept"
