"""From written to safe: what a disk's syncs mean, and when a copy counts."""

from typing import NamedTuple

from fedq.core.ids import FragmentId, NodeId
from fedq.core.peer_messages import CopyChunk, CopyStart, ReplicaAck, Replicate
from fedq.core.ranges import to_ranges
from fedq.core.work import Work
from fedq.journal.decoding import decode, tracked
from fedq.journal.events import Copy, Note
from fedq.journal.records import NOTE_DEAD, NOTE_DUE, NOTE_RETURNS
from fedq.replication.backup import BackupReplication
from fedq.replication.durable import DurableMark
from fedq.replication.primary import PrimaryReplication
from fedq.replication.progress import STREAMING
from tests.unit.journal.samples import bodies
from tests.unit.replication.held import Held

ONE = FragmentId(1)
PRIMARY, BEN = NodeId("ann"), NodeId("ben")


class Record(NamedTuple):
    """What a primary has to replicate."""

    last: int
    data: bytes


# --- the disk ------------------------------------------------------------------------------------


def test_what_needs_no_disk_is_safe_at_once() -> None:
    mark = DurableMark(0)
    mark.advance(3, 0)
    assert mark.safe == 3


def test_what_needs_no_disk_waits_for_what_was_before_it() -> None:
    mark = DurableMark(0)
    mark.advance(1, 7)
    mark.advance(2, 0)
    assert mark.safe == 0
    mark.on_synced(6)
    assert mark.safe == 0
    mark.on_synced(7)
    assert mark.safe == 2


def test_one_sync_may_cover_many_chunks() -> None:
    mark = DurableMark(0)
    for number in range(1, 5):
        mark.advance(number, number)
    mark.on_synced(3)
    assert mark.safe == 3


# --- the backup ----------------------------------------------------------------------------------


def backup() -> BackupReplication:
    return BackupReplication(ONE, 2, PRIMARY, 100, created=False)


def test_a_backup_says_nothing_before_its_copy_begins() -> None:
    made = backup()
    made.advance(0)
    assert made.take_ack() is None
    assert not made.on_records(Replicate(ONE, 2, 100, 101, b""))


def test_a_backup_acknowledges_what_is_on_its_disk() -> None:
    made = backup()
    assert made.on_start(CopyStart(ONE, 2, 0, 105, [], b""))
    assert made.on_chunk(CopyChunk(ONE, 2, 1, True, b""))
    made.advance(9)
    assert made.take_ack() is None
    made.on_synced(9)
    assert made.take_ack() == ReplicaAck(ONE, 2, 105, 1)
    assert made.take_ack() is None, "once"


def test_messages_of_another_reign_are_stale() -> None:
    made = backup()
    assert not made.on_start(CopyStart(ONE, 1, 0, 105, [], b""))
    assert made.on_start(CopyStart(ONE, 2, 0, 105, [], b""))
    assert not made.on_chunk(CopyChunk(ONE, 1, 1, True, b""))
    assert not made.on_records(Replicate(ONE, 1, 105, 106, b""))


def test_the_start_of_an_earlier_copy_is_not_taken_for_this_one() -> None:
    made = backup()
    made.copy = 2
    assert not made.on_start(CopyStart(ONE, 2, 1, 105, [], b""))
    assert made.on_start(CopyStart(ONE, 2, 2, 106, [], b""))


# --- the primary ---------------------------------------------------------------------------------


def primary(in_sync: list[NodeId]) -> PrimaryReplication:
    made = PrimaryReplication(ONE, 2, 100)
    made.set_copies([BEN], in_sync, 1, 100, False, 0)
    return made


def test_a_new_primary_commits_nothing_before_its_in_sync_backup_has_spoken() -> None:
    made = primary([BEN])
    made.on_local(101)
    assert made.commit == 99
    made.on_offer(BEN, 1, [], [], {}, {}, 101, 0)
    made.pump_copies(Held(), {}, 0, Work(1_000))
    made.on_ack(BEN, 101, 1, 0)
    assert made.commit == 101


def test_a_copy_counts_only_when_its_last_chunk_is_there() -> None:
    """It may have acknowledged every new record before: those say nothing of the old messages."""
    made = primary([])
    messages = dict(enumerate(bodies("a", "b", "c"), 1))
    made.on_offer(BEN, 1, [], to_ranges(messages), {}, {}, 100, 0)
    made.pump_copies(Held(messages), {}, 0, Work(1_000))
    made.on_ack(BEN, 100, 0, 0)
    assert made.may_join() == []
    made.on_ack(BEN, 100, 1, 0)
    assert made.may_join() == [BEN]
    assert made.backups[BEN].state == STREAMING


def test_whoever_joins_is_waited_for_from_the_proposal_on() -> None:
    made = primary([])
    made.on_offer(BEN, 1, [], [], {}, {}, 100, 0)
    made.pump_copies(Held(), {}, 0, Work(1_000))
    made.on_ack(BEN, 100, 1, 0)
    made.propose_joining(BEN)
    made.on_local(105)
    assert made.commit == 100
    made.set_copies([BEN], [], 2, 105, False, 0)
    assert made.commit == 105, "another epoch voids the proposal"


def test_a_copy_joins_however_fast_events_follow_on_each_other() -> None:
    """Each acknowledgement comes when the primary, whose own disk is faster, is two events on."""
    made = primary([])
    made.on_offer(BEN, 1, [], [], {}, {}, 100, 0)
    made.pump_copies(Held(), {}, 0, Work(1_000))
    events = range(101, 131)
    joined = []
    for event in events:
        now_ms = event - 100
        made.on_records([Record(event, b"")], now_ms)
        made.on_local(event)
        made.on_ack(BEN, event - 2, 1, now_ms)
        joined += [event for _ in made.may_join()]
    assert joined, "it is proposed"
    made.propose_joining(BEN)
    assert made.commit == events[-1] - 2, "from then on it has all that is committed"


def test_a_copy_far_behind_is_not_waited_for() -> None:
    made = primary([])
    made.on_offer(BEN, 1, [], [], {}, {}, 100, 0)
    made.pump_copies(Held(), {}, 0, Work(1_000))
    for event in range(101, 131):
        now_ms = (event - 100) * 1_000
        made.on_local(event)
        made.on_ack(BEN, event - 2, 1, now_ms)
        assert made.commit == event
        assert made.may_join() == []


def test_a_copy_that_was_waited_for_and_says_no_more_stalls() -> None:
    made = primary([])
    made.on_offer(BEN, 1, [], [], {}, {}, 100, 0)
    made.pump_copies(Held(), {}, 0, Work(1_000))
    made.on_ack(BEN, 100, 1, 10)
    made.on_ack(BEN, 100, 1, 20)
    made.on_records([Record(101, b"")], 20)
    made.on_local(101)
    assert made.commit == 100
    assert made.stalled(2_000, 1_500) == [BEN]
    made.reset(BEN, 2_000)
    made.on_local(102)
    assert made.commit == 102


def test_a_backup_that_owes_nothing_never_stalls() -> None:
    made = primary([])
    made.on_offer(BEN, 1, [], [], {}, {}, 100, 0)
    made.pump_copies(Held(), {}, 0, Work(1_000))
    made.on_ack(BEN, 100, 1, 0)
    made.set_copies([BEN], [BEN], 2, 100, False, 0)
    assert made.stalled(1_000_000, 1_500) == []


def test_a_backup_that_has_a_message_is_told_what_may_have_changed_about_it() -> None:
    made = primary([])
    messages = dict(enumerate(bodies("a", "b", "c", "d"), 1))
    notes = {NOTE_RETURNS: {1: 3, 4: 1}, NOTE_DEAD: {2: 1}, NOTE_DUE: {2: 9, 3: 9, 4: 9}}
    made.on_offer(BEN, 1, [(1, 3)], to_ranges(messages), notes, {}, 100, 0)
    # Meanwhile the first one is dead, too, and the second one is gone.
    del messages[2]
    notes = {NOTE_RETURNS: {1: 3, 4: 1}, NOTE_DEAD: {1: 1}, NOTE_DUE: {3: 9, 4: 9}}
    made.pump_copies(Held(messages), notes, 0, Work(1_000))
    _, chunk = made.sends[BEN]
    assert isinstance(chunk, CopyChunk)
    records = list(tracked(decode(chunk.records)))
    assert records == [
        Copy(ONE, 2, [4], bodies("d"), {}),
        Note(ONE, 2, 0, NOTE_RETURNS, {4: 1, 1: 3}),
        Note(ONE, 2, 0, NOTE_DEAD, {1: 1}),
        Note(ONE, 2, 0, NOTE_DUE, {4: 9}),
    ], "when the third one is due came with it"
