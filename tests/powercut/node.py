"""`fedq node` with small files, so that seconds of load begin many segments and leave some dead.

    python -m tests.powercut.node BYTES python -m fedq node --config …

What comes after BYTES is the command as the harness makes it. How long segments and the map's log
become cannot be configured, so both are changed where the shell makes them, in a module that is not
compiled: this works on the compiled node, too.
"""

import dataclasses
import sys
from functools import partial
from typing import Any, Final

from fedq.cli.main import main
from fedq.node.settings import NodeSettings
from fedq.shell import runner
from fedq.shell.node_settings import node_settings
from fedq.shell.raft.log import RaftLog
from fedq.shell.raft.timing import RaftTiming

#: Entries after which the map's log is compacted.
_ENTRIES: Final = 100


def use_segments(bytes_max: int) -> None:
    """Every node of this process has segments of this size, and compacts its log often."""

    def settings(*args: Any, **kwargs: Any) -> NodeSettings:
        return dataclasses.replace(node_settings(*args, **kwargs), segment_bytes_max=bytes_max)

    runner.node_settings = settings  # type: ignore[attr-defined]
    often = RaftTiming(compact_entries=_ENTRIES)
    runner.RaftLog = partial(RaftLog, timing=often)  # type: ignore[attr-defined, assignment]


if __name__ == "__main__":
    use_segments(int(sys.argv[1]))
    del sys.argv[1:5]
    main()
