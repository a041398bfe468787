"""What messages and connections cost does not grow unnoticed (`docs/TESTING.md`, Costs).

Counts, not times: they are the same on every machine with the same version of Python.
"""

from collections.abc import Iterator

import pytest

from tests.cost import budget
from tests.cost.figures import (
    HELD_BYTES,
    INSTRUCTIONS,
    MODES,
    REQUESTED_BYTES,
    REQUESTS,
    CannotCount,
    Counting,
    Figures,
    Mode,
    Shares,
)


class Counts:
    """All modes that have a budget, counted side by side from the first test on."""

    def __init__(self) -> None:
        self._begun: dict[Mode, Counting | CannotCount] = {}
        self._counted: dict[Mode, tuple[Figures, Shares]] = {}
        for mode in MODES:
            if budget.budget(mode) is not None:
                self._begin(mode)

    def of(self, mode: Mode) -> tuple[Figures, Shares]:
        """The figures; raises `CannotCount`."""
        begun = self._begun[mode]
        if isinstance(begun, CannotCount):
            raise begun
        if mode not in self._counted:
            self._counted[mode] = begun.result()
        return self._counted[mode]

    def _begin(self, mode: Mode) -> None:
        try:
            self._begun[mode] = Counting(mode)
        except CannotCount as reason:
            self._begun[mode] = reason

    def close(self) -> None:
        """Waits for whoever is still counting."""
        for mode, begun in self._begun.items():
            if isinstance(begun, Counting) and mode not in self._counted:
                begun.result()


@pytest.fixture(scope="module")
def counts() -> Iterator[Counts]:
    found = Counts()
    yield found
    found.close()


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("figure", [INSTRUCTIONS, REQUESTS, REQUESTED_BYTES, HELD_BYTES])
def test_nothing_costs_more_than_its_budget(counts: Counts, mode: Mode, figure: str) -> None:
    allowed = budget.budget(mode)
    if allowed is None:
        pytest.skip(f"no {mode} budget for Python {budget.VERSION}: python -m tests.cost --write")
    try:
        figures, shares = counts.of(mode)
    except CannotCount as reason:
        pytest.skip(str(reason))
    found = [each for each in budget.changes(figures, allowed) if each.figure == figure]
    if not found:
        pytest.skip("requests for memory are counted by a C function, and there is no compiler")
    missing = [each.name for each in found if each.before is None]
    assert not missing, f"no budget for {missing}: python -m tests.cost --write"
    grown = [each for each in found if each.has_grown]
    assert not grown, budget.complaint(mode, grown, shares)
