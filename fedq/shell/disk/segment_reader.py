"""Reads pieces of this node's own segments and scratch files, in threads of its own.

Inputs: what a node wants read (`NodeOut.reads`). Outputs, on the event loop: each of them once,
with exactly the bytes that were asked for, or with why there are none. Invariants: whatever a file
or the disk does ends in an answer; a disk that hangs holds up nobody but who waits for it, and no
close.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from fedq.node.outbox import ReadWanted
from fedq.shell.disk.descriptors import SPARES
from fedq.shell.disk.durable_files import segment_name
from fedq.shell.disk.scratch_files import scratch_name

#: Two: while one waits for the disk, another one may find its piece in the kernel's memory.
_THREADS: Final = 2
#: How long a close waits for reads that are under way.
_CLOSE_S: Final = 2.0


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
        self._on_read = on_read
        self._on_failed = on_failed
        self._loop = loop
        self._wanted: SimpleQueue[ReadWanted | None] = SimpleQueue()
        #: Shared with the threads; what is appended to an empty one calls the loop.
        self._answers: deque[tuple[int, bytes | None, str]] = deque()
        self._guard = threading.Lock()
        self._closed = False
        self._threads: list[threading.Thread] = []

    def read(self, reads: Iterable[ReadWanted]) -> None:
        """Has pieces read; returns at once."""
        if not self._threads:
            # Most nodes never need them.
            for number in range(_THREADS):
                thread = threading.Thread(target=self._run, name=f"reader-{number}", daemon=True)
                self._threads.append(thread)
                thread.start()
        for wanted in reads:
            self._wanted.put(wanted)

    def close(self) -> None:
        """Ends the threads, unless a disk hangs; nothing is answered any more."""
        self._closed = True
        for _ in self._threads:
            self._wanted.put(None)
        for thread in self._threads:
            thread.join(_CLOSE_S)

    def threads(self) -> list[threading.Thread]:
        """The threads that read; those of a disk that hangs outlive a close."""
        return list(self._threads)

    # --- the threads ---

    def _run(self) -> None:
        while (wanted := self._wanted.get()) is not None and not self._closed:
            try:
                self._answer(wanted.number, self._read(wanted), "")
            except OSError as error:
                self._answer(wanted.number, None, error.strerror or str(error))
            except MemoryError:
                self._answer(wanted.number, None, "there is no memory for it")
            except Exception as error:
                # Whatever it is: who waits is told, and others are served.
                self._answer(wanted.number, None, f"{type(error).__name__}: {error}")

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

    def _answer(self, number: int, data: bytes | None, reason: str) -> None:
        with self._guard:
            is_first = not self._answers
            self._answers.append((number, data, reason))
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
        for number, data, reason in answers:
            if self._closed:
                return
            if data is None:
                self._on_failed(number, reason)
            else:
                self._on_read(number, data)
