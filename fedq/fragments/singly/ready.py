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
    """A line by priority, the highest first (RabbitMQ's `x-max-priority`); without one it is 0."""

    __slots__ = ("_heap", "_max_priority")

    def __init__(self, max_priority: int) -> None:
        self._max_priority = max_priority
        self._heap: list[tuple[int, int]] = []

    def extend(self, positions: Iterable[int], messages: Sequence[bytes]) -> None:
        """Adds new messages, each behind those of its priority."""
        for position, message in zip(positions, messages, strict=True):
            self.put_back(position, message)

    def put_back(self, position: int, message: bytes) -> None:
        """Puts a message back to the place that its priority and position give it.

        One that is on disk yet (no bytes) has none before it was read.
        """
        if not message:
            return
        priority = priority_of(message) if message[0] & FLAG_PRIORITY else 0
        heapq.heappush(self._heap, (-min(priority, self._max_priority), position))

    def take(
        self, amount: int, messages: Mapping[int, bytes], out: Container[int],
        before: int | None = None,
    ) -> list[int]:  # fmt: skip
        """Takes the positions of the highest priority, the lowest ones first."""
        positions: list[int] = []
        heap = self._heap
        newest = 0
        end = before if before is not None else _NEVER
        later: list[tuple[int, int]] = []
        while heap and len(positions) < amount:
            entry = heapq.heappop(heap)
            position = entry[1]
            if position >= end:
                later.append(entry)
            elif position in messages and position not in out and position != newest:
                newest = position
                positions.append(position)
        for entry in later:
            heapq.heappush(heap, entry)
        return positions

    def next(self, messages: Mapping[int, bytes], out: Container[int]) -> int | None:
        """The lowest position of the highest priority that is left; None if none is."""
        heap = self._heap
        while heap and (heap[0][1] not in messages or heap[0][1] in out):
            heapq.heappop(heap)
        return heap[0][1] if heap else None

    def count_before(self, end: int, messages: Mapping[int, bytes], out: Container[int]) -> int:
        """How many positions below one are left, whatever their priority."""
        first = [position for _, position in self._heap[:COUNTED_MAX] if position < end]
        return sum([p in messages and p not in out for p in dict.fromkeys(first)])

    def sweep(self, messages: Mapping[int, bytes], out: Container[int]) -> None:
        """Forgets positions that are not ready any more; priorities stay."""
        kept = (entry for entry in self._heap if entry[1] in messages and entry[1] not in out)
        self._heap = sorted(dict.fromkeys(kept))

    def __len__(self) -> int:
        return len(self._heap)

    def positions(self) -> Iterator[int]:
        """All positions in the heap, in no order."""
        for _, position in self._heap:
            yield position
