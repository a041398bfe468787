"""All live messages of a fragment by position, wherever the fragment keeps them: to read only.

A look at the fragment, not a copy: it changes with it. Iteration is in ascending order.
"""

import heapq
from collections.abc import Iterator, Mapping

from fedq.core.ids import NodeId
from fedq.core.ranges import Range, join_ranges, to_ranges
from fedq.fragments.runs import Fresh, Held
from fedq.fragments.singles import Singles


class Holdings(Mapping[int, bytes]):
    """See the module's docstring."""

    __slots__ = ("_fresh", "_held", "_singles")

    def __init__(self, fresh: Fresh, held: Held | None, singles: Singles | None) -> None:
        self._fresh = fresh
        self._held = held
        self._singles = singles

    def __len__(self) -> int:
        return (
            self._fresh.count
            + (self._held.count if self._held is not None else 0)
            + (len(self._singles.messages) if self._singles is not None else 0)
        )

    @property
    def runs_held(self) -> int:
        """In how many runs takers have messages."""
        return self._held.run_count if self._held is not None else 0

    def __iter__(self) -> Iterator[int]:
        return (position for position, _ in self.pairs())

    def __getitem__(self, position: int) -> bytes:
        found = None
        if self._singles is not None:
            found = self._singles.messages.get(position)
        if found is None and self._held is not None:
            found = self._held.get(position)
        if found is None:
            found = self._fresh.get(position)
        if found is None:
            raise KeyError(position)
        return found

    def ranges(self) -> list[Range]:
        """The positions, without a look at each message that is in a run."""
        found = self._fresh.ranges()
        if self._held is not None:
            found += self._held.ranges()
        if self._singles is not None:
            found += to_ranges(self._singles.in_order())
        return join_ranges(found)

    def held_ranges(self) -> list[Range]:
        """The positions of those in runs that takers have."""
        return self._held.ranges() if self._held is not None else []

    def held_by(self) -> dict[NodeId, int]:
        """How many each taker has; a walk over the runs, and over those that are kept singly."""
        found = self._held.counts() if self._held is not None else {}
        if self._singles is not None:
            for holder in self._singles.unacked.values():
                found[holder] = found.get(holder, 0) + 1
        return found

    def within(self, amount: int, size: int) -> int:
        """How many of the next `amount` ready ones have no more than so many bytes; one at least.

        Fewer where messages of very different sizes are kept singly: the longest counts.
        """
        singles, fresh = self._singles, self._fresh
        if singles is not None and singles.ready_count:
            amount = min(amount, max(1, size // singles.longest))
        return fresh.within(amount, size) if fresh.count else amount

    def check(self) -> None:
        """Asserts the invariants; costs a walk over everything."""
        positions = list(self)
        assert positions == sorted(set(positions)), "a message is kept twice, or out of order"
        assert len(positions) == len(self)
        assert self.ranges() == to_ranges(positions)
        for place in (self._fresh, self._held, self._singles):
            if place is not None:
                place.check()

    def pairs(self) -> Iterator[tuple[int, bytes]]:
        """Positions and messages, ascending; much cheaper than `items`."""
        held = self._held.pairs() if self._held is not None else ()
        singles = self._singles.in_order().items() if self._singles is not None else ()
        return heapq.merge(singles, held, self._fresh.pairs())
