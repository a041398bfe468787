"""What a checkpoint finds alive, piece by piece while everything changes, against what is there."""

from collections.abc import Iterator

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin
from fedq.core.message import is_persistent
from fedq.core.policy import PLAIN, QueuePolicy
from fedq.core.ranges import from_ranges
from fedq.fragments.fragment import Fragment
from fedq.fragments.replica import Replica
from fedq.fragments.runs.ranked_pages import PAGE
from fedq.fragments.upkeep import alive
from fedq.fragments.upkeep.alive import Found, in_fragment, in_replica
from fedq.fragments.upkeep.stowing import fill, for_scratch, let_go, stow, waits_for_disk
from tests.examples import examples
from tests.property.test_policy_model import message_of
from tests.unit.journal.samples import message

ONE = FragmentId(1)
TAKERS = st.sampled_from([NodeId("a"), NodeId("b")])
CLIENT = Origin(NodeId("c"), Incarnation(1))


class Walks(RuleBasedStateMachine):
    """A fragment and a backup's copy of it are used; meanwhile what is alive in both is found."""

    policy = PLAIN

    @initialize(piece=st.integers(1, 4), batches=st.integers(2, 12), taken=st.integers(0, 12))
    def begin(self, piece: int, batches: int, taken: int) -> None:
        self.piece, alive.PIECE = alive.PIECE, piece  # type: ignore[misc]
        self.fragment = Fragment(ONE, 1, durable=True, recording=True, policy=self.policy)
        self.replica = Replica(ONE, durable=True)
        self.published = 0
        #: All that there ever was.
        self.bodies: dict[int, bytes] = {}
        #: The walks under way, each with what it may not miss, and what it has found.
        self.walks: dict[str, tuple[Iterator[Found], set[int], set[int]]] = {}
        for number in range(batches):
            # In runs of their own: those next to each other differ.
            self.publish([number % 2 == 0] * (1 + number % 3), again=False)
        if taken:
            self.take(NodeId("a"), taken, settled=False)
        self.begin_a_walk("fragment")
        self.begin_a_walk("copy")

    def teardown(self) -> None:
        alive.PIECE = self.piece  # type: ignore[misc]

    def here(self) -> set[int]:
        """The positions of persistent messages that are alive."""
        return {p for p in self.fragment.messages if is_persistent(self.bodies[p])}

    def copy(self) -> None:
        """The backup hears of everything; what is gone need not be found any more."""
        records, self.fragment.out.records = self.fragment.out.records, []
        for record in records:
            self.replica.apply(record.data)
        for _, owed, _ in self.walks.values():
            owed &= self.here()

    @rule(persistent=st.lists(st.booleans(), min_size=1, max_size=3), again=st.booleans())
    def publish(self, persistent: list[bool], again: bool) -> None:
        first = self.published + 1
        self.published += len(persistent)
        bodies = [self.message_of(first + n, keep) for n, keep in enumerate(persistent)]
        self.fragment.publish(CLIENT, first, bodies, resent=again)
        self.bodies.update(enumerate(bodies, self.fragment.last - len(bodies) + 1))
        self.copy()

    def message_of(self, number: int, persistent: bool) -> bytes:
        return message(f"{number}", persistent)

    @rule(taker=TAKERS, amount=st.integers(1, 9), settled=st.booleans())
    def take(self, taker: NodeId, amount: int, settled: bool) -> None:
        self.fragment.take(taker, amount, settled)
        self.copy()

    @precondition(lambda self: self.fragment.unacked_count)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        taker, positions = self.some_held(data)
        self.fragment.settle(taker, positions)
        self.copy()

    @precondition(lambda self: self.fragment.unacked_count)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        taker, positions = self.some_held(data)
        self.fragment.requeue(taker, positions)
        self.copy()

    @precondition(lambda self: self.fragment.in_flight is not None)
    @rule(most=st.sampled_from([1, 1_000]))
    def stow_held(self, most: int) -> None:
        """What comes back now comes back to the line, behind whoever has walked over that."""
        if self.fragment.in_flight is not None:
            self.fragment.in_flight.stow(self.fragment.last, most, 1)

    @rule(keep=st.sampled_from([0, 30]))
    def stow(self, keep: int) -> None:
        self.fragment.fresh.stow(self.fragment.last, keep)

    @precondition(lambda self: waits_for_disk(self.fragment))
    @rule(data=st.data())
    def fill(self, data: st.DataObject) -> None:
        first = data.draw(st.sampled_from(list(self.fragment.messages)))
        fill(self.fragment, {p: m for p, m in self.bodies.items() if p >= first})

    def some_held(self, data: st.DataObject) -> tuple[NodeId, list[int]]:
        """Some that one taker has: the oldest ones, as a rule; or any."""
        taker = data.draw(st.sampled_from(sorted(set(self.fragment.unacked.values()))))
        held = sorted(p for p, holder in self.fragment.unacked.items() if holder == taker)
        oldest = st.integers(1, len(held)).map(lambda count: held[:count])
        some = st.lists(st.sampled_from(held), min_size=1, unique=True).map(sorted)
        return taker, data.draw(oldest | some)

    @rule()
    def read_the_copy(self) -> None:
        copied = self.replica.in_order()
        assert copied == {p: m or self.bodies[p] for p, m in self.fragment.messages.items()}

    # --- the walks -------------------------------------------------------------------------------

    @rule(of=st.sampled_from(["fragment", "copy"]))
    def begin_a_walk(self, of: str) -> None:
        if of in self.walks:
            return
        pieces = in_fragment(self.fragment) if of == "fragment" else in_replica(self.replica)
        self.walks[of] = (pieces, self.here(), set())

    @precondition(lambda self: self.walks)
    @rule(data=st.data())
    def go_on(self, data: st.DataObject) -> None:
        of = data.draw(st.sampled_from(sorted(self.walks)))
        pieces, owed, found = self.walks[of]
        piece = next(pieces, None)
        if piece is None:
            del self.walks[of]
            assert owed <= found, "what was alive all the time was not found"
            return
        positions = set(from_ranges(piece.ranges))
        assert positions <= self.here(), "what is gone, or transient, was called alive"
        found |= positions
        notes = self.fragment.notes
        assert piece.notes == {
            what: {p: table[p] for p in sorted(positions) if p in table}
            for what, table in notes.items()
            if positions & table.keys()
        }


class RankedWalks(Walks):
    """The same where messages have priorities: they go to the disk, and back, from anywhere."""

    policy = QueuePolicy(max_priority=5)

    @rule(persistent=st.lists(st.booleans(), min_size=1, max_size=3), again=st.booleans())
    def publish(self, persistent: list[bool], again: bool) -> None:
        """Far from those before: an index has a page for each few."""
        self.fragment.last += PAGE // 3
        super().publish(persistent, again)

    def message_of(self, number: int, persistent: bool) -> bytes:
        return message_of((3, None, number % 7, 0), number, 2 if persistent else 1)

    @rule(keep=st.sampled_from([0, 1, 1_000]))
    def stow(self, keep: int) -> None:
        stow(self.fragment, self.fragment.last, keep, 0, 3, 1)

    @rule(size=st.sampled_from([1, 1_000]))
    def scratch(self, size: int) -> None:
        through = self.fragment.last
        positions, _ = for_scratch(self.fragment, 0, 0, size, 1_000, False, through, 1)
        if positions:
            let_go(self.fragment, positions, 0, 0, through)


TestWalks = Walks.TestCase
TestWalks.settings = settings(max_examples=examples(150), stateful_step_count=40)
TestRankedWalks = RankedWalks.TestCase
TestRankedWalks.settings = settings(max_examples=examples(100), stateful_step_count=40)
