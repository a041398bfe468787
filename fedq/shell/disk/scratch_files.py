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
from collections import deque
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from fedq.node.outbox import ScratchPiece
from fedq.shell.disk.descriptors import SPARES

_NAME: Final = re.compile(r"[0-9]{12}\.scratch")
#: How long a close waits for what is under way.
_CLOSE_S: Final = 2.0

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
        self._loop = loop
        self._wanted: SimpleQueue[ScratchPiece | int | None] = SimpleQueue()
        #: Shared with the thread; what is appended to an empty one calls the loop.
        self._answers: deque[tuple[int, str | None]] = deque()
        self._guard = threading.Lock()
        self._closed = False
        self._thread: threading.Thread | None = None
        directory.mkdir(mode=0o700, exist_ok=True)
        empty(directory)

    def write(self, pieces: list[ScratchPiece], drops: list[int]) -> None:
        """Has pieces written, and files deleted after them; returns at once."""
        if self._thread is None:
            # Most nodes never need it.
            self._thread = threading.Thread(target=self._run, name="scratch", daemon=True)
            self._thread.start()
        for piece in pieces:
            self._wanted.put(piece)
        for segment in drops:
            self._wanted.put(segment)

    def close(self) -> None:
        """Ends the thread, unless a disk hangs, and deletes all; nothing is answered any more."""
        self._closed = True
        if self._thread is not None:
            self._wanted.put(None)
            self._thread.join(_CLOSE_S)
            if not self._thread.is_alive():
                empty(self._directory)

    def threads(self) -> list[threading.Thread]:
        """The threads that write; one of a disk that hangs outlives a close."""
        return [self._thread] if self._thread is not None else []

    # --- the thread ---

    def _run(self) -> None:
        while (wanted := self._wanted.get()) is not None and not self._closed:
            if isinstance(wanted, int):
                self._delete(wanted)
                continue
            try:
                self._write(wanted)
                self._answer(wanted.number, None)
            except OSError as error:
                self._answer(wanted.number, error.strerror or str(error))

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

    def _answer(self, number: int, reason: str | None) -> None:
        with self._guard:
            is_first = not self._answers
            self._answers.append((number, reason))
        if is_first and not self._closed:
            try:
                self._loop.call_soon_threadsafe(self._hand_over)
            except RuntimeError:
                # The loop has ended meanwhile: nobody waits.
                self._closed = True

    # --- the event loop ---

    def _hand_over(self) -> None:
        with self._guard:
            answers, self._answers = self._answers, deque()
        for number, reason in answers:
            if self._closed:
                return
            if reason is None:
                self._on_written(number)
            else:
                self._on_failed(number, reason)


def empty(directory: Path) -> None:
    """Deletes the scratch files in a directory."""
    for entry in os.scandir(directory):
        if _NAME.fullmatch(entry.name) and not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.path)
