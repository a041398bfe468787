"""A copy that is made, newest messages first, against a dict: what is on disk, what is settled.

Chunks come below all that is there; any positions are settled, as consumers do or as a purge does;
bodies leave memory, of what had come by some mark. The model has one entry for each message.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fedq.core.message import is_persistent
from fedq.core.ranges import Range, from_ranges, to_ranges
from fedq.core.work import Work
from fedq.fragments.copy.applied import Mark
from fedq.fragments.copy.positions import Positions
from fedq.fragments.replica import Replica
from fedq.fragments.upkeep.alive import in_replica
from fedq.journal.records import NOTE_RETURNS, encode_copy, encode_enqueue, encode_settle
from fedq.journal.records import encode_with_notes as with_notes
from tests.examples import examples
from tests.unit.journal.samples import NORTH, ONE, message

#: Above all that copies bring.
LIVE = 10_000


class CopyingMachine(RuleBasedStateMachine):
    """One copy of a durable queue that gets what is old, and what is new meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.copy = Replica(ONE, durable=True)
        self.model: dict[int, bytes] = {}
        self.below = self.last = LIVE
        self.mark: Mark | None = None
        #: What had come when the mark was taken: nothing else may leave memory.
        self.on_disk: set[int] = set()

    @rule(
        count=st.integers(1, 20),
        gap=st.integers(0, 2),
        transient=st.sampled_from([-1, -1, -1, 0, 3]),
    )
    def chunk(self, count: int, gap: int, transient: int) -> None:
        """Old messages; one of them may not be persistent."""
        last = self.below - 1 - gap
        first = max(1, last - count + 1)
        if first > last:
            return
        self.below = first
        positions = list(range(first, last + 1))
        bodies = [message(f"old {p}", p - first != transient) for p in positions]
        applied = self.copy.apply(encode_copy(ONE, 1, positions, bodies, {}))
        self.model.update(zip(positions, bodies, strict=True))
        assert (applied.first, applied.last, applied.copied) == (first, last, True)
        assert applied.sync == applied.journal == any(map(is_persistent, bodies))

    @rule(count=st.integers(1, 20))
    def noted_chunk(self, count: int) -> None:
        """Old messages of which one came back to its queue."""
        last = self.below - 1
        first = max(1, last - count + 1)
        if first > last:
            return
        self.below = first
        positions = list(range(first, last + 1))
        bodies = [message(f"old {p}", True) for p in positions]
        record = encode_copy(ONE, 1, positions, bodies, {})
        self.copy.apply(with_notes(ONE, 1, record, 0, {NOTE_RETURNS: {first: 1}}))
        self.model.update(zip(positions, bodies, strict=True))

    @rule(count=st.integers(1, 20))
    def publish(self, count: int) -> None:
        """Live messages."""
        first = self.last + 1
        bodies = [message(f"new {n}", True) for n in range(count)]
        self.copy.apply(encode_enqueue(ONE, 1, first, NORTH, first, bodies))
        self.model.update(enumerate(bodies, first))
        self.last = first + count - 1

    @rule(share=st.floats(0, 1), length=st.integers(1, 40))
    def settle(self, share: float, length: int) -> None:
        """A range somewhere."""
        first = self.below + int(share * (self.last - self.below))
        self.copy.apply(encode_settle(ONE, 1, self.last, [(first, first + length)]))
        for position in [p for p in self.model if first <= p <= first + length]:
            del self.model[position]

    @rule()
    def take_mark(self) -> None:
        """The disk is asked for all that is here."""
        self.mark = self.copy.mark()
        self.on_disk = set(self.model)

    @rule(most=st.integers(1, 50))
    def stow(self, most: int) -> None:
        """The disk has it."""
        if self.mark is not None:
            self.copy.stow(self.mark, most)

    @rule()
    def read(self) -> None:
        """This node becomes the primary: what is in memory is what is not on disk alone."""
        on_disk = set(from_ranges(self.copy.stowed.ranges()))
        here = {p: body for p, body in sorted(self.model.items()) if p not in on_disk}
        assert self.copy.in_order() == here
        assert list(self.copy.messages) == list(here)

    @rule()
    def look_for_the_oldest(self) -> None:
        """The journal asks what it must keep."""
        oldest = min((p for p, m in self.model.items() if is_persistent(m)), default=None)
        assert self.copy.oldest_persistent() == oldest

    @rule()
    def write_checkpoint(self) -> None:
        """All that is alive and persistent is found."""
        found = {p for piece in in_replica(self.copy) for p in from_ranges(piece.ranges)}
        assert found == {p for p, m in self.model.items() if is_persistent(m)}

    @invariant()
    def all_are_counted(self) -> None:
        copy = self.copy
        on_disk = set(from_ranges(copy.stowed.ranges()))
        assert on_disk <= self.on_disk & set(self.model)
        assert copy.count == len(self.model)
        in_memory = [len(body) for p, body in self.model.items() if p not in on_disk]
        assert copy.bytes_in_memory == sum(in_memory)
        positions = copy.positions()
        assert to_ranges(sorted(self.model)) == _all_of(positions)

    def teardown(self) -> None:
        self.look_for_the_oldest()
        self.write_checkpoint()
        self.read()


def _all_of(positions: Positions) -> list[Range]:
    work = Work(1_000_000)
    while not positions.go_on(work):
        work.begin_turn()
    return positions.ranges


TestCopying = CopyingMachine.TestCase
TestCopying.settings = settings(max_examples=examples(150), stateful_step_count=30)
