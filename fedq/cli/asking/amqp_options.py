"""Options of commands that are AMQP clients: where to go, and how long to wait."""

from pathlib import Path
from typing import Annotated

import typer

UrlOption = Annotated[
    str,
    typer.Option(
        "--url",
        metavar="URL",
        envvar="FEDQ_URL",
        help="amqp://user:password@host:port/vhost of a node, or amqps:// with --ca.",
    ),
]
CaOption = Annotated[
    Path | None,
    typer.Option(
        "--ca",
        metavar="FILE",
        envvar="FEDQ_AMQP_CA",
        help="Authority that signed the node's AMQP certificate. Default: the system's.",
        show_default=False,
    ),
]
WaitOption = Annotated[
    float,
    typer.Option("--timeout", metavar="SECONDS", min=0.1, help="How long to wait for an answer."),
]
