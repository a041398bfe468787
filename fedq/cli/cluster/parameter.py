"""`fedq parameter`: what components such as shovels are told, as in RabbitMQ."""

import sys
from typing import Annotated, Any, Final

import orjson
import typer

from fedq.admin.bounds import QUEUES_PER_PAGE_MAX
from fedq.cli.asking.asker import asking
from fedq.cli.asking.endpoint import Endpoint, asking_a_node
from fedq.cli.terminal.failure import USAGE, CommandError, reporting
from fedq.cli.terminal.options import JsonOption, QueueVhostOption, VhostOption
from fedq.cli.terminal.screen import console, print_json, say, table
from fedq.shell.pb import admin_pb2 as pb

app = typer.Typer(no_args_is_help=True, help="Tell components such as shovels what they are to do.")

_STDIN: Final = "-"
#: No value is longer.
_VALUE_BYTES_MAX: Final = 65_536

ComponentArgument = Annotated[
    str, typer.Argument(help="Whose it is, such as 'shovel'.", show_default=False)
]
NameArgument = Annotated[str, typer.Argument(help="Of the parameter.", show_default=False)]
ValueArgument = Annotated[
    str,
    typer.Argument(
        help="JSON, or '-' to read it from stdin, where no other process sees its passwords.",
        show_default=False,
    ),
]


@app.command("set")
@reporting
@asking_a_node
def set_parameter(
    endpoint: Endpoint,
    component: ComponentArgument,
    name: NameArgument,
    value: ValueArgument,
    vhost: QueueVhostOption = "/",
    json: JsonOption = False,
) -> None:
    """Set a parameter, or replace the one of that name; it counts at once."""
    _set(endpoint, pb.Parameter(vhost=vhost, component=component, name=name), value, json)


@app.command("set-global")
@reporting
@asking_a_node
def set_global_parameter(
    endpoint: Endpoint, name: NameArgument, value: ValueArgument, json: JsonOption = False
) -> None:
    """Set a global parameter: any JSON, for tools to read; fedq itself reads none."""
    _set(endpoint, pb.Parameter(name=name), value, json)


@app.command("clear")
@reporting
@asking_a_node
def clear_parameter(
    endpoint: Endpoint,
    component: ComponentArgument,
    name: NameArgument,
    vhost: QueueVhostOption = "/",
    json: JsonOption = False,
) -> None:
    """Clear a parameter: a shovel ends, and what it has not moved stays where it was."""
    request = pb.DropParameterRequest(vhost=vhost, component=component, name=name)
    _clear(endpoint, request, json)


@app.command("clear-global")
@reporting
@asking_a_node
def clear_global_parameter(
    endpoint: Endpoint, name: NameArgument, json: JsonOption = False
) -> None:
    """Clear a global parameter."""
    _clear(endpoint, pb.DropParameterRequest(name=name), json)


@app.command("list")
@reporting
@asking_a_node
def list_parameters(
    endpoint: Endpoint,
    component: Annotated[
        str, typer.Option(help="Only of this component.", show_default=False)
    ] = "",
    vhost: VhostOption = None,
    json: JsonOption = False,
) -> None:
    """List parameters; *** stands for passwords."""
    _list(endpoint, pb.ListParametersRequest(vhost=vhost, component=component), json)


@app.command("list-global")
@reporting
@asking_a_node
def list_global_parameters(endpoint: Endpoint, json: JsonOption = False) -> None:
    """List global parameters."""
    _list(endpoint, pb.ListParametersRequest(globals=True), json)


def _set(endpoint: Endpoint, parameter: pb.Parameter, value: str, json: bool) -> None:
    if value == _STDIN:
        value = sys.stdin.read(_VALUE_BYTES_MAX + 1)
    if len(value) > _VALUE_BYTES_MAX:
        raise CommandError(f"the value is longer than {_VALUE_BYTES_MAX} bytes", USAGE)
    parameter.value_json = value
    with asking(endpoint) as asker:
        request = pb.PutParameterRequest(parameter=parameter)
        reply = asker.ask(asker.stub.PutParameter, request)
    did = "set" if reply.changed else "was so already"
    form = {**_key_form(parameter), "changed": reply.changed}
    say(form, f"{_named(parameter)} {did}", json)


def _clear(endpoint: Endpoint, request: pb.DropParameterRequest, json: bool) -> None:
    with asking(endpoint) as asker:
        asker.ask(asker.stub.DropParameter, request)
    say(_key_form(request), f"{_named(request)} cleared", json)


def _list(endpoint: Endpoint, request: pb.ListParametersRequest, json: bool) -> None:
    request.page_size = QUEUES_PER_PAGE_MAX
    with asking(endpoint) as asker:
        found = [
            parameter
            for page in asker.pages(asker.stub.ListParameters, request)
            for parameter in page.parameters
        ]
    if json:
        rows = [{**_key_form(each), "value": orjson.loads(each.value_json)} for each in found]
        print_json({"parameters": rows})
        return
    if request.globals:
        console().print(table(("NAME", "VALUE"), [(p.name, p.value_json) for p in found]))
        return
    headings = ("VHOST", "COMPONENT", "NAME", "VALUE")
    console().print(table(headings, [(p.vhost, p.component, p.name, p.value_json) for p in found]))


def _named(said: pb.Parameter | pb.DropParameterRequest) -> str:
    if not said.component:
        return f"global parameter {said.name}"
    return f"{said.component} parameter {said.name} in vhost {said.vhost}"


def _key_form(said: pb.Parameter | pb.DropParameterRequest) -> dict[str, Any]:
    if not said.component:
        return {"name": said.name}
    return {"vhost": said.vhost, "component": said.component, "name": said.name}
