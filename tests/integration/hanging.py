"""A node that can be made to hang: by a FIFO `raft-hangs` or `loop-hangs` in its directory.

`python -m tests.integration.hanging python -m fedq node …`: while the first one is there no sync of
the Raft log ends; SIGHUP stops the event loop while the second one is. `hang` makes one, `let_go`
removes it: who waits there reads its end then.
"""

import os
import runpy
import sys
from contextlib import suppress
from pathlib import Path

from fedq.cli.node import signals
from fedq.shell.raft.journal import RaftStorageError
from fedq.shell.raft.storage import RaftStorage

_sync = RaftStorage.sync


def _slow_sync(
    self: RaftStorage, has_written: bool, compact_to: int | None
) -> RaftStorageError | None:
    _wait_at("raft-hangs")
    return _sync(self, has_written, compact_to)


def _hang() -> None:
    _wait_at("loop-hangs")


def _wait_at(name: str) -> None:
    """Returns when somebody has written to the FIFO, or it is not there."""
    with suppress(FileNotFoundError), Path(name).open("rb") as fifo:
        fifo.read()


def hang(place: Path) -> None:
    """Who comes to this place in a node's directory waits from now on."""
    os.mkfifo(place)


def let_go(place: Path) -> None:
    """All that wait there go on; nobody waits there any more."""
    # Open at both ends, it opens at once, and for all who open it meanwhile.
    writer = os.open(place, os.O_RDWR)
    place.unlink()
    os.close(writer)


if __name__ == "__main__":
    RaftStorage.sync = _slow_sync  # type: ignore[method-assign]
    signals._HangUps.ignore = lambda _: _hang()  # type: ignore[assignment, method-assign]
    sys.argv = ["fedq", *sys.argv[4:]]
    runpy.run_module("fedq", run_name="__main__")
