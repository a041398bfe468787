"""A fragment, and a copy, of which bodies are on disk alone, against the same list as without.

Bodies leave memory and come back at any time and in any pieces; what is handed out, settled, given
back, taken over by a next primary, and what records say, is as if they had been there all along.
What has to be read first waits, and so does all behind it.
"""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from fedq.core.ids import NodeId
from fedq.core.message import FLAG_PERSISTENT, is_persistent
from fedq.core.ranges import from_ranges
from fedq.fragments.fragment import Fragment
from fedq.fragments.runs.beginnings import SINGLE
from fedq.fragments.runs.runs import ON_DISK
from fedq.fragments.upkeep.alive import in_fragment, in_replica
from fedq.fragments.upkeep.stowing import fill, let_go, lose, may_stow, missing, waits_for_disk
from tests.examples import examples
from tests.property.test_fragment_model import FRAGMENT, TAKERS, FragmentMachine, takers


class StowedMachine(FragmentMachine):
    """The machine of a fragment in memory, and a disk."""

    def __init__(self) -> None:
        super().__init__()
        #: In which reign what is being written; and all that ever was.
        self.written: tuple[int, list[int], int] | None = None
        self.scratched_ever: set[int] = set()

    def bodies(self) -> dict[int, bytes]:
        return {entry.position: entry.body for entry in self.entries}

    # --- bodies leave and come back --------------------------------------------------------------

    @precondition(lambda self: self.durable and may_stow(self.fragment))
    @rule(data=st.data(), keep=st.sampled_from([0, 0, 30, 1_000]))
    def stow(self, data: st.DataObject, keep: int) -> None:
        through = data.draw(st.sampled_from([self.fragment.last, *self.bodies()]))
        before = self.fragment.bytes_held
        self.fragment.fresh.stow(through, keep)
        assert self.fragment.bytes_held == before

    @precondition(lambda self: self.fragment.in_flight is not None)
    @rule(data=st.data(), most=st.sampled_from([1, 1_000]))
    def stow_held(self, data: st.DataObject, most: int) -> None:
        """What takers have leaves memory, too, however little it is."""
        if not self.durable or self.fragment.in_flight is None:
            return
        through = data.draw(st.sampled_from([self.fragment.last, *self.bodies()]))
        before = self.fragment.bytes_held
        self.fragment.in_flight.stow(through, most, 1)
        assert self.fragment.bytes_held == before

    @precondition(lambda self: self.durable)
    @rule(most=st.sampled_from([1, 3, 1_000]))
    def stow_copy(self, most: int) -> None:
        before = self.replica.bytes_held
        self.replica.stow(self.replica.mark(), most)
        assert self.replica.bytes_held == before

    @precondition(lambda self: self.durable)
    @rule(most=st.sampled_from([1, 3]))
    def stow_all_of_copy(self, most: int) -> None:
        """However few are looked at, and whatever stays in front, all go that may."""
        replica = self.replica
        mark = replica.mark()
        for _ in range(2 * len(self.entries) + mark.arrived + 1):
            replica.stow(mark, most)
        noted = {position for table in replica.notes.values() for position in table}
        wanted = FLAG_PERSISTENT | SINGLE
        left = [p for p, message in replica.singles.items() if p not in noted]
        assert not [p for p in left if replica.singles[p][0] & wanted == FLAG_PERSISTENT]
        assert not [batch for batch in replica.batches() if batch.may_be_stowed()]

    @precondition(lambda self: may_stow(self.fragment))
    @rule(
        data=st.data(), keep=st.sampled_from([0, 0, 30, 1_000]),
        size=st.sampled_from([1, 40, 1_000]),
    )  # fmt: skip
    def write(self, data: st.DataObject, keep: int, size: int) -> None:
        """Some are to be written to a scratch file, which takes a while."""
        after = data.draw(st.sampled_from([0, 0, *self.bodies()]))
        fresh, held = self.fragment.fresh, self.fragment.in_flight
        through = data.draw(st.sampled_from([self.fragment.last, *self.bodies()]))
        if held is not None and data.draw(st.booleans()):
            after = 0
            positions, messages = held.beyond(size, 1_000, not self.durable, through, 1)
        else:
            positions, messages = fresh.beyond(keep, after, size, 1_000, not self.durable, through)
        assert messages == [self.bodies()[position] for position in positions]
        assert all(position > after for position in positions)
        assert not (self.durable and any(map(is_persistent, messages)))
        self.written = (self.fragment.reign, positions, through) if positions else None

    @precondition(lambda self: self.written is not None)
    @rule(keep=st.sampled_from([0, 0, 30]))
    def has_written(self, keep: int) -> None:
        """What was written goes, as far as it is where it was."""
        assert self.written is not None
        (reign, positions, through), self.written = self.written, None
        if reign == self.fragment.reign:
            before = self.fragment.bytes_held
            let_go(self.fragment, positions, keep, 0, through if self.durable else 0)
            assert self.fragment.bytes_held == before
            for position, message in self.fragment.messages.items():
                went = message == ON_DISK and not is_persistent(self.bodies()[position])
                assert not went or position in self.scratched_ever or position in positions
        self.scratched_ever.update(positions)

    @rule(size=st.sampled_from([1, 40, 1_000]))
    def write_copy(self, size: int) -> None:
        """A backup writes what its journal does not have."""
        found = self.replica.for_scratch(size, 1_000)
        bodies = self.bodies()
        assert found == {position: bodies[position] for position in found}
        assert not (self.durable and any(map(is_persistent, found.values())))
        before = self.replica.bytes_held
        if found:
            assert self.replica.scratch(sorted(found)) == len(found)
            self.scratched_ever.update(found)
        assert self.replica.bytes_held == before

    @precondition(lambda self: waits_for_disk(self.fragment))
    @rule(data=st.data(), count=st.integers(1, 6))
    def come_back(self, data: st.DataObject, count: int) -> None:
        """Some are read, wherever they stand, with others around them."""
        away = [p for p in self.bodies() if self.fragment.messages[p] == ON_DISK]
        first = data.draw(st.sampled_from(away))
        read = {p: body for p, body in self.bodies().items() if p >= first}
        fill(self.fragment, dict(list(read.items())[:count]))

    @precondition(lambda self: waits_for_disk(self.fragment))
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        """Some cannot be read."""
        away = [p for p in self.bodies() if self.fragment.messages[p] == ON_DISK]
        first = data.draw(st.sampled_from(away))
        left = missing(self.fragment, first, away[-1])
        assert left is not None
        assert left[0] == first
        lost = list(from_ranges(lose(self.fragment, first, left[1])))
        assert set(lost) <= set(away)
        self.remove(self.named(lost))

    def read_all(self) -> None:
        fill(self.fragment, self.bodies())
        assert not waits_for_disk(self.fragment)
        assert not self.fragment.shut

    # --- as without ------------------------------------------------------------------------------

    @rule(taker=takers, amount=st.integers(1, 6), settled=st.booleans())
    def take(self, taker: NodeId, amount: int, settled: bool) -> None:
        if self.fragment.shut:
            # Nobody takes then.
            return
        ready = [entry for entry in self.entries if entry.holder is None]
        messages = self.fragment.messages
        away = next((i for i, e in enumerate(ready) if messages[e.position] == ON_DISK), len(ready))
        assert self.fragment.at_hand == len(ready[:away])
        assert self.fragment.must_read == (bool(ready) and not away)
        wanted = ready[: min(amount, away)]
        taken = self.fragment.take(taker, amount, settled)
        assert taken.positions == [entry.position for entry in wanted]
        assert taken.messages == [entry.body for entry in wanted]
        assert taken.redelivered == [entry.position for entry in wanted if entry.seen]
        self.taken_ever.update(dict.fromkeys(taken.positions))
        for entry in wanted:
            entry.holder = taker
        if settled:
            self.remove(wanted)

    @rule(lost=st.lists(takers, unique=True, max_size=1))
    def fail_over(self, lost: list[NodeId]) -> None:
        """The copy becomes the next primary, with what it has on disk alone."""
        self.follow()
        held = {taker: self.held_by(taker) for taker in TAKERS if taker not in lost}
        self.fragment = Fragment(
            FRAGMENT,
            self.fragment.reign + 1,
            durable=self.durable,
            recording=True,
            messages=self.replica.in_order(),
            origins=self.replica.origins,
            stowed=list(self.replica.stowed),
            scratched=list(self.replica.scratched),
        )
        for entry in self.entries:
            entry.come_back()
        for taker, positions in held.items():
            self.fragment.attach(taker, positions)
            for entry in self.named(positions):
                entry.holder = taker

    @precondition(lambda self: self.durable)
    @rule(lost=st.lists(takers, unique=True, max_size=1))
    def fail_over_to_a_disk(self, lost: list[NodeId]) -> None:
        """The next primary has nothing in memory that need not be there."""
        self.follow()
        self.stow_copy(1_000)
        self.fail_over(lost)

    @invariant()
    def agree(self) -> None:
        fragment, bodies = self.fragment, self.bodies()
        fragment.check()
        assert {p: m or bodies[p] for p, m in fragment.messages.items()} == bodies
        for position, message in fragment.messages.items():
            if not message and not (self.durable and is_persistent(bodies[position])):
                assert position in self.scratched_ever
        assert set(from_ranges([(a, b) for a, b, _ in fragment.scratched])) <= self.scratched_ever
        assert list(fragment.messages) == sorted(bodies)
        assert fragment.unacked == {e.position: e.holder for e in self.entries if e.holder}
        assert fragment.messages.held_by() == Counter(fragment.unacked.values())
        seen = {e.position for e in self.entries if e.seen and e.holder is None}
        assert all(map(fragment.was_handed_out, seen))
        assert fragment.ready_count == sum(entry.holder is None for entry in self.entries)
        assert fragment.origins == self.numbers
        persistent = sorted(p for p, body in bodies.items() if is_persistent(body))
        assert (
            sorted(fragment.messages.persistent_ranges()) == fragment.messages.persistent_ranges()
        )
        # Where nothing is durable both kinds go to a scratch file together.
        if self.durable:
            assert list(from_ranges(fragment.messages.persistent_ranges())) == persistent
            found = [p for piece in in_fragment(fragment) for p in from_ranges(piece.ranges)]
            assert sorted(found) == persistent

    @invariant()
    def follow(self) -> None:
        """The backup, and the journal, are given every record as it comes."""
        records, self.fragment.out.records = self.fragment.out.records, []
        for record in records:
            self.check_record(record)
            applied = self.replica.apply(record.data)
            assert applied.journal or not record.journal
            if record.journal:
                self.disk.apply(record.data)
        bodies = self.bodies()
        held = {
            **self.replica.in_order(),
            **dict.fromkeys(from_ranges(self.replica.stowed.ranges()), b""),
            **dict.fromkeys(from_ranges(self.replica.scratched.ranges()), b""),
        }
        assert {p: held[p] or bodies[p] for p in sorted(held)} == bodies
        assert self.replica.count == len(bodies)
        assert self.replica.bytes_held >= sum(len(m) for m in self.replica.messages.values())
        assert self.replica.origins == self.fragment.origins
        persistent = {p: m for p, m in bodies.items() if is_persistent(m)}
        on_disk = {p: m for p, m in self.disk.in_order().items() if is_persistent(m)}
        assert on_disk == (persistent if self.durable else {})
        oldest = min(persistent, default=None) if self.durable else None
        assert self.fragment.oldest_persistent() == self.replica.oldest_persistent() == oldest
        found = [p for piece in in_replica(self.replica) for p in from_ranges(piece.ranges)]
        assert not self.durable or sorted(found) == sorted(persistent)

    def teardown(self) -> None:
        if hasattr(self, "fragment"):
            for taker in TAKERS:
                self.fragment.release(taker)
            self.read_all()
            assert dict(self.fragment.messages) == self.bodies()


TestStowed = StowedMachine.TestCase
TestStowed.settings = settings(max_examples=examples(200), stateful_step_count=40)
