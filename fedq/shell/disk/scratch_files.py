"""Scratch files on a disk: one directory, one writer thread, nothing synced, nothing kept.

Inputs: pieces to be written, and files to be deleted (`NodeOut.scratch`, `NodeOut.scratch_drops`).
Outputs, on the event loop: each piece once, as written or with the reason why it is not. What is
written is read by `fedq.shell.disk.segment_reader`. Invariants: whatever the disk does ends in an
answer; what an earlier process left is gone before anything is written; nothing else in the
directory than files of these names is ever touched.
"""

import asyncio
import logging
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fedq.node.outbox import ScratchPiece
from fedq.shell.disk.descriptors import SPARES
from fedq.shell.disk.threads import DiskThreads

_NAME: Final = re.compile(r"[0-9]{12}\.scratch")

logger = logging.getLogger(__name__)


def scratch_name(segment: int) -> str:
    """The name of the file that a node knows by this (negative) number."""
    return f"{-segment:012d}.scratch"


class ScratchFiles:
    """The scratch files of one node. Every method is for the event loop's thread."""

    def __init__(
        self,
        directory: Path,
        on_written: Callable[[int], None],
        on_failed: Callable[[int, str], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Deletes what an earlier process has left. Raises `OSError` if that cannot be done."""
        self._directory = directory
        self._on_written = on_written
        self._on_failed = on_failed
        self._disk: DiskThreads[ScratchPiece | int, None] = DiskThreads(
            ("scratch",), self._do, self._tell_done, self._tell_failed, loop
        )
        directory.mkdir(mode=0o700, exist_ok=True)
        empty(directory)

    def write(self, pieces: list[ScratchPiece], drops: list[int]) -> None:
        """Has pieces written, and files deleted after them; returns at once."""
        self._disk.put([*pieces, *drops])

    def close(self) -> None:
        """Ends the thread, unless a disk hangs, and deletes all; nothing is answered any more."""
        if self._disk.close():
            empty(self._directory)

    def threads(self) -> list[threading.Thread]:
        """The threads that write; one of a disk that hangs outlives a close."""
        return self._disk.threads()

    # --- the thread ---

    def _do(self, wanted: ScratchPiece | int) -> None:
        if isinstance(wanted, int):
            self._delete(wanted)
        else:
            self._write(wanted)

    def _write(self, piece: ScratchPiece) -> None:
        path = self._directory / scratch_name(piece.segment)
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
        file = SPARES.open_file(path, flags)
        try:
            data, offset = memoryview(piece.data), piece.offset
            while data:
                written = os.pwrite(file, data, offset)
                data, offset = data[written:], offset + written
        finally:
            os.close(file)

    def _delete(self, segment: int) -> None:
        path = self._directory / scratch_name(segment)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            # It takes room until the next start, which tries again.
            logger.warning("%s cannot be deleted (%s); the next start tries again", path, error)

    # --- the event loop ---

    def _tell_done(self, wanted: ScratchPiece | int, _: None) -> None:
        if not isinstance(wanted, int):
            self._on_written(wanted.number)

    def _tell_failed(self, wanted: ScratchPiece | int, reason: str) -> None:
        if not isinstance(wanted, int):
            self._on_failed(wanted.number, reason)


def empty(directory: Path) -> None:
    """Deletes the scratch files in a directory."""
    for entry in os.scandir(directory):
        if _NAME.fullmatch(entry.name) and not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.path)
