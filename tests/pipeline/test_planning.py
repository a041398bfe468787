"""Which rows a read has, and in which parts: against lists of offsets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.pipeline.failure import DataLossError, OptionError
from fedq.pipeline.options import At, Bounds, Edge, Since
from fedq.pipeline.planning import (
    FragmentState,
    available,
    count,
    ends,
    limited,
    nth,
    spans,
    starts,
    times_in,
)


@st.composite
def states(draw: st.DrawFn) -> list[FragmentState]:
    """Fragments with some reigns each: offsets jump between these."""
    found: list[FragmentState] = []
    for number in range(draw(st.integers(1, 4))):
        at, ranges = draw(st.integers(0, 50)), []
        for size, gap in draw(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 1 << 41)))):
            ranges.append((at, at + size - 1))
            at += size + gap
        first = ranges[0][0] if ranges else at
        following = ranges[-1][1] + 1 if ranges else at
        found.append(FragmentState(number, "n", first, following, tuple(ranges), {}))
    return found


def offsets_of(state: FragmentState) -> list[int]:
    return [offset for first, last in state.ranges for offset in range(first, last + 1)]


def state(**changed: object) -> FragmentState:
    values = {
        "number": 0, "home": "n1", "first": 10, "next": 60, "ranges": ((10, 59),), "since": {}
    } | changed  # fmt: skip
    return FragmentState(**values)  # type: ignore[arg-type]


@given(states(), st.data())
def test_spans_have_each_row_once_and_are_about_even(
    found: list[FragmentState], data: st.DataObject
) -> None:
    partitions = data.draw(st.integers(0, 12))
    begins, through = {}, {}
    expected: list[tuple[int, int]] = []
    for each in found:
        places = [each.first, each.next, *offsets_of(each)]
        low, high = sorted([data.draw(st.sampled_from(places)) for _ in range(2)])
        begins[each.number], through[each.number] = low, high
        expected += [(each.number, offset) for offset in offsets_of(each) if low <= offset < high]
    planned = spans(found, begins, through, partitions)
    rows: list[tuple[int, int]] = []
    sizes: list[int] = []
    for span in planned:
        mine = [o for o in offsets_of(found[span.fragment]) if span.begin <= o < span.end]
        rows += [(span.fragment, offset) for offset in mine]
        sizes.append(len(mine))
    assert rows == expected
    if partitions > len({span.fragment for span in planned}):
        assert max(sizes, default=0) <= 2 * len(expected) / partitions + 1


@given(states(), st.integers(1, 150))
def test_a_limited_batch_has_so_many_rows(found: list[FragmentState], rows: int) -> None:
    begins = {each.number: each.first for each in found}
    through = {each.number: each.next for each in found}
    total = sum(len(offsets_of(each)) for each in found)
    cut = limited(found, begins, through, rows)
    taken = {
        each.number: sum(offset < cut[each.number] for offset in offsets_of(each)) for each in found
    }
    assert sum(taken.values()) == min(rows, total)
    for each in found:
        # In proportion to what there is, and some of each if there can be.
        assert taken[each.number] or not offsets_of(each) or rows <= len(found)
        share = rows * len(offsets_of(each)) / max(total, rows)
        assert abs(taken[each.number] - share) <= len(found)


@given(states(), st.data())
def test_rows_are_counted_over_reigns(found: list[FragmentState], data: st.DataObject) -> None:
    [each, *_] = found
    offsets = offsets_of(each)
    begin, end = sorted(data.draw(st.tuples(*[st.integers(0, each.next + 5)] * 2)))
    inside = [offset for offset in offsets if begin <= offset < end]
    assert count(each.ranges, begin, end) == len(inside)
    if inside:
        number = data.draw(st.integers(1, len(inside)))
        assert nth(each.ranges, begin, number) == inside[number - 1] + 1
    assert nth(each.ranges, begin, 0) == begin


def test_more_rows_than_there_are_have_no_place() -> None:
    with pytest.raises(ValueError, match="not there"):
        nth([(0, 4)], 2, 4)


def test_bounds_lead_to_offsets() -> None:
    fragment = state(since={5: 17})
    for bound, offset in (
        (Edge.EARLIEST, 10), (Edge.LATEST, 60), (At(25), 25), (At(60), 60), (Since(5), 17),
    ):  # fmt: skip
        assert starts([fragment], Bounds(bound, {}), fails_on_loss=True) == {0: offset}
        assert ends([fragment], Bounds(Edge.LATEST, {0: bound})) == {0: offset}
    assert times_in(Bounds(Since(5), {1: Since(6)}), Bounds(Since(5), {})) == [5, 6]


def test_an_end_that_is_not_there_is_refused() -> None:
    with pytest.raises(OptionError, match="fragment 0 ends at 60 by now, not at 61"):
        ends([state()], Bounds(At(61), {}))


def test_a_fragment_that_is_not_there_is_refused() -> None:
    bounds = Bounds(Edge.EARLIEST, {2: At(5)})
    with pytest.raises(OptionError, match=r"no fragment 2; the stream has 1"):
        starts([state()], bounds, fails_on_loss=True)
    with pytest.raises(OptionError, match="endingOffsets: there is no fragment 2"):
        ends([state()], bounds)


@pytest.mark.parametrize(
    ("begin", "sentence"),
    [(3, "offsets 3 to 9 of fragment 0 are gone"), (61, "fragment 0 ends at 60, before offset 61")],
)
def test_rows_that_are_gone_are_an_error_or_passed_over(begin: int, sentence: str) -> None:
    with pytest.raises(DataLossError, match=sentence):
        available(state(), begin, True)
    assert available(state(), begin, False) == 10
    with pytest.raises(DataLossError, match="failOnDataLoss=false"):
        starts([state()], Bounds(At(begin), {}), fails_on_loss=True)


def test_a_fragment_without_rows_has_no_span() -> None:
    empty = state(number=1, first=0, next=0, ranges=())
    planned = spans([state(), empty], {0: 10, 1: 0}, {0: 60, 1: 0}, 1)
    assert [(each.fragment, each.begin, each.end, each.home) for each in planned] == [
        (0, 10, 60, "n1")
    ]
    # What is behind a gap of offsets alone is read too, as nobody knows that it is one.
    assert len(spans([state()], {0: 60}, {0: 70}, 4)) == 1
