"""A backup's copy against a dictionary: whatever is read late, nothing can tell.

Batches come in order, as live records or as old messages of a copy; any positions are settled, in
any order; now and then something is asked that needs the messages. The model has one entry for each
message and no idea of batches.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fedq.core.message import is_persistent
from fedq.core.ranges import to_ranges
from fedq.fragments.replica import Replica
from fedq.journal.records import (
    NOTE_EXPIRES,
    NOTE_RETURNS,
    encode_copy,
    encode_enqueue,
    encode_note,
    encode_settle,
    encode_with_notes,
)
from tests.examples import examples
from tests.property.replicated import held
from tests.unit.journal.samples import NORTH, ONE, message


class ReplicaMachine(RuleBasedStateMachine):
    """One copy of a durable queue."""

    def __init__(self) -> None:
        super().__init__()
        self.copy = Replica(ONE, durable=True)
        self.model: dict[int, bytes] = {}
        self.notes: dict[int, int] = {}
        self.last = 0

    @rule(
        texts=st.lists(st.text("ab", max_size=3), min_size=1, max_size=20),
        kinds=st.sampled_from(["persistent", "transient", "both"]),
        gap=st.integers(0, 3),
        noted=st.booleans(),
    )
    def publish(self, texts: list[str], kinds: str, gap: int, noted: bool) -> None:
        """A live record; with notes it is taken in at once."""
        first = self.last + 1 + gap
        messages = [
            message(f"{text}{n}", kinds == "persistent" or (kinds == "both" and n % 2 == 0))
            for n, text in enumerate(texts)
        ]
        record = encode_enqueue(ONE, 1, first, NORTH, first, messages)
        self.last = first + len(messages) - 1
        if noted and gap == 0:
            self.notes[first] = 7
            record = encode_with_notes(ONE, 1, record, self.last, {NOTE_EXPIRES: {first: 7}})
        applied = self.copy.apply(record)
        self.model.update(enumerate(messages, first))
        assert (applied.first, applied.last) == (first, self.last)
        assert applied.sync == applied.journal == any(map(is_persistent, messages))

    @rule(data=st.data(), amount=st.integers(1, 30), oldest=st.booleans())
    def settle(self, data: st.DataObject, amount: int, oldest: bool) -> None:
        """Mostly the oldest, as consumers do."""
        if not self.model:
            return
        held = sorted(self.model)
        if oldest:
            gone = held[:amount]
        else:
            gone = sorted(data.draw(st.sets(st.sampled_from(held), min_size=1, max_size=amount)))
        self.last += 1
        applied = self.copy.apply(encode_settle(ONE, 1, self.last, to_ranges(gone)))
        # What is not worth a record may get one, but never the other way round.
        assert applied.journal or not any(is_persistent(self.model[p]) for p in gone)
        assert not applied.sync
        for position in gone:
            del self.model[position]
            self.notes.pop(position, None)

    @rule(first=st.integers(1, 200), length=st.integers(0, 300))
    def settle_whatever_is_there(self, first: int, length: int) -> None:
        """A range may be wider than what is held."""
        self.last += 1
        last = first + length
        self.copy.apply(encode_settle(ONE, 1, self.last, [(first, last)]))
        for position in [p for p in self.model if first <= p <= last]:
            del self.model[position]
            self.notes.pop(position, None)

    @rule(data=st.data())
    def note(self, data: st.DataObject) -> None:
        """Something is known of one message."""
        if self.model:
            position = data.draw(st.sampled_from(sorted(self.model)))
            self.last += 1
            self.copy.apply(encode_note(ONE, 1, self.last, NOTE_RETURNS, {position: 1}))

    @rule(position=st.integers(1, 100))
    def copy_old(self, position: int) -> None:
        """An old message comes (again) with a copy."""
        if position <= self.last:
            body = self.model.setdefault(position, message("old"))
            self.copy.apply(encode_copy(ONE, 1, [position], [body], {}))

    @rule()
    def read(self) -> None:
        """This node becomes the primary, or says what it holds."""
        assert held(self.copy) == to_ranges(sorted(self.model))
        assert self.copy.in_order() == dict(sorted(self.model.items()))
        assert list(self.copy.messages) == sorted(self.model)

    @rule()
    def look_for_the_oldest(self) -> None:
        """The journal asks what it must keep."""
        oldest = min((p for p, m in self.model.items() if is_persistent(m)), default=None)
        assert self.copy.oldest_persistent() == oldest

    @invariant()
    def bytes_and_notes_are_counted(self) -> None:
        assert self.copy.bytes_held == sum(map(len, self.model.values()))
        assert self.copy.notes.get(NOTE_EXPIRES, {}) == self.notes

    def teardown(self) -> None:
        self.look_for_the_oldest()
        self.read()


TestReplica = ReplicaMachine.TestCase
TestReplica.settings = settings(max_examples=examples(150), stateful_step_count=40)
