"""The face of a `RaftJournal` that pysyncobj knows: its method names, and no more than it calls.

Inputs: pysyncobj's calls. Outputs: the journal's. What would delete entries is not here: fedq
replaced the parts of pysyncobj that did.
"""

from fedq.shell.raft.journal import Entry, RaftJournal


class JournalFace:
    """A `RaftJournal` under the method names that pysyncobj calls."""

    __slots__ = ("_journal",)

    def __init__(self, journal: RaftJournal) -> None:
        self._journal = journal

    def __len__(self) -> int:
        return len(self._journal)

    def __getitem__(self, place: int | slice) -> Entry | list[Entry]:
        return self._journal[place]

    def add(self, command: bytes, index: int, term: int) -> None:
        """Appends an entry, which must be the next one."""
        assert index == self._journal.last_index + 1, f"entry {index} leaves a gap"
        self._journal.append(command, term)

    def setCurrentTerm(self, term: int, vote: str | None) -> None:  # noqa: N802
        """Records the current term and the vote in it."""
        self._journal.set_term(term, vote)

    def getCurrentTerm(self) -> int:  # noqa: N802
        """The current term."""
        return self._journal.term

    def getVotedForNodeId(self) -> str | None:  # noqa: N802
        """The voter that has this one's vote in the current term; None: nobody."""
        return self._journal.vote

    def setRaftCommitIndex(self, index: int) -> None:  # noqa: N802
        """Syncs: not even what this turn wrote is committed before it is on disk."""
        self._journal.sync()

    def getRaftCommitIndex(self) -> int:  # noqa: N802
        """The index of the oldest entry kept, which is always committed."""
        return self._journal.first_index

    def onOneSecondTimer(self) -> None:  # noqa: N802
        """Does nothing: nothing is put off, see `RaftJournal.sync`."""

    def _destroy(self) -> None:
        """Does nothing: whoever opened the journal closes it."""
