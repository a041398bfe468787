"""The messages that each should get, and what became of each: lost, repeated, out of order.

In: the numbers of deliveries (`fedq.bench.blocks`), in bulk, and at the end how far each producer
came. Out: counts. Every message is looked at; a run in order is one comparison of lists.

A `Sequence` is what one queue gets of one producer: all its messages, or those members of each
round of its block that are routed there. A `Ledger` has the sequences of one queue.
"""

from bisect import bisect_left
from collections.abc import Collection
from collections.abc import Sequence as Values
from typing import Final

from fedq.bench.blocks import PRODUCER_SHIFT, SEQUENCE_MASK

#: A hole larger than this is not remembered number by number: what fills it counts as repeated.
HOLE_MAX: Final = 1 << 20


class Members:
    """The messages of each round that go to a queue; all when `indexes` is None."""

    __slots__ = ("first", "gaps", "indexes", "size")

    def __init__(self, size: int, indexes: Values[int] | None = None) -> None:
        """`size`: messages in a round; `indexes`: ascending and not empty."""
        self.size = size
        self.indexes = indexes
        self.first = 0
        #: For each member the distance to the next; None where that is always 1.
        self.gaps: dict[int, int] | None = None
        if indexes is not None:
            self.first = indexes[0]
            following = [*indexes[1:], indexes[0] + size]
            self.gaps = {here: there - here for here, there in zip(indexes, following, strict=True)}

    def owed(self, total: int) -> int:
        """How many of a producer's first `total` messages are members."""
        if self.indexes is None:
            return total
        rounds, rest = divmod(total, self.size)
        return rounds * len(self.indexes) + bisect_left(self.indexes, rest)


class Sequence:
    """The messages that a queue gets of one producer."""

    __slots__ = ("_holes", "_members", "count", "due", "out_of_order", "repeated")

    def __init__(self, members: Members, due: int = 0) -> None:
        """`due`: the sequence number from which on messages are owed."""
        self._members = members
        self.due = max(due, members.first)
        self.count = members.owed(due)
        self.repeated = 0
        self.out_of_order = 0
        self._holes: dict[int, None] = {}

    def take_next(self, numbers: list[int], base: int) -> bool:
        """Takes the numbers, all or none, if they are the next ones after `base`."""
        if self._members.gaps is not None:
            return False
        first, size = base + self.due, len(numbers)
        if numbers != list(range(first, first + size)):
            return False
        self.count += size
        self.due += size
        return True

    def advance(self, due: int) -> None:
        """Notes that all came in order up to this number, which is due now; only without gaps."""
        assert self._members.gaps is None
        self.count += due - self.due
        self.due = due

    def take(self, values: Values[int]) -> None:
        """Notes that these sequence numbers came, in this order."""
        self.count += len(values)
        gaps, due = self._members.gaps, self.due
        mask = self._members.size - 1
        for value in values:
            if value != due:
                due = self._surprise(value, due)
                continue
            due += 1 if gaps is None else gaps[value & mask]
        self.due = due

    def _surprise(self, value: int, due: int) -> int:
        """Takes a number that was not due; returns what is due now."""
        gaps, mask = self._members.gaps, self._members.size - 1
        if gaps is not None and value & mask not in gaps:
            self.repeated += 1  # Routed where it does not belong: one too many.
            return due
        if value < due:
            if value in self._holes:
                del self._holes[value]
                self.out_of_order += 1
            else:
                self.repeated += 1
            return due
        while due < value:
            if len(self._holes) < HOLE_MAX:
                self._holes[due] = None
            elif gaps is None:
                due = value
                break
            due += 1 if gaps is None else gaps[due & mask]
        return due + (1 if gaps is None else gaps[value & mask])

    def lost(self, total: int) -> int:
        """How many of the producer's first `total` messages never came."""
        return max(self._members.owed(total) - (self.count - self.repeated), 0)


class Ledger:
    """One queue, or one subscriber: a sequence for each producer that reaches it."""

    __slots__ = ("_single", "sequences", "strays")

    def __init__(self, sequences: dict[int, Sequence]) -> None:
        """`sequences`: the sequence of each producer."""
        self.sequences = sequences
        #: Deliveries from producers that send nothing here.
        self.strays = 0
        self._single = next(iter(sequences.items())) if len(sequences) == 1 else None

    def take(self, numbers: list[int]) -> None:
        """Notes that these messages came, in this order."""
        if self._single is not None:
            producer, sequence = self._single
            if sequence.take_next(numbers, producer << PRODUCER_SHIFT):
                return
        runs: dict[int, list[int]] = {producer: [] for producer in self.sequences}
        for number in numbers:
            if (run := runs.get(number >> PRODUCER_SHIFT)) is not None:
                run.append(number & SEQUENCE_MASK)
            else:
                self.strays += 1
        for producer, run in runs.items():
            if run:
                self.sequences[producer].take(run)

    @property
    def count(self) -> int:
        """How many deliveries came."""
        return self.strays + sum(sequence.count for sequence in self.sequences.values())

    @property
    def repeated(self) -> int:
        """How many deliveries came once too often."""
        return self.strays + sum(sequence.repeated for sequence in self.sequences.values())

    @property
    def out_of_order(self) -> int:
        """How many deliveries came after a later message of the same producer."""
        return sum(sequence.out_of_order for sequence in self.sequences.values())

    def lost(self, totals: Values[int]) -> int:
        """How many messages never came, when producer `n` sent `totals[n]`."""
        return sum(sequence.lost(totals[producer]) for producer, sequence in self.sequences.items())


class SharedLedger:
    """A queue with several consumers: each sees its messages in order, all see all of them.

    Deliveries are gathered and looked at once per turn of the loop, sorted: what one consumer got
    before another is no matter of order.
    """

    __slots__ = ("_gathered", "late", "ledger")

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._gathered: list[int] = []
        #: Deliveries that came to one consumer after a later message of the same producer.
        self.late = 0

    def gather(
        self, numbers: list[int], last: dict[int, int], redelivered: Collection[int] = ()
    ) -> None:
        """Notes what a consumer got; `last`, its highest number of each producer, is updated.

        `redelivered`: places of those that say so: they come back from another consumer, and may be
        behind younger ones.
        """
        self._gathered += numbers
        if redelivered:
            numbers = [each for place, each in enumerate(numbers) if place not in redelivered]
        elif len(self.ledger.sequences) == 1 and (not last or numbers[0] > min(last.values())):
            ordered = sorted(numbers)
            if ordered == numbers:
                last[numbers[-1] >> PRODUCER_SHIFT] = numbers[-1]
                return
        for number in numbers:
            producer = number >> PRODUCER_SHIFT
            if number < last.get(producer, -1):
                self.late += 1
            else:
                last[producer] = number

    def settle(self) -> None:
        """Looks at what was gathered since the last time."""
        if self._gathered:
            self._gathered.sort()
            self.ledger.take(self._gathered)
            self._gathered = []

    @property
    def out_of_order(self) -> int:
        """How many deliveries came too late to their consumer."""
        return self.late
