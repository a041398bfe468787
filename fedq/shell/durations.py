"""How long things take: histograms that monitoring can add up, each with its longest one.

While a turn is under way nobody else is served, so a long one is what every client of the node
waits for; a tick that comes late tells of everything that keeps the event loop, turns or not; and
what is persistent is confirmed no sooner than the disk has it. Times are those of a clock on the
wall: they contain what other processes took away.
"""

import time
from bisect import bisect_left
from typing import Final

#: Durations are counted by these bounds, in microseconds, and beyond the last one.
BOUNDS_US: Final = (
    1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
)  # fmt: skip
_SHORTEST: Final = BOUNDS_US[0]


def monotonic_us() -> int:
    """Microseconds since an arbitrary moment before the process started."""
    return time.monotonic_ns() // 1_000


class Durations:
    """What one thing, done again and again, took since the process started."""

    __slots__ = ("counts", "longest_us", "total_us")

    def __init__(self) -> None:
        #: How many were no longer than each of `BOUNDS_US` and longer than the one before it; last,
        #: those beyond all.
        self.counts = [0] * (len(BOUNDS_US) + 1)
        self.total_us = 0
        self.longest_us = 0

    def note(self, took_us: int) -> None:
        """Counts one that took so long."""
        self.total_us += took_us
        if took_us <= _SHORTEST:
            self.counts[0] += 1
        else:
            self.counts[bisect_left(BOUNDS_US, took_us)] += 1
        if took_us > self.longest_us:
            self.longest_us = took_us


class NodeDurations:
    """What is measured of one node."""

    __slots__ = ("late", "syncs", "turns")

    def __init__(self) -> None:
        #: Turns, from their first input until all is handed to the outlets.
        self.turns = Durations()
        #: How much later than planned ticks came: the event loop had other work.
        self.late = Durations()
        #: What the journal was given to write and sync, until it was on disk.
        self.syncs = Durations()
