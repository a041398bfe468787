"""Snapshots: whole or refused, on disk and in chunks."""

import random
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.core.ids import NodeId
from fedq.shell.raft.journal import RaftJournal, RaftStorageError
from fedq.shell.raft.snapshot import (
    Snapshot,
    SnapshotError,
    SnapshotFile,
    SnapshotReceiver,
    SnapshotSender,
    decode_snapshot,
    encode_snapshot,
)
from fedq.shell.raft.storage import RaftStorage
from fedq.shell.raft.voters import VoterSet
from fedq.shell.raft.wire import SnapshotChunk

SMALL = Snapshot(7, 2, b"the map")


@given(st.integers(1, 2**63), st.integers(0, 2**63), st.binary(max_size=300))
def test_a_snapshot_survives_its_encoding(number: int, term: int, data: bytes) -> None:
    snapshot = Snapshot(number, term, data)
    assert decode_snapshot(encode_snapshot(snapshot)) == snapshot


@given(st.integers(2, 2**63), st.sets(st.text(min_size=1, max_size=9), min_size=1, max_size=5))
def test_the_voters_survive_its_encoding(number: int, names: set[str]) -> None:
    voters = VoterSet(number, tuple(NodeId(name) for name in sorted(names)))
    snapshot = Snapshot(number, 3, b"the map", voters)
    assert decode_snapshot(encode_snapshot(snapshot)) == snapshot


@pytest.mark.parametrize("fields", [b"", bytes(9), struct.pack(">QH", 2, 3) + b"\x02\x00",
    struct.pack(">QH", 2, 900) + b"\x02\x01\x01a", struct.pack(">QH", 8, 4) + b"\x02\x01\x01a",
    struct.pack(">QH", 1, 4) + b"\x02\x01\x01a"])  # fmt: skip
def test_voters_that_make_no_sense_are_refused(fields: bytes) -> None:
    body = struct.pack(">QQQ", 7, 7, 2) + fields
    if len(fields) > 11:
        body += zlib.compress(b"the map")
    forged = struct.pack(">8sHI", b"FEDQSNAP", 2, zlib.crc32(body)) + body
    with pytest.raises(SnapshotError, match="voters"):
        decode_snapshot(forged)


def test_the_format_is_frozen() -> None:
    encoded = encode_snapshot(SMALL)
    assert encoded[:10] == b"FEDQSNAP\x00\x01"
    assert encoded[14:38] == struct.pack(">QQQ", 7, 7, 2)
    assert zlib.decompress(encoded[38:]) == b"the map"


NAMING = SMALL._replace(voters=VoterSet(7, (NodeId("n1"), NodeId("n2"))))


@pytest.mark.parametrize(
    ("snapshot", "at"),
    [(each, at) for each in (SMALL, NAMING) for at in range(len(encode_snapshot(each)))],
)
def test_any_changed_or_missing_byte_is_noticed(snapshot: Snapshot, at: int) -> None:
    encoded = encode_snapshot(snapshot)
    with pytest.raises(SnapshotError):
        decode_snapshot(encoded[:at] + bytes([encoded[at] ^ 1]) + encoded[at + 1 :])
    with pytest.raises(SnapshotError):
        decode_snapshot(encoded[:at])


def test_data_that_inflates_beyond_what_it_says_is_refused() -> None:
    body = struct.pack(">QQQ", 10, 7, 2) + zlib.compress(bytes(1_000_000))
    forged = struct.pack(">8sHI", b"FEDQSNAP", 1, zlib.crc32(body)) + body
    with pytest.raises(SnapshotError, match="another size than it says"):
        decode_snapshot(forged)


def test_a_damaged_file_refuses_and_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "raft.snapshot"
    file = SnapshotFile(path)
    assert file.load() is None
    file.prepare(encode_snapshot(SMALL))
    assert file.load() is None
    file.take_prepared()
    assert file.load() == SMALL
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(RaftStorageError, match=r"raft\.snapshot cannot be used: its checksum"):
        file.load()


def chunks_of(encoded: bytes, term: int = 3) -> list[SnapshotChunk]:
    sender = SnapshotSender(encoded)
    chunks: list[SnapshotChunk] = []
    while (chunk := sender.next_chunk(term, len(chunks) + 1)) is not None:
        chunks.append(chunk)
    return chunks


def test_chunks_add_up() -> None:
    encoded = encode_snapshot(Snapshot(9, 3, random.Random(1).randbytes(200_000)))
    chunks = chunks_of(encoded)
    assert len(chunks) == 4
    receiver = SnapshotReceiver()
    assert [receiver.take("n1", chunk) for chunk in chunks] == [None, None, None, encoded]


def test_a_gap_another_leader_or_another_term_begins_again() -> None:
    encoded = encode_snapshot(Snapshot(9, 3, random.Random(1).randbytes(200_000)))
    chunks = chunks_of(encoded)
    receiver = SnapshotReceiver()
    for leader, chunk in (("n1", chunks[2]), ("n2", chunks[1]), ("n1", chunks_of(encoded, 4)[1])):
        receiver.take("n1", chunks[0])
        with pytest.raises(SnapshotError, match="does not follow"):
            receiver.take(leader, chunk)
        with pytest.raises(SnapshotError, match="does not follow"):
            receiver.take("n1", chunks[1])
    assert [receiver.take("n1", chunk) for chunk in chunks][-1] == encoded


# --- journal and snapshot together ---------------------------------------------------------------


def stored(directory: Path, count: int) -> RaftStorage:
    storage = RaftStorage.open(directory)
    for number in range(count):
        storage.journal.append(b"\x00command %d" % number, 1)
    storage.journal.sync()
    return storage


def test_a_crash_between_snapshot_and_compaction_keeps_what_follows(tmp_path: Path) -> None:
    directory = tmp_path / "raft"
    storage = stored(directory, 20)
    before = storage.journal[:]
    file = SnapshotFile(directory / "raft.snapshot")
    file.prepare(encode_snapshot(Snapshot(11, 1, b"map")))
    file.take_prepared()
    storage.journal.abandon()
    storage = RaftStorage.open(directory)
    assert storage.restored == Snapshot(11, 1, b"map")
    assert storage.journal[:] == before[10:]
    storage.journal.close()


@pytest.mark.parametrize(("number", "term"), [(500, 4), (11, 4)])
def test_a_leader_s_snapshot_voids_entries_that_do_not_lead_to_it(
    tmp_path: Path, number: int, term: int
) -> None:
    directory = tmp_path / "raft"
    storage = stored(directory, 20)
    snapshot = Snapshot(number, term, b"map")
    storage.prepare(encode_snapshot(snapshot))
    storage.install(number, term, None)
    assert [(entry.number, entry.term) for entry in storage.journal[:]] == [(number, term)]
    storage.journal.abandon()
    storage = RaftStorage.open(directory)
    assert storage.restored == snapshot
    assert storage.journal.last_index == number
    storage.journal.close()


def test_a_journal_alone_or_a_snapshot_alone_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "raft"
    storage = stored(directory, 20)
    storage.stage(11, 1, lambda: [b"m", b"ap"])
    assert storage.sync(has_written=False, compact_to=11) is None
    storage.journal.use_compacted()
    assert storage.encoded_snapshot() == encode_snapshot(Snapshot(11, 1, b"map"))
    storage.journal.close()
    journal, snapshot = directory / "raft.journal", directory / "raft.snapshot"
    kept = snapshot.read_bytes()
    snapshot.write_bytes(encode_snapshot(Snapshot(5, 1, b"older")))
    with pytest.raises(RaftStorageError, match="ends with entry 5, the journal begins with 11"):
        RaftStorage.open(directory)
    snapshot.write_bytes(kept)
    RaftJournal.open(journal).close()
    journal.unlink()
    with pytest.raises(RaftStorageError, match="and with it this node's vote"):
        RaftStorage.open(directory)
