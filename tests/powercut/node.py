"""`fedq node` with small files, so that seconds of load begin many segments and leave some dead.

    python -m tests.powercut.node BYTES stows|keeps python -m fedq node --config …

What comes after these is the command as the harness makes it. How long segments and the map's log
become cannot be configured, so both are changed where the shell makes them, in a module that is not
compiled: this works on the compiled node, too.
"""

import dataclasses
import sys
from typing import Any, Final

from fedq.cli.main import main
from fedq.node.settings import NodeSettings
from fedq.shell import runner
from fedq.shell.node_settings import node_settings
from fedq.shell.raft.timing import RaftTiming

#: Entries after which the map's log is compacted.
_ENTRIES: Final = 100


def use_segments(bytes_max: int, stows: bool) -> None:
    """Every node of this process has segments of this size, and compacts its log often.

    `stows`: bodies leave memory as soon as they may.
    """

    def settings(*args: Any, **kwargs: Any) -> NodeSettings:
        usual = node_settings(*args, **kwargs)
        ahead = bytes_max // 8 if stows else 0
        return dataclasses.replace(
            usual, segment_bytes_max=bytes_max, stow_bytes_min=int(stows), read_ahead_bytes=ahead
        )

    runner.node_settings = settings  # type: ignore[attr-defined]
    often = RaftTiming(compact_entries=_ENTRIES)
    runner.log_timing = lambda config: often  # type: ignore[attr-defined]


if __name__ == "__main__":
    use_segments(int(sys.argv[1]), sys.argv[2] == "stows")
    del sys.argv[1:6]
    main()
