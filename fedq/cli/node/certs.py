"""`fedq certs`: the cluster's authority, a certificate for each node, and some for clients."""

import re
from pathlib import Path
from typing import Annotated, Final

import typer

from fedq.cli.terminal.failure import USAGE, CommandError, reporting
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.screen import print_json
from fedq.core.ids import NodeId
from fedq.core.limits import WORKERS_MAX
from fedq.shell.config import certificates
from fedq.shell.config.workers import worker_names

app = typer.Typer(
    no_args_is_help=True,
    help="Make the certificates by which nodes, and clients if they like, are known.",
)

_NODE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
#: A user that is to log in by certificate has a name that a file and a host could have, too.
_USER_NAME: Final = _NODE_NAME

DirectoryOption = Annotated[
    Path,
    typer.Option("--dir", metavar="DIR", help="Where the authority and the certificates are."),
]


@app.command("init")
@reporting
def make_authority(directory: DirectoryOption = Path("certs"), json: JsonOption = False) -> None:
    """Make the cluster's authority. Keep its key (ca.key) away from the nodes."""
    try:
        certificate, key = certificates.make_authority(directory)
    except certificates.CertificateError as error:
        raise CommandError(str(error)) from error
    if json:
        print_json({"authority": str(certificate), "key": str(key)})
        return
    typer.echo(f"{certificate}  goes to every node")
    typer.echo(f"{key}  admits nodes to the cluster: keep it secret, and off the nodes")


@app.command("node")
@reporting
def make_node_certificate(
    node: Annotated[str, typer.Argument(help="The node's name (`node` in node.yaml).")],
    hosts: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names and addresses under which others reach it. Default: this machine only.",
            show_default=False,
        ),
    ] = None,
    directory: DirectoryOption = Path("certs"),
    workers: Annotated[
        int,
        typer.Option(
            min=1, max=WORKERS_MAX, help="It speaks for so many workers of the host (`workers`)."
        ),
    ] = 1,
    json: JsonOption = False,
) -> None:
    """Make a node's certificate, signed by the authority in the same directory."""
    if not _NODE_NAME.fullmatch(node):
        raise CommandError(
            f"{node!r} is no node name; use at most 63 letters, digits, dots, dashes and "
            "underscores",
            USAGE,
        )
    reached = hosts or ["localhost", "127.0.0.1", "::1"]
    try:
        files = certificates.make_node_certificate(
            directory, NodeId(node), reached, worker_names(NodeId(node), workers)
        )
    except certificates.CertificateError as error:
        raise CommandError(str(error)) from error
    if json:
        print_json(
            {
                "node": node,
                "hosts": reached,
                "authority": str(files.authority),
                "certificate": str(files.certificate),
                "key": str(files.key),
            }
        )
        return
    typer.echo(f"copy these to {node} and name them in its node.yaml:")
    typer.echo("certificates:")
    typer.echo(f"  authority: {files.authority}")
    typer.echo(f"  certificate: {files.certificate}")
    typer.echo(f"  key: {files.key}")


@app.command("client")
@reporting
def make_client_certificate(
    user: Annotated[str, typer.Argument(help="The user that logs in with it (SASL EXTERNAL).")],
    directory: DirectoryOption = Path("client-certs"),
    json: JsonOption = False,
) -> None:
    """Make a client's certificate, and an authority for clients if there is none yet."""
    if not _USER_NAME.fullmatch(user):
        raise CommandError(
            f"{user!r} cannot be put into a certificate; use at most 63 letters, digits, dots, "
            "dashes and underscores",
            USAGE,
        )
    try:
        files = certificates.make_client_certificate(directory, user)
    except certificates.CertificateError as error:
        raise CommandError(str(error)) from error
    if json:
        print_json(
            {
                "user": user,
                "authority": str(files.authority),
                "certificate": str(files.certificate),
                "key": str(files.key),
            }
        )
        return
    typer.echo(f"{files.certificate}  goes to the client")
    typer.echo(f"{files.key}  goes there, too: it is as good as a password")
    typer.echo("nodes accept them with this under `amqp.listen[].tls`:")
    typer.echo(f"  authority: {files.authority}")
    typer.echo(f"  login_from: common_name  # the user is then {user}")
