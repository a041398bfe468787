"""A node that can be made to hang: by a file `raft-hangs` or `loop-hangs` in its directory.

`python hanging.py python -m fedq node …`: while the first one is there no sync of the Raft log
ends; SIGHUP stops the event loop while the second one is.
"""

import runpy
import sys
import time
from pathlib import Path

from fedq.cli import node_process
from fedq.shell.raft_journal import RaftStorageError
from fedq.shell.raft_storage import RaftStorage

_sync = RaftStorage.sync


def _slow_sync(
    self: RaftStorage, has_written: bool, compact_to: int | None
) -> RaftStorageError | None:
    while Path("raft-hangs").exists():
        time.sleep(0.02)
    return _sync(self, has_written, compact_to)


def _hang() -> None:
    while Path("loop-hangs").exists():
        time.sleep(0.02)


if __name__ == "__main__":
    RaftStorage.sync = _slow_sync  # type: ignore[method-assign]
    node_process._ignore_hang_up = _hang
    sys.argv = ["fedq", *sys.argv[4:]]
    runpy.run_module("fedq", run_name="__main__")
