"""`fedq node`: one node in this process, until it is told to stop.

Exit codes: 0 stopped cleanly, 1 it could not go on, 2 its configuration is wrong.
"""

import logging
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fedq.cli.endpoint import load_configuration
from fedq.cli.failure import USAGE, CommandError, reporting
from fedq.shell.node_config import NodeConfig


class LogLevel(StrEnum):
    """How much a node writes to stderr."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


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
    stop_with_stdin: Annotated[
        bool,
        typer.Option(
            "--stop-with-stdin",
            help="Stop cleanly when stdin closes: the node ends with whoever started it.",
        ),
    ] = False,
) -> None:
    """Run one node. SIGTERM or Ctrl-C stops it cleanly, a second one at once."""
    if not __debug__:
        raise CommandError(
            "Python runs with -O, which switches safety checks off; leave it out", USAGE
        )
    settings = load_configuration(config)
    set_up_log(settings, log_level)
    # The broker itself is read only when one is started: the other commands answer sooner.
    from fedq.cli.node_process import run

    raise typer.Exit(run(settings, stop_with_stdin))


def set_up_log(config: NodeConfig, level: LogLevel) -> None:
    """One line on stderr for each event: time, level, node, what happened."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        logging.Formatter(
            f"%(asctime)s.%(msecs)03d %(levelname)-7s {config.node} %(message)s",
            "%Y-%m-%d %H:%M:%S",
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("fedq").setLevel(level.value.upper())
