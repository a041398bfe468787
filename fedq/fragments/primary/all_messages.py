"""All live messages of a fragment by position, wherever the fragment keeps them: to read only.

A look at the fragment, not a copy: it changes with it. Iteration is in ascending order. Of one that
is on disk alone `ON_DISK` is told.
"""

import heapq
from collections.abc import Iterator, Mapping

from fedq.core.ids import NodeId
from fedq.core.ranges import Range, count, from_ranges, join_ranges, to_ranges
from fedq.fragments.runs.fresh import Fresh
from fedq.fragments.runs.in_flight import InFlight
from fedq.fragments.runs.runs import Run, first_of
from fedq.fragments.runs.stowed import Stretch
from fedq.fragments.singly.tracked import TrackedMessages


class AllMessages(Mapping[int, bytes]):
    """The live messages of one fragment, to read only."""

    __slots__ = ("_fresh", "_in_flight", "_tracked")

    def __init__(
        self, fresh: Fresh, in_flight: InFlight | None, tracked: TrackedMessages | None
    ) -> None:
        self._fresh = fresh
        self._in_flight = in_flight
        self._tracked = tracked

    def __len__(self) -> int:
        return (
            self._fresh.count
            + (self._in_flight.count if self._in_flight is not None else 0)
            + (len(self._tracked.messages) if self._tracked is not None else 0)
        )

    @property
    def runs_held(self) -> int:
        """How many runs takers have messages in."""
        return self._in_flight.run_count if self._in_flight is not None else 0

    def __iter__(self) -> Iterator[int]:
        return from_ranges(self.ranges())

    def __getitem__(self, position: int) -> bytes:
        found = self.message_at(position)
        if found is None:
            raise KeyError(position)
        return found

    def message_at(self, position: int) -> bytes | None:
        """The message at a position, `ON_DISK` for one on disk alone; None: there is none."""
        found = None
        if self._tracked is not None:
            found = self._tracked.messages.get(position)
        if found is None and self._in_flight is not None:
            found = self._in_flight.get(position)
        if found is None:
            found = self._fresh.get(position)
        return found

    def on_disk_from(self, position: int) -> int:
        """From which position on all up to this one are on disk alone; beyond it if it is not.

        There may be more of them below: it looks at one run.
        """
        run = self._fresh.at(position) if self._fresh.stowed_count else None
        return run.first if run is not None and run.stowed else position + 1

    def fresh_after(self, position: int) -> Run | None:
        """The first run beyond a position whose messages were never handed out."""
        return self._fresh.after(position)

    def held_after(self, position: int) -> Run | None:
        """The first run beyond a position that a taker has."""
        return self._in_flight.after(position) if self._in_flight is not None else None

    def ranges(self) -> list[Range]:
        """The positions, without a look at each message that is in a run."""
        found = self._fresh.ranges()
        if self._in_flight is not None:
            found += self._in_flight.ranges()
        if self._tracked is not None:
            found += to_ranges(self._tracked.in_order())
        return join_ranges(found)

    def persistent_ranges(self) -> list[Range]:
        """The positions of persistent messages; looks at each where there may be some."""
        found = self._fresh.persistent_ranges()
        if self._in_flight is not None:
            found += self._in_flight.persistent_ranges()
        if self._tracked is not None:
            messages = self._tracked.in_order()
            found += to_ranges(p for p in messages if self._tracked.is_persistent(p))
        return join_ranges(found)

    def stowed(self, persistent: bool) -> list[Stretch]:
        """What is on disk alone, of one kind; ascending."""
        runs = self._fresh.stowed()
        if self._in_flight is not None and self._in_flight.stowed_count:
            runs = sorted([*runs, *self._in_flight.stowed()], key=first_of)
        stowed = [stretch for run in runs for stretch in run.stretches(persistent)]
        if self._tracked is not None and self._tracked.absent:
            # What they take is known when they are read.
            absent = self._tracked.absent
            stowed = sorted([*stowed, *[(p, p, 1) for p in absent if absent[p] == persistent]])
        return stowed

    def oldest_persistent(self) -> int | None:
        """The lowest position of a persistent message."""
        places = [self._fresh, self._in_flight, self._tracked]
        oldest = [place.oldest_persistent() for place in places if place is not None]
        return min((position for position in oldest if position is not None), default=None)

    def held_ranges(self) -> list[Range]:
        """The positions of messages in runs that takers have."""
        return self._in_flight.ranges() if self._in_flight is not None else []

    def held_by(self) -> dict[NodeId, int]:
        """How many messages each taker has; walks over the runs, and over all kept singly."""
        found = self._in_flight.counts() if self._in_flight is not None else {}
        if self._tracked is not None:
            for holder in self._tracked.unacked.values():
                found[holder] = found.get(holder, 0) + 1
        return found

    def within(self, amount: int, size: int) -> int:
        """How many of the next `amount` ready messages have at most so many bytes; at least 1.

        Fewer where messages of very different sizes are kept singly: the longest counts.
        """
        tracked, fresh = self._tracked, self._fresh
        if tracked is not None and tracked.ready_count:
            amount = min(amount, max(1, size // tracked.longest))
        return fresh.within(amount, size) if fresh.count else amount

    def check(self) -> None:
        """Asserts the invariants; costs a walk over everything."""
        positions = [position for position, _ in self.pairs()]
        assert positions == sorted(set(positions)), "a message is kept twice, or out of order"
        stretches = sorted([*self.stowed(True), *self.stowed(False)])
        stowed = [(first, last) for first, last, _ in stretches]
        assert len(positions) + count(stowed) == len(self)
        assert self.ranges() == join_ranges([*to_ranges(positions), *stowed])
        for place in (self._fresh, self._in_flight, self._tracked):
            if place is not None:
                place.check()

    def pairs(self) -> Iterator[tuple[int, bytes]]:
        """Positions and messages in memory, ascending; much cheaper than `items`."""
        held = self._in_flight.pairs() if self._in_flight is not None else ()
        tracked = self._tracked.in_order().items() if self._tracked is not None else ()
        here = (pair for pair in tracked if pair[1])
        return heapq.merge(here, held, self._fresh.pairs())
