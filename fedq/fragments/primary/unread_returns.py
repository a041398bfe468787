"""What comes back, or dies, while its body is on disk alone: a part of `Fragment`.

Inputs: a taker, positions. Changes the line, what takers have, and what is to die. What comes back
stands in its old place in the line, to be read like the rest of it; that it was handed out is kept
as ranges of positions. What is to die with a letter waits with a taker of the fragment's own.
"""

from collections.abc import Iterable, Sequence

from fedq.core.ids import NodeId
from fedq.core.policy import REJECTED, TOO_LONG
from fedq.core.ranges import Range, from_ranges, to_ranges
from fedq.fragments.primary.arrivals import Arrivals
from fedq.fragments.runs.in_flight import InFlight
from fedq.fragments.runs.moves import Going
from fedq.fragments.runs.ranked import NOWHERE, RankedFresh
from fedq.fragments.runs.runs import ON_DISK, Run
from fedq.fragments.runs.sized import SizedFresh
from fedq.fragments.singly.holders import DYING


class UnreadReturns(Arrivals):
    """What a fragment does with what it has not in memory. See the module's docstring."""

    __slots__ = ()

    def _hold(self) -> InFlight:
        """Where messages with takers are; made when there is one."""
        if self.in_flight is None:
            self.in_flight = InFlight()
        return self.in_flight

    def _again(self, first: int, part: list[bytes], redelivered: list[int]) -> list[bytes]:
        """Messages of a run as consumers see them, some of which came back; tells of these."""
        last = first + len(part) - 1
        # internal: it is asked where some have.
        assert self.returned is not None
        back = self.returned.within(max(first, self.seen_through + 1), last)
        redelivered += from_ranges(back)
        if self.tracked is None:
            return part
        return self.tracked.told(list(range(first, last + 1)), part)

    def hold_unread(self, run: Run, taker: NodeId) -> None:
        """Gives a taker messages that are on disk alone, and stand nowhere."""
        self._hold().put_stowed(run, taker)

    def _put_back_unread(self, taker: NodeId, ranges: Sequence[Range]) -> list[Range]:
        """Puts what the taker has on disk alone back to its place; returns where that was."""
        back: list[Range] = []
        held = self.in_flight
        if held is None or not held.stowed_count:
            return back
        for first, last in ranges:
            for run in held.take_stowed(taker, first, last):
                self.fresh.put_back(run)
                self.mark_returned(run.first, run.last)
                back.append((run.first, run.last))
        return back

    def mark_returned(self, first: int, last: int) -> None:
        """Takes note that messages in runs were handed out, and may be over by now."""
        self.note_returned(first, last)
        if self.tracked is not None and self.tracked.expiring.times:
            self.tracked.expiring.again(first, last)

    def attach_unread(self, taker: NodeId, held: Iterable[int]) -> None:
        """Gives the taker what it has held since an earlier reign, and is on disk alone."""
        if not self.fresh.stowed_count:
            return
        for first, last in to_ranges(held):
            for run in self.fresh.take_stowed(first, last):
                self._hold().put_stowed(run, taker)
                self.note_returned(run.first, run.last)

    def unread_of(self, taker: NodeId) -> list[Range]:
        """Where the taker has messages that are on disk alone, ascending."""
        return self.in_flight.stowed_by(taker) if self.in_flight is not None else []

    def _take_unread(self, taker: NodeId, positions: Iterable[int]) -> list[Run]:
        """Takes out what is on disk alone at these positions, with the taker or ready."""
        held, fresh = self.in_flight, self.fresh
        is_held = held is not None and held.stowed_count > 0
        if not is_held and not fresh.stowed_count:
            return []
        found: list[Run] = []
        for first, last in to_ranges(sorted(dict.fromkeys(positions))):
            if held is not None and is_held:
                found += held.take_stowed(taker, first, last)
            if fresh.stowed_count:
                found += fresh.take_stowed(first, last)
        return found

    def _let_die_unread(self, runs: Sequence[Run], reason: int) -> None:
        """Lets messages die that are on disk alone, and stand nowhere any more.

        Without a dead-letter exchange they are gone; else they wait until they can be read.
        """
        if not runs:
            return
        if self.policy.dead_letter_exchange is not None:
            for run in runs:
                self._hold().put_stowed(run, DYING[reason])
                self.dying.append((run.first, run.last, reason))
            return
        going = Going()
        for run in runs:
            going.add_run(run)
            self.dropped += run.left if reason != REJECTED else 0
        self.lost(going, reason)

    def single_out_unread(self, taker: NodeId, positions: Iterable[int]) -> None:
        """Keeps singly from now on what the taker has at these positions on disk alone.

        It is read, and nothing is handed out before.
        """
        held = self.in_flight
        if held is None or not held.stowed_count:
            return
        for first, last in to_ranges(sorted(dict.fromkeys(positions))):
            for run in held.take_stowed(taker, first, last):
                self._adopt_unread(run, taker)

    def _adopt_unread(self, run: Run, holder: NodeId) -> None:
        """Keeps messages on disk alone singly, and waits for them."""
        tracked = self.make_tracked()
        for position in range(run.first, run.last + 1):
            tracked.adopt(position, ON_DISK, holder, run.persists(position))
        self.bytes_held -= run.stowed
        self.shut += run.left

    def drop_unread(self, amount: int, size: int | None = None) -> int:
        """Drops the next ones in line, which are on disk alone, unread; returns how many.

        No more than stand in one run, before whatever is kept singly, or are of one priority, if
        that is known; `size`: nor more than have so many bytes, as far as their sizes are known.
        """
        fresh = self.fresh
        if isinstance(fresh, RankedFresh):
            if size is not None:
                # It has no sizes.
                return 0
            ranges = fresh.next_unread(amount, self._next_in_memory(fresh))
            return self._drop_ranges(ranges) if ranges else 0
        if size is not None:
            amount = fresh.enough_unread(amount, size) if isinstance(fresh, SizedFresh) else 0
            if not amount:
                return 0
        last = min(fresh.first + amount - 1, fresh.next_last)
        return self._drop_ranges([(fresh.first, last)])

    def _next_in_memory(self, fresh: RankedFresh) -> int:
        """The lowest ready position in memory of the priority that is next on disk alone."""
        tracked, found = self.tracked, None
        if tracked is not None and tracked.ranked is not None and fresh.count:
            rank = fresh.pages.next()[0]
            found = tracked.ranked.lowest(rank, tracked.messages, tracked.unacked)
        return found if found is not None else NOWHERE

    def _drop_ranges(self, ranges: Sequence[Range]) -> int:
        """Drops what is on disk alone at these positions; returns how many messages."""
        going = Going()
        count = going.add_stowed(self.fresh, ranges)
        self.dropped += count
        self.lost(going, TOO_LONG)
        return count
