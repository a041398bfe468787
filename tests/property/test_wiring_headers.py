"""The index of header patterns against looking at every pattern."""

from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fedq.wiring.routing.headers import MATCH_KINDS, HeaderIndex, HeaderPattern

values: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, False, 0, 1, 1.0, "1", b"1", Decimal(1), [1], {"a": 1}, float("nan")]
)
names = st.sampled_from(["a", "b", "x-c"])
tables = st.dictionaries(names, values, max_size=3)
patterns = st.builds(
    lambda table, kind: {**table, **({"x-match": kind} if kind else {})},
    tables, st.sampled_from([None, *MATCH_KINDS]),
)  # fmt: skip
steps = st.lists(st.tuples(st.booleans(), st.integers(0, 8), patterns), max_size=25)


@given(steps, st.lists(tables, min_size=1, max_size=5))
def test_the_index_finds_what_a_look_at_every_pattern_finds(
    history: list[tuple[bool, int, dict[str, Any]]], messages: list[dict[str, Any]]
) -> None:
    index: HeaderIndex[int] = HeaderIndex()
    plain: dict[int, HeaderPattern] = {}
    for adds, name, arguments in history:
        if name in plain:
            index.remove(name)
            del plain[name]
        if adds:
            plain[name] = HeaderPattern(arguments)
            index.add(name, plain[name])
        for headers in messages:
            wanted = [each for each, pattern in plain.items() if pattern.matches(headers)]
            assert index.match(headers) == wanted
    assert list(index) == list(plain)


def test_a_pattern_hangs_where_fewest_others_do() -> None:
    index: HeaderIndex[int] = HeaderIndex()
    looked_at = 0

    class Counted(HeaderPattern):
        def matches(self, headers: Any) -> bool:
            nonlocal looked_at
            looked_at += 1
            return super().matches(headers)

    for number in range(1_000):
        index.add(number, Counted({"kind": "order", "customer": number}))
    assert index.match({"kind": "order", "customer": 500}) == [500]
    assert looked_at <= 2
