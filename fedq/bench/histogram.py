"""A histogram of microseconds with a relative error below 1 %, in a fixed number of buckets.

In: latencies in whole microseconds, each with a count. Out: percentiles. The buckets are those of
HDR histograms: exact below 128, and 64 to each doubling above. Histograms of several processes add.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, TypedDict

_EXACT: Final = 128
_PER_DOUBLING: Final = 64
#: Longer than any run: about 19 hours.
MICROSECONDS_MAX: Final = (1 << 36) - 1
_BUCKETS: Final = (MICROSECONDS_MAX.bit_length() - 5) * _PER_DOUBLING


class Summary(TypedDict):
    """Percentiles in microseconds; all 0 when nothing was recorded."""

    p50: int
    p90: int
    p99: int
    p999: int
    max: int
    count: int


class Histogram:
    """Counts of latencies."""

    __slots__ = ("counts", "max")

    def __init__(self) -> None:
        self.counts = [0] * _BUCKETS
        self.max = 0

    def record(self, microseconds: int, count: int = 1) -> None:
        """Adds `count` latencies of this length; clocks that disagree count as 0."""
        value = min(max(microseconds, 0), MICROSECONDS_MAX)
        self.counts[_bucket(value)] += count
        self.max = max(self.max, value)

    def record_since(self, times_ns: Sequence[int], now_ns: int) -> None:
        """Adds the time from each of these moments (one or more) until now; few differ."""
        first, size = times_ns[0], len(times_ns)
        if times_ns.count(first) == size:
            self.record((now_ns - first) // 1_000, size)
            return
        for time_ns, count in Counter(times_ns).items():
            self.record((now_ns - time_ns) // 1_000, count)

    def record_each(self, time_ns: int, moments_ns: Sequence[int], count: int) -> None:
        """Adds, `count` times each, the time from one moment to each of the others, ascending."""
        counts = self.counts
        for moment_ns in moments_ns:
            value = min(max((moment_ns - time_ns) // 1_000, 0), MICROSECONDS_MAX)
            shift = value.bit_length() - 7
            counts[shift * _PER_DOUBLING + (value >> shift) if shift > 0 else value] += count
        longest = (moments_ns[-1] - time_ns) // 1_000
        self.max = max(self.max, min(longest, MICROSECONDS_MAX))

    def add(self, other: "Histogram") -> None:
        """Adds all that another one recorded."""
        self.counts = [mine + yours for mine, yours in zip(self.counts, other.counts, strict=True)]
        self.max = max(self.max, other.max)

    @property
    def count(self) -> int:
        """How many latencies were recorded."""
        return sum(self.counts)

    def percentile(self, share: float) -> int:
        """The latency that this share (0 to 1) of all do not exceed, in microseconds."""
        wanted = share * self.count
        seen = 0
        for bucket, count in enumerate(self.counts):
            seen += count
            if count and seen >= wanted:
                return min(middle_of(bucket), self.max)
        return 0

    def summary(self) -> Summary:
        """The percentiles that are reported."""
        return Summary(
            p50=self.percentile(0.5), p90=self.percentile(0.9), p99=self.percentile(0.99),
            p999=self.percentile(0.999), max=self.max, count=self.count,
        )  # fmt: skip


def _bucket(value: int) -> int:
    shift = max(value.bit_length() - 7, 0)
    return shift * _PER_DOUBLING + (value >> shift)


def middle_of(bucket: int) -> int:
    """The microseconds that a bucket stands for."""
    if bucket < _EXACT:
        return bucket
    shift = bucket // _PER_DOUBLING - 1
    return ((bucket - shift * _PER_DOUBLING) << shift) + (1 << shift >> 1)
