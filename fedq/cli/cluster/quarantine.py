"""`fedq queue quarantine`: messages that were set aside, to be shown, put back or removed."""

from typing import Annotated

import typer

from fedq.cli.asking.asker import asking
from fedq.cli.asking.endpoint import Endpoint, asking_a_node
from fedq.cli.terminal.failure import USAGE, CommandError, reporting
from fedq.cli.terminal.options import JsonOption, QueueArgument, QueueVhostOption
from fedq.cli.terminal.screen import console, print_json, size, table
from fedq.shell.pb import admin_pb2 as pb


@reporting
@asking_a_node
def show_quarantine(
    endpoint: Endpoint,
    name: QueueArgument,
    vhost: QueueVhostOption = "/",
    requeue: Annotated[
        bool, typer.Option("--requeue", help="Put them back: they are delivered again.")
    ] = False,
    discard: Annotated[bool, typer.Option("--discard", help="Remove them for good.")] = False,
    position: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Only the message at this position; repeatable."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show messages that were set aside because a node failed at them; put them back; remove them.

    What is in them is in files of the node that serves them: see `fedq store quarantine`.
    """
    if requeue and discard:
        raise CommandError("--requeue and --discard: give one of them", USAGE)
    act = pb.QUARANTINE_ACT_LIST
    if requeue or discard:
        act = pb.QUARANTINE_ACT_REQUEUE if requeue else pb.QUARANTINE_ACT_DISCARD
    request = pb.QuarantineRequest(
        queue=pb.QueueName(vhost=vhost, name=name), act=act, positions=position or []
    )
    with asking(endpoint) as asker:
        reply = asker.ask(asker.stub.Quarantine, request)
    silent = list(reply.silent_members)
    if json:
        forms = [
            {"fragment": m.fragment, "position": m.position, "bytes": m.bytes, "node": m.node}
            for m in reply.messages
        ]
        print_json({"messages": forms, "silent_members": silent})
        return
    screen = console()
    if requeue or discard:
        done = "put back" if requeue else "removed"
        screen.print(f"{len(reply.messages)} messages of {name} {done}")
    else:
        rows = [(m.fragment, m.position, size(m.bytes), m.node) for m in reply.messages]
        screen.print(table(("#FRAGMENT", "#POSITION", "#BYTES", "NODE"), rows))
    if silent:
        screen.print(f"! not asked of {', '.join(silent)}: no answer", style="red")
