"""`fedq health`: does this one node serve? For checks of containers and service managers.

Exit codes: 0 it does, 3 it was not reached, 4 it answered, and does not.
"""

from typing import Annotated, Final

import typer

from fedq.cli.asking.asker import asking
from fedq.cli.asking.endpoint import Endpoint, asking_a_node
from fedq.cli.terminal.failure import UNWELL, reporting
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.screen import print_json
from fedq.shell.pb import admin_pb2 as pb

_FENCED: Final = "has no contact with a majority of the nodes, and does not serve its clients"


@reporting
@asking_a_node
def check_health(
    endpoint: Endpoint,
    alive: Annotated[
        bool, typer.Option("--alive", help="Only whether it answers, serving or not.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Say whether one node serves its clients, asking no other node: exit code 4 if not."""
    with asking(endpoint) as asker:
        figures = asker.ask(asker.stub.LocalNode, pb.LocalNodeRequest()).figures
    serves = figures.lease_held and not figures.stopping and not figures.closed
    if json:
        print_json(
            {"node": figures.node, "serves": serves, "stopping": figures.stopping,
             "closed": figures.closed}
        )  # fmt: skip
    else:
        typer.echo(f"{figures.node} {'serves its clients' if serves else _why_not(figures)}")
    if not serves and not alive:
        raise typer.Exit(UNWELL)


def _why_not(figures: pb.NodeFigures) -> str:
    """Why it does not serve."""
    if figures.stopping:
        return "stops"
    return f"lets no clients in: {figures.closed}" if figures.lease_held else _FENCED
