"""When something is due about messages: a time, a position.

Input: appointments; a single entry is never taken back, so whoever asks what is due looks whether
it still matters, and now and then names all that do (`renew`). Times are milliseconds of the wall
clock (they outlive a process).
"""

import heapq
from collections.abc import Iterable

from fedq.core.limits import DUE_PER_LOOK_MAX


class Deadlines:
    """A queue of (when, position)."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []

    def add(self, when_ms: int, position: int) -> None:
        """Something is due about the message then."""
        heapq.heappush(self._heap, (when_ms, position))

    def renew(self, appointments: Iterable[tuple[int, int]]) -> None:
        """These are all that still matter."""
        self._heap = sorted(appointments)

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_ms(self) -> int | None:
        """The earliest time; None if nothing will be due."""
        return self._heap[0][0] if self._heap else None

    def due(self, before_ms: int, most: int = DUE_PER_LOOK_MAX) -> list[tuple[int, int]]:
        """What is due before that time, up to so many in order of time; it leaves."""
        heap = self._heap
        found: list[tuple[int, int]] = []
        while heap and heap[0][0] < before_ms and len(found) < most:
            found.append(heapq.heappop(heap))
        return found
