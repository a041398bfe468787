"""The Raft journal on real files: what was synced stays, what was not may go, damage is told."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.shell.raft.journal import FIRST_ENTRY, Entry, RaftJournal, RaftStorageError
from fedq.shell.raft.wire import NO_OP
from tests.examples import examples


def entries_of(journal: RaftJournal) -> list[Entry]:
    return journal[:]


def command(number: int) -> bytes:
    return b"\x00command %d" % number


def filled(path: Path, count: int) -> RaftJournal:
    journal = RaftJournal.open(path)
    for number in range(count):
        journal.append(command(number), 1)
    journal.sync()
    return journal


operations = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.binary(min_size=1, max_size=30)),
        st.tuples(st.just("truncate"), st.integers(0, 100)),
        st.tuples(st.just("term"), st.sampled_from([None, "n1", "näh"])),
        st.tuples(st.just("compact"), st.integers(0, 100)),
        st.tuples(st.just("restart"), st.integers(1, 100)),
        st.tuples(st.just("sync"), st.none()),
        st.tuples(st.just("reopen"), st.none()),
        st.tuples(st.just("crash"), st.none()),
    ),
    max_size=40,
)


class Model:
    """What a journal is: a list, a term and a vote; and what of it was last synced."""

    def __init__(self) -> None:
        self.entries = [FIRST_ENTRY]
        self.term = 0
        self.vote: str | None = None
        self.safe: tuple[list[Entry], int, str | None] = (self.entries[:], 0, None)

    def sync(self) -> None:
        self.safe = (self.entries[:], self.term, self.vote)

    def crash(self) -> None:
        self.entries, self.term, self.vote = self.safe[0][:], self.safe[1], self.safe[2]


@settings(max_examples=examples(40), deadline=None)
@given(operations)
def test_a_journal_is_a_list_that_survives(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, object]]
) -> None:
    path = tmp_path_factory.mktemp("raft") / "raft.journal"
    journal, model = RaftJournal.open(path), Model()
    for step, value in steps:
        first, last = model.entries[0].number, model.entries[-1].number
        match step, value:
            case "append", bytes(body):
                term = max(model.term, model.entries[-1].term)
                journal.append(b"\x00" + body, term)
                model.entries.append(Entry(b"\x00" + body, last + 1, term))
            case "truncate", int(place) if last > first:
                index = first + 1 + place % (last - first)
                journal.truncate(index)
                del model.entries[index - first :]
            case "term", None | str() as vote:
                model.term, model.vote = model.term + 1, vote
                journal.set_term(model.term, vote)
            case "compact", int(place):
                index = first + place % (last - first + 1)
                journal.compact(index)
                del model.entries[: index - first]
                model.sync()
            case "restart", int(number):
                journal.restart_at(last + number, model.term)
                model.entries = [Entry(NO_OP, last + number, model.term)]
                model.sync()
            case "sync", _:
                journal.sync()
                model.sync()
            case "reopen", _:
                journal.close()
                model.sync()
                journal = RaftJournal.open(path)
            case "crash", _:
                journal.abandon()
                model.crash()
                journal = RaftJournal.open(path)
        assert entries_of(journal) == model.entries
        assert (journal.term, journal.vote) == (model.term, model.vote)
        assert len(journal) == len(model.entries)
        assert journal.last_index == model.entries[-1].number
    journal.abandon()


def test_cut_anywhere_in_its_last_write_only_that_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "raft.journal"
    journal = filled(path, 5)
    before = path.stat().st_size
    journal.append(command(5), 1)
    journal.append(command(6), 1)
    journal.close()
    whole = path.read_bytes()
    for size in range(before, len(whole)):
        path.write_bytes(whole[:size])
        journal = RaftJournal.open(path)
        kept = len(journal) - 1
        assert kept in (5, 6)
        assert [entry.command for entry in journal[1:]] == [command(n) for n in range(kept)]
        journal.append(b"\x00next", 1)
        journal.close()
        journal = RaftJournal.open(path)
        assert journal[-1] == Entry(b"\x00next", kept + 2, 1)
        journal.close()


def test_a_hole_in_what_was_never_synced_is_cut_with_all_behind_it(tmp_path: Path) -> None:
    path = tmp_path / "raft.journal"
    journal = filled(path, 3)
    before = path.stat().st_size
    for number in range(3, 9):
        journal.append(command(number), 1)
    journal.close()
    # One write, one sync: a power cut may have kept its second page and not the first.
    whole = bytearray(path.read_bytes())
    whole[before + 5] ^= 0xFF
    path.write_bytes(whole)
    journal = RaftJournal.open(path)
    assert [entry.command for entry in journal[1:]] == [command(n) for n in range(3)]
    journal.close()
    assert path.stat().st_size == before


def test_damage_in_what_was_synced_refuses_with_the_place_and_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "raft.journal"
    journal = filled(path, 3)
    journal.append(command(3), 1)
    journal.close()
    whole = path.read_bytes()
    end = whole.index(command(2)) + len(command(2))
    for at in range(end):
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        path.write_bytes(damaged)
        with pytest.raises(RaftStorageError) as refusal:
            RaftJournal.open(path)
        assert str(path) in str(refusal.value)
    assert "damaged at byte" in str(refusal.value)
    assert "delete this Raft directory" in str(refusal.value)


def test_a_newer_format_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "raft.journal"
    filled(path, 1).close()
    newer = path.read_bytes().replace(b"FEDQRAFT\x00\x01", b"FEDQRAFT\x00\x02")
    path.write_bytes(newer)
    with pytest.raises(RaftStorageError, match="start the version of fedq that wrote it"):
        RaftJournal.open(path)
    assert path.read_bytes() == newer


def test_what_is_left_of_a_compaction_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "raft.journal"
    filled(path, 3).close()
    path.with_name("raft.journal.new").write_bytes(b"half a file")
    journal = RaftJournal.open(path)
    journal.compact(2)
    assert [entry.number for entry in journal[:]] == [2, 3, 4]
    journal.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["raft.journal"]


def test_compaction_shrinks_the_file_and_keeps_term_and_vote(tmp_path: Path) -> None:
    path = tmp_path / "raft.journal"
    journal = filled(path, 500)
    journal.set_term(9, "n2")
    journal.compact(500)
    assert journal.size_bytes == path.stat().st_size < 200
    journal.close()
    journal = RaftJournal.open(path)
    assert (journal.term, journal.vote, journal.first_index) == (9, "n2", 500)
    assert journal.since(501, 10) == [Entry(command(499), 501, 1)]
    journal.close()


def test_the_format_is_frozen(tmp_path: Path) -> None:
    path = tmp_path / "raft.journal"
    journal = RaftJournal.open(path)
    journal.set_term(2, "n1")
    journal.append(b"\x00hi", 2)
    journal.truncate(2)
    journal.close()
    assert path.read_bytes().hex() == "".join(
        (
            "46454451524146540001",
            "f5526aa100000009f03b49f2000000000000000a020000000000000000",
            "f5526aa1000000125b9318c50000000000000027000000000000000001000000000000000001",
            "f5526aa10000000b858c54cd000000000000004d0200000000000000026e31",
            "f5526aa1000000140338da0c000000000000004d0000000000000000020000000000000002006869",
            "f5526aa1000000095bde08c2000000000000004d010000000000000002",
        )
    )
