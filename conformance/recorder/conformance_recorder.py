"""A pytest plugin that writes down what became of every test, one JSON value a line.

It runs inside the environment of the suite under test, so it imports nothing but pytest. Inputs:
`CONFORMANCE_RECORD`, the file to write, and `CONFORMANCE_DESELECTED`, a JSON file of
[pattern, reason] pairs; a test whose id matches a pattern is deselected and recorded with the
reason. Invariant: every test that is collected has a line, whatever happens to the run afterwards.
"""

import fnmatch
import json
import os
import re
from typing import Any

import pytest


class Recorder:
    """Writes each test's outcome as soon as it is known."""

    def __init__(self, record: str, deselected: str) -> None:
        """`record`: the file to append to; `deselected`: the file with patterns and reasons."""
        self._file = open(record, "a", encoding="utf-8", buffering=1)  # noqa: SIM115
        with open(deselected, encoding="utf-8") as patterns:
            self._deselected: list[tuple[str, str]] = json.load(patterns)

    def _write(self, kind: str, test: str, **more: Any) -> None:
        self._file.write(json.dumps({"kind": kind, "test": test} | more) + "\n")

    def _reason_to_leave_out(self, test: str) -> str | None:
        return next((why for pattern, why in self._deselected if _matches(test, pattern)), None)

    # Last, so that what a reader leaves out with `-k` is not taken for tests that never ended.
    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leaves out what the lists name, and says so."""
        kept, left_out = [], []
        for item in items:
            reason = self._reason_to_leave_out(item.nodeid)
            if reason is None:
                kept.append(item)
                self._write("collected", item.nodeid)
            else:
                left_out.append(item)
                self._write("deselected", item.nodeid, why=reason)
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = kept

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be imported is a failure of its own; one that skips itself is not."""
        if report.failed:
            left_out = self._reason_to_leave_out(report.nodeid)
            if left_out is None:
                self._write("failed", report.nodeid, why=_essence(str(report.longrepr)))
            else:
                self._write("deselected", report.nodeid, why=left_out)
        elif report.skipped:
            self._write("skipped", report.nodeid, why=_skip_reason(report.longrepr))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One phase of a test has ended."""
        if report.failed:
            self._write("failed", report.nodeid, why=_essence(report.longreprtext), at=report.when)
        elif report.skipped:
            why = getattr(report, "wasxfail", None) or _skip_reason(report.longrepr)
            self._write("skipped", report.nodeid, why=why)
        elif str(report.outcome) == "rerun":
            self._write("rerun", report.nodeid, why=_essence(report.longreprtext))
        elif report.when == "call":
            self._write("passed", report.nodeid, seconds=round(report.duration, 3))

    def pytest_unconfigure(self) -> None:
        """The end of the run."""
        self._file.close()


def _matches(test: str, pattern: str) -> bool:
    # Brackets are parameters of tests here, not classes of characters.
    return fnmatch.fnmatchcase(test, pattern.replace("[", "[[]"))


def _essence(text: str) -> str:
    lines = [line[1:].strip() for line in text.splitlines() if re.match(r"E\s", line)]
    # A traceback within a message says where, not what.
    lines = [line for line in lines if not re.match(r"File |raise |[\^~]|.*Traceback \(most", line)]
    # The first says what was expected; where an error was passed on, the last says what it was.
    told = lines if len(lines) <= 3 else [lines[0], *lines[-2:]]
    return " | ".join(told)[:600] or text.strip()[-600:]


def _skip_reason(details: Any) -> str:
    text = details[2] if isinstance(details, tuple) else str(details)
    return str(text).removeprefix("Skipped: ")


def pytest_configure(config: pytest.Config) -> None:
    """Starts recording."""
    plugin = Recorder(os.environ["CONFORMANCE_RECORD"], os.environ["CONFORMANCE_DESELECTED"])
    config.pluginmanager.register(plugin, "conformance-recorder-of-this-run")
