"""`fedq queue shape`: in how many fragments a queue is, while it exists."""

from typing import Annotated, Final

import typer

from fedq.cli.asking.asker import asking
from fedq.cli.asking.endpoint import Endpoint, asking_a_node
from fedq.cli.terminal.failure import USAGE, CommandError, reporting
from fedq.cli.terminal.options import JsonOption, QueueArgument, QueueVhostOption
from fedq.cli.terminal.screen import console, print_json
from fedq.core.limits import FRAGMENTS_PER_QUEUE_MAX
from fedq.shell.pb import admin_pb2 as pb

#: In place of a number.
_AUTO: Final = "auto"


@reporting
@asking_a_node
def shape_queue(
    endpoint: Endpoint,
    name: QueueArgument,
    fragments: Annotated[
        str,
        typer.Option(
            "--fragments", metavar="NUMBER",
            help=f"1 to {FRAGMENTS_PER_QUEUE_MAX}; or {_AUTO}: as many as its traffic asks for.",
        ),
    ],
    vhost: QueueVhostOption = "/",
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Set in how many fragments a queue is, whatever it was declared with; not of a stream.

    It grows at once, by one for each member without one at most; it shrinks as its last fragments
    are empty and nobody has anything on its way to them. Of a length each fragment has its part at
    once: a full queue that grows drops its oldest messages beyond that.
    """
    wanted = _number(fragments)
    with asking(endpoint) as asker:
        queue = pb.QueueName(vhost=vhost, name=name)
        request = pb.ShapeQueueRequest(queue=queue, fragments=wanted)
        reply = asker.ask(asker.stub.ShapeQueue, request)
    if json:
        print_json({"changed": reply.changed, "wanted": wanted, "fragments": reply.fragments})
        return
    screen, there = console(), reply.fragments
    if not wanted:
        screen.print(f"{name} is in as many fragments as its traffic asks for; {there} now")
        return
    screen.print(f"{name} is to be in {_so_many(wanted)}; it is in {there}")
    if there > wanted:
        screen.print(f"others go once they are empty and quiet: `fedq queue show {name} --why`")
    elif there < wanted:
        screen.print("no other member is without one: ask again when there is")


def _number(text: str) -> int:
    """The number of fragments that is asked for; 0 for "auto"."""
    if text == _AUTO:
        return 0
    if text.isascii() and text.isdecimal() and 1 <= int(text) <= FRAGMENTS_PER_QUEUE_MAX:
        return int(text)
    raise CommandError(
        f"--fragments is a number from 1 to {FRAGMENTS_PER_QUEUE_MAX}, or {_AUTO}, not {text!r}",
        USAGE,
    )


def _so_many(count: int) -> str:
    """A number of fragments, in words."""
    return "1 fragment" if count == 1 else f"{count} fragments"
