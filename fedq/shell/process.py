"""The process around one node: event loop, signals, descriptors, garbage collector.

In: a `NodeConfig` and what the floors above add. Out: the exit code of the process: 0 after a
clean stop (SIGTERM, SIGINT), 1 when the node could not start or go on. A `ConfigError` is the
caller's to report (exit code 2).
"""

import asyncio
import gc
import logging
import resource
import signal
from collections.abc import Callable
from typing import Final

import uvloop

from fedq.core.errors import NodeFailure
from fedq.shell.node_config import NodeConfig
from fedq.shell.runner import NodeRunner

#: A node's messages are few tracked objects each; looking through all of them often costs pauses.
_COLLECTOR_THRESHOLDS: Final = (50_000, 50, 1_000)

logger = logging.getLogger("fedq.node")

Prepare = Callable[[NodeRunner], None]


def run_node(config: NodeConfig, prepare: Prepare | None = None) -> int:
    """Runs a node until a signal or a failure ends it; returns the exit code.

    `prepare` may add services before the start. Raises `ConfigError`.
    """
    if not __debug__:
        raise NodeFailure("fedq needs its assertions: run Python without -O and PYTHONOPTIMIZE")
    _raise_descriptor_limit()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop_runner:
        return loop_runner.run(_run(config, prepare))


async def _run(config: NodeConfig, prepare: Prepare | None) -> int:
    runner = NodeRunner(config)
    if prepare is not None:
        prepare(runner)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, runner.request_stop)
    try:
        await runner.start()
    except NodeFailure as error:
        logger.critical("fedq %s cannot start: %s", config.node, error)
        return 1
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTOR_THRESHOLDS)
    return await runner.wait()


def _raise_descriptor_limit() -> None:
    """As many as the system lets this process have: a descriptor is a client."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
