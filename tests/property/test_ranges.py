"""Ranges of positions against plain sets."""

from hypothesis import given
from hypothesis import strategies as st

from fedq.core.ranges import Range, from_ranges, is_in, join_overlapping, minus, overlaps, to_ranges

ranges = st.lists(
    st.tuples(st.integers(1, 30), st.integers(0, 6)).map(lambda each: (each[0], sum(each))),
    max_size=6,
)
disjoint = st.sets(st.integers(1, 40)).map(lambda positions: to_ranges(sorted(positions)))


@given(disjoint, ranges)
def test_what_is_left_of_ranges(here: list[Range], gone: list[Range]) -> None:
    left = set(from_ranges(here)) - set(from_ranges(gone))
    assert list(from_ranges(minus(here, gone))) == sorted(left)


@given(disjoint, ranges)
def test_what_is_in_both(here: list[Range], others: list[Range]) -> None:
    both = set(from_ranges(here)) & set(from_ranges(others))
    assert list(from_ranges(overlaps(here, others))) == sorted(both)


@given(ranges)
def test_ranges_that_overlap_become_one(many: list[Range]) -> None:
    assert join_overlapping(many) == to_ranges(sorted(set(from_ranges(many))))


@given(disjoint, st.integers(0, 45))
def test_whether_a_position_is_in_ranges(here: list[Range], position: int) -> None:
    assert is_in(here, position) == (position in from_ranges(here))
