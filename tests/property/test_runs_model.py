"""Runs of fresh and of held messages against plain dicts, with runs so short that they end soon."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fedq.core.ids import NodeId
from fedq.core.ranges import Range, from_ranges
from fedq.fragments.runs import Fresh, InFlight

#: Short, so that a few messages make many runs.
RUN_MAX, SWEEP_FROM = 4, 3
TAKERS = [NodeId("ann"), NodeId("ben")]

takers = st.sampled_from(TAKERS)


class RunsMachine(RuleBasedStateMachine):
    """A line of fresh messages, and what takers have of them."""

    def __init__(self) -> None:
        super().__init__()
        self.fresh, self.held = Fresh(RUN_MAX, SWEEP_FROM), InFlight(RUN_MAX, SWEEP_FROM)
        self.waiting: dict[int, bytes] = {}
        self.out: dict[int, tuple[NodeId, bytes]] = {}
        self.last = 0

    @rule(gap=st.sampled_from([0, 0, 0, 1, 1 << 40]), kinds=st.lists(st.booleans(), min_size=1,
                                                                     max_size=9))  # fmt: skip
    def publish(self, gap: int, kinds: list[bool]) -> None:
        first = self.last + gap + 1
        messages = [b"%c%d" % (kind, first + index) for index, kind in enumerate(kinds)]
        self.fresh.add(first, messages, any(kinds))
        self.waiting.update(enumerate(messages, first))
        self.last = first + len(messages) - 1

    @precondition(lambda self: self.waiting)
    @rule(taker=takers, amount=st.integers(1, 6), before=st.none() | st.integers(1, 3))
    def take(self, taker: NodeId, amount: int, before: int | None) -> None:
        first = next(iter(self.waiting))
        assert self.fresh.first == first
        limit = first + before if before is not None else None
        position, messages, persistent = self.fresh.pop(amount, limit)
        assert position == first
        assert 0 < len(messages) <= min(amount, before if before is not None else amount)
        for index, message in enumerate(messages, first):
            assert self.waiting.pop(index) == message
            self.out[index] = (taker, message)
        assert persistent or not any(message[0] for message in messages)
        self.held.add(taker, first, messages, persistent)

    @precondition(lambda self: self.out)
    @rule(data=st.data(), taker=takers, more=st.integers(0, 8))
    def release(self, data: st.DataObject, taker: NodeId, more: int) -> None:
        start = data.draw(st.sampled_from(sorted(self.out))) - data.draw(st.integers(0, 2))
        gone: list[bytes] = []
        ranges: list[Range] = []
        self.held.release(taker, start, start + more, gone, ranges)
        wanted = [p for p in sorted(self.out) if start <= p <= start + more]
        wanted = [p for p in wanted if self.out[p][0] == taker]
        assert list(from_ranges(ranges)) == wanted
        assert gone == [self.out.pop(p)[1] for p in wanted]

    @precondition(lambda self: self.out or self.waiting)
    @rule(data=st.data())
    def extract(self, data: st.DataObject) -> None:
        """Any one leaves, from wherever it is; one that is not there does not."""
        known = sorted([*self.out, *self.waiting])
        position = data.draw(st.sampled_from(known)) + data.draw(st.sampled_from([0, 0, 0, 1]))
        held = self.out.pop(position, None)
        wanted = (held[1], held[0]) if held is not None else None
        assert self.held.extract(position) == wanted
        assert self.fresh.extract(position) == self.waiting.pop(position, None)

    @rule(taker=takers)
    def take_from(self, taker: NodeId) -> None:
        wanted = [(p, m) for p, (holder, m) in sorted(self.out.items()) if holder == taker]
        assert self.held.take_from(taker) == wanted
        for position, _ in wanted:
            del self.out[position]

    @invariant()
    def agree(self) -> None:
        self.fresh.check()
        self.held.check()
        assert dict(self.fresh.pairs()) == self.waiting
        assert list(self.held.holders()) == [(p, self.out[p][0]) for p in sorted(self.out)]
        assert list(self.held.pairs()) == [(p, self.out[p][1]) for p in sorted(self.out)]
        for position in (*self.waiting, *self.out, self.last + 1, 0):
            assert self.fresh.get(position) == self.waiting.get(position)
            held = self.out.get(position)
            assert self.held.get(position) == (held[1] if held is not None else None)
        oldest = [p for p, message in sorted(self.waiting.items()) if message[0]]
        assert self.fresh.oldest_persistent() == (oldest[0] if oldest else None)
        assert len(self.held._runs) <= 2 * len(self.out) + 2 * SWEEP_FROM


TestRuns = RunsMachine.TestCase
TestRuns.settings = settings(max_examples=150, stateful_step_count=40)
