"""A Raft voter's journal and snapshot together, so that they always fit each other.

Inputs: a directory, snapshots of the machine or of a leader. Outputs: the same two files after
any crash, and the voters that they name. Invariant: the journal's first entry is the last one that
the snapshot contains, or the common first entry when there is no snapshot. A crash between writing
the snapshot and compacting the journal leaves a snapshot that is further on; `open` then finishes
the job, keeping every entry after it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Self

from fedq.shell.raft.electorate import NO_MEMORY, Memory
from fedq.shell.raft.journal import (
    NotReplaced,
    RaftJournal,
    RaftStorageError,
    sync_directory,
    write_durably,
)
from fedq.shell.raft.snapshot import Snapshot, SnapshotFile, encode_pieces
from fedq.shell.raft.voters import VoterSet, newest_set

JOURNAL_NAME = "raft.journal"
SNAPSHOT_NAME = "raft.snapshot"
#: Beside the two as long as this voter is a learner; says why.
LEARNER_NAME = "learner"
_NEW = b"new\n"
_LOST = b"lost\n"


class RaftStorage:
    """The two files of one voter. Every method blocks for the disk; `OSError` is the end."""

    __slots__ = (
        "_base", "_learner", "_snapshots", "is_learner", "is_new", "journal", "restored",
    )  # fmt: skip

    def __init__(
        self,
        journal: RaftJournal,
        snapshots: SnapshotFile,
        restored: Snapshot | None,
        learner: Path,
    ) -> None:
        """Takes over what `open` has read; use that."""
        self._learner = learner
        #: These files may lack what this voter promised: it learns before it votes.
        self.is_learner = learner.exists()
        #: They never promised anything.
        self.is_new = self.is_learner and learner.read_bytes() == _NEW and journal.is_virgin
        self.journal = journal
        self._snapshots = snapshots
        #: The machine's state to begin with; None: an empty one.
        self.restored = restored
        #: Who voted as of the oldest entry kept; None: the log had not named anybody.
        self._base = None if restored is None else restored.voters

    @classmethod
    def open(cls, directory: Path, memory: Memory = NO_MEMORY) -> Self:
        """Reads or creates the files; the directory is made if its parent exists.

        `memory`: what is known of them from elsewhere. Files that are new, gone or behind it are
        a learner's (`fedq.shell.raft.electorate`), until `become_voter`. Raises `RaftStorageError`
        when they are damaged or do not belong together.
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
                f"Restore it, or delete {directory}: the node then votes again once the others "
                "have brought it up to date"
            )
        learner = directory / LEARNER_NAME
        if not journal_path.exists():
            # Before the first word is in it: a crash in between must not make a voter.
            write_durably(learner, [_LOST if memory.is_used else _NEW])
        journal = RaftJournal.open(journal_path)
        if journal.term < memory.term or journal.last_index < memory.applied:
            write_durably(learner, [_LOST])
        covered = 1 if restored is None else restored.number
        if covered < journal.first_index:
            journal.abandon()
            raise RaftStorageError(
                f"{directory / SNAPSHOT_NAME} ends with entry {covered}, the journal begins with "
                f"{journal.first_index}: the snapshot is missing or from an old backup. Restore "
                "both, or remove the node's data directory and let it rejoin as a new member"
            )
        storage = cls(journal, snapshots, restored, learner)
        if restored is not None:
            storage._fit(restored.number, restored.term)
        return storage

    def become_learner(self) -> None:
        """Notes that somebody knows more of this voter than these files do; on disk on return."""
        write_durably(self._learner, [_LOST])
        self.is_learner, self.is_new = True, False

    def become_voter(self) -> None:
        """Lets these files speak for themselves again; what the journal wrote is safe first."""
        self.journal.sync()
        if self.is_learner:
            self._learner.unlink()
            sync_directory(self._learner.parent)
        self.is_learner = self.is_new = False

    def prepare(self, encoded: bytes) -> None:
        """Writes a leader's snapshot beside this voter's own. For any thread."""
        self._snapshots.prepare(encoded)

    def install(self, index: int, term: int, voters: VoterSet | None) -> None:
        """Takes the leader's snapshot that was prepared in place of the entries it contains."""
        self._snapshots.take_prepared()
        self._base = voters
        self._fit(index, term)

    def encoded_snapshot(self) -> bytes | None:
        """The newest snapshot on disk: it ends with the journal's first entry, or later."""
        return self._snapshots.read_encoded()

    def voters_at(self, index: int) -> VoterSet | None:
        """The newest set of voters as of entry `index`; None: the log has not named anybody."""
        found = newest_set(self.journal, index, self._base or VoterSet(0, ()))
        return found if found.number else None

    def stage(
        self,
        index: int,
        term: int,
        data: Callable[[], list[bytes]],
        voters: VoterSet | None = None,
    ) -> None:
        """Writes the machine's snapshot after entry `index` beside the newest. For any thread.

        `voters`: as of that entry. Raises `RaftStorageError`; everything is as it was then.
        """
        self._snapshots.stage(encode_pieces(index, term, data(), voters))

    def sync(self, has_written: bool, compact_to: int | None) -> RaftStorageError | None:
        """Does all of a turn that blocks for the disk, for the thread that waits for it.

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

    def use_compacted(self, index: int) -> None:
        """Goes on with the journal that `sync` made shorter, to this entry."""
        self._base = self.voters_at(index)
        self.journal.use_compacted()

    def _fit(self, index: int, term: int) -> None:
        """Makes the journal begin with the snapshot's last entry."""
        journal = self.journal
        if index > journal.last_index or journal.term_at(index) != term:
            # What follows on another entry than the committed one is void.
            journal.restart_at(index, term)
        elif index > journal.first_index:
            journal.compact(index)
