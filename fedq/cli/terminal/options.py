"""Options that several commands share, so that they read and mean the same everywhere."""

from pathlib import Path
from typing import Annotated, Final

import typer

DEFAULT_NODE: Final = "127.0.0.1:15692"

NodeOption = Annotated[
    str | None,
    typer.Option(
        "--node",
        metavar="HOST:PORT",
        envvar="FEDQ_NODE",
        help="Admin address of the node to ask; of several, separated by commas, the first that "
        f"answers. Default: {DEFAULT_NODE}",
        show_default=False,
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Take the admin address and the certificates from this node.yaml.",
        show_default=False,
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        envvar="FEDQ_DATA",
        help="Data directory of the node to ask, if another user runs it: its admin.token is read. "
        "Or set FEDQ_TOKEN.",
        show_default=False,
    ),
]
AuthorityOption = Annotated[
    Path | None,
    typer.Option(
        "--ca",
        metavar="FILE",
        envvar="FEDQ_CA",
        help="Certificate of the cluster's authority: talk TLS.",
        show_default=False,
    ),
]
CertificateOption = Annotated[
    Path | None,
    typer.Option(
        "--cert",
        metavar="FILE",
        envvar="FEDQ_CERT",
        help="Certificate to show to the node; with --key.",
        show_default=False,
    ),
]
KeyOption = Annotated[
    Path | None,
    typer.Option(
        "--key",
        metavar="FILE",
        envvar="FEDQ_KEY",
        help="Private key of --cert.",
        show_default=False,
    ),
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0.1,
        max=600.0,
        help="How long to wait for the answer.",
    ),
]
VhostOption = Annotated[
    str | None,
    typer.Option("--vhost", metavar="NAME", help="Only this virtual host.", show_default=False),
]
LimitOption = Annotated[int, typer.Option(min=1, max=100_000, help="List at most so many.")]
QueueArgument = Annotated[str, typer.Argument(help="The queue's name.", show_default=False)]
QueueVhostOption = Annotated[
    str, typer.Option("--vhost", metavar="NAME", help="The queue's virtual host.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON value instead of tables.")]
