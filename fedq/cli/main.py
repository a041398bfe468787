"""The process of the `fedq` command: its environment first, and then what was asked for."""

import sys

from fedq.shell.host.grpc_environment import settle_grpc


def main() -> None:
    """Runs the command line and exits."""
    settle_grpc()
    # Only now: the commands import gRPC, which reads its settings then and never again.
    from fedq.cli.commands import app

    sys.exit(app(prog_name="fedq"))
