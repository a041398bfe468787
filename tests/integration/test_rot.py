"""A byte on a real disk changes: nobody misses a message, and the disk is whole again."""

from pathlib import Path

import pytest

from tests.integration.conftest import Connect
from tests.integration.harness import Cluster, NodeProcess
from tests.integration.test_long_queues import MIB, body, drained, fill
from tests.integration.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.patience(120)]

COUNT = 1_800
#: A start takes an eighth of that into memory; the rest of the queue is on disk alone.
LIMITS = {"memory_bytes": 32 * MIB, "scrub_bytes_per_second": 256 * MIB}


def flip(node: NodeProcess, wanted: bytes) -> Path:
    """One bit of this message is another one on the node's disk; returns in which file."""
    for path in sorted((node.directory / "data" / "journal").glob("*.journal")):
        at = path.read_bytes().find(wanted)
        if at >= 0:
            with path.open("r+b") as file:
                file.seek(at + 9)
                file.write(b"\1")
            return path
    raise AssertionError("no file has it")


def test_a_byte_that_rots_on_the_primary_costs_nobody_a_message(
    open_connection: Connect, tmp_path: Path
) -> None:
    more = {"limits": LIMITS, "timing": {"scrub_every_ms": 300}}
    with Cluster(tmp_path, names="abc", more=more) as cluster:
        fill(open_connection, cluster.nodes["a"].amqp, range(COUNT), {"x-fedq-replicas": 3})
        # Nothing comes to an old segment after a start.
        for name in cluster.nodes:
            cluster.kill(name)
        cluster.start_all()
        cluster.wait_whole("long")
        primary = cluster.primary_of("long")
        node = cluster.nodes[primary]
        rotten = flip(node, body(COUNT - 10))
        until("the segment is emptied", lambda: not rotten.exists(), 60.0)
        assert "has rot" in node.log()
        assert "written anew" in node.log()
        found = scrub_of(cluster, primary)
        assert found["segments_with_rot"] == 1
        assert found["messages_mended"] > 0
        assert found["messages_lost"] == 0
        got = drained(open_connection, cluster.nodes["b"].amqp, COUNT)
        assert sorted(got) == list(range(COUNT))
        assert cluster.primary_of("long") == primary


def scrub_of(cluster: Cluster, name: str) -> dict[str, int]:
    """What the node says of its scrub."""
    members = cluster.ask("cluster", "members", node=name)["members"]
    found: dict[str, int] = next(each for each in members if each["node"] == name)["figures"][
        "scrub"
    ]
    return found
