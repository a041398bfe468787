"""Writes `docs/CONFORMANCE.md` from the results of runs.

Inputs: results per suite and target. Output: the page's text. Invariant: nothing is in it that no
run has shown, but for the reasons, which come from `deselected/` and from the suites themselves.
"""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from conformance.running import SuiteResult
from conformance.suites import SUITES, Suite

Results = Mapping[tuple[str, str], SuiteResult]

_COLUMNS: Final = ("one", "three", "rabbitmq")
_TITLES: Final = {"one": "one node", "three": "three nodes", "rabbitmq": "RabbitMQ"}
_WHY_CHARACTERS: Final = 220

_INTRODUCTION: Final = """\
# Conformance

Client libraries bring tests of their own. `make conformance` fetches the source packages of the
clients below, builds each from its source, and runs its tests, untouched (a checksum before and
after says so), against one fedq node and against a cluster of three with the client at a node that
does not lead it. This page is written by that command; nothing in it is edited by hand. Suites may
be run one by one: each row says at which commit. How it works:
[conformance/README.md](../conformance/README.md).

A failure stays a failure. A test is deselected only for a reason that no broker can change, and is
listed with it. RabbitMQ's row, where there is one, is the same run against it: what fails there
too is the suite's own affair.
"""


def page(results: Results, before: str = "") -> str:
    """The whole page; of suites without any result, what `before`, the page of now, says."""
    ran = {suite for suite, _ in results}
    old_rows = {
        suite.name: re.findall(rf"^\| {re.escape(suite.name)} \|.*\n", before, re.MULTILINE)
        for suite in SUITES
        if suite.name not in ran
    }
    parts = [_INTRODUCTION, _summary(results, old_rows)]
    for suite in SUITES:
        title = re.escape(f"## {suite.name} {suite.version}\n")
        kept = re.search(rf"^{title}.*?(?=^## |\Z)", before, re.MULTILINE | re.DOTALL)
        if kept and suite.name not in ran:
            parts.append(kept[0].rstrip("\n") + "\n")
        mine = {
            target: results[suite.name, target]
            for target in _COLUMNS
            if (suite.name, target) in results
        }
        if mine:
            parts.append(_section(suite, mine))
    return "\n".join(parts)


def _summary(results: Results, old_rows: Mapping[str, list[str]]) -> str:
    lines = [
        "| suite | version | against | passed | failed | skipped | deselected | ran again |"
        " minutes | at commit |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for suite in SUITES:
        lines += [row.rstrip("\n") for row in old_rows.get(suite.name, ())]
        for target in _COLUMNS:
            if (result := results.get((suite.name, target))) is None:
                continue
            again = sum(test.reruns > 0 for test in result.tests.values())
            counts = [
                result.count(outcome) for outcome in ("passed", "failed", "skipped", "deselected")
            ]
            cells = [suite.name, result.version, _title(target, result), *map(str, counts)]
            commit = "" if target == "rabbitmq" else result.commit
            cells += [str(again), f"{result.seconds / 60:.1f}", commit]
            lines.append("| " + " | ".join(cells) + " |")
    lines.append("")
    lines.append(
        "*Ran again*: tests that their own suite repeats when they fail, and that needed it."
    )
    return "\n".join(lines) + "\n"


def _title(target: str, result: SuiteResult) -> str:
    return result.target if target == "rabbitmq" else _TITLES[target]


def _section(suite: Suite, mine: Mapping[str, SuiteResult]) -> str:
    lines = [f"## {suite.name} {suite.version}", ""]
    if suite.note:
        lines += [suite.note[0].upper() + suite.note[1:] + ".", ""]
    for target, result in mine.items():
        if not result.untouched:
            lines += [
                f"**The sources changed during the run against {_title(target, result)}.**",
                "",
            ]
        if result.complaint:
            lines += [f"**Against {_title(target, result)}, a node's log had an error.**", ""]
    lines += _failures(mine)
    lines += _left_out("Deselected", "deselected", mine)
    lines += _left_out("Skipped by the suite itself", "skipped", mine)
    return "\n".join(lines)


def _failures(mine: Mapping[str, SuiteResult]) -> list[str]:
    failed: dict[str, dict[str, str]] = {}
    for target, result in mine.items():
        for name, test in result.tests.items():
            if test.outcome == "failed":
                failed.setdefault(name, {})[target] = test.why
    if not failed:
        return ["Nothing failed.", ""]
    lines = ["Failed:", "", "| test | " + " | ".join(_TITLES[target] for target in mine) + " |"]
    lines.append("|---|" + "---|" * len(mine))
    # One row for all parameters of a test, with the words of the first.
    together: dict[str, list[str]] = {}
    for name in sorted(failed):
        together.setdefault(name.partition("[")[0], []).append(name)
    for title, names in together.items():
        cells = []
        for target, result in mine.items():
            first = next((name for name in names if target in failed[name]), names[0])
            cells.append(_cell(failed[first].get(target), result, first))
        times = f" ({len(names)} variants)" if len(names) > 1 else ""
        lines.append(f"| `{_short(title)}`{times} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _cell(why: str | None, result: SuiteResult, test: str) -> str:
    if why is None:
        return result.tests[test].outcome if test in result.tests else "not run"
    return _plain(why)


def _plain(text: str) -> str:
    """One line that breaks no table."""
    # Addresses in memory and directories differ from machine to machine and say nothing.
    text = re.sub(r"0x[0-9a-f]{6,}", "0x…", " ".join(text.split()))
    text = re.sub(r"https?://\S+", "…", text)
    text = re.sub(r"(?<![\w:/])(/[\w.@+-]+)+/(?=[\w.@+-])", "…/", text)
    text = text.replace("|", "/").replace("<", "&lt;").replace(">", "&gt;")
    return text if len(text) <= _WHY_CHARACTERS else text[: _WHY_CHARACTERS - 1] + "…"


def _short(name: str) -> str:
    return name.replace("|", "/")


def _left_out(title: str, outcome: str, mine: Mapping[str, SuiteResult]) -> list[str]:
    reasons: Counter[str] = Counter()
    names: dict[str, list[str]] = {}
    for result in mine.values():
        for name, test in result.tests.items():
            if test.outcome == outcome and name not in names.setdefault(test.why, []):
                names[test.why].append(name)
                reasons[test.why] += 1
    if not reasons:
        return []
    lines = [f"{title}:", "", "| tests | where | reason |", "|---:|---|---|"]
    for why, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
        lines.append(f"| {count} | {_places(names[why])} | {_plain(why)} |")
    return [*lines, ""]


def _places(names: list[str]) -> str:
    if len(names) <= 3:
        return ", ".join(f"`{_short(name)}`" for name in names)
    files = Counter(name.partition("::")[0] for name in names)
    return ", ".join(f"`{file}`" for file in sorted(files))
