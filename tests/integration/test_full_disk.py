"""A full disk is an event: nothing is lost, nothing else stops, and it ends when there is room."""

from pathlib import Path

import pytest

from tests.integration.alarms import heard_by
from tests.integration.conftest import Connect
from tests.integration.full_disk import fill, small_disk
from tests.integration.harness import Cluster
from tests.integration.stock import PERSISTENT
from tests.integration.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.patience(120)]


def test_a_node_with_a_full_disk_waits_and_goes_on(
    open_connection: Connect, tmp_path: Path
) -> None:
    more = {"limits": {"disk_free_bytes": 0}}
    with (
        small_disk(tmp_path / "disk", "24m") as disk,
        Cluster(disk, names="a", more=more) as cluster,
    ):
        channel = open_connection(cluster.nodes["a"].amqp).channel()
        channel.queue_declare("kept", durable=True)
        channel.confirm_delivery()
        channel.basic_publish("", "kept", b"before", PERSISTENT)
        filler = fill(disk)
        # Without confirms, so that pika does not wait: longer than what any page has left.
        connection = open_connection(cluster.nodes["a"].amqp)
        blocked = heard_by(connection)
        other = connection.channel()

        def is_blocked() -> bool:
            other.basic_publish("", "kept", bytes(100_000), PERSISTENT)
            connection.process_data_events(0.05)
            return blocked == ["low on disk"]

        until("publishers are told", is_blocked, 30.0)
        assert cluster.nodes["a"].process is not None
        assert cluster.nodes["a"].process.poll() is None, "it runs"
        # Consumers go on.
        reader = open_connection(cluster.nodes["a"].amqp).channel()
        method, _, body = reader.basic_get("kept", auto_ack=True)
        assert (method is not None, body) == (True, b"before")
        filler.unlink()

        def is_over() -> bool:
            connection.process_data_events(0.05)
            return blocked == ["low on disk", "unblocked"]

        until("it ends", is_over, 30.0)
        channel.basic_publish("", "kept", b"after", PERSISTENT)
        cluster.kill("a")
        cluster.nodes["a"].start()
        cluster.wait_served("a")
        reader = open_connection(cluster.nodes["a"].amqp).channel()
        left = reader.queue_declare("kept", passive=True).method.message_count
        found = [reader.basic_get("kept", auto_ack=True)[2][:6] for _ in range(left)]
        assert set(found[:-1]) == {bytes(6)}
        assert found[-1] == b"after"
