"""A Raft voter's journal and snapshot together, so that they always fit each other.

Inputs: a directory, snapshots of the machine or of a leader. Outputs: the same two files after
any crash. Invariant: the journal's first entry is the last one that the snapshot contains, or the
common first entry when there is no snapshot. A crash between writing the snapshot and compacting
the journal leaves a snapshot that is further on; `open` then finishes the job, keeping every
entry after it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Self

from fedq.shell.raft_journal import NotReplaced, RaftJournal, RaftStorageError, sync_directory
from fedq.shell.raft_snapshot import Snapshot, SnapshotFile, encode_pieces

JOURNAL_NAME = "raft.journal"
SNAPSHOT_NAME = "raft.snapshot"


class RaftStorage:
    """The two files of one voter. Every method blocks for the disk; `OSError` is the end."""

    __slots__ = ("_snapshots", "journal", "restored")

    def __init__(
        self, journal: RaftJournal, snapshots: SnapshotFile, restored: Snapshot | None
    ) -> None:
        """Takes over what `open` has read; use that."""
        self.journal = journal
        self._snapshots = snapshots
        #: The machine's state to begin with; None: an empty one.
        self.restored = restored

    @classmethod
    def open(cls, directory: Path) -> Self:
        """Reads or creates the files; the directory is made if its parent exists.

        Raises `RaftStorageError` when they are damaged or do not belong together.
        """
        if not directory.exists():
            directory.mkdir(mode=0o700)
            sync_directory(directory.parent)
        journal_path = directory / JOURNAL_NAME
        snapshots = SnapshotFile(directory / SNAPSHOT_NAME)
        snapshots.forget_staged()
        restored = snapshots.load()
        if restored is not None and not journal_path.exists():
            raise RaftStorageError(
                f"{journal_path} is missing beside its snapshot, and with it this node's vote. "
                "Restore it, or remove the node's data directory and let the node rejoin as a "
                "new member"
            )
        journal = RaftJournal.open(journal_path)
        covered = 1 if restored is None else restored.number
        if covered < journal.first_index:
            journal.abandon()
            raise RaftStorageError(
                f"{directory / SNAPSHOT_NAME} ends with entry {covered}, the journal begins with "
                f"{journal.first_index}: the snapshot is missing or from an old backup. Restore "
                "both, or remove the node's data directory and let it rejoin as a new member"
            )
        storage = cls(journal, snapshots, restored)
        if restored is not None:
            storage._fit(restored.number, restored.term)
        return storage

    def install(self, encoded: bytes, snapshot: Snapshot) -> None:
        """Takes a leader's snapshot in place of the entries it contains."""
        self._snapshots.store(encoded)
        self._fit(snapshot.number, snapshot.term)

    def encoded_snapshot(self) -> bytes | None:
        """The newest snapshot on disk: it ends with the journal's first entry, or later."""
        return self._snapshots.read_encoded()

    def stage(self, index: int, term: int, data: Callable[[], list[bytes]]) -> None:
        """Writes the machine's snapshot after entry `index` beside the newest. For any thread.

        Raises `RaftStorageError`; everything is as it was then.
        """
        self._snapshots.stage(encode_pieces(index, term, data()))

    def sync(self, has_written: bool, compact_to: int | None) -> RaftStorageError | None:
        """All of a turn that blocks for the disk, for the thread that waits for it.

        First what the journal was handed, if anything. Then, if there is an entry to compact to,
        the staged snapshot of it takes its place and the journal becomes shorter; returns why it
        did not. Raises `OSError` when nobody can tell what is on disk.
        """
        if has_written:
            self.journal.wait_synced()
        if compact_to is not None:
            try:
                self._snapshots.put_in_place()
                self.journal.write_compacted(compact_to)
            except NotReplaced as error:
                return error
        return None

    def _fit(self, index: int, term: int) -> None:
        """Makes the journal begin with the snapshot's last entry."""
        journal = self.journal
        if index > journal.last_index or journal.term_at(index) != term:
            # What follows on another entry than the committed one is void.
            journal.restart_at(index, term)
        elif index > journal.first_index:
            journal.compact(index)
