"""`fedq connection`, `channel`, `consumer`, `subscriber`: what clients have on all members."""

from typing import Annotated, Final

import typer

from fedq.cli.asking.asker import asking
from fedq.cli.asking.endpoint import Endpoint, asking_a_node
from fedq.cli.asking.forms import (
    channel_form,
    consumer_form,
    listed_connection_form,
    subscriber_form,
)
from fedq.cli.asking.listing import LISTED_DEFAULT, Listed, list_command, show_list
from fedq.cli.terminal.failure import USAGE, CommandError, reporting
from fedq.cli.terminal.options import JsonOption, LimitOption, VhostOption
from fedq.cli.terminal.screen import console, print_json
from fedq.shell.pb import admin_pb2 as pb

connections = typer.Typer(no_args_is_help=True, help="Show client connections, and end them.")
channels = typer.Typer(no_args_is_help=True, help="Show channels of client connections.")
consumers = typer.Typer(no_args_is_help=True, help="Show consumers.")
subscribers = typer.Typer(no_args_is_help=True, help="Show exclusive queues, and what waits there.")

_CONNECTIONS: Final = Listed(
    "connections", "BrowseConnections", pb.BrowseRequest, listed_connection_form,
    (
        "name", "user", "vhost", "peer_host", "#peer_port", "user_provided_name", "#channels",
        "state",
    ),
    of_members=True,
)  # fmt: skip
_CHANNELS: Final = Listed(
    "channels", "BrowseChannels", pb.BrowseRequest, channel_form,
    (
        "connection", "#number", "user", "vhost", "#consumer_count", "#messages_unacknowledged",
        "#prefetch_count", "#global_prefetch_count", "confirm", "transactional",
    ),
    of_members=True,
)  # fmt: skip
_CONSUMERS: Final = Listed(
    "consumers", "BrowseConsumers", pb.BrowseRequest, consumer_form,
    (
        "vhost", "queue_name", "channel", "consumer_tag", "ack_required", "#prefetch_count",
        "active", "arguments",
    ),
    of_members=True,
)  # fmt: skip

_SUBSCRIBERS: Final = Listed(
    "subscribers", "BrowseSubscribers", pb.BrowseRequest, subscriber_form,
    (
        "vhost", "queue_name", "connection", "user", "#messages_ready", "#bytes_held",
        "#messages_dropped", "#consumers", "stuck",
    ),
    of_members=True,
)  # fmt: skip

connections.command("list", help="List client connections.")(list_command(_CONNECTIONS))
channels.command("list", help="List channels.")(list_command(_CHANNELS))
consumers.command("list", help="List consumers.")(list_command(_CONSUMERS))


@subscribers.command("list")
@reporting
@asking_a_node
def list_subscribers(
    endpoint: Endpoint,
    slow: Annotated[
        bool,
        typer.Option("--slow", help="Only those for whom something waits, or was dropped."),
    ] = False,
    vhost: VhostOption = None,
    limit: LimitOption = LISTED_DEFAULT,
    json: JsonOption = False,
) -> None:
    """List exclusive queues with their owners, and what waits there."""
    show_list(endpoint, _SUBSCRIBERS, vhost, limit, json, slow=slow)


@connections.command("close")
@reporting
@asking_a_node
def close_connections(
    endpoint: Endpoint,
    name: Annotated[
        str,
        typer.Argument(help="Its name, as `fedq connection list` says it.", show_default=False),
    ] = "",
    user: Annotated[
        str, typer.Option("--user", metavar="NAME", help="All of this user.", show_default=False)
    ] = "",
    vhost: Annotated[
        str,
        typer.Option(
            "--vhost", metavar="NAME", help="All in this virtual host.", show_default=False
        ),
    ] = "",
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="What clients hear.", show_default=False)
    ] = "",
    json: JsonOption = False,
) -> None:
    """End client connections: they hear connection.close 320, and may come back."""
    if sum(map(bool, (name, user, vhost))) != 1:
        raise CommandError("give one of: a connection's name, --user, --vhost", USAGE)
    with asking(endpoint) as asker:
        request = pb.CloseConnectionsRequest(
            name=name or None, user=user or None, vhost=vhost or None, reason=reason
        )
        reply = asker.ask(asker.stub.CloseConnections, request)
    silent = list(reply.silent_members)
    if json:
        print_json({"closed": reply.closed, "silent_members": silent})
        return
    screen = console()
    screen.print(f"connections closed: {reply.closed}")
    if silent:
        screen.print(f"! not asked of {', '.join(silent)}: no answer", style="red")
