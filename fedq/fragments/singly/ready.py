"""The line of a fragment's ready messages: who is handed out next.

Inputs: positions that are new, and positions that came back. Output: the next ones to hand out.
A line may name positions that are ready no more (removed, or handed out and not back yet): it is
told, with each question, what lives and what is out, and leaves such entries behind.

A position that is put back stands at its old place (P2): lines are ordered by position, within
a priority.
"""

import heapq
from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol

from fedq.amqp.content import priority_of
from fedq.core.message import FLAG_PRIORITY
from fedq.fragments.runs.ranked import RankedFresh

#: So many entries of each part of a line are looked at to count some.
COUNTED_MAX: Final = 128
#: Beyond all positions.
_NEVER: Final = 1 << 64


class ReadyOrder(Protocol):
    """A line of ready messages; see the module's docstring."""

    def extend(self, positions: Iterable[int], messages: Sequence[bytes]) -> None:
        """Adds new messages, behind all others."""

    def put_back(self, position: int, message: bytes) -> None:
        """Puts a message that was out back into the line."""

    def take(
        self, amount: int, messages: Mapping[int, bytes], out: Container[int],
        before: int | None = None,
    ) -> list[int]:  # fmt: skip
        """Takes the next positions that live in `messages` and are not `out` out of the line.

        `before`: only lower positions; where the line is one of positions, they come first.
        """

    def next(self, messages: Mapping[int, bytes], out: Container[int]) -> int | None:
        """The first of the positions that `take` would give; it stays."""

    def count_before(self, end: int, messages: Mapping[int, bytes], out: Container[int]) -> int:
        """How many positions below one are left, of those that are looked at: some of many."""

    def sweep(self, messages: Mapping[int, bytes], out: Container[int]) -> None:
        """Forgets entries that do not live in `messages`, or are `out`."""

    def __len__(self) -> int:
        """How many entries there are, those of positions that are ready no more among them."""

    def positions(self) -> Iterator[int]:
        """All entries, in no order."""


class Fifo:
    """A line that is first in, first out."""

    __slots__ = ("_fresh", "_returned")

    def __init__(self) -> None:
        #: Positions never handed out, ascending.
        self._fresh: deque[int] = deque()
        #: Heap of positions that came back, or were in the line before they came here.
        self._returned: list[int] = []

    def extend(self, positions: Iterable[int], messages: Sequence[bytes]) -> None:
        """Adds new messages behind all others, in the order of their positions."""
        self._fresh.extend(positions)

    def append(self, position: int) -> None:
        """Adds a new message behind all others."""
        self._fresh.append(position)

    def put_back(self, position: int, message: bytes) -> None:
        """Puts a message back to the place that its position gives it."""
        heapq.heappush(self._returned, position)

    def take(
        self, amount: int, messages: Mapping[int, bytes], out: Container[int],
        before: int | None = None,
    ) -> list[int]:  # fmt: skip
        """Takes the lowest positions that are left, fresh or returned."""
        positions: list[int] = []
        fresh, returned = self._fresh, self._returned
        newest = 0
        end = before if before is not None else _NEVER
        while len(positions) < amount:
            if returned and (not fresh or returned[0] < fresh[0]):
                if returned[0] >= end:
                    break
                position = heapq.heappop(returned)
            elif fresh and fresh[0] < end:
                position = fresh.popleft()
            else:
                break
            # What was attached while it was ready, and came back since, is listed twice.
            if position not in messages or position in out or position == newest:
                continue
            newest = position
            positions.append(position)
        return positions

    def next(self, messages: Mapping[int, bytes], out: Container[int]) -> int | None:
        """The lowest position that is left, fresh or returned; None if none is."""
        fresh, returned = self._fresh, self._returned
        while returned and (returned[0] not in messages or returned[0] in out):
            heapq.heappop(returned)
        while fresh and (fresh[0] not in messages or fresh[0] in out):
            fresh.popleft()
        if returned and (not fresh or returned[0] < fresh[0]):
            return returned[0]
        return fresh[0] if fresh else None

    def count_before(self, end: int, messages: Mapping[int, bytes], out: Container[int]) -> int:
        """How many positions below one are left; after `next`, one at least if there is any."""
        returned, found = self._returned, dict[int, None]()
        for position in islice(self._fresh, COUNTED_MAX):
            if position >= end:
                break
            found[position] = None
        # What is below an entry of a heap is not lower than that.
        places = [0]
        for _ in range(COUNTED_MAX):
            if not places:
                break
            at = places.pop()
            if at < len(returned) and returned[at] < end:
                found[returned[at]] = None
                places += (2 * at + 1, 2 * at + 2)
        return sum([position in messages and position not in out for position in found])

    def last(self, amount: int, messages: Mapping[int, bytes], out: Container[int]) -> list[int]:
        """The last ones of those that were never out, then of the others; they stay.

        At most so many.
        """
        fresh, returned = self._fresh, self._returned
        while fresh and (fresh[-1] not in messages or fresh[-1] in out):
            fresh.pop()
        found = dict[int, None]()
        for position in islice(reversed(fresh), amount):
            if position in messages and position not in out:
                found[position] = None
        if len(found) < amount and returned:
            # A sorted list is a heap, and stays one without its end.
            returned.sort()
            while returned and (returned[-1] not in messages or returned[-1] in out):
                returned.pop()
            for position in islice(reversed(returned), amount - len(found)):
                if position in messages and position not in out:
                    found[position] = None
        return list(found)

    def sweep(self, messages: Mapping[int, bytes], out: Container[int]) -> None:
        """Forgets positions that are not ready any more; the order stays."""
        self._fresh = deque(p for p in self._fresh if p in messages and p not in out)
        # A sorted list is a heap.
        returned = dict.fromkeys(p for p in self._returned if p in messages and p not in out)
        self._returned = sorted(returned)

    def __len__(self) -> int:
        return len(self._fresh) + len(self._returned)

    def positions(self) -> Iterator[int]:
        """All positions: the fresh ones, then those that came back."""
        yield from self._fresh
        yield from self._returned


class ByPriority:
    """Lines by priority, the highest first (RabbitMQ's `x-max-priority`); without one it is 0.

    What is on disk alone (`fedq.fragments.runs.ranked`) stands among these: nothing behind the next
    one of that is handed out.
    """

    __slots__ = ("_lines", "_max_priority", "_on_disk", "_order")

    def __init__(self, max_priority: int, on_disk: RankedFresh | None = None) -> None:
        self._max_priority = max_priority
        self._on_disk = on_disk
        self._lines: dict[int, Fifo] = {}
        #: The priorities that have lines, in descending order.
        self._order: list[int] = []

    def rank_of(self, message: bytes) -> int:
        """The priority of a message in this queue."""
        priority = priority_of(message) if message[0] & FLAG_PRIORITY else 0
        return min(priority, self._max_priority)

    def _line_of(self, rank: int) -> Fifo:
        line = self._lines.get(rank)
        if line is None:
            line = self._lines[rank] = Fifo()
            self._order = sorted(self._lines, reverse=True)
        return line

    def extend(self, positions: Iterable[int], messages: Sequence[bytes]) -> None:
        """Adds new messages, each behind those of its priority."""
        lines, highest = self._lines, self._max_priority
        for position, message in zip(positions, messages, strict=True):
            if not message:
                continue
            rank = min(priority_of(message), highest) if message[0] & FLAG_PRIORITY else 0
            line = lines.get(rank)
            (line if line is not None else self._line_of(rank)).append(position)

    def put_back(self, position: int, message: bytes) -> None:
        """Puts a message back to the place that its priority and position give it.

        One that is on disk yet (no bytes) has none before it was read.
        """
        if message:
            self._line_of(self.rank_of(message)).put_back(position, message)

    def take(
        self, amount: int, messages: Mapping[int, bytes], out: Container[int],
        before: int | None = None,
    ) -> list[int]:  # fmt: skip
        """Takes the positions of the highest priority, the lowest ones first."""
        positions: list[int] = []
        end = before if before is not None else _NEVER
        for rank in self._order:
            stop = self._passes(rank)
            if not stop or len(positions) == amount:
                break
            self._take_of(rank, amount, messages, out, min(end, stop), positions)
        if len(self._lines) < len(self._order):
            self._order = sorted(self._lines, reverse=True)
        return positions

    def take_whatever(
        self, amount: int, messages: Mapping[int, bytes], out: Container[int], before: int
    ) -> list[int]:
        """Takes positions below one, in order, whatever on disk alone is before them."""
        positions: list[int] = []
        for rank in self._order:
            self._take_of(rank, amount, messages, out, before, positions)
        self._order = sorted(self._lines, reverse=True)
        return positions

    def _take_of(
        self, rank: int, amount: int, messages: Mapping[int, bytes], out: Container[int], end: int,
        positions: list[int],
    ) -> None:  # fmt: skip
        """Adds positions of a priority to those that are taken, up to so many."""
        line = self._lines[rank]
        positions += line.take(amount - len(positions), messages, out, end)
        if len(line) == 0:
            del self._lines[rank]

    def _passes(self, rank: int) -> int:
        """Below which position those of a priority come before all that is on disk alone."""
        return self._on_disk.may_pass(rank) if self._on_disk is not None else _NEVER

    def next(self, messages: Mapping[int, bytes], out: Container[int]) -> int | None:
        """The lowest position of the highest priority that is left; None if none is."""
        for rank in self._order:
            position = self._lines[rank].next(messages, out)
            if position is not None:
                return position if position < self._passes(rank) else None
        return None

    def lowest(self, rank: int, messages: Mapping[int, bytes], out: Container[int]) -> int | None:
        """The lowest position of a priority that is in memory, whether it is next or not."""
        line = self._lines.get(rank)
        return line.next(messages, out) if line is not None else None

    def count_before(self, end: int, messages: Mapping[int, bytes], out: Container[int]) -> int:
        """How many positions below one are left that may be handed out, whatever their priority."""
        found = 0
        for rank in self._order:
            stop = min(self._passes(rank), end)
            if not stop or found >= COUNTED_MAX:
                break
            found += self._lines[rank].count_before(stop, messages, out)
        return found

    def last(
        self, amount: int, messages: Mapping[int, bytes], out: Container[int], above: int = -1
    ) -> list[int]:
        """The last ones in line, at most so many, the lowest priority first; they stay.

        Of priorities above one.
        """
        found: list[int] = []
        for rank in reversed(self._order):
            if len(found) >= amount:
                break
            if rank > above:
                found += self._lines[rank].last(amount - len(found), messages, out)
        return found

    def count_through(self, rank: int) -> int:
        """How many entries there are of priorities up to one, some of them in vain."""
        return sum([len(line) for each, line in self._lines.items() if each <= rank])

    def sweep(self, messages: Mapping[int, bytes], out: Container[int]) -> None:
        """Forgets positions that are not ready any more; priorities stay."""
        for line in self._lines.values():
            line.sweep(messages, out)

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def positions(self) -> Iterator[int]:
        """All positions, by priority, in no order."""
        for line in self._lines.values():
            yield from line.positions()
