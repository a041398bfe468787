"""What messages and connections cost does not grow unnoticed (`docs/TESTING.md`, Costs).

Counts, not times: they are the same on every machine with the same version of Python.
"""

import functools

import pytest

from tests.cost import budget
from tests.cost.figures import (
    HELD_BYTES,
    INSTRUCTIONS,
    REQUESTED_BYTES,
    REQUESTS,
    CannotCount,
    Figures,
    Mode,
    Shares,
    count,
)


@functools.cache
def counted(mode: Mode) -> tuple[Figures, Shares]:
    """Counted once for all tests of a mode."""
    return count(mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["pure", "compiled"])
@pytest.mark.parametrize("figure", [INSTRUCTIONS, REQUESTS, REQUESTED_BYTES, HELD_BYTES])
def test_nothing_costs_more_than_its_budget(mode: Mode, figure: str) -> None:
    allowed = budget.budget(mode)
    if allowed is None:
        pytest.skip(f"no {mode} budget for Python {budget.VERSION}: python -m tests.cost --write")
    try:
        figures, shares = counted(mode)
    except CannotCount as reason:
        pytest.skip(str(reason))
    found = [each for each in budget.changes(figures, allowed) if each.figure == figure]
    if not found:
        pytest.skip("requests for memory are counted by a C function, and there is no compiler")
    missing = [each.name for each in found if each.before is None]
    assert not missing, f"no budget for {missing}: python -m tests.cost --write"
    grown = [each for each in found if each.has_grown]
    assert not grown, budget.complaint(mode, grown, shares)
