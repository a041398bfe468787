"""A node whose data directory is an older one, or empty: a long queue and a stream miss nothing."""

import os
import shutil
from pathlib import Path

import pytest

from tests.integration import test_long_queues as queues
from tests.integration import test_long_streams as streams
from tests.integration.conftest import Connect
from tests.integration.harness import Cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.patience(180),
    pytest.mark.skipif("FEDQ_TEST_DISKS" not in os.environ, reason="`make disks` has the time"),
]

LONG, DEEP = 2_000, 500
MORE = {"limits": {"memory_bytes": 16 << 20}}


@pytest.mark.parametrize("kind", ["old", "empty"])
def test_a_directory_that_is_not_the_last_one_costs_nothing(
    open_connection: Connect, tmp_path: Path, kind: str
) -> None:
    with Cluster(tmp_path, names="abc", more=MORE) as cluster:
        address = cluster.nodes["a"].amqp
        copies = {"x-fedq-replicas": 3}
        queues.fill(open_connection, address, range(LONG // 2), copies)
        streams.publish(open_connection, address, range(DEEP // 2))
        cluster.wait_whole("long")
        primary = cluster.primary_of("long")
        victim = next(name for name in "cba" if name != primary)
        data = cluster.nodes[victim].directory / "data"
        cluster.kill(victim)
        shutil.copytree(data, tmp_path / "old")
        cluster.restart(victim)
        cluster.wait_whole("long")
        queues.fill(open_connection, address, range(LONG // 2, LONG), copies)
        streams.publish(open_connection, address, range(DEEP // 2, DEEP))
        cluster.kill(victim)
        shutil.rmtree(data)
        if kind == "old":
            shutil.copytree(tmp_path / "old", data)
        cluster.restart(victim)
        cluster.wait_whole("long")
        cluster.wait_whole("deep")
        # Who has the last of it leaves; one of those that stay is the victim.
        cluster.kill(primary)
        there = cluster.nodes[victim].amqp
        assert sorted(queues.drained(open_connection, there, LONG)) == list(range(LONG))
        assert streams.read(open_connection, there, "first", DEEP - 1) == list(range(DEEP))
