"""`fedq definitions`: what a cluster has, as a file in RabbitMQ's form, and back.

Through the HTTP API, which checks a file as a whole before it changes anything.
"""

from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import orjson
import typer

from fedq.cli.asking.amqp_options import CaOption
from fedq.cli.asking.http_client import ask_http
from fedq.cli.terminal.failure import FAILED, USAGE, CommandError, reporting
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.plain_text import printable
from fedq.cli.terminal.screen import print_json

app = typer.Typer(
    no_args_is_help=True,
    help="Export virtual hosts, users, permissions, queues and bindings, or import them.",
)

UrlOption = Annotated[
    str,
    typer.Option(
        "--url",
        metavar="URL",
        envvar="FEDQ_HTTP_URL",
        help="http://user:password@127.0.0.1:15672 of a node's HTTP API, or https:// with --ca.",
    ),
]
VhostOption = Annotated[
    str | None,
    typer.Option("--vhost", metavar="VHOST", help="Only this virtual host.", show_default=False),
]
WaitOption = Annotated[
    float,
    typer.Option("--timeout", metavar="SECONDS", min=0.1, help="How long to wait for an answer."),
]
HTTP_URL = "http://guest:guest@127.0.0.1:15672"
WAIT_S = 60.0


def _path(vhost: str | None) -> str:
    return "definitions" if vhost is None else f"definitions/{quote(vhost, safe='')}"


@app.command("export")
@reporting
def export_definitions(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write; - is the screen.")],
    vhost: VhostOption = None,
    url: UrlOption = HTTP_URL,
    authority: CaOption = None,
    timeout_s: WaitOption = WAIT_S,
) -> None:
    """Write all definitions, with hashes of passwords; a new file is for its owner alone."""
    _, found = ask_http(url, authority, timeout_s, "GET", _path(vhost))
    text = orjson.dumps(found, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    if str(file) == "-":
        typer.echo(text.decode(), nl=False)
        return
    try:
        file.touch(mode=0o600)
        file.write_bytes(text)
    except OSError as error:
        raise CommandError(f"cannot write {file}: {error.strerror}", FAILED) from error
    counts = ", ".join(
        f"{len(found[name])} {name}"
        for name in ("vhosts", "users", "queues", "exchanges", "bindings")
        if name in found
    )
    typer.echo(f"{file}: {counts}")


@app.command("import")
@reporting
def import_definitions(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="RabbitMQ's or fedq's export.")],
    vhost: VhostOption = None,
    url: UrlOption = HTTP_URL,
    authority: CaOption = None,
    timeout_s: WaitOption = WAIT_S,
    json: JsonOption = False,
) -> None:
    """Make all that a file has, or say what is wrong with it and make nothing."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise CommandError(f"cannot read {file}: {error.strerror}", USAGE) from error
    _, found = ask_http(url, authority, timeout_s, "POST", _path(vhost), data)
    differs = found["differs"] if found else []
    if json:
        print_json({"imported": True, "differs": differs})
        return
    for each in differs:
        typer.echo(f"differs: {printable(str(each))}")
    typer.echo(f"{file}: imported")
