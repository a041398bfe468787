"""The page of a stream's traffic, of a summary made by hand."""

from hypothesis import given
from hypothesis import strategies as st

from fedq.pipeline.jobs.traffic.page import page_of
from fedq.pipeline.jobs.traffic.summary import (
    POINTS_MAX,
    STEPS,
    Key,
    Sizes,
    Step,
    Summary,
    step_for,
)
from fedq.pipeline.pages.page import html_of

BEGIN_S = 1_700_000_040


def summary_of(exchanges: int) -> Summary:
    names = [f"x{number:02d}" for number in range(exchanges)]
    steps = [Step(BEGIN_S + 60 * n, name, n + 1, 10) for n in range(3) for name in names]
    return Summary(
        "events", BEGIN_S, BEGIN_S + 120, BEGIN_S + 60, 6 * exchanges, 30 * exchanges, 1, 4, 1,
        tuple(steps), ((BEGIN_S, Sizes(10, 20, 30, 40)),), tuple((name, 6, 30) for name in names),
        (Key("x00", "a.<b>", 6, 30),), 2,
    )  # fmt: skip


def test_exchanges_beyond_the_colours_are_one_line() -> None:
    found = html_of(page_of(summary_of(12), BEGIN_S + 500))
    assert "(others), 2023-11-14 22:15:00 UTC: 10" in found
    assert "x06, 2023-11-14 22:15:00 UTC: 2" in found
    assert "x07, " not in found
    assert "(others)" not in html_of(page_of(summary_of(8), BEGIN_S))


def test_the_page_says_what_is_complete_and_what_is_not_listed() -> None:
    found = html_of(page_of(summary_of(1), BEGIN_S + 500))
    assert "Minutes before 2023-11-14 22:15:00 UTC are complete." in found
    assert "A key that is not listed has 2 messages at most." in found
    assert "a.&lt;b&gt;" in found


@given(st.integers(0, 2**31), st.integers(0, 86_400 * 3_650))
def test_a_chart_has_a_bounded_number_of_steps(begin_s: int, span_s: int) -> None:
    minutes = step_for(begin_s, begin_s + span_s)
    assert minutes in STEPS
    assert span_s // 60 / minutes <= POINTS_MAX
