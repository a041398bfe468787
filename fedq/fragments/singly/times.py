"""When something is due about messages: priority queues of times and positions.

Input: appointments; a single entry is never taken back, so whoever asks what is due looks whether
it still matters, and now and then names all that do (`renew`). Times are milliseconds of the wall
clock (they outlive a process).
"""

import heapq
from collections.abc import Iterable, Mapping

from fedq.core.limits import DUE_PER_LOOK_MAX
from fedq.core.ranges import Range
from fedq.journal.steps import Step, Steps


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


class Expiring:
    """When messages expire, and a priority queue (binary heap) of stretches of them."""

    __slots__ = ("_heap", "times")

    def __init__(self) -> None:
        #: When those expire that do, by position; of messages that are here.
        self.times = Steps()
        #: Time, first and last position.
        self._heap: list[Step] = []

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_ms(self) -> int | None:
        """The earliest time of which nobody has heard; None if there is none."""
        return self._heap[0][0] if self._heap else None

    def begin_with(self, times: Mapping[int, int]) -> None:
        """Takes over the times of an earlier reign."""
        self.times = Steps(times)
        self.renew()

    def add(self, first: int, last: int, when_ms: int) -> None:
        """Adds messages between two positions that expire at the same time."""
        self.times.add(first, last, when_ms)
        heapq.heappush(self._heap, (when_ms, first, last))

    def again(self, first: int, last: int) -> None:
        """Has those between two positions looked at again that have a time."""
        for low, high, when_ms in self.times.between(first, last):
            heapq.heappush(self._heap, (when_ms, low, high))

    def renew(self) -> None:
        """Forgets the appointments of messages that are gone."""
        self._heap = sorted([(when_ms, first, last) for first, last, when_ms in self.times.steps()])

    def sweep(self, slack: int) -> None:
        """As `renew`, if those are the most."""
        if len(self._heap) > 2 * self.times.step_count + slack:
            self.renew()

    def over(self, before_ms: int, most: int) -> tuple[list[Range], int]:
        """Which messages expired before that time, and how many were looked at: at most so many.

        They are told once, until `again`; what is beyond `most` comes with the next question.
        """
        heap, found, left = self._heap, list[Range](), most
        while heap and heap[0][0] < before_ms and left > 0:
            when_ms, first, last = heapq.heappop(heap)
            looked_at = 0
            for low, high, when in self.times.between(first, last):
                if when != when_ms:
                    continue
                if high - low >= left - looked_at:
                    high = low + left - looked_at - 1
                    if high < last:
                        heapq.heappush(heap, (when_ms, high + 1, last))
                    looked_at = left
                    if low <= high:
                        found.append((low, high))
                    break
                found.append((low, high))
                looked_at += high - low + 1
            left -= max(looked_at, 1)
        return found, most - left
