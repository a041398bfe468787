"""What each subscriber got, from when to when: a *life* is one connection of one subscriber.

In: the numbers of deliveries as they came (publisher << 48 | sequence). Out: tables of lives that
agree, small enough to be sent every few seconds however many subscribers there are: while all is
well, the next sequence due is the same for all.

Invariant: a life belongs to its book from its beginning; once it has ended it is only a row of the
tables. Times are of the wall clock, in nanoseconds; those in tables are in tenths of a second,
rounded so that nobody is owed more by that.
"""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

from fedq.bench.blocks import PRODUCER_SHIFT, SEQUENCE_MASK

TENTH_NS: Final = 100_000_000
#: So many gaps of one life are told; it has failed anyhow.
GAPS_MAX: Final = 1_000
#: Stands for a sequence where there is none.
NOTHING: Final = -1
#: Stands for the end of a life that goes on.
GOES_ON: Final = 0


class End(StrEnum):
    """How a life ended."""

    LIVE = "live"
    #: The load test closed it.
    CLOSED = "closed"
    #: The broker closed it, or its node is gone.
    BROKEN = "broken"


class Life:
    """One connection of one subscriber, from its `consume-ok` on."""

    __slots__ = ("disorder", "due", "first", "gaps", "is_slow", "repeats", "since_ns")

    def __init__(self, since_ns: int, publishers: int, is_slow: bool = False) -> None:
        self.since_ns = since_ns
        self.is_slow = is_slow
        #: By publisher the first sequence that came, and the next one due.
        self.first = [NOTHING] * publishers
        self.due = [NOTHING] * publishers
        #: (publisher, first missing, first not missing), in order of their coming.
        self.gaps: list[tuple[int, int, int]] = []
        self.repeats = 0
        #: What came after a later message of its publisher.
        self.disorder = 0

    def take(self, numbers: Sequence[int]) -> None:
        """Takes deliveries in the order in which they came; one at least."""
        first, count = numbers[0], len(numbers)
        publisher, sequence = first >> PRODUCER_SHIFT, first & SEQUENCE_MASK
        if (
            publisher < len(self.due) and self.due[publisher] == sequence
            and (count == 1 or numbers == list(range(first, first + count)))
        ):  # fmt: skip
            self.due[publisher] = sequence + count
            return
        for number in numbers:
            self._take(number >> PRODUCER_SHIFT, number & SEQUENCE_MASK)

    def _take(self, publisher: int, sequence: int) -> None:
        if publisher >= len(self.due):
            # Of nobody whom this test knows: a message that does not belong here.
            self.repeats += 1
            return
        due = self.due[publisher]
        if due == NOTHING:
            self.first[publisher] = sequence
        elif sequence < due:
            self._late(publisher, sequence)
            return
        elif sequence > due and len(self.gaps) < GAPS_MAX:
            self.gaps.append((publisher, due, sequence))
        self.due[publisher] = sequence + 1

    def _late(self, publisher: int, sequence: int) -> None:
        for index, (of, start, stop) in enumerate(self.gaps):
            if of == publisher and start <= sequence < stop:
                halves = [(of, start, sequence), (of, sequence + 1, stop)]
                self.gaps[index : index + 1] = [half for half in halves if half[1] < half[2]]
                self.disorder += 1
                return
        if sequence < self.first[publisher]:
            # Sent before what came first: late, and nobody can say whether it had come before.
            self.disorder += 1
            return
        self.repeats += 1


class Tables:
    """Rows of lives that agree, each with how many they are."""

    __slots__ = ("empty", "gaps", "heads", "sums", "tails")

    def __init__(self) -> None:
        #: (publisher, first sequence, since): of whom something came.
        self.heads: Counter[tuple[int, int, int]] = Counter()
        #: (publisher, next sequence, until, end).
        self.tails: Counter[tuple[int, int, int, str]] = Counter()
        #: (publisher, since, until, end): of whom nothing came.
        self.empty: Counter[tuple[int, int, int, str]] = Counter()
        #: (publisher, first missing, first not missing, since).
        self.gaps: Counter[tuple[int, int, int, int]] = Counter()
        #: Of the whole: lives by their end, repeats and disorder, and what slow ones missed.
        self.sums: Counter[str] = Counter()

    def add(self, life: Life, end: End, ended_ns: int) -> None:
        """Adds a life that ended at this time, or (`End.LIVE`) goes on."""
        sums = self.sums
        sums[f"lives {end}"] += 1
        sums["repeats"] += life.repeats
        sums["disorder"] += life.disorder
        if life.is_slow:
            sums["slow lives"] += 1
            sums["slow missed"] += sum(stop - start for _, start, stop in life.gaps)
            return
        since = -(-life.since_ns // TENTH_NS)
        until = GOES_ON if end is End.LIVE else ended_ns // TENTH_NS
        for publisher, first in enumerate(life.first):
            if first == NOTHING:
                self.empty[publisher, since, until, end] += 1
            else:
                self.heads[publisher, first, since] += 1
                self.tails[publisher, life.due[publisher], until, end] += 1
        for gap in life.gaps:
            self.gaps[*gap, since] += 1

    def merge(self, other: "Tables") -> None:
        """Adds all rows of another one's."""
        self.heads.update(other.heads)
        self.tails.update(other.tails)
        self.empty.update(other.empty)
        self.gaps.update(other.gaps)
        self.sums.update(other.sums)

    def packed(self) -> dict[str, Any]:
        """As plain lists and numbers, for a report."""
        return {
            "heads": [[*row, count] for row, count in self.heads.items()],
            "tails": [[*row, count] for row, count in self.tails.items()],
            "empty": [[*row, count] for row, count in self.empty.items()],
            "gaps": [[*row, count] for row, count in self.gaps.items()],
            "sums": dict(self.sums),
        }

    @classmethod
    def unpacked(cls, plain: dict[str, Any]) -> "Tables":
        """From what `packed` made."""
        made = cls()
        for name in ("heads", "tails", "empty", "gaps"):
            table: Counter[Any] = getattr(made, name)
            for *row, count in plain[name]:
                table[tuple(row)] += count
        made.sums.update(plain["sums"])
        return made


class Book:
    """All lives of one worker."""

    __slots__ = ("_ended", "_live")

    def __init__(self) -> None:
        self._live: dict[int, Life] = {}
        self._ended = Tables()

    def begin(self, life: Life) -> None:
        """Takes a life that has begun."""
        self._live[id(life)] = life

    def end(self, life: Life, end: End, now_ns: int) -> None:
        """Takes note that a life is over."""
        del self._live[id(life)]
        self._ended.add(life, end, now_ns)

    @property
    def live(self) -> int:
        """How many lives go on."""
        return len(self._live)

    def tables(self) -> Tables:
        """All lives, those that go on as they are now."""
        found = Tables()
        found.merge(self._ended)
        for life in self._live.values():
            found.add(life, End.LIVE, 0)
        return found
