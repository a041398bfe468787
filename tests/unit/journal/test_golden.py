"""Format version 1 for ever: what was written when it was new still reads, and is still written."""

import pytest

from fedq.core.ids import FragmentId, first_position
from fedq.core.ranges import pack_ranges
from fedq.journal.decoding import decode
from fedq.journal.events import (
    ALL,
    SOME,
    SURE,
    Checkpoint,
    Copy,
    Drop,
    Enqueue,
    Group,
    Keep,
    Live,
    Note,
    PublisherMark,
    Publishers,
    Readers,
    Record,
    Reset,
    Seen,
    Settle,
    Standing,
)
from fedq.journal.marks import Mark, encode_mark
from fedq.journal.reader import read
from fedq.journal.records import (
    NOTE_CAME,
    NOTE_DEAD,
    NOTE_DUE,
    NOTE_EXPIRES,
    NOTE_RESERVED,
    NOTE_RETURNS,
)
from fedq.journal.recovered import RecoveredFragment
from fedq.journal.recovery import recover
from tests.unit.golden import GOLDEN
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

FIRST = first_position(1) + 1
#: With what each of them begins.
BEGINNING = Enqueue(ONE, 1, FIRST, NORTH, 1, False, bodies("one", "two", "three"))

#: What is in the golden file. Never changed: a new format gets a new file beside it.
CONTENT: list[Record] = [
    BEGINNING,
    Enqueue(TWO, 1, FIRST, SOUTH, 2**63, True, [message("lost", persistent=False)]),
    Enqueue(PRIVATE, 0, 1, SOUTH, 7, False, bodies("")),
    Settle(ONE, 1, FIRST + 3, [(FIRST, FIRST), (FIRST + 2, FIRST + 2)]),
    Reset(TWO, 2, first_position(2)),
    Copy(TWO, 2, [FIRST + 5, FIRST + 9], bodies("newer", "newest"), {NORTH: 9, SOUTH: 2**63}),
    Copy(TWO, 2, [FIRST + 1], bodies("older"), {}),
    Keep(ONE, 3, first_position(3), [(FIRST + 1, FIRST + 1)]),
    Enqueue(ONE, 3, first_position(3) + 1, NORTH, 4, False, bodies("four")),
    Drop(PRIVATE, 0),
]


#: What is in the golden file of notes and groups. Never changed, either.
MARKED = GOLDEN / "journal-v1-marks.journal"
TIMED = GOLDEN / "journal-v1-times.journal"
NOTED = GOLDEN / "journal-v1-notes.journal"
#: What is in the golden file of when messages of a stream came.
TIMED_CONTENT: list[Record] = [
    Group(ONE, 1, [BEGINNING, Note(ONE, 1, FIRST + 2, NOTE_CAME, {FIRST: 3_600_000_000_000})]),
    Enqueue(ONE, 1, FIRST + 3, NORTH, 4, False, bodies("four")),
    Note(ONE, 1, FIRST + 4, NOTE_CAME, {FIRST: 0, FIRST + 3: 3_600_000_001_001}),
]
NOTED_CONTENT: list[Record] = [
    Group(
        ONE,
        1,
        [
            BEGINNING,
            Note(ONE, 1, FIRST + 2, NOTE_EXPIRES, {FIRST: 2**63, FIRST + 2: 1_800_000_000_000}),
            Note(ONE, 1, FIRST + 2, NOTE_DUE, {FIRST + 1: 1_800_000_000_001}),
        ],
    ),
    Note(ONE, 1, FIRST + 3, NOTE_RETURNS, {FIRST: 1, FIRST + 1: 3, FIRST + 2: 1}),
    Note(ONE, 1, FIRST + 4, NOTE_RETURNS, {FIRST + 2: 0}),
    Note(ONE, 1, FIRST + 5, NOTE_DEAD, {FIRST + 1: 4}),
    Group(TWO, 2, []),
    Group(
        ONE,
        1,
        [
            Settle(ONE, 1, FIRST + 6, [(FIRST, FIRST)]),
            Enqueue(ONE, 1, FIRST + 7, NORTH, 4, False, bodies("four")),
        ],
    ),
]


#: Likewise, of what was seen.
SEEN = GOLDEN / "journal-v1-seen.journal"
LAST_WORD = Seen(ONE, 1, FIRST + 4, 2**40, [(0, FIRST), (FIRST + 2, FIRST + 2)])
SEEN_CONTENT: list[Record] = [
    BEGINNING,
    LAST_WORD,
    Seen(TWO, 2**64 - 1, 2**64 - 1, 2**64 - 1, []),
    Settle(ONE, 1, FIRST + 5, [(FIRST, FIRST)]),
]


#: Likewise, of what is reserved for readers of queues.
RESERVED = GOLDEN / "journal-v1-reserved.journal"
RESERVED_CONTENT: list[Record] = [
    BEGINNING,
    Group(
        ONE, 1,
        [
            Note(ONE, 1, FIRST + 3, NOTE_RESERVED, {FIRST: 1 << 40 | 7, FIRST + 1: 1 << 40 | 7}),
            Readers(ONE, 1, FIRST + 3, True, {"spark": 1 << 40 | 6}),
        ],
    ),
    Readers(ONE, 1, FIRST + 3, True, {"spark": 1 << 40 | 7}),
    Group(ONE, 1, [Settle(ONE, 1, FIRST + 4, [(FIRST, FIRST)])]),
    Group(ONE, 1, [Note(ONE, 1, FIRST + 5, NOTE_RESERVED, {FIRST + 2: 2 << 40 | 1})]),
]  # fmt: skip
#: Likewise, of named readers of streams.
NAMED = GOLDEN / "journal-v1-readers.journal"
NAMED_CONTENT: list[Record] = [
    BEGINNING,
    Readers(ONE, 1, FIRST + 4, False, {"app": FIRST + 2, "ü" * 127: 2**64 - 1, "": 1}),
    Readers(ONE, 1, FIRST + 4, False, {"app": FIRST + 3, "": 0}),
    Readers(TWO, 2**64 - 1, 2**64 - 1, False, {"a": 7}),
    Readers(TWO, 1, 9, True, {"b": 8}),
    Readers(TWO, 1, 9, True, {}),
]


#: Likewise, of publishers with names.
PUBLISHERS = GOLDEN / "journal-v1-publishers.journal"
PUBLISHERS_CONTENT: list[Record] = [
    BEGINNING,
    Group(
        ONE,
        1,
        [
            Enqueue(ONE, 1, FIRST + 9, NORTH, 7, False, bodies("named")),
            Publishers(ONE, 1, FIRST + 9, SOME, {"sink": PublisherMark(2**63 - 1)}),
        ],
    ),
    Publishers(ONE, 1, FIRST + 9, ALL, {"sink": PublisherMark(9, pack_ranges([(3, 3), (5, 7)]))}),
    Group(
        TWO,
        2,
        [Keep(TWO, 2, 9, []), Publishers(TWO, 2, 9, SURE, {"ü" * 127: PublisherMark(1)})],
    ),
    Publishers(TWO, 2**64 - 1, 2**64 - 1, ALL, {}),
]


#: Likewise, of a checkpoint that begins at segment 7, and leftovers of another one.
CHECKPOINTED = GOLDEN / "journal-v1-checkpoint.journal"
CHECKPOINT_CONTENT: list[Record] = [
    Settle(ONE, 1, FIRST + 8, [(FIRST + 2, FIRST + 2)]),
    Standing(ONE, 1, 7, FIRST + 9, True, {NORTH: 4, SOUTH: 2**63}),
    LAST_WORD,
    Live(ONE, 1, 7, [(FIRST + 1, FIRST + 1), (FIRST + 4, FIRST + 4)]),
    Group(
        ONE,
        1,
        [
            Live(ONE, 1, 7, [(FIRST + 3, FIRST + 3)]),
            Note(ONE, 1, FIRST + 9, NOTE_RETURNS, {FIRST + 3: 2}),
        ],
    ),
    Standing(TWO, 2, 7, FIRST, False, {}),
    Live(TWO, 2, 6, [(FIRST, FIRST + 99)]),
    Checkpoint(FragmentId(0), 0, 7),
    Standing(TWO, 2, 8, FIRST + 100, True, {}),
]


@pytest.fixture(scope="module")
def golden() -> bytes:
    return (GOLDEN / "journal-v1.journal").read_bytes()


def test_the_golden_segment_still_reads(golden: bytes) -> None:
    assert list(decode(golden)) == CONTENT


def test_version_1_is_still_written_alike(golden: bytes) -> None:
    assert encode_all(CONTENT) == golden


def test_the_golden_segment_still_means_the_same(golden: bytes) -> None:
    assert recover({1: golden}).fragments == {
        ONE: RecoveredFragment(
            {first_position(3) + 1: message("four")},
            first_position(3) + 1,
            3,
            {NORTH: 4},
            whole=False,
        ),
        TWO: RecoveredFragment(
            {
                FIRST + 1: message("older"),
                FIRST + 5: message("newer"),
                FIRST + 9: message("newest"),
            },
            first_position(2),
            2,
            {NORTH: 9, SOUTH: 2**63},
        ),
    }


def test_the_golden_notes_still_read_and_are_still_written_alike() -> None:
    golden = NOTED.read_bytes()
    assert list(decode(golden)) == NOTED_CONTENT
    assert encode_all(NOTED_CONTENT) == golden


def test_the_golden_times_of_a_stream_still_read_and_are_still_written_alike() -> None:
    golden = TIMED.read_bytes()
    assert list(decode(golden)) == TIMED_CONTENT
    assert encode_all(TIMED_CONTENT) == golden
    found = recover({1: golden}).fragments[ONE]
    assert found.notes == {NOTE_CAME: {FIRST + 3: 3_600_000_001_001}}


def test_the_golden_notes_still_mean_the_same() -> None:
    fragments = recover({1: NOTED.read_bytes()}).fragments
    assert fragments[ONE] == RecoveredFragment(
        {FIRST + 1: message("two"), FIRST + 2: message("three"), FIRST + 7: message("four")},
        FIRST + 7,
        1,
        {NORTH: 4},
        {
            NOTE_EXPIRES: {FIRST + 2: 1_800_000_000_000},
            NOTE_DUE: {FIRST + 1: 1_800_000_000_001},
            NOTE_RETURNS: {FIRST + 1: 3},
            NOTE_DEAD: {FIRST + 1: 4},
        },
    )
    assert TWO not in fragments


def test_the_golden_last_words_still_read_and_are_still_written_alike() -> None:
    golden = SEEN.read_bytes()
    assert list(decode(golden)) == SEEN_CONTENT
    assert encode_all(SEEN_CONTENT) == golden
    assert recover({1: golden}).fragments[ONE].seen == LAST_WORD


def test_the_golden_reservations_still_read_and_are_still_written_alike() -> None:
    golden = RESERVED.read_bytes()
    assert list(decode(golden)) == RESERVED_CONTENT
    assert encode_all(RESERVED_CONTENT) == golden
    found = recover({1: golden}).fragments[ONE]
    assert found.notes == {NOTE_RESERVED: {FIRST + 1: 1 << 40 | 7, FIRST + 2: 2 << 40 | 1}}
    assert found.readers == {"spark": 1 << 40 | 7}


def test_the_golden_places_of_readers_still_read_and_are_still_written_alike() -> None:
    golden = NAMED.read_bytes()
    assert list(decode(golden)) == NAMED_CONTENT
    assert encode_all(NAMED_CONTENT) == golden
    found = recover({1: golden}).fragments
    assert found[ONE].readers == {"app": FIRST + 3, "ü" * 127: 2**64 - 1}
    assert found[TWO].readers == {}


def test_the_golden_marks_of_publishers_still_read_and_are_still_written_alike() -> None:
    golden = PUBLISHERS.read_bytes()
    assert list(decode(golden)) == PUBLISHERS_CONTENT
    assert encode_all(PUBLISHERS_CONTENT) == golden
    found = recover({1: golden}).fragments
    assert found[ONE].publishers == {"sink": PublisherMark(9, pack_ranges([(3, 3), (5, 7)]))}
    assert found[TWO].publishers == {"ü" * 127: PublisherMark(1)}


def test_the_golden_checkpoint_still_reads_and_is_still_written_alike() -> None:
    golden = CHECKPOINTED.read_bytes()
    assert list(decode(golden)) == CHECKPOINT_CONTENT
    assert encode_all(CHECKPOINT_CONTENT) == golden


def test_the_golden_checkpoint_still_means_the_same() -> None:
    """What is alive is found in an older segment, wherever that stands and whatever is missing."""
    older = encode_all([Enqueue(ONE, 1, FIRST + 1, NORTH, 1, False, bodies("a", "b", "c", "d"))])
    recovered = recover({2: older, 7: CHECKPOINTED.read_bytes()})
    assert recovered.checkpoint == 7
    assert recovered.fragments[ONE] == RecoveredFragment(
        {FIRST + 1: message("a"), FIRST + 3: message("c"), FIRST + 4: message("d")},
        FIRST + 9,
        1,
        {NORTH: 4, SOUTH: 2**63},
        {NOTE_RETURNS: {FIRST + 3: 2}},
        seen=LAST_WORD,
    )
    assert recovered.fragments[TWO] == RecoveredFragment({}, FIRST, 2, whole=False)


def test_the_golden_marks_still_read_and_are_still_written_alike() -> None:
    golden = MARKED.read_bytes()
    record = encode_all(CONTENT[:1])
    head = encode_mark(Mark(0x1122334455667788, 1, 0))
    mark = encode_mark(Mark(0x1122334455667788, 1, len(head) + len(record)))
    assert golden == head + record + mark
    assert [located.record for located in read(golden)] == [
        Mark(0x1122334455667788, 1, 0), CONTENT[0],
        Mark(0x1122334455667788, 1, len(head) + len(record)),
    ]  # fmt: skip
