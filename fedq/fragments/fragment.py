"""A fragment as its primary serves it: a disjoint part of a queue, in order.

Inputs: batches of publishes, takes, settlements. Outputs: messages to hand out, and the lanes of
`FragmentOut`. A *taker* is a node: the fragment hands messages to nodes and leaves it to their
hubs (`fedq.proxy.hub`) which consumer gets which; so a consumer's place never matters here.
What the queue's policy asks (`fedq.core.policy`) is enforced by
`fedq.fragments.upkeep.enforcement`.

Messages are kept in two ways. Those without a history, nearly all, are in runs
(`fedq.fragments.runs.runs`): *fresh* ones, which were not handed out in this reign, and *held*
ones; publishes, takes and settlements handle them by the run; of a long line bodies may be on disk
alone (`fedq.fragments.runs.fresh`). What comes back, or has a priority or a note, is kept singly
(`fedq.fragments.singly.tracked`), and stays so; with a priority, as long as it is in memory: else
it stands in an index (`fedq.fragments.runs.ranked`).

Invariants (held by `check`):
* every message is kept in one way, and is either ready or with exactly one taker (P2); what is dead
  and what is not due yet are with takers of their own, `DEAD` and `DELAYED`;
* ready messages are handed out in order of position, within a priority, whatever way they came
  back (P4);
* an event number is used once, and grows; those of a new reign are beyond all earlier ones;
* a publish of an origin is taken once, however often it is sent (`origins`).

A message may be handed out before it is committed (docs/adr/0006): waiting would cost a round
trip per message and protects nobody, since an unconfirmed publish may be lost anyhow. Where there
are publishers with names it waits (`safe`): what one repeats must not have been seen.
"""

from collections.abc import Iterable, Sequence

from fedq.core.ids import NodeId
from fedq.core.message import body_size
from fedq.core.policy import EXPIRED, REJECTED, RETURNED_TOO_OFTEN
from fedq.core.ranges import (
    Range,
    count,
    from_ranges,
    join_overlapping,
    join_ranges,
    minus,
    ranges_of,
    to_ranges,
    within,
)
from fedq.fragments.primary.contents import EVERYTHING
from fedq.fragments.primary.losses import PURGED, RETENTION
from fedq.fragments.primary.unread_returns import UnreadReturns
from fedq.fragments.runs.moves import Going, Taken
from fedq.fragments.runs.ranked import RankedFresh
from fedq.fragments.runs.runs import ON_DISK, RUN_MAX
from fedq.fragments.runs.sized import SizedFresh
from fedq.fragments.singly.holders import DEAD, DYING
from fedq.fragments.singly.tracked import TrackedMessages
from fedq.journal.notes import table_of
from fedq.journal.records import NOTE_DEAD, NOTE_RETURNS


class Fragment(UnreadReturns):
    """The primary's copy of one fragment. See the module's docstring."""

    __slots__ = ()

    # --- takers ------------------------------------------------------------------------------

    def take(
        self, taker: NodeId, amount: int, settled: bool = False, safe: int | None = None
    ) -> Taken:
        """Hands up to `amount` ready messages to a taker, the next ones in line (`at_hand`).

        `settled`: its consumers acknowledge by receiving (no-ack), so they are gone at once.
        `safe`: up to which position, if not as for all.
        """
        fresh, tracked = self.fresh, self.tracked
        if safe is None:
            safe = self.safe
        stop = safe + 1 if safe < self.last else None
        pieces: list[range] = []
        messages: list[bytes] = []
        redelivered: list[int] = []
        going = Going() if settled else None
        while (left := amount - len(messages)) > 0:
            single = tracked.next() if tracked is not None and tracked.ready_count else None
            if stop is not None and single is not None and single >= stop:
                single = None
            if single is not None and not (fresh.count and fresh.first < single):
                part = self._take_singles(taker, left, stop, pieces, redelivered, going)
            elif fresh.at_hand and (stop is None or fresh.first < stop):
                before = single if single is not None else stop
                part = self._take_fresh(taker, left, before, pieces, redelivered, going)
            else:
                break
            messages = [*messages, *part] if messages else part
        self.handed_out += len(messages)
        if going is not None and going.ranges:
            self.went(going)
        return Taken(pieces, messages, redelivered)

    def _take_fresh(
        self, taker: NodeId, amount: int, before: int | None, pieces: list[range],
        redelivered: list[int], going: Going | None,
    ) -> list[bytes]:  # fmt: skip
        """Takes messages of the next fresh run that are before a position; that one comes first."""
        first, part, persistent = self.fresh.pop(amount, before)
        last = first + len(part) - 1
        pieces.append(range(first, last + 1))
        if first <= self.seen_through:
            redelivered += range(first, min(last, self.seen_through) + 1)
        told = part if self.returned is None else self._again(first, part, redelivered)
        if going is not None:
            going.add(part, [(first, last)])
        else:
            held = self.in_flight if self.in_flight is not None else self._hold()
            held.add(taker, first, part, persistent)
        return told

    def _take_singles(
        self, taker: NodeId, amount: int, stop: int | None, pieces: list[range],
        redelivered: list[int], going: Going | None,
    ) -> list[bytes]:  # fmt: skip
        """Takes the next messages that are kept singly, as long as none in a run is before them.

        `stop`: and none of them is at or behind this position.
        """
        fresh, tracked = self.fresh, self.make_tracked()
        before = fresh.first if fresh.count else None
        if stop is not None and (before is None or stop < before):
            before = stop
        positions, messages = tracked.take(amount, before)
        pieces += [range(first, last + 1) for first, last in to_ranges(positions)]
        seen, seen_through = tracked.redelivered, self.seen_through
        if seen or seen_through:
            redelivered += [p for p in positions if p <= seen_through or p in seen]
        told = tracked.told(positions, messages)
        if going is not None:
            self.forget_singles(tracked, sorted(positions), going)
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
        if self.in_flight is not None and self.in_flight.count:
            ranges: list[Range] = []
            for first, last in named:
                self.in_flight.release(taker, first, last, gone, ranges)
            going.add(gone, ranges)
        left = count(named) - len(gone)
        if left and self.in_flight is not None and self.in_flight.stowed_count:
            left -= going.add_held(self.in_flight, taker, named)
        if left and self.fresh.stowed_count:
            going.add_stowed(self.fresh, named)
        if left:
            self._settle_others(taker, list(from_ranges(named)), going)
        if going.ranges:
            self.went(going)

    def _settle_others(self, taker: NodeId, positions: Sequence[int], going: Going) -> None:
        """Settles those of the positions that are not in the runs that the taker has."""
        if self.tracked is not None:
            self.forget_singles(self.tracked, self.tracked.release(taker, positions), going)
        if self.fresh.count - self.fresh.stowed_count:
            for position in positions:
                message = self.fresh.extract(position)
                if message is not None:
                    going.add([message], [(position, position)])

    def reject(self, taker: NodeId, positions: Sequence[int]) -> None:
        """Lets deliveries die that the taker's consumers rejected for good."""
        if self.stowed_count:
            self._let_die_unread(self._take_unread(taker, positions), REJECTED)
        tracked = self.single_out(positions)
        if tracked is not None:
            self._dead_letter(tracked, tracked.release(taker, positions), REJECTED)

    def requeue(self, taker: NodeId, positions: Sequence[int]) -> None:
        """Puts deliveries back to their old places, marked as redelivered."""
        back = self.take_back(taker, positions)
        if back and self.policy.counts_returns:
            self._count_returns(self.make_tracked(), back)

    def take_back(self, taker: NodeId, positions: Sequence[int]) -> list[int]:
        """Puts deliveries back to their old places that have not reached a consumer.

        They count as no return; but they are marked, as they may be behind younger ones now (P4).
        """
        unread: list[Range] = []
        if self.in_flight is not None and self.in_flight.stowed_count:
            named = to_ranges(sorted(dict.fromkeys(positions)))
            unread = self._put_back_unread(taker, named)
            positions = list(from_ranges(minus(named, unread)))
        tracked = self.single_out(positions)
        if tracked is None:
            return list(from_ranges(unread))
        back = tracked.held_by(taker, positions)
        tracked.put_back(back)
        tracked.redelivered.update(back)
        return sorted([*from_ranges(unread), *back]) if unread else back

    def single_out(self, positions: Iterable[int]) -> TrackedMessages | None:
        """Keeps these messages singly from now on, where they live; None if none is."""
        held, fresh = self.in_flight, self.fresh
        for position in positions:
            found = held.extract(position) if held is not None else None
            if found is not None:
                self.make_tracked().adopt(position, *found)
                continue
            stowed_bytes = fresh.stowed_bytes
            persistent = fresh.stowed_count > 0 and fresh.is_persistent(position)
            message = fresh.extract(position) if fresh.count else None
            if message is not None:
                self.make_tracked().adopt(position, message, None, persistent)
                if self.returned is not None and position in self.returned:
                    self.make_tracked().redelivered.add(position)
            if message == ON_DISK:
                # It is waited for, and counted when it is here.
                self.bytes_held -= stowed_bytes - fresh.stowed_bytes
                self.shut += 1
        return self.tracked

    def _count_returns(self, tracked: TrackedMessages, positions: list[int]) -> None:
        counted = tracked.count_returns(positions)
        limit = self.policy.delivery_limit
        # A count that only consumers see is not worth a disk full of it.
        self.record_note(tracked, NOTE_RETURNS, counted, limit is not None)
        if limit is not None:
            often = [position for position in positions if counted[position] > limit]
            if self.fresh.stowed_count:
                unread = [r for each in to_ranges(often) for r in self.fresh.take_stowed(*each)]
                apart = [(run.first, run.last) for run in unread]
                often = list(from_ranges(minus(to_ranges(often), apart)))
                self._let_die_unread(unread, RETURNED_TOO_OFTEN)
            self.dead_letter_ready(often, RETURNED_TOO_OFTEN)

    def release(self, taker: NodeId) -> int:
        """Takes back everything that a taker holds, which is gone. Returns how many messages."""
        self._single_out_held(taker)
        held = list(from_ranges(self.unread_of(taker)))
        if self.tracked is not None:
            held += [p for p, holder in self.tracked.unacked.items() if holder == taker]
        self.requeue(taker, held)
        return len(held)

    def _single_out_held(self, taker: NodeId) -> None:
        """Keeps singly from now on what the taker has."""
        if self.in_flight is not None:
            for position, message in self.in_flight.take_from(taker):
                self.make_tracked().adopt(position, message, taker)

    def attach(self, taker: NodeId, positions: Iterable[int]) -> None:
        """Notes deliveries of an earlier reign, or session, that are still with the consumers.

        Whatever else this copy believed to be with the taker was lost on its way: it comes back.
        """
        held = dict.fromkeys(sorted(positions))
        self.attach_unread(taker, held)
        self._single_out_held(taker)
        tracked = self.single_out(held)
        lost = [p for p in from_ranges(self.unread_of(taker)) if p not in held]
        if tracked is None:
            self.requeue(taker, lost)
            return
        lost += [p for p, holder in tracked.unacked.items() if holder == taker and p not in held]
        self.requeue(taker, lost)
        tracked.attach(taker, held)

    def purge(self, through: int, most: int = 1 << 62) -> int:
        """Removes what is ready up to a position, so many at most; returns how many messages."""
        going, left, fresh = Going(), most, self.fresh
        if isinstance(fresh, RankedFresh) and fresh.count:
            left -= going.add_stowed(fresh, fresh.pages.lowest(left, through))
        while left and fresh.count and fresh.first <= through:
            if not fresh.at_hand:
                last = min(fresh.first + left - 1, fresh.next_last, through)
                left -= going.add_stowed(fresh, [(fresh.first, last)])
                continue
            first, part, _ = fresh.pop(min(left, RUN_MAX), through + 1)
            going.add(part, [(first, first + len(part) - 1)])
            left -= len(part)
        if left and self.tracked is not None:
            positions = self.tracked.take_whatever(left, through + 1)
            self.forget_singles(self.tracked, sorted(positions), going)
            left -= len(positions)
        if going.ranges:
            self.lost(going, PURGED if self.log is None else RETENTION)
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
            self.forget_singles(tracked, positions, going)
            self.lost(going, reason)
            return
        dead = table_of(tracked.notes, NOTE_DEAD)
        for position in positions:
            tracked.unacked[position] = DEAD
            dead[position] = reason
        self.out.dead.extend(positions)
        self.record_note(tracked, NOTE_DEAD, dict.fromkeys(positions, reason))

    def call_up(self, most: int, size: int) -> int:
        """Lets the next ones die that wait for that with their bodies on disk alone.

        They are read at once, and nothing is handed out meanwhile: so many at most, of about so
        many bytes. Returns how many.
        """
        called = 0
        held = self._hold()
        while self.dying and called < most and size > 0:
            first, last, reason = self.dying[0]
            each = max(held.stowed_bytes // max(held.stowed_count, 1), 1)
            end = min(last, first + min(most - called, size // each or 1) - 1)
            self.dying[:1] = [(end + 1, last, reason)] if end < last else []
            for run in held.take_stowed(DYING[reason], first, end):
                self._adopt_unread(run, DEAD)
                called += run.left
                size -= run.stowed
                positions = list(range(run.first, run.last + 1))
                self._dead_letter(self.make_tracked(), positions, reason)
        return called

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

    def let_expire(self, ranges: Sequence[Range]) -> None:
        """Lets what is ready at these positions die of its age.

        What has to be read first, to become a dead letter, dies when it has been: it is asked for
        again then (`fedq.fragments.upkeep.stowing.fill`).
        """
        tracked, going = self.make_tracked(), Going()
        ranges = join_overlapping(ranges)
        ready = within(ranges, tracked.messages) if tracked.ready_count else []
        positions = [position for position in ready if position not in tracked.unacked]
        drops = self.policy.dead_letter_exchange is None
        for first, last in ranges if self.fresh.count else ():
            for start, part in self.fresh.cut(first, last):
                if drops:
                    going.add(part, [(start, start + len(part) - 1)])
                    continue
                for position, message in enumerate(part, start):
                    tracked.adopt(position, message, DEAD)
                positions += range(start, start + len(part))
        if drops and self.fresh.stowed_count:
            going.add_stowed(self.fresh, ranges)
        if going.ranges:
            self.dropped += count(going.ranges)
            self.lost(going, EXPIRED)
        if positions:
            self.dead_letter_ready(positions, EXPIRED)

    def dead_letter_first(self, amount: int, reason: int, size: int | None = None) -> int:
        """Lets the next ones in line die, at most `amount`; returns how many.

        `size`: or fewer, if the bodies of these have so many bytes.
        """
        if size is not None:
            positions = self._take_size(amount, size)
            tracked = self.tracked
        else:
            positions = sorted(self.take(DEAD, amount, safe=EVERYTHING).positions)
            tracked = self.single_out(positions)
        if tracked is not None:
            self._dead_letter(tracked, positions, reason)
        return len(positions)

    def _take_size(self, amount: int, size: int) -> list[int]:
        """Hands the next ones at hand to `DEAD`: so many, or fewer if they have that size."""
        fresh, tracked = self.fresh, self.make_tracked()
        found: list[int] = []
        while size > 0 and len(found) < amount:
            left = amount - len(found)
            single = tracked.next() if tracked.ready_count else None
            if single is not None and not (fresh.count and fresh.first < single):
                before = fresh.first if fresh.count else None
                positions, size = tracked.take_size(left, size, DEAD, before)
                found += positions
            elif fresh.at_hand and isinstance(fresh, SizedFresh):
                first, part, _ = fresh.pop(fresh.enough(left, size, single), single)
                for position, message in enumerate(part, first):
                    tracked.adopt(position, message, DEAD)
                    size -= body_size(message)
                found += range(first, first + len(part))
            else:
                break
        return sorted(found)
