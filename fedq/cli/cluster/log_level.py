"""`fedq log`: how much a node writes to its log, while it runs."""

from enum import StrEnum
from typing import Annotated

import typer

from fedq.cli.asking.asker import asking
from fedq.cli.asking.endpoint import Endpoint, asking_a_node
from fedq.cli.terminal.failure import reporting
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.screen import console, print_json, say, table
from fedq.shell.pb import admin_pb2 as pb

app = typer.Typer(no_args_is_help=True, help="Change how much a node writes to its log.")


class Level(StrEnum):
    """How much is written, or as it was when the node was started."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    DEFAULT = "default"


@app.command("level")
@reporting
@asking_a_node
def set_log_level(
    endpoint: Endpoint,
    subsystem: Annotated[
        str,
        typer.Argument(
            help="all, node, peers, raft, disk, clients, host, http, shovels, admin or changes.",
            show_default=False,
        ),
    ],
    level: Annotated[
        Level,
        typer.Argument(
            help="From which level on lines are written; default: as the node was started, of one "
            "subsystem as all.",
            case_sensitive=False, show_default=False,
        ),
    ],
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Set how much the node asked writes about a subsystem, until it is started again."""
    with asking(endpoint) as asker:
        request = pb.SetLogLevelRequest(subsystem=subsystem, level=level.value)
        asker.ask(asker.stub.SetLogLevel, request)
    said = {"subsystem": subsystem, "level": level.value}
    say(said, f"log level of {subsystem}: {level.value}", json)


@app.command("levels")
@reporting
@asking_a_node
def list_log_levels(endpoint: Endpoint, json: JsonOption = False) -> None:
    """List how much the node asked writes, by subsystem."""
    with asking(endpoint) as asker:
        found = asker.ask(asker.stub.ListLogLevels, pb.ListLogLevelsRequest()).levels
    rows = [(each.subsystem, each.level, each.is_own) for each in found]
    if json:
        names = ("subsystem", "level", "own")
        print_json({"log_levels": [dict(zip(names, row, strict=True)) for row in rows]})
        return
    shown = [(name, level, "" if is_own else "as all") for name, level, is_own in rows]
    console().print(table(("SUBSYSTEM", "LEVEL", ""), shown))
