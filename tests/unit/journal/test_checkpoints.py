"""Checkpoints on disk: what counts of them, whatever is torn, rotten or missing around them."""

import pytest

from fedq.core import limits
from fedq.core.ids import FragmentId
from fedq.core.ranges import join_ranges
from fedq.fragments.replica import Replica
from fedq.fragments.upkeep.alive import in_replica
from fedq.journal.checkpoints import newest_checkpoint
from fedq.journal.decoding import decode
from fedq.journal.events import Checkpoint, Copy, Enqueue, Live, Note, Record, Settle, Standing
from fedq.journal.marks import Mark, encode_mark, mark_bytes
from fedq.journal.records import (
    NOTE_RETURNS,
    encode_checkpoint,
    encode_enqueue,
    encode_live,
    encode_standing,
)
from fedq.journal.recovery import CorruptJournal, mended, recover, salvage
from fedq.journal.segments import SegmentPlan
from tests.unit.journal.samples import NORTH, ONE, SOUTH, TWO, bodies, encode_all, message

END = Checkpoint(FragmentId(0), 0, 5)
#: Before the checkpoint: two segments of the three that there were.
OLD: dict[int, list[Record]] = {
    1: [Enqueue(ONE, 1, 1, NORTH, 1, False, bodies("a", "b", "c"))],
    3: [
        Enqueue(TWO, 1, 11, SOUTH, 1, False, bodies("x", "y")),
        Settle(ONE, 1, 4, [(1, 1)]),
    ],
}
#: It begins here; between its records others go on.
NEW: list[Record] = [
    Settle(ONE, 1, 5, [(3, 3)]),
    Standing(ONE, 1, 5, 5, True, {NORTH: 3}),
    Enqueue(TWO, 1, 13, SOUTH, 3, False, bodies("z")),
    Live(ONE, 1, 5, [(2, 2)]),
    Note(ONE, 1, 5, NOTE_RETURNS, {2: 7}),
    Standing(TWO, 1, 5, 13, False, {SOUTH: 3}),
    Settle(TWO, 1, 14, [(11, 11)]),
    Live(TWO, 1, 5, [(12, 13)]),
    END,
]
AFTER: list[Record] = [
    # What is moved may be dead by the time it is read.
    Copy(ONE, 1, [2], bodies("b"), {}),
    Settle(TWO, 1, 15, [(13, 13)]),
]


def segments(*, after: list[Record] = AFTER) -> dict[int, bytes]:
    old = {number: encode_all(records) for number, records in OLD.items()}
    return {**old, 5: encode_all([*NEW, *after])}


def alive(found: dict[int, bytes]) -> dict[FragmentId, list[int]]:
    return {identity: list(f.messages) for identity, f in recover(found).fragments.items()}


def test_what_it_says_is_what_counts_and_bodies_are_found() -> None:
    recovered = recover(segments(after=[]))
    assert recovered.checkpoint == 5
    one, two = recovered.fragments[ONE], recovered.fragments[TWO]
    assert one.messages == {2: message("b")}
    assert (one.last, one.whole, one.origins) == (5, True, {NORTH: 3})
    assert one.notes == {NOTE_RETURNS: {2: 7}}
    assert two.messages == {12: message("y"), 13: message("z")}
    assert not two.whole
    sizes = [(each.number, each.live_bytes) for each in recovered.segments]
    assert sizes == [(1, len(message("b"))), (3, len(message("y"))), (5, 0)]


def test_what_follows_is_told_as_ever() -> None:
    assert alive(segments()) == {ONE: [2], TWO: [12]}


def test_a_segment_whose_messages_were_moved_is_not_missed() -> None:
    found = segments()
    del found[1]
    assert alive(found) == {ONE: [2], TWO: [12]}


def test_torn_anywhere_it_is_this_one_or_none() -> None:
    """With what older ones need still there, each prefix says what had happened by then."""
    whole = {1: encode_all(OLD[1]), 2: b"", 3: encode_all(OLD[3]), 4: b""}
    done: list[Record] = []
    for record in [*NEW, *AFTER]:
        before = encode_all(done)
        done.append(record)
        expected = alive({**whole, 5: before})
        for size in range(len(before), len(encode_all(done))):
            assert alive({**whole, 5: encode_all(done)[:size]}) == expected


def test_of_one_that_was_not_completed_nothing_counts() -> None:
    later: list[Record] = [
        Standing(ONE, 1, 6, 99, False, {NORTH: 99}),
        Live(ONE, 1, 6, [(70, 80)]),
        Live(TWO, 1, 4, [(90, 90)]),
    ]
    recovered = recover({**segments(), 6: encode_all(later)})
    assert recovered.fragments == recover(segments()).fragments


def test_a_body_that_is_in_no_segment_is_damage_and_the_rest_is_there() -> None:
    found = segments(after=[])
    del found[1]
    with pytest.raises(CorruptJournal, match="1 messages are in no segment that can be read"):
        recover(found)
    salvaged = salvage(found)
    assert [list(f.messages) for f in salvaged.fragments.values()] == [[], [12, 13]]
    assert not salvaged.fragments[ONE].whole
    assert salvaged.fragments[ONE].notes == {}


def test_rot_in_what_is_dead_costs_nothing() -> None:
    found = segments()
    data = bytearray(found[3])
    data[-1] ^= 1
    found[3] = bytes(data)
    recovered = recover(found)
    assert {n: list(f.messages) for n, f in recovered.fragments.items()} == {ONE: [2], TWO: [12]}
    (rotten,) = recovered.rotten
    assert rotten.segment == 3


def test_rot_in_what_is_alive_names_its_place_and_is_mended() -> None:
    found = segments()
    data = bytearray(found[3])
    data[60] ^= 1
    found[3] = bytes(data)
    salvaged = salvage(found)
    (damage,) = salvaged.damages
    assert (damage.segment, damage.first) == (3, 0)
    assert "1 messages" in damage.reason
    assert not salvaged.fragments[TWO].whole
    assert salvaged.fragments[ONE].whole
    # Its size is that of the file which is left of it, for who reads all of that.
    left = mended(found[3], [damage])
    assert [each.size for each in salvaged.segments if each.number == 3] == [len(left)]
    # What is mended is not found again, though it is still called alive.
    again = salvage({**found, 3: mended(found[3], [damage])})
    assert list(again.fragments[TWO].messages) == []


def test_without_a_checkpoint_no_record_of_one_counts() -> None:
    leftovers: list[Record] = [Standing(ONE, 1, 0, 9, True, {}), Live(ONE, 1, 0, [(5, 5)])]
    assert recover({1: encode_all(leftovers)}).fragments == {}


def test_one_that_wrote_nothing_leaves_no_gap_where_it_began() -> None:
    plan = SegmentPlan(nonce=NONCE)
    assert plan.begin_checkpoint() == 1
    plan.give_up_checkpoint()
    assert plan.begin_checkpoint() == 1
    plan.append_checkpoint(ONE, encode_standing(Standing(ONE, 1, 1, 9, True, {})))
    plan.give_up_checkpoint()
    assert plan.begin_checkpoint() == 2
    plan.end_checkpoint()
    assert list(dict.fromkeys(chunk.segment for chunk in plan.take())) == [1, 2]


def test_bytes_of_one_within_a_message_are_none() -> None:
    """Nor behind damage that seems to lead there: reading goes on with a mark of the process."""
    forged = message(encode_checkpoint(9).decode("latin-1"))
    lying = Enqueue(ONE, 1, 1, NORTH, 1, False, [forged])
    assert newest_checkpoint({1: encode_all([lying])}) == 0
    damaged = bytearray(encode_mark(Mark(7, 1, 0)) + encode_all([lying]))
    damaged[60] ^= 1
    data = bytes(damaged) + encode_mark(Mark(7, 1, 999)) + encode_all([END])
    assert newest_checkpoint({1: data}) == 5
    assert newest_checkpoint({1: bytes(damaged) + encode_mark(Mark(8, 1, 999))}) == 0


# --- what a review found -------------------------------------------------------------------------

NONCE = 77
LAST = Checkpoint(FragmentId(0), 0, 2)


def test_a_checkpoint_behind_a_torn_tail_does_not_count() -> None:
    """Of what was not synced, a power cut may keep a later page and not the one before it."""
    old = mark_bytes(NONCE, 1, 0) + encode_all([Enqueue(ONE, 1, 1, NORTH, 1, False, bodies("a"))])
    synced = mark_bytes(NONCE, 2, 0) + encode_all(
        [Enqueue(ONE, 1, 2, NORTH, 2, False, bodies("b"))]
    )
    lost = encode_all([Standing(ONE, 1, 2, 2, True, {}), Live(ONE, 1, 2, [(1, 2)])])
    end = mark_bytes(NONCE, 2, len(synced)) + encode_all([LAST])
    found = recover({1: old, 2: synced + bytes(len(lost)) + end})
    assert list(found.fragments[ONE].messages) == [1, 2]


def test_what_is_mended_is_shorter_and_found_well_by_the_next_start() -> None:
    """A body that is nowhere, and a damaged record in the checkpoint's own segment."""
    parts: list[list[Record]] = [
        [Standing(ONE, 1, 2, 9, True, {}), Live(ONE, 1, 2, [(2, 2)])],
        [Enqueue(ONE, 1, 10, NORTH, 10, False, bodies("k"))],
        [Settle(ONE, 1, 11, [(10, 10)]), LAST],
    ]
    rotten = bytearray(encode_all(parts[1]))
    rotten[-1] ^= 1
    data = (
        mark_bytes(NONCE, 2, 0) + encode_all(parts[0]) + bytes(rotten)
        + mark_bytes(NONCE, 2, 1_000) + encode_all(parts[2])
    )  # fmt: skip
    found = salvage({2: data})
    assert found.damages
    again = mended(data, [each for each in found.damages if each.segment == 2])
    assert len(again) == len(data) - len(rotten)


def test_nothing_counts_of_one_that_was_given_up_at_the_same_segment() -> None:
    """Its bodies were not counted by the second one, so their segments are gone."""
    plan = SegmentPlan(bytes_max=120)
    disk: dict[int, bytes] = {}

    def end_turn() -> int:
        number = 0
        for chunk in plan.take():
            disk[chunk.segment] = disk.get(chunk.segment, b"") + chunk.data
            number = chunk.number
        return number

    plan.append(ONE, encode_enqueue(ONE, 1, 1, NORTH, 1, bodies("a" * 60)), True, 1, 1)
    plan.append(TWO, encode_enqueue(TWO, 1, 2, NORTH, 2, bodies("b" * 60)), True, 2, 2)
    plan._bytes_max = 10_000
    begun = plan.begin_checkpoint()
    # Of a copy that this node fails at while it is written.
    plan.append_checkpoint(ONE, encode_standing(Standing(ONE, 1, begun, 1, True, {})))
    plan.append_checkpoint(ONE, encode_live(ONE, 1, begun, [(1, 1)]))
    plan.give_up_checkpoint()
    end_turn()
    # As `Checkpointing` does while nothing new begins a segment, and much is dead.
    again = plan.begin_checkpoint()
    plan.append_checkpoint(TWO, encode_standing(Standing(TWO, 1, again, 2, True, {})))
    plan.append_checkpoint(TWO, encode_live(TWO, 1, again, [(2, 2)]))
    plan.found_live(TWO, [(2, 2)], 1)
    plan.end_checkpoint()
    plan.on_synced(end_turn())
    for segment in plan.dead(lambda _: None):
        del disk[segment]
    assert list(recover(disk).fragments) == [TWO]


def test_a_long_batch_is_found_alive_by_the_next_start() -> None:
    """One record of a peer may bring more messages than one LIVE may name."""
    count = limits.LIVE_RECORD_MESSAGES_MAX + 1
    replica = Replica(ONE, durable=True)
    replica.apply(encode_enqueue(ONE, 1, 1, NORTH, 1, [message("")] * count))
    for found in in_replica(replica):
        records = list(decode(encode_live(ONE, 1, 1, found.ranges)))
        named = [each for record in records if isinstance(record, Live) for each in record.ranges]
        assert join_ranges(named) == [(1, count)]
