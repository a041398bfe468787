"""`fedq queue`: shared queues and their fragments."""

from typing import Annotated

import orjson
import typer

from fedq.admin.bounds import QUEUES_PER_PAGE_MAX
from fedq.cli.asking.asker import asking
from fedq.cli.asking.endpoint import Endpoint, asking_a_node
from fedq.cli.asking.forms import Form, queue_form, queue_state, stored_form
from fedq.cli.cluster import moving, quarantine, queue_messages, releasing, shape
from fedq.cli.cluster.queue_storage import storage_tables
from fedq.cli.cluster.queue_why import why_lines
from fedq.cli.terminal.failure import reporting
from fedq.cli.terminal.options import (
    JsonOption,
    LimitOption,
    QueueArgument,
    QueueVhostOption,
    VhostOption,
)
from fedq.cli.terminal.screen import Cell, console, print_json, size, table, word
from fedq.shell.pb import admin_pb2 as pb

app = typer.Typer(no_args_is_help=True, help="Show queues, and touch what is in them.")
app.command("purge")(queue_messages.purge_queue)
app.command("delete")(queue_messages.delete_queue)
app.command("peek")(queue_messages.peek_queue)
app.command("publish")(queue_messages.publish_message)
app.command("move")(queue_messages.move_messages)
app.command("move-fragment")(moving.move_fragment)
app.command("shape")(shape.shape_queue)
app.command("quarantine")(quarantine.show_quarantine)
app.command("release")(releasing.release_reader)


@app.command("list")
@reporting
@asking_a_node
def list_queues(
    endpoint: Endpoint,
    pattern: Annotated[
        str,
        typer.Argument(help="Only names that match, such as 'orders.*'.", show_default=False),
    ] = "",
    vhost: VhostOption = None,
    limit: LimitOption = 1_000,
    json: JsonOption = False,
) -> None:
    """List shared queues; ? is what a member that should know did not tell."""
    request = pb.ListQueuesRequest(
        name_pattern=pattern, vhost=vhost, page_size=min(limit, QUEUES_PER_PAGE_MAX)
    )
    found: list[Form] = []
    are_more = False
    with asking(endpoint) as asker:
        for page in asker.pages(asker.stub.ListQueues, request):
            room = limit - len(found)
            found += [queue_form(queue) for queue in page.queues[:room]]
            are_more = bool(page.next_page_token) or len(page.queues) > room
            if len(found) == limit:
                break
    if json:
        print_json({"queues": found, "more": are_more})
        return
    screen = console()
    headings = (
        "VHOST", "NAME", "STATE", "#READY", "#UNACKED", "#TOTAL", "#CONSUMERS", "#FRAGMENTS",
        "PRIMARIES",
    )  # fmt: skip
    screen.print(table(headings, map(_queue_row, found)))
    if are_more:
        screen.print(f"the first {limit}; there are more: see --limit, or give a pattern")
    silent = sorted({name for queue in found for name in queue["silent_members"]})
    if silent:
        screen.print(f"! ? is unknown: {', '.join(silent)} did not answer", style="red")


def _queue_row(queue: Form) -> list[Cell]:
    fragments: list[Form] = queue["fragments"]
    return [
        queue["vhost"],
        queue["name"],
        word(queue_state(queue)),
        queue["ready"],
        queue["unacknowledged"],
        queue["messages"],
        queue["consumers"],
        len(fragments),
        " ".join(dict.fromkeys(fragment["primary"] for fragment in fragments)),
    ]


@app.command("show")
@reporting
@asking_a_node
def show_queue(
    endpoint: Endpoint,
    name: QueueArgument,
    vhost: QueueVhostOption = "/",
    why: Annotated[
        bool,
        typer.Option("--why", help="Why each fragment is there, stays, and is led where it is."),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Show one shared queue with its fragments, and what each copy has in memory and on disk."""
    with asking(endpoint) as asker:
        request = pb.ShowQueueRequest(vhost=vhost, name=name)
        queue = stored_form(asker.ask(asker.stub.ShowQueue, request).queue)
    if json:
        print_json(queue)
        return
    screen = console()
    kept = "durable" if queue["durable"] else "transient"
    goes = ", auto-delete" if queue["auto_delete"] else ""
    arguments = orjson.dumps(queue["arguments"]).decode() if queue["arguments"] else "none"
    screen.print(f"queue {queue['name']} in vhost {queue['vhost']}: {kept}{goes}")
    screen.print(f"copies {queue['replicas']}, arguments {arguments}")
    policies = [
        f"{kind.replace('_', ' ')} {queue[kind]}"
        for kind in ("policy", "operator_policy")
        if queue[kind] is not None
    ]
    if policies:
        asked = orjson.dumps(queue["effective_policy_definition"]).decode()
        screen.print(f"{' and '.join(policies)}: {asked}", markup=False)
    screen.print(
        f"messages {_known(queue['messages'])}: ready {_known(queue['ready'])}, "
        f"unacknowledged {_known(queue['unacknowledged'])}; "
        f"consumers {_known(queue['consumers'])}"
    )
    headings = (
        "#FRAGMENT", "STATE", "PRIMARY", "BACKUPS", "IN SYNC", "#EPOCH", "#REIGN", "#READY",
        "#UNACKED", "#BYTES",
    )  # fmt: skip
    screen.print(table(headings, map(_fragment_row, queue["fragments"])))
    if why:
        for line in why_lines(queue):
            screen.print(line, soft_wrap=True, markup=False, highlight=False)
    for each in storage_tables(queue):
        screen.print(each)
    readers = [
        [each["name"], fragment["fragment"], each["offset"], each["lag"], each["node"]]
        for fragment in queue["fragments"]
        for each in fragment["readers"]
    ]
    if readers:
        # By name: in several fragments each of them keeps a place.
        readers.sort(key=lambda row: (row[0], row[1]))
        screen.print(table(("READER", "#FRAGMENT", "#OFFSET", "#LAG", "NODE"), readers))
    if queue["silent_members"]:
        silent = ", ".join(queue["silent_members"])
        screen.print(f"! ? is unknown: {silent} did not answer", style="red")


def _fragment_row(fragment: Form) -> list[Cell]:
    return [
        fragment["fragment"],
        word(fragment["state"]),
        fragment["primary"],
        " ".join(fragment["backups"]),
        " ".join(fragment["in_sync"]),
        fragment["epoch"],
        fragment["reign"],
        fragment["ready"],
        fragment["unacknowledged"],
        size(fragment["bytes"]),
    ]


def _known(figure: int | None) -> str:
    return "?" if figure is None else str(figure)
