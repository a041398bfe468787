"""Messages out of a stretch of a segment, whole or damaged."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.journal.bodies import messages_in
from fedq.journal.events import Copy, Enqueue, Group, Note, Record, Settle
from fedq.journal.marks import Mark, encode_mark
from fedq.journal.records import NOTE_EXPIRES
from tests.unit.journal.samples import NORTH, ONE, PRIVATE, SOUTH, TWO, bodies, encode_all
from tests.unit.journal.test_records import framed

#: Any position.
ALL = (0, 1 << 64)


def enqueue(first: int, *texts: str) -> bytes:
    return encode_all([Enqueue(ONE, 1, first, NORTH, first, False, bodies(*texts))])


def test_those_wanted_are_cut_out() -> None:
    data = enqueue(10, "a", "b", "c") + enqueue(13, "d")
    assert messages_in(data, ONE, *ALL) == (dict(enumerate(bodies(*"abcd"), 10)), [])
    assert messages_in(data, ONE, 12, 13) == (dict(enumerate(bodies(*"cd"), 12)), [])
    assert messages_in(data, ONE, 11, 11) == ({11: bodies("b")[0]}, [])
    assert messages_in(data, ONE, 14, 99) == ({}, [])
    assert messages_in(data, TWO, *ALL) == ({}, [])
    assert messages_in(b"", ONE, *ALL) == ({}, [])


def test_records_of_others_and_marks_are_passed_over() -> None:
    data = b"".join(
        [
            encode_mark(Mark(7, 1, 0)),
            encode_all([Enqueue(PRIVATE, 1, 10, NORTH, 1, False, bodies("x"))]),
            encode_all([Enqueue(ONE, 1, 10, NORTH, 1, False, bodies("a"))]),
            encode_mark(Mark(7, 1, 30)),
            encode_all([Settle(ONE, 1, 11, [(1, 10)])]),
            encode_all([Enqueue(ONE, 1, 12, NORTH, 2, False, bodies("b"))]),
        ]
    )
    assert messages_in(data, ONE, *ALL) == (dict(zip((10, 12), bodies("a", "b"), strict=True)), [])


def test_copies_and_groups_count() -> None:
    texts = bodies("a", "b", "c", "d")
    run = Enqueue(ONE, 1, 8, NORTH, 1, False, texts[2:])
    data = encode_all(
        [
            Group(ONE, 1, [run, Note(ONE, 1, 9, NOTE_EXPIRES, {8: 5})]),
            Group(ONE, 1, [Copy(ONE, 1, [3, 5], texts[:2], {SOUTH: 4, NORTH: 1})]),
            Copy(ONE, 1, [], [], {SOUTH: 4}),
        ]
    )
    found, reasons = messages_in(data, ONE, *ALL)
    assert list(found.items()) == list(zip((3, 5, 8, 9), texts, strict=True))
    assert not reasons
    assert list(messages_in(data, ONE, 4, 8)[0]) == [5, 8]


def test_of_two_at_one_position_the_later_one_counts() -> None:
    data = enqueue(10, "old") + enqueue(10, "new")
    assert messages_in(data, ONE, *ALL) == ({10: bodies("new")[0]}, [])


def test_what_is_damaged_is_said_and_the_next_record_is_read() -> None:
    first, second, third = enqueue(1, "a"), enqueue(2, "b"), enqueue(3, "c")
    spoilt = second[:-1] + b"\0"
    found, (reason,) = messages_in(first + spoilt + third, ONE, *ALL)
    assert list(found) == [1, 3]
    assert reason == f"byte {len(first)}: its checksum does not match"
    # Of others nothing is said: their records are not looked at.
    assert messages_in(first + spoilt + third, TWO, *ALL) == ({}, [])


def test_a_message_that_looks_like_a_record_is_never_taken_for_one() -> None:
    """What a client sent is found among the bytes of a damaged record, and by nothing else."""
    lie = enqueue(3, "a lie").decode("latin-1")
    data = enqueue(1, "a") + enqueue(2, f"{lie}{lie}", "b") + enqueue(4, "d")
    head = len(enqueue(1, "a"))
    for at in range(head, head + 8):
        for bit in range(8):
            spoilt = bytearray(data)
            spoilt[at] ^= 1 << bit
            found, reasons = messages_in(bytes(spoilt), ONE, *ALL)
            assert list(found) in ([1], [1, 4]), (at, bit)
            assert reasons


@pytest.mark.parametrize("hole", ["head", "body"])
def test_behind_what_nothing_says_the_end_of_one_goes_on_with_the_next_mark(hole: str) -> None:
    mark = Mark(77, 5, 0)
    first, second, third = enqueue(1, "a"), enqueue(2, "b" * 50), enqueue(3, "c")
    at = len(first) if hole == "head" else len(first) + len(second) - 20
    data = bytearray(first + second + third + encode_mark(mark) + enqueue(4, "d"))
    data[at : at + 40] = bytes(40)
    found, reasons = messages_in(bytes(data), ONE, *ALL, mark)
    assert list(found) == [1, 4]
    assert reasons
    # Neither without knowing it, nor in another segment, nor with a number that is guessed.
    for other in (None, mark._replace(segment=6), mark._replace(nonce=78)):
        assert list(messages_in(bytes(data), ONE, *ALL, other)[0]) == [1]


def test_a_message_that_holds_a_mark_leads_nowhere() -> None:
    """Its sender cannot know the number; what follows on its mark is no record."""
    mark = Mark(77, 5, 0)
    lie = (encode_mark(mark._replace(nonce=78)) + enqueue(3, "a lie")).decode("latin-1")
    data = bytearray(enqueue(1, "a") + enqueue(2, lie) + encode_mark(mark) + enqueue(4, "d"))
    at = len(enqueue(1, "a"))
    data[at : at + 40] = bytes(40)
    assert list(messages_in(bytes(data), ONE, *ALL, mark)[0]) == [1, 4]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (struct.pack(">BBqQ", 2, 1, ONE, 1), "record version 2 is unknown here"),
        (struct.pack(">BBqQ", 1, 1, ONE, 1), "its content contradicts itself"),
        (
            struct.pack(">BBqQQBQQIB", 1, 1, ONE, 1, 5, 0, 1, 1, 1 << 31, 0),
            "its content contradicts itself: a table of 2147483648 entries does not fit",
        ),
        (
            struct.pack(">BBqQQBQQIBI", 1, 1, ONE, 1, 5, 0, 1, 1, 1, 0, 9),
            "its content contradicts itself: its messages do not end where it does",
        ),
        (
            struct.pack(">BBqQQBQQIBI", 1, 1, ONE, 1, 5, 0, 1, 1, 1, 0, 3) + b"abc",
            "its content contradicts itself: a message is shorter than its own head",
        ),
        (
            struct.pack(">BBqQIIQI", 1, 2, ONE, 1, 1, 0, 5, 99),
            "its content contradicts itself: its messages do not fit",
        ),
        (
            struct.pack(">BBqQ", 1, 8, ONE, 1) + framed(struct.pack(">BBqQ", 1, 8, ONE, 1)),
            "its content contradicts itself: a group in a group",
        ),
        (
            struct.pack(">BBqQ", 1, 8, ONE, 1) + framed(struct.pack(">BBqQ", 1, 6, TWO, 1)),
            "a record of fragment 2 in a group of 1",
        ),
    ],
)
def test_lies_in_whole_records_cost_that_record(content: bytes, reason: str) -> None:
    data = enqueue(1, "a") + framed(content) + enqueue(9, "z")
    found, (said,) = messages_in(data, ONE, *ALL)
    assert list(found) == [1, 9]
    assert reason in said


def test_a_torn_end_is_said() -> None:
    data = enqueue(1, "a") + enqueue(2, "b")
    whole = len(enqueue(1, "a"))
    for end in range(whole + 1, len(data)):
        found, reasons = messages_in(data[:end], ONE, *ALL)
        assert list(found) == [1]
        assert len(reasons) == 1


def test_many_damages_are_told_in_few_words() -> None:
    spoilt = enqueue(1, "a")[:-1] + b"\0"
    found, reasons = messages_in((spoilt + enqueue(2, "b")) * 100, ONE, *ALL)
    assert list(found) == [2]
    assert 0 < len(reasons) <= 16


def some_record(first: int, kind: int) -> Record:
    texts = bodies(f"{first}a", f"{first}b")
    run = Enqueue(ONE, 1, first, NORTH, 1, False, texts)
    choices: list[Record] = [
        run,
        Copy(ONE, 1, [first, first + 2], texts, {SOUTH: 3}),
        Group(ONE, 1, [run]),
        Enqueue(TWO, 1, first, NORTH, 1, False, bodies("other")),
    ]
    return choices[kind]


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=4),
    st.integers(0, 40),
    st.integers(0, 40),
)
def test_no_bytes_raise_anything(
    kinds: list[int], changes: list[tuple[int, int]], first: int, last: int
) -> None:
    """And no message that was never written is found, whichever bytes have changed."""
    data = bytearray(encode_all([some_record(4 * at, kind) for at, kind in enumerate(kinds)]))
    known = messages_in(bytes(data), ONE, *ALL)[0]
    for at, byte in changes:
        data[at % len(data)] = byte
    found, _ = messages_in(bytes(data), ONE, first, last)
    for position, message in found.items():
        assert first <= position <= last
        assert known[position] == message
