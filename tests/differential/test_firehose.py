"""What fedq's test expects of the firehose is what a real RabbitMQ says."""

import subprocess
from pathlib import Path

import pytest

from loadtests.macro.brokers import RABBIT_HOME, RabbitBroker
from tests.integration.firehose_story import STORY, tell

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not RabbitBroker.is_installed(), reason="no rabbitmq-server is installed"),
]


def test_the_story_is_the_one_that_rabbitmq_tells(tmp_path: Path) -> None:
    with RabbitBroker(tmp_path / "rabbit", cores="") as broker:

        def switch(on: bool) -> None:
            node = broker._nodes[0]
            command = ["trace_on" if on else "trace_off", "-p", "/"]
            subprocess.run(
                [str(RABBIT_HOME / "rabbitmqctl"), "-n", node.name, *command],
                env=broker._environment(node), check=True, capture_output=True,
            )  # fmt: skip

        assert tell(broker.address, switch) == STORY
