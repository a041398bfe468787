"""Limits of virtual hosts and users: options, and what is done with them."""

from typing import Annotated

import typer

from fedq.cli.asking.asker import asking
from fedq.cli.asking.endpoint import Endpoint
from fedq.cli.terminal.screen import console, print_json, say, table
from fedq.shell.pb import admin_pb2 as pb

MaxConnections = Annotated[
    int | None,
    typer.Option(
        min=0, help="Connections to all nodes together; without it: any.", show_default=False
    ),
]
MaxQueues = Annotated[
    int | None,
    typer.Option(min=0, help="Queues in the cluster; without it: any.", show_default=False),
]
MaxChannels = Annotated[
    int | None,
    typer.Option(
        min=0, help="Channels of all connections to a node; without it: any.", show_default=False
    ),
]


def set_limits(
    endpoint: Endpoint, limits: pb.Limits, values: dict[str, int | None], json: bool
) -> None:
    """Has these limits set for whom `limits` names; what is None is not limited."""
    for name, value in values.items():
        if value is not None:
            limits.limits.add(name=name, value=value)
    with asking(endpoint) as asker:
        asker.ask(asker.stub.SetLimits, pb.SetLimitsRequest(limits=limits))
    kind = "user" if limits.HasField("user") else "vhost"
    name, form = getattr(limits, kind), _form(limits)
    said = ", ".join(f"{what} {value}" for what, value in form.items()) or "none"
    say({kind: name, "limits": form}, f"limits of {kind} {name}: {said}", json)


def list_limits(endpoint: Endpoint, kind: str, names: tuple[str, ...], json: bool) -> None:
    """Lists the limits of all virtual hosts, or users, that have some."""
    with asking(endpoint) as asker:
        found = [
            (getattr(each, kind), _form(each))
            for page in asker.pages(asker.stub.ListLimits, pb.ListLimitsRequest())
            for each in page.limits
            if each.HasField("user") == (kind == "user")
        ]
    if json:
        print_json({"limits": [{kind: name, "limits": form} for name, form in found]})
        return
    rows = [(name, *(str(form.get(each, "-")) for each in names)) for name, form in found]
    console().print(table(("NAME", *(name.upper() for name in names)), rows))


def _form(limits: pb.Limits) -> dict[str, int]:
    return {each.name: each.value for each in limits.limits}
