"""Writes what a real RabbitMQ answers, as shapes, and what fedq leaves out of them.

    python -m tests.contract.http.record              # asks the RabbitMQ of this machine
    python -m tests.contract.http.record --left-out   # asks fedq, and lists what it leaves out

Output: `rabbitmq-3.10.json` and `left_out.txt` beside this file, which the test reads.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.contract.http.rabbit import ManagedRabbit
from tests.contract.http.shapes import lacking
from tests.contract.http.story import ask, told
from tests.integration.harness import Cluster
from tests.integration.ports import free_ports
from tests.integration.waiting import until

HERE = Path(__file__).parent
RECORDED = HERE / "rabbitmq-3.10.json"
LEFT_OUT = HERE / "left_out.txt"


def recorded() -> dict[str, list[Any]]:
    """What RabbitMQ answered."""
    found: dict[str, list[Any]] = json.loads(RECORDED.read_text("utf-8"))
    return found


def of_fedq(directory: Path) -> dict[str, tuple[int, Any]]:
    """What a node of fedq answers."""
    (port,) = free_ports(1)
    cluster = Cluster(directory, names=("a",))
    with (cluster.nodes["a"].directory / "node.yaml").open("a") as settings:
        settings.write(f"http:\n  port: {port}\n")
    with cluster:
        # A node that has just begun has not looked at its disk yet.
        until("the disk is looked at", lambda: "disk_free" in ask(port, "GET", "nodes")[1][0], 20)
        return told(port, cluster.nodes["a"].amqp)


def left_out(ours: dict[str, tuple[int, Any]]) -> list[str]:
    """The keys that fedq leaves out, by what was asked; not rates: a second look brings them."""
    return [
        f"{asked}: {key}"
        for asked, (_, shape) in recorded().items()
        for key in lacking(ours[asked][1], shape)
        if not ("message_stats." in key and key.endswith("_details"))
    ]


def main() -> int:
    """Asks one of the brokers, and writes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--left-out", action="store_true")
    with tempfile.TemporaryDirectory() as directory:
        if parser.parse_args().left_out:
            LEFT_OUT.write_text("\n".join(left_out(of_fedq(Path(directory)))) + "\n", "utf-8")
            return 0
        with ManagedRabbit(Path(directory) / "rabbit") as broker:
            found = told(broker.http_port, broker.address)
    RECORDED.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
