"""`fedq top` against a real node: rates while somebody publishes, and its end by Ctrl-C."""

import json
import signal
import subprocess
import sys

import pytest

from tests.integration.harness import Cluster, environment
from tests.integration.stock import connect
from tests.integration.waiting import patient

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
        assert process.stdout is not None
        try:
            for _ in range(200):
                channel.basic_publish("", "busy", b"x")
            first = json.loads(process.stdout.readline())
            for _ in range(200):
                channel.basic_publish("", "busy", b"x")
            second = json.loads(process.stdout.readline())
            process.send_signal(signal.SIGINT)
            assert process.wait(END_S) == 0
        finally:
            process.kill()
    channel.queue_delete("busy")
    connection.close()
    assert second["seconds"] >= 0.3
    assert any(
        each["queues"][0]["name"] == "busy" and each["queues"][0]["published_per_second"] > 0
        and each["members"][0]["published_per_second"] > 0
        for each in (first, second)
    )  # fmt: skip
    (member,) = second["members"]
    assert member["turns_per_second"] > 0
    assert 0 < member["busy_percent"] <= 100
    assert len(second["connections"]) >= 1
