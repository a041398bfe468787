"""`python -m loadtests.scale`: what a cluster would take, by what was measured.

    python -m loadtests.scale                                   # the tables of docs/SCALE.md
    python -m loadtests.scale --write                           # puts them there
    python -m loadtests.scale --subscribers 3000000 --nodes 60  # one cluster

Exit code 0; 2: sizes that make no sense.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from loadtests.scale.model import Cluster, Traffic, predict
from loadtests.scale.tables import document

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "SCALE.md"
BEGIN: Final = "<!-- begin: python -m loadtests.scale -->"
END: Final = "<!-- end -->"


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.scale", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = parser.add_argument
    add("--write", action="store_true", help="put the tables into docs/SCALE.md")
    add("--subscribers", type=int, default=0, help="of one cluster, in place of the tables")
    add("--nodes", type=int, default=10, help="of it")
    add("--rate", type=float, default=1.0, help="messages a second, each to all")
    add("--body-bytes", type=int, default=200, help="of a message")
    add("--timing", type=float, default=1.0, help="nodes wait so many times as long")
    add("--relays", type=int, default=0, help="a node hands on to so many; 0: one sends to all")
    add("--speed", type=float, default=1.0, help="a delivery there, over one on record")
    found = parser.parse_args(arguments)
    if min(found.nodes, found.timing, found.rate, found.speed) <= 0 or found.relays < 0:
        parser.error("--nodes, --timing, --rate and --speed are above 0, --relays is not below")
    if found.subscribers < 0 or found.body_bytes < 0:
        parser.error("--subscribers and --body-bytes are not below 0")
    return found


def with_tables(page: str) -> str:
    """The page with the tables of today."""
    head, _, rest = page.partition(BEGIN)
    tail = rest.partition(END)[2]
    return f"{head}{BEGIN}\n{document()}\n{END}{tail}"


def main(arguments: Sequence[str]) -> int:
    """The whole command; returns its exit code."""
    found = options(arguments)
    if found.write:
        PAGE.write_text(with_tables(PAGE.read_text("utf-8")), "utf-8")
        return 0
    if not found.subscribers:
        sys.stdout.write(document() + "\n")
        return 0
    cluster = Cluster(found.nodes, found.subscribers, found.timing, found.relays, found.speed)
    told = predict(cluster, Traffic(found.rate, found.body_bytes))
    for name in told.__slots__:
        sys.stdout.write(f"{name.replace('_', ' ')}: {getattr(told, name):,.4g}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
