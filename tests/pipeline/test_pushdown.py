"""Conditions that are pushed down: never a row less than without, against a list of rows."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from fedq.pipeline.planning import FragmentState
from fedq.pipeline.pushdown import Condition, Routes, Wanted, narrowed, wanted_of

COUNT = 40
#: Messages came so many milliseconds apart.
STEP_MS = 3
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KEYS = ("a", "ab", "abc", "b", "\ufffd")


class Row(NamedTuple):
    """The columns that conditions look at."""

    fragment: int
    offset: int
    timestamp: datetime
    exchange: str
    routing_key: str


ROWS = [
    Row(
        fragment, offset, EPOCH + timedelta(milliseconds=STEP_MS * offset), "xy"[offset % 2],
        KEYS[offset % len(KEYS)],
    )
    for fragment in range(3)
    for offset in range(COUNT)
]  # fmt: skip

times = st.one_of(
    st.integers(-5_000, STEP_MS * 1_000 * COUNT + 5_000).map(
        lambda number: EPOCH + timedelta(microseconds=number)
    ),
    st.just(datetime(9999, 1, 1, tzinfo=UTC)),
)
kinds = st.sampled_from(["=", "<", "<=", ">", ">="])
keys = st.sampled_from([*KEYS, "", "k" * 300])
conditions = st.one_of(
    st.builds(Condition, st.sampled_from(["fragment", "offset"]), kinds, st.integers(-2, 50)),
    st.builds(Condition, st.just("timestamp"), kinds, times),
    st.builds(
        Condition, st.sampled_from(["fragment", "offset"]), st.just("in"),
        st.lists(st.one_of(st.none(), st.integers(-2, 50)), min_size=1, max_size=4).map(tuple),
    ),
    st.builds(Condition, st.sampled_from(["exchange", "routing_key"]), st.just("="), keys),
    st.builds(
        Condition, st.sampled_from(["exchange", "routing_key"]), st.just("in"),
        st.lists(st.one_of(st.none(), keys), min_size=1, max_size=4).map(tuple),
    ),
    st.builds(Condition, st.just("routing_key"), st.just("starts"), keys),
    # Nothing that is known here.
    st.builds(Condition, st.sampled_from(["body", "offset", ""]), st.just(""), st.none()),
)  # fmt: skip

COMPARE: Final[dict[str, Callable[..., bool]]] = {
    "=": lambda value, with_: bool(value == with_),
    "<": lambda value, with_: bool(value < with_),
    "<=": lambda value, with_: bool(value <= with_),
    ">": lambda value, with_: bool(value > with_),
    ">=": lambda value, with_: bool(value >= with_),
    "in": lambda value, with_: value in with_,
    "starts": lambda value, with_: bool(value.startswith(with_)),
    "": lambda value, with_: True,
}


def holds(condition: Condition, row: Row) -> bool:
    return COMPARE[condition.kind](
        getattr(row, condition.column or "offset", None), condition.value
    )


def is_brought(routes: Routes, row: Row) -> bool:
    """As nodes do it: by keys, if any are named, else by the prefix."""
    if routes.exchanges is not None and row.exchange not in routes.exchanges:
        return False
    if routes.keys is not None:
        return row.routing_key in routes.keys
    return row.routing_key.startswith(routes.prefix)


def brought(wanted: Wanted) -> list[Row]:
    """What a read brings that was narrowed so."""
    states = [
        FragmentState(
            fragment, "n", 0, COUNT, ((0, COUNT - 1),),
            {each: max(0, min(COUNT, -(-each // STEP_MS))) for each in wanted.times},
        )
        for fragment in range(3)
    ]  # fmt: skip
    planned = dict.fromkeys(range(3), 0), dict.fromkeys(range(3), COUNT)
    begins, ends = narrowed(states, *planned, wanted)
    return [
        row for row in ROWS
        if begins.get(row.fragment, COUNT) <= row.offset < ends.get(row.fragment, 0)
        and is_brought(wanted.routes, row)
    ]  # fmt: skip


@given(st.lists(conditions, max_size=4))
def test_no_row_is_left_out_that_is_wanted(given_conditions: list[Condition]) -> None:
    asked = [row for row in ROWS if all(holds(each, row) for each in given_conditions)]
    found = brought(wanted_of(given_conditions))
    assert set(asked) <= set(found)


def only(*given_conditions: Condition) -> list[Row]:
    """What is brought: exactly what was asked for."""
    found = brought(wanted_of(given_conditions))
    assert found == [row for row in ROWS if all(holds(each, row) for each in given_conditions)]
    return found


def test_what_is_not_wanted_does_not_travel() -> None:
    assert len(only(Condition("fragment", "=", 1))) == COUNT
    assert len(only(Condition("offset", ">=", 10), Condition("offset", "<", 12))) == 6
    at = EPOCH + timedelta(milliseconds=9 * STEP_MS, microseconds=1)
    assert len(only(Condition("timestamp", ">", at))) == 3 * 30
    assert len(only(Condition("timestamp", "<=", at))) == 3 * 10
    assert len(only(Condition("routing_key", "in", ("a", "b", None)))) == 3 * 16
    assert len(only(Condition("routing_key", "starts", "ab"))) == 3 * 16
    assert len(only(Condition("exchange", "=", "x"), Condition("routing_key", "=", "a"))) == 12
    assert only(Condition("routing_key", "=", "a"), Condition("routing_key", "=", "b")) == []
    assert only(Condition("fragment", "in", (7, None))) == []


def test_text_that_stands_for_other_bytes_is_not_looked_for() -> None:
    assert wanted_of([Condition("routing_key", "=", "\ufffd")]) == Wanted()
    assert wanted_of([Condition("routing_key", "starts", "a\ufffd")]) == Wanted()


def test_what_has_no_zone_or_is_no_number_is_not_pushed() -> None:
    assert wanted_of([Condition("timestamp", ">", datetime(2026, 1, 1))]) == Wanted()
    assert wanted_of([Condition("offset", "=", True), Condition("offset", "=", "1")]) == Wanted()


def test_more_names_than_nodes_take_are_not_pushed() -> None:
    many = tuple(map(str, range(65)))
    assert wanted_of([Condition("routing_key", "in", many)]) == Wanted()
    assert wanted_of([Condition("routing_key", "in", many[1:])]).routes.keys == many[1:]
