"""Records: what goes in comes out; damage is named; nothing outgrows its limit."""

import struct
from zlib import crc32

import pytest

from fedq.journal.decoding import CorruptRecord, ForeignRecord, decode, scan
from fedq.journal.events import Copy, Enqueue, Group, Note, Record, Settle
from fedq.journal.records import (
    NOTE_DEAD,
    NOTE_DUE,
    NOTE_EXPIRES,
    NOTE_RETURNS,
    RECORD_BYTES_MIN,
    encode_copy,
    encode_drop,
    encode_enqueue,
    encode_group,
    encode_note,
    encode_reset,
    encode_settle,
    encode_with_notes,
)
from tests.unit.journal.samples import NORTH, ONE, SOUTH, TWO, bodies, encode_all, message


def framed(body: bytes) -> bytes:
    return struct.pack(">II", len(body), crc32(body)) + body


def test_an_enqueue_knows_its_positions_and_numbers() -> None:
    data = encode_enqueue(ONE, 2, 100, NORTH, 7, bodies("a", "b", "c"), resent=True)
    assert list(decode(data)) == [Enqueue(ONE, 2, 100, NORTH, 7, True, bodies("a", "b", "c"))]
    (record,) = decode(data)
    assert isinstance(record, Enqueue)
    assert (record.last_position, record.last_number) == (102, 9)


def test_decoding_starts_where_it_is_told_and_takes_views() -> None:
    first, second = encode_reset(ONE, 1, 5), encode_settle(ONE, 1, 6, [(1, 2)])
    expected = [Settle(ONE, 1, 6, [(1, 2)])]
    assert list(decode(first + second, len(first))) == expected
    assert list(decode(memoryview(first + second), len(first))) == expected
    assert list(decode(b"")) == []


def test_a_copy_may_hold_origins_alone() -> None:
    data = encode_copy(ONE, 1, [], [], {NORTH: 9, SOUTH: 4})
    assert list(decode(data)) == [Copy(ONE, 1, [], [], {NORTH: 9, SOUTH: 4})]


@pytest.mark.parametrize("size", [0, 1, 7, 8, RECORD_BYTES_MIN - 1, RECORD_BYTES_MIN + 3])
def test_a_cut_record_is_where_the_scan_ends(size: int) -> None:
    whole = encode_enqueue(ONE, 1, 1, NORTH, 1, bodies("a"))
    records, good_bytes = scan(whole + whole[:size])
    assert len(records) == 1
    assert good_bytes == len(whole)


def test_zeros_after_a_record_are_no_records() -> None:
    whole = encode_drop(ONE)
    assert scan(whole + bytes(4096))[1] == len(whole)
    with pytest.raises(CorruptRecord, match=f"byte {len(whole)}: a length of 0"):
        list(decode(whole + bytes(4096)))


def test_damage_is_named_with_its_place() -> None:
    first = encode_reset(ONE, 1, 5)
    damaged = bytearray(first + encode_enqueue(ONE, 1, 1, NORTH, 1, bodies("hello")))
    damaged[-1] ^= 0x20
    with pytest.raises(CorruptRecord, match="checksum") as caught:
        list(decode(bytes(damaged)))
    assert caught.value.offset == len(first)
    assert not isinstance(caught.value, ForeignRecord)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (struct.pack(">BBqQ", 2, 6, 1, 0), "version 2 is unknown"),
        (struct.pack(">BBqQ", 1, 99, 1, 0), "kind 99 is unknown"),
        (struct.pack(">BBqQ", 1, 6, 1, 0) + b"x", "contradicts itself"),
        (struct.pack(">BBqQQI", 1, 3, 1, 0, 9, 2**31), "does not fit"),
        (struct.pack(">BBqQQIQQ", 1, 3, 1, 0, 9, 1, 8, 7), "ends before it begins"),
        (struct.pack(">BBqQII", 1, 2, 1, 0, 0, 1), "fewer origins"),
        (struct.pack(">BBqQQBI", 1, 7, 1, 0, 9, 1, 2**31), "does not fit"),
        (struct.pack(">BBqQQBIQQ", 1, 7, 1, 0, 9, 7, 1, 1, 1), "note 7 is unknown"),
        (struct.pack(">BBqQ", 1, 8, 1, 0) + encode_drop(TWO), "of another fragment"),
        (struct.pack(">BBqQ", 1, 8, 1, 0) + encode_group(ONE, 0, b""), "a group in a group"),
        (struct.pack(">BBqQ", 1, 8, 1, 0) + encode_drop(ONE)[:-1], "1 of its bytes are missing"),
        (struct.pack(">BBqQ", 1, 8, 1, 0) + framed(struct.pack(">BBqQ", 1, 9, 1, 0)), "kind 9"),
        (struct.pack(">BBqQQBQQIB", 1, 1, 1, 0, 1, 0, 1, 1, 0, 0), "no messages"),
        (struct.pack(">BBqQQBQQIBII", 1, 1, 1, 0, 1, 0, 1, 1, 1, 0, 3, 0)[:-1], "shorter"),
        (struct.pack(">BBqQQBQQIB", 1, 1, 1, 0, 1, 0, 1, 1, 1, 1) + b"\xff\0\0\0\0", "utf-8"),
    ],
)
def test_a_whole_record_that_makes_no_sense_is_not_taken_for_a_torn_one(
    body: bytes, reason: str
) -> None:
    good = encode_drop(ONE)
    for reader in (lambda data: list(decode(data)), scan):
        with pytest.raises(ForeignRecord, match=reason) as caught:
            reader(good + framed(body))
        assert caught.value.offset == len(good)


def test_a_batch_too_long_for_one_record_becomes_several() -> None:
    messages = [message(f"{number:030}") for number in range(9)]
    enqueued = list(decode(encode_enqueue(ONE, 1, 10, NORTH, 4, messages, bytes_max=200)))
    copied = list(decode(encode_copy(ONE, 1, list(range(9)), messages, {NORTH: 3}, 200)))
    ranges = [(n, n) for n in range(0, 60, 2)]
    settled = list(decode(encode_settle(ONE, 1, 77, ranges, 200)))
    assert len(enqueued) > 1
    assert len(copied) > 1
    assert len(settled) > 1
    position, number, found = 10, 4, []
    for record in enqueued:
        assert isinstance(record, Enqueue)
        assert (record.first_position, record.first_number) == (position, number)
        position, number = record.last_position + 1, record.last_number + 1
        found += record.messages
    assert found == messages
    assert [m for r in copied if isinstance(r, Copy) for m in r.messages] == messages
    assert isinstance(copied[-1], Copy)
    assert copied[-1].origins == {NORTH: 3}
    assert [x for r in settled if isinstance(r, Settle) for x in r.ranges][-1] == (58, 58)
    assert {r.event for r in settled if isinstance(r, Settle)} == {77}


def test_one_message_too_long_for_a_record_is_refused() -> None:
    with pytest.raises(ValueError, match="exceeds the 200 bytes"):
        encode_enqueue(ONE, 1, 1, NORTH, 1, [message("x" * 300)], bytes_max=200)


# --- notes and groups ----------------------------------------------------------------------------


def test_notes_stand_behind_their_messages_in_one_record() -> None:
    enqueued = encode_enqueue(ONE, 1, 5, NORTH, 1, bodies("a", "b"))
    notes = {NOTE_EXPIRES: {5: 2**63, 6: 9}, NOTE_DUE: {}, NOTE_DEAD: {6: 1}}
    (group,) = decode(encode_with_notes(ONE, 1, enqueued, 6, notes))
    assert group == Group(
        ONE,
        1,
        [
            Enqueue(ONE, 1, 5, NORTH, 1, False, bodies("a", "b")),
            Note(ONE, 1, 6, NOTE_EXPIRES, {5: 2**63, 6: 9}),
            Note(ONE, 1, 6, NOTE_DEAD, {6: 1}),
        ],
    )


def test_records_without_notes_stay_as_they_were() -> None:
    enqueued = encode_enqueue(ONE, 1, 5, NORTH, 1, bodies("a"))
    assert encode_with_notes(ONE, 1, enqueued, 5, {NOTE_EXPIRES: {}}) == enqueued


def test_groups_in_a_group_are_dissolved_in_it() -> None:
    first, second = Settle(ONE, 1, 6, [(1, 2)]), Note(ONE, 1, 7, NOTE_RETURNS, {3: 1})
    third = Enqueue(ONE, 1, 8, NORTH, 1, False, bodies("a"))
    parts: list[Record] = [
        Group(ONE, 1, [first]),
        second,
        Group(ONE, 1, []),
        Group(ONE, 1, [third, first]),
    ]
    data = encode_group(ONE, 1, encode_all(parts))
    assert list(decode(data)) == [Group(ONE, 1, [first, second, third, first])]


def test_notes_too_many_for_one_record_become_several() -> None:
    values = {position: position * 2 for position in range(1, 40)}
    notes = list(decode(encode_note(ONE, 1, 50, NOTE_RETURNS, values, 200)))
    assert len(notes) > 1
    found: dict[int, int] = {}
    for note in notes:
        assert isinstance(note, Note)
        assert (note.event, note.what) == (50, NOTE_RETURNS)
        found |= note.values
    assert found == values


def test_a_group_too_long_for_a_record_is_refused() -> None:
    records = encode_enqueue(ONE, 1, 1, NORTH, 1, [message("x" * 30) for _ in range(9)])
    with pytest.raises(ValueError, match="exceeds the 200 bytes"):
        encode_group(ONE, 1, records, 200)
