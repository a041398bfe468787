"""One node of three is full: who publishes to it waits and is told, and everybody else goes on."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.alarms import heard_by
from tests.integration.conftest import Connect
from tests.integration.full_disk import small_disk
from tests.integration.harness import Cluster
from tests.integration.standing import wrong
from tests.integration.stock import PERSISTENT, BlockingConnection, pika
from tests.integration.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.patience(120)]

MIB = 1 << 20
ONE_COPY = {"x-fedq-replicas": 1, "x-fedq-fragments": 1}
#: Each of these is held singly, and in memory.
SINGLY = {**ONE_COPY, "x-max-priority": 5, "x-max-length-bytes": 1 << 40}
#: Nobody is taken for dead because the machine has much else to do.
PATIENT = {"timing": {"lease_ms": 2_000, "suspect_ms": 6_000}}


@contextmanager
def three_nodes(directory: Path, of_c: dict[str, Any]) -> Iterator[Cluster]:
    """Nodes a, b and c, of which c is configured otherwise."""
    cluster = Cluster(directory, more=PATIENT)
    path = cluster.nodes["c"].directory / "node.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | of_c))
    with cluster:
        yield cluster


def problems(cluster: Cluster) -> list[str]:
    """What is wrong, as another node sees it."""
    return wrong(cluster.ask("cluster", "status", node="a"))


def alarms(cluster: Cluster, name: str) -> dict[str, Any]:
    """What a node is short of and who waits, as another node tells it."""
    members = cluster.ask("cluster", "status", node="b")["members"]
    found: dict[str, Any] = next(m["figures"]["alarms"] for m in members if m["node"] == name)
    return found


def goes_on(connection: BlockingConnection, queue: str) -> None:
    """Publishes, and waits for the confirm of each: pika raises if one does not come."""
    channel = connection.channel()
    channel.confirm_delivery()
    for _ in range(20):
        channel.basic_publish("", queue, b"x", PERSISTENT)
    channel.close()


def test_a_node_whose_memory_is_full_holds_its_own_publishers_alone(
    open_connection: Connect, tmp_path: Path
) -> None:
    with three_nodes(tmp_path, {"limits": {"memory_bytes": 4 * MIB}}) as cluster:
        a, c = cluster.nodes["a"].amqp, cluster.nodes["c"].amqp
        open_connection(a).channel().queue_declare("near", durable=True, arguments=ONE_COPY)
        reader = open_connection(c).channel()
        reader.queue_declare("far", arguments=SINGLY)
        there, elsewhere = open_connection(a), open_connection(a)
        heard, heard_elsewhere = heard_by(there), heard_by(elsewhere)
        filling = there.channel()

        def is_told() -> bool:
            for _ in range(0 if heard else 200):
                filling.basic_publish("", "far", b"")
            there.process_data_events(0.02)
            return heard == ["low on memory: c"]

        until("who publishes there is told", is_told, 40.0)
        goes_on(elsewhere, "near")
        assert problems(cluster) == [
            "c is low on memory: who publishes to it waits until consumers have taken enough"
        ]
        of_a, of_c = alarms(cluster, "a"), alarms(cluster, "c")
        assert of_c["memory"]
        assert of_c["memory_bytes_max"] == 4 * MIB
        wait = {"node": "c", "vhost": "/", "queue": "far", "connections": 1}
        assert (of_a["connections_waiting"], of_a["waits"]) == (1, [wait])
        assert not heard_elsewhere
        # Whoever consumes there makes room.
        reader.queue_purge("far")

        def is_over() -> bool:
            there.process_data_events(0.02)
            return heard == ["low on memory: c", "unblocked"]

        until("it ends", is_over, 20.0)
        goes_on(there, "far")
        assert not problems(cluster)


def test_a_node_whose_disk_is_full_holds_its_own_publishers_alone(
    open_connection: Connect, tmp_path: Path
) -> None:
    limits = {"limits": {"disk_free_bytes": 8 * MIB}}
    with (
        small_disk(tmp_path / "disk", "24m") as disk,
        three_nodes(tmp_path, limits | {"data": str(disk / "data")}) as cluster,
    ):
        a, c = cluster.nodes["a"].amqp, cluster.nodes["c"].amqp
        open_connection(a).channel().queue_declare("near", durable=True, arguments=ONE_COPY)
        open_connection(c).channel().queue_declare("far", durable=True, arguments=ONE_COPY)
        filler = disk / "filler"
        filler.write_bytes(bytes(18 * MIB))
        there, local = open_connection(a), open_connection(c)
        waiting = [(there, heard_by(there), "low on disk: c"),
                   (local, heard_by(local), "low on disk")]  # fmt: skip
        for connection, heard, reason in waiting:
            channel = connection.channel()

            def is_told(
                connection: BlockingConnection = connection, heard: list[str] = heard,
                channel: pika.channel.Channel = channel, reason: str = reason,
            ) -> bool:  # fmt: skip
                if not heard:
                    channel.basic_publish("", "far", b"x", PERSISTENT)
                connection.process_data_events(0.02)
                return heard == [reason]

            until("who publishes there is told", is_told, 20.0)
        assert problems(cluster) == [
            "c is low on disk: who publishes to it waits; make room on its disk"
        ]
        # Its own clients, too, publish elsewhere.
        goes_on(open_connection(c), "near")
        filler.unlink()
        for connection, heard, reason in waiting:

            def is_over(
                connection: BlockingConnection = connection, heard: list[str] = heard,
                reason: str = reason,
            ) -> bool:  # fmt: skip
                connection.process_data_events(0.02)
                return heard == [reason, "unblocked"]

            until("it ends", is_over, 20.0)
            goes_on(connection, "far")
