"""What the clients' records prove: lost, repeated, and how long nothing moved.

In: the records of publishers and consumers. Out: a `Verdict`. Pure, so it can be tested.

*Lost*: confirmed to a publisher and delivered to nobody. *Duplicate*: the same attempt delivered
more than once; after a failure that may happen, and then AMQP's `redelivered` flag must warn the
consumer. A publisher that heard no confirm sends a message again as another attempt: those
are its own repeats, counted apart.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from demo.records import CONFIRMED, DELIVERED, SENT, Record

Message = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Gap:
    """The longest time without an event, and when it began (milliseconds)."""

    length_ms: int = 0
    began_ms: int = 0


@dataclass(slots=True)
class Verdict:
    """The account of a run; counts are of messages unless they say otherwise."""

    published: int = 0
    confirmed: int = 0
    delivered: int = 0
    lost: list[Message] = field(default_factory=list)
    #: Later deliveries of an attempt that were marked `redelivered`, and those that were not.
    duplicates_flagged: int = 0
    duplicates_unflagged: int = 0
    #: Attempts beyond a message's first one.
    resends: int = 0
    #: Messages of which more than one attempt arrived.
    resends_delivered: int = 0
    confirm_gap: Gap = Gap()
    delivery_gap: Gap = Gap()

    @property
    def is_good(self) -> bool:
        """Nothing lost, and no repeat came unannounced."""
        return self.confirmed > 0 and not self.lost and not self.duplicates_unflagged


def longest_gap(times_ms: Iterable[int]) -> Gap:
    """The longest pause between successive events."""
    best = Gap()
    for earlier, later in pairwise(sorted(times_ms)):
        if later - earlier > best.length_ms:
            best = Gap(later - earlier, earlier)
    return best


def confirm_gap(records: Iterable[Record]) -> Gap:
    """The longest time for which some publisher heard no confirm."""
    times_ms: dict[str, list[int]] = {}
    for record in records:
        if record.kind == CONFIRMED:
            times_ms.setdefault(record.name, []).append(record.at_ms)
    gaps = (longest_gap(times) for times in times_ms.values())
    return max(gaps, key=lambda gap: gap.length_ms, default=Gap())


def missing(records: Iterable[Record]) -> list[Message]:
    """Messages that are confirmed and, so far, delivered to nobody."""
    confirmed: dict[Message, None] = {}
    delivered: dict[Message, None] = {}
    for record in records:
        if record.kind == CONFIRMED:
            confirmed[record.name, record.sequence] = None
        elif record.kind == DELIVERED:
            delivered[record.name, record.sequence] = None
    return sorted(message for message in confirmed if message not in delivered)


def judge(records: Iterable[Record]) -> Verdict:
    """The verdict on all records of a finished run, in any order of clients."""
    everything = sorted(records, key=lambda record: record.at_ms)
    verdict = Verdict(lost=missing(everything))
    published: dict[Message, None] = {}
    confirmed: dict[Message, None] = {}
    #: Message -> attempt -> deliveries.
    delivered: dict[Message, dict[int, list[Record]]] = {}
    for record in everything:
        message = (record.name, record.sequence)
        if record.kind == SENT:
            published[message] = None
            verdict.resends += record.attempt > 1
        elif record.kind == CONFIRMED:
            confirmed[message] = None
        elif record.kind == DELIVERED:
            delivered.setdefault(message, {}).setdefault(record.attempt, []).append(record)
    for attempts in delivered.values():
        verdict.resends_delivered += len(attempts) > 1
        for deliveries in attempts.values():
            # Clients of two nodes may write down one message in either order: one of the
            # deliveries is the first, every other one must be marked.
            marked = sum(record.redelivered for record in deliveries)
            repeats = len(deliveries) - 1
            verdict.duplicates_flagged += min(marked, repeats)
            verdict.duplicates_unflagged += max(repeats - marked, 0)
    verdict.published = len(published)
    verdict.confirmed = len(confirmed)
    verdict.delivered = len(delivered)
    verdict.confirm_gap = confirm_gap(everything)
    verdict.delivery_gap = longest_gap(r.at_ms for r in everything if r.kind == DELIVERED)
    return verdict
