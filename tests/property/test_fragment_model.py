"""A fragment against a list that anybody can check by eye, and against its own records.

The model is a list of messages in order, each with its holder and whether it was handed out
before. Whatever publishers, takers, settlements and failovers do: the fragment hands out what the
model hands out, and a copy that applied the fragment's records holds what the fragment holds.
"""

from collections import Counter
from collections.abc import Iterable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin
from fedq.core.message import is_persistent
from fedq.fragments.fragment import Fragment
from fedq.fragments.primary.outbox import RecordOut
from fedq.fragments.replica import Replica
from fedq.fragments.singly.tracked import oldest_persistent
from fedq.fragments.upkeep.seen import record_seen, take_up_seen
from tests.examples import examples
from tests.unit.journal.samples import message

FRAGMENT = FragmentId(7)
TAKERS = [NodeId("ann"), NodeId("ben"), NodeId("cat")]
ORIGINS = [Origin(NodeId("ann"), Incarnation(1)), Origin(NodeId("ben"), Incarnation(4))]

takers = st.sampled_from(TAKERS)


class Entry:
    """One message as the model sees it."""

    def __init__(self, position: int, body: bytes, seen: bool) -> None:
        self.position = position
        self.body = body
        self.holder: NodeId | None = None
        self.seen = seen

    def come_back(self) -> None:
        self.holder = None
        self.seen = True


class FragmentMachine(RuleBasedStateMachine):
    """Drives one fragment and the model side by side, over several reigns."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []
        self.numbers: dict[Origin, int] = {}
        self.taken_ever: dict[int, None] = {}
        self.published = 0
        self.gone = 0

    @initialize(durable=st.booleans())
    def begin(self, durable: bool) -> None:
        self.durable = durable
        self.fragment = Fragment(FRAGMENT, 1, durable=durable, recording=True)
        self.replica = Replica(FRAGMENT, durable=durable)
        #: What a restart would find: only the records that went to the journal.
        self.disk = Replica(FRAGMENT, durable=durable)
        self.last_event = self.fragment.last

    # --- what happens to a fragment --------------------------------------------------------------

    @rule(
        origin=st.sampled_from(ORIGINS),
        again=st.integers(0, 4),
        kinds=st.lists(st.booleans(), min_size=1, max_size=5),
        resent=st.booleans(),
    )
    def publish(self, origin: Origin, again: int, kinds: list[bool], resent: bool) -> None:
        """`again`: so many of the messages were sent before, and are known."""
        known = self.numbers.get(origin, 0)
        first = max(1, known + 1 - again)
        bodies = [
            message(f"{origin.node}-{first + index}", persistent)
            for index, persistent in enumerate(kinds)
        ]
        new = bodies[known + 1 - first :]
        position = self.fragment.last
        self.fragment.publish(origin, first, bodies, resent)
        for body in new:
            position += 1
            self.entries.append(Entry(position, body, resent))
        self.published += len(new)
        through = first + len(bodies) - 1
        self.numbers[origin] = max(known, through)
        owed = self.fragment.out.owed.pop()
        assert (owed.event, owed.origin, owed.through) == (self.fragment.last, origin, through)
        assert not owed.refused

    @rule(taker=takers, amount=st.integers(1, 6), settled=st.booleans())
    def take(self, taker: NodeId, amount: int, settled: bool) -> None:
        wanted = [entry for entry in self.entries if entry.holder is None][:amount]
        taken = self.fragment.take(taker, amount, settled)
        assert taken.positions == [entry.position for entry in wanted]
        assert taken.messages == [entry.body for entry in wanted]
        assert taken.redelivered == [entry.position for entry in wanted if entry.seen]
        self.taken_ever.update(dict.fromkeys(taken.positions))
        for entry in wanted:
            entry.holder = taker
        if settled:
            self.remove(wanted)

    @precondition(lambda self: self.taken_ever)
    @rule(taker=takers, data=st.data())
    def settle(self, taker: NodeId, data: st.DataObject) -> None:
        """One that another taker holds is not settled; one that came back is; twice is once."""
        positions = self.some_positions(data, taker)
        self.fragment.settle(taker, positions)
        self.remove(e for e in self.named(positions) if e.holder in (None, taker))

    @precondition(lambda self: self.taken_ever)
    @rule(taker=takers, data=st.data())
    def requeue(self, taker: NodeId, data: st.DataObject) -> None:
        positions = self.some_positions(data, taker)
        self.fragment.requeue(taker, positions)
        for entry in self.named(positions):
            if entry.holder == taker:
                entry.come_back()

    @precondition(lambda self: any(entry.holder for entry in self.entries))
    @rule(taker=takers)
    def release(self, taker: NodeId) -> None:
        held = [entry for entry in self.entries if entry.holder == taker]
        assert self.fragment.release(taker) == len(held)
        for entry in held:
            entry.come_back()

    @precondition(lambda self: self.taken_ever)
    @rule(taker=takers, data=st.data())
    def attach(self, taker: NodeId, data: st.DataObject) -> None:
        positions = self.some_positions(data, taker)
        self.fragment.attach(taker, positions)
        for entry in self.entries:
            if entry.holder == taker and entry.position not in positions:
                entry.come_back()
        for entry in self.named(positions):
            if entry.holder is None:
                entry.holder = taker
                entry.seen = True

    @precondition(lambda self: len(self.entries) > 8)
    @rule(most=st.sampled_from([1, 3, 1_000]))
    def purge(self, most: int) -> None:
        """However many leave at a time, together they are the same."""
        ready = [entry for entry in self.entries if entry.holder is None]
        through, gone = self.fragment.last, 0
        while purged := self.fragment.purge(through, most):
            gone += purged
        assert gone == len(ready)
        self.remove(ready)

    @rule(lost=st.lists(takers, unique=True, max_size=1))
    def fail_over(self, lost: list[NodeId]) -> None:
        """The copy becomes the next primary; who holds what, only the holders can say."""
        self.follow()
        held = {taker: self.held_by(taker) for taker in TAKERS if taker not in lost}
        self.fragment = Fragment(
            FRAGMENT,
            self.fragment.reign + 1,
            durable=self.durable,
            recording=True,
            messages=self.replica.in_order(),
            origins=self.replica.origins,
        )
        for entry in self.entries:
            entry.come_back()
        for taker, positions in held.items():
            self.fragment.attach(taker, positions)
            for entry in self.named(positions):
                entry.holder = taker

    @rule(
        data=st.data(), resent=st.booleans(), lost=st.lists(takers, unique=True, max_size=1),
    )  # fmt: skip
    def hand_over(self, data: st.DataObject, resent: bool, lost: list[NodeId]) -> None:
        """The primary says what was seen; then it hands out nothing, but takes and settles."""
        record_seen(self.fragment, self.fragment.reign)
        for entry in self.entries:
            # With a taker is handed out, whatever becomes of it.
            entry.seen = entry.seen or entry.holder is not None
        if data.draw(st.booleans()):
            self.publish(ORIGINS[0], 0, [True, False], resent)
        if self.taken_ever:
            self.settle(data.draw(takers), data)
        self.follow()
        last_word = self.replica.seen
        seen = {entry.position: entry.seen for entry in self.entries}
        self.fail_over(lost)
        if last_word is not None and last_word.epoch + 1 == self.fragment.reign:
            take_up_seen(self.fragment, last_word.ranges)
            for entry in self.entries:
                entry.seen = seen[entry.position]
            for taker in TAKERS:
                self.fragment.attach(taker, self.held_by(taker))

    # --- what must hold --------------------------------------------------------------------------

    @invariant()
    def agree(self) -> None:
        fragment = self.fragment
        fragment.check()
        assert fragment.messages == {entry.position: entry.body for entry in self.entries}
        assert list(fragment.messages) == sorted(fragment.messages)
        assert fragment.unacked == {e.position: e.holder for e in self.entries if e.holder}
        assert fragment.messages.held_by() == Counter(fragment.unacked.values())
        assert fragment.ready_count == sum(entry.holder is None for entry in self.entries)
        assert self.published == len(self.entries) + self.gone, "a message was lost or made up"
        assert fragment.origins == self.numbers

    @invariant()
    def follow(self) -> None:
        """The backup, and the journal, are given every record as it comes."""
        records, self.fragment.out.records = self.fragment.out.records, []
        for record in records:
            self.check_record(record)
            self.replica.apply(record.data)
            if record.journal:
                self.disk.apply(record.data)
        if self.durable:
            assert (self.replica.seen is None) >= (self.disk.seen is None)
        assert self.replica.in_order() == self.fragment.messages
        assert self.replica.origins == self.fragment.origins
        persistent = {p: m for p, m in self.fragment.messages.items() if is_persistent(m)}
        on_disk = {p: m for p, m in self.disk.in_order().items() if is_persistent(m)}
        assert on_disk == (persistent if self.durable else {})
        oldest = oldest_persistent(self.fragment.messages) if self.durable else None
        assert self.fragment.oldest_persistent() == self.replica.oldest_persistent() == oldest

    def check_record(self, record: RecordOut) -> None:
        assert record.last > self.last_event, "an event number was used twice"
        self.last_event = record.last
        assert record.last_position in (0, record.last)
        assert bool(record.first_position) == bool(record.last_position)
        assert record.first_position <= record.last_position
        assert record.journal or not record.sync, "waits for what is not written"
        assert self.durable or not record.journal

    # --- helpers ---------------------------------------------------------------------------------

    def some_positions(self, data: st.DataObject, taker: NodeId) -> list[int]:
        """Mostly what the taker holds; at times what it held once, or another does; even twice."""
        held = self.held_by(taker)
        pools = [sorted(self.taken_ever), held] if held else [sorted(self.taken_ever)]
        lists = [st.lists(st.sampled_from(pool), max_size=6) for pool in pools]
        return data.draw(st.one_of(lists))

    def held_by(self, taker: NodeId) -> list[int]:
        return [entry.position for entry in self.entries if entry.holder == taker]

    def named(self, positions: Iterable[int]) -> list[Entry]:
        wanted = dict.fromkeys(positions)
        return [entry for entry in self.entries if entry.position in wanted]

    def remove(self, entries: Iterable[Entry]) -> None:
        gone = dict.fromkeys(entry.position for entry in entries)
        self.gone += len(gone)
        self.entries = [entry for entry in self.entries if entry.position not in gone]


TestFragment = FragmentMachine.TestCase
TestFragment.settings = settings(max_examples=examples(200), stateful_step_count=40)
