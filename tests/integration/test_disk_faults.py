"""What a user sees of a disk that fails, with a long queue and a stream whose bodies are on it.

One node, so that no copy helps. `make disks` has longer stalls than `make test`.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pika.exceptions import AMQPError  # type: ignore[import-untyped]

from tests.faults.power import compiler
from tests.integration import test_long_queues as queues
from tests.integration import test_long_streams as streams
from tests.integration.alarms import heard_by
from tests.integration.conftest import Connect
from tests.integration.failing_disk import FailingDisk
from tests.integration.harness import Cluster
from tests.integration.stock import PERSISTENT
from tests.integration.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.patience(180),
    pytest.mark.skipif(compiler() is None, reason="needs a C compiler"),
]

STALLS_S = (1, 5, 30) if "FEDQ_TEST_DISKS" in os.environ else (2,)
#: 11 and 12 MiB, where bodies begin to leave memory at 6.
LONG, DEEP = 2_800, 800
MORE = {"limits": {"memory_bytes": 16 << 20}}


@pytest.fixture
def disk(tmp_path: Path) -> FailingDisk:
    return FailingDisk(tmp_path)


@pytest.fixture
def cluster(tmp_path: Path, disk: FailingDisk) -> Iterator[Cluster]:
    with Cluster(tmp_path, names="a", prefix=disk.prefix, more=MORE) as running:
        yield running


def fill(connect: Connect, cluster: Cluster) -> None:
    queues.fill(connect, cluster.nodes["a"].amqp, range(LONG), {})
    streams.publish(connect, cluster.nodes["a"].amqp, range(DEEP))


def check_all(connect: Connect, cluster: Cluster, long: int = LONG) -> None:
    """Everything is there, once and in order."""
    assert queues.drained(connect, cluster.nodes["a"].amqp, long) == list(range(long))
    reader = streams.Reader(connect, cluster.nodes["a"].amqp, "first")
    reader.read(DEEP - 1)
    assert reader.numbers == list(range(DEEP))


def publish_to_a_full_disk(connect: Connect, cluster: Cluster, disk: FailingDisk) -> int:
    """Publishes until it is told to wait, and no more once there is room; returns how many."""
    connection = connect(cluster.nodes["a"].amqp)
    blocked = heard_by(connection)
    channel = connection.channel()
    disk.fail("full")
    sent = 0

    def is_blocked() -> bool:
        nonlocal sent
        channel.basic_publish("", "long", queues.body(LONG + sent), PERSISTENT)
        sent += 1
        connection.process_data_events(0.05)
        return blocked == ["low on disk"]

    def is_over() -> bool:
        connection.process_data_events(0.05)
        return blocked == ["low on disk", "unblocked"]

    until("publishers are told", is_blocked, 30.0)
    disk.heal()
    until("it ends", is_over, 30.0)
    return sent


def test_what_a_disk_does_wrong_for_a_while_costs_nothing(
    open_connection: Connect, cluster: Cluster, disk: FailingDisk
) -> None:
    """Writes are short, or find no room; reads fail; syncs stall: only confirms wait for that."""
    node = cluster.nodes["a"]
    disk.fail("short")
    fill(open_connection, cluster)
    disk.fail("read")
    reader = streams.Reader(open_connection, node.amqp, "first")
    until("a read fails", lambda: disk.has_failed, 30.0)
    disk.heal()
    reader.read(DEEP - 1)
    more = LONG + publish_to_a_full_disk(open_connection, cluster, disk)
    channel = open_connection(node.amqp).channel()
    channel.confirm_delivery()
    for number, stall_s in enumerate(STALLS_S, more):
        disk.fail(str(1_000 * stall_s))
        began = time.monotonic()
        channel.basic_publish("", "long", queues.body(number), PERSISTENT)
        assert time.monotonic() - began >= stall_s
        disk.heal()
    if max(STALLS_S) > 1:
        until("it is told", lambda: "disk works again" in node.log(), 60.0)
        assert "the journal's disk hangs" in node.log()
    check_all(open_connection, cluster, more + len(STALLS_S))


def test_a_disk_that_fails_for_good_ends_the_node_and_loses_nothing(
    open_connection: Connect, cluster: Cluster, disk: FailingDisk
) -> None:
    node = cluster.nodes["a"]
    fill(open_connection, cluster)
    # What was not confirmed may be there.
    for how in ("write", "sync"):
        channel = open_connection(node.amqp).channel()
        disk.fail(how)
        # The node's own notes may meet the disk first, and end it before this arrives.
        with suppress(AMQPError):
            channel.basic_publish("", "deep", streams.body(DEEP), PERSISTENT)
        until("the node ends", lambda: not node.is_running, 30.0)
        assert node.end(signal.SIGKILL) == 1
        last = node.log().splitlines()[-3:]
        assert any("CRITICAL" in line and "Input/output error" in line for line in last)
        disk.heal()
        node.start()
        cluster.wait_served("a")
    assert queues.drained(open_connection, node.amqp, LONG) == list(range(LONG))
    reader = streams.Reader(open_connection, node.amqp, "first")
    reader.read(DEEP - 1)
    assert reader.numbers[:DEEP] == list(range(DEEP))
