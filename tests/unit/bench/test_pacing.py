"""A schedule that does not slip."""

from hypothesis import given
from hypothesis import strategies as st

from fedq.bench.pacing import Pace

RATES = st.floats(1.0, 1e6)


@given(RATES, st.integers(0, 100_000))
def test_a_message_is_due_from_its_time_on(rate: float, number: int) -> None:
    pace = Pace(rate, 1_000)
    at = pace.time_of(number)
    assert pace.due(at + 2) >= number + 1
    assert pace.due(at - 2) <= number


@given(RATES, st.integers(0, 10**10), st.integers(0, 10**10))
def test_more_time_is_never_fewer_messages(rate: float, one: int, other: int) -> None:
    pace = Pace(rate, 0)
    assert pace.due(min(one, other)) <= pace.due(max(one, other))


def test_nothing_is_due_before_the_start_and_one_message_at_it() -> None:
    pace = Pace(1_000.0, 5_000_000)
    assert pace.due(4_999_999) == 0
    assert pace.due(5_000_000) == 1
    assert pace.due(5_999_999) == 1
    assert pace.due(6_000_000) == 2
    assert pace.time_of(1) == 6_000_000
