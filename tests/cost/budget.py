"""What messages may cost: the committed figures, and how those of now compare with them.

`budget.json` has, by Python version and mode, the figures of each work and kind of thing;
`shares.json` beside it has what each function (or line) contributed to them, so that it can be told
where growth came from. A figure may grow by `GROWTH_MAX`; both files are written anew by
`python -m tests.cost --write`.
"""

import json
import sys
from pathlib import Path
from typing import NamedTuple

from tests.cost.figures import (
    HELD_BYTES,
    INSTRUCTIONS,
    REQUESTED_BYTES,
    REQUESTS,
    Figures,
    Mode,
    Shares,
)

FOLDER = Path(__file__).parent
GROWTH_MAX = 0.10
#: Growth below this is no growth: some figures are near zero.
LEAST = {INSTRUCTIONS: 1.0, REQUESTS: 0.1, REQUESTED_BYTES: 8.0, HELD_BYTES: 4.0}
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
FUNCTIONS_TOLD = 8
#: Python version -> mode -> figures or shares.
Book = dict[str, dict[str, dict[str, dict[str, float]]]]


class Change(NamedTuple):
    """One figure, before (None: it is new) and now."""

    name: str
    figure: str
    before: float | None
    now: float

    @property
    def has_grown(self) -> bool:
        """By more than it may."""
        if self.before is None:
            return False
        return self.now - self.before > max(self.before * GROWTH_MAX, LEAST[self.figure])


def read(file: str) -> Book:
    """One of the two files; empty when it is not there."""
    path = FOLDER / file
    return json.loads(path.read_text()) if path.exists() else {}


def budget(mode: Mode) -> Figures | None:
    """The budget for this Python version, if there is one."""
    return read("budget.json").get(VERSION, {}).get(mode)


def changes(now: Figures, before: Figures) -> list[Change]:
    """Every figure of now beside the budget's."""
    return [
        Change(name, figure, before.get(name, {}).get(figure), value)
        for name, figures in now.items()
        for figure, value in figures.items()
    ]


def culprits(now: dict[str, float], before: dict[str, float]) -> list[str]:
    """The functions (or lines) that contribute more than they did, the largest growth first."""
    growth = {name: value - before.get(name, 0.0) for name, value in now.items()}
    worst = sorted(growth, key=lambda name: -growth[name])[:FUNCTIONS_TOLD]
    return [
        # What was below a hundredth of its work was not written down.
        f"{growth[name]:+10.2f}  ({before.get(name, 'little')} -> {now[name]})  {name}"
        for name in worst
        if growth[name] > 0
    ]


def complaint(mode: Mode, grown: list[Change], now: Shares) -> str:
    """What a failing test says."""
    before = read("shares.json").get(VERSION, {}).get(mode, {})
    lines = [f"{mode}: costs more than tests/cost/budget.json allows (+{GROWTH_MAX:.0%}):"]
    for change in grown:
        assert change.before is not None
        lines.append(
            f"{change.name}: {change.figure} {change.before:.2f} -> {change.now:.2f} for each "
            f"({change.now / change.before - 1:+.0%})"
        )
        if change.figure in (INSTRUCTIONS, HELD_BYTES):
            lines += culprits(now.get(change.name, {}), before.get(change.name, {}))
    lines.append("If that is worth it: python -m tests.cost --write, and say why in the commit.")
    return "\n".join(lines)


def write(mode: Mode, figures: Figures, shares: Shares) -> None:
    """The figures of now become the budget; those of works not counted stay."""
    for file, content in (("budget.json", figures), ("shares.json", shares)):
        book = read(file)
        page = book.setdefault(VERSION, {}).setdefault(mode, {})
        page |= content
        text = json.dumps(book, indent=1, sort_keys=True)
        (FOLDER / file).write_text(text + "\n")
