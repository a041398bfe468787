"""Consistent hashing: in proportion to weights, few moves, and alike on every node."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.core import limits
from fedq.core.ids import NodeId, QueueKey
from fedq.wiring.routing.exchanges import Destination, Found, ToExchange
from fedq.wiring.routing.hashing import HashTable, weight_of

A, B = NodeId("a"), NodeId("b")
VALUES = [f"customer {number}" for number in range(4_000)]


def queue(number: int) -> QueueKey:
    return QueueKey("/", f"queue {number}")


def table(
    weights: Mapping[Destination, int], me: NodeId = A, arguments: Mapping[str, Any] | None = None
) -> HashTable:
    made = HashTable(arguments or {}, me)
    for destination, weight in weights.items():
        made.add(destination, str(weight), None)
    return made


def choose(made: HashTable, key: str, properties: Mapping[str, Any] | None = None) -> Destination:
    found: Found = {}
    made.match((key,), lambda: properties or {}, found)
    (destination,) = found
    return destination


def counts(made: HashTable) -> dict[Destination, int]:
    found: dict[Destination, int] = {}
    for value in VALUES:
        chosen = choose(made, value)
        found[chosen] = found.get(chosen, 0) + 1
    return found


def test_weights_are_shares() -> None:
    weights: dict[Destination, int] = {queue(1): 1, queue(2): 2, queue(3): 5}
    found = counts(table(weights))
    for destination, weight in weights.items():
        assert found[destination] == pytest.approx(len(VALUES) * weight / 8, rel=0.15)


def test_the_draw_is_fixed_for_ever() -> None:
    # Nodes of different versions, and before and after a restart, must choose alike.
    made = table({queue(1): 1, queue(2): 2, queue(3): 5})
    drawn = "".join(str(choose(made, value))[-3] for value in VALUES[:24])
    assert drawn == "313332332323323321333123"
    mixed = table({queue(1): 1, B: 1, -1: 1, ToExchange(queue(1)): 1})
    assert [choose(mixed, value) for value in ("", "k", "ä", "\udcff", "1")] == [
        B, -1, ToExchange(queue(1)), -1, queue(1),
    ]  # fmt: skip


def test_long_values_and_many_values_are_chosen_too(monkeypatch: pytest.MonkeyPatch) -> None:
    made = table({queue(number): 1 for number in range(9)})
    before = [choose(made, value) for value in VALUES[:50]]
    assert choose(made, "x" * 255) == choose(made, "x" * 255)
    monkeypatch.setattr("fedq.wiring.routing.hashing._REMEMBERED_MAX", 7)
    assert [choose(made, value) for value in VALUES[:50]] == before


def test_equal_weights_are_equal_shares() -> None:
    found = counts(table({queue(number): 1 for number in range(20)}))
    assert len(found) == 20
    for count in found.values():
        assert count == pytest.approx(len(VALUES) / 20, rel=0.3)


@given(st.dictionaries(st.integers(0, 9).map(queue), st.integers(1, 9), min_size=2))
def test_only_what_has_to_moves(weights: dict[Destination, int]) -> None:
    made = table(weights)
    before = {value: choose(made, value) for value in VALUES[:100]}
    gone = min(weights, key=repr)
    made.remove(gone, str(weights[gone]), None)
    for value, chosen in before.items():
        after = choose(made, value)
        assert after == chosen or chosen == gone
    made.add(gone, str(weights[gone]), None)
    assert all(choose(made, value) == chosen for value, chosen in before.items())


def test_several_bindings_of_a_queue_add_up() -> None:
    made = table({queue(1): 1, queue(2): 1})
    made.add(queue(1), "2", None)
    assert counts(made)[queue(1)] == pytest.approx(len(VALUES) * 3 / 4, rel=0.1)
    made.remove(queue(1), "2", None)
    assert counts(made)[queue(1)] == pytest.approx(len(VALUES) / 2, rel=0.1)


def test_nothing_bound_finds_nothing() -> None:
    found: Found = {}
    made = table({})
    made.match(("k",), dict, found)
    assert not found
    made.add(B, "no weight", None)
    made.match(("k",), dict, found)
    assert not found


def test_several_keys_are_hashed_together() -> None:
    made = table({queue(number): 1 for number in range(9)})
    chosen = set()
    for value in VALUES[:50]:
        found: Found = {}
        made.match(("k", value), dict, found)
        assert len(found) == 1
        chosen |= {*found}
    assert len(chosen) > 5


@pytest.mark.parametrize(
    ("arguments", "properties"),
    [
        ({"hash-header": "n"}, lambda value: {"headers": {"n": value}}),
        ({"hash-property": "message_id"}, lambda value: {"message_id": value}),
        ({"hash-property": "correlation_id"}, lambda value: {"correlation_id": value}),
        ({"hash-property": "timestamp"}, lambda value: {"timestamp": int(value[9:])}),
    ],
)
def test_a_header_or_property_decides_instead(arguments: dict[str, str], properties: Any) -> None:
    made = table({queue(number): 1 for number in range(9)}, arguments=arguments)
    assert not made.by_key_alone
    chosen = set()
    for value in VALUES[:50]:
        first = choose(made, "k", properties(value))
        assert choose(made, "another", properties(value)) == first
        chosen.add(first)
    assert len(chosen) > 5
    assert len({choose(made, value) for value in VALUES[:50]}) == 1, "what is not there is equal"


def test_odd_headers_are_hashed_too() -> None:
    made = table({queue(number): 1 for number in range(9)}, arguments={"hash-header": "n"})
    for value in (None, b"\xff", 1, True, 1.5, [1, {"a": None}], {"b": "\udcff"}, ""):
        assert choose(made, "k", {"headers": {"n": value}}) in {queue(n) for n in range(9)}


def test_nodes_agree_about_private_queues() -> None:
    shared: dict[Destination, int] = {queue(1): 3, queue(2): 1}
    at_a = table({**shared, -1: 2, -2: 1, -3: 1, B: 4}, A)
    at_b = table({**shared, -7: 4}, B)
    at_b.add(A, "2", None)
    at_b.add(A, "1", None)
    inner: dict[Destination, int] = {}
    for value in VALUES:
        here, there = choose(at_a, value), choose(at_b, value)
        if isinstance(here, int):
            assert there == A
            inner[here] = inner.get(here, 0) + 1
            assert at_a.match_private((value,), dict) is not None
        elif here == B:
            assert there == -7
            assert at_b.match_private((value,), dict) == -7
        else:
            assert here == there
    for number, share in ((-1, 2), (-2, 1), (-3, 1)):  # by their weights among themselves
        assert inner[number] == pytest.approx(sum(inner.values()) * share / 4, rel=0.15)


def test_a_relayed_publish_finds_a_private_queue_even_if_the_nodes_disagree() -> None:
    made = table({queue(1): 1_000, -1: 1, -2: 1})
    assert {made.match_private((value,), dict) for value in VALUES[:50]} == {-1, -2}
    assert table({queue(1): 1}).match_private(("k",), dict) is None
    behind = table({ToExchange(queue(1)): 1, -1: 1})
    assert behind.match_private(("k",), dict) is None, "it may have come by the other exchange"


def test_a_node_that_wants_everything_weighs_as_much_as_it_can_tell() -> None:
    most = limits.INTEREST_KEYS_PER_EXCHANGE_MAX
    made = table({queue(1): most, B: 1})
    made.set_everything(B, True)
    found = counts(made)
    assert found[B] == pytest.approx(len(VALUES) / 2, rel=0.1)
    made.set_everything(B, False)
    assert counts(made).get(B, 0) < len(VALUES) / 100
    own = HashTable({}, B)
    own.add(queue(1), str(most), None)
    for number in range(most + 1):
        own.add(-1 - number, str(number + 1), None)
    made.set_everything(B, True)
    assert [isinstance(choose(own, value), int) for value in VALUES[:200]] == [
        choose(made, value) == B for value in VALUES[:200]
    ]


@pytest.mark.parametrize(
    ("key", "weight"),
    [("1", 1), ("+3", 3), ("-4", -4), ("007", 7), ("", None), ("+", None), ("1e3", None)],
)
def test_weight_of(key: str, weight: int | None) -> None:
    assert weight_of(key) == weight
