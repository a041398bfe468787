"""Runs of fresh and of held messages against plain dicts, with runs so short that they end soon."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fedq.core.ids import NodeId
from fedq.core.ranges import Range, from_ranges
from fedq.fragments.runs.fresh import Fresh
from fedq.fragments.runs.in_flight import InFlight
from fedq.fragments.runs.runs import ON_DISK
from tests.examples import examples

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
        #: Those of them that are on disk alone.
        self.stowed: set[int] = set()
        self.out: dict[int, tuple[NodeId, bytes]] = {}
        #: Those of them that are on disk alone.
        self.held_stowed: set[int] = set()
        self.last = 0

    @rule(gap=st.sampled_from([0, 0, 0, 1, 1 << 40]), kinds=st.lists(st.booleans(), min_size=1,
                                                                     max_size=9))  # fmt: skip
    def publish(self, gap: int, kinds: list[bool]) -> None:
        first = self.last + gap + 1
        messages = [b"%c%d" % (kind, first + index) for index, kind in enumerate(kinds)]
        self.fresh.add(first, messages, any(kinds))
        self.waiting.update(enumerate(messages, first))
        self.last = first + len(messages) - 1

    @precondition(lambda self: self.fresh.at_hand)
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
        wanted = [p for p in wanted if self.out[p][0] == taker and p not in self.held_stowed]
        assert list(from_ranges(ranges)) == wanted
        assert gone == [self.out.pop(p)[1] for p in wanted]

    @precondition(lambda self: self.out)
    @rule(most=st.sampled_from([1, 3, 1_000]), data=st.data())
    def stow_held(self, most: int, data: st.DataObject) -> None:
        """Bodies leave memory while takers have them: of whole runs of persistent messages."""
        through = data.draw(st.sampled_from([self.last, *self.out]))
        before = {p for p, _ in self.held.pairs()}
        gone = self.held.stow(through, most, 1)
        went = before - {p for p, _ in self.held.pairs()}
        assert len(went) == gone
        assert all(p <= through and self.out[p][1][0] for p in went)
        self.held_stowed |= went

    @precondition(lambda self: self.out)
    @rule(
        most=st.sampled_from([1, 3, 1_000]), size=st.sampled_from([1, 9, 1_000]), gap=st.booleans(),
    )  # fmt: skip
    def scratch_held(self, most: int, size: int, gap: bool) -> None:
        """Others do when they are written; what is new in their runs meanwhile stays."""
        positions, messages = self.held.beyond(size, most, False, self.last, 1)
        assert messages == [self.out[p][1] for p in positions]
        assert not any(message[0] for message in messages)
        if not positions:
            return
        if gap and len(positions) > 2:
            self.forget_held(positions[1:2])
        before = {p for p, _ in self.held.pairs()}
        gone = self.held.let_go(positions, self.last)
        went = before - {p for p, _ in self.held.pairs()}
        assert len(went) == gone
        assert went >= set(positions) & before
        self.held_stowed |= went

    def forget_held(self, positions: list[int]) -> None:
        for position in positions:
            assert self.held.extract(position) is not None
            del self.out[position]

    @precondition(lambda self: self.held_stowed)
    @rule(data=st.data(), taker=takers, more=st.integers(0, 8), back=st.booleans())
    def take_stowed(self, data: st.DataObject, taker: NodeId, more: int, back: bool) -> None:
        """They are settled, or come back to their places in the line."""
        start = data.draw(st.sampled_from(sorted(self.held_stowed))) - data.draw(st.integers(0, 2))
        wanted = [p for p in sorted(self.held_stowed) if start <= p <= start + more]
        wanted = [p for p in wanted if self.out[p][0] == taker]
        before = self.held.stowed_bytes
        kinds = [self.out.pop(p)[1][0] for p in wanted]
        self.held_stowed -= set(wanted)
        if not back:
            ranges, size, persistent = self.held.release_stowed(taker, start, start + more)
            assert list(from_ranges(ranges)) == wanted
            assert before - self.held.stowed_bytes == size >= len(wanted)
            assert persistent == any(kinds)
            return
        returns = self.fresh.returns
        runs = self.held.take_stowed(taker, start, start + more)
        assert [p for run in runs for p in range(run.first, run.last + 1)] == wanted
        assert [run.persists(p) for run in runs for p in range(run.first, run.last + 1)] == [
            kind > 0 for kind in kinds
        ]
        assert before - self.held.stowed_bytes == sum(run.stowed for run in runs)
        for run in runs:
            self.fresh.put_back(run)
        assert (self.fresh.returns > returns) == bool(wanted)
        self.waiting.update({p: b"%c%d" % (kind, p) for p, kind in zip(wanted, kinds, strict=True)})
        self.waiting = dict(sorted(self.waiting.items()))
        self.stowed |= set(wanted)

    @precondition(lambda self: self.stowed)
    @rule(data=st.data(), taker=takers, more=st.integers(0, 8))
    def attach(self, data: st.DataObject, taker: NodeId, more: int) -> None:
        """A taker has held some that stand in the line, on disk alone."""
        start = data.draw(st.sampled_from(sorted(self.stowed)))
        wanted = [p for p in sorted(self.stowed) if start <= p <= start + more]
        for run in self.fresh.take_stowed(start, start + more):
            self.held.put_stowed(run, taker)
        self.out.update({p: (taker, self.waiting.pop(p)) for p in wanted})
        self.stowed -= set(wanted)
        self.held_stowed |= set(wanted)

    @precondition(lambda self: self.out or self.waiting)
    @rule(data=st.data())
    def extract(self, data: st.DataObject) -> None:
        """Any one leaves, from wherever it is; one that is not there does not."""
        known = sorted([*self.out, *self.waiting])
        position = data.draw(st.sampled_from(known)) + data.draw(st.sampled_from([0, 0, 0, 1]))
        held = self.out.pop(position, None) if position not in self.held_stowed else None
        wanted = (held[1], held[0]) if held is not None else None
        assert self.held.extract(position) == wanted
        waited = self.waiting.pop(position, None)
        assert self.fresh.extract(position) == (ON_DISK if position in self.stowed else waited)
        self.stowed.discard(position)

    @rule(data=st.data(), keep=st.integers(0, 20))
    def stow(self, data: st.DataObject, keep: int) -> None:
        """Bodies leave memory: of persistent messages alone, and none at the beginning."""
        through = data.draw(st.sampled_from([0, self.last, *self.waiting]))
        was, before = set(self.stowed), self.fresh.at_hand
        held = sum(map(len, dict(self.fresh.pairs()).values()))
        freed = self.fresh.stow(through, keep)
        in_memory = dict(self.fresh.pairs())
        assert held - freed == sum(map(len, in_memory.values()))
        self.stowed = set(self.waiting) - set(in_memory)
        assert was <= self.stowed
        assert all(p <= through and self.waiting[p][0] for p in self.stowed - was)
        kept = [message for p, message in self.waiting.items() if p < min(self.stowed, default=p)]
        assert not freed or was or sum(map(len, kept)) >= min(keep, held)
        assert not was or self.fresh.at_hand == before

    @precondition(lambda self: self.stowed)
    @rule(data=st.data(), more=st.integers(0, 9))
    def fill(self, data: st.DataObject, more: int) -> None:
        """What was read comes back, in any order, with some that nobody waits for."""
        start = data.draw(st.sampled_from(sorted(self.stowed))) - data.draw(st.integers(0, 2))
        bodies = {p: self.waiting.get(p, b"\x01?") for p in range(start, start + more + 1)}
        wanted = sorted(self.stowed & set(bodies))
        before = self.fresh.stowed_bytes
        filled = self.fresh.fill(bodies)
        assert filled.count == len(wanted)
        assert filled.bytes_read == sum(len(self.waiting[p]) for p in wanted)
        assert before - self.fresh.stowed_bytes + filled.misjudged == filled.bytes_read
        self.stowed -= set(wanted)

    @rule(data=st.data(), more=st.integers(0, 9))
    def forget_stowed(self, data: st.DataObject, more: int) -> None:
        first = data.draw(st.sampled_from([0, *self.waiting]))
        before = self.fresh.stowed_bytes
        ranges, size, persistent = self.fresh.forget_stowed(first, first + more)
        gone = sorted(p for p in self.stowed if first <= p <= first + more)
        assert sorted(from_ranges(ranges)) == gone
        assert size == before - self.fresh.stowed_bytes
        assert persistent == any(self.waiting[p][0] for p in gone)
        for position in gone:
            del self.waiting[position]
        self.stowed -= set(gone)

    @rule(taker=takers)
    def take_from(self, taker: NodeId) -> None:
        here = {p: each for p, each in self.out.items() if p not in self.held_stowed}
        wanted = [(p, m) for p, (holder, m) in sorted(here.items()) if holder == taker]
        assert self.held.take_from(taker) == wanted
        for position, _ in wanted:
            del self.out[position]

    @invariant()
    def agree(self) -> None:
        self.fresh.check()
        self.held.check()
        in_memory = {p: m for p, m in self.waiting.items() if p not in self.stowed}
        assert dict(self.fresh.pairs()) == in_memory
        assert self.fresh.count == len(self.waiting)
        assert self.fresh.stowed_count == len(self.stowed)
        assert list(from_ranges(self.fresh.ranges())) == list(self.waiting)
        line = list(self.waiting)
        at_hand = [p for p in line if p < min(self.stowed, default=p + 1)]
        assert self.fresh.at_hand == len(at_hand)
        after = self.fresh.stowed_after(self.last - 5)
        beyond = [p for p in sorted(self.stowed) if p > self.last - 5]
        assert (after[0] if after else None) == (beyond[0] if beyond else None)
        assert list(self.held.holders()) == [(p, self.out[p][0]) for p in sorted(self.out)]
        here = [p for p in sorted(self.out) if p not in self.held_stowed]
        assert list(self.held.pairs()) == [(p, self.out[p][1]) for p in here]
        assert self.held.stowed_count == len(self.held_stowed)
        assert list(from_ranges(self.held.ranges())) == sorted(self.out)
        next_away = self.held.stowed_after(self.last - 5)
        away = [p for p in sorted(self.held_stowed) if p > self.last - 5]
        assert (next_away[0] if next_away else None) == (away[0] if away else None)
        for position in (*self.waiting, *self.out, self.last + 1, 0):
            waiting = ON_DISK if position in self.stowed else self.waiting.get(position)
            assert self.fresh.get(position) == waiting
            held = self.out.get(position)
            is_here = held is not None and position not in self.held_stowed
            absent = ON_DISK if position in self.held_stowed else None
            assert self.held.get(position) == (held[1] if held is not None and is_here else absent)
        oldest = [p for p, message in sorted(self.waiting.items()) if message[0]]
        assert self.fresh.oldest_persistent() == (oldest[0] if oldest else None)
        oldest = [p for p, (_, message) in sorted(self.out.items()) if message[0]]
        assert self.held.oldest_persistent() == (oldest[0] if oldest else None)
        assert list(from_ranges(self.held.persistent_ranges())) == oldest
        assert len(self.held._runs) <= 2 * len(self.out) + 2 * SWEEP_FROM


TestRuns = RunsMachine.TestCase
TestRuns.settings = settings(max_examples=examples(150), stateful_step_count=40)
