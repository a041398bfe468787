"""Stretches of what a copy has on disk alone, against a plain dict."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fedq.core.ranges import count, from_ranges
from fedq.fragments.runs.stowed import StowedRanges
from tests.examples import examples

#: More than a block holds, each alone.
MANY = range(1, 3_001, 2)
positions = st.integers(1, 60) | st.integers(1, 3_100)


class StretchesMachine(RuleBasedStateMachine):
    """Drives the stretches and the dict side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.stretches = StowedRanges()
        self.model: dict[int, None] = {}

    @precondition(lambda self: not self.model)
    @rule()
    def begin_with_many(self) -> None:
        self.stretches = StowedRanges([(position, position, 10) for position in MANY])
        self.model = dict.fromkeys(MANY)

    @rule(first=positions, length=st.integers(1, 9), size=st.integers(1, 1 << 19))
    def add(self, first: int, length: int, size: int) -> None:
        wanted = range(first, first + length)
        if not any(position in self.model for position in wanted):
            self.stretches.add(first, first + length - 1, size)
            self.model.update(dict.fromkeys(wanted))

    @rule(first=positions, length=st.sampled_from([1, 1, 5, 100, 3_000]))
    def forget(self, first: int, length: int) -> None:
        gone = [p for p in range(first, first + length) if p in self.model]
        assert self.stretches.forget(first, first + length - 1) == len(gone)
        for position in gone:
            del self.model[position]

    @rule(position=positions, most=st.integers(1, 3), length=st.integers(1, 9))
    def look(self, position: int, most: int, length: int) -> None:
        assert (position in self.stretches) == (position in self.model)
        some = any(p in self.model for p in range(position, position + length))
        assert self.stretches.has_some_in(position, position + length - 1) == some
        found = self.stretches.after(position, most)
        beyond = [p for p in self.model if p > position]
        assert (found is None) == (not beyond)
        if found is not None:
            (first, last), stretches = found
            assert first == min(beyond)
            assert all(p in self.model for p in range(first, last + 1))
            assert 1 <= stretches <= most
            assert last + 1 not in self.model or stretches == most

    @invariant()
    def agree(self) -> None:
        self.stretches.check()
        assert list(from_ranges(self.stretches.ranges())) == sorted(self.model)
        assert self.stretches.count == len(self.model) == count(list(self.stretches.ranges()))
        assert self.stretches.first == min(self.model, default=None)
        assert not self.model or self.stretches.bytes_held >= len(self.model)


TestStretches = StretchesMachine.TestCase
TestStretches.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
