"""A message that stops a node stops no second one: real processes, with a bug put into them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import Connect
from tests.integration.harness import UNCOMPILED, Cluster, environment, eventually
from tests.integration.poisoned_node import POISON
from tests.integration.stock import PERSISTENT, BlockingChannel, pika
from tests.integration.test_restarts import bodies
from tests.integration.waiting import until

pytestmark = pytest.mark.slow

LOST = (
    pika.exceptions.AMQPError, pika.exceptions.StreamLostError, ConnectionError,
)  # fmt: skip
NAMES = ("a", "b", "c")
BODIES = [b"one", b"two", POISON, b"three"]


class Poisoned(Cluster):
    """A cluster whose nodes have the bug."""

    def __init__(
        self, directory: Path, step: str, names: tuple[str, ...] = ("a", "b", "c")
    ) -> None:
        super().__init__(directory, names)
        for name, node in self.nodes.items():
            node._command = [
                *UNCOMPILED, "-m", "tests.integration.poisoned_node", step, "node", "--config",
                str(directory / name / "node.yaml"),
            ]  # fmt: skip

    @property
    def ended(self) -> list[str]:
        """The nodes whose processes have ended by themselves."""
        return [
            name for name, node in self.nodes.items()
            if node.process is not None and node.process.poll() is not None
        ]  # fmt: skip

    def revive(self, name: str) -> None:
        """Starts a node again that has ended by itself."""
        self.nodes[name].process = None
        self.restart(name)

    def quarantined(self, name: str) -> list[dict[str, object]]:
        """What the node's operator finds in its quarantine."""
        data = self.nodes[name].directory / "data"
        done = subprocess.run(
            [sys.executable, "-m", "fedq", "store", "quarantine", str(data), "--json"],
            env=environment(), capture_output=True, text=True, timeout=20, check=True,
        )  # fmt: skip
        found: list[dict[str, object]] = json.loads(done.stdout)["quarantined"]
        return found


def publish_all(cluster: Cluster, open_connection: Connect) -> None:
    """As a client library does: what was not confirmed is published again, wherever it can be."""
    unconfirmed = list(BODIES)

    def all_confirmed() -> bool:
        for node in cluster.nodes.values():
            try:
                channel = open_connection(node.amqp).channel()
                channel.confirm_delivery()
                while unconfirmed:
                    channel.basic_publish("", "jobs", unconfirmed[0], PERSISTENT)
                    unconfirmed.pop(0)
            except (*LOST, OSError):
                continue
            return True
        return False

    until("everything is confirmed", all_confirmed, 30.0)


def take_some(cluster: Cluster, open_connection: Connect, name: str) -> list[bytes]:
    """What a consumer of the node gets before the node stops, unacknowledged."""
    found: list[bytes] = []
    channel = open_connection(cluster.nodes[name].amqp).channel()
    try:
        for _, _, body in channel.consume("jobs", inactivity_timeout=5):
            if body is None:
                break
            found.append(body)
    except LOST:
        pass
    return found


@pytest.mark.patience(180)
@pytest.mark.parametrize("step", ["publish", "take", "deliver"])
def test_the_next_primary_serves_all_but_what_stopped_the_last(
    open_connection: Connect, tmp_path: Path, step: str
) -> None:
    with Poisoned(tmp_path, step) as cluster:
        channel: BlockingChannel = open_connection(cluster.nodes["a"].amqp).channel()
        channel.queue_declare("jobs", durable=True)
        first = cluster.primary_of("jobs")
        cluster.wait_whole("jobs")
        publish_all(cluster, open_connection)
        if step != "publish":
            take_some(cluster, open_connection, first)
        eventually("the primary has stopped", lambda: cluster.ended == [first], 20)
        second = next(name for name in cluster.nodes if name != first)
        until("another one serves", lambda: cluster.primary_of("jobs") != first, 20)
        client = open_connection(cluster.nodes[second].amqp).channel()
        assert sorted(bodies(client, "jobs")) == [b"one", b"three", b"two"]
        primary = cluster.primary_of("jobs")
        eventually("it is found", lambda: bool(cluster.quarantined(primary)), 10)
        assert [one["body"] for one in cluster.quarantined(primary)] == ["UE9JU09O"]
        assert cluster.ended == [first]
        # The restart does not try it again, nor does whoever serves after that.
        stopped = json.loads((cluster.nodes[first].directory / "data/stopped.json").read_text())
        assert "a bug that nobody knows" in stopped["error"]
        assert len(stopped["suspects"]) == 1
        cluster.revive(first)
        problems = " ".join(cluster.ask("cluster", "status", node=first)["problems"])
        assert "1 messages were suspected" in problems
        cluster.wait_whole("jobs")
        cluster.kill(primary)
        until("the last one serves", lambda: cluster.primary_of("jobs") != primary, 20)
        assert bodies(open_connection(cluster.nodes[first].amqp).channel(), "jobs") == []
        assert cluster.nodes[first].is_running


@pytest.mark.patience(120)
def test_a_node_alone_does_not_fail_again_at_its_start(
    open_connection: Connect, tmp_path: Path
) -> None:
    with Poisoned(tmp_path, "deliver", ("a",)) as cluster:
        channel = open_connection(cluster.nodes["a"].amqp).channel()
        channel.queue_declare("jobs", durable=True)
        publish_all(cluster, open_connection)
        take_some(cluster, open_connection, "a")
        eventually("it has stopped", lambda: cluster.ended == ["a"], 20)
        cluster.revive("a")
        client = open_connection(cluster.nodes["a"].amqp).channel()
        assert sorted(bodies(client, "jobs")) == [b"one", b"three", b"two"]
        eventually("it is found", lambda: bool(cluster.quarantined("a")), 10)
        assert cluster.ended == []
        [aside] = cluster.ask("queue", "quarantine", "jobs")["messages"]
        assert aside["node"] == "a"
        done = cluster.ask("queue", "quarantine", "jobs", "--discard")
        assert [one["position"] for one in done["messages"]] == [aside["position"]]
        assert cluster.ask("queue", "quarantine", "jobs")["messages"] == []
