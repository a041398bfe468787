"""`pytest --lane NAME` keeps what became of a run for the end of `make test` (`tests/lanes.py`).

What fails is noted at once, and SIGTERM ends a lane as an interrupt does: whoever ends `make test`
early is still told which tests have failed until then.
"""

import re
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Generator
from typing import Final

import pytest

from tests.lanes import Lane, note
from tests.plugins.effort import Effort

#: What pytest counts as, in the order in which it is told.
OUTCOMES: Final = ("failed", "error", "passed", "skipped", "xfailed", "deselected")
#: Of what a failure said, so much is told.
CHARACTERS_SAID: Final = 160
#: What no module of tests takes: imports and collecting; the end.
BEFORE: Final = "(before all tests)"
AFTER: Final = "(after all tests)"
#: Names of modules and files in a reason, which is the same for all of them.
_PARTICULARS: Final = re.compile(r"\b(?:fedq\.[\w.]+|[\w/.-]+/[\w.-]+)")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The one option."""
    parser.addoption("--lane", metavar="NAME", help="note the outcome for the end of `make test`")


def pytest_configure(config: pytest.Config) -> None:
    """Nothing is noted of a run that is no lane."""
    name: str | None = config.getoption("--lane")
    if name is not None:
        config.pluginmanager.register(_Noting(name))


class _Noting:
    """The hooks of a run that is a lane."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._started = time.monotonic()
        self._failed: list[tuple[str, str]] = []
        self._effort = Effort()
        #: The module whose tests run, or what comes before and after them.
        self._module = BEFORE

    def pytest_sessionstart(self) -> None:
        """As make ends its lanes, and a CI ends make."""
        signal.signal(signal.SIGTERM, signal.default_int_handler)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """With the first test of a module the one before it is over."""
        self._enter(nodeid.partition("::")[0])

    def _enter(self, module: str) -> None:
        if module != self._module:
            self._effort.note(self._module)
            self._module = module

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes a failure."""
        self._note_failure(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Notes a module that cannot be imported."""
        self._note_failure(report)

    def _note_failure(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed:
            self._failed.append((report.nodeid, _said(report)))
            note(self._name, Lane("", is_green=False, failed=self._failed, is_over=False))

    # Within what pytest does, whose summary comes after it.
    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> Generator[None]:
        """Fixtures of an interrupted test may fail to end: that is said, and the summary comes."""
        try:
            yield
        except Exception:
            if exitstatus != pytest.ExitCode.INTERRUPTED:
                raise
            sys.stderr.write(f"\nat the end of an interrupted test:\n{traceback.format_exc()}\n")

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, exitstatus: int
    ) -> None:
        """Notes the counts and the reasons of skips."""
        stats = terminalreporter.stats
        counts = [f"{len(stats[word])} {word}" for word in OUTCOMES if stats.get(word)]
        if exitstatus == pytest.ExitCode.INTERRUPTED:
            counts.append("interrupted")
        skipped: Counter[str] = Counter()
        for report in stats.get("skipped", []):
            why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            skipped[_PARTICULARS.sub("…", why.removeprefix("Skipped: "))] += 1
        seconds = time.monotonic() - self._started
        ran = ", ".join(counts) or "nothing"
        self._enter(AFTER)
        self._effort.note(AFTER)
        effort = {name: round(spent, 2) for name, spent in self._effort.modules.items()}
        note(self._name, Lane(ran, exitstatus == 0, seconds, skipped, self._failed, effort=effort))


def _said(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The first line of what a failure said."""
    crash = getattr(report.longrepr, "reprcrash", None)
    said: str = report.longreprtext if crash is None else crash.message
    return (said.splitlines() or [""])[0][:CHARACTERS_SAID]
