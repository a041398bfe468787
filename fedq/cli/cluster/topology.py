"""`fedq exchange` and `fedq binding`: what the cluster map says of them, in RabbitMQ's columns."""

from typing import Final

import typer

from fedq.admin.rows import exchange_row
from fedq.cli.asking.forms import binding_form
from fedq.cli.asking.listing import Listed, list_command
from fedq.shell.pb import admin_pb2 as pb

exchanges = typer.Typer(no_args_is_help=True, help="Show exchanges.")
bindings = typer.Typer(no_args_is_help=True, help="Show bindings.")

_EXCHANGES: Final = Listed(
    "exchanges", "ListExchanges", pb.ListExchangesRequest, exchange_row,
    ("vhost", "name", "type", "durable", "auto_delete", "internal", "arguments"),
)  # fmt: skip
_BINDINGS: Final = Listed(
    "bindings", "ListBindings", pb.ListBindingsRequest, binding_form,
    (
        "vhost", "source_name", "source_kind", "destination_name", "destination_kind",
        "routing_key", "arguments",
    ),
)  # fmt: skip

exchanges.command("list", help="List exchanges.")(list_command(_EXCHANGES))
bindings.command(
    "list",
    help="List bindings; those of exclusive queues as what their nodes want of an exchange.",
)(list_command(_BINDINGS))
