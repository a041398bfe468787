"""`fedq store`: what is in a node's data directory."""

import base64
from pathlib import Path
from typing import Annotated

import typer

from fedq.cli.failure import CommandError, reporting
from fedq.cli.options import JsonOption
from fedq.cli.screen import console, print_json, size, table
from fedq.shell.quarantine import Quarantined, quarantined

app = typer.Typer(no_args_is_help=True, help="Look into a node's data directory.")

DataArgument = Annotated[
    Path, typer.Argument(metavar="DATA", help="The node's data directory (`data` in its file).")
]


@app.callback()
def _group() -> None:
    """Look into a node's data directory."""


@app.command("quarantine")
@reporting
def show_quarantine(data: DataArgument, json: JsonOption = False) -> None:
    """Show messages that were set aside because the node could not work on them.

    They stay in their queues, out of reach, on all copies; `--json` shows them whole.
    """
    if not data.is_dir():
        raise CommandError(f"{data} is no directory; name the node's data directory")
    try:
        found = list(quarantined(data))
    except (OSError, ValueError) as error:
        raise CommandError(f"{error}; the messages themselves are in their queues") from error
    if json:
        print_json({"quarantined": [_form(one) for one in found]})
        return
    rows = [
        (one.vhost, one.queue, one.fragment, one.position, one.exchange, one.routing_key,
         size(len(one.body)))
        for one in found
    ]  # fmt: skip
    headings = ("VHOST", "QUEUE", "FRAGMENT", "POSITION", "EXCHANGE", "KEY", "BODY")
    console().print(table(headings, rows))


def _form(one: Quarantined) -> dict[str, object]:
    return {**one._asdict(), "body": base64.b64encode(one.body).decode()}
