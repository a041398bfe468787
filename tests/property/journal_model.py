"""A journal as one would explain it on a blackboard, and arbitrary records for it.

The model knows no bytes: it replays decoded records over plain sets of positions.
"""

from dataclasses import dataclass, field

from hypothesis import strategies as st

from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin, first_position
from fedq.core.limits import SEQUENCE_MAX
from fedq.core.message import encode, is_persistent
from fedq.core.ranges import Range, pack_ranges
from fedq.journal.events import (
    ALL,
    SOME,
    SURE,
    Checkpoint,
    Copy,
    Drop,
    Enqueue,
    Group,
    Keep,
    Live,
    Note,
    PublisherMark,
    Publishers,
    Readers,
    Record,
    Reset,
    Seen,
    Settle,
    Single,
    Standing,
)
from fedq.journal.notes import Notes
from fedq.journal.records import NOTES
from fedq.journal.recovered import Recovered

POSITION_MAX = 60

MESSAGES = st.builds(
    encode,
    st.integers(0, 1),
    st.binary(max_size=6),
    st.binary(max_size=6),
    st.binary(max_size=12),
)
U64 = st.integers(0, 2**64 - 1)
Records = st.SearchStrategy[Record]


def records(fragments: st.SearchStrategy[int], numbers: st.SearchStrategy[int]) -> Records:
    """Any record over these fragments, with these positions, events and publish numbers."""
    group = fragments.flatmap(
        lambda fragment: st.builds(
            Group,
            st.just(FragmentId(fragment)),
            st.integers(0, 9),
            st.lists(tracked(st.just(fragment), numbers), max_size=4),
        )
    )
    return tracked(fragments, numbers) | group


def tracked(
    fragments: st.SearchStrategy[int], numbers: st.SearchStrategy[int]
) -> st.SearchStrategy[Single]:
    """Any record but a group."""
    fragment = fragments.map(FragmentId)
    reign = st.integers(0, 9)
    origins = st.builds(Origin, st.text(max_size=4).map(NodeId), st.integers(0, 3).map(Incarnation))
    range_ = st.tuples(numbers, numbers).map(lambda ends: (min(ends), max(ends)))
    ranges = st.lists(range_, max_size=4)
    batch = st.lists(MESSAGES, min_size=1, max_size=5)
    pairs = st.lists(st.tuples(numbers, MESSAGES), max_size=5, unique_by=lambda pair: pair[0])
    copy = st.builds(
        lambda fragment, reign, pairs, origins: Copy(
            fragment, reign, [p for p, _ in sorted(pairs)], [m for _, m in sorted(pairs)], origins
        ),
        fragment,
        reign,
        pairs,
        st.dictionaries(origins, numbers, max_size=3),
    )
    return st.one_of(
        st.builds(Enqueue, fragment, reign, numbers, origins, numbers, st.booleans(), batch),
        copy,
        st.builds(Settle, fragment, reign, numbers, ranges),
        st.builds(Keep, fragment, reign, numbers, ranges),
        st.builds(Seen, fragment, reign, numbers, numbers, ranges),
        st.builds(
            Readers,
            fragment,
            reign,
            numbers,
            st.booleans(),
            st.dictionaries(st.sampled_from(["", "a", "b", "ü" * 127]), st.just(0) | numbers),
        ),
        publishers(fragment, reign, numbers),
        st.builds(Reset, fragment, reign, numbers),
        st.builds(Drop, fragment, reign),
        st.builds(
            Note,
            fragment,
            reign,
            numbers,
            st.sampled_from(NOTES),
            st.dictionaries(numbers, st.just(0) | numbers, max_size=5),
        ),
    )


def publishers(
    fragment: st.SearchStrategy[FragmentId],
    reign: st.SearchStrategy[int],
    numbers: st.SearchStrategy[int],
) -> st.SearchStrategy[Single]:
    """What was taken of publishers with names."""
    sequences = numbers.filter(lambda number: number <= SEQUENCE_MAX)
    ends = st.lists(numbers, max_size=6, unique=True).map(sorted)
    ranges = ends.map(lambda flat: pack_ranges(list(zip(flat[::2], flat[1::2], strict=False))))
    names = st.sampled_from(["a", "b", "c", "ü" * 127])
    marks = st.dictionaries(names, st.builds(PublisherMark, sequences, ranges), max_size=3)
    return st.builds(
        Publishers, fragment, reign, numbers, st.sampled_from([SOME, ALL, SURE]), marks
    )


def own_records() -> st.SearchStrategy[Single]:
    """Records of checkpoints."""
    fragments, number = st.integers(-(2**63), 2**63 - 1).map(FragmentId), U64
    origins = st.builds(Origin, st.text(max_size=4).map(NodeId), st.integers(0, 3).map(Incarnation))
    range_ = st.tuples(st.integers(0, 2**63), st.integers(0, 99)).map(lambda r: (r[0], sum(r)))
    known = st.dictionaries(origins, number, max_size=3)
    return st.one_of(
        st.builds(Standing, fragments, number, number, number, st.booleans(), known),
        st.builds(Live, fragments, number, number, st.lists(range_, max_size=4)),
        st.builds(Checkpoint, st.just(0).map(FragmentId), st.just(0), number),
    )


OWN_RECORDS = own_records()
#: Every number in its whole width, for the encoding.
WIDE_RECORDS = records(st.integers(-(2**63), 2**63 - 1), U64)
#: Few fragments and positions, so that records meet each other.
CLOSE_RECORDS = records(st.integers(-1, 2), st.integers(1, POSITION_MAX))


@dataclass
class ModelFragment:
    """What is known of one fragment; transient messages are not, they die with the process."""

    messages: dict[int, bytes] = field(default_factory=dict)
    last: int = 0
    reign: int = 0
    origins: dict[Origin, int] = field(default_factory=dict)
    #: By position and kind.
    notes: dict[tuple[int, int], int] = field(default_factory=dict)
    whole: bool = True
    seen: Seen | None = None
    readers: dict[str, int] = field(default_factory=dict)
    publishers: dict[str, PublisherMark] = field(default_factory=dict)
    ahead: dict[str, PublisherMark] = field(default_factory=dict)

    def hold(self, position: int, message: bytes) -> None:
        if is_persistent(message):
            self.messages[position] = message

    def forget(self, ranges: list[Range]) -> None:
        for first, last in ranges:
            for position in range(first, last + 1):
                self.messages.pop(position, None)
                for what in NOTES:
                    self.notes.pop((position, what), None)

    def saw(self, number: int) -> None:
        self.last = max(self.last, number)

    def saw_end(self, record: Copy) -> None:
        if not record.positions and not record.origins:
            if not self.whole:
                self.publishers, self.ahead = self.ahead, {}
            self.whole = True
            self.saw(first_position(record.reign))

    def begin_copy(self, record: Keep) -> None:
        self.forget(record.dropped)
        self.saw(record.base)
        self.whole = False
        self.seen = None
        self.ahead = {}

    def hear_of_publishers(self, record: Publishers) -> None:
        if record.kind == SURE:
            # Of whom nothing was taken is nobody.
            said = {name: mark for name, mark in record.marks.items() if mark.highest}
            self.publishers, self.ahead = said, {}
            return
        known = self.publishers if self.whole else self.ahead
        known = {} if record.kind == ALL else dict(known)
        for name, mark in record.marks.items():
            known.pop(name, None)
            if mark.highest:
                known[name] = mark
        if self.whole:
            self.publishers = known
        else:
            self.ahead = known

    def enqueue(self, record: Enqueue) -> None:
        for index, message in enumerate(record.messages):
            self.hold(record.first_position + index, message)
            self.saw(record.first_position + index)
            self.saw_publish(record.origin, record.first_number + index)
        self.seen = None if record.resent else self.seen

    def hear(self, record: Seen | Readers | Publishers) -> None:
        self.saw(record.event)
        if isinstance(record, Publishers):
            self.hear_of_publishers(record)
            return
        if isinstance(record, Seen):
            self.seen = record
            return
        if record.whole:
            self.readers = {}
        for name, position in record.places.items():
            self.readers.pop(name, None)
            if position:
                self.readers[name] = position

    def saw_publish(self, origin: Origin, number: int) -> None:
        self.origins[origin] = max(self.origins.get(origin, 0), number)


def replay(history: list[Record]) -> dict[FragmentId, ModelFragment]:
    """The state after these records."""
    state: dict[FragmentId, ModelFragment] = {}
    flat = [
        single
        for record in history
        for single in (record.records if isinstance(record, Group) else [record])
    ]
    for record in flat:
        if isinstance(record, Drop):
            state.pop(record.fragment, None)
            continue
        if isinstance(record, Reset):
            state[record.fragment] = ModelFragment()
        fragment = state.setdefault(record.fragment, ModelFragment())
        fragment.reign = max(fragment.reign, record.reign)
        if isinstance(record, Enqueue):
            fragment.enqueue(record)
        elif isinstance(record, Copy):
            for position, message in zip(record.positions, record.messages, strict=True):
                fragment.hold(position, message)
                fragment.saw(position)
            for origin, number in record.origins.items():
                fragment.saw_publish(origin, number)
            fragment.saw_end(record)
        elif isinstance(record, Settle):
            fragment.forget(record.ranges)
            fragment.saw(record.event)
        elif isinstance(record, Keep):
            fragment.begin_copy(record)
        elif isinstance(record, Seen | Readers | Publishers):
            fragment.hear(record)
        elif isinstance(record, Note):
            fragment.saw(record.event)
            for position, value in record.values.items():
                if position in fragment.messages:
                    fragment.notes[position, record.what] = value
        else:
            assert isinstance(record, Reset), "a checkpoint is of this node alone"
            fragment.saw(record.base)
    return state


def notes_of(model: ModelFragment) -> Notes:
    """The model's notes as the journal tells them; a note of 0 is none."""
    notes: Notes = {}
    for (position, what), value in model.notes.items():
        if value:
            notes.setdefault(what, {})[position] = value
    return notes


def assert_same(recovered: Recovered, state: dict[FragmentId, ModelFragment]) -> None:
    """The recovered state is the model's, and its messages are in order."""
    assert sorted(recovered.fragments) == sorted(state)
    for identity, fragment in recovered.fragments.items():
        model = state[identity]
        assert list(fragment.messages.items()) == sorted(model.messages.items())
        assert fragment.last == model.last
        assert fragment.reign == model.reign
        assert fragment.whole == model.whole
        assert fragment.seen == model.seen
        assert fragment.readers == model.readers
        assert list(fragment.publishers.items()) == list(model.publishers.items())
        assert fragment.publishers_ahead == model.ahead
        assert fragment.origins == model.origins
        assert fragment.notes == notes_of(model)
