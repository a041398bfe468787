"""A node that hangs, in its Raft log's disk or in its event loop, holds up nobody but itself."""

import signal
import sys
from pathlib import Path

import pika  # type: ignore[import-untyped]

from tests.integration.hanging import hang, let_go
from tests.integration.harness import Cluster, eventually

PREFIX = (sys.executable, "-m", "tests.integration.hanging")


def declared(cluster: Cluster, node: str, queue: str) -> bool:
    """Whether the node has a queue declared within a few seconds."""
    host, port = cluster.nodes[node].amqp
    parameters = pika.ConnectionParameters(host, port, blocked_connection_timeout=4)
    connection = pika.BlockingConnection(parameters)
    late = connection.call_later(4, connection.close)
    try:
        connection.channel().queue_declare(queue, durable=True)
    except pika.exceptions.AMQPError:
        return False
    connection.remove_timeout(late)
    connection.close()
    return True


def test_a_hung_raft_disk_stops_its_node_and_not_the_cluster(tmp_path: Path) -> None:
    with Cluster(tmp_path, prefix=PREFIX) as cluster:
        leader = cluster.leader()
        other = next(name for name in cluster.nodes if name != leader)
        assert declared(cluster, other, "before")
        hangs = cluster.nodes[leader].directory / "raft-hangs"
        hang(hangs)
        eventually("queues are declared again", lambda: declared(cluster, other, "meanwhile"), 20.0)
        assert "log hangs" in cluster.nodes[leader].log()
        let_go(hangs)
        cluster.wait_served(leader)
        eventually("it takes part again", lambda: declared(cluster, leader, "after"), 20.0)


def test_a_loop_that_hangs_ends_its_process_with_a_code_of_its_own(tmp_path: Path) -> None:
    more = {"timing": {"loop_hang_ms": 3_000}}
    with Cluster(tmp_path, ["a"], prefix=PREFIX, more=more) as cluster:
        node = cluster.nodes["a"]
        hang(node.directory / "loop-hangs")
        assert node.end(signal.SIGHUP) == 5
        assert "in _hang" in node.log(), "where it stood"
