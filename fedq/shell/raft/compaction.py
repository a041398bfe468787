"""Compacting a voter's log without holding anybody up.

Inputs: a voter, its storage, a machine that can be frozen. Outputs: a snapshot staged on disk,
which the sync of a later turn puts in place. The machine is frozen on the loop, which takes a
millisecond or two; a thread then encodes, deflates, writes and syncs it while turns go on.

Invariants: one compaction at a time; whatever fails before the new files take the old ones' place
leaves log and node as they are, is said in the log, and is tried again later.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from fedq.shell.raft.journal import RaftStorageError
from fedq.shell.raft.storage import RaftStorage
from fedq.shell.raft.timing import RaftTiming

logger = logging.getLogger(__name__)

#: The pieces of a frozen state, made by whichever thread asks.
Pieces = Callable[[], list[bytes]]


class Applied(Protocol):
    """How far a voter's machine is."""

    @property
    def applied(self) -> int:
        """The index of the newest entry that the machine has."""


class Compactor:
    """Decides when a voter's log is compacted, and how far."""

    __slots__ = (
        "_bug", "_due", "_loop", "_retry_at", "_retry_ms", "_staged", "_timing", "under_way",
    )  # fmt: skip

    def __init__(
        self, loop: asyncio.AbstractEventLoop, timing: RaftTiming, due: Callable[[], None]
    ) -> None:
        """`due` is called when a snapshot is staged: a turn should come."""
        self._loop = loop
        self._timing = timing
        self._due = due
        #: The thread that writes a snapshot into the voter's directory, if one is at work.
        self.under_way: asyncio.Future[None] | None = None
        #: Index and term of the snapshot that is under way or staged.
        self._staged: tuple[int, int] | None = None
        #: What a thread met that is neither a disk's nor a map's doing.
        self._bug: BaseException | None = None
        self._retry_at = 0.0
        self._retry_ms = timing.compact_retry_ms

    def look(self, voter: Applied, storage: RaftStorage, freeze: Callable[[], Pieces]) -> None:
        """Begins a compaction if the log has grown enough for one."""
        if self._bug is not None:
            raise self._bug
        journal = storage.journal
        count = voter.applied - journal.first_index
        grown = journal.size_bytes - journal.base_bytes
        is_long = count > self._timing.compact_entries
        if not is_long and (count <= 0 or grown <= self._timing.compact_bytes):
            return
        if self._staged is not None or self._loop.time() < self._retry_at:
            return
        index, term = voter.applied, journal.term_at(voter.applied)
        self._staged = index, term
        pieces = freeze()
        self.under_way = self._loop.run_in_executor(
            None, storage.stage, index, term, pieces, storage.voters_at(index)
        )
        self.under_way.add_done_callback(self._on_staged)

    def take_staged(self, storage: RaftStorage) -> int | None:
        """The index to compact to within the sync of this turn; None if there is none."""
        if self._staged is None or self.under_way is not None:
            return None
        (index, term), self._staged = self._staged, None
        journal = storage.journal
        if not journal.first_index < index <= journal.last_index or journal.term_at(index) != term:
            # A leader's snapshot has taken the place of those entries.
            return None
        return index

    def on_kept(self, error: Exception) -> None:
        """Takes note that the log stays as it is, for this reason."""
        self._staged = None
        self._retry_at = self._loop.time() + self._retry_ms / 1_000
        logger.warning(
            "the Raft log could not be compacted and grows on: %s: %s; the next try is in %d s",
            type(error).__name__,
            error,
            self._retry_ms / 1_000,
        )
        self._retry_ms = min(2 * self._retry_ms, self._timing.compact_retry_max_ms)

    def on_compacted(self) -> None:
        """Takes note that the new files are in place."""
        self._retry_ms = self._timing.compact_retry_ms

    def _on_staged(self, under_way: asyncio.Future[None]) -> None:
        self.under_way = None
        error = under_way.exception()
        if isinstance(error, RaftStorageError | OSError):
            self.on_kept(error)
        else:
            self._bug = error
        self._due()
