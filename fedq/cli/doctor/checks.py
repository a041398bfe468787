"""Everything that the doctor looks at, in the order in which it is told."""

import sys
from collections.abc import Callable, Iterator
from typing import Final

from fedq.cli.doctor import files, machine, network
from fedq.cli.doctor.findings import Finding, error, ok
from fedq.cli.processes.planning import plan_workers
from fedq.cli.terminal.failure import CommandError
from fedq.shell.config.values import NodeConfig

_CHECKS: Final[tuple[Callable[[NodeConfig], Iterator[Finding]], ...]] = (
    machine.program, files.certificates, files.secrets, files.data_directory, machine.disk,
    machine.open_files, machine.memory, machine.clock, network.ports, network.names, network.peers,
)  # fmt: skip


def examined(config: NodeConfig, member: str | None) -> Iterator[Finding]:
    """All findings; `member`: the admin address of a running member, whose clock is asked for."""
    yield ok("configuration", f"node {config.node}, {config.file or 'no file: all defaults'}")
    if sys.flags.optimize:
        yield error(
            "program", "Python runs with -O, which switches safety checks off", "leave it out"
        )
    workers: tuple[NodeConfig, ...] = (config,)
    try:
        workers = plan_workers(config)
    except CommandError as wrong:
        yield error("workers", wrong.sentence, "correct it in the configuration")
    if len(workers) > 1:
        yield ok("workers", f"there is room for {len(workers)}")
    for check in _CHECKS:
        yield from check(workers[0])
    for each in workers[1:]:
        yield from files.data_directory(each)
        yield from network.worker_ports(each)
    if member is not None:
        yield from network.clocks(config, member)
