"""A table of numbers by position that goes by steps, against a dict."""

from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fedq.journal.steps import Steps
from tests.examples import examples

positions = st.integers(1, 40)
values = st.integers(1, 3)


class StepsMachine(RuleBasedStateMachine):
    """Changes both in the same way."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = Steps()
        self.plain: dict[int, int] = {}
        self.end = 40

    @rule(first=positions, count=st.integers(1, 9), value=values)
    def add(self, first: int, count: int, value: int) -> None:
        self.steps.add(first, first + count - 1, value)
        self.plain.update(dict.fromkeys(range(first, first + count), value))

    @rule(count=st.integers(1, 9), gap=st.integers(0, 2), value=values)
    def append(self, count: int, gap: int, value: int) -> None:
        """Adds behind all there ever was, as what comes does."""
        self.end = max(self.end, max(self.plain, default=0)) + gap
        self.add(self.end + 1, count, value)

    @rule(first=positions, count=st.integers(1, 20))
    def forget(self, first: int, count: int) -> None:
        self.steps.forget(first, first + count - 1)
        for position in range(first, first + count):
            self.plain.pop(position, None)

    @precondition(lambda self: self.plain)
    @rule(count=st.integers(1, 90))
    def forget_the_first(self, count: int) -> None:
        for position in sorted(self.plain)[:count]:
            assert self.steps.pop(position) == self.plain.pop(position)
            assert self.steps.pop(position, None) is None

    @rule()
    def copy(self) -> None:
        before = Steps(self.steps)
        self.steps.forget(0, 1 << 64)
        assert not self.steps
        assert self.steps.step_count == 0
        self.steps = before
        assert Steps(self.plain) == before

    @rule(first=positions, count=st.integers(0, 20))
    def look(self, first: int, count: int) -> None:
        last = first + count
        found = {
            position: value
            for low, high, value in self.steps.between(first, last)
            for position in range(low, high + 1)
        }
        assert found == {p: v for p, v in self.plain.items() if first <= p <= last}
        assert (first in self.steps) == (first in self.plain)
        assert self.steps.get(first) == self.plain.get(first)

    @invariant()
    def agree(self) -> None:
        assert list(self.steps.items()) == sorted(self.plain.items())
        assert self.steps == self.plain
        assert len(self.steps) == len(self.plain)
        steps = self.steps.steps()
        assert len(steps) == self.steps.step_count
        assert all(first <= last for first, last, _ in steps)
        assert all(before[1] < after[0] for before, after in pairwise(steps))


TestSteps = StepsMachine.TestCase
TestSteps.settings = settings(max_examples=examples(100), stateful_step_count=50, deadline=None)


def test_what_comes_together_is_one_step_and_what_is_gone_at_the_front_is_swept() -> None:
    steps = Steps()
    for batch in range(1_000):
        steps.add(batch * 10 + 1, batch * 10 + 10, batch // 100)
    assert steps.step_count == 10
    for batch in range(1_000):
        steps.add(20_000 + 2 * batch, 20_000 + 2 * batch, batch)
    for position in list(steps)[:-1]:
        steps.forget(position, position)
    assert dict(steps) == {21_998: 999}
    assert steps.step_count == 1
