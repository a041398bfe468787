"""The counters count what they say, and what grew is told with its name."""

from pathlib import Path

import pytest

from tests.cost import budget
from tests.cost.budget import Change, changes, culprits
from tests.cost.figures import INSTRUCTIONS, REQUESTS, count
from tests.cost.meters import Blocks, Instructions, build_counter

KEPT: list[bytes] = []


def spin(times: int) -> None:
    """Costs the same for each time."""
    for _ in range(times):
        pass


def keep(count: int, size: int) -> None:
    """Asks for so many blocks, and nothing else that grows with them."""
    for index in range(count):
        KEPT[index] = bytes(size)


def instructions_of(times: int) -> int:
    meter = Instructions()
    meter.run(spin, times)
    # What tests themselves do is left out of the totals: it is looked at here.
    (function,) = meter.functions()
    return function.count


def test_instructions_are_counted_one_by_one() -> None:
    each = instructions_of(11) - instructions_of(10)
    assert each >= 2
    assert instructions_of(1_010) - instructions_of(10) == 1_000 * each


def test_requests_for_memory_are_counted_with_their_bytes(tmp_path: Path) -> None:
    counter = build_counter(tmp_path)
    if counter is None:
        pytest.skip("there is no C compiler")
    KEPT[:] = [b""] * 200
    found: list[tuple[int, int]] = []
    for size in (1_000, 1_000, 3_000):
        with Blocks(counter) as blocks:
            blocks.run(keep, 200, size)
        found.append((blocks.requests, blocks.bytes))
    KEPT.clear()
    (_, _), (requests, small), (again, large) = found
    assert requests == again
    assert 200 <= requests < 300
    assert large - small == 200 * 2_000


@pytest.mark.slow
def test_two_counts_of_the_same_code_are_the_same() -> None:
    first, second = (count("pure", ["one_to_one.single"]) for _ in range(2))
    assert first == second
    figures, shares = first
    assert figures["one_to_one.single"][INSTRUCTIONS] > 100
    assert any(name.startswith("fedq/node/") for name in shares["one_to_one.single"])
    assert not any(name.startswith("tests/") for name in shares["one_to_one.single"])


def test_growth_beyond_a_tenth_is_too_much() -> None:
    now = {"work": {INSTRUCTIONS: 110.1, REQUESTS: 10.9}, "new": {INSTRUCTIONS: 5.0}}
    before = {"work": {INSTRUCTIONS: 100.0, REQUESTS: 10.0}}
    found = changes(now, before)
    assert [change.has_grown for change in found] == [True, False, False]
    assert found[2].before is None


def test_what_is_near_zero_may_move() -> None:
    assert not Change("idle", INSTRUCTIONS, 0.2, 1.1).has_grown
    assert Change("idle", INSTRUCTIONS, 0.2, 1.3).has_grown


def test_the_function_that_grew_is_named_first() -> None:
    lines = culprits({"a": 5.0, "b": 30.0, "c": 1.0}, {"a": 4.0, "b": 10.0, "c": 2.0})
    assert [line.split()[-1] for line in lines] == ["b", "a"]


def test_a_complaint_says_what_to_do() -> None:
    grown = [Change("one_to_one.alike", INSTRUCTIONS, 100.0, 150.0)]
    text = budget.complaint("pure", grown, {"one_to_one.alike": {"fedq/new.py: slow": 50.0}})
    assert "+50%" in text
    assert "fedq/new.py: slow" in text
    assert "--write" in text
