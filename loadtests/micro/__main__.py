"""`python -m loadtests.micro [WORD]`: measures every case whose name contains the word."""

import sys

from rich.console import Console
from rich.table import Table

from loadtests.micro import (
    confirms,
    fanout,
    generator,
    headers,
    http_lists,
    messages,
    node,
    paced,
    replicas,
    sending,
    topics,
    wire,
)
from loadtests.micro.timing import microseconds


def main() -> int:
    """The command line."""
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    table = Table("step", "µs each", "a second and core")
    modules = (
        messages, wire, topics, headers, fanout, node, confirms, replicas, sending, paced,
        generator, http_lists,
    )  # fmt: skip
    for case in [case for module in modules for case in module.CASES]:
        if word in case.name:
            cost_us = microseconds(case)
            table.add_row(case.name, f"{cost_us:.3f}", f"{1e6 / cost_us:,.0f}")
    Console().print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
