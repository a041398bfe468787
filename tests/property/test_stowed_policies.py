"""A fragment with a policy whose bodies leave memory and come back, against the same plain list.

Whatever a policy asks is done as if all bodies were in memory all along, but for one thing: what is
to become a dead letter, and is on disk alone, dies when it has been read; so a queue may be longer
than it should be until then, and have some whose time is over. Without a dead-letter exchange these
go unread.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from fedq.core.ids import NodeId
from fedq.core.message import is_persistent
from fedq.core.policy import QueuePolicy
from fedq.core.ranges import from_ranges
from fedq.fragments.runs.ranked import RankedFresh
from fedq.fragments.runs.runs import ON_DISK
from fedq.fragments.upkeep.stowing import (
    fill,
    for_scratch,
    let_go,
    may_stow,
    stow,
    waits_for_disk,
)
from tests.examples import examples
from tests.property.test_policy_model import TAKERS, Entry, Kind, PolicyMachine, kinds, policies


class StowedPolicyMachine(PolicyMachine):
    """The machine of a fragment with a policy, and a disk."""

    def __init__(self) -> None:
        super().__init__()
        #: What there ever was: the journal has what is persistent, a scratch file some others.
        self.disk: dict[int, bytes] = {}
        self.scratched: set[int] = set()

    @initialize(policy=policies)
    def begin(self, policy: QueuePolicy) -> None:
        """Where a policy looks at sizes and priorities none is stowed."""
        super().begin(policy)

    def mode_of(self, number: int) -> int:
        """One of seven is transient."""
        return 1 if number % 7 == 6 else 2

    @rule(new=st.lists(st.just((3, None, None, 0)) | kinds, min_size=1, max_size=4))
    def publish(self, new: list[Kind]) -> None:
        super().publish(new)
        self.disk.update((p, m) for p, m in self.fragment.messages.items() if m)

    # --- bodies leave and come back --------------------------------------------------------------

    @precondition(lambda self: may_stow(self.fragment))
    @rule(keep=st.sampled_from([0, 0, 100]), copy=st.booleans())
    def stow(self, keep: int, copy: bool) -> None:
        stow(self.fragment, self.fragment.last, keep, 0, 1_000, 1)
        if copy:
            self.replica.stow(self.replica.mark(), 1_000)

    @precondition(lambda self: may_stow(self.fragment))
    @rule(size=st.sampled_from([1, 200]), copy=st.booleans())
    def scratch(self, size: int, copy: bool) -> None:
        """What is not persistent leaves memory, too."""
        through = self.fragment.last
        positions, messages = for_scratch(self.fragment, 0, 0, size, 1_000, False, through, 1)
        assert messages == [self.disk[position] for position in positions]
        assert not any(map(is_persistent, messages))
        if positions:
            let_go(self.fragment, positions, 0, 0, through)
            self.scratched.update(positions)
        found = self.replica.for_scratch(size, 1_000) if copy else {}
        if found:
            self.replica.scratch(sorted(found))
            self.scratched.update(found)

    @precondition(lambda self: waits_for_disk(self.fragment))
    @rule(data=st.data(), count=st.integers(1, 6))
    def come_back(self, data: st.DataObject, count: int) -> None:
        away = self.away()
        first = data.draw(st.sampled_from(away))
        read = {p: self.disk[p] for p in self.fragment.messages if p >= first}
        fill(self.fragment, dict(list(read.items())[:count]))

    def away(self) -> list[int]:
        """What is on disk alone."""
        return [p for p, message in self.fragment.messages.items() if message == ON_DISK]

    def read_all(self) -> None:
        """Reads all, once for each priority: what is of a lower one stays on disk."""
        for _ in range(1 + self.policy.max_priority):
            fill(self.fragment, {p: self.disk[p] for p in self.fragment.messages})
        assert not waits_for_disk(self.fragment)
        assert not self.fragment.shut

    # --- as without, but for what has to be read first -------------------------------------------

    @rule(taker=st.sampled_from(TAKERS), amount=st.integers(1, 4))
    def take(self, taker: NodeId, amount: int) -> None:
        if self.fragment.shut:
            # Nobody takes then.
            return
        messages, ready = self.fragment.messages, self.ready()
        at_hand = next((i for i, e in enumerate(ready) if not messages[e.position]), len(ready))
        fresh = self.fragment.fresh
        if isinstance(fresh, RankedFresh) and fresh.pages.unknown:
            # It may be of the highest priority.
            unknown = next(e.position for e in self.by_position() if self.is_unknown(e.position))
            stop = (-self.policy.max_priority, unknown)
            at_hand = min(at_hand, sum(e.rank < stop for e in ready))
        assert bool(self.fragment.at_hand) == bool(at_hand)
        super().take(taker, min(amount, at_hand))

    @precondition(lambda self: any(entry.holder in TAKERS for entry in self.entries))
    @rule(data=st.data(), what=st.sampled_from(["settle", "requeue", "reject", "take_back"]))
    def decide(self, data: st.DataObject, what: str) -> None:
        """What is to die without its body is called up to be read, in pieces."""
        super().decide(data, what)
        most, size = data.draw(st.sampled_from([(1, 1_000), (1_000, 1), (1_000, 200)]))
        while self.fragment.dying:
            assert 0 < self.fragment.call_up(most, size) <= most
        if self.policy.max_bytes is not None:
            # Sizes of what came back on disk alone are estimated until then.
            self.read_all()

    @rule(most=st.sampled_from([1, 3, 1_000]))
    def cut(self, most: int) -> None:
        if self.fragment.shut or any(self.is_unknown(e.position) for e in self.entries):
            self.read_all()
        super().cut(most)

    def by_position(self) -> list[Entry]:
        return sorted(self.entries, key=lambda entry: entry.position)

    def is_unknown(self, position: int) -> bool:
        """Whether the priority of a message is known only when it is read."""
        fresh = self.fragment.fresh
        return isinstance(fresh, RankedFresh) and fresh.pages.is_unknown(position)

    def may_die(self, entry: Entry) -> bool:
        if self.policy.dead_letter_exchange is None:
            return True
        return bool(self.fragment.messages[entry.position])

    @precondition(lambda self: waits_for_disk(self.fragment))
    @rule()
    def cut_when_all_is_read(self) -> None:
        """Then nothing is too long any more."""
        self.read_all()
        super().cut(1_000)
        assert not self.is_too_long(self.ready())

    @rule()
    def fail_over(self) -> None:
        super().fail_over()
        if self.fragment.shut or self.policy.max_bytes is not None:
            # Sizes of what is on disk alone are estimated until then.
            self.read_all()

    def copy_holds_the_same(self) -> None:
        """As without, and what the copy has on disk alone."""
        records, self.fragment.out.records = self.fragment.out.records, []
        for record in records:
            self.replica.apply(record.data)
        held = dict(self.replica.in_order())
        held.update(dict.fromkeys(from_ranges(self.replica.stowed.ranges()), ON_DISK))
        held.update(dict.fromkeys(from_ranges(self.replica.scratched.ranges()), ON_DISK))
        away = [*self.away(), *from_ranges(self.replica.scratched.ranges())]
        assert all(is_persistent(self.disk[p]) or p in self.scratched for p in away)
        assert sorted(held) == list(self.fragment.messages)
        assert all(not m or m == self.disk[p] for p, m in held.items())
        live = {what: table for what, table in self.replica.notes.items() if table}
        for what, table in self.fragment.notes.items():
            copied = live.get(what, {})
            assert {p: copied.get(p) for p in table} == table


TestStowedPolicies = StowedPolicyMachine.TestCase
TestStowedPolicies.settings = settings(
    max_examples=examples(200), stateful_step_count=40, deadline=None
)
