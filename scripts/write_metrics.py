"""Writes the table of metrics into `docs/METRICS.md`, or checks that it is what the code says.

    python scripts/write_metrics.py            # write
    python scripts/write_metrics.py --check    # exit 1 when the table is not what the code says

Input: `fedq.http.metrics.table`. Output: a row for each metric.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from fedq.http.metrics import table  # noqa: E402 (found from here on)

TARGET: Final = ROOT / "docs" / "METRICS.md"
BEGIN: Final = "<!-- begin: python scripts/write_metrics.py -->\n"
END: Final = "<!-- end -->\n"


def rows() -> Iterator[str]:
    """The table."""
    yield "| metric | kind | labels by object | meaning |\n|---|---|---|---|\n"
    for metric in table.METRICS:
        labels = ", ".join(table.LABELS.get(metric.of, ()))
        yield f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |\n"
    for timed in table.HISTOGRAMS:
        yield f"| `{timed.name}` | {table.Kind.HISTOGRAM} | | {timed.help} |\n"
    for each in table.LABELLED:
        yield f"| `{each.name}` | gauge | always: {', '.join(each.labels)} | {each.help} |\n"


def renewed(document: str) -> str:
    """The document with the table of today."""
    head, begin, rest = document.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{TARGET.name}: put the table between {BEGIN!r} and {END!r}")
    return head + begin + "".join(rows()) + end + tail


def main() -> int:
    """Writes, or checks; returns the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    document = TARGET.read_text("utf-8")
    wanted = renewed(document)
    if document == wanted:
        return 0
    if parser.parse_args().check:
        sys.stderr.write("docs/METRICS.md: run python scripts/write_metrics.py\n")
        return 1
    TARGET.write_text(wanted, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
