"""A page is one document that nothing from outside gets into, and charts show what is there."""

import math
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedq.pipeline.pages.charts import Axis, Bar, Series, bars, curves, lines
from fedq.pipeline.pages.numbers import (
    byte_size,
    clock,
    microseconds,
    moment,
    short,
    step_ms_for,
    ticks,
    time_ticks,
    whole,
)
from fedq.pipeline.pages.page import ROWS_MAX, Fact, Page, Section, Table, html_of

HOSTILE = "<script>alert(1)</script>\"'&"
finite = st.floats(-1e12, 1e12)


class Tags(HTMLParser):
    """The tags and attributes of a document."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.depth: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs


def page_of(*sections: Section) -> str:
    return html_of(Page(HOSTILE, HOSTILE, [Fact(HOSTILE, HOSTILE, True)], sections, HOSTILE))


def test_a_page_is_complete_in_itself_and_runs_nothing() -> None:
    chart = bars([Bar(HOSTILE, [3.0, 1.0], HOSTILE)], whole, [HOSTILE, "b"])
    chart += lines([Series(HOSTILE, [(0, 1.0), (60, 2.0)]), Series("b", [(0, 2.0)])], Axis(HOSTILE))
    found = page_of(Section(HOSTILE, HOSTILE, chart, Table([HOSTILE], [[HOSTILE]])))
    tags = Tags(found)
    assert not {"script", "link", "img", "iframe", "object"} & set(tags.names)
    assert not [name for name, _ in tags.attributes if name.startswith("on") or name == "src"]
    assert "default-src 'none'" in found
    assert "http://" not in found.replace("http-equiv", "")
    assert "prefers-color-scheme: dark" in found


def test_every_chart_is_well_formed_and_has_a_mark_for_each_value() -> None:
    drawn = lines([Series("a", [(0, 1.0), (60, None), (120, 3.0), (180, math.nan)])], Axis())
    tree = ElementTree.fromstring(drawn)
    assert len(tree.findall("circle")) == 2
    # A line has a hole where there is no value.
    assert len(tree.findall("polyline")) == 2
    titles = [each.findtext("title") for each in tree.findall("circle")]
    assert titles[0] == "a, 1970-01-01 00:00:00 UTC: 1"
    bar = ElementTree.fromstring(bars([Bar("k", [2.0]), Bar("m", [0.0])], whole))
    assert [each.findtext("title") for each in bar.findall("rect")] == ["k: 2", "m: 0"]


@given(st.lists(st.tuples(st.floats(0, 2e9), finite | st.none()), max_size=6), st.booleans())
@example([(0.0, 5e-324)], False)
def test_whatever_the_values_are_nothing_is_off_the_paper(
    points: list[tuple[float, float | None]], is_logarithmic: bool
) -> None:
    for drawn in (
        lines([Series("a", points)], Axis(is_logarithmic=is_logarithmic), fills=True),
        curves([Series("a", points)], Axis(), Axis(is_logarithmic=is_logarithmic)),
    ):
        if "<svg" not in drawn:
            assert all(value is None for _, value in points)
            continue
        for circle in ElementTree.fromstring(drawn).findall("circle"):
            assert -1 <= float(circle.attrib["cx"]) <= 861
            if not is_logarithmic:
                assert -1 <= float(circle.attrib["cy"]) <= 261


def test_a_long_table_is_cut_and_says_so() -> None:
    rows = [[each] for each in range(ROWS_MAX + 5)]
    found = page_of(Section("t", table=Table(["#N"], rows)))
    assert "5 further rows are in the job's files" in found
    assert found.count("<tr>") == ROWS_MAX + 1
    assert '<td class="n">1,999</td>' in found


@given(finite, finite)
def test_ticks_hold_what_lies_between_them(one: float, other: float) -> None:
    low, high = sorted((one, other))
    found = ticks(low, high)
    assert len(found) <= 9
    if high - low > 1e-3:
        grain = 1e-6 * (high - low)
        assert found[0] <= low + grain
        assert found[-1] >= high - grain


@given(st.integers(0, 4_000_000_000), st.integers(0, 100_000_000))
def test_ticks_of_time_are_few_and_within(low: int, span: int) -> None:
    found = time_ticks(low, low + span)
    assert len(found) <= 10
    assert all(low <= each <= low + span for each in found)


@pytest.mark.parametrize(("said", "expected"), [
    (whole(12_345.4), "12,345"), (short(0.0), "0"), (short(1_234), "1.23 k"), (short(5e6), "5 M"),
    (short(0.034), "0.034"), (byte_size(1_536), "1.54 kB"), (byte_size(900), "900 B"),
    (microseconds(850), "850 µs"), (microseconds(1_250), "1.25 ms"), (microseconds(2e6), "2 s"),
    (clock(0), "Jan 1"), (clock(3_660), "01:01"), (clock(3_661), "01:01:01"),
    (moment(86_400), "1970-01-02 00:00:00 UTC"),
])  # fmt: skip
def test_numbers_are_said_as_people_say_them(said: str, expected: str) -> None:
    assert said == expected


@given(st.integers(0, 10**14))
def test_a_chart_of_events_has_round_steps_and_few_of_them(span_ms: int) -> None:
    step = step_ms_for(span_ms)
    assert span_ms / step <= 240 or step == 86_400_000, "a day is the longest"
    assert step_ms_for(240_000) == 1_000
    assert step_ms_for(240_001) == 10_000
