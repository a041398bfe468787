"""Any use of a journal: every message that was appended is found by itself, where it says."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.core import limits
from fedq.core.ids import FragmentId
from fedq.journal import places
from fedq.journal.bodies import messages_in
from fedq.journal.places import Place, Places
from fedq.journal.records import (
    encode_copy,
    encode_enqueue,
    encode_keep,
    encode_settle,
    encode_with_notes,
)
from fedq.journal.segments import KEEP_POSITION, SegmentPlan
from tests.examples import examples
from tests.unit.journal.samples import NORTH, ONE, SOUTH, message

FRAGMENTS = st.integers(1, 3).map(FragmentId)


@dataclass
class Use:
    """A plan, what it wrote, and what was appended."""

    plan: SegmentPlan
    disk: dict[int, bytes] = field(default_factory=dict)
    known: dict[FragmentId, dict[int, bytes]] = field(default_factory=dict)
    last: int = 5
    chunk: int = 0

    def enqueue(self, fragment: FragmentId, sizes: list[int], in_two: bool, noted: bool) -> None:
        """A batch of one record or two, with a hole between them."""
        data, first = b"", self.last + 1
        halves = [sizes[: len(sizes) // 2], sizes[len(sizes) // 2 :]] if in_two else [sizes]
        for half in filter(None, halves):
            begin = self.last + 1
            messages = [message(f"{begin + at}".ljust(size, "x")) for at, size in enumerate(half)]
            self.last += len(half)
            self.known.setdefault(fragment, {}).update(enumerate(messages, begin))
            record = encode_enqueue(fragment, 1, begin, NORTH, begin, messages)
            notes = {1: {begin: 7}} if noted else {}
            data += encode_with_notes(fragment, 1, record, self.last, notes)
            end, self.last = self.last, self.last + 2
        self.plan.append(fragment, data, True, first, end)

    def copy(self, fragment: FragmentId, every: int, from_end: bool) -> None:
        """Old messages anew, in two chunks."""
        positions = sorted(self.known.get(fragment, {}))[::every]
        half = len(positions) // 2
        parts = [positions[:half], positions[half:]]
        for part in filter(None, reversed(parts) if from_end else parts):
            bodies = [self.known[fragment][position] for position in part]
            data = encode_copy(fragment, 1, part, bodies, {SOUTH: 3})
            self.plan.append(fragment, data, True, part[0], part[-1], copied=True)

    def write(self) -> None:
        for chunk in self.plan.take():
            self.chunk = chunk.number
            self.disk[chunk.segment] = self.disk.get(chunk.segment, b"") + chunk.data

    def read(self, place: Place) -> bytes:
        data = self.disk[place.segment][place.offset : place.offset + place.length]
        assert len(data) == place.length > 0
        return data

    def check(self) -> None:
        """Each message is at one of the places where it may be, and nothing else is there."""
        for fragment, messages in self.known.items():
            for position, expected in messages.items():
                found = []
                for place in self.plan.locate_all(fragment, position):
                    assert place.first <= position <= place.last
                    assert place in self.plan.locate_in(fragment, place.segment)
                    read, reasons = messages_in(self.read(place), fragment, place.first, place.last)
                    assert not reasons
                    assert list(read) == sorted(read)
                    assert all(messages[each] == read[each] for each in read)
                    found += [read[position]] if position in read else []
                assert found, (fragment, position)
                assert expected == found[0]
                place_or_none = self.plan.locate(fragment, position)
                assert place_or_none == self.plan.locate_all(fragment, position)[0]
            assert self.plan.locate(fragment, self.last + 1) is None

    def check_segments(self) -> None:
        """What the places of a segment cover is all that it has of each fragment."""
        for number, data in self.disk.items():
            for fragment in self.known:
                whole, reasons = messages_in(data, fragment, 0, 1 << 64)
                assert not reasons
                found: dict[int, bytes] = {}
                for place in self.plan.locate_in(fragment, number):
                    found |= messages_in(self.read(place), fragment, place.first, place.last)[0]
                assert dict(sorted(found.items())) == whole


def take_a_step(use: Use, data: st.DataObject) -> None:
    steps = ("enqueue", "enqueue", "enqueue", "copy", "settle", "keep", "long", "write", "synced")
    step = data.draw(st.sampled_from((*steps, "sync_all", "checkpoint")))
    fragment = data.draw(FRAGMENTS)
    if step == "enqueue":
        size = st.integers(0, 60) | st.just(20_000)
        sizes = data.draw(st.lists(size, min_size=1, max_size=6))
        use.enqueue(fragment, sizes, data.draw(st.booleans()), data.draw(st.booleans()))
    elif step == "long":
        use.enqueue(fragment, [limits.LONG_RECORD_BYTES_MIN], False, False)
    elif step == "copy":
        use.copy(fragment, data.draw(st.integers(1, 3)), data.draw(st.booleans()))
    elif step == "settle":
        use.last += 1
        use.plan.append(fragment, encode_settle(fragment, 1, use.last, [(1, 2)]), True)
    elif step == "keep":
        keep = encode_keep(fragment, 1, use.last, [])
        use.plan.append(fragment, keep, False, KEEP_POSITION, KEEP_POSITION, copied=True)
    elif step == "write":
        use.write()
    elif step == "synced":
        use.plan.on_synced(use.chunk)
        use.plan.mark()
    elif step == "sync_all":
        use.plan.sync_all()
    else:
        use.plan.append_checkpoint(fragment, encode_settle(fragment, 1, use.last, []))


@settings(max_examples=examples(150))
@given(data=st.data())
def test_what_was_appended_is_found_in_the_bytes_as_written(data: st.DataObject) -> None:
    bytes_max = data.draw(st.sampled_from([300, 2_000, 1 << 20]))
    nonce = data.draw(st.none() | st.integers(1, 9))
    use = Use(SegmentPlan(bytes_max=bytes_max, nonce=nonce))
    for _ in range(data.draw(st.integers(1, 25))):
        take_a_step(use, data)
    use.write()
    use.check()
    use.check_segments()
    # The oldest segments go, as far as nothing of one fragment is in them.
    use.plan.on_synced(use.chunk)
    gone: list[int] = []
    for _ in range(2):
        gone += use.plan.dead(lambda each: 0 if each == ONE else None)
        use.write()
        use.plan.on_synced(use.chunk)
    for number in gone:
        del use.disk[number]
        assert not any(use.plan.locate_in(fragment, number) for fragment in use.known)
    for fragment, messages in use.known.items():
        for position in messages:
            for place in use.plan.locate_all(fragment, position):
                read, _ = messages_in(use.read(place), fragment, position, position)
                assert read in ({}, {position: messages[position]})


@given(
    st.lists(
        st.tuples(
            st.integers(0, 40), st.integers(0, 5), st.integers(1, 40_000), st.booleans()
        ),
        max_size=40,
    )
)  # fmt: skip
def test_an_index_says_what_a_list_would(batches: list[tuple[int, int, int, bool]]) -> None:
    """Whatever positions come, in whichever order: every batch lies in a place that is short."""
    index = Places()
    end = 100
    noted = []
    for first, more, length, copied in batches:
        index.add(ONE, first, first + more, end + length, length, copied)
        noted.append((first, first + more, end, end + length))
        end += length + 7
    index.finish_chunk(0, 0)
    everywhere = index.of(ONE, 3)
    for first, last, start, stop in noted:
        around = [
            place
            for place in everywhere
            if place.first <= first and last <= place.last
            and place.offset <= start and stop <= place.offset + place.length
        ]  # fmt: skip
        assert around
        for position in (first, last):
            arrival = index.arrival_at(ONE, position, 3)
            found = index.copies_at(ONE, position, 3) + ([arrival] if arrival else [])
            assert any(place in found for place in around)
    longest = max((stop - start for _, _, start, stop in noted), default=0)
    for place in everywhere:
        assert place.segment == 3
        assert place.length <= max(places.STRETCH_BYTES, longest)
    assert index.size <= 2 * (200 + 80) + 80 + (32 + 8) * len(noted)
    taken = sum(stop - start for _, _, start, stop in noted)
    assert index.taken(ONE) == taken
    again = Places()
    for table, is_copied in zip(index.tables(), (False, True), strict=True):
        if ONE in table:
            again.take_back(ONE, table[ONE].flat(), is_copied)
    assert again.taken(ONE) == taken


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 5)), max_size=60), st.booleans())
def test_copies_are_found_as_a_walk_would_find_them(
    spans: list[tuple[int, int]], as_it_was_kept: bool
) -> None:
    """Whatever is looked for between appends, and whichever way they go."""
    index = Places()
    for at, (first, more) in enumerate(spans):
        length = places.STRETCH_BYTES - at % 2
        index.add(ONE, first, first + more, (at + 1) * places.STRETCH_BYTES, length, True)
        if at % 7 == 3:
            index.copies_at(ONE, first, 3)
        if as_it_was_kept and at % 20 == 19:
            index.take_back(ONE, index.tables()[1][ONE].flat(), True)
    for position in range(70):
        naive = [place for place in index.of(ONE, 3) if place.first <= position <= place.last]
        assert index.copies_at(ONE, position, 3) == naive[::-1]


@pytest.mark.parametrize("step", [1, -1])
def test_what_was_copied_in_order_is_found_by_a_search(step: int) -> None:
    """A segment of a queue that was moved, or sent to a new backup newest first."""
    index = Places()
    for at in range(1_024):
        first = 100_000 + step * at * 64
        stop = (at + 1) * places.STRETCH_BYTES
        index.add(ONE, first, first + 63, stop, places.STRETCH_BYTES, True)
    size = index.size
    for position in (100_000 + step * 64, 100_000 + step * 64 * 500 + 5):
        [place] = index.copies_at(ONE, position, 3)
        assert place.first <= position <= place.last
    assert index.copies_at(ONE, 1, 3) == []
    # One run, which is counted.
    assert index.size == size + 80 + 8


def test_the_index_of_a_segment_with_one_fragment_is_small() -> None:
    plan = SegmentPlan(nonce=7)
    body = message("x" * 1000)
    for position in range(1, 20_001):
        data = encode_enqueue(ONE, 1, position, NORTH, position, [body])
        plan.append(ONE, data, True, position, position)
        if position % 7 == 0:
            plan.take()
    plan.take()
    assert plan.places_bytes < plan.bytes_held // 1_500
    assert plan.locate(ONE, 7_777) is not None
