"""A node's use of its journal with power cuts: what a start finds is what some moment had.

Beyond `test_journal_segments`: the disk syncs when it likes, a cut keeps any end of what was not
synced, segments go the moment the plan says so, and what is alive in mostly dead ones is moved.
"""

from copy import deepcopy

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from fedq.core.ids import FragmentId
from fedq.journal.records import encode_copy
from fedq.journal.recovered import Recovered
from fedq.journal.recovery import recover
from fedq.journal.segments import Segment, SegmentPlan
from tests.examples import examples
from tests.property.test_journal_segments import JournalUse

#: Live messages by fragment, and the fragments whose copies are not whole.
Truth = tuple[dict[FragmentId, dict[int, bytes]], list[FragmentId]]


class Crashes(JournalUse):
    """The same use; turns are written at once, and synced later."""

    @initialize(bytes_max=st.integers(50, 600))
    def begin(self, bytes_max: int) -> None:
        super().begin(bytes_max)
        self.begin_life()

    def begin_life(self) -> None:
        self.synced = 0
        #: What a cut may take back: chunks since this start, and what there was before it.
        self.written: list[tuple[int, int, bytes]] = []
        self.base = dict(self.disk)
        self.gone: set[int] = set()
        #: What was so when each chunk was written.
        self.said: dict[int, Truth] = {0: self.truth()}
        #: A segment on the move, and the chunk that must be on disk first.
        self.move_ends: tuple[int, Segment] | None = None

    def truth(self) -> Truth:
        live = {each: found for each in self.live if (found := self.durable(each))}
        return deepcopy((live, sorted(self.halves)))

    @rule()
    def end_turn(self) -> None:
        for chunk in self.plan.take():
            self.chunk += 1
            self.disk[chunk.segment] = self.disk.get(chunk.segment, b"") + chunk.data
            self.written.append((chunk.number, chunk.segment, chunk.data))
        self.said[self.chunk] = self.truth()
        self.check()
        self.delete_dead()
        self.check()

    @rule()
    def delete_dead(self) -> None:
        for segment in self.plan.dead(self.oldest_live):
            assert segment < max(self.disk)
            del self.disk[segment]
            self.gone.add(segment)

    @rule()
    def sync(self) -> None:
        self.synced = self.chunk
        self.plan.on_synced(self.chunk)
        if self.move_ends is not None and self.move_ends[0] <= self.synced:
            self.plan.moved(self.move_ends[1])
            self.move_ends = None

    @precondition(lambda self: self.plan.checkpoint and self.move_ends is None)
    @rule(which=st.integers(0, 5))
    def move(self, which: int) -> None:
        """What is alive in a segment is appended anew (`fedq.node.copies.moving`)."""
        old = [s for s in self.plan._old if s.number < self.plan.checkpoint and s.live_bytes]
        if not old:
            return
        segment = old[which % len(old)]
        for fragment, flat in segment.spans.items():
            spans = [(flat[at], flat[at + 1]) for at in range(0, len(flat), 2)]
            durable = self.durable(fragment)
            here = [p for p in durable if any(first <= p <= last for first, last in spans)]
            if here:
                data = encode_copy(fragment, 1, here, [durable[p] for p in here], {})
                self.plan.append(fragment, data, True, here[0], here[-1], copied=True)
        self.move_ends = self.plan.sync_all(), segment

    @precondition(lambda self: self.disk)
    @rule(data=st.data())
    def power_cut(self, data: st.DataObject) -> None:
        end = data.draw(st.sampled_from([n for n in self.said if n >= self.synced]))
        disk = dict(self.base)
        for number, segment, piece in self.written:
            if number <= end:
                disk[segment] = disk.get(segment, b"") + piece
        self.disk = {number: data for number, data in disk.items() if number not in self.gone}
        recovered = recover(self.disk)
        live, halves = self.said[end]
        assert {
            f: each.messages for f, each in recovered.fragments.items() if each.messages
        } == live
        assert sorted(f for f, each in recovered.fragments.items() if not each.whole) == halves
        self.go_on_from(recovered)

    @precondition(lambda self: self.disk)
    @rule()
    def restart(self) -> None:
        self.end_turn()
        self.go_on_from(recover(self.disk))

    def go_on_from(self, recovered: Recovered) -> None:
        self.plan = SegmentPlan(recovered.segments, self.bytes_max, checkpoint=recovered.checkpoint)
        self.chunk = 0
        self.live = {identity: f.messages for identity, f in recovered.fragments.items()}
        self.notes = {identity: f.notes for identity, f in recovered.fragments.items()}
        self.halves = {i: None for i, f in recovered.fragments.items() if not f.whole}
        self.begin_life()


TestCrashes = Crashes.TestCase
TestCrashes.settings = settings(max_examples=examples(300), stateful_step_count=60)
