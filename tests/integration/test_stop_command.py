"""`fedq cluster stop` and `upgrade-check` on a real process."""

from pathlib import Path

import pytest

from tests.integration.conftest import Connect
from tests.integration.harness import Cluster
from tests.integration.stock import PERSISTENT
from tests.integration.waiting import until

pytestmark = [pytest.mark.slow]


def test_a_node_is_stopped_cleanly_by_its_admin_port(
    tmp_path: Path, open_connection: Connect
) -> None:
    with Cluster(tmp_path, ("a",)) as cluster:
        node = cluster.nodes["a"]
        with open_connection(node.amqp) as connection:
            channel = connection.channel()
            channel.queue_declare("work", durable=True)
            channel.confirm_delivery()
            channel.basic_publish("", "work", b"kept", PERSISTENT)
        # It is the only voter: nobody but --all, or --force, stops it.
        with pytest.raises(LookupError, match="0 of 1 voters would be left"):
            cluster.ask("cluster", "stop", "a")
        assert cluster.ask("cluster", "stop", "--all") == {"stopped": ["a"], "left": []}
        process = node.process
        assert process is not None
        until("it ends", lambda: process.poll() is not None)
        assert process.poll() == 0
        assert "an operator asks this node to stop, at its admin port" in node.log()
        node.process = None
        cluster.restart("a")
        with open_connection(node.amqp) as connection:
            assert connection.channel().basic_get("work", auto_ack=True)[2] == b"kept"
