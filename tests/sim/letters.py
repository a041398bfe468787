"""What the book of policies knows of one message: a letter, and the sights of it.

Input: publishes, and the contents that clients received. Output: plain records, and what a received
content says of its past (`x-death`, `x-delivery-count`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fedq.amqp.values import TableValue
from tests.sim.policies import PolicyQueue
from tests.sim.world import MS

Death = tuple[str, str, int]


class Sight(NamedTuple):
    """One time that a client received a letter."""

    at_us: int
    queue: str
    holder: str
    redelivered: bool
    #: (queue, reason, count), the newest first.
    deaths: tuple[Death, ...]
    returns: int


@dataclass(slots=True)
class Letter:
    """One publish attempt. Times of its policy are in microseconds of the run."""

    number: int
    queue: PolicyQueue
    source: str
    body: bytes
    properties: Mapping[str, TableValue]
    sent_us: int
    #: When it is due, and (None: never) when its time in its first queue is over, at the earliest.
    due_us: int
    over_us: int | None
    confirmed_us: int | None = None
    nacked_us: int | None = None
    returned: bool = False
    sights: list[Sight] = field(default_factory=list)
    #: When it was received from a queue after the same deaths; a letter may be seen 100,000 times.
    seen: dict[tuple[str, tuple[Death, ...]], list[int]] = field(default_factory=dict)
    #: How often it was received from each queue.
    counts: dict[str, int] = field(default_factory=dict)
    #: Somebody acknowledged it.
    acked: bool = False
    #: Queues whose consumers rejected it, the last drain among those that saw it.
    rejected: dict[str, None] = field(default_factory=dict)
    drained: bool = False

    @property
    def persistent(self) -> bool:
        """Whether it outlives all processes."""
        return self.properties.get("delivery_mode") == 2

    @property
    def priority(self) -> int:
        """Its place in a queue with priorities."""
        given = self.properties.get("priority", 0)
        assert isinstance(given, int)
        return min(given, self.queue.max_priority)

    def add(self, sight: Sight) -> None:
        """It was received once more."""
        self.sights.append(sight)
        self.seen.setdefault((sight.queue, sight.deaths), []).append(sight.at_us)
        self.counts[sight.queue] = self.counts.get(sight.queue, 0) + 1

    def seen_like(self, sight: Sight) -> list[int]:
        """When it was received before from that queue, after the same deaths."""
        return self.seen.get((sight.queue, sight.deaths), [])

    def describe(self) -> str:
        """Everything about it in one line."""
        times = [f"sent {self.sent_us / MS:.3f}"]
        for name, when_us in (
            ("due", self.due_us),
            ("over", self.over_us),
            ("confirmed", self.confirmed_us),
            ("nacked", self.nacked_us),
        ):
            if when_us is not None:
                times.append(f"{name} {when_us / MS:.3f}")
        seen = ", ".join(
            f"{s.at_us / MS:.3f} {s.queue} {s.holder}{' redelivered' if s.redelivered else ''}"
            f"{f' deaths {s.deaths}' * bool(s.deaths)}{f' returns {s.returns}' * bool(s.returns)}"
            for s in self.sights
        )
        return (
            f"letter {self.number} ({dict(self.properties)}, from {self.source}) to "
            f"{self.queue.name}, {', '.join(times)}: seen [{seen}], acked {self.acked}, "
            f"rejected in {list(self.rejected)}"
        )


def number_of(body: bytes) -> int:
    """The message number at the start of a body; -1 for a foreign one."""
    return int(body.split(b":", 1)[0]) if b":" in body[:12] else -1


def past_of(properties: Mapping[str, TableValue]) -> tuple[tuple[Death, ...], int]:
    """x-death and x-delivery-count."""
    headers = properties.get("headers", {})
    assert isinstance(headers, dict)
    listed = headers.get("x-death", [])
    assert isinstance(listed, list)
    deaths = []
    for death in listed:
        assert isinstance(death, dict)
        queue, reason, count = death["queue"], death["reason"], death["count"]
        assert isinstance(queue, str)
        assert isinstance(reason, str)
        assert isinstance(count, int)
        deaths.append((queue, reason, count))
    returns = headers.get("x-delivery-count", 0)
    assert isinstance(returns, int)
    return tuple(deaths), returns
