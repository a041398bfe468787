"""The positions of a copy are found, and summed up, in pieces: what comes of it is the same."""

import random
from array import array
from collections.abc import Iterator
from zlib import crc32

from fedq.core.ranges import from_ranges, to_ranges
from fedq.core.work import Work
from fedq.fragments.copy.positions import PER_UNIT, Checksum, Positions

WORK = 20
COUNT = 5_000


class Looked(dict[int, bytes]):
    """Counts how many positions somebody has looked at."""

    looks = 0

    def __iter__(self) -> Iterator[int]:
        for position in super().__iter__():
            self.looks += 1
            yield position


def positions_of_a_copy() -> list[int]:
    """Newest first, in chunks, with gaps, as a copy comes."""
    chosen = sorted(random.Random(7).sample(range(1, 2 * COUNT), COUNT))
    chunks = [chosen[at : at + 100] for at in range(0, COUNT, 100)]
    return [position for chunk in reversed(chunks) for position in chunk]


def test_positions_in_any_order_become_ranges_piece_by_piece() -> None:
    found = positions_of_a_copy()
    table = Looked((position, b"") for position in found)
    work = Work(WORK)
    positions = Positions(table, [(2 * COUNT, 2 * COUNT + 999), (3 * COUNT, 3 * COUNT)])
    done, turns = False, 0
    while not done:
        work.begin_turn()
        before = table.looks
        done = positions.go_on(work)
        assert table.looks - before <= (WORK + 1) * PER_UNIT
        turns += 1
    assert turns >= COUNT // (WORK * PER_UNIT)
    wanted = to_ranges([*sorted(found), *range(2 * COUNT, 2 * COUNT + 1_000), 3 * COUNT])
    assert positions.ranges == wanted


def test_a_checksum_is_the_same_in_pieces_and_at_once() -> None:
    ranges = [*to_ranges(sorted(positions_of_a_copy())), (1 << 40, (1 << 40) + 4_999)]
    all_positions = array("Q", from_ranges(ranges))
    work = Work(WORK)
    checksum = Checksum(ranges)
    done, turns = False, 0
    while not done:
        work.begin_turn()
        before = checksum.count
        done = checksum.go_on(work)
        assert checksum.count - before <= (WORK + 1) * PER_UNIT
        turns += 1
    assert turns > 1
    assert (checksum.count, checksum.value) == (len(all_positions), crc32(all_positions))


def test_a_copy_of_nothing_has_no_positions() -> None:
    positions = Positions({})
    assert positions.go_on(Work(1))
    checksum = Checksum(positions.ranges)
    assert checksum.go_on(Work(1))
    assert (positions.ranges, checksum.count, checksum.value) == ([], 0, 0)
