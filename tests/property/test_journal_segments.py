"""A node's use of its journal, at random: nothing live is ever deleted, nothing dead returns."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from fedq.core.ids import FragmentId
from fedq.core.ranges import to_ranges
from fedq.journal.records import (
    encode_copy,
    encode_drop,
    encode_enqueue,
    encode_keep,
    encode_reset,
    encode_settle,
)
from fedq.journal.recovery import recover
from fedq.journal.segments import SegmentPlan
from tests.unit.journal.samples import NORTH, message

FRAGMENTS = st.integers(-1, 2).map(FragmentId)


class JournalUse(RuleBasedStateMachine):
    """Fragments are enqueued to, settled, copied anew and dropped; turns end; the node restarts."""

    @initialize(bytes_max=st.integers(50, 600))
    def begin(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.plan = SegmentPlan(bytes_max=bytes_max)
        self.disk: dict[int, bytes] = {}
        self.chunk = 0
        #: Live messages of each fragment, in memory; the node's truth.
        self.live: dict[FragmentId, dict[int, bytes]] = {}
        self.last = 0

    def put(self, fragment: FragmentId, positions: list[int], record: bytes) -> None:
        durable = [p for p in positions if self.live[fragment][p][0] & 1]
        self.plan.append(fragment, max(durable, default=0), record, bool(durable))

    @rule(fragment=FRAGMENTS, persistent=st.lists(st.booleans(), min_size=1, max_size=5))
    def enqueue(self, fragment: FragmentId, persistent: list[bool]) -> None:
        first = self.last + 1
        self.last += len(persistent)
        messages = [message(f"{first + n}", keep) for n, keep in enumerate(persistent)]
        batch = dict(enumerate(messages, first))
        self.live.setdefault(fragment, {}).update(batch)
        self.put(fragment, list(batch), encode_enqueue(fragment, 1, first, NORTH, first, messages))

    @rule(fragment=FRAGMENTS, data=st.data())
    def settle(self, fragment: FragmentId, data: st.DataObject) -> None:
        live = self.live.get(fragment)
        if not live:
            return
        gone = data.draw(st.lists(st.sampled_from(sorted(live)), min_size=1, unique=True))
        for position in gone:
            del live[position]
        self.last += 1
        ranges = to_ranges(sorted(gone))
        self.put(fragment, [], encode_settle(fragment, 1, self.last, ranges))

    @rule(fragment=FRAGMENTS, whole=st.booleans())
    def copy_anew(self, fragment: FragmentId, whole: bool) -> None:
        """A backup falls out of sync and comes back; the copy's chunks come newest first."""
        live = self.live.setdefault(fragment, {})
        self.last += 1
        if whole:
            self.put(fragment, [], encode_reset(fragment, 2, self.last))
            copied = sorted(live)
        else:
            halves = sorted(live)[::2]
            self.put(fragment, [], encode_keep(fragment, 2, self.last, to_ranges(halves)))
            copied = halves
        while copied:
            chunk, copied = copied[-2:], copied[:-2]
            bodies = [live[position] for position in chunk]
            self.put(fragment, chunk, encode_copy(fragment, 2, chunk, bodies, {NORTH: 1}))

    @rule(fragment=FRAGMENTS)
    def drop_fragment(self, fragment: FragmentId) -> None:
        self.live.pop(fragment, None)
        self.plan.append(fragment, 0, encode_drop(fragment), False)

    @rule()
    def end_turn(self) -> None:
        for chunk in self.plan.take():
            self.chunk += 1
            assert chunk.number == self.chunk
            assert not self.disk or chunk.segment in (max(self.disk), max(self.disk) + 1)
            self.disk[chunk.segment] = self.disk.get(chunk.segment, b"") + chunk.data
        self.check()
        self.delete_dead()
        self.check()

    @rule()
    def delete_dead(self) -> None:
        """Also in the middle of a turn, when the disk has not heard of everything yet."""
        for segment in self.plan.dead(self.oldest_live):
            assert segment == min(self.disk) < max(self.disk)
            del self.disk[segment]

    @precondition(lambda self: self.disk)
    @rule()
    def restart(self) -> None:
        self.end_turn()
        recovered = recover(sorted(self.disk.items()))
        self.plan = SegmentPlan(recovered.segments, self.bytes_max)
        self.chunk = 0
        self.live = {identity: f.messages for identity, f in recovered.fragments.items()}

    def oldest_live(self, fragment: FragmentId) -> int | None:
        return min(self.durable(fragment), default=None)

    def durable(self, fragment: FragmentId) -> dict[int, bytes]:
        live = self.live.get(fragment, {})
        return {position: live[position] for position in sorted(live) if live[position][0] & 1}

    def check(self) -> None:
        """The disk says what the node knows. True at the end of a turn."""
        recovered = recover(sorted(self.disk.items()))
        found = {identity: f.messages for identity, f in recovered.fragments.items() if f.messages}
        expected = {identity: self.durable(identity) for identity in self.live}
        assert found == {identity: live for identity, live in expected.items() if live}


TestJournalUse = JournalUse.TestCase
TestJournalUse.settings = settings(max_examples=100, stateful_step_count=50)
