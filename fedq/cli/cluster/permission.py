"""`fedq permission`: what users may do in virtual hosts."""

from typing import Annotated

import typer

from fedq.admin.rows import permission_row
from fedq.cli.asking.asker import asking
from fedq.cli.asking.endpoint import Endpoint, asking_a_node
from fedq.cli.terminal.failure import reporting
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.screen import console, print_json, say, table
from fedq.shell.pb import admin_pb2 as pb

app = typer.Typer(no_args_is_help=True, help="Set, clear and list permissions.")

UserArgument = Annotated[str, typer.Argument(help="The user's name.", show_default=False)]
VhostOption = Annotated[str, typer.Option("--vhost", metavar="NAME", help="The virtual host.")]


def _pattern(meaning: str) -> object:
    text = f"Which names the user may {meaning}: a regular expression, '.*' for all, '' for none."
    return typer.Argument(help=text, show_default=False)


@app.command("set")
@reporting
@asking_a_node
def set_permissions(
    endpoint: Endpoint,
    user: UserArgument,
    configure: Annotated[str, _pattern("declare and delete")],
    write: Annotated[str, _pattern("publish to and bind")],
    read: Annotated[str, _pattern("consume from and bind to")],
    vhost: VhostOption = "/",
    json: JsonOption = False,
) -> None:
    """Set what a user may do in a virtual host, in place of what it might do before."""
    wanted = pb.Permissions(user=user, vhost=vhost, configure=configure, write=write, read=read)
    with asking(endpoint) as asker:
        asker.ask(asker.stub.SetPermissions, pb.SetPermissionsRequest(permissions=wanted))
    say(permission_row(wanted), f"permissions of {user} in vhost {vhost} set", json)


@app.command("clear")
@reporting
@asking_a_node
def clear_permissions(
    endpoint: Endpoint, user: UserArgument, vhost: VhostOption = "/", json: JsonOption = False
) -> None:
    """Take all permissions of a user in a virtual host: it cannot open it any more."""
    with asking(endpoint) as asker:
        request = pb.ClearPermissionsRequest(user=user, vhost=vhost)
        asker.ask(asker.stub.ClearPermissions, request)
    sentence = f"permissions of {user} in vhost {vhost} cleared"
    say({"user": user, "vhost": vhost}, sentence, json)


@app.command("list")
@reporting
@asking_a_node
def list_permissions(
    endpoint: Endpoint,
    user: Annotated[
        str | None, typer.Option("--user", metavar="NAME", help="Only of this user.")
    ] = None,
    vhost: Annotated[
        str | None, typer.Option("--vhost", metavar="NAME", help="Only in this virtual host.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """List who may do what where."""
    with asking(endpoint) as asker:
        request = pb.ListPermissionsRequest(user=user, vhost=vhost)
        pages = asker.pages(asker.stub.ListPermissions, request)
        found = [permission_row(one) for page in pages for one in page.permissions]
    if json:
        print_json({"permissions": found})
        return
    names = ("user", "vhost", "configure", "write", "read")
    rows = [tuple(one[name] for name in names) for one in found]
    console().print(table(tuple(name.upper() for name in names), rows))
