"""What a worker counts, second by second, until it reports.

In: deliveries, confirms, failures. Out: a report of plain values for the master, of what is new
since the last one. Times are of the wall clock in nanoseconds, latencies in microseconds.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from fedq.bench.histogram import Histogram

SECOND_NS: Final = 1_000_000_000
#: Beyond so many messages between two reports, the last subscriber is told of every second one.
LASTS_MAX: Final = 4_096


class Tally:
    """The counts of one worker."""

    __slots__ = ("_every", "_fresh", "_lasts", "_windows", "confirms", "deliveries", "failures")

    def __init__(self) -> None:
        self.deliveries = 0
        self.failures: Counter[str] = Counter()
        self.confirms = Histogram()
        #: Second of arrival: latencies.
        self._windows: dict[int, Histogram] = {}
        #: Number of a message: when the last subscriber here had it.
        self._lasts: dict[int, int] = {}
        self._every = 1
        #: Since `take_fresh`.
        self._fresh = Histogram()

    def delivered(self, numbers: Sequence[int], times_ns: Sequence[int], now_ns: int) -> None:
        """Counts deliveries that came at this moment."""
        self.deliveries += len(numbers)
        second = now_ns // SECOND_NS
        window = self._windows.get(second)
        if window is None:
            window = self._windows[second] = Histogram()
        window.record_since(times_ns, now_ns)
        self._fresh.record_since(times_ns, now_ns)
        for number in numbers:
            if not number % self._every:
                self._lasts[number] = now_ns

    def take_fresh(self) -> list[tuple[int, int]]:
        """(bucket, count) of latencies since the last time."""
        fresh, self._fresh = self._fresh, Histogram()
        return [(bucket, count) for bucket, count in enumerate(fresh.counts) if count]

    def report(self) -> dict[str, Any]:
        """What is new since the last report, and the failures of all the time."""
        while len(self._lasts) > LASTS_MAX:
            self._every *= 2
            self._lasts = {n: at for n, at in self._lasts.items() if not n % self._every}
        found = {
            "deliveries": self.deliveries,
            "failures": dict(self.failures),
            "confirms": packed(self.confirms),
            "windows": [[second, packed(w)] for second, w in self._windows.items()],
            "lasts": [list(last) for last in self._lasts.items()],
        }
        self._windows, self._lasts = {}, {}
        return found


def packed(histogram: Histogram) -> dict[str, Any]:
    """A histogram without its empty buckets."""
    counts = [[bucket, n] for bucket, n in enumerate(histogram.counts) if n]
    return {"counts": counts, "max": histogram.max}


def unpack_into(histogram: Histogram, plain: dict[str, Any]) -> None:
    """Adds what `packed` made."""
    for bucket, count in plain["counts"]:
        histogram.counts[bucket] += count
    histogram.max = max(histogram.max, plain["max"])
