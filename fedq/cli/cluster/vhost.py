"""`fedq vhost`: virtual hosts."""

from typing import Annotated

import typer

from fedq.cli.asking.asker import asking
from fedq.cli.asking.endpoint import Endpoint, asking_a_node
from fedq.cli.asking.forms import vhost_form
from fedq.cli.cluster.limits import MaxConnections, MaxQueues, list_limits, set_limits
from fedq.cli.terminal.failure import reporting
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.screen import console, print_json, say, table
from fedq.shell.pb import admin_pb2 as pb

app = typer.Typer(no_args_is_help=True, help="Add, delete and list virtual hosts.")

VhostArgument = Annotated[str, typer.Argument(help="Its name.", show_default=False)]


@app.command("add")
@reporting
@asking_a_node
def add_vhost(endpoint: Endpoint, name: VhostArgument, json: JsonOption = False) -> None:
    """Add a virtual host; one that is there stays as it is."""
    with asking(endpoint) as asker:
        reply = asker.ask(asker.stub.AddVhost, pb.AddVhostRequest(name=name))
    sentence = f"vhost {name} {'added' if reply.created else 'was there already'}"
    say({"vhost": name, "created": reply.created}, sentence, json)


@app.command("delete")
@reporting
@asking_a_node
def delete_vhost(endpoint: Endpoint, name: VhostArgument, json: JsonOption = False) -> None:
    """Delete a virtual host with its queues, messages, exchanges and permissions."""
    with asking(endpoint) as asker:
        asker.ask(asker.stub.DeleteVhost, pb.DeleteVhostRequest(name=name))
    say({"vhost": name}, f"vhost {name} deleted with all that was in it", json)


@app.command("list")
@reporting
@asking_a_node
def list_vhosts(endpoint: Endpoint, json: JsonOption = False) -> None:
    """List virtual hosts, and how much is in each."""
    with asking(endpoint) as asker:
        pages = asker.pages(asker.stub.ListVhosts, pb.ListVhostsRequest())
        vhosts = [vhost_form(vhost) for page in pages for vhost in page.vhosts]
    if json:
        print_json({"vhosts": vhosts})
        return
    rows = [(one["name"], one["queues"], one["exchanges"], one["users"]) for one in vhosts]
    console().print(table(("NAME", "#QUEUES", "#EXCHANGES", "#USERS"), rows))


@app.command("set-limits")
@reporting
@asking_a_node
def set_vhost_limits(
    endpoint: Endpoint,
    name: VhostArgument,
    max_connections: MaxConnections = None,
    max_queues: MaxQueues = None,
    json: JsonOption = False,
) -> None:
    """Limit what a virtual host may have; limits that are not named end."""
    values = {"max-connections": max_connections, "max-queues": max_queues}
    set_limits(endpoint, pb.Limits(vhost=name), values, json)


@app.command("limits")
@reporting
@asking_a_node
def list_vhost_limits(endpoint: Endpoint, json: JsonOption = False) -> None:
    """List the limits of virtual hosts."""
    list_limits(endpoint, "vhost", ("max-connections", "max-queues"), json)
