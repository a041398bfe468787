"""What a queue's filling cost: the rates of its first and last part, and memory by message.

In: samples of (time, messages that count as stored, resident bytes of the brokers), as they are
taken while nobody consumes. Out: rates and bytes, or None where the samples do not tell.
"""

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

#: The first and the last part have a tenth of the messages each, and at most so many.
PART_MAX: Final = 1_000_000
_PARTS: Final = 10


class Sample(NamedTuple):
    """The state of a queue that is being filled, at one moment."""

    time_ns: int
    #: Confirmed, or just published where there are no confirms.
    stored: int
    rss_bytes: int


@dataclass(slots=True)
class Filling:
    """The course of a filling."""

    wanted: int
    samples: list[Sample] = field(default_factory=list)

    @property
    def stored(self) -> int:
        """How many messages were stored when it ended."""
        return self.samples[-1].stored if self.samples else 0

    @property
    def is_whole(self) -> bool:
        """Whether all were stored before the time was over."""
        return self.stored >= self.wanted

    @property
    def seconds(self) -> float:
        """How long it took, or was given."""
        return (self.samples[-1].time_ns - self.samples[0].time_ns) / 1e9 if self.samples else 0.0

    @property
    def _part(self) -> int:
        return max(min(self.wanted // _PARTS, PART_MAX), 1)

    def _parts(self) -> tuple[Sample, Sample] | None:
        """The ends of the first part and of all before the last one; None if it is not whole."""
        if not self.is_whole or self.wanted < 2 * self._part:
            return None
        last = self.wanted - self._part
        first = next(sample for sample in self.samples if sample.stored >= self._part)
        before_last = [sample for sample in self.samples if sample.stored <= last][-1]
        return first, before_last

    def first_per_second(self) -> float | None:
        """The rate of the first part."""
        parts = self._parts()
        return None if parts is None else _rate(self.samples[0], parts[0])

    def last_per_second(self) -> float | None:
        """The rate of the last part."""
        parts = self._parts()
        return None if parts is None else _rate(parts[1], self.samples[-1])

    def bytes_each(self) -> float | None:
        """Resident bytes for each message after the first part."""
        parts = self._parts()
        if parts is None or not self.samples[-1].rss_bytes:
            return None
        messages = self.samples[-1].stored - parts[0].stored
        grown = self.samples[-1].rss_bytes - parts[0].rss_bytes
        return grown / messages if messages else None

    def as_json(self) -> dict[str, Any]:
        """The stable form; see docs/BENCHMARKING.md."""
        return {
            "wanted": self.wanted,
            "stored": self.stored,
            "is_whole": self.is_whole,
            "seconds": round(self.seconds, 4),
            "first_per_second": self.first_per_second(),
            "last_per_second": self.last_per_second(),
            "rss_bytes": self.samples[-1].rss_bytes if self.samples else 0,
            "rss_bytes_each": self.bytes_each(),
        }


def _rate(earlier: Sample, later: Sample) -> float | None:
    seconds = (later.time_ns - earlier.time_ns) / 1e9
    return round((later.stored - earlier.stored) / seconds, 1) if seconds > 0 else None
