"""Sizes by position, and the bytes of a line's bodies, in memory and on disk alone."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.core.message import body_size
from fedq.fragments.runs.sized import SizedFresh, Sizes
from tests.unit.journal.samples import message

acts = st.lists(
    st.tuples(st.booleans(), st.integers(0, 12), st.lists(st.integers(0, 9), max_size=9)),
    max_size=20,
)


@settings(deadline=None)
@given(acts=acts, first=st.integers(0, 80), most=st.integers(0, 20), size=st.integers(0, 40))
def test_sizes_are_those_of_a_dict(
    acts: list[tuple[bool, int, list[int]]], first: int, most: int, size: int
) -> None:
    sizes, plain, end = Sizes(), dict[int, int](), 0
    for comes, number, values in acts:
        if comes and values:
            end += number % 3
            sizes.add(end, values)
            plain.update(enumerate(values, end))
            end += len(values)
        else:
            last = number + len(values)
            gone = [plain.pop(p) for p in range(number, last + 1) if p in plain]
            assert sizes.take(number, last) == (len(gone), sum(gone))
        assert sizes.count == len(plain)
    count, left = 0, size
    while left > 0 and count < most and first + count in plain:
        left -= plain[first + count]
        count += 1
    assert sizes.enough(first, most, size) == count
    assert sizes.take(0, 1_000) == (len(plain), sum(plain.values()))


def test_sizes_are_kept_in_pieces() -> None:
    sizes = Sizes()
    for first in range(0, 20_000, 100):
        sizes.add(first, [1] * 100)
    assert sizes.enough(50, 15_000, 1 << 30) == 15_000
    assert sizes.take(4_000, 9_999) == (6_000, 6_000)
    assert sizes.enough(0, 20_000, 1 << 30) == 4_000


def test_what_was_left_on_disk_counts_as_rather_less_until_it_is_read() -> None:
    line = SizedFresh()
    bodies = [message(f"{number}{'x' * 500}") for number in range(20)]
    total = sum(map(len, bodies))
    line.add_stowed(1, 20, total + 20 * 30)
    assert line.body_bytes == 0, "nothing is known of their heads"
    line.fill({1: bodies[0], 2: bodies[1]})
    line.check()
    exact = sum(map(body_size, bodies))
    assert 0.8 * exact < line.body_bytes <= exact
    line.forget_stowed(10, 14)
    line.check()
    assert line.body_bytes <= exact - sum(map(body_size, bodies[9:14]))
    line.fill(dict(enumerate(bodies, 1)))
    line.check()
    assert line.body_bytes == exact - sum(map(body_size, bodies[9:14]))
    # What leaves memory again is known.
    line.stow(20, 0)
    line.check()
    assert line.stowed_count == 15
    assert line.body_bytes == exact - sum(map(body_size, bodies[9:14]))
    assert line.index_bytes == 60
    assert line.enough_unread(15, 1_000) == 2
