"""`fedq node`: one node in this process, or a host's workers under it, until it is told to stop.

Exit codes: 0 stopped cleanly, 1 it could not go on, 2 its configuration is wrong.
"""

from pathlib import Path
from typing import Annotated

import typer

from fedq.cli.asking.endpoint import load_configuration
from fedq.cli.node.config import described
from fedq.cli.node.log import LogFormat, LogLevel, set_up_log
from fedq.cli.node.workers import run_workers, tell_left_behind
from fedq.cli.processes.planning import one_worker, plan_workers
from fedq.cli.terminal.failure import USAGE, CommandError, reporting


@reporting
def run_node(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="The node's configuration. Default: a node alone on loopback, data in "
            "./fedq-data.",
            show_default=False,
        ),
    ] = None,
    log_level: Annotated[
        LogLevel, typer.Option(help="What to write to stderr.", case_sensitive=False)
    ] = LogLevel.INFO,
    log_format: Annotated[
        LogFormat, typer.Option(help="How to write it.", case_sensitive=False)
    ] = LogFormat.TEXT,
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether the configuration is right.")
    ] = False,
    stop_with_stdin: Annotated[
        bool,
        typer.Option(
            "--stop-with-stdin",
            help="Stop cleanly when stdin closes: the node ends with whoever started it.",
        ),
    ] = False,
    worker: Annotated[
        str | None, typer.Option("--worker", hidden=True, help="Be one of several: 2/4.")
    ] = None,
) -> None:
    """Run one node, or a host's `workers`. SIGTERM or Ctrl-C stops it cleanly, a second at once."""
    if not __debug__:
        raise CommandError(
            "Python runs with -O, which switches safety checks off; leave it out", USAGE
        )
    settings = load_configuration(config)
    if worker is not None:
        settings = one_worker(settings, worker)
    workers = (settings,) if worker is not None else plan_workers(settings)
    if check:
        typer.echo(described(workers))
        return
    set_up_log(settings.node, log_level, log_format)
    if worker is None:
        tell_left_behind(settings, len(workers))
    if len(workers) > 1:
        assert config is not None, "without a configuration a node is alone"
        arguments = ["--config", str(config)]
        arguments += ["--log-level", log_level.value, "--log-format", log_format.value]
        raise typer.Exit(run_workers(workers, arguments, stop_with_stdin))
    # The broker itself is read only when one is started: the other commands answer sooner.
    from fedq.cli.node.node_process import run

    raise typer.Exit(run(settings, stop_with_stdin))
