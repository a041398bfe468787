"""`fedq node` with small segments, so that seconds of load begin many and leave some dead.

    python -m tests.powercut.node BYTES python -m fedq node --config …

What comes after BYTES is the command as the harness makes it. How long a segment is cannot be
configured, so the settings are changed where the shell makes them, in a module that is not
compiled: this works on the compiled node, too.
"""

import dataclasses
import sys
from typing import Any

from fedq.cli.main import main
from fedq.node.settings import NodeSettings
from fedq.shell import runner
from fedq.shell.node_settings import node_settings


def use_segments(bytes_max: int) -> None:
    """Every node of this process has segments of this size."""

    def settings(*args: Any, **kwargs: Any) -> NodeSettings:
        return dataclasses.replace(node_settings(*args, **kwargs), segment_bytes_max=bytes_max)

    runner.node_settings = settings  # type: ignore[attr-defined]


if __name__ == "__main__":
    use_segments(int(sys.argv[1]))
    del sys.argv[1:5]
    main()
