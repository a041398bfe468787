"""Percentiles of latencies, against sorting them."""

from hypothesis import given
from hypothesis import strategies as st

from fedq.bench.histogram import MICROSECONDS_MAX, Histogram

VALUES = st.integers(0, 300) | st.integers(0, MICROSECONDS_MAX)


@given(st.lists(VALUES, min_size=1, max_size=60), st.sampled_from((0.01, 0.5, 0.9, 0.99, 1.0)))
def test_a_percentile_is_within_one_percent_of_the_true_one(
    values: list[int], share: float
) -> None:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    wanted = share * len(values)
    true = next(value for at, value in enumerate(sorted(values), 1) if at >= wanted)
    assert abs(histogram.percentile(share) - true) <= true * 0.01
    assert histogram.max == max(values)
    assert histogram.count == len(values)


@given(st.lists(VALUES, max_size=20), st.lists(VALUES, max_size=20))
def test_histograms_add(first: list[int], second: list[int]) -> None:
    one, other, both = Histogram(), Histogram(), Histogram()
    for value in first:
        one.record(value)
        both.record(value)
    for value in second:
        other.record(value)
        both.record(value)
    one.add(other)
    assert one.summary() == both.summary()


def test_times_are_counted_in_bulk() -> None:
    histogram = Histogram()
    histogram.record_since([1_000, 1_000, 5_000], 101_000)
    assert histogram.summary() == {
        "p50": 100, "p90": 100, "p99": 100, "p999": 100, "max": 100, "count": 3,
    }  # fmt: skip
    assert histogram.percentile(0.01) == 96


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=30), st.integers(1, 5))
def test_many_moments_are_counted_in_bulk(moments: list[int], count: int) -> None:
    one, other = Histogram(), Histogram()
    one.record_each(0, sorted(moments), count)
    for moment in moments:
        other.record(moment // 1_000, count)
    assert one.summary() == other.summary()


def test_an_empty_one_says_zero() -> None:
    summary = Histogram().summary()
    assert set(summary.values()) == {0}


def test_what_is_beyond_counts_as_the_longest_and_a_clock_that_went_back_as_zero() -> None:
    histogram = Histogram()
    histogram.record(MICROSECONDS_MAX * 4)
    histogram.record(-5)
    assert histogram.max == MICROSECONDS_MAX
    assert histogram.percentile(0.5) == 0
