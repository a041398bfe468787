"""What the journal's loop and its writer thread share: buffers to write, and how far they are safe.

One thread pushes, another one serves: it writes everything that gathered while the last sync ran,
in as few system calls as the kernel allows, syncs once if any buffer asked for it, and writes a
byte into the pipe whose other end the event loop watches. The native form does that without
Python's lock, so that neither thread waits for the other.

In: numbered buffers for a segment's file. Out: `synced`. Invariants: buffers are written in order;
`synced` grows only after a sync that came back well; what is pushed is kept until it is written. A
full disk is waited for: a write that found no room has lost nothing.
"""

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from fedq.shell.disk.durable_files import Room

#: fdatasync spares the file's times; macOS lacks it.
sync_file: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)

_BUFFERS_PER_WRITE: Final = 1_024
_CALL: Final = b"!"


class GroupCommit:
    """The queue between the loop and the writer. `serve` is for the writer's thread."""

    __slots__ = (
        "_backlog", "_entries", "_interrupted", "_last", "_pipe", "_room", "_synced", "_wake",
        "_written",
    )  # fmt: skip

    def __init__(self, pipe: int) -> None:
        """`pipe`: the writing end, which must not block; it is called at whenever `synced` grew."""
        self._pipe = pipe
        self._wake = threading.Condition()
        self._room = Room()
        #: (number, segment, data, sync), in order.
        self._entries: deque[tuple[int, int, bytes, bool]] = deque()
        self._backlog = 0
        self._synced = 0
        #: The numbers of the last buffers that were pushed and written.
        self._last = 0
        self._written = 0
        #: `serve` is to return once the buffer with this number is written; None: it is not.
        self._interrupted: int | None = None

    def push(self, number: int, segment: int, data: bytes, sync: bool) -> None:
        """Pushes a buffer for a segment; `sync`: it is to be on disk before it counts."""
        with self._wake:
            self._entries.append((number, segment, data, sync))
            self._backlog += len(data)
            self._last = number
            self._wake.notify()

    def interrupt(self) -> None:
        """Makes `serve` return 0 once, as soon as everything pushed before is written."""
        with self._wake:
            self._interrupted = self._last
            self._wake.notify()

    def synced(self) -> int:
        """The number of the last buffer that is on disk with all before it; 0: none."""
        with self._wake:
            return self._synced

    def backlog_bytes(self) -> int:
        """The bytes that were pushed and are not written (and synced, if they were to be) yet."""
        with self._wake:
            return self._backlog

    def is_full(self) -> bool:
        """Whether what is to be written waits for room on the disk."""
        return self._room.is_missing

    def give_up(self) -> None:
        """Lets nothing wait for room any more: a full disk is a failure from now on."""
        self._room.give_up()

    def serve(self, file: int, segment: int) -> int:
        """Writes what is pushed for `segment` to its file, until there is something else to do.

        Returns the segment that the next buffer is for, or 0 after `interrupt`. Raises `OSError`,
        after which nothing more may be served.
        """
        while True:
            with self._wake:
                while not self._entries and self._interrupted is None:
                    self._wake.wait()
                if self._interrupted is not None and self._written >= self._interrupted:
                    self._interrupted = None
                    return 0
                if self._entries[0][1] != segment:
                    return self._entries[0][1]
                taken: list[tuple[int, int, bytes, bool]] = []
                while self._entries and self._entries[0][1] == segment:
                    taken.append(self._entries.popleft())
            self._commit(file, taken)
            # What is written must not be held while nothing else is to be.
            del taken

    def _commit(self, file: int, taken: list[tuple[int, int, bytes, bool]]) -> None:
        _write_all(file, [data for _, _, data, _ in taken], self._room)
        must_sync = any(sync for _, _, _, sync in taken)
        if must_sync:
            sync_file(file)
        with self._wake:
            self._backlog -= sum(len(data) for _, _, data, _ in taken)
            self._written = taken[-1][0]
            if must_sync:
                self._synced = self._written
        if must_sync:
            _call(self._pipe)


def _call(pipe: int) -> None:
    try:
        os.write(pipe, _CALL)
    except BlockingIOError:
        # It is full of calls that were not heard yet.
        return


def _write_all(file: int, buffers: list[bytes], room: Room) -> None:
    """Writes everything, in as few system calls as the kernel allows."""
    left = [memoryview(buffer) for buffer in buffers if buffer]
    done = 0
    while done < len(left):
        written = 0
        with room.waiting():
            written = os.writev(file, left[done : done + _BUFFERS_PER_WRITE])
        while done < len(left) and written >= len(left[done]):
            written -= len(left[done])
            done += 1
        if written:
            left[done] = left[done][written:]
