"""`fedq topic-permission`: which topics of an exchange users may use."""

from typing import Annotated

import typer

from fedq.admin.rows import topic_permission_row
from fedq.cli.asking.asker import asking
from fedq.cli.asking.endpoint import Endpoint, asking_a_node
from fedq.cli.terminal.failure import reporting
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.screen import console, print_json, say, table
from fedq.shell.pb import admin_pb2 as pb

app = typer.Typer(
    no_args_is_help=True, help="Limit users to topics of an exchange, and list who is limited."
)

UserArgument = Annotated[str, typer.Argument(help="The user's name.", show_default=False)]
VhostOption = Annotated[str, typer.Option("--vhost", metavar="NAME", help="The virtual host.")]


def _pattern(meaning: str) -> object:
    text = (
        f"Which keys the user may {meaning}: a regular expression, '.*' for all. {{username}} and "
        "{vhost} stand for names."
    )
    return typer.Argument(help=text, show_default=False)


@app.command("set")
@reporting
@asking_a_node
def set_topic_permissions(
    endpoint: Endpoint,
    user: UserArgument,
    exchange: Annotated[
        str,
        typer.Argument(help="A topic exchange; it need not be there yet.", show_default=False),
    ],
    write: Annotated[str, _pattern("publish with")],
    read: Annotated[str, _pattern("bind by")],
    vhost: VhostOption = "/",
    json: JsonOption = False,
) -> None:
    """Limit a user to topics of an exchange; without that it may use all of them."""
    wanted = pb.TopicPermissions(user=user, vhost=vhost, exchange=exchange, write=write, read=read)
    with asking(endpoint) as asker:
        request = pb.SetTopicPermissionsRequest(permissions=wanted)
        asker.ask(asker.stub.SetTopicPermissions, request)
    sentence = f"permissions of {user} for topics of {exchange} in vhost {vhost} set"
    say(topic_permission_row(wanted), sentence, json)


@app.command("clear")
@reporting
@asking_a_node
def clear_topic_permissions(
    endpoint: Endpoint,
    user: UserArgument,
    exchange: Annotated[
        str | None,
        typer.Argument(help="Only of this exchange; else of all.", show_default=False),
    ] = None,
    vhost: VhostOption = "/",
    json: JsonOption = False,
) -> None:
    """Let a user use all topics again, of one exchange or of all in a virtual host."""
    with asking(endpoint) as asker:
        request = pb.ClearTopicPermissionsRequest(user=user, vhost=vhost, exchange=exchange)
        asker.ask(asker.stub.ClearTopicPermissions, request)
    of = "all exchanges" if exchange is None else exchange
    sentence = f"{user} may use all topics of {of} in vhost {vhost}"
    say({"user": user, "vhost": vhost, "exchange": exchange}, sentence, json)


@app.command("list")
@reporting
@asking_a_node
def list_topic_permissions(
    endpoint: Endpoint,
    user: Annotated[
        str | None, typer.Option("--user", metavar="NAME", help="Only of this user.")
    ] = None,
    vhost: Annotated[
        str | None, typer.Option("--vhost", metavar="NAME", help="Only in this virtual host.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """List who is limited to which topics."""
    with asking(endpoint) as asker:
        request = pb.ListTopicPermissionsRequest(user=user, vhost=vhost)
        pages = asker.pages(asker.stub.ListTopicPermissions, request)
        found = [topic_permission_row(one) for page in pages for one in page.permissions]
    if json:
        print_json({"topic_permissions": found})
        return
    names = ("user", "vhost", "exchange", "write", "read")
    rows = [tuple(one[name] for name in names) for one in found]
    console().print(table(tuple(name.upper() for name in names), rows))
