"""Many scripts, one after the other, and what they found.

Input: how many, of which themes, from which seed. Output: a `Report`: scripts, operations, and
differences by kind, each with its shortest script. Hypothesis draws the scripts; a script that
shows a new kind is cut down here, operation by operation, since each attempt costs the patience
with which two brokers are compared.
"""

import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.differential import decisions
from tests.differential.compare import PATIENCE_S, Difference, OnStep, Played, play
from tests.differential.script import Script, listing
from tests.differential.side import Side
from tests.differential.themes import THEMES

#: Scripts of one theme in a row at most; each row has a seed of its own, and each theme has a row.
ROW: Final = 25
#: How long both may take to agree when a difference is known and its script is cut down.
SHORT_PATIENCE_S: Final = 0.2
Sides = tuple[Side, Side]


@dataclass(slots=True)
class Finding:
    """A kind of difference that no decision covers."""

    kind: str
    theme: str
    seed: int
    difference: Difference
    count: int = 1


@dataclass(slots=True)
class Report:
    """What a run came to."""

    scripts: int = 0
    operations: int = 0
    seconds: float = 0.0
    findings: dict[str, Finding] = field(default_factory=dict)
    #: How often each decision was met.
    decided: dict[str, int] = field(default_factory=dict)


class Runner:
    """Plays scripts on the same two brokers, each under names of its own."""

    def __init__(self, sides: Sides, on_finding: Callable[[Finding], None]) -> None:
        """`on_finding` hears of each new kind of difference at once."""
        self.report = Report()
        self.sides = sides
        self._on_finding = on_finding
        self._played = 0
        self._started = time.monotonic()
        self._salt = f"{time.time_ns() // 1_000_000 % 10**9:x}"

    def play(
        self, script: Script, patience_s: float = PATIENCE_S, on_step: OnStep | None = None
    ) -> Played:
        """One script on both brokers."""
        self._played += 1
        return play(script, self.sides, f"s{self._salt}-{self._played}", patience_s, on_step)

    def undecided(self, played: Played) -> list[Difference]:
        """Differences that are bugs until somebody decides otherwise."""
        return [each for each in played.differences if not decisions.decision(each)]

    def run(self, scripts: int, first_seed: int, themes: Sequence[str]) -> Report:
        """Plays that many scripts, themes taking turns."""
        size = min(ROW, -(-scripts // len(themes)))
        for row in range(-(-scripts // size)):
            theme = themes[row % len(themes)]
            self._run_row(theme, first_seed + row // len(themes), min(size, scripts - row * size))
        return self.report

    def _run_row(self, theme: str, row_seed: int, scripts: int) -> None:
        @seed(row_seed)
        @settings(
            max_examples=scripts, database=None, deadline=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(THEMES[theme])
        def attempt(script: Script) -> None:
            played = self.play(script)
            self.report.scripts += 1
            self.report.operations += played.operations
            for difference in played.differences:
                self._note(theme, row_seed, difference)

        try:
            attempt()
        finally:
            self.report.seconds = time.monotonic() - self._started

    def _note(self, theme: str, row_seed: int, difference: Difference) -> None:
        report = self.report
        decided = decisions.decision(difference)
        if decided:
            report.decided[decided.name] = report.decided.get(decided.name, 0) + 1
            return
        known = report.findings.get(difference.kind)
        if known is not None:
            known.count += 1
            return
        shown = self.shortened(difference)
        finding = Finding(difference.kind, theme, row_seed, shown)
        report.findings[difference.kind] = finding
        self._on_finding(finding)

    # --- cutting down -----------------------------------------------------------------------------

    def shortened(self, difference: Difference) -> Difference:
        """The same kind of difference, by a script with as little as possible."""
        smaller = True
        while smaller:
            smaller = False
            for shorter in _shorter(difference.script):
                played = self.play(shorter, SHORT_PATIENCE_S)
                open_ones = self.undecided(played)
                again = [each for each in open_ones if each.kind == difference.kind]
                if again:
                    difference = again[0]
                    smaller = True
                    break
        return difference


def _shorter(script: Script) -> Iterator[Script]:
    """The script without one operation, or one argument, or with one write more."""
    for at in reversed(range(len(script) - 1)):
        yield script[:at] + script[at + 1 :]
    for at, operation in enumerate(script):
        if operation.joined:
            yield (*script[:at], operation._replace(joined=False), *script[at + 1 :])
    for at, operation in enumerate(script):
        for name in operation.arguments:
            kept = {each: value for each, value in operation.arguments.items() if each != name}
            yield (*script[:at], operation._replace(arguments=kept), *script[at + 1 :])


def finding_text(finding: Finding) -> str:
    """A finding for people: kind, script, and the step that differs."""
    lines = [f"--- {finding.kind}  (theme {finding.theme}, seed {finding.seed})"]
    lines += [f"    {operation}" for operation in finding.difference.script]
    return "\n".join([*lines, str(finding.difference), ""])


def report_text(report: Report) -> str:
    """The summary."""
    rate = report.scripts / max(report.seconds, 0.001)
    lines = [
        f"{report.scripts} scripts, {report.operations} operations, {report.seconds:.0f} s "
        f"({rate:.1f} scripts a second)",
        f"{len(report.findings)} kinds of differences that no decision covers",
    ]
    found = sorted(report.findings.values(), key=lambda each: -each.count)
    lines += [f"  {each.count:6}  {each.theme:12}  {each.kind}" for each in found]
    lines.append("differences that are decisions")
    lines += [f"  {count:6}  {name}" for name, count in sorted(report.decided.items())]
    return "\n".join(lines)


def keep(finding: Finding, directory: Path) -> None:
    """Writes the finding's script into the directory, under a name that says what it does."""
    directory.mkdir(parents=True, exist_ok=True)
    number = zlib.crc32(finding.kind.encode())
    verb = finding.difference.operation.verb.replace(".", "-")
    comment = "".join(f"# {line}\n" for line in str(finding.difference).splitlines())
    path = directory / f"{finding.theme}-{verb}-{number:08x}.txt"
    path.write_text(comment + listing(finding.difference.script), encoding="utf-8")
