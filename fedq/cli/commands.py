"""The `fedq` command: puts the groups and single commands together.

Each group is in a room beside this one, mostly in a file of its name (`clients` has connections,
channels, consumers and subscribers, `topology` exchanges and bindings). Exit codes:
`fedq.cli.terminal.failure`.
"""

import platform
from typing import Annotated, Final

import typer

from fedq import __version__
from fedq.cli.bench import bench
from fedq.cli.cluster import (
    clients,
    cluster,
    definitions,
    log_level,
    migrate,
    parameter,
    permission,
    policy,
    queue,
    shovel,
    topic_permission,
    topology,
    trace,
    user,
    vhost,
)
from fedq.cli.doctor import doctor
from fedq.cli.messages import consume, publish, tail
from fedq.cli.node import certs, config, health, node, store
from fedq.cli.pipeline import pipeline
from fedq.cli.terminal.failure import (
    BLOCKED,
    FAILED,
    HUNG,
    INTERRUPTED,
    REFUSED,
    UNREACHABLE,
    UNROUTABLE,
    UNWELL,
    USAGE,
    exit_codes,
)
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.screen import print_json
from fedq.cli.top import top
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
app.command("doctor")(doctor.examine)
app.command("top")(top.show_top)
app.command("health")(health.check_health)
app.command("bench")(bench.load_broker)
app.command("publish")(publish.publish_messages)
app.command("consume")(consume.consume_messages)
app.command("tail")(tail.tail_queue)
app.command("migrate")(migrate.migrate_queues)
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
app.add_typer(log_level.app, name="log")
app.add_typer(permission.app, name="permission")
app.add_typer(topic_permission.app, name="topic-permission")
app.add_typer(policy.app, name="policy")
app.add_typer(parameter.app, name="parameter")
app.add_typer(shovel.app, name="shovel")
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


#: Exit codes of commands that ask a node or broker, of those that ask nobody, and of those that
#: have codes of their own: by the beginning of what is typed, the longest that fits.
_ASKING: Final = (0, FAILED, USAGE, UNREACHABLE)
_ALONE: Final = (0, FAILED, USAGE)
_JUDGING: Final = (*_ASKING, UNWELL)
_CODES: Final[dict[tuple[str, ...], tuple[int, ...]]] = {
    (): _ASKING,
    ("up",): _ALONE,
    ("node",): (*_ALONE, HUNG),
    ("doctor",): _ALONE,
    ("bench",): _ALONE,
    ("top",): _JUDGING,
    ("publish",): (*_ASKING, UNROUTABLE, REFUSED, BLOCKED, INTERRUPTED),
    ("consume",): (*_ASKING, INTERRUPTED),
    ("migrate",): (*_ASKING, INTERRUPTED),
    ("cluster", "status"): _JUDGING,
    ("cluster", "drain"): _JUDGING,
    ("cluster", "forget"): _JUDGING,
    ("cluster", "rebalance"): _JUDGING,
    ("queue", "move-fragment"): _JUDGING,
    ("certs",): _ALONE,
    ("config",): _ALONE,
    ("store",): _ALONE,
    ("store", "import"): _ASKING,
    ("store", "mark-clean"): _ASKING,
    ("version",): (0, USAGE),
    ("pipeline",): (*_ALONE, INTERRUPTED),
    ("pipeline", "audit"): (*_ALONE, UNWELL, INTERRUPTED),
    ("pipeline", "doctor"): (0, USAGE, UNWELL),
}


def exit_codes_of(path: tuple[str, ...]) -> tuple[int, ...]:
    """The exit codes of a command; `path`: what is typed for it after `fedq`."""
    fitting = [words for words in _CODES if path[: len(words)] == words]
    return _CODES[max(fitting, key=len)]


def _tell_exit_codes(group: typer.Typer, path: tuple[str, ...] = ()) -> None:
    """Has the help of each command end with its exit codes."""
    for command in group.registered_commands:
        assert command.name, "each command is registered under its name"
        command.epilog = exit_codes(exit_codes_of((*path, command.name)))
    for inner in group.registered_groups:
        assert inner.name
        assert inner.typer_instance is not None
        _tell_exit_codes(inner.typer_instance, (*path, inner.name))


_tell_exit_codes(app)
