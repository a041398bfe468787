"""A process to be killed: one voter that commits and compacts as fast as it can.

`python -m tests.contract.raft.victim DIRECTORY FIRST` writes each number to its standard output
once the machine has its command, which is what a client would have been told.
"""

import asyncio
import os
import sys
from pathlib import Path

from fedq.core.ids import NodeId
from fedq.shell.raft.log import RaftLog, RaftTiming
from tests.contract.raft.cluster import FAST, Machine


class Reporter(Machine):
    """Tells every new command."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self._first = first

    def on_committed(self, command: bytes) -> None:
        super().on_committed(command)
        if int(command) >= self._first:
            os.write(1, command + b"\n")


async def main(directory: Path, first: int) -> None:
    machine = Reporter(first)
    timing = RaftTiming(
        election_min_ms=FAST.election_min_ms,
        election_max_ms=FAST.election_max_ms,
        heartbeat_ms=FAST.heartbeat_ms,
        compact_entries=3,
    )
    name = NodeId("victim")
    log = RaftLog(
        name,
        [name],
        directory,
        send=lambda _, __: False,
        machine=machine,
        failed=sys.exit,
        timing=timing,
    )
    log.start()
    number = first
    while True:
        if log.propose(b"%d" % number):
            number += 1
        await asyncio.sleep(0)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
