"""`fedq trace`: what happens to messages, written into a stream; and the firehose."""

from typing import Annotated, Final

import typer

from fedq.cli.asking.asker import asking
from fedq.cli.asking.endpoint import Endpoint, asking_a_node
from fedq.cli.terminal.failure import reporting
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.screen import console, print_json, say, table
from fedq.shell.pb import admin_pb2 as pb

app = typer.Typer(no_args_is_help=True, help="Write what happens to messages into a stream.")

_FIELDS: Final = ("name", "vhost", "exchange", "queue", "sample", "stream_vhost", "stream")
NameArgument = Annotated[
    str, typer.Argument(help="Letters, digits, '.', '_' and '-'.", show_default=False)
]


@app.command("start")
@reporting
@asking_a_node
def start_trace(
    endpoint: Endpoint,
    name: NameArgument,
    vhost: Annotated[str, typer.Option(help="Only of this virtual host.", show_default="all")] = "",
    exchange: Annotated[
        str,
        typer.Option(
            help="Only what is published to it (amq.default: the default exchange); needs --vhost.",
            show_default="all",
        ),
    ] = "",
    queue: Annotated[
        str, typer.Option(help="Only what happens in it; needs --vhost.", show_default="all")
    ] = "",
    sample: Annotated[int, typer.Option(min=1, help="One message in so many.")] = 1,
    stream: Annotated[
        str, typer.Option(help="Where it is written.", show_default="fedq.trace.<name>")
    ] = "",
    stream_vhost: Annotated[
        str, typer.Option(help="And in which virtual host.", show_default="--vhost, or /")
    ] = "",
    max_bytes: Annotated[
        int, typer.Option(min=0, help="What a new stream keeps.", show_default="1 GiB")
    ] = 0,
    max_age: Annotated[
        str, typer.Option(help="And for how long, as 7D or 12h.", show_default="any")
    ] = "",
    json: JsonOption = False,
) -> None:
    """Start a trace on all nodes; its stream is declared if it is not there."""
    trace = pb.Trace(
        name=name, vhost=vhost, exchange=exchange, queue=queue, sample=min(sample, (1 << 32) - 1),
        stream_vhost=stream_vhost, stream=stream,
    )  # fmt: skip
    request = pb.StartTraceRequest(trace=trace, max_bytes=max_bytes, max_age=max_age)
    with asking(endpoint) as asker:
        reply = asker.ask(asker.stub.StartTrace, request)
    form = _form(reply.trace)
    did = "started" if reply.created else "was running already"
    where = f"stream {form['stream']} in vhost {form['stream_vhost']}"
    say({**form, "created": reply.created}, f"trace {name} {did}: read {where}", json)


@app.command("stop")
@reporting
@asking_a_node
def stop_trace(endpoint: Endpoint, name: NameArgument, json: JsonOption = False) -> None:
    """Stop a trace; its stream stays."""
    with asking(endpoint) as asker:
        asker.ask(asker.stub.StopTrace, pb.StopTraceRequest(name=name))
    say({"name": name}, f"trace {name} stopped; its stream is still there", json)


@app.command("list")
@reporting
@asking_a_node
def list_traces(endpoint: Endpoint, json: JsonOption = False) -> None:
    """List traces, and the virtual hosts whose firehose is on."""
    with asking(endpoint) as asker:
        reply = asker.ask(asker.stub.ListTraces, pb.ListTracesRequest())
    forms = [_form(trace) for trace in reply.traces]
    if json:
        print_json({"traces": forms, "firehose": list(reply.firehose)})
        return
    rows = [tuple(str(form[field]) or "(all)" for field in _FIELDS) for form in forms]
    console().print(table(tuple(field.upper().replace("_", " ") for field in _FIELDS), rows))
    if reply.firehose:
        console().print(f"firehose on in: {', '.join(reply.firehose)}", markup=False)


@app.command("firehose")
@reporting
@asking_a_node
def switch_firehose(
    endpoint: Endpoint,
    switch: Annotated[str, typer.Argument(help="on or off.", show_default=False)],
    vhost: Annotated[str, typer.Option(help="Its virtual host.")] = "/",
    json: JsonOption = False,
) -> None:
    """Publish what happens in a virtual host to amq.rabbitmq.trace, as RabbitMQ's trace_on does."""
    if switch not in ("on", "off"):
        raise typer.BadParameter(f"'{switch}' is neither on nor off")
    with asking(endpoint) as asker:
        request = pb.SetFirehoseRequest(vhost=vhost, on=switch == "on")
        reply = asker.ask(asker.stub.SetFirehose, request)
    said = "is" if reply.changed else "was already"
    form = {"vhost": vhost, "on": request.on, "changed": reply.changed}
    say(form, f"the firehose of vhost {vhost} {said} {switch}", json)


def _form(trace: pb.Trace) -> dict[str, str | int]:
    return {field: getattr(trace, field) for field in _FIELDS}
