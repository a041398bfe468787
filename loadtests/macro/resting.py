"""Measures what the processor time of a broker's nodes is while nobody wants anything.

    python -m loadtests.macro.resting --url amqp://guest:guest@127.0.0.1:5672 --pid 123 --seconds 10

In: the nodes' processes. Out: one JSON object. No client is connected.
"""

import argparse
import json
import sys
import time
from typing import Any

from loadtests.macro.brokers import tree_cpu_s


def parser() -> argparse.ArgumentParser:
    """The command line; what `make bench` says to every generator."""
    made = argparse.ArgumentParser(prog="python -m loadtests.macro.resting", allow_abbrev=False)
    made.add_argument("--url", action="append", default=[], help="not used")
    made.add_argument("--pid", action="append", type=int, required=True, help="a node's process")
    made.add_argument("--seconds", type=float, default=10.0)
    made.add_argument("--warm-up", type=float, default=0.0, help="seconds before it is measured")
    return made


def run(options: argparse.Namespace) -> dict[str, Any]:
    """What each node used of a core, in per cent, on the average."""
    time.sleep(options.warm_up)
    used_s, began = sum(tree_cpu_s(pid) for pid in options.pid), time.monotonic()
    time.sleep(options.seconds)
    used_s = sum(tree_cpu_s(pid) for pid in options.pid) - used_s
    seconds = time.monotonic() - began
    share = 100 * used_s / seconds / len(options.pid)
    return {"options": vars(options), "seconds": seconds, "core_percent": round(share, 3)}


if __name__ == "__main__":
    sys.stdout.write(f"{json.dumps(run(parser().parse_args()))}\n")
