"""Format version 1 for ever: what was written when it was new still reads, and is still written."""

from pathlib import Path

import pytest

from fedq.core.ids import first_position
from fedq.journal.decoding import decode
from fedq.journal.records import Copy, Drop, Enqueue, Keep, Record, Reset, Settle
from fedq.journal.recovery import RecoveredFragment, recover
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

GOLDEN = Path(__file__).parents[2] / "golden" / "journal-v1.journal"
FIRST = first_position(1) + 1

#: What is in the golden file. Never changed: a new format gets a new file beside it.
CONTENT: list[Record] = [
    Enqueue(ONE, 1, FIRST, NORTH, 1, False, bodies("one", "two", "three")),
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


@pytest.fixture(scope="module")
def golden() -> bytes:
    return GOLDEN.read_bytes()


def test_the_golden_segment_still_reads(golden: bytes) -> None:
    assert list(decode(golden)) == CONTENT


def test_version_1_is_still_written_alike(golden: bytes) -> None:
    assert encode_all(CONTENT) == golden


def test_the_golden_segment_still_means_the_same(golden: bytes) -> None:
    assert recover([(1, golden)]).fragments == {
        ONE: RecoveredFragment(
            {first_position(3) + 1: message("four")}, first_position(3) + 1, 3, {NORTH: 4}
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
