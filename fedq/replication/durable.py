"""The way from *written up to* to *safe up to* (a low-water mark), as syncs complete in order.

One mark per fragment and role. `advance` is told, in order, up to which event things were handed
to the journal, and the number of the journal chunk that must be on disk before that counts.
"""

from collections import deque


class DurableMark:
    """`safe` is the highest event for which everything asked of the disk is done."""

    __slots__ = ("_pending", "safe")

    def __init__(self, safe: int) -> None:
        self.safe = safe
        self._pending: deque[tuple[int, int]] = deque()

    def advance(self, through: int, chunk: int) -> None:
        """Notes that events up to `through` are written; `chunk` must be synced (0: none)."""
        pending = self._pending
        if chunk == 0:
            if not pending:
                self.safe = through
                return
            chunk = pending[-1][0]
        pending.append((chunk, through))

    def on_synced(self, chunk: int) -> None:
        """Takes note that the journal is on disk up to and including `chunk`."""
        pending = self._pending
        while pending and pending[0][0] <= chunk:
            self.safe = pending.popleft()[1]
