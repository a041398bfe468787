"""`python -m tests.cost`: counts, compares with the budget, and renews it when asked to."""

import argparse

from rich.console import Console
from rich.table import Table

from tests.cost import budget
from tests.cost.figures import MODES, CannotCount, Figures, Mode, Shares, count, names
from tests.cost.machine import count_machine
from tests.cost.works import WORKS

FUNCTIONS_TOLD = 25


def _table(mode: Mode, figures: Figures) -> Table:
    table = Table("", "figure", "budget", "now", "", title=f"{mode}, Python {budget.VERSION}")
    for change in budget.changes(figures, budget.budget(mode) or {}):
        before = "" if change.before is None else f"{change.before:,.2f}"
        ratio = f"{change.now / change.before - 1:+.1%}" if change.before else ""
        style = "bold red" if change.has_grown else ""
        table.add_row(change.name, change.figure, before, f"{change.now:,.2f}", ratio, style=style)
    return table


def _functions(shares: Shares) -> Table:
    table = Table("", "each", "function, or line", title="where it goes")
    for name, share in shares.items():
        for function in sorted(share, key=lambda name: -share[name])[:FUNCTIONS_TOLD]:
            table.add_row(name, f"{share[function]:,.2f}", function)
    return table


def _show_machine(console: Console, mode: Mode, wanted: list[str]) -> None:
    for work in WORKS:
        if work.name in wanted:
            machine = count_machine(mode, work.name)
            title = f"{work.name}, {mode}: {machine.each:,.0f} machine instructions each"
            table = Table("each", "function", title=title)
            shares = machine.by_function
            for function in sorted(shares, key=lambda name: -shares[name])[:FUNCTIONS_TOLD]:
                table.add_row(f"{shares[function]:,.0f}", function)
            console.print(table)


def main() -> int:
    """The command line; 1 when something costs more than it may."""
    parser = argparse.ArgumentParser(prog="python -m tests.cost", description=__doc__)
    parser.add_argument("--write", action="store_true", help="what is counted becomes the budget")
    parser.add_argument("--only", default="", metavar="WORD", help="works whose names contain this")
    parser.add_argument("--mode", choices=MODES, help="pure or compiled modules; both without it")
    parser.add_argument("--machine", action="store_true", help="the machine's instructions, slowly")
    options = parser.parse_args()
    console = Console()
    wanted = [name for name in names() if options.only in name]
    if not wanted:
        parser.error(f"no work has {options.only!r} in its name; there are: {', '.join(names())}")
    has_grown = False
    for mode in MODES if options.mode is None else (options.mode,):
        try:
            if options.machine:
                _show_machine(console, mode, wanted)
                continue
            figures, shares = count(mode, wanted)
        except CannotCount as reason:
            console.print(f"{mode}: not counted: {reason}")
            continue
        console.print(_table(mode, figures))
        if options.only:
            console.print(_functions(shares))
        before = budget.budget(mode) or {}
        has_grown |= any(change.has_grown for change in budget.changes(figures, before))
        if options.write:
            budget.write(mode, figures, shares)
    return 1 if has_grown and not options.write else 0


if __name__ == "__main__":
    raise SystemExit(main())
