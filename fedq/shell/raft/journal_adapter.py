"""The face of a `RaftJournal` that pysyncobj knows: its method names, and no more than it calls.

Inputs: pysyncobj's calls. Outputs: the journal's. What would delete entries is not here: fedq
replaced the parts of pysyncobj that did.
"""

from fedq.shell.raft.journal import Entry, RaftJournal


class JournalFace:
    """See the module's docstring."""

    __slots__ = ("_journal",)

    def __init__(self, journal: RaftJournal) -> None:
        self._journal = journal

    def __len__(self) -> int:
        return len(self._journal)

    def __getitem__(self, place: int | slice) -> Entry | list[Entry]:
        return self._journal[place]

    def add(self, command: bytes, index: int, term: int) -> None:
        assert index == self._journal.last_index + 1, f"entry {index} leaves a gap"
        self._journal.append(command, term)

    def setCurrentTerm(self, term: int, vote: str | None) -> None:  # noqa: N802
        self._journal.set_term(term, vote)

    def getCurrentTerm(self) -> int:  # noqa: N802
        return self._journal.term

    def getVotedForNodeId(self) -> str | None:  # noqa: N802
        return self._journal.vote

    def setRaftCommitIndex(self, index: int) -> None:  # noqa: N802
        """Not even what this turn wrote is committed before it is on disk."""
        self._journal.sync()

    def getRaftCommitIndex(self) -> int:  # noqa: N802
        return self._journal.first_index

    def onOneSecondTimer(self) -> None:  # noqa: N802
        """Nothing is put off: see `RaftJournal.sync`."""

    def _destroy(self) -> None:
        """Whoever opened the journal closes it."""
