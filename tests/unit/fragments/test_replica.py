"""A backup's copy: what records do to its notes, and what they mean for the disk."""

import pytest

from fedq.core.ids import FragmentId
from fedq.fragments.copy.applied import Applied
from fedq.fragments.replica import Replica
from fedq.journal.decoding import CorruptRecord
from fedq.journal.records import (
    NOTE_DEAD,
    NOTE_EXPIRES,
    NOTE_RETURNS,
    encode_copy,
    encode_enqueue,
    encode_group,
    encode_note,
    encode_settle,
    encode_with_notes,
)
from tests.unit.journal.samples import NORTH, bodies, message

ONE = FragmentId(1)


def three(*, persistent: bool = True) -> bytes:
    """Messages at 1, 2 and 3; the second one expires."""
    messages = [message(text, persistent) for text in ("one", "two", "three")]
    record = encode_enqueue(ONE, 1, 1, NORTH, 1, messages)
    return encode_with_notes(ONE, 1, record, 3, {NOTE_EXPIRES: {2: 7_000}})


def replica() -> Replica:
    made = Replica(ONE, durable=True)
    assert made.apply(three()) == Applied(True, True, 1, 3)
    return made


def test_a_message_comes_with_its_notes_and_takes_them_along() -> None:
    made = replica()
    assert made.notes == {NOTE_EXPIRES: {2: 7_000}}
    made.apply(encode_settle(ONE, 1, 4, [(2, 3)]))
    assert made.notes == {}


def test_notes_take_no_room_and_ask_for_no_sync() -> None:
    made = replica()
    held = made.bytes_held
    assert made.apply(encode_note(ONE, 1, 4, NOTE_RETURNS, {1: 1, 3: 2})) == Applied(True, False)
    assert made.apply(encode_note(ONE, 1, 5, NOTE_RETURNS, {1: 2})) == Applied(True, False)
    assert made.notes[NOTE_RETURNS] == {1: 2, 3: 2}
    assert made.bytes_held == held


def test_notes_of_transient_messages_stay_out_of_the_journal() -> None:
    made = Replica(ONE, durable=True)
    assert made.apply(three(persistent=False)) == Applied(False, False, 1, 3)
    assert made.apply(encode_note(ONE, 1, 4, NOTE_RETURNS, {1: 1})) == Applied(False, False)
    assert made.notes == {NOTE_EXPIRES: {2: 7_000}, NOTE_RETURNS: {1: 1}}


def test_what_has_a_time_may_leave_memory_and_what_has_a_past_stays() -> None:
    made = Replica(ONE, durable=True)
    made.apply(three(persistent=False))
    made.apply(encode_note(ONE, 1, 4, NOTE_RETURNS, {1: 1}))
    assert made.scratch([1, 2, 3]) == 2
    assert made.notes == {NOTE_EXPIRES: {2: 7_000}, NOTE_RETURNS: {1: 1}}
    made = replica()
    made.apply(encode_note(ONE, 1, 4, NOTE_RETURNS, {1: 1}))
    assert made.stow(made.mark(), 10) == 2
    assert list(made.messages) == [1]
    made.apply(encode_settle(ONE, 1, 5, [(2, 3)]))
    assert made.notes == {NOTE_RETURNS: {1: 1}}


def test_notes_of_messages_in_scratch_files_stay_with_them_and_out_of_the_journal() -> None:
    made = Replica(ONE, durable=True, scratched=[(1, 3, 30)])
    assert made.apply(encode_note(ONE, 1, 4, NOTE_RETURNS, {1: 1})) == Applied(False, False)
    assert made.notes == {NOTE_RETURNS: {1: 1}}
    assert made.apply(encode_settle(ONE, 1, 5, [(1, 2)])) == Applied(False, False)
    assert made.notes == {}
    assert made.count == 1


def test_a_queue_that_is_not_durable_keeps_its_notes_in_memory() -> None:
    made = Replica(ONE, durable=False)
    assert made.apply(three()) == Applied(False, False, 1, 3)
    assert made.apply(encode_note(ONE, 1, 4, NOTE_DEAD, {1: 1})) == Applied(False, False)
    assert made.notes[NOTE_DEAD] == {1: 1}


def test_a_note_about_a_message_that_is_not_here_is_left_to_the_copy_that_brings_it() -> None:
    made = replica()
    assert made.apply(encode_note(ONE, 1, 4, NOTE_DEAD, {9: 1})) == Applied(False, False)
    assert NOTE_DEAD not in made.notes


def test_a_transaction_waits_for_the_disk_whatever_is_in_it() -> None:
    made = replica()
    settled = encode_group(ONE, 1, encode_settle(ONE, 1, 4, [(1, 1)]))
    assert made.apply(settled) == Applied(True, True)
    assert list(made.messages) == [2, 3]


def test_a_copy_begins_with_the_notes_of_the_messages_it_has() -> None:
    notes = {NOTE_RETURNS: {1: 4, 2: 9}, NOTE_DEAD: {2: 1}}
    made = Replica(ONE, durable=True, messages={1: message("one")}, notes=notes)
    assert made.notes == {NOTE_RETURNS: {1: 4}}


def test_notes_last_until_the_copy_is_complete_and_only_if_the_primary_knows_them() -> None:
    made = replica()
    made.apply(encode_note(ONE, 1, 4, NOTE_RETURNS, {1: 5, 2: 5, 3: 5}))
    made.apply(encode_note(ONE, 1, 5, NOTE_DEAD, {1: 2}))
    made.start_copy([(3, 3)], encode_copy(ONE, 2, [], [], {NORTH: 3}), 2, 0, True)
    assert made.notes[NOTE_RETURNS] == {1: 5, 2: 5}, "it might have to lead before"
    chunk = encode_copy(ONE, 2, [], [], {})
    made.apply(encode_with_notes(ONE, 2, chunk, 0, {NOTE_RETURNS: {2: 4}}))
    assert made.finish_copy(2) == {NOTE_RETURNS: {1: 0}, NOTE_DEAD: {1: 0}}
    assert made.notes == {NOTE_EXPIRES: {2: 7_000}, NOTE_RETURNS: {2: 4}}


def test_live_notes_during_a_copy_are_known_to_the_primary() -> None:
    made = replica()
    made.apply(encode_note(ONE, 1, 4, NOTE_RETURNS, {1: 1}))
    made.start_copy([], encode_copy(ONE, 2, [], [], {}), 2, 0, True)
    made.apply(encode_note(ONE, 2, 9, NOTE_RETURNS, {1: 2}))
    assert made.finish_copy(2) == {}
    assert made.notes[NOTE_RETURNS] == {1: 2}


def test_of_records_with_damage_among_them_none_counts() -> None:
    made = replica()
    settled = encode_settle(ONE, 1, 4, [(1, 1)])
    with pytest.raises(CorruptRecord):
        made.apply(settled + settled[:-1])
    assert list(made.messages.values()) == bodies("one", "two", "three")


def test_a_chunk_with_a_hole_leaves_the_others_as_they_came() -> None:
    """To take them apart is work for all of them, while nobody needs it."""
    copy = Replica(ONE, durable=True)
    copy.apply(encode_copy(ONE, 1, [20, 21, 22], bodies("a", "b", "c"), {}))
    copy.apply(encode_copy(ONE, 1, [15, 17], bodies("d", "e"), {}))
    assert (copy.count_unread, copy.count_read) == (3, 2)
    copy.apply(encode_copy(ONE, 1, [10, 11], bodies("f", "g"), {}))
    assert copy.count_unread == 5
    assert list(copy.in_order()) == [10, 11, 15, 17, 20, 21, 22]
