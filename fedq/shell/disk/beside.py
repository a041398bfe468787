"""What the disk of a node does beside its turns: reads of segments, and scratch files.

Inputs: `NodeOut.reads`, `NodeOut.scratch`. Outputs: answers, each in a turn. Invariant: the
journal's lock says that no other process uses the scratch files.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from fedq.node.node import Node
from fedq.shell.disk.durable_files import disk_failure
from fedq.shell.disk.scratch_files import ScratchFiles
from fedq.shell.disk.segment_reader import SegmentReader


class BesideTurns:
    """Reads, and writes scratch files, for one node."""

    def __init__(self, data: Path, node: Node, give_input: Callable[..., None]) -> None:
        """`give_input` calls a method of the node in a turn. Raises `NodeFailure`."""
        loop, scratch = asyncio.get_running_loop(), data / "scratch"
        self.reader = SegmentReader(
            data / "journal", scratch,
            lambda number, found: give_input(node.on_read, number, found),
            lambda number, reason: give_input(node.on_read_failed, number, reason),
            loop,
        )  # fmt: skip
        try:
            self.scratch = ScratchFiles(
                scratch, lambda number: give_input(node.on_scratch_written, number),
                lambda number, reason: give_input(node.on_scratch_failed, number, reason), loop,
            )  # fmt: skip
        except OSError as error:
            raise disk_failure(error, scratch) from error

    def close(self) -> None:
        """Ends what is under way, unless a disk hangs; may wait, so it is for another thread."""
        self.reader.close()
        self.scratch.close()
