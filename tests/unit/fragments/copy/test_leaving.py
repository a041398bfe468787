"""What may leave memory of a copy does, wherever it stands behind what stays."""

from collections.abc import Iterable

from fedq.core.ids import FragmentId
from fedq.core.message import FLAG_SEEN, with_flag
from fedq.core.ranges import count
from fedq.fragments.copy.leaving import Leaving
from fedq.fragments.replica import Replica
from fedq.journal.records import (
    NOTE_RETURNS,
    encode_copy,
    encode_enqueue,
    encode_note,
    encode_settle,
)
from tests.unit.journal.samples import NORTH, message

ONE = FragmentId(1)
LOOK = 5


def copied(first: int, last: int, persistent: bool) -> bytes:
    positions = range(first, last + 1)
    return encode_copy(ONE, 1, positions, [message(f"{p}", persistent) for p in positions], {})


def stowed(replica: Replica) -> int:
    return count(list(replica.stowed.ranges()))


def stow_all(replica: Replica, calls: int) -> None:
    mark = replica.mark()
    for _ in range(calls):
        replica.stow(mark, LOOK)


def test_those_kept_singly_go_behind_many_that_stay() -> None:
    replica = Replica(ONE, durable=True)
    replica.apply(copied(1, 100, persistent=False))
    replica.apply(copied(101, 200, persistent=True))
    stow_all(replica, 200 // LOOK)
    assert stowed(replica) == 100
    # What comes later is not on disk when the mark is set; then it goes at once.
    mark = replica.mark()
    replica.apply(copied(201, 203, persistent=True))
    replica.stow(mark, LOOK)
    assert stowed(replica) == 100
    replica.stow(replica.mark(), LOOK)
    assert stowed(replica) == 103


def test_what_a_note_keeps_here_goes_with_the_note() -> None:
    replica = Replica(ONE, durable=True)
    replica.apply(copied(1, 20, persistent=True))
    replica.apply(encode_note(ONE, 1, 21, NOTE_RETURNS, {3: 1, 4: 2}))
    stow_all(replica, 10)
    assert list(replica.singles) == [3, 4]
    replica.apply(encode_note(ONE, 1, 22, NOTE_RETURNS, {4: 0}))
    replica.stow(replica.mark(), LOOK)
    assert list(replica.singles) == [3]


def batches(
    replica: Replica, first: int, number: int, kinds: Iterable[bool], flags: int = 0
) -> int:
    """So many records, each with messages of these kinds; returns the next position."""
    kinds = list(kinds)
    for _ in range(number):
        messages = [with_flag(message(f"{first}", persistent), flags) for persistent in kinds]
        replica.apply(encode_enqueue(ONE, 1, first, NORTH, first, messages))
        first += len(kinds)
    return first


def test_records_go_behind_many_that_stay() -> None:
    replica = Replica(ONE, durable=True)
    seen = batches(replica, 1, 50, [True, False], FLAG_SEEN)
    batches(replica, seen, 50, [True, True])
    stow_all(replica, 100 // LOOK)
    assert stowed(replica) == 100
    assert [batch.first for batch in replica.batches()] == list(range(1, seen, 2))
    # Some in front go, and more come behind.
    replica.apply(encode_settle(ONE, 1, 300, [(1, 60)]))
    batches(replica, 301, 3, [True])
    stow_all(replica, 2)
    assert stowed(replica) == 103
    assert [batch.first for batch in replica.batches()] == list(range(61, seen, 2))
    assert replica.oldest_persistent() == 61


def test_of_records_with_both_kinds_the_persistent_go_though_they_stand_behind_others() -> None:
    replica = Replica(ONE, durable=True)
    seen = batches(replica, 1, 50, [True], FLAG_SEEN)
    after = batches(replica, seen, 20, [True, False])
    stow_all(replica, 70 // LOOK)
    assert stowed(replica) == 0
    stow_all(replica, 40 // LOOK)
    assert list(replica.stowed.ranges()) == [(p, p) for p in range(seen, after, 2)]
    assert list(replica.singles) == list(range(seen + 1, after, 2))


def test_what_is_to_be_written_is_found_behind_many_that_are_not() -> None:
    replica = Replica(ONE, durable=True)
    mixed = batches(replica, 1, 50, [True, False])
    batches(replica, mixed, 10, [False])
    found: dict[int, bytes] = {}
    for _ in range(60 // LOOK):
        found |= (part := replica.for_scratch(1_000, LOOK))
        if part:
            assert replica.scratch(sorted(part)) == len(part)
    assert list(found) == list(range(mixed, mixed + 10))
    singly = Replica(ONE, durable=True)
    singly.apply(copied(1, 50, persistent=True))
    singly.apply(copied(51, 60, persistent=False))
    singly.apply(encode_note(ONE, 1, 61, NOTE_RETURNS, {55: 1}))
    found = {}
    for _ in range(61 // LOOK + 3):
        # As long as they are not written they are told again.
        before = singly.for_scratch(1_000, LOOK)
        part = singly.for_scratch(1_000, LOOK)
        assert before.items() <= part.items()
        found |= part
        if part:
            assert singly.scratch(sorted(part)) == len(part)
    # One of which something is noted stays, so it is not written, either.
    assert sorted(found) == [*range(51, 55), *range(56, 61)]


def test_what_comes_and_goes_leaves_nothing_behind() -> None:
    replica = Replica(ONE, durable=True)
    for first in range(1, 40_001, 20):
        replica.apply(copied(first, first + 19, persistent=True))
        replica.apply(encode_settle(ONE, 1, first + 19, [(first, first + 19)]))
    here = Leaving()
    for position in range(10_000):
        here.add([position], {})
    assert len(here.take(10_000)) < 2_000
    assert len(replica._to_stow.take(1 << 20)) < 2_000
