"""A fragment as its primary serves it: a disjoint part of a queue, in order.

Inputs: batches of publishes, takes, settlements. Outputs: messages to hand out, and the lanes of
`FragmentOut`. A *taker* is a node: the fragment hands messages to nodes and leaves it to their
hubs (`fedq.proxy.hub`) which consumer gets which; so a consumer's place never matters here.
What the queue's policy asks (`fedq.core.policy`) is enforced by `fedq.fragments.enforcement`.

Messages are kept in two ways. Those without a history, nearly all, are in runs
(`fedq.fragments.runs`): *fresh* ones, which were not handed out in this reign, and *held* ones;
publishes, takes and settlements handle them by the run. What comes back, or has a time, a priority
or a note, is kept singly (`fedq.fragments.tracked`), and stays so.

Invariants (held by `check`):
* every message is kept in one way, and is either ready or with exactly one taker (P2); what is dead
  and what is not due yet are with takers of their own, `DEAD` and `DELAYED`;
* ready messages are handed out in order of position, within a priority, whatever way they came
  back (P4);
* an event number is used once, and grows; those of a new reign are beyond all earlier ones;
* a publish of an origin is taken once, however often it is sent (`origins`).

A message may be handed out before it is committed (docs/adr/0006): waiting would cost a round
trip per message and protects nobody, since an unconfirmed publish may be lost anyhow.
"""

from collections.abc import Iterable, Mapping, Sequence

from fedq.core.ids import FragmentId, NodeId, Origin, first_position
from fedq.core.message import FLAG_PERSISTENT, FLAG_SEEN
from fedq.core.policy import DROP_HEAD, PLAIN, REJECTED, RETURNED_TOO_OFTEN, QueuePolicy
from fedq.core.ranges import Range, count, from_ranges, join_ranges, ranges_of, to_ranges
from fedq.core.weights import weigh
from fedq.fragments.all_messages import AllMessages
from fedq.fragments.beginnings import SINGLE, TIMED, KnownNotes, split
from fedq.fragments.holders import DEAD
from fedq.fragments.moves import Going, Taken
from fedq.fragments.outbox import FragmentOut, Owed
from fedq.fragments.recorder import Recorder, SparingRecorder
from fedq.fragments.runs import RUN_MAX, Fresh, InFlight
from fedq.fragments.tracked import Notes, TrackedMessages
from fedq.journal.records import NOTE_DEAD, NOTE_RETURNS


class Fragment:
    """The primary's copy of one fragment. See the module's docstring."""

    __slots__ = (
        "_fresh", "_in_flight", "bytes_held", "dropped", "fragment_id", "handed_out", "last",
        "origins", "out", "policy", "recorder", "refuses", "reign", "seen_through", "shut",
        "singly", "tracked",
    )  # fmt: skip

    def __init__(
        self, fragment_id: FragmentId, reign: int, *, durable: bool, recording: bool,
        policy: QueuePolicy = PLAIN, messages: Mapping[int, bytes] | None = None,
        origins: Mapping[Origin, int] | None = None,
        notes: KnownNotes | None = None, unix_ms: int = 0, sparing: bool = False,
    ) -> None:  # fmt: skip
        """A fragment that begins its reign with `messages` (ascending) left by an earlier one.

        `recording`: events are encoded for a journal or for backups; a private queue has neither.
        `sparing`: those alone that concern persistent messages.
        `policy`: this fragment's part of its queue's. `notes`: what the journal notes of the
        messages (`fedq.journal.records`), by kind and position; `unix_ms`: the time of the wall.
        """
        self.fragment_id = fragment_id
        self.reign = reign
        self.policy = policy
        #: Publishes may have to be refused: they come in by way of `fits`.
        self.refuses = policy.overflow != DROP_HEAD and (
            policy.max_length is not None or policy.max_bytes is not None
        )
        #: The policy has something to say of each message.
        self.singly = (
            policy.message_ttl_ms is not None
            or policy.max_bytes is not None
            or policy.max_priority > 0
        )
        self._fresh = Fresh()
        self._in_flight: InFlight | None = None
        self.tracked: TrackedMessages | None = None
        #: Positions up to this one may have been delivered in an earlier reign.
        self.seen_through = 0
        #: Highest publish number taken from each origin.
        self.origins: dict[Origin, int] = dict(origins or {})
        self.last: int = first_position(reign)
        self.bytes_held = self.handed_out = 0
        #: How many messages the policy dropped that had no dead-letter exchange to go to.
        self.dropped = 0
        #: How many jobs go on piece by piece; nothing is handed out before they are done (P4).
        self.shut = 0
        self.out = FragmentOut()
        kind = SparingRecorder if sparing else Recorder
        self.recorder = kind(fragment_id, reign, self.out, active=recording, durable=durable)
        if messages:
            self._begin_with(messages, notes or {}, unix_ms)

    def _begin_with(self, messages: Mapping[int, bytes], notes: KnownNotes, unix_ms: int) -> None:
        """Takes up what an earlier reign has left: any of it may have been seen."""
        stretches, singles = ([], messages) if self.singly else split(messages, notes)
        for first, part, persistent in stretches:
            self._fresh.add(first, part, persistent)
        if singles:
            self.out.dead.extend(self.make_tracked().take_over(singles, notes, unix_ms))
        self.seen_through = max(messages)
        assert self.seen_through <= self.last
        self.bytes_held = sum(map(len, messages.values()))

    def make_tracked(self) -> TrackedMessages:
        """Where messages with a history are; made when there is one."""
        if self.tracked is None:
            self.tracked = TrackedMessages(self.policy)
        return self.tracked

    # --- what is here ------------------------------------------------------------------------

    @property
    def ready_count(self) -> int:
        """How many messages wait for a taker."""
        tracked = self.tracked
        return self._fresh.count + (tracked.ready_count if tracked is not None else 0)

    @property
    def unacked_count(self) -> int:
        """How many messages are with a taker."""
        held = self._in_flight.count if self._in_flight is not None else 0
        return held + (len(self.tracked.unacked) if self.tracked is not None else 0)

    @property
    def messages(self) -> AllMessages:
        """All live messages by position, ascending."""
        return AllMessages(self._fresh, self._in_flight, self.tracked)

    @property
    def unacked(self) -> dict[int, NodeId]:
        """The taker of each message that has one; a walk over all that is with takers."""
        found = dict(self._in_flight.holders()) if self._in_flight is not None else {}
        if self.tracked is not None:
            found |= self.tracked.unacked
        return found

    @property
    def notes(self) -> Notes:
        """The notes about messages, by kind and position; to be read only."""
        return self.tracked.notes if self.tracked is not None else {}

    def was_handed_out(self, position: int) -> bool:
        """Whether somebody may have seen the message: it is delivered as such."""
        tracked = self.tracked
        return position <= self.seen_through or (
            tracked is not None and position in tracked.redelivered
        )

    # --- publishes ---------------------------------------------------------------------------

    def publish(
        self, origin: Origin, first: int, messages: Sequence[bytes], resent: bool = False,
        unix_ms: int = 0,
    ) -> None:  # fmt: skip
        """Enqueues publishes `first`, `first + 1`, … of an origin; those known are left out.

        A fragment that `refuses` cannot tell which of the known ones it had refused before a
        failover: they are refused (again), so that nothing is confirmed that is nowhere.
        """
        through = first + len(messages) - 1
        known = self.origins.get(origin, 0)
        doubtful: tuple[int, ...] = ()
        if known >= first:
            if self.refuses:
                doubtful = tuple(range(first, min(known, through) + 1))
            messages = messages[known + 1 - first :]
            first = known + 1
        if messages:
            self.origins[origin] = through
            self._enqueue(origin, first, messages, resent, unix_ms)
        self.out.owed.append(Owed(self.last, origin, through, doubtful))

    def take_number(self, origin: Origin, number: int) -> None:
        """Takes a number for a transaction without publishes: if sent again, it is known."""
        self.origins[origin] = number
        self.last += 1
        self.recorder.origin(self.last, origin, number)
        self.out.owed.append(Owed(self.last, origin, number, ()))

    def refuse(self, origin: Origin, first: int, count: int) -> None:
        """Refuses publishes that the policy turns away; their publisher hears so."""
        through = first + count - 1
        self.origins[origin] = max(through, self.origins.get(origin, 0))
        refused = tuple(range(first, through + 1))
        self.out.owed.append(Owed(self.last, origin, through, refused))

    def _enqueue(
        self, origin: Origin, number: int, messages: Sequence[bytes], resent: bool, unix_ms: int
    ) -> None:
        size, flags = weigh(messages)
        notes = self._add(messages, size, flags, resent, unix_ms)
        lasting = flags & FLAG_PERSISTENT != 0
        self.recorder.enqueue(self.last, origin, number, messages, resent, lasting, notes)

    def publish_private(self, messages: Sequence[bytes], unix_ms: int = 0) -> None:
        """Enqueues into a private queue: no origin, no record, no confirm to wait for."""
        size, flags = weigh(messages)
        self._add(messages, size, flags, False, unix_ms)

    def _add(
        self, messages: Sequence[bytes], size: int, flags: int, resent: bool, unix_ms: int
    ) -> Notes:
        """Adds new messages to the line; returns the notes about them."""
        first = self.last + 1
        self.last += len(messages)
        self.bytes_held += size
        if not (self.singly or resent or flags & SINGLE):
            self._fresh.add(first, messages, flags & FLAG_PERSISTENT != 0)
            return {}
        tracked = self.make_tracked()
        tracked.add(first, messages)
        if resent:
            tracked.redelivered.update(range(first, self.last + 1))
        elif flags & FLAG_SEEN:
            tracked.redelivered.update(p for p, m in enumerate(messages, first) if m[0] & FLAG_SEEN)
        if self.policy.message_ttl_ms is not None or flags & TIMED:
            return tracked.make_appointments(first, messages, unix_ms)
        return {}

    # --- takers ------------------------------------------------------------------------------

    def within(self, amount: int, size: int) -> int:
        """How many of the next `amount` to hand out for about so many bytes; at least 1."""
        return amount if self.bytes_held <= size else self.messages.within(amount, size)

    def take(self, taker: NodeId, amount: int, settled: bool = False) -> Taken:
        """Hands up to `amount` ready messages to a taker, the next ones in line.

        `settled`: its consumers acknowledge by receiving (no-ack), so they are gone at once.
        """
        fresh, tracked = self._fresh, self.tracked
        pieces: list[range] = []
        messages: list[bytes] = []
        redelivered: list[int] = []
        going = Going() if settled else None
        while (left := amount - len(messages)) > 0:
            single = tracked.next() if tracked is not None and tracked.ready_count else None
            if single is not None and not (fresh.count and fresh.first < single):
                part = self._take_singles(taker, left, pieces, redelivered, going)
            elif fresh.count:
                part = self._take_fresh(taker, left, single, pieces, redelivered, going)
            else:
                break
            messages = [*messages, *part] if messages else part
        self.handed_out += len(messages)
        if going is not None and going.ranges:
            self._went(going)
        return Taken(pieces, messages, redelivered)

    def _take_fresh(
        self, taker: NodeId, amount: int, before: int | None, pieces: list[range],
        redelivered: list[int], going: Going | None,
    ) -> list[bytes]:  # fmt: skip
        """Takes messages of the next fresh run that are before a position; that one comes first."""
        first, part, persistent = self._fresh.pop(amount, before)
        last = first + len(part) - 1
        pieces.append(range(first, last + 1))
        if first <= self.seen_through:
            redelivered += range(first, min(last, self.seen_through) + 1)
        if going is not None:
            going.add(part, [(first, last)])
        else:
            if self._in_flight is None:
                self._in_flight = InFlight()
            self._in_flight.add(taker, first, part, persistent)
        return part

    def _take_singles(
        self, taker: NodeId, amount: int, pieces: list[range], redelivered: list[int],
        going: Going | None,
    ) -> list[bytes]:  # fmt: skip
        """Takes the next messages that are kept singly, as long as none in a run is before them."""
        fresh, tracked = self._fresh, self.make_tracked()
        positions, messages = tracked.take(amount, fresh.first if fresh.count else None)
        pieces += [range(first, last + 1) for first, last in to_ranges(positions)]
        seen, seen_through = tracked.redelivered, self.seen_through
        if seen or seen_through:
            redelivered += [p for p in positions if p <= seen_through or p in seen]
        told = tracked.told(positions, messages)
        if going is not None:
            going.add(*tracked.forget(sorted(positions)))
        else:
            tracked.unacked.update(dict.fromkeys(positions, taker))
        return told

    def settle(self, taker: NodeId, positions: Sequence[int]) -> None:
        """Removes deliveries that the taker's consumers acknowledged.

        After a failover it may concern a message that is ready here, because the taker had not
        attached yet: it counts. One that is with another taker by now does not.
        """
        self.settle_pieces(taker, (positions,))

    def settle_pieces(self, taker: NodeId, pieces: Iterable[Sequence[int]]) -> None:
        """As `settle`, for many runs of positions (ranges, at best), as one event."""
        going = Going()
        named = join_ranges([each for piece in pieces for each in ranges_of(piece)])
        gone: list[bytes] = []
        if self._in_flight is not None and self._in_flight.count:
            ranges: list[Range] = []
            for first, last in named:
                self._in_flight.release(taker, first, last, gone, ranges)
            going.add(gone, ranges)
        if len(gone) < count(named):
            self._settle_others(taker, list(from_ranges(named)), going)
        if going.ranges:
            self._went(going)

    def _settle_others(self, taker: NodeId, positions: Sequence[int], going: Going) -> None:
        """Settles those of the positions that are not in the runs that the taker has."""
        if self.tracked is not None:
            going.add(*self.tracked.forget(self.tracked.release(taker, positions)))
        if self._fresh.count:
            for position in positions:
                message = self._fresh.extract(position)
                if message is not None:
                    going.add([message], [(position, position)])

    def reject(self, taker: NodeId, positions: Iterable[int]) -> None:
        """Lets deliveries die that the taker's consumers rejected for good."""
        tracked = self.single_out(positions)
        if tracked is not None:
            self._dead_letter(tracked, tracked.release(taker, positions), REJECTED)

    def requeue(self, taker: NodeId, positions: Iterable[int]) -> None:
        """Puts deliveries back to their old places, marked as redelivered."""
        back = self.take_back(taker, positions)
        if back and self.policy.counts_returns:
            self._count_returns(self.make_tracked(), back)

    def take_back(self, taker: NodeId, positions: Iterable[int]) -> list[int]:
        """Puts deliveries back to their old places that have not reached a consumer.

        They count as no return; but they are marked, as they may be behind younger ones now (P4).
        """
        tracked = self.single_out(positions)
        if tracked is None:
            return []
        back = tracked.held_by(taker, positions)
        tracked.put_back(back)
        tracked.redelivered.update(back)
        return back

    def single_out(self, positions: Iterable[int]) -> TrackedMessages | None:
        """Keeps these messages singly from now on, where they live; None if none is."""
        held, fresh = self._in_flight, self._fresh
        for position in positions:
            found = held.extract(position) if held is not None else None
            if found is not None:
                self.make_tracked().adopt(position, *found)
                continue
            message = fresh.extract(position) if fresh.count else None
            if message is not None:
                self.make_tracked().adopt(position, message, None)
        return self.tracked

    def _count_returns(self, tracked: TrackedMessages, positions: list[int]) -> None:
        counted = tracked.count_returns(positions)
        limit = self.policy.delivery_limit
        # A count that only consumers see is not worth a disk full of it.
        self.record_note(tracked, NOTE_RETURNS, counted, limit is not None)
        if limit is not None:
            often = [position for position in positions if counted[position] > limit]
            self.dead_letter_ready(often, RETURNED_TOO_OFTEN)

    def release(self, taker: NodeId) -> int:
        """Takes back everything that a taker holds, which is gone. Returns how many messages."""
        self._single_out_held(taker)
        if self.tracked is None:
            return 0
        held = [position for position, holder in self.tracked.unacked.items() if holder == taker]
        self.requeue(taker, held)
        return len(held)

    def _single_out_held(self, taker: NodeId) -> None:
        """Keeps singly from now on what the taker has."""
        if self._in_flight is not None:
            for position, message in self._in_flight.take_from(taker):
                self.make_tracked().adopt(position, message, taker)

    def attach(self, taker: NodeId, positions: Iterable[int]) -> None:
        """Notes deliveries of an earlier reign, or session, that are still with the consumers.

        Whatever else this copy believed to be with the taker was lost on its way: it comes back.
        """
        held = dict.fromkeys(sorted(positions))
        self._single_out_held(taker)
        tracked = self.single_out(held)
        if tracked is None:
            return
        lost = [p for p, holder in tracked.unacked.items() if holder == taker and p not in held]
        self.requeue(taker, lost)
        tracked.attach(taker, held)

    def purge(self, through: int, most: int = 1 << 62) -> int:
        """Removes what is ready up to a position, so many at most; returns how many messages."""
        going, left, fresh = Going(), most, self._fresh
        while left and fresh.count and fresh.first <= through:
            first, part, _ = fresh.pop(min(left, RUN_MAX), through + 1)
            going.add(part, [(first, first + len(part) - 1)])
            left -= len(part)
        if left and self.tracked is not None:
            positions, _ = self.tracked.take(left, through + 1)
            going.add(*self.tracked.forget(sorted(positions)))
            left -= len(positions)
        if going.ranges:
            self._went(going)
        return most - left

    # --- death -------------------------------------------------------------------------------

    def _dead_letter(self, tracked: TrackedMessages, positions: list[int], reason: int) -> None:
        """Lets messages die that are in nobody's hands (ascending); see `dead_letter_ready`.

        With a dead-letter exchange they stay, as `DEAD`'s, until they are safe where it leads
        (`settle` by `DEAD`): a failover in between repeats the dead-lettering, and loses nothing.
        """
        if not positions:
            return
        if self.policy.dead_letter_exchange is None:
            for position in positions:
                tracked.unacked.pop(position, None)
            if reason != REJECTED:
                self.dropped += len(positions)
            going = Going()
            going.add(*tracked.forget(positions))
            self._went(going)
            return
        dead = tracked.notes.setdefault(NOTE_DEAD, {})
        for position in positions:
            tracked.unacked[position] = DEAD
            dead[position] = reason
        self.out.dead.extend(positions)
        self.record_note(tracked, NOTE_DEAD, dict.fromkeys(positions, reason))

    def dead_letter_ready(self, positions: Iterable[int], reason: int) -> None:
        """Lets messages die that are ready, or not due yet.

        What the line and the appointments still say of them is forgotten later.
        """
        positions = sorted(positions)
        tracked = self.single_out(positions)
        if tracked is None:
            return
        for position in positions:
            if position not in tracked.unacked:
                tracked.hold_back(position, DEAD)
        self._dead_letter(tracked, positions, reason)

    def dead_letter_first(self, amount: int, reason: int, size: int | None = None) -> int:
        """Lets the next ones in line die, at most `amount`; returns how many.

        `size`: or fewer, if the bodies of these have so many bytes.
        """
        tracked = self.tracked
        if size is not None and tracked is not None:
            positions = sorted(tracked.take_size(amount, size, DEAD))
        else:
            positions = sorted(self.take(DEAD, amount).positions)
            tracked = self.single_out(positions)
        if tracked is not None:
            self._dead_letter(tracked, positions, reason)
        return len(positions)

    # --- records -----------------------------------------------------------------------------

    def record_note(
        self, tracked: TrackedMessages, what: int, values: Mapping[int, int], keep: bool = True
    ) -> None:
        """Records a note about messages as an event; `keep`: it is worth a place on disk."""
        self.last += 1
        persistent = any(tracked.messages[p][0] & FLAG_PERSISTENT for p in values)
        self.recorder.note(self.last, what, values, persistent, keep)

    def oldest_persistent(self) -> int | None:
        """The lowest live position that the journal must keep."""
        if not self.recorder.durable:
            return None
        places = [self._fresh, self._in_flight, self.tracked]
        oldest = [place.oldest_persistent() for place in places if place is not None]
        return min((position for position in oldest if position is not None), default=None)

    def _went(self, going: Going) -> None:
        """Forgets messages that are gone, everywhere: their bytes, and the record of it."""
        self.bytes_held -= going.size
        if self.recorder.active:
            self.last += 1
            self.recorder.settle(self.last, join_ranges(going.ranges), going.persistent)

    def check(self) -> None:
        """Asserts the invariants; costs a walk over everything."""
        messages = self.messages
        messages.check()
        assert self.ready_count + self.unacked_count == len(messages)
        assert self.bytes_held == sum(len(message) for _, message in messages.pairs())
        assert max(messages, default=0) <= self.last
