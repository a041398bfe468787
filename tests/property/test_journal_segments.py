"""A node's use of its journal, at random: nothing live is ever deleted, nothing dead returns.

What is live keeps its notes, whichever segments are gone. Checkpoints are begun, written piece by
piece among all else, completed or given up; once one is complete, any dead segment may go.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from fedq.core.ids import FragmentId
from fedq.core.ranges import to_ranges
from fedq.journal.events import Standing
from fedq.journal.notes import Notes, forget_notes, take_notes
from fedq.journal.records import (
    NOTES,
    encode_copy,
    encode_drop,
    encode_enqueue,
    encode_group,
    encode_keep,
    encode_live,
    encode_note,
    encode_reset,
    encode_settle,
    encode_standing,
    encode_whole,
    encode_with_notes,
)
from fedq.journal.recovery import recover
from fedq.journal.segments import KEEP_POSITION, SegmentPlan
from tests.examples import examples
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
        self.notes: dict[FragmentId, Notes] = {}
        self.last = 0
        #: Copies that have begun and are not complete.
        self.halves: dict[FragmentId, None] = {}
        #: What the checkpoint under way has still to say: of a fragment that it begins with (None),
        #: or of the messages at some positions.
        self.owed: list[tuple[FragmentId, list[int] | None]] = []
        self.ended = False

    def put(
        self, fragment: FragmentId, positions: list[int], record: bytes, copied: bool = False
    ) -> None:
        durable = [p for p in positions if self.live[fragment][p][0] & 1]
        first, last = min(durable, default=0), max(durable, default=0)
        self.plan.append(fragment, record, bool(durable), first, last, copied)

    @rule(fragment=FRAGMENTS, persistent=st.lists(st.booleans(), min_size=1, max_size=5))
    def enqueue(self, fragment: FragmentId, persistent: list[bool]) -> None:
        first = self.last + 1
        self.last += len(persistent)
        messages = [message(f"{first + n}", keep) for n, keep in enumerate(persistent)]
        batch = dict(enumerate(messages, first))
        self.live.setdefault(fragment, {}).update(batch)
        self.put(fragment, list(batch), encode_enqueue(fragment, 1, first, NORTH, first, messages))

    @rule(
        fragment=FRAGMENTS,
        what=st.sampled_from(NOTES),
        value=st.integers(0, 3),
        every=st.integers(1, 4),
        stray=st.booleans(),
    )
    def note(self, fragment: FragmentId, what: int, value: int, every: int, stray: bool) -> None:
        """Something new is known of some messages; or of one that is gone, or was never here."""
        live = self.live.setdefault(fragment, {})
        values = dict.fromkeys(sorted(live)[::every], value)
        if stray:
            values[self.last + 50] = values[-(-self.last // 2)] = value
        self.last += 1
        self.put(fragment, [], encode_note(fragment, 1, self.last, what, values))
        take_notes(self.notes.setdefault(fragment, {}), what, values, live)

    @rule(fragment=FRAGMENTS, data=st.data())
    def settle(self, fragment: FragmentId, data: st.DataObject) -> None:
        live = self.live.get(fragment)
        if not live:
            return
        gone = data.draw(st.lists(st.sampled_from(sorted(live)), min_size=1, unique=True))
        for position in gone:
            del live[position]
        self.last += 1
        forget_notes(self.notes.setdefault(fragment, {}), gone)
        settled = encode_settle(fragment, 1, self.last, to_ranges(sorted(gone)))
        if data.draw(st.booleans(), "in a group"):
            settled = encode_group(fragment, 1, settled)
        self.put(fragment, [], settled)

    @rule(fragment=FRAGMENTS, whole=st.booleans())
    def copy_anew(self, fragment: FragmentId, whole: bool) -> None:
        """A backup falls out of sync and comes back; the copy's chunks come newest first."""
        live = self.live.setdefault(fragment, {})
        self.last += 1
        if whole:
            self.put(fragment, [], encode_reset(fragment, 2, self.last))
            self.halves.pop(fragment, None)
            copied = sorted(live)
        else:
            halves = sorted(live)[::2]
            keep = encode_keep(fragment, 2, self.last, to_ranges(halves))
            self.plan.append(fragment, keep, False, KEEP_POSITION, KEEP_POSITION, copied=True)
            self.halves[fragment] = None
            copied = halves
        while copied:
            chunk, copied = copied[-2:], copied[:-2]
            bodies = [live[position] for position in chunk]
            copy = encode_copy(fragment, 2, chunk, bodies, {NORTH: 1})
            known = {
                what: {position: table[position] for position in chunk if position in table}
                for what, table in self.notes.get(fragment, {}).items()
            }
            self.put(fragment, chunk, encode_with_notes(fragment, 2, copy, 0, known), True)

    @rule(fragment=FRAGMENTS)
    def complete(self, fragment: FragmentId) -> None:
        self.put(fragment, [], encode_whole(fragment, 2))
        self.live.setdefault(fragment, {})
        self.halves.pop(fragment, None)

    @rule(fragment=FRAGMENTS)
    def drop_fragment(self, fragment: FragmentId) -> None:
        self.halves.pop(fragment, None)
        self.live.pop(fragment, None)
        self.notes.pop(fragment, None)
        self.plan.append(fragment, encode_drop(fragment), False)

    # --- checkpoints -----------------------------------------------------------------------------

    @precondition(lambda self: not self.plan.is_checkpointing)
    @rule()
    def begin_checkpoint(self) -> None:
        self.ended = False
        self.segment = self.plan.begin_checkpoint()
        self.owed = [(fragment, None) for fragment in self.live]

    @precondition(lambda self: self.plan.is_checkpointing and self.owed)
    @rule()
    def write_a_piece(self) -> None:
        """What is alive by then of what the checkpoint still owes, however long ago it began."""
        fragment, positions = self.owed.pop(0)
        live = self.live.get(fragment)
        if live is None:
            return
        if positions is None:
            whole = fragment not in self.halves
            standing = Standing(fragment, 1, self.segment, self.last, whole, {NORTH: 1})
            self.plan.append_checkpoint(fragment, encode_standing(standing))
            order = sorted(live, key=lambda position: -position % 7)
            self.owed[:0] = [(fragment, order[at : at + 3]) for at in range(0, len(order), 3)]
            return
        alive = sorted(p for p in positions if p in live and live[p][0] & 1)
        if alive:
            ranges = to_ranges(alive)
            data = encode_live(fragment, 1, self.segment, ranges)
            for what, table in self.notes.get(fragment, {}).items():
                values = {p: table[p] for p in alive if p in table}
                data += encode_note(fragment, 1, self.last, what, values)
            self.plan.append_checkpoint(fragment, encode_group(fragment, 1, data))
            self.plan.found_live(fragment, ranges, 1)

    @precondition(lambda self: self.plan.is_checkpointing and not (self.owed or self.ended))
    @rule()
    def end_checkpoint(self) -> None:
        self.ended = True
        self.plan.end_checkpoint()

    @precondition(lambda self: self.plan.is_checkpointing and not self.ended)
    @rule(dice=st.integers(0, 3))
    def give_up_checkpoint(self, dice: int) -> None:
        if not dice:
            self.plan.give_up_checkpoint()

    @rule()
    def sync(self) -> None:
        """All that the disk has heard of is safe."""
        self.plan.on_synced(self.chunk)

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
            assert segment < max(self.disk)
            assert self.plan.checkpoint or segment == min(self.disk)
            del self.disk[segment]

    @precondition(lambda self: self.disk)
    @rule()
    def restart(self) -> None:
        self.end_turn()
        recovered = recover(self.disk)
        self.plan = SegmentPlan(recovered.segments, self.bytes_max, checkpoint=recovered.checkpoint)
        self.chunk = 0
        self.live = {identity: f.messages for identity, f in recovered.fragments.items()}
        self.notes = {identity: f.notes for identity, f in recovered.fragments.items()}

    def oldest_live(self, fragment: FragmentId) -> int | None:
        return 0 if fragment in self.halves else min(self.durable(fragment), default=None)

    def durable(self, fragment: FragmentId) -> dict[int, bytes]:
        live = self.live.get(fragment, {})
        return {position: live[position] for position in sorted(live) if live[position][0] & 1}

    def check(self) -> None:
        """The disk says what the node knows. True at the end of a turn."""
        recovered = recover(self.disk)
        found = {identity: f.messages for identity, f in recovered.fragments.items() if f.messages}
        expected = {identity: self.durable(identity) for identity in self.live}
        assert found == {identity: live for identity, live in expected.items() if live}
        halves = [identity for identity, f in recovered.fragments.items() if not f.whole]
        assert sorted(halves) == sorted(self.halves), "half a copy passes for a whole one"
        for identity, fragment in recovered.fragments.items():
            durable: Notes = {}
            for what, values in self.notes.get(identity, {}).items():
                take_notes(durable, what, values, expected.get(identity, {}))
            assert fragment.notes == durable


TestJournalUse = JournalUse.TestCase
TestJournalUse.settings = settings(max_examples=examples(100), stateful_step_count=50)
