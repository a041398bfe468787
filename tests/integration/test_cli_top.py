"""`fedq top` against a real node: rates while somebody publishes, and its end by Ctrl-C."""

import json
import select
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.integration.harness import Cluster, environment
from tests.integration.stock import connect
from tests.integration.waiting import patient, until

pytestmark = pytest.mark.slow

END_S = patient(30.0)


def test_a_queue_that_is_published_to_comes_first(lone_node: Cluster) -> None:
    place = lone_node.nodes["alone"].admin
    connection = connect(lone_node.addresses()[0])
    channel = connection.channel()
    channel.queue_delete("busy")
    channel.queue_declare("busy", durable=True)
    channel.confirm_delivery()
    command = [
        sys.executable, "-m", "fedq", "top", "--json", "--interval", "0.3", "--rows", "3",
        "--node", f"{place.host}:{place.port}",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as process:
        out = process.stdout
        assert out is not None
        try:
            looks = [json.loads(out.readline())]

            def is_seen() -> bool:
                # As long as it takes: some are published between two of its looks.
                for _ in range(20):
                    channel.basic_publish("", "busy", b"x")
                if select.select([out], [], [], 0)[0]:
                    looks.append(json.loads(out.readline()))
                return is_busy(looks[-1])

            until("it comes first", is_seen)
            process.send_signal(signal.SIGINT)
            assert process.wait(END_S) == 0
        finally:
            process.kill()
    channel.queue_delete("busy")
    connection.close()
    last = looks[-1]
    assert last["seconds"] >= 0.3
    (member,) = last["members"]
    assert member["published_per_second"] > 0
    assert member["turns_per_second"] > 0
    assert 0 < member["busy_percent"] <= 100
    assert len(last["connections"]) >= 1


def is_busy(look: dict[str, Any]) -> bool:
    """Whether the queue comes first, and something is published to it."""
    first = look["queues"][0]
    return bool(first["name"] == "busy" and first["published_per_second"])
