"""The workers that a host's configuration means, on this machine.

In: a configuration. Out: one for each worker, or a `CommandError` (exit code 2).
"""

from fedq.cli.terminal.failure import USAGE, CommandError
from fedq.shell.config.values import ConfigError, NodeConfig
from fedq.shell.config.workers import workers_of
from fedq.shell.host.room import worker_count, workers_memory


def plan_workers(config: NodeConfig) -> tuple[NodeConfig, ...]:
    """The configuration of each worker of the host; one alone is the node as it is.

    Raises `CommandError` (exit code 2), which names a number that would work if there is one.
    """
    try:
        return workers_of(config, worker_count(config), workers_memory(config))
    except ConfigError as error:
        raise CommandError(str(error), USAGE) from error


def one_worker(config: NodeConfig, place: str) -> NodeConfig:
    """The configuration of a worker, given "2/4": the second of four. Raises `CommandError`."""
    number, _, count = place.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise CommandError(f"--worker {place}: give the number and the count, as 2/4", USAGE)
    try:
        workers = workers_of(config, int(count), workers_memory(config))
    except ConfigError as error:
        raise CommandError(str(error), USAGE) from error
    return workers[int(number) - 1]
