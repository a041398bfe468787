"""What a fragment holds, wherever it is kept, and what was said of it: the state of `Fragment`.

Inputs: what an earlier reign has left. Outputs: counts, positions, messages, to read; what all
verbs of `fedq.fragments.fragment` share: a note, and the end of messages. Invariants: those of the
fragment (`check`).
"""

from collections.abc import Mapping, Sequence
from typing import Final

from fedq.core.ids import FragmentId, NodeId, Origin, first_position
from fedq.core.message import FLAG_PERSISTENT
from fedq.core.policy import DROP_HEAD, PLAIN, QueuePolicy
from fedq.core.ranges import Range, is_in, join_ranges, minus, to_ranges, within
from fedq.fragments.primary.all_messages import AllMessages
from fedq.fragments.primary.outbox import FragmentOut
from fedq.fragments.primary.recorder import Recorder, SparingRecorder
from fedq.fragments.publishers.known_publishers import KnownPublishers
from fedq.fragments.runs.beginnings import EVERYWHERE, IN_MEMORY, NOWHERE, KnownNotes, split
from fedq.fragments.runs.fresh import Fresh
from fedq.fragments.runs.in_flight import InFlight
from fedq.fragments.runs.moves import Going
from fedq.fragments.runs.ranked import RankedFresh
from fedq.fragments.runs.sized import SizedFresh
from fedq.fragments.runs.stowed import StowedRanges, Stretch
from fedq.fragments.singly.holders import DYING
from fedq.fragments.singly.queue_readers import QueueReaders
from fedq.fragments.singly.tracked import TrackedMessages
from fedq.fragments.streams.log import StreamLog
from fedq.fragments.streams.stream_runs import StreamRuns
from fedq.journal.intervals import Intervals
from fedq.journal.notes import Notes
from fedq.journal.records import NOTE_CAME, NOTE_EXPIRES, NOTE_RETURNS
from fedq.journal.steps import forget_within

#: Beyond all positions, and so small that compiled code needs no object for it.
EVERYTHING: Final = (1 << 62) - 1


def _refuses(policy: QueuePolicy) -> bool:
    return policy.overflow != DROP_HEAD and (
        policy.max_length is not None or policy.max_bytes is not None
    )


def _line_for(policy: QueuePolicy) -> Fresh:
    if policy.stream is not None:
        return StreamRuns()
    if policy.max_priority and policy.max_bytes is None:
        return RankedFresh(policy.max_priority)
    return Fresh() if policy.max_bytes is None else SizedFresh()


class Contents:
    """What a fragment holds. See the module's docstring."""

    __slots__ = (
        "acknowledged", "bytes_held", "came", "doubts", "dropped", "dying", "expires",
        "fragment_id", "fresh", "handed_again", "handed_out", "in_flight", "last", "log", "origins",
        "out", "policy", "publishers", "queue_readers", "recorder", "refuses", "reign", "returned",
        "safe", "seen_through", "shut", "singly", "tracked",
    )  # fmt: skip

    def __init__(
        self, fragment_id: FragmentId, reign: int, *, durable: bool, recording: bool,
        policy: QueuePolicy = PLAIN, messages: Mapping[int, bytes] | None = None,
        origins: Mapping[Origin, int] | None = None,
        notes: KnownNotes | None = None, unix_ms: int = 0, sparing: bool = False,
        stowed: Sequence[Stretch] = (), scratched: Sequence[Stretch] = (),
    ) -> None:  # fmt: skip
        """A fragment that begins its reign with `messages` (ascending) left by an earlier one.

        `stowed`, `scratched`: others that are on disk alone: in the journal, and in scratch files.

        `recording`: events are encoded for a journal or for backups; a private queue has neither.
        `sparing`: those alone that concern persistent messages.
        `policy`: this fragment's part of its queue's. `notes`: what the journal notes of the
        messages (`fedq.journal.records`), by kind and position; `unix_ms`: the time of the wall.
        """
        self.fragment_id = fragment_id
        self.reign = reign
        self.policy = policy
        #: Publishes may have to be refused: they come in by way of `fits`.
        self.refuses = _refuses(policy)
        #: Publishes may have been refused, by this primary or an earlier one: of those that are
        #: known by number nobody can say which.
        self.doubts = policy.overflow != DROP_HEAD
        #: The policy has something to say of each message, besides its size and when it expires.
        self.singly = policy.max_priority > 0
        self.expires = policy.message_ttl_ms is not None
        #: Of a stream: what goes when. Nothing is ever taken from one, only read.
        self.log = StreamLog(policy.stream) if policy.stream is not None else None
        self.fresh = _line_for(policy)
        self.in_flight: InFlight | None = None
        self.tracked: TrackedMessages | None = None
        #: Positions up to this one may have been delivered in an earlier reign.
        self.seen_through = 0
        #: Others in runs that were handed out before; None: there are none.
        self.returned: Intervals | None = None
        #: What is to die as soon as it can be read, in order: first and last position, and why.
        self.dying: list[tuple[int, int, int]] = []
        #: Highest publish number taken from each origin.
        self.origins: dict[Origin, int] = dict(origins or {})
        #: What was taken of publishers with names; None: there was none.
        self.publishers: KnownPublishers | None = None
        #: Who reads the queue by reservation; None: nobody did.
        self.queue_readers: QueueReaders | None = None
        #: Up to which position messages may be handed out: what is committed, if that matters.
        self.safe = EVERYTHING
        self.last: int = first_position(reign)
        self.bytes_held = self.handed_out = 0
        #: In this reign: messages that came, those handed out again, and those acknowledged.
        self.came = self.handed_again = self.acknowledged = 0
        #: How many messages the policy dropped that had no dead-letter exchange to go to.
        self.dropped = 0
        #: How many jobs go on piece by piece; nothing is handed out before they are done (P4).
        self.shut = 0
        self.out = FragmentOut()
        kind = SparingRecorder if sparing else Recorder
        self.recorder = kind(fragment_id, reign, self.out, active=recording, durable=durable)
        if messages or stowed or scratched:
            self._begin_with(messages or {}, notes or {}, stowed, scratched, unix_ms)

    def _begin_with(
        self, messages: Mapping[int, bytes], notes: KnownNotes, stowed: Sequence[Stretch],
        scratched: Sequence[Stretch], unix_ms: int,
    ) -> None:  # fmt: skip
        """Takes up what an earlier reign has left: any of it may have been seen."""
        came = notes.get(NOTE_CAME, {})
        notes = {what: table for what, table in notes.items() if what != NOTE_CAME}
        ranked = isinstance(self.fresh, RankedFresh)
        singly = IN_MEMORY if ranked else EVERYWHERE if self.singly else NOWHERE
        stretches, singles = split(messages, notes, stowed, singly, scratched)
        for stretch in stretches:
            if stretch.stowed:
                self.fresh.add_stowed(
                    stretch.first, stretch.last, stretch.stowed, stretch.persistent
                )
            else:
                self.fresh.add(stretch.first, stretch.messages, stretch.persistent)
        returns = notes.get(NOTE_RETURNS, {})
        for first, last in to_ranges(sorted([p for p in returns if p not in singles])):
            self.note_returned(first, last)
        if singles or returns or notes.get(NOTE_EXPIRES):
            tracked = self.make_tracked()
            transient = StowedRanges(scratched)
            self.out.dead.extend(tracked.take_over(singles, notes, unix_ms, transient))
            self.shut += len(tracked.absent)
        self.seen_through = max([*messages, *[last for _, last, _ in (*stowed, *scratched)]])
        assert self.seen_through <= self.last
        self.bytes_held = sum(map(len, messages.values())) + self.fresh.stowed_bytes
        if self.log is not None:
            self.log.begin_with(self.fresh, unix_ms, came)

    def make_tracked(self) -> TrackedMessages:
        """Where messages with a history are; made when there is one."""
        if self.tracked is None:
            on_disk = self.fresh if isinstance(self.fresh, RankedFresh) else None
            self.tracked = TrackedMessages(self.policy, on_disk)
        return self.tracked

    def change_policy(self, policy: QueuePolicy) -> int:
        """Gives the fragment other limits, which count from now on; returns how much it counted.

        What its messages have been promised stays: when they expire was settled as they came. The
        priorities of a queue, and whether it is a stream, are its declaration's and do not change.
        """
        before, self.policy, counted = self.policy, policy, 0
        assert policy.max_priority == before.max_priority, "priorities do not change"
        self.refuses = _refuses(policy)
        self.doubts = self.doubts or policy.overflow != DROP_HEAD
        self.expires = policy.message_ttl_ms is not None
        tracked, fresh = self.tracked, self.fresh
        if policy.max_bytes is not None and before.max_bytes is None and policy.stream is None:
            if isinstance(fresh, RankedFresh):
                # What is in its index stays there until it is read, and nothing follows it.
                fresh.note_heads(tracked.messages.values() if tracked is not None else ())
            elif not isinstance(fresh, SizedFresh):
                self.fresh = SizedFresh.of_line(fresh)
                counted += fresh.count - fresh.stowed_count
            if tracked is not None:
                counted += tracked.count_bytes()
        if tracked is not None:
            tracked.policy = policy
        if self.log is not None and policy.stream is not None:
            self.log.policy = policy.stream
            self.log.due = True
        return counted

    # --- what is here ------------------------------------------------------------------------

    @property
    def ready_count(self) -> int:
        """How many messages wait for a taker."""
        tracked = self.tracked
        return self.fresh.count + (tracked.ready_count if tracked is not None else 0)

    @property
    def at_hand(self) -> int:
        """How many of them may be taken, before something has to be read from the disk.

        Where something has, no more than some of those are counted that are kept singly; and of
        those that wait to be committed some, where they stand in very many runs.
        """
        return self.readable if self.safe >= self.last else self._safe_at_hand()

    @property
    def readable(self) -> int:
        """How many stand before what has to be read from the disk, committed or not."""
        fresh, tracked = self.fresh, self.tracked
        if tracked is None or not tracked.ready_count:
            return fresh.at_hand
        if fresh.stowed_count:
            return fresh.at_hand + tracked.ready_before(fresh.first_stowed)
        return fresh.at_hand + tracked.ready_count

    def _safe_at_hand(self) -> int:
        """As `at_hand`, of those that may be handed out; of very many some, one at least if any."""
        fresh, tracked, stop = self.fresh, self.tracked, self.safe + 1
        if fresh.stowed_count:
            stop = min(stop, fresh.first_stowed)
        found = fresh.at_hand_before(stop)
        if tracked is not None and tracked.ready_count:
            found += tracked.ready_before(stop)
        return found

    @property
    def ready_bytes(self) -> int:
        """The bytes of the bodies of ready messages; counted only where they are limited."""
        singles = self.tracked.ready_bytes if self.tracked is not None else 0
        fresh = self.fresh
        if isinstance(fresh, (SizedFresh, RankedFresh)):
            return singles + fresh.body_bytes
        return singles

    @property
    def stowed_count(self) -> int:
        """How many messages in runs are on disk alone, in the line or with takers."""
        held = self.in_flight.stowed_count if self.in_flight is not None else 0
        return self.fresh.stowed_count + held

    @property
    def stowed_bytes(self) -> int:
        """The bytes of those."""
        held = self.in_flight.stowed_bytes if self.in_flight is not None else 0
        return self.fresh.stowed_bytes + held

    @property
    def bytes_in_memory(self) -> int:
        """The bytes of the messages that are in memory."""
        return self.bytes_held - self.stowed_bytes

    @property
    def bytes_at_hand(self) -> int:
        """About how many bytes the messages have that can be taken without reading."""
        fresh, tracked = self.fresh, self.tracked
        if isinstance(fresh, RankedFresh):
            return (
                fresh.bytes_ahead(tracked.messages, tracked.unacked) if tracked is not None else 0
            )
        here = fresh.count - fresh.stowed_count
        return self.bytes_in_memory * fresh.at_hand // here if here else 0

    @property
    def must_read(self) -> bool:
        """Whether messages are ready, and the next one has to be read from the disk."""
        return self.fresh.stowed_count > 0 and not self.readable

    @property
    def unacked_count(self) -> int:
        """How many messages are with a taker."""
        held = self.in_flight.count if self.in_flight is not None else 0
        return held + (len(self.tracked.unacked) if self.tracked is not None else 0)

    @property
    def messages(self) -> AllMessages:
        """All live messages by position, ascending."""
        return AllMessages(self.fresh, self.in_flight, self.tracked)

    @property
    def stowed(self) -> list[Stretch]:
        """What is on disk alone, in the journal: first and last position, bytes; ascending."""
        return self.messages.stowed(True) if self.recorder.durable else []

    @property
    def scratched(self) -> list[Stretch]:
        """What is on disk alone, in scratch files: first and last position, bytes; ascending."""
        transient = self.messages.stowed(False)
        if self.recorder.durable:
            return transient
        return sorted([*self.messages.stowed(True), *transient])

    @property
    def unacked(self) -> dict[int, NodeId]:
        """The taker of each message that has one; a walk over all that is with takers."""
        found = dict(self.in_flight.holders()) if self.in_flight is not None else {}
        if self.tracked is not None:
            found |= self.tracked.unacked
        return found

    @property
    def notes(self) -> Notes:
        """The notes about messages, by kind and position; to be read only."""
        notes = self.tracked.notes if self.tracked is not None else {}
        if self.log is not None and self.log.came:
            return {**notes, NOTE_CAME: self.log.came}
        return notes

    @property
    def reader_places(self) -> dict[str, int]:
        """What the record of readers says: where those of a stream go on, or marks of a queue's."""
        if self.log is not None:
            return self.log.readers.all()
        return self.queue_readers.marks if self.queue_readers is not None else {}

    def begin_readers(self, places: Mapping[str, int]) -> None:
        """Takes up what the record of readers said in an earlier reign."""
        if self.log is not None:
            self.log.readers.begin_with(places)
        elif places:
            self.queue_readers = QueueReaders(places)

    def was_handed_out(self, position: int) -> bool:
        """Whether somebody may have seen the message: it is delivered as such."""
        tracked, returned = self.tracked, self.returned
        return (
            position <= self.seen_through
            or (tracked is not None and position in tracked.redelivered)
            or (returned is not None and position in returned)
        )

    def is_persistent(self, position: int) -> bool:
        """Whether a message that is here is persistent, wherever its body is."""
        tracked = self.tracked
        if tracked is not None and position in tracked.messages:
            return tracked.is_persistent(position)
        message = self.messages[position]
        if message:
            return message[0] & FLAG_PERSISTENT != 0
        held = self.in_flight
        is_held = held is not None and held.is_persistent(position)
        return is_held or self.fresh.is_persistent(position)

    def note_returned(self, first: int, last: int) -> None:
        """Takes note that messages in runs were handed out."""
        if self.returned is None:
            self.returned = Intervals()
        self.returned.add(first, last)

    def _forget_returned(self, returned: Intervals, ranges: Sequence[Range]) -> None:
        """Forgets that messages were handed out which are gone, and how often."""
        counts = self.tracked.notes.get(NOTE_RETURNS) if self.tracked is not None else None
        for first, last in ranges:
            for low, high in returned.within(first, last):
                if counts:
                    forget_within(counts, within([(low, high)], counts))
                returned.remove(low, high)
        if not returned:
            self.returned = None

    def within(self, amount: int, size: int) -> int:
        """How many of the next `amount` to hand out for about so many bytes; at least 1."""
        return amount if self.bytes_held <= size else self.messages.within(amount, size)

    def forget_singles(self, tracked: TrackedMessages, positions: list[int], going: Going) -> None:
        """Lets messages go that are kept singly; of those on disk alone nothing waits any more."""
        absent = tracked.absent
        waited = [position for position in positions if position in absent] if absent else []
        if waited:
            self.shut -= len(waited)
            going.persistent = going.persistent or any(absent[p] for p in waited)
        messages, ranges = tracked.forget(positions)
        if waited:
            messages = [message for message in messages if message]
        going.add(messages, ranges)

    # --- records -----------------------------------------------------------------------------

    def record_note(
        self, tracked: TrackedMessages, what: int, values: Mapping[int, int], keep: bool = True
    ) -> None:
        """Records a note about messages as an event; `keep`: it is worth a place on disk."""
        self.last += 1
        persistent = any(map(self.is_persistent, values))
        self.recorder.note(self.last, what, values, persistent, keep)

    def oldest_persistent(self) -> int | None:
        """The lowest live position that the journal must keep."""
        return self.messages.oldest_persistent() if self.recorder.durable else None

    def went(self, going: Going) -> None:
        """Forgets messages that are gone, everywhere: their bytes, and the record of it."""
        self.bytes_held -= going.size
        if self.tracked is not None and self.tracked.expiring.times:
            for first, last in going.ranges:
                self.tracked.expiring.times.forget(first, last)
        if self.returned is not None:
            self._forget_returned(self.returned, going.ranges)
        if self.recorder.active:
            self.last += 1
            self.recorder.settle(self.last, join_ranges(going.ranges), going.persistent)

    def lost(self, going: Going, why: int) -> None:
        """Forgets messages that leave otherwise than by acknowledgement; notes that, if wanted."""
        losses = self.out.losses
        if losses is not None and losses.wanted:
            losses.left.append((self.fragment_id, why, list(going.ranges)))
        self.went(going)

    def check(self) -> None:
        """Asserts the invariants; costs a walk over everything."""
        messages = self.messages
        messages.check()
        assert self.ready_count + self.unacked_count == len(messages)
        here = sum(len(message) for _, message in messages.pairs())
        assert self.bytes_held == here + self.stowed_bytes
        assert max(messages, default=0) <= self.last
        if self.tracked is not None:
            live = messages.ranges()
            assert all(is_in(live, position) for position in self.tracked.expiring.times)
            assert all(is_in(live, p) for p in self.tracked.notes.get(NOTE_RETURNS, ()))
        if self.returned is not None:
            assert self.returned
            assert not minus(self.returned, messages.ranges())
        dying = dict.fromkeys(DYING.values())
        ranges = sorted([(first, last) for first, last, _ in self.dying])
        assert all(is_in(ranges, p) for p, holder in self.unacked.items() if holder in dying)
