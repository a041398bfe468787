"""`fedq shovel`: what moves messages between brokers, and how each of them fares."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from fedq.admin.shovel_answers import rows_of
from fedq.cli.asking.asker import asking
from fedq.cli.asking.endpoint import Endpoint, asking_a_node
from fedq.cli.terminal.failure import CommandError, reporting
from fedq.cli.terminal.options import JsonOption, QueueVhostOption, VhostOption
from fedq.cli.terminal.screen import console, print_json, table
from fedq.shell.pb import admin_pb2 as pb

app = typer.Typer(
    no_args_is_help=True,
    help="Look after shovels, which move messages between brokers (`fedq parameter set shovel`).",
)


@app.command("list")
@reporting
@asking_a_node
def list_shovels(endpoint: Endpoint, vhost: VhostOption = None, json: JsonOption = False) -> None:
    """List shovels, the node that runs each, and what it has moved since that runs it."""
    reply = _asked(endpoint, vhost)
    if json:
        print_json({"shovels": rows_of(reply.shovels), "silent": list(reply.silent_members)})
        return
    rows = [
        (s.vhost, s.name, s.node, s.state, s.messages, s.bytes, s.source, s.destination, s.error)
        for s in reply.shovels
    ]
    headings = (
        "VHOST", "NAME", "NODE", "STATE", "#MESSAGES", "#BYTES", "SOURCE", "DESTINATION", "ERROR"
    )  # fmt: skip
    screen = console()
    screen.print(table(headings, rows))
    for node in reply.silent_members:
        screen.print(f"{node} does not answer", markup=False)


@app.command("status")
@reporting
@asking_a_node
def show_shovel(
    endpoint: Endpoint,
    name: Annotated[str, typer.Argument(help="Of the shovel.", show_default=False)],
    vhost: QueueVhostOption = "/",
    json: JsonOption = False,
) -> None:
    """Show one shovel: where from, where to, what it has moved, what went wrong last."""
    found = [each for each in _asked(endpoint, vhost).shovels if each.name == name]
    if not found:
        raise CommandError(f"there is no shovel {name!r} in vhost {vhost!r}")
    if json:
        print_json(rows_of(found)[0])
        return
    screen = console()
    for what, value in _told(found[0]).items():
        screen.print(f"{what + ':':<13} {value}", markup=False)


def _told(shovel: pb.Shovel) -> dict[str, Any]:
    since = ""
    if shovel.since_ms:
        since = f" since {datetime.fromtimestamp(shovel.since_ms / 1_000, UTC):%F %T} UTC"
    told = {
        "shovel": f"{shovel.name} in vhost {shovel.vhost}",
        "state": f"{shovel.state}{since}, on {shovel.node or 'no node'}",
        "from": f"{shovel.source} at {shovel.source_uri}",
        "to": f"{shovel.destination} at {shovel.destination_uri}",
        "moved": f"{shovel.messages} messages, {shovel.bytes} bytes",
        "under way": f"{shovel.unsettled} messages",
        "restarts": str(shovel.restarts),
    }
    return {**told, "last error": shovel.error} if shovel.error else told


def _asked(endpoint: Endpoint, vhost: str | None) -> pb.ListShovelsReply:
    with asking(endpoint) as asker:
        request = pb.ListShovelsRequest(vhost=vhost)
        reply: pb.ListShovelsReply = asker.ask(asker.stub.ListShovels, request)
    return reply
