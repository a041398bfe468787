"""How a follower takes entries: against a naive model, for arbitrary pairs of logs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.core.errors import NodeFailure
from fedq.shell.raft.journal import RaftJournal
from fedq.shell.raft.replication import (
    FRAMES_UNDER_WAY_MAX,
    Follower,
    batches,
    next_batch,
    take_entries,
)
from fedq.shell.raft.timing import RaftTiming
from fedq.shell.raft.wire import PAYLOAD_BYTES_MAX, Append, LogEntry
from tests.examples import examples


@contextmanager
def journal_in(folder: Path) -> Iterator[RaftJournal]:
    """An empty journal; its file is closed whatever happens, since Hypothesis drops examples."""
    journal = RaftJournal.open(folder / "raft.journal")
    try:
        yield journal
    finally:
        journal.abandon()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[RaftJournal]:
    with journal_in(tmp_path) as journal:
        yield journal


def command(index: int, term: int) -> bytes:
    return b"\x00%d/%d" % (index, term)


@st.composite
def two_logs(draw: st.DrawFn) -> tuple[int, list[int], list[int]]:
    """The length of a common beginning, and the terms of two logs that share only that.

    As Raft makes them (log matching): after they part, no term is in both.
    """
    shared = sorted(draw(st.lists(st.integers(1, 4), max_size=8)))
    least = shared[-1] if shared else 1
    own = draw(st.lists(st.sampled_from([least, least + 2, least + 4]), max_size=6))
    leading = draw(st.lists(st.sampled_from([least + 1, least + 3, least + 5]), max_size=6))
    common = 1 + len(shared)
    return common, [0, *shared, *sorted(own)], [0, *shared, *sorted(leading)]


@settings(max_examples=examples(80), deadline=None)
@given(two_logs(), st.integers(0, 12), st.data())
def test_a_follower_ends_with_the_leader_s_log_and_loses_nothing_common(
    tmp_path_factory: pytest.TempPathFactory,
    logs: tuple[int, list[int], list[int]],
    chunk: int,
    data: st.DataObject,
) -> None:
    common, own, terms = logs
    committed = data.draw(st.integers(1, common))
    with journal_in(tmp_path_factory.mktemp("raft")) as journal:
        for term in own[1:]:
            journal.append(command(journal.last_index + 1, term), term)
        # Like the leader: optimistic first, then wherever the follower says.
        following, shortest = len(terms) + 1, journal.last_index
        for _ in range(40):
            entries = [
                LogEntry(terms[index - 1], command(index, terms[index - 1]))
                for index in range(following, min(following + 1 + chunk, len(terms) + 1))
            ]
            append = Append(9, 0, 0, following - 1, terms[following - 2], entries)
            taken = take_entries(journal, committed, append)
            shortest = min(shortest, journal.last_index)
            assert taken.next_index > committed
            following = taken.next_index
            if taken.success and following == len(terms) + 1:
                break
        assert taken.success
        assert [entry.term for entry in journal[: len(terms)]] == terms
        assert shortest >= common, "an entry was removed without a conflict"
        assert journal.truncations <= 1


def test_late_and_repeated_entries_remove_nothing(journal: RaftJournal) -> None:
    entries = [LogEntry(1, command(index, 1)) for index in range(2, 12)]
    take_entries(journal, 1, Append(1, 0, 0, 1, 0, entries))
    for count in range(10):
        taken = take_entries(journal, 1, Append(1, 0, 0, 1, 0, entries[:count]))
        assert taken == (count + 2, True)
    assert journal.last_index == 11
    assert journal.truncations == 0


def test_a_leader_that_contradicts_a_committed_entry_is_fatal(journal: RaftJournal) -> None:
    for index in range(2, 6):
        journal.append(command(index, 1), 1)
    with pytest.raises(NodeFailure, match="differs at entry 4, which is committed here"):
        take_entries(journal, 4, Append(2, 0, 0, 3, 1, [LogEntry(2, b"\x00other")]))
    with pytest.raises(NodeFailure, match="differs at entry 3"):
        take_entries(journal, 4, Append(2, 0, 0, 3, 2, []))
    assert journal.last_index == 5


def test_a_batch_fills_a_frame_and_no_more(journal: RaftJournal) -> None:
    for _ in range(10):
        journal.append(b"\x00" + bytes(20_000), 1)
    batch = next_batch(journal, 2)
    assert len(batch) == 3
    assert sum(len(entry.command) for entry in batch) <= PAYLOAD_BYTES_MAX
    assert next_batch(journal, 11) == [LogEntry(1, b"\x00" + bytes(20_000))]
    assert next_batch(journal, 12) == []


@given(st.lists(st.integers(1, 49_152).map(bytes), max_size=20))
def test_forwarded_commands_keep_their_order_in_frames_that_fit(commands: list[bytes]) -> None:
    pieces = list(batches(commands))
    assert [command for piece in pieces for command in piece] == commands
    assert all(pieces)
    assert all(sum(map(len, piece)) <= PAYLOAD_BYTES_MAX for piece in pieces)


def test_a_leader_stops_sending_until_it_is_answered() -> None:
    follower = Follower()
    numbers = [follower.next_number() for _ in range(FRAMES_UNDER_WAY_MAX)]
    assert not follower.has_room
    assert follower.on_ack(numbers[0])
    assert follower.has_room


def test_answers_that_were_lost_do_not_narrow_the_window() -> None:
    follower = Follower()
    numbers = [follower.next_number() for _ in range(FRAMES_UNDER_WAY_MAX)]
    assert follower.on_ack(numbers[-1])
    for _ in range(FRAMES_UNDER_WAY_MAX):
        assert follower.has_room
        follower.next_number()


def test_answers_from_before_a_restart_and_to_nothing_count_no_more() -> None:
    follower = Follower()
    old = [follower.next_number() for _ in range(3)]
    assert follower.on_ack(old[0])
    follower.restart()
    new = follower.next_number()
    assert [follower.on_ack(number) for number in (*old, new, new + 1)] == [
        False, False, False, True, False,
    ]  # fmt: skip


def test_a_snapshot_that_is_never_answered_is_sent_again() -> None:
    follower = Follower()
    made = 0

    def encode() -> bytes:
        nonlocal made
        made += 1
        return b"snapshot"

    chunk = follower.next_chunk(1, encode)
    assert chunk is not None
    assert follower.next_chunk(1, encode) is None
    assert follower.on_ack(chunk.number)
    assert follower.next_chunk(1, encode) is None
    assert follower.on_ack(follower.next_number())
    assert follower.next_chunk(1, encode) is not None
    assert made == 2


@pytest.mark.parametrize(
    ("heartbeat_ms", "election_min_ms", "election_max_ms", "majority_lost_ms"),
    [(100, 300, 500, 1_000), (100, 500, 500, 1_000), (0, 500, 600, 1_000), (100, 500, 600, 100)],
)
def test_times_that_cannot_work_together_are_refused(
    heartbeat_ms: int, election_min_ms: int, election_max_ms: int, majority_lost_ms: int
) -> None:
    with pytest.raises(ValueError, match="heartbeat_ms="):
        RaftTiming(
            heartbeat_ms=heartbeat_ms,
            election_min_ms=election_min_ms,
            election_max_ms=election_max_ms,
            majority_lost_ms=majority_lost_ms,
        )
