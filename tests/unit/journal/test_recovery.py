"""Recovery: what each record does, what is cut and what is refused."""

from array import array

import pytest

from fedq.core.errors import NodeFailure
from fedq.core.ids import first_position
from fedq.core.message import FLAG_PERSISTENT, encode, make_route
from fedq.journal.events import Copy, Drop, Enqueue, Group, Keep, Note, Record, Reset, Settle
from fedq.journal.marks import Mark, encode_mark, mark_at
from fedq.journal.records import NOTE_DEAD, NOTE_EXPIRES, NOTE_RETURNS
from fedq.journal.recovered import Recovered, RecoveredFragment
from fedq.journal.recovery import CorruptJournal, mended, recover, salvage
from fedq.journal.segments import Segment, SegmentPlan
from tests.unit.journal.samples import (
    NORTH,
    ONE,
    PRIVATE,
    SOUTH,
    TWO,
    bodies,
    encode_all,
    message,
)


def replay(*records: Record) -> Recovered:
    return recover({1: encode_all(list(records))})


def test_nothing_on_disk_is_an_empty_node() -> None:
    assert recover({}) == Recovered.empty()


def test_messages_live_until_they_are_settled() -> None:
    recovered = replay(
        Enqueue(ONE, 1, 11, NORTH, 1, False, bodies("a", "b", "c", "d")),
        Enqueue(PRIVATE, 0, 1, SOUTH, 5, True, bodies("p")),
        Settle(ONE, 1, 15, [(11, 11), (13, 13)]),
    )
    assert recovered.fragments == {
        ONE: RecoveredFragment({12: message("b"), 14: message("d")}, 15, 1, {NORTH: 4}),
        PRIVATE: RecoveredFragment({1: message("p")}, 1, 0, {SOUTH: 5}),
    }


def test_transient_messages_die_with_the_process() -> None:
    mixed = [message("kept"), message("lost", persistent=False)]
    recovered = replay(Enqueue(ONE, 1, 11, NORTH, 1, False, mixed))
    assert recovered.fragments[ONE].messages == {11: mixed[0]}
    assert recovered.fragments[ONE].last == 12
    assert recovered.fragments[ONE].origins == {NORTH: 2}
    assert recovered.segments[0].highest(ONE) == 11


def test_a_copy_arrives_newest_first_and_is_put_in_order() -> None:
    recovered = replay(
        Enqueue(ONE, 1, 3, NORTH, 1, False, bodies("forgotten")),
        Reset(ONE, 2, 50),
        Enqueue(ONE, 2, 51, NORTH, 30, False, bodies("live")),
        Copy(ONE, 2, [30, 40], bodies("c", "d"), {NORTH: 29, SOUTH: 8}),
        Copy(ONE, 2, [10, 20], bodies("a", "b"), {NORTH: 29, SOUTH: 8}),
    )
    fragment = recovered.fragments[ONE]
    assert list(fragment.messages) == [10, 20, 30, 40, 51]
    assert recovered.segments[0].highest(ONE) == 51
    assert (fragment.last, fragment.reign) == (51, 2)
    assert fragment.origins == {NORTH: 30, SOUTH: 8}


def test_a_copy_under_way_is_not_whole_before_its_end() -> None:
    begun = (Enqueue(ONE, 1, 1, NORTH, 1, False, bodies("a", "b")), Keep(ONE, 2, 60, []))
    assert not replay(*begun).fragments[ONE].whole
    ended = replay(*begun, Copy(ONE, 2, [], [], {})).fragments[ONE]
    assert ended.whole
    assert ended.last == first_position(2)


def test_an_incremental_copy_keeps_what_it_is_not_told_to_forget() -> None:
    recovered = replay(
        Enqueue(ONE, 1, 1, NORTH, 1, False, bodies("a", "b", "c")),
        Keep(ONE, 2, 60, [(2, 2), (3, 9)]),
    )
    found = RecoveredFragment({1: message("a")}, 60, 2, {NORTH: 3}, whole=False)
    assert recovered.fragments[ONE] == found


def test_a_dropped_fragment_is_gone_and_its_neighbour_is_not() -> None:
    recovered = replay(
        Enqueue(ONE, 1, 1, NORTH, 1, False, bodies("a")),
        Enqueue(TWO, 1, 1, NORTH, 1, False, bodies("b")),
        Drop(ONE, 0),
    )
    assert list(recovered.fragments) == [TWO]


def test_a_purge_may_span_reigns() -> None:
    old, new = first_position(1) + 1, first_position(9) + 1
    recovered = replay(
        Enqueue(ONE, 1, old, NORTH, 1, False, bodies("a")),
        Enqueue(ONE, 9, new, NORTH, 2, False, bodies("b")),
        Settle(ONE, 9, new + 1, [(0, new)]),
    )
    assert recovered.fragments[ONE].messages == {}
    assert recovered.fragments[ONE].last == new + 1


def test_a_later_note_replaces_an_earlier_one_and_0_takes_it_away() -> None:
    recovered = replay(
        Enqueue(ONE, 1, 1, NORTH, 1, False, bodies("a", "b")),
        Note(ONE, 1, 3, NOTE_RETURNS, {1: 1, 2: 1}),
        Note(ONE, 1, 4, NOTE_RETURNS, {1: 2}),
        Note(ONE, 1, 5, NOTE_RETURNS, {2: 0}),
    )
    assert recovered.fragments[ONE].notes == {NOTE_RETURNS: {1: 2}}
    assert recovered.fragments[ONE].last == 5


def test_notes_go_with_their_messages() -> None:
    recovered = replay(
        Enqueue(ONE, 1, 1, NORTH, 1, False, bodies("a", "b", "c")),
        Note(ONE, 1, 3, NOTE_EXPIRES, {1: 100, 2: 200, 3: 300}),
        Settle(ONE, 1, 4, [(1, 1)]),
        Keep(ONE, 2, 60, [(2, 2)]),
        Enqueue(TWO, 1, 1, NORTH, 1, False, bodies("d")),
        Note(TWO, 1, 2, NOTE_DEAD, {1: 1}),
        Drop(TWO, 1),
    )
    assert recovered.fragments[ONE].notes == {NOTE_EXPIRES: {3: 300}}
    assert TWO not in recovered.fragments


def test_notes_of_transient_messages_die_with_them() -> None:
    mixed = [message("kept"), message("lost", persistent=False)]
    recovered = replay(
        Enqueue(ONE, 1, 1, NORTH, 1, False, mixed), Note(ONE, 1, 2, NOTE_EXPIRES, {1: 100, 2: 200})
    )
    assert recovered.fragments[ONE].notes == {NOTE_EXPIRES: {1: 100}}


def test_a_note_before_its_message_is_in_the_chunk_that_brings_it() -> None:
    recovered = replay(
        Keep(ONE, 2, 60, []),
        Note(ONE, 2, 61, NOTE_RETURNS, {5: 1}),
        Group(ONE, 2, [Copy(ONE, 2, [5], bodies("a"), {}), Note(ONE, 2, 0, NOTE_RETURNS, {5: 2})]),
    )
    assert recovered.fragments[ONE].notes == {NOTE_RETURNS: {5: 2}}


def test_a_torn_group_is_as_if_never_written() -> None:
    before = encode_all([Enqueue(ONE, 1, 1, NORTH, 1, False, bodies("a"))])
    group = encode_all(
        [
            Group(
                ONE,
                1,
                [
                    Settle(ONE, 1, 2, [(1, 1)]),
                    Enqueue(ONE, 1, 3, NORTH, 2, False, bodies("b")),
                    Note(ONE, 1, 3, NOTE_EXPIRES, {3: 100}),
                ],
            )
        ]
    )
    for size in range(len(group)):
        recovered = recover({1: before + group[:size]})
        assert recovered.fragments == recover({1: before}).fragments
        assert recovered.torn_bytes == size
    assert recover({1: before + group}).fragments[ONE].notes == {NOTE_EXPIRES: {3: 100}}


def test_a_torn_tail_of_the_last_segment_is_cut_and_counted() -> None:
    first = encode_all([Enqueue(ONE, 1, 1, NORTH, 1, False, bodies("a"))])
    second = encode_all([Enqueue(ONE, 1, 2, NORTH, 2, False, bodies("b"))])
    recovered = recover({4: first, 5: second + second[:-1]})
    assert recovered.torn_bytes == len(second) - 1
    assert recovered.segments == [
        Segment(4, len(first), {ONE: array("Q", (1, 1))}),
        Segment(5, len(second), {ONE: array("Q", (2, 2))}),
    ]
    assert list(recovered.fragments[ONE].messages) == [1, 2]


def test_damage_in_an_earlier_segment_is_refused_with_its_place() -> None:
    whole = encode_all([Enqueue(ONE, 1, 1, NORTH, 1, False, bodies("a"))])
    with pytest.raises(CorruptJournal, match=f"segment 4 .* byte {len(whole)} ") as caught:
        recover({4: whole + whole[:9], 5: b""})
    assert (caught.value.segment, caught.value.offset) == (4, len(whole))
    assert isinstance(caught.value, NodeFailure), "the node stops on it"


def test_a_missing_segment_is_refused() -> None:
    whole = encode_all([Drop(ONE, 0)])
    with pytest.raises(CorruptJournal, match=r"segment 2 .* missing"):
        recover({1: whole, 3: whole})


#: Well-formed and checksummed, but of record version 2.
FROM_THE_FUTURE = bytes.fromhex("00000012d280078502060000000000000001") + bytes(8)


def test_a_record_of_a_newer_version_is_refused_even_at_the_end() -> None:
    with pytest.raises(CorruptJournal, match="newer version"):
        recover({1: FROM_THE_FUTURE})


def test_a_segment_is_done_with_before_the_next_is_asked_for() -> None:
    asked: list[int] = []

    class Segments(dict[int, bytes]):
        def __getitem__(self, number: int) -> bytes:
            asked.append(number)
            return super().__getitem__(number)

    with pytest.raises(CorruptJournal):
        recover(Segments({1: FROM_THE_FUTURE, 2: FROM_THE_FUTURE}))
    # Each is looked through for a checkpoint first.
    assert asked == [2, 1, 1]


# --- marks ---------------------------------------------------------------------------------------


def enqueued(number: int, body: str = "m") -> bytes:
    return encode_all([Enqueue(ONE, 1, number, NORTH, number, False, bodies(body))])


def marked(segment: int, offset: int, nonce: int = 7) -> bytes:
    return encode_mark(Mark(nonce, segment, offset))


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]


def test_damage_before_what_a_mark_calls_synced_is_no_torn_tail() -> None:
    """Before there were marks it was cut, with all that followed, and the node led."""
    head, first, second = marked(1, 0), enqueued(1), enqueued(2)
    synced = len(head) + len(first) + len(second)
    whole = head + first + second + marked(1, synced) + enqueued(3)
    assert list(recover({1: whole}).fragments[ONE].messages) == [1, 2, 3]
    for at in range(len(head), synced):
        with pytest.raises(CorruptJournal):
            recover({1: flipped(whole, at)})
        salvaged = salvage({1: flipped(whole, at)})
        (damage,) = salvaged.damages
        assert damage.first <= at < damage.stop
        assert 3 in salvaged.fragments[ONE].messages, "what follows the next mark is read"
        again = recover({1: mended(flipped(whole, at), salvaged.damages)})
        assert again.fragments == salvaged.fragments
        assert again.segments == salvaged.segments


def test_what_no_mark_calls_synced_is_torn() -> None:
    whole = marked(1, 0) + enqueued(1) + enqueued(2)
    recovered = recover({1: flipped(whole, len(whole) - 1)})
    assert recovered.torn_bytes == len(enqueued(2))
    assert list(recovered.fragments[ONE].messages) == [1]


@pytest.mark.parametrize(("nonce", "damages"), [(8, 0), (7, 1)])
def test_a_message_cannot_pretend_to_be_a_mark(nonce: int, damages: int) -> None:
    """It would have to know the number of the process that writes."""
    forged = marked(1, 1 << 40, nonce)
    body = encode(FLAG_PERSISTENT, make_route("", "orders"), b"\x10\x00\x02", forged)
    torn = flipped(encode_all([Enqueue(ONE, 1, 2, NORTH, 2, False, [body])]), 4)
    salvaged = salvage({1: marked(1, 0) + enqueued(1) + torn})
    assert len(salvaged.damages) == damages


def test_what_is_missing_in_the_middle_is_damage_and_the_rest_is_read() -> None:
    salvaged = salvage({1: enqueued(1), 3: enqueued(3)})
    assert [damage.segment for damage in salvaged.damages] == [2]
    assert list(salvaged.fragments[ONE].messages) == [1, 3]
    assert [segment.number for segment in salvaged.segments] == [1, 2, 3]


def test_a_plan_marks_what_is_on_disk_and_says_it_once() -> None:
    plan = SegmentPlan(nonce=7)
    plan.append(ONE, enqueued(1), True, 1, 1)
    (first,) = plan.take()
    assert mark_at(first.data, 0) == Mark(7, 1, 0)
    plan.append(ONE, enqueued(2), True, 2, 2)
    (second,) = plan.take()
    assert second.data == enqueued(2), "nothing new is known"
    plan.on_synced(2)
    plan.mark()
    (idle,) = plan.take()
    assert mark_at(idle.data, 0) == Mark(7, 1, len(first.data) + len(second.data))
    assert not idle.sync
    plan.mark()
    assert plan.take() == []
    data = first.data + second.data + idle.data
    assert recover({1: data}).segments[0].size == len(data) == plan.bytes_held
