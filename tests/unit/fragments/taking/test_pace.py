"""What is left for the consumers at hand: by what they took lately."""

from hypothesis import given
from hypothesis import strategies as st

from fedq.fragments.taking.pace import LEAST_PER_WINDOW, WINDOW_MS, Pace

START_MS = 1_000


def after(windows: int) -> int:
    """So many windows after the start."""
    return START_MS + windows * WINDOW_MS


def test_nothing_is_left_before_a_window_is_over() -> None:
    pace = Pace(START_MS)
    pace.note(10_000, after(1) - 1)
    assert pace.soon() == 0
    pace.note(0, after(1))
    assert pace.soon() == 10_000


def test_what_was_taken_over_several_windows_counts_by_the_window() -> None:
    pace = Pace(START_MS)
    pace.note(1_000, after(4))
    assert pace.soon() == 250


def test_slow_consumers_are_not_waited_for() -> None:
    pace = Pace(START_MS)
    pace.note(LEAST_PER_WINDOW - 1, after(1))
    assert pace.soon() == 0
    pace.note(LEAST_PER_WINDOW, after(2))
    assert pace.soon() == LEAST_PER_WINDOW


def test_consumers_that_stop_are_believed_less_and_less() -> None:
    pace = Pace(START_MS)
    pace.note(800, after(1))
    assert [pace_after(pace, windows) for windows in (2, 3, 4, 5, 6)] == [400, 200, 100, 50, 0]


def pace_after(pace: Pace, windows: int) -> int:
    """What is left when nothing was taken since the last window."""
    pace.note(0, after(windows))
    return pace.soon()


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 120)), max_size=30))
def test_never_more_than_was_ever_taken_in_a_window_and_nothing_in_the_end(
    notes: list[tuple[int, int]],
) -> None:
    """Whatever the steps: (taken, milliseconds since the last note)."""
    pace, now_ms, total = Pace(START_MS), START_MS, 0
    for taken, passed_ms in notes:
        now_ms += passed_ms
        total += taken
        pace.note(taken, now_ms)
        assert 0 <= pace.soon() <= total
        assert pace.soon() == 0 or pace.soon() >= LEAST_PER_WINDOW
    pace.note(0, now_ms + 20 * WINDOW_MS)
    pace.note(0, now_ms + 40 * WINDOW_MS)
    assert pace.soon() == 0
