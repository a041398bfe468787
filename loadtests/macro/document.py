"""Writes tables into docs/PERFORMANCE.md, so that nobody copies figures by hand.

    python -m loadtests.macro.document [loadtests/results/2026-11-21-bench.json]

In: a report, by default the newest whole one. Out: the document with everything between two marks
replaced; the rest is left alone. `loadtests.macro.profile --write` has marks of its own. Exit code
2 if there is no report or there are no marks.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from loadtests.macro.results import failures, markdown_table, remarks
from tests.integration.harness import ROOT

DOCUMENT: Final = ROOT / "docs" / "PERFORMANCE.md"
RESULTS: Final = ROOT / "loadtests" / "results"
#: The mark before what is replaced; the name is that of the module that writes it.
BEGIN: Final = "<!-- begin: python -m loadtests.macro.{} -->"
END: Final = "<!-- end -->"


def newest() -> Path | None:
    """The report of the last whole run."""
    return max(RESULTS.glob("*-bench.json"), default=None)


def section(report: dict[str, Any], path: Path, document: Path) -> str:
    """What stands between the marks."""
    place = os.path.relpath(path.with_suffix(".md"), document.parent)
    picture = os.path.relpath(path.with_suffix(".svg"), document.parent)
    machine = report["machine"]
    names = " and ".join(report["brokers"].values())
    head = (
        f"{names}, {report['date']}, commit {machine['commit']}, {machine['processor']} "
        f"([report]({place}), [chart]({picture}))."
    )
    lines = [head, "", *remarks(report), "", *markdown_table(report["rows"])]
    wrong = failures(report)
    if wrong:
        lines += ["", "Did not finish:", "", *[f"- {line}" for line in wrong]]
    return "\n".join(lines)


def replaced(text: str, content: str, module: str) -> str:
    """The document with new content between the module's marks; `ValueError` without them."""
    mark = BEGIN.format(module)
    before, begin, rest = text.partition(mark)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document has no lines {mark} and {END}")
    return f"{before}{mark}\n{content}\n{END}{after}"


def replace(content: str, module: str) -> int:
    """Writes the module's part of the document; returns an exit code."""
    try:
        text = replaced(DOCUMENT.read_text(), content, module)
    except ValueError as error:
        sys.stderr.write(f"{DOCUMENT.relative_to(ROOT)}: {error}\n")
        return 2
    DOCUMENT.write_text(text)
    return 0


def main() -> int:
    """Replaces the section."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("report", nargs="?", type=Path, default=newest())
    path = parser.parse_args().report
    if path is None or not path.is_file():
        sys.stderr.write("there is no report of a whole run; `make bench` writes one\n")
        return 2
    return replace(section(json.loads(path.read_text()), path.resolve(), DOCUMENT), "document")


if __name__ == "__main__":
    sys.exit(main())
