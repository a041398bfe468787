"""The Raft log's forms for ever: its frames, its journal and its snapshots, once written.

Inputs: `tests/golden/raft-*`, and what is in them as plain values. None of them is rewritten: a
new form gets a file beside the old one.
"""

from pathlib import Path
from typing import Final, get_args

from fedq.core.ids import NodeId
from fedq.shell.raft.journal import FIRST_ENTRY, Entry, RaftJournal
from fedq.shell.raft.snapshot import Snapshot, decode_snapshot, encode_snapshot
from fedq.shell.raft.voters import VoterSet, encode_voters
from fedq.shell.raft.wire import (
    NO_OP,
    Ack,
    Append,
    Forward,
    LeadNow,
    LogEntry,
    Promote,
    RaftMessage,
    SnapshotChunk,
    Standing,
    Vote,
    VoteRequest,
    decode,
    encode,
)
from tests.unit.golden import GOLDEN, frames

MOST: Final = 2**63 - 1
COMMAND: Final = b"\x00a command"

MESSAGES: Final[list[RaftMessage]] = [
    VoteRequest(7, 12, 6, False),
    VoteRequest(MOST, MOST, MOST, True),
    Vote(7),
    LeadNow(8),
    Append(8, 1, 11, 12, 7, []),
    Append(8, 2, 12, 12, 7, [LogEntry(7, COMMAND), LogEntry(8, NO_OP), LogEntry(8, b"\x00\xff")]),
    SnapshotChunk(8, 3, 5, 12, b"a piece"),
    Ack(8, 2, 16, True, False),
    Ack(8, 3, 1, False, True, True),
    Forward([]),
    Forward([b"one", b"another"]),
    Standing(8, 15, 8, True),
    Standing(0, 1, 0, False),
    Promote(8, 16),
]


#: What came with version 13 of the cluster: sets of voters.
VOTERS: Final = encode_voters([NodeId("n1"), NodeId("n2"), NodeId("süd")])
MESSAGES_WITH_VOTERS: Final[list[RaftMessage]] = [
    Standing(8, 15, 8, True, 12),
    Append(8, 2, 12, 12, 7, [LogEntry(7, COMMAND), LogEntry(8, VOTERS)]),
]


def test_the_golden_frames_with_voters_still_read_and_are_still_written_alike() -> None:
    golden = frames("raft-v2-voters.frames")
    assert [encode(message) for message in MESSAGES_WITH_VOTERS] == golden
    assert [decode(frame) for frame in golden] == MESSAGES_WITH_VOTERS


def test_the_golden_journal_with_voters_still_reads_and_is_still_written_alike(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal"
    journal = RaftJournal.open(path)
    journal.set_term(3, "n1")
    journal.append(VOTERS, 3)
    journal.close()
    assert path.read_bytes() == (GOLDEN / "raft-v1-voters.journal").read_bytes()
    journal = opened(tmp_path / "again", "raft-v1-voters.journal")
    assert contents(journal) == ([FIRST_ENTRY, Entry(VOTERS, 2, 3)], 3, "n1")
    journal.close()


def test_the_golden_snapshot_with_voters_still_reads() -> None:
    golden = (GOLDEN / "raft-v2-voters.snapshot").read_bytes()
    voters = VoterSet(2**33, (NodeId("n1"), NodeId("n2"), NodeId("süd")))
    snapshot = Snapshot(2**40, 5, b"a machine's state, " * 9, voters)
    assert decode_snapshot(golden) == snapshot
    written = encode_snapshot(snapshot)
    assert decode_snapshot(written) == snapshot
    head = 38 + 10 + len(VOTERS)
    assert (written[:10], written[14:head]) == (golden[:10], golden[14:head])


def test_the_golden_frames_still_read_and_are_still_written_alike() -> None:
    golden = frames("raft-v2.frames")
    assert [encode(message) for message in MESSAGES] == golden
    read = [decode(frame) for frame in golden]
    assert read == MESSAGES
    assert [type(message) for message in read] == [type(message) for message in MESSAGES]
    assert {type(message) for message in read} == {*get_args(RaftMessage)}


#: What the golden journal comes to.
ENTRIES: Final = [FIRST_ENTRY, Entry(COMMAND, 2, 3), Entry(NO_OP, 3, 5), Entry(b"\x00last", 4, 5)]
#: And the one that it becomes when it is compacted.
COMPACTED: Final = ENTRIES[2:]


def contents(journal: RaftJournal) -> tuple[list[Entry], int, str | None]:
    """What a journal holds."""
    return journal[:], journal.term, journal.vote


def opened(path: Path, golden: str) -> RaftJournal:
    """A journal that was written by the release of the golden file."""
    path.write_bytes((GOLDEN / golden).read_bytes())
    return RaftJournal.open(path)


def test_the_golden_journals_still_read(tmp_path: Path) -> None:
    journal = opened(tmp_path / "journal", "raft-v1.journal")
    assert contents(journal) == (ENTRIES, 5, "süd")
    journal.close()
    compacted = opened(tmp_path / "compacted", "raft-v1-compacted.journal")
    assert contents(compacted) == (COMPACTED, 5, "süd")
    compacted.close()


def test_the_golden_journals_are_still_written_alike(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = RaftJournal.open(path)
    journal.set_term(3, None)
    journal.append(COMMAND, 3)
    journal.append(b"\x00to be forgotten", 3)
    journal.sync()
    journal.set_term(5, "süd")
    journal.truncate(3)
    journal.append(NO_OP, 5)
    journal.append(b"\x00last", 5)
    journal.sync()
    assert path.read_bytes() == (GOLDEN / "raft-v1.journal").read_bytes()
    journal.compact(3)
    journal.close()
    assert path.read_bytes() == (GOLDEN / "raft-v1-compacted.journal").read_bytes()


def test_the_golden_snapshot_still_reads() -> None:
    golden = (GOLDEN / "raft-v1.snapshot").read_bytes()
    snapshot = Snapshot(2**40, 5, b"a machine's state, " * 9)
    assert decode_snapshot(golden) == snapshot
    # How zlib deflates is its own affair; what is around that is not.
    written = encode_snapshot(snapshot)
    assert decode_snapshot(written) == snapshot
    assert (written[:10], written[14:38]) == (golden[:10], golden[14:38])
