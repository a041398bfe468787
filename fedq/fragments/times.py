"""When something is due about messages, as a priority queue of times and positions.

Input: appointments; a single entry is never taken back, so whoever asks what is due looks whether
it still matters, and now and then names all that do (`renew`). Times are milliseconds of the wall
clock (they outlive a process).
"""

import heapq
from collections.abc import Iterable

from fedq.core.limits import DUE_PER_LOOK_MAX


class Deadlines:
    """A priority queue (binary heap) of (when, position)."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []

    def add(self, when_ms: int, position: int) -> None:
        """Adds an appointment: something is due about the message at this time."""
        heapq.heappush(self._heap, (when_ms, position))

    def renew(self, appointments: Iterable[tuple[int, int]]) -> None:
        """Replaces all appointments by those that still matter."""
        self._heap = sorted(appointments)

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_ms(self) -> int | None:
        """The earliest time; None if nothing will be due."""
        return self._heap[0][0] if self._heap else None

    def due(self, before_ms: int, most: int = DUE_PER_LOOK_MAX) -> list[tuple[int, int]]:
        """The appointments before that time, in its order and at most `most`; they leave."""
        heap = self._heap
        found: list[tuple[int, int]] = []
        while heap and heap[0][0] < before_ms and len(found) < most:
            found.append(heapq.heappop(heap))
        return found
