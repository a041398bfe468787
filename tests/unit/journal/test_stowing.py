"""What a start takes into memory of long queues, and what it leaves on the disk."""

import errno
import tracemalloc

from fedq.core.ids import FragmentId
from fedq.journal.events import Standing
from fedq.journal.indexes import OPENING_BYTES, encode_index
from fedq.journal.records import (
    encode_checkpoint,
    encode_copy,
    encode_enqueue,
    encode_live,
    encode_settle,
    encode_standing,
)
from fedq.journal.recovery import salvage
from fedq.journal.sources import InMemory
from tests.unit.journal.samples import NORTH, ONE, TWO, message

THREE = FragmentId(3)


def enqueue(fragment: FragmentId, first: int, count: int, size: int = 10) -> bytes:
    messages = [message("x" * size)] * count
    return encode_enqueue(fragment, 1, first, NORTH, first, messages)


def test_the_oldest_are_taken_and_the_rest_is_ranges() -> None:
    each = len(message("x" * 10))
    data = enqueue(ONE, 1, 10) + encode_settle(ONE, 1, 11, [(4, 5)]) + enqueue(ONE, 12, 3)
    fragment = salvage({1: data}, 2 * each).fragments[ONE]
    assert list(fragment.messages) == [1, 2]
    assert [(first, last) for first, last, _ in fragment.stowed] == [(3, 3), (6, 10), (12, 14)]
    assert fragment.size >= 2 * each + 9 * each
    fragment = salvage({1: data}, 4 * each).fragments[ONE]
    assert list(fragment.messages) == [1, 2, 3, 6]
    fragment = salvage({1: data}, 0).fragments[ONE]
    assert not fragment.messages
    fragment = salvage({1: data}, 99 * each).fragments[ONE]
    assert len(fragment.messages) == 11
    assert not fragment.stowed


def test_what_it_takes_is_about_right() -> None:
    each = len(message("x" * 500))
    data = enqueue(ONE, 1, 20, 500) + enqueue(TWO, 21, 200, 50) + enqueue(ONE, 221, 20, 500)
    found = salvage({1: data}, 0).fragments
    taken = sum(bytes_ for _, _, bytes_ in found[ONE].stowed)
    assert 40 * each <= taken <= 1.1 * 40 * each
    assert len(found[TWO].stowed) == 1


def test_each_fragment_has_its_fair_share() -> None:
    each = len(message("x" * 10))
    data = enqueue(ONE, 1, 100) + enqueue(TWO, 101, 2) + enqueue(THREE, 103, 100)
    found = salvage({1: data}, 22 * each).fragments
    assert [len(found[number].messages) for number in (ONE, TWO, THREE)] == [10, 2, 10]


def test_copies_are_found_before_what_they_are_copies_of() -> None:
    data = enqueue(ONE, 1, 3)
    copy = encode_copy(ONE, 1, [1, 3], [message("x" * 10)] * 2, {})
    recovered = salvage({1: data, 2: copy}, 0)
    assert [(first, last) for first, last, _ in recovered.fragments[ONE].stowed] == [(1, 3)]
    assert recovered.segments[1].places.copies_at(ONE, 3, 2)


class BadSector(InMemory):
    """The first segment has an index, and bodies that the disk fails to read."""

    def __init__(self, segments: dict[int, bytes]) -> None:
        super().__init__(segments)
        self.fails = False
        [segment] = salvage({1: segments[1]}, 0).segments
        self._index = encode_index(segment, len(segments[1]), segments[1][:OPENING_BYTES])

    def index(self, number: int) -> bytes | None:
        return self._index if number == 1 else None

    def piece(self, number: int, offset: int, length: int) -> bytes:
        if self.fails and number == 1 and offset + length > OPENING_BYTES:
            raise OSError(errno.EIO, "Input/output error")
        return super().piece(number, offset, length)


def test_a_body_that_the_disk_fails_to_read_stays_on_the_disk() -> None:
    """A start need not have it: whoever wants it is told then; others may have it."""
    standing = encode_standing(Standing(ONE, 1, 2, 100, True, {NORTH: 100}))
    checkpoint = standing + encode_live(ONE, 1, 2, [(1, 100)]) + encode_checkpoint(2)
    source = BadSector({1: enqueue(ONE, 1, 100), 2: checkpoint})
    assert len(salvage(source, 1 << 20).fragments[ONE].messages) == 100
    source.fails = True
    fragment = salvage(source, 1 << 20).fragments[ONE]
    assert not fragment.messages
    assert [(first, last) for first, last, _ in fragment.stowed] == [(1, 100)]


def test_a_body_that_the_disk_fails_to_read_is_taken_from_another_place() -> None:
    standing = encode_standing(Standing(ONE, 1, 3, 100, True, {NORTH: 100}))
    checkpoint = standing + encode_live(ONE, 1, 3, [(1, 100)]) + encode_checkpoint(3)
    copy = encode_copy(ONE, 1, [1, 2, 3], [message("x" * 10)] * 3, {})
    source = BadSector({1: copy, 2: enqueue(ONE, 1, 100), 3: checkpoint})
    source.fails = True
    fragment = salvage(source, 1 << 20).fragments[ONE]
    assert len(fragment.messages) == 100
    assert not fragment.stowed


def test_twenty_million_live_messages_are_a_few_ranges_in_memory() -> None:
    """What a checkpoint calls alive, and is not there, is lost; it is ranges all the same."""
    million = 1_000_000
    live = b"".join(
        encode_live(ONE, 1, 1, [(at * million + 1, (at + 1) * million)]) for at in range(20)
    )
    standing = encode_standing(Standing(ONE, 1, 1, 20 * million, True, {NORTH: 1}))
    data = standing + live + enqueue(ONE, 20 * million + 1, 5) + encode_checkpoint(1)
    tracemalloc.start()
    try:
        recovered = salvage({1: data}, 0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert recovered.lost == {ONE: [(1, 20 * million)]}
    assert [each[:2] for each in recovered.fragments[ONE].stowed] == [
        (20 * million + 1, 20 * million + 5)
    ]
    assert peak < 1 << 20
