"""A node without the floors above: what they would print, and their exit codes.

python -m tests.integration.bare_node n1.yaml
"""

import asyncio
import logging
import signal
import sys
from pathlib import Path

import uvloop

from fedq.core.errors import NodeFailure
from fedq.shell.config.file import load
from fedq.shell.config.values import ConfigError
from fedq.shell.runner import NodeRunner


async def serve(file: Path) -> int:
    """Its exit code, when it has ended."""
    runner = NodeRunner(load(file))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, runner.request_stop)
    await runner.start()
    return await runner.wait()


def main() -> None:
    """The process."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
    try:
        sys.exit(uvloop.run(serve(Path(sys.argv[1]))))
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
    except NodeFailure as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
