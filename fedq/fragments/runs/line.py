"""The line of a fragment as an interval list, some of it on disk alone: what is where in it.

Inputs: runs without a taker, positions. Outputs: what is next, how many stand before what is on
disk alone, and what is. What was handed out and comes back on disk alone stands at its old place.

Invariants: no run has gaps; what is on disk alone is counted; what stands behind a stowed run waits
for it (P4), so `at_hand` counts what stands before the first one.
"""

from bisect import bisect_right

from fedq.core.ranges import Range
from fedq.fragments.runs.run_parts import may_join
from fedq.fragments.runs.runs import RUN_MAX, SWEEP_FROM, Run, Runs, StowedMix, first_of


class Line(Runs):
    """Messages that wait. No run has gaps here."""

    __slots__ = (
        "_at_hand", "_back_from", "first_stowed", "returns", "stowed_bytes", "stowed_count",
    )  # fmt: skip

    def __init__(self, run_max: int = RUN_MAX, sweep_from: int = SWEEP_FROM) -> None:
        super().__init__(run_max, sweep_from)
        #: How many of the messages are on disk alone, and their bytes.
        self.stowed_count = self.stowed_bytes = 0
        #: The first of them, and how many stand before that; void if there are none.
        self.first_stowed = self._at_hand = 0
        #: How often something came back on disk alone; and the first of what has, since somebody
        #: asked for that (`came_back`); 0: nothing has.
        self.returns = self._back_from = 0

    @property
    def first(self) -> int:
        """The position that is next; there must be one."""
        return self._runs[self._head].first

    @property
    def next_last(self) -> int:
        """The last position of the run that is next; there must be one."""
        return self._runs[self._head].last

    @property
    def at_hand(self) -> int:
        """How many messages can be taken before one has to be read from the disk."""
        return self._at_hand if self.stowed_count else self.count

    @property
    def run_count(self) -> int:
        """How many runs the line has."""
        return len(self._runs) - self._head

    def is_persistent(self, position: int) -> bool:
        """Whether the message at this position is on disk alone, and persistent."""
        index = self._index_of(position)
        run = self._runs[index] if index >= 0 else None
        return (
            run is not None and run.stowed > 0 and position <= run.last and run.persists(position)
        )

    def put_back(self, run: Run) -> None:
        """Puts messages on disk alone that were handed out back to their place."""
        runs, had_some = self._runs, self.stowed_count > 0
        index = bisect_right(runs, run.first, self._head, key=first_of)
        self.count += run.left
        self.stowed_count += run.left
        self.stowed_bytes += run.stowed
        self.returns += 1
        self._back_from = min(run.first, self._back_from or run.first)
        before = runs[index - 1] if index > self._head else None
        may = before is not None and not isinstance(run, StowedMix)
        if before is not None and may and may_join(before, run.first, run.stowed, run.persistent):
            before.left += run.left
            before.stowed += run.stowed
        else:
            runs.insert(index, run)
        if not had_some or run.first < self.first_stowed:
            self._count_at_hand()

    def came_back(self) -> int:
        """The first position of what came back on disk alone since this was asked; 0: nothing."""
        first, self._back_from = self._back_from, 0
        return first

    def forget_stowed(self, first: int, last: int) -> tuple[list[Range], int, bool]:
        """Forgets what is stowed between two positions.

        Returns where it was, its bytes, and whether any of it was persistent.
        """
        gone = self.take_stowed(first, last)
        ranges = [(run.first, run.last) for run in gone]
        return ranges, sum([run.stowed for run in gone]), any(run.persistent for run in gone)

    def take_stowed(self, first: int, last: int) -> list[Run]:
        """Takes out what is stowed between two positions."""
        found: list[Run] = []
        index = max(self._index_of(first), self._head)
        while index < len(self._runs) and self._runs[index].first <= last:
            run = self._runs[index]
            if not run.stowed or run.last < first:
                index += 1
                continue
            low, high = max(run.first, first), min(run.last, last)
            before, after, count = low - run.first, run.last - high, high - low + 1
            share = run.stowed * count // run.left if before + after else run.stowed
            left = max(run.stowed - share, before + after)
            pieces: list[Run] = []
            share_before = left * before // max(1, before + after)
            if before:
                pieces.append(run.stowed_part(run.first, before, share_before))
            if after:
                pieces.append(run.stowed_part(high + 1, after, left - share_before))
            found.append(run.stowed_part(low, count, run.stowed - left))
            self.stowed_count -= count
            self.stowed_bytes += left - run.stowed
            self.count -= count
            self._runs[index : index + 1] = pieces
            index += len(pieces)
        if self._head == len(self._runs):
            self._runs.clear()
            self._head = 0
        self._count_at_hand()
        return found

    def stowed(self) -> list[Run]:
        """The runs that are on disk alone, ascending."""
        return [run for run in self._live() if run.stowed] if self.stowed_count else []

    def stowed_after(self, position: int) -> Range | None:
        """The positions of the first stowed run that has some beyond a position."""
        if not self.stowed_count:
            return None
        for index in range(max(self._index_of(position), self._head), len(self._runs)):
            run = self._runs[index]
            if run.stowed and run.last > position:
                return max(run.first, position + 1), run.last
        return None

    def _count_at_hand(self) -> None:
        """Counts what stands before the first run that is on disk alone."""
        found = 0
        if self.stowed_count:
            for index in range(self._head, len(self._runs)):
                run = self._runs[index]
                if run.stowed:
                    self.first_stowed = run.first
                    break
                found += run.left
        self._at_hand = found

    def check(self) -> None:
        """Asserts the invariants."""
        self._check()
        at_hand, seen, stowed, size = -1, 0, 0, 0
        firsts = [run.first for run in self._live() if run.stowed]
        assert not firsts or self.first_stowed == firsts[0]
        for run in self._live():
            assert None not in run.messages
            assert run.holder is None
            if run.stowed:
                at_hand = seen if at_hand < 0 else at_hand
                stowed += run.left
                size += run.stowed
            seen += run.left
        assert (stowed, size) == (self.stowed_count, self.stowed_bytes)
        assert self.at_hand == (self.count if at_hand < 0 else at_hand)
