"""Whatever is in a journal: with bodies on disk alone a start knows what it knows with all."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from fedq.core.ids import FragmentId
from fedq.core.ranges import from_ranges, to_ranges
from fedq.journal.bodies import messages_in
from fedq.journal.events import Checkpoint, Copy, Enqueue, Group, Live, Record, Single, Standing
from fedq.journal.indexes import OPENING_BYTES, encode_index
from fedq.journal.marks import Mark, encode_mark
from fedq.journal.recovered import Recovered, RecoveredFragment
from fedq.journal.recovery import CorruptJournal, mended, salvage
from fedq.journal.segments import SegmentPlan
from fedq.journal.sources import InMemory
from tests.examples import examples
from tests.property.journal_model import CLOSE_RECORDS, POSITION_MAX
from tests.property.test_journal_crashes import Crashes
from tests.unit.journal.samples import NORTH, encode_record, message

BOUNDS = (0, 30, 100, 1 << 40)


def after_mending(disk: dict[int, bytes], recovered: Recovered) -> dict[int, bytes]:
    """The segments as the node goes on with them (`fedq.shell.disk.vouching`)."""
    last = recovered.segments[-1].number if recovered.segments else 0
    return {
        number: mended(
            data,
            [each for each in recovered.damages if each.segment == number],
            recovered.torn_bytes if number == last else 0,
        )
        for number, data in disk.items()
    }


class Indexed(InMemory):
    """Segments with indexes; those before the checkpoint are not read."""

    def __init__(self, segments: dict[int, bytes], known: Recovered) -> None:
        super().__init__(segments)
        self._checkpoint = known.checkpoint
        self._indexes = {
            each.number: encode_index(
                each, len(segments[each.number]), segments[each.number][:OPENING_BYTES]
            )
            for each in known.segments
        }

    def __getitem__(self, number: int) -> bytes:
        assert number >= self._checkpoint
        return super().__getitem__(number)

    def index(self, number: int) -> bytes | None:
        return self._indexes[number]


def known_of(fragment: RecoveredFragment) -> object:
    return (
        fragment.last, fragment.reign, fragment.origins, fragment.notes, fragment.whole,
        fragment.seen,
    )  # fmt: skip


def positions_of(fragment: RecoveredFragment) -> list[int]:
    for first, last, taken in fragment.stowed:
        assert first <= last
        assert taken > 0
    ends = [(first, last) for first, last, _ in fragment.stowed]
    assert all(one[1] < other[0] for one, other in pairwise(ends))
    stowed = list(from_ranges(ends))
    assert not set(stowed) & set(fragment.messages)
    return sorted([*stowed, *fragment.messages])


def compare(disk: dict[int, bytes], bound: int) -> None:
    """With bodies up to a bound, the same is known as without one, and the rest can be read."""
    whole = salvage(disk)
    part = salvage(disk, bound)
    # Who looks for messages may have an index take note of how its entries are ordered.
    sizes = [each.places.size for each in part.segments]
    for name in ("damages", "rotten", "lost", "torn_bytes", "checkpoint", "failed", "segments"):
        assert getattr(part, name) == getattr(whole, name), name
    compare_found(disk, whole, part, bound)
    if not whole.damages and not whole.rotten:
        indexed = salvage(Indexed(disk, part), bound)
        assert [each.is_indexed for each in indexed.segments] == [
            each.number < indexed.checkpoint for each in indexed.segments
        ]
        assert [each.places.size for each in indexed.segments] == sizes
        for one, other in zip(part.segments, indexed.segments, strict=True):
            assert (one.number, one.size) == (other.number, other.size)
            assert dict(one.spans) == dict(other.spans)
            assert one.live_count <= other.live_count
            assert bool(other.live_bytes) == bool(other.live_count)
            assert one.places.fragments() == other.places.fragments()
        compare_found(disk, whole, indexed, bound)


def compare_found(disk: dict[int, bytes], whole: Recovered, part: Recovered, bound: int) -> None:
    assert list(part.fragments) == list(whole.fragments)
    assert sum(len(m) for f in part.fragments.values() for m in f.messages.values()) <= bound
    data = after_mending(disk, part)
    plan = SegmentPlan(part.segments)
    for identity, fragment in part.fragments.items():
        expected = whole.fragments[identity]
        assert not expected.stowed
        assert fragment.bare is None
        assert known_of(fragment) == known_of(expected)
        assert positions_of(fragment) == list(expected.messages)
        assert list(fragment.messages) == list(expected.messages)[: len(fragment.messages)]
        for position, body in expected.messages.items():
            found = [fragment.messages[position]] if position in fragment.messages else []
            for place in plan.locate_all(identity, position):
                stretch = data[place.segment][place.offset : place.offset + place.length]
                read, reasons = messages_in(stretch, identity, position, position)
                assert not reasons
                found += [message for message in read.values() if message[0] & 1]
            assert found, (identity, position)
            assert all(each == body for each in found)


class Stowing(Crashes):
    """A node's use of its journal, with checkpoints, moves and cuts, looked at with bounds."""

    @precondition(lambda self: self.disk)
    @rule(bound=st.sampled_from(BOUNDS))
    def look(self, bound: int) -> None:
        self.end_turn()
        compare(self.disk, bound)

    @precondition(lambda self: self.disk)
    @rule(bound=st.sampled_from(BOUNDS), which=st.integers(0, 99), at=st.integers(0, 9_999))
    def look_at_damage(self, bound: int, which: int, at: int) -> None:
        number = sorted(self.disk)[which % len(self.disk)]
        data = bytearray(self.disk[number])
        if data:
            data[at % len(data)] ^= 0x10
            compare_damaged({**self.disk, number: bytes(data)}, bound)

    @precondition(lambda self: len(self.disk) > 1)
    @rule(bound=st.sampled_from(BOUNDS), which=st.integers(0, 99))
    def look_without_one(self, bound: int, which: int) -> None:
        number = sorted(self.disk)[which % len(self.disk)]
        compare_damaged({n: data for n, data in self.disk.items() if n != number}, bound)


TestStowing = Stowing.TestCase
TestStowing.settings = settings(max_examples=examples(60), stateful_step_count=40)


def compare_damaged(disk: dict[int, bytes], bound: int) -> None:
    try:
        salvage(disk)
    except CorruptJournal:
        # What a newer release wrote is left to that one.
        with pytest.raises(CorruptJournal):
            salvage(disk, bound)
    else:
        compare(disk, bound)


def canonical(record: Record) -> Record:
    """The same record; what is at a position of a fragment is always the same message."""
    if isinstance(record, Group):
        records: list[Single] = [
            each for single in record.records if not isinstance(each := canonical(single), Group)
        ]
        return Group(record.fragment, record.reign, records)
    if isinstance(record, Enqueue):
        positions = range(record.first_position, record.last_position + 1)
    elif isinstance(record, Copy):
        positions = record.positions  # type: ignore[assignment]  # it is walked, and no more
    else:
        return record
    messages = [
        message(f"{record.fragment}/{position}", position % 4 > 0) for position in positions
    ]
    if isinstance(record, Enqueue):
        return Enqueue(
            record.fragment, record.reign, record.first_position, record.origin,
            record.first_number, record.resent, messages,
        )  # fmt: skip
    return Copy(record.fragment, record.reign, record.positions, messages, record.origins)


#: A transient message is never called alive.
RANGES = st.tuples(st.integers(1, POSITION_MAX), st.integers(0, 9)).map(
    lambda pair: to_ranges(at for at in range(pair[0], sum(pair) + 1) if at % 4)
)


@st.composite
def checkpointed(draw: st.DrawFn) -> list[Record]:
    """Records of a checkpoint begun at segment 2; what they call alive need not be there."""
    records: list[Record] = []
    for number in draw(st.lists(st.integers(-1, 2), unique=True)):
        fragment = FragmentId(number)
        records.append(Standing(fragment, 1, 2, 70, draw(st.booleans()), {NORTH: 3}))
        records += [Live(fragment, 1, 2, draw(RANGES)) for _ in range(draw(st.integers(0, 3)))]
    return records


@settings(max_examples=examples(120))
@given(
    st.lists(st.lists(CLOSE_RECORDS, max_size=8), min_size=4, max_size=4),
    st.none() | checkpointed(),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 5_000), st.integers(1, 255)), max_size=3),
    st.sampled_from(BOUNDS),
)
def test_any_records_with_any_damage_say_the_same(
    history: list[list[Record]],
    checkpoint: list[Record] | None,
    changes: list[tuple[int, int, int]],
    bound: int,
) -> None:
    disk: dict[int, bytes] = {}
    for number, records in enumerate(history, 1):
        if number == 3 and checkpoint is not None:
            records = [*checkpoint, *records, Checkpoint(FragmentId(0), 0, 2)]
        pieces = [encode_record(canonical(record)) for record in records]
        end = sum(map(len, pieces))
        pieces = [encode_mark(Mark(7, number, 0)), *pieces, encode_mark(Mark(7, number, 49 + end))]
        disk[number] = b"".join(pieces)
    for number, at, change in changes:
        data = bytearray(disk[number])
        data[at % len(data)] ^= change
        disk[number] = bytes(data)
    compare_damaged(disk, bound)
