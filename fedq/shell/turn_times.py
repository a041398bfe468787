"""How long turns take: a histogram that monitoring can add up, and the longest one.

While a turn is under way nobody else is served, so a long one is what every client of the node
waits for. Times are those of a clock on the wall: they contain what other processes took away.
"""

import time
from bisect import bisect_left
from typing import Final

#: Turns are counted by these bounds, in microseconds, and beyond the last one.
BOUNDS_US: Final = (
    1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
)  # fmt: skip
_SHORTEST: Final = BOUNDS_US[0]


def monotonic_us() -> int:
    """Microseconds since an arbitrary moment before the process started."""
    return time.monotonic_ns() // 1_000


class TurnTimes:
    """What the turns of one process took since its start."""

    __slots__ = ("counts", "longest_us", "total_us")

    def __init__(self) -> None:
        #: How many were no longer than each of `BOUNDS_US` and longer than the one before it; last,
        #: those beyond all.
        self.counts = [0] * (len(BOUNDS_US) + 1)
        self.total_us = 0
        self.longest_us = 0

    def note(self, took_us: int) -> None:
        """Counts a turn."""
        self.total_us += took_us
        if took_us <= _SHORTEST:
            self.counts[0] += 1
        else:
            self.counts[bisect_left(BOUNDS_US, took_us)] += 1
        if took_us > self.longest_us:
            self.longest_us = took_us
