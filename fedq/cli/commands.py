"""The `fedq` command: puts the groups and single commands together.

Each group is in a room beside this one, mostly in a file of its name (`clients` has connections,
channels, consumers and subscribers, `topology` exchanges and bindings). Exit codes:
`fedq.cli.terminal.failure`.
"""

import platform
from typing import Annotated

import typer

from fedq import __version__
from fedq.cli.bench import bench
from fedq.cli.cluster import (
    clients,
    cluster,
    definitions,
    permission,
    queue,
    topology,
    trace,
    user,
    vhost,
)
from fedq.cli.node import certs, config, health, node, store
from fedq.cli.pipeline import pipeline
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.screen import print_json
from fedq.cli.up import up
from fedq.compiled import survey

app = typer.Typer(
    name="fedq",
    no_args_is_help=True,
    # Commands below take it over.
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("up")(up.start_cluster)
app.command("node")(node.run_node)
app.command("health")(health.check_health)
app.command("bench")(bench.load_broker)
app.add_typer(cluster.app, name="cluster")
app.add_typer(queue.app, name="queue")
app.add_typer(topology.exchanges, name="exchange")
app.add_typer(topology.bindings, name="binding")
app.add_typer(clients.connections, name="connection")
app.add_typer(clients.channels, name="channel")
app.add_typer(clients.consumers, name="consumer")
app.add_typer(clients.subscribers, name="subscriber")
app.add_typer(user.app, name="user")
app.add_typer(vhost.app, name="vhost")
app.add_typer(trace.app, name="trace")
app.add_typer(permission.app, name="permission")
app.add_typer(definitions.app, name="definitions")
app.add_typer(certs.app, name="certs")
app.add_typer(config.app, name="config")
app.add_typer(store.app, name="store")
app.add_typer(pipeline.app, name="pipeline")


def _show_version_and_exit(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"fedq {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version; `fedq version` tells more.",
            callback=_show_version_and_exit,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """An AMQP 0-9-1 broker federation: equal nodes, shared queues, nothing confirmed is lost."""
    del version  # Its callback has done it.


@app.command("version")
def show_version(json: JsonOption = False) -> None:
    """Show the version of fedq, of the Python it runs on, and whether hot modules are compiled."""
    found = survey()
    if json:
        print_json(
            {
                "fedq": __version__,
                "python": platform.python_version(),
                "compiled": list(found.compiled),
                "not_compiled": list(found.pure),
            }
        )
    else:
        typer.echo(f"fedq {__version__} (Python {platform.python_version()})\n{found.text}")
