"""The journal on a disk: one directory, one file per segment, one writer thread.

Inputs: chunks from `fedq.journal.segments.SegmentPlan`, handed over from the event loop. Outputs,
on the loop: `on_synced(number)` when every chunk up to `number` is on disk; `on_failed(reason)` at
most once, after which nothing is ever reported as synced. Invariants:

* Group commit without a timer (`fedq.shell.disk.group_commit`): the thread takes everything that
  gathered while its last fsync ran, and fsyncs once if any chunk asked for it.
* A segment is fsynced before the next one is made, and its name is in the directory before its
  bytes count: after a power cut only the end of the last segment can be torn.
* A failed write or fsync is final. The kernel may have thrown the dirty pages away and call a
  second fsync a success, so there is no second one. A write that found no room has lost nothing: it
  is tried again until there is some (`is_full`).
* Segments are deleted by a thread of its own, one directory fsync each: what says that nothing in
  them is alive is on disk by then (`fedq.journal.segments`), and a writer that waits for room must
  not keep them from making some.
* The same thread writes the index of each full segment beside it (`fedq.journal.indexes`), once the
  segment is synced. Nothing depends on it: it is not synced, and what is not there, or is not
  believed, is made anew with the next start.
* One process per directory, held by a lock that the kernel releases when the process ends.
"""

import asyncio
import errno
import fcntl
import logging
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

from fedq.core import limits
from fedq.core.errors import NodeFailure
from fedq.core.ids import Incarnation
from fedq.journal.indexes import OPENING_BYTES, encode_index
from fedq.journal.recovered import Recovered
from fedq.journal.recovery import salvage
from fedq.journal.segments import Chunk, Segment
from fedq.journal.sources import Source
from fedq.shell.disk.descriptors import SPARES
from fedq.shell.disk.durable_files import (
    Room,
    index_name,
    make_directory,
    open_private,
    replace_durably,
    segment_name,
)
from fedq.shell.disk.group_commit import GroupCommit, sync_file
from fedq.shell.disk.vouching import COUNTER_NAME, Vouch, vouch_for, write_vouch
from fedq.shell.durations import Durations, monotonic_us

logger = logging.getLogger("fedq.node")

#: What may wait for the writer thread. A disk that far behind is as good as lost.
BACKLOG_BYTES_MAX: Final = limits.NODE_MEMORY_BYTES_MAX // 4

#: So many hand-overs are measured at a time; a disk that stands still makes no list of them all.
_MEASURED_MAX: Final = 4_096

_SEGMENT_NAME = re.compile(r"(\d{12})\.journal")
_INDEX_NAME = re.compile(r"(\d{12})\.places")
#: What an index may have, in bytes of its segment: many fragments with a little each have the most.
_INDEX_SHARE_MAX: Final = 4
_LOCK_NAME = "lock"
#: Calls of the writer that are taken from the pipe at once; one would do.
_CALLS_MAX = 4_096


class DirectoryInUse(NodeFailure):
    """Another process has the journal's directory open."""


class JournalFiles:
    """One node's journal directory, open. Every method is for the event loop's thread."""

    def __init__(
        self,
        directory: str | Path,
        on_synced: Callable[[int], None],
        on_failed: Callable[[str], None],
        loop: asyncio.AbstractEventLoop,
        syncs: Durations | None = None,
    ) -> None:
        """Makes the directory if need be and locks it; raises `DirectoryInUse`, `OSError`.

        `syncs` hears how long what was appended took to be on disk. Call `recover` before the
        first `append`, and `close` in any case.
        """
        self._directory = Path(directory)
        self._on_synced = on_synced
        self._on_failed = on_failed
        self._loop = loop
        self._syncs = Durations() if syncs is None else syncs
        #: The number of the last chunk handed over.
        self._last_number = 0
        #: Of each hand-over that is not on disk yet: its last number, and when it was.
        self._handed: deque[tuple[int, int]] = deque()
        make_directory(self._directory)
        #: What this journal vouches for; set by `recover`.
        self.vouch = Vouch()
        self._lock = _lock_directory(self._directory)
        self._directory_fd = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        #: The end of the pipe that says when more is synced, and what was reported of it.
        self._pipe, pipe = os.pipe()
        os.set_blocking(self._pipe, False)
        os.set_blocking(pipe, False)
        self._pipe_writer = pipe
        self._reported = 0
        loop.add_reader(self._pipe, self._on_called)
        # Shared with the writer thread: what is to be written; the rest is guarded by `_guard`.
        self._commits = GroupCommit(pipe)
        self._guard = threading.Lock()
        self._deleter = ThreadPoolExecutor(1, "journal-deleter")
        self._closing = False
        self._failed = False
        #: For what the writer thread does between buffers.
        self._room = Room()
        #: Full segments that the writer has not come to the end of.
        self._full: dict[int, Segment] = {}
        # The writer thread's own: the segment being filled.
        self._segment = 0
        self._fd: int | None = None
        self._writer = threading.Thread(target=self._run, name="journal", daemon=True)
        self._writer.start()

    # --- start ---

    def read_segments(self) -> "SegmentFiles":
        """Every segment's bytes by number, read when they are asked for."""
        return SegmentFiles(self._directory)

    def recover(
        self, start: int = 0, *, has_past: bool = False, is_alone: bool = True,
        body_bytes_max: int | None = None,
    ) -> Recovered:  # fmt: skip
        """What the journal says, made safe to go on from.

        `body_bytes_max`: so many bytes of bodies are taken into memory (`salvage`), and segments
        before the checkpoint that have an index are not read. None: all are read.
        Its torn tail is cut, and damage is mended where others have the messages
        (`fedq.shell.disk.vouching`). Raises `CorruptJournal`, `OSError`. What the last process
        wrote may still be only in the kernel's memory: it is fsynced here, since this process will
        answer for it.
        """
        recovered = salvage(self.read_segments(), body_bytes_max)
        self.vouch = vouch_for(
            self._directory, recovered, start, has_past=has_past, is_alone=is_alone
        )
        if recovered.segments:
            last = recovered.segments[-1]
            file = os.open(self._path(last.number), os.O_WRONLY)
            try:
                if recovered.torn_bytes:
                    os.ftruncate(file, last.size)
                os.fsync(file)
            finally:
                os.close(file)
            os.fsync(self._directory_fd)
        self._deleter.submit(self._tidy_indexes, list(recovered.segments))
        return recovered

    # --- work ---

    @property
    def backlog_bytes(self) -> int:
        """The bytes that were handed over and are not written yet."""
        return self._commits.backlog_bytes()

    @property
    def is_full(self) -> bool:
        """Whether the writer waits for room on the disk."""
        return self._commits.is_full() or self._room.is_missing

    def append(self, chunks: Sequence[Chunk]) -> None:
        """Hands chunks to the writer, in order; returns at once. Ignored after a failure."""
        if not chunks:
            return
        assert chunks[0].number == self._last_number + 1, "chunk numbers have no gaps"
        self._last_number = chunks[-1].number
        if self._failed:
            return
        assert not self._closing, "the journal was closed"
        size = sum([len(chunk.data) for chunk in chunks])
        if self._commits.backlog_bytes() + size > BACKLOG_BYTES_MAX:
            self._fail(
                f"the disk of {self._directory} does not keep up: more than "
                f"{BACKLOG_BYTES_MAX >> 20} MiB wait to be written; use a faster disk"
            )
            return
        for chunk in chunks:
            if chunk.full is not None:
                self._full[chunk.full.number] = chunk.full
            self._commits.push(chunk.number, chunk.segment, chunk.data, chunk.sync)
        if len(self._handed) < _MEASURED_MAX and chunks[-1].sync:
            self._handed.append((self._last_number, monotonic_us()))

    def _on_called(self) -> None:
        """Takes the writer's call: something is synced."""
        os.read(self._pipe, _CALLS_MAX)
        self._report()

    def _report(self) -> None:
        synced = self._commits.synced()
        if synced > self._reported and not self._failed:
            self._reported = synced
            self._measure(synced)
            self._on_synced(synced)

    def _measure(self, synced: int) -> None:
        """Notes how long each of the hand-overs took that are on disk now."""
        now_us, handed = monotonic_us(), self._handed
        while handed and handed[0][0] <= synced:
            self._syncs.note(now_us - handed.popleft()[1])

    def drop(self, segments: Sequence[int]) -> None:
        """Deletes segments, oldest first; returns at once. Ignored after a failure."""
        if segments and not self._failed:
            assert not self._closing, "the journal was closed"
            self._deleter.submit(self._delete, sorted(segments))

    def close(self) -> None:
        """Writes and fsyncs what was appended, ends the thread, releases the lock.

        Reports made meanwhile reach the loop after this. Does nothing the second time.
        """
        with self._guard:
            if self._closing:
                return
            self._closing = True
        self._commits.give_up()
        self._room.give_up()
        self._commits.interrupt()
        self._writer.join()
        self._deleter.shutdown()
        os.close(self._directory_fd)
        os.close(self._lock)
        # This may be another thread than the loop's.
        self._loop.call_soon_threadsafe(self._report_last)

    def _report_last(self) -> None:
        self._report()
        self._loop.remove_reader(self._pipe)
        os.close(self._pipe)
        os.close(self._pipe_writer)

    # --- the writer thread ---

    def _run(self) -> None:
        try:
            while not self._failed:
                fd = -1 if self._fd is None else self._fd
                segment = self._commits.serve(fd, self._segment)
                if segment:
                    self._begin_segment(segment)
                elif self._is_over():
                    break
        except OSError as error:
            self._fail(_describe(error, self._path(self._segment)))
        except Exception as error:
            # A bug. The node must hear of it all the same: else it would wait for ever.
            self._fail(f"the journal's writer stopped: {type(error).__name__}: {error}")
        finally:
            if self._fd is not None:
                os.close(self._fd)

    def _is_over(self) -> bool:
        """Whether the writer was called since it is to end; all is on disk then."""
        with self._guard:
            # There may be more to write before the end.
            is_last = self._closing and not self._commits.backlog_bytes()
        if is_last and self._fd is not None:
            sync_file(self._fd)
        return is_last

    def _begin_segment(self, segment: int) -> None:
        assert segment > self._segment, "chunks go to ever newer segments"
        if self._fd is not None:
            sync_file(self._fd)
            os.close(self._fd)
            self._fd = None
        full = self._full.pop(self._segment, None)
        if full is not None:
            self._deleter.submit(self._write_index, full)
        self._segment = segment
        is_vouched = False
        while not is_vouched:
            with self._room.waiting():
                if self._fd is None:
                    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
                    self._fd = SPARES.open_file(self._path(segment), flags)
                    os.fsync(self._directory_fd)
                write_vouch(self._directory, Vouch(self.vouch.since, segment), SPARES.open_file)
                is_vouched = True

    def _fail(self, reason: str) -> None:
        """Ends this journal: no report of success follows."""
        with self._guard:
            if self._failed:
                return
            self._failed = True
        self._loop.call_soon_threadsafe(self._on_failed, reason)
        self._commits.interrupt()

    # --- the deleting thread ---

    def _delete(self, segments: list[int]) -> None:
        for segment in segments:
            if self._failed:
                return
            try:
                self._path(segment).unlink(missing_ok=True)
                (self._directory / index_name(segment)).unlink(missing_ok=True)
                os.fsync(self._directory_fd)
            except OSError as error:
                self._fail(_describe(error, self._path(segment)))

    def _tidy_indexes(self, segments: list[Segment]) -> None:
        """Writes the indexes that a start has missed, and deletes those of no segment."""
        for segment in segments:
            if not segment.is_indexed:
                self._write_index(segment)
        known = {segment.number for segment in segments}
        try:
            names = [path.name for path in self._directory.iterdir()]
            for match in filter(None, map(_INDEX_NAME.fullmatch, sorted(names))):
                if int(match[1]) not in known:
                    (self._directory / match[0]).unlink(missing_ok=True)
        except OSError as error:
            logger.warning("indexes of segments that are gone stay on the disk: %s", error)

    def _write_index(self, segment: Segment) -> None:
        """Writes the index of a full segment, or none: it would only spare the next start work."""
        if self._failed:
            return
        path = self._directory / index_name(segment.number)
        try:
            with self._path(segment.number).open("rb") as file:
                file_bytes = os.fstat(file.fileno()).st_size
                data = encode_index(segment, file_bytes, file.read(OPENING_BYTES))
            descriptor = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            with os.fdopen(descriptor, "wb") as index:
                index.write(data)
        except Exception as error:
            # Even a bug is no reason to stop: the segment says the same.
            text = "the next start reads all of segment %d: its index is not written (%s)"
            is_bug = not isinstance(error, OSError)
            logger.warning(text, segment.number, error, exc_info=is_bug)
            with suppress(OSError):
                # What is left of it would not be believed either.
                path.unlink(missing_ok=True)

    def _path(self, segment: int) -> Path:
        return self._directory / segment_name(segment)


class SegmentFiles(Source):
    """The segments of a directory by number, each read when it is asked for, and not kept.

    Other files are not looked at, but for their indexes. For tools that do not hold the lock, too:
    a journal in use may end within a record.
    """

    def __init__(self, directory: str | Path) -> None:
        """Lists the directory; raises `OSError`."""
        self._directory = Path(directory)
        names = [path.name for path in self._directory.iterdir()]
        matches = [match for name in names if (match := _SEGMENT_NAME.fullmatch(name)) is not None]
        self._numbers = dict.fromkeys(sorted(int(match[1]) for match in matches))

    def __getitem__(self, number: int) -> bytes:
        return self._path(number).read_bytes()

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def piece(self, number: int, offset: int, length: int) -> bytes:
        """Some bytes of a segment; fewer if it ends before."""
        with self._path(number).open("rb", buffering=0) as file:
            return os.pread(file.fileno(), length, offset)

    def index(self, number: int) -> bytes | None:
        """The bytes of a segment's index; None: there is none that could be one."""
        path = self._directory / index_name(number)
        try:
            if path.stat().st_size > _INDEX_SHARE_MAX * (self.size(number) + OPENING_BYTES):
                return None
            return path.read_bytes()
        except OSError:
            # It is missing, or the disk fails there: the segment says the same.
            return None

    def size(self, number: int) -> int:
        """The bytes of a segment."""
        return self._path(number).stat().st_size

    def _path(self, number: int) -> Path:
        if number not in self._numbers:
            raise KeyError(number)
        return self._directory / segment_name(number)


def count_start(directory: str | Path) -> Incarnation:
    """Counts this start of the process and returns its number, once it is safe on disk.

    It is higher than the last one, and not below the wall clock's seconds: so a node that lost its
    disk, or got an older copy of it, is not taken for one of its earlier processes.

    To be called while a `JournalFiles` holds the directory's lock. Raises `NodeFailure` if the
    count is lost: guessing might repeat a number, and with it the identity of old publishes.
    """
    directory = Path(directory)
    make_directory(directory)
    path = directory / COUNTER_NAME
    number = int(time.time())
    if path.exists():
        text = path.read_text("ascii", errors="replace")
        if not re.fullmatch(r"[0-9]{1,18}\n", text):
            raise NodeFailure(
                f"{path} does not hold a number: write into it, on a line of its own, a number "
                "higher than this node has ever started, or empty the data directory"
            )
        number = max(number, int(text) + 1)
    elif any(_SEGMENT_NAME.fullmatch(entry.name) for entry in directory.iterdir()):
        raise NodeFailure(
            f"{path} is missing, yet the journal is not empty: restore the file, or write into it, "
            "on a line of its own, a number higher than this node has ever started"
        )
    replace_durably(path, f"{number}\n".encode())
    return Incarnation(number)


def _lock_directory(directory: Path) -> int:
    """The open lock file, which holds the owner's process id for whoever is turned away."""
    file = os.open(directory / _LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
    except BlockingIOError:
        owner = os.pread(file, 32, 0).decode("ascii", "replace").strip()
        os.close(file)
        raise DirectoryInUse(
            f"{directory} is in use by process {owner or '(unknown)'}: stop that node first, "
            "or give this one a data directory of its own"
        ) from None
    except OSError:
        os.close(file)
        raise
    return file


def _describe(error: OSError, path: Path) -> str:
    """What to tell the operator about a disk that failed."""
    name = errno.errorcode.get(error.errno or 0, "unknown error")
    text = f"cannot write the journal {error.filename or path}: {error.strerror} ({name})"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"{text}; make room and start the node again"
    return f"{text}; check the disk, then start the node again"
