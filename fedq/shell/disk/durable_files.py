"""Files of a data directory that survive a power cut: whole, or as they were.

Invariant: what a function here has returned from is on disk.
"""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from fedq.core.errors import NodeFailure

#: Opens a file with flags, for its owner alone; how is the caller's affair.
OpenFile = Callable[[Path, int], int]

#: What says that a disk is full, rather than that it has failed: nothing is lost, and it may be
#: tried again.
FULL: Final = (errno.ENOSPC, errno.EDQUOT)
#: After what time it is.
FULL_WAIT_S: Final = 0.1


class Room:
    """Whether there is room on the disk, as a thread that writes finds it: it waits for some."""

    __slots__ = ("_gives_up", "is_missing")

    def __init__(self) -> None:
        self._gives_up = threading.Event()
        #: The disk is full, and somebody waits.
        self.is_missing = False

    def give_up(self) -> None:
        """Lets nobody wait from now on: a full disk is a failure."""
        self._gives_up.set()

    def write(self, file: int, data: bytes) -> None:
        """Writes everything, however long there is no room for it. Raises `OSError`."""
        view = memoryview(data)
        while view:
            with self.waiting():
                view = view[os.write(file, view) :]

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Takes a full disk for the time to wait; what is within is to be tried again then."""
        try:
            yield
        except OSError as error:
            self.is_missing = error.errno in FULL
            if not self.is_missing or self._gives_up.wait(FULL_WAIT_S):
                raise
        else:
            self.is_missing = False


def segment_name(number: int) -> str:
    """The file name of a segment; names sort as their numbers do."""
    return f"{number:012d}.journal"


def index_name(number: int) -> str:
    """The file name of a segment's index."""
    return f"{number:012d}.places"


def open_private(path: Path, flags: int) -> int:
    """The descriptor of a file that only its owner may read."""
    return os.open(path, flags, 0o600)


def replace_durably(path: Path, content: bytes, open_file: OpenFile = open_private) -> None:
    """Replaces a file: old or new content, never a mixture, whenever the power goes."""
    temporary = path.with_name(path.name + ".new")
    file = open_file(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(file, left) :]
        os.fsync(file)
    finally:
        os.close(file)
    temporary.rename(path)
    sync_directory(path.parent)


def make_directory(directory: Path) -> None:
    """Makes a directory and what leads to it, each durable in its parent."""
    if not directory.is_dir():
        make_directory(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)
        sync_directory(directory.parent)


def sync_directory(directory: Path) -> None:
    """Makes renames and new files in a directory survive a power cut."""
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def disk_failure(error: OSError, directory: Path) -> NodeFailure:
    """What to tell the operator about a disk that fails before the node has begun."""
    name = errno.errorcode.get(error.errno or 0, "unknown error")
    advice = "make room" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "check the disk"
    return NodeFailure(
        f"the data directory cannot be used: {error.filename or directory}: {error.strerror} "
        f"({name}); {advice}, then start the node again"
    )
