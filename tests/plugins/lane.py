"""`pytest --lane NAME` keeps what became of a run for the end of `make test` (`tests/lanes.py`)."""

import re
import time
from collections import Counter
from typing import Final

import pytest

from tests.lanes import Lane, note

STARTED: Final = pytest.StashKey[float]()
#: What pytest counts as, in the order in which it is told.
OUTCOMES: Final = ("failed", "error", "passed", "skipped", "xfailed", "deselected")
#: Names of modules and files in a reason, which is the same for all of them.
_PARTICULARS: Final = re.compile(r"\b(?:fedq\.[\w.]+|[\w/.-]+/[\w.-]+)")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The one option."""
    parser.addoption("--lane", metavar="NAME", help="note the outcome for the end of `make test`")


def pytest_sessionstart(session: pytest.Session) -> None:
    """How long it takes is told, too."""
    session.config.stash[STARTED] = time.monotonic()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """Notes the counts and the reasons of skips."""
    name = config.getoption("--lane")
    if name is None:
        return
    stats = terminalreporter.stats
    counts = [f"{len(stats[word])} {word}" for word in OUTCOMES if stats.get(word)]
    skipped: Counter[str] = Counter()
    for report in stats.get("skipped", []):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        skipped[_PARTICULARS.sub("…", why.removeprefix("Skipped: "))] += 1
    seconds = time.monotonic() - config.stash[STARTED]
    note(name, Lane(", ".join(counts) or "nothing", exitstatus == 0, seconds, skipped))
