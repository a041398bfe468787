"""A lone node whose journal is damaged does not start, and says which queues it concerns."""

from pathlib import Path

import pytest

from tests.integration.conftest import Connect
from tests.integration.harness import Cluster
from tests.integration.stock import PERSISTENT
from tests.integration.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.patience(120)]


def test_damage_of_the_last_copy_is_told_by_queue(open_connection: Connect, tmp_path: Path) -> None:
    with Cluster(tmp_path, names="a") as cluster:
        node = cluster.nodes["a"]
        channel = open_connection(node.amqp).channel()
        channel.confirm_delivery()
        for queue in ("orders", "empty"):
            channel.queue_declare(queue, durable=True)
        for number in range(20):
            channel.basic_publish("", "orders", b"number %06d" % number, PERSISTENT)
        cluster.kill("a")
        journal = node.directory / "data" / "journal"
        path = next(p for p in journal.glob("*.journal") if b"number 000003" in p.read_bytes())
        data = bytearray(path.read_bytes())
        data[data.index(b"number 000003")] ^= 1
        path.write_bytes(data)
        before = len(node.log())
        node.start()
        until("the node ends", lambda: not node.is_running, 60.0)
        said = node.log()[before:]
        assert "Messages may be missing of the queues 'orders'" in said
        assert "fedq store accept-loss" in said
        assert path.read_bytes() == data
