"""Reads pieces of this node's own segments and scratch files, in threads of its own.

Inputs: what a node wants read (`NodeOut.reads`). Outputs, on the event loop: each of them once,
with exactly the bytes that were asked for, or with why there are none. Invariants: whatever a file
or the disk does ends in an answer; a disk that hangs holds up nobody but who waits for it, and no
close.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from fedq.node.outbox import ReadWanted
from fedq.shell.disk.descriptors import SPARES
from fedq.shell.disk.durable_files import segment_name
from fedq.shell.disk.scratch_files import scratch_name
from fedq.shell.disk.threads import DiskThreads

#: Two: while one waits for the disk, another one may find its piece in the kernel's memory.
_THREADS: Final = ("reader-0", "reader-1")


class SegmentReader:
    """Reads for one node. Every method is for the event loop's thread."""

    def __init__(
        self,
        directory: Path,
        scratch: Path,
        on_read: Callable[[int, bytes], None],
        on_failed: Callable[[int, str], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`directory`, `scratch`: where segments are, and where scratch files are."""
        self._directory = directory
        self._scratch = scratch
        self._disk: DiskThreads[ReadWanted, bytes] = DiskThreads(
            _THREADS, self._read,
            lambda wanted, data: on_read(wanted.number, data),
            lambda wanted, reason: on_failed(wanted.number, reason), loop,
        )  # fmt: skip

    def read(self, reads: Iterable[ReadWanted]) -> None:
        """Has pieces read; returns at once."""
        self._disk.put(reads)

    def close(self) -> None:
        """Ends the threads, unless a disk hangs; nothing is answered any more."""
        self._disk.close()

    def threads(self) -> list[threading.Thread]:
        """The threads that read; those of a disk that hangs outlive a close."""
        return self._disk.threads()

    # --- the threads ---

    def _read(self, wanted: ReadWanted) -> bytes:
        if wanted.segment < 0:
            path = self._scratch / scratch_name(wanted.segment)
        else:
            path = self._directory / segment_name(wanted.segment)
        file = SPARES.open_file(path, os.O_RDONLY)
        try:
            if wanted.from_disk:
                # What is only in the host's memory is not what a power cut would leave.
                os.posix_fadvise(file, wanted.offset, wanted.length, os.POSIX_FADV_DONTNEED)
            data = os.pread(file, wanted.length, wanted.offset)
            while len(data) < wanted.length:
                more = os.pread(file, wanted.length - len(data), wanted.offset + len(data))
                if not more:
                    raise OSError(f"{path.name} ends before byte {wanted.offset + wanted.length}")
                data += more
        finally:
            os.close(file)
        return data
