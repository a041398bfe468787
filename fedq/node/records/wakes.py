"""Which connections are due: a coarse timing wheel, whose used steps are in a heap.

In: connections with the time when each is due. Out: those that are due by now, or within the same
step. Times are put together in steps, so that moving one costs two dictionaries, not a way through
a heap of all; whoever is called a little early looks at its own clock, and is put back.

Invariant: a connection is in one step at most.
"""

import heapq
from typing import Final

from fedq.core.ids import ConnectionId

#: Not longer than the time between two ticks, or somebody would be called late.
STEP_MS: Final = 50


class Wakes:
    """A timing wheel of connections; see the module's docstring."""

    __slots__ = ("_order", "_steps")

    def __init__(self) -> None:
        self._steps: dict[int, dict[ConnectionId, None]] = {}
        #: The numbers of the steps, as a heap.
        self._order: list[int] = []

    def put(self, connection: ConnectionId, wake_ms: int) -> None:
        """Adds a connection, which is in no step, for the time when it is due."""
        step = wake_ms // STEP_MS
        connections = self._steps.get(step)
        if connections is None:
            connections = self._steps[step] = {}
            heapq.heappush(self._order, step)
        connections[connection] = None

    def remove(self, connection: ConnectionId, wake_ms: int) -> None:
        """Removes a connection from that time's step, if it is there."""
        connections = self._steps.get(wake_ms // STEP_MS)
        if connections is not None:
            connections.pop(connection, None)

    def take(self, now_ms: int) -> list[ConnectionId]:
        """Takes the connections that are due; they are in no step any more."""
        due: list[ConnectionId] = []
        while self._order and self._order[0] * STEP_MS <= now_ms:
            due += self._steps.pop(heapq.heappop(self._order))
        return due
