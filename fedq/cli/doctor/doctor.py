"""`fedq doctor`: one line for each thing that a node needs of its machine and its configuration.

Exit codes: 0 it will do (warnings may be there), 1 it will not, or with --strict there are
warnings, 2 the configuration cannot be read.
"""

from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from fedq.cli.asking.endpoint import load_configuration
from fedq.cli.doctor.findings import Finding, State
from fedq.cli.terminal.failure import FAILED, USAGE, CommandError, reporting
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.screen import Cell, console, print_json, table
from fedq.core.addresses import split_address

_STYLES: Final = {State.OK: "green", State.WARNING: "yellow", State.ERROR: "red"}


@reporting
def examine(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", show_default=False,
            help="The node.yaml to look at. Default: a node alone on loopback, as `fedq node`.",
        ),
    ] = None,
    member: Annotated[
        str | None,
        typer.Option(
            "--member", metavar="HOST:PORT", show_default=False,
            help="Admin address of a running member: compare clocks with all of its cluster.",
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit code 1 if there are warnings, too.")
    ] = False,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Say whether a node can start here with this configuration, and what is in its way.

    Run it as the user and on the machine of the node. Nothing is changed; a file of 64 KiB is
    written where the data are to be, and removed.
    """
    settings = load_configuration(config)
    if member is not None:
        try:
            split_address(member)
        except ValueError as wrong:
            raise CommandError(f"--member: {wrong}", USAGE) from wrong
    # They import what a node does: the other commands answer sooner without.
    from fedq.cli.doctor.checks import examined

    findings = list(examined(settings, member))
    counts = {state: sum(each.state is state for each in findings) for state in State}
    if json:
        print_json({
            "node": settings.node,
            "errors": counts[State.ERROR],
            "warnings": counts[State.WARNING],
            "checks": [each.form() for each in findings],
        })  # fmt: skip
    else:
        _show(findings, counts)
    if counts[State.ERROR] or (strict and counts[State.WARNING]):
        raise typer.Exit(FAILED)


def _show(findings: list[Finding], counts: dict[State, int]) -> None:
    rows: list[tuple[Cell, ...]] = []
    for each in findings:
        rows.append((each.check, Text(each.state, style=_STYLES[each.state]), each.text))
        if each.what_to_do:
            rows.append(("", "", f"-> {each.what_to_do}"))
    screen = console()
    screen.print(table(("CHECK", "STATE", "FOUND"), rows))
    screen.print(f"{counts[State.ERROR]} errors, {counts[State.WARNING]} warnings")
