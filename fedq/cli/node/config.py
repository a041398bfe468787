"""`fedq config`: an example of a node's configuration, and whether one is right."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final

import typer

from fedq.cli.asking.endpoint import load_configuration
from fedq.cli.processes.planning import plan_workers
from fedq.cli.terminal.failure import reporting
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.screen import say
from fedq.shell.config.values import NodeConfig, join_address

app = typer.Typer(no_args_is_help=True, help="Show an example of node.yaml, or check one.")

#: The commented example, which is installed with the command.
EXAMPLE: Final = "node.example.yaml"


@app.command("example")
@reporting
def show_example() -> None:
    """Print a commented node.yaml with every key."""
    text = files("fedq.cli.node").joinpath(EXAMPLE).read_text(encoding="utf-8")
    typer.echo(text, nl=False)


@app.command("check")
@reporting
def check_configuration(
    config: Annotated[Path, typer.Argument(metavar="FILE", help="The node.yaml to check.")],
    json: JsonOption = False,
) -> None:
    """Read a node.yaml as a node would: exit code 2 and a sentence if it is wrong."""
    workers = plan_workers(load_configuration(config))
    say({"node": workers[0].node, "right": True}, described(workers), json)


def described(workers: Sequence[NodeConfig]) -> str:
    """What a configuration that is right makes: a line on the node, one on each further worker."""
    lines = [_described(workers[0])]
    for each in workers[1:]:
        ports = f"peers on {each.peer_address}"
        if each.metrics is not None:
            ports += f", metrics on {join_address(each.metrics.host, each.metrics.port)}"
        lines.append(f"and worker {each.node}: AMQP on the same, {ports}, data in {each.data}")
    return "\n".join(lines)


def _described(config: NodeConfig) -> str:
    places = ", ".join(join_address(each.host, each.port) for each in config.amqp)
    others = len(config.peers) - 1
    if config.join:
        joins = f"joins the cluster of {', '.join(config.join)}"
        return f"right: node {config.node}, {joins}, AMQP on {places}, data in {config.data}"
    alone = "alone" if others < 1 else f"with {others} other{'s' if others > 1 else ''}"
    return f"right: node {config.node}, {alone}, AMQP on {places}, data in {config.data}"
