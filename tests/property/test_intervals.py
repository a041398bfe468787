"""Intervals that change everywhere, against a set of positions."""

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from fedq.core.ranges import to_ranges
from fedq.journal import intervals
from fedq.journal.intervals import Intervals

RANGES = st.tuples(st.integers(0, 80), st.integers(0, 9)).map(lambda pair: (pair[0], sum(pair)))


@given(
    st.lists(st.tuples(st.sampled_from(["add", "add", "remove"]), RANGES), max_size=60),
    RANGES,
    st.sampled_from([2, 3, 1_024]),
)
def test_they_say_what_a_set_would(
    changes: list[tuple[str, tuple[int, int]]], asked: tuple[int, int], block: int
) -> None:
    model: set[int] = set()
    found = Intervals()
    with patch.object(intervals, "_BLOCK_MAX", block):
        for change, (first, last) in changes:
            if change == "add":
                found.add(first, last)
                model |= set(range(first, last + 1))
            else:
                found.remove(first, last)
                model -= set(range(first, last + 1))
            assert list(found) == to_ranges(sorted(model))
            assert found.count() == len(model)
            assert bool(found) == bool(model)
    assert [position in found for position in range(100)] == [p in model for p in range(100)]
    for position in range(-1, 100):
        beyond = to_ranges(p for p in sorted(model) if p > position)
        assert found.after(position) == (beyond[0] if beyond else None)
    first, last = asked
    assert found.within(first, last) == to_ranges(p for p in sorted(model) if first <= p <= last)


def test_many_ranges_stay_cheap() -> None:
    found = Intervals()
    for first in range(0, 200_000, 4):
        found.add(first, first + 1)
    for first in range(0, 100_000, 4):
        found.remove(first, first)
    assert found.count() == 75_000
    assert found.within(99_996, 100_001) == [(99_997, 99_997), (100_000, 100_001)]
