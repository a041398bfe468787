"""`fedq queue release`: what is reserved for a reader that is gone goes back to its queue."""

from typing import Annotated

import typer

from fedq.cli.asking.asker import asking
from fedq.cli.asking.endpoint import Endpoint, asking_a_node
from fedq.cli.terminal.failure import reporting
from fedq.cli.terminal.options import JsonOption, QueueArgument, QueueVhostOption
from fedq.cli.terminal.screen import console, print_json
from fedq.shell.pb import admin_pb2 as pb


@reporting
@asking_a_node
def release_reader(
    endpoint: Endpoint,
    name: QueueArgument,
    reader: Annotated[
        str, typer.Argument(metavar="READER", help="Its name; `fedq queue show` lists them.")
    ],
    vhost: QueueVhostOption = "/",
    json: JsonOption = False,
) -> None:
    """Put back what is reserved for a reader of a queue that will not come back for it.

    The messages are ready again, at their old places and marked as redelivered. A query that had
    read them cannot go on with its batch: what it wrote of it may come twice.
    """
    request = pb.ReleaseReaderRequest(queue=pb.QueueName(vhost=vhost, name=name), reader=reader)
    with asking(endpoint) as asker:
        reply = asker.ask(asker.stub.ReleaseReader, request)
    silent = list(reply.silent_members)
    if json:
        print_json({"messages": reply.messages, "silent_members": silent})
        return
    screen = console()
    screen.print(f"{reply.messages} messages of {name} put back")
    if silent:
        screen.print(
            f"! not, or not all, of what {', '.join(silent)} serves: ask again", style="red"
        )
