"""The index of what is on disk alone of a queue with priorities, against a plain dict."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fedq.core.ranges import count, from_ranges, to_ranges
from fedq.fragments.runs.ranked_pages import PAGE, PAGE_SHIFT, RankedPages
from tests.examples import examples

#: Around the ends of pages, and far away.
positions = st.builds(
    lambda page, at: max(1, page * PAGE + at),
    st.sampled_from([0, 1, 2, 1 << 30]),
    st.integers(-6, 6) | st.integers(0, 30),
)


class PagesMachine(RuleBasedStateMachine):
    """Drives the index and the dict side by side."""

    @initialize(max_rank=st.sampled_from([1, 5, 255]))
    def begin(self, max_rank: int) -> None:
        self.max_rank = max_rank
        self.pages = RankedPages(max_rank)
        #: Whether each is persistent, and its priority; None: it is not known.
        self.model: dict[int, tuple[bool, int | None]] = {}

    @rule(
        position=positions, persistent=st.booleans(), rank=st.integers(0, 255),
        size=st.integers(1, 99),
    )  # fmt: skip
    def add(self, position: int, persistent: bool, rank: int, size: int) -> None:
        if position not in self.model:
            rank = min(rank, self.max_rank)
            self.pages.add(position, persistent, rank, size)
            self.model[position] = persistent, rank

    @rule(first=positions, kinds=st.lists(st.booleans(), min_size=1, max_size=20))
    def add_unknown(self, first: int, kinds: list[bool]) -> None:
        stop = next((p for p in range(first, first + len(kinds)) if p in self.model), None)
        kinds = kinds[: stop - first] if stop is not None else kinds
        if kinds:
            self.pages.add_unknown(first, bytes(kinds), 10 * len(kinds))
            self.model.update((p, (kind, None)) for p, kind in enumerate(kinds, first))

    @precondition(lambda self: any(rank is None for _, rank in self.model.values()))
    @rule(data=st.data())
    def learn(self, data: st.DataObject) -> None:
        unknown = [p for p, (_, rank) in self.model.items() if rank is None]
        position = data.draw(st.sampled_from(unknown))
        rank = data.draw(st.integers(0, self.max_rank))
        self.pages.learn(position, rank)
        self.model[position] = self.model[position][0], rank

    @rule(first=positions, length=st.sampled_from([1, 1, 3, 20, 2 * PAGE]))
    def take(self, first: int, length: int) -> None:
        found = self.pages.take(first, first + length - 1)
        kinds = {p: kind for each in found for p, kind in enumerate(each.kinds, each.first)}
        gone = {p: self.model.pop(p)[0] for p in range(first, first + length) if p in self.model}
        assert kinds == gone
        assert all(each.size >= len(each.kinds) for each in found)

    @precondition(lambda self: self.model)
    @rule(most=st.integers(1, 5), before=positions)
    def look(self, most: int, before: int) -> None:
        """What is next, and what stands where."""
        order = sorted(
            (-(self.max_rank if rank is None else rank), p) for p, (_, rank) in self.model.items()
        )
        rank, first = -order[0][0], order[0][1]
        assert self.pages.next() == (rank, first)
        alike = [p for _, p in order if self.model[p][1] == rank and p >= first and p < before]
        wanted = alike[:most] if self.model[first][1] is not None else []
        assert self.pages.of_next(most, before) == to_ranges(wanted)
        last = self.pages.worth_reading()
        assert self.model[last][1] == self.model[first][1]
        assert first <= last
        lowest = [p for p in sorted(self.model) if p <= before][:most]
        assert list(from_ranges(self.pages.lowest(most, before))) == lowest

    @invariant()
    def agree(self) -> None:
        self.pages.check()
        assert self.pages.count == len(self.model) == count(self.pages.ranges())
        assert list(from_ranges(self.pages.ranges())) == sorted(self.model)
        for position, (persistent, rank) in self.model.items():
            assert position in self.pages
            assert self.pages.is_persistent(position) == persistent
            assert self.pages.is_unknown(position) == (rank is None)
            assert self.pages.rank_of(position) == (-1 if rank is None else rank)
        oldest = [p for p, (persistent, _) in self.model.items() if persistent]
        assert self.pages.oldest_persistent() == min(oldest, default=None)
        found = [p for number in self.pages.numbers() for p in self.pages.persistent_within(number)]
        assert found == sorted(oldest)
        assert all(number << PAGE_SHIFT <= max(self.model) for number in self.pages.numbers())
        every = {p: bool(kind) for each in self.pages.all_found() for p, kind in enumerate(
            each.kinds, each.first)}  # fmt: skip
        assert every == {p: persistent for p, (persistent, _) in self.model.items()}


TestRankedPages = PagesMachine.TestCase
TestRankedPages.settings = settings(
    max_examples=examples(100), stateful_step_count=30, deadline=None
)
