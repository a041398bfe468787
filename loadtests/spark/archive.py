"""What `fedq pipeline archive` takes: a stream is filled, archived, and archived again.

    python -m loadtests.spark.archive --rows 1000000 --size 100

In: how many rows of which size. Out, as a table or JSON: rows per second of the whole command (with
the start of Java and Spark), of a second run that has nothing to do, and what the archive has on
disk. One node, this machine, all of its cores for all. Needs PySpark: pip install '.[spark]'.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from loadtests.macro.brokers import FedqBroker
from loadtests.macro.machine import facts
from tests.integration.harness import environment
from tests.integration.stock import PERSISTENT, Address, connect

STREAM: Final = "archived"
KEYS: Final = ("a", "b", "c", "d", "e")


def said(*command: str) -> dict[str, Any]:
    """What a command of fedq says with `--json`."""
    done = subprocess.run(
        [sys.executable, "-m", "fedq", *command, "--json"],
        env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"fedq {' '.join(command)}: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def fill(address: Address, rows: int, size: int) -> None:
    """Publishes the rows, by some keys, and waits until the last one is confirmed."""
    connection = connect(address)
    channel = connection.channel()
    channel.exchange_declare(STREAM, "topic")
    arguments = {"x-queue-type": "stream", "x-fedq-fragments": 2}
    channel.queue_declare(STREAM, durable=True, arguments=arguments)
    channel.queue_bind(STREAM, STREAM, "#")
    for number in range(rows - 1):
        channel.basic_publish(STREAM, KEYS[number % len(KEYS)], bytes(size), PERSISTENT)
    channel.confirm_delivery()
    channel.basic_publish(STREAM, KEYS[0], bytes(size), PERSISTENT)
    connection.close()


def measured(rows: int, size: int, directory: Path) -> dict[str, Any]:
    """Fills a stream and archives it."""
    with FedqBroker(directory / "nodes", "", 1) as broker:
        [node] = broker.cluster.nodes.values()
        fill(node.amqp, rows, size)
        url = f"fedq://guest:guest@{node.admin.host}:{node.admin.port}"
        command = (
            "pipeline", "archive", "--url", url, "--stream", STREAM, "--out",
            str(directory / "archive"), "--quiet",
        )  # fmt: skip
        seconds: list[float] = []
        for _ in range(2):
            began_s = time.monotonic()
            found = said(*command)
            seconds.append(time.monotonic() - began_s)
        return {
            **facts(), "rows": found["table_rows"], "size": size, "seconds": round(seconds[0], 1),
            "rows_per_second": round(found["table_rows"] / seconds[0]),
            "nothing_to_do_seconds": round(seconds[1], 1), "files": found["table_files"],
            "bytes": found["table_bytes"],
        }  # fmt: skip


def main() -> None:
    """Measures, and says what was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        found = measured(arguments.rows, arguments.size, Path(directory))
    text = json.dumps(found, indent=2)
    if not arguments.json:
        text = "\n".join(f"{name:24} {value}" for name, value in found.items())
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
