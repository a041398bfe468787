"""Replication as a backup sees it: follow one primary of one reign, in order, and say how far.

Inputs: the primary's messages. Outputs: whether their records are to be applied (the caller owns
the replica and the journal), and the acknowledgement due. What the primary is told counts only
once this node's disk has what was asked for (`DurableMark`).

    OFFERED -> COPYING -> STREAMING      (a fragment's first backups start STREAMING: all is empty)
"""

from collections import deque

from fedq.core.ids import FragmentId, NodeId
from fedq.core.peer_messages import CopyChunk, CopyStart, ReplicaAck, Replicate

OFFERED, COPYING, STREAMING = 0, 1, 2


class BackupReplication:
    """What this node has of one fragment, in the reign of one primary."""

    __slots__ = (
        "_pending", "_told", "astray", "copied", "copy", "fragment_id", "primary", "received",
        "reign", "safe_copied", "safe_through", "state",
    )  # fmt: skip

    def __init__(
        self, fragment_id: FragmentId, reign: int, primary: NodeId, base: int, created: bool
    ) -> None:
        """`created`: the fragment has just come into being, empty on every copy, at `base`."""
        self.fragment_id = fragment_id
        self.reign = reign
        self.primary = primary
        self.state = STREAMING if created else OFFERED
        #: The number of the copy that was asked for last.
        self.copy = 0
        #: Taken from the stream, in memory.
        self.received = base
        self.copied = 0
        #: The same, safe as far as asked for.
        self.safe_through = base
        self.safe_copied = 0
        self._pending: deque[tuple[int, int, int]] = deque()
        self._told = (base, 0)
        #: The primary sent what does not follow on what it had sent: this copy has to be compared
        #: with it again, and takes nothing more until then.
        self.astray = False

    def on_start(self, message: CopyStart) -> bool:
        """Takes the start of a copy; false for a stale message."""
        if message.reign != self.reign or self.state != OFFERED or message.copy != self.copy:
            return False
        self.state = COPYING
        self.received = message.base
        return True

    def on_chunk(self, message: CopyChunk) -> bool:
        """Whether the chunk's records are to be applied."""
        if message.reign != self.reign or self.state != COPYING or self.astray:
            return False
        if message.number != self.copied + 1:
            self.astray = True
            return False
        self.copied = message.number
        if message.done:
            self.state = STREAMING
        return True

    def on_records(self, message: Replicate) -> bool:
        """Whether the live records are to be applied."""
        if message.reign != self.reign or self.state == OFFERED or self.astray:
            return False
        if message.previous != self.received:
            self.astray = True
            return False
        self.received = message.last
        return True

    def advance(self, chunk: int) -> None:
        """Notes that all taken so far is written; journal chunk `chunk` must sync (0: none)."""
        pending = self._pending
        if chunk == 0:
            if not pending:
                self.safe_through, self.safe_copied = self.received, self.copied
                return
            chunk = pending[-1][0]
        pending.append((chunk, self.received, self.copied))

    def on_synced(self, chunk: int) -> None:
        """Takes note that the journal is on disk up to and including `chunk`."""
        pending = self._pending
        while pending and pending[0][0] <= chunk:
            _, self.safe_through, self.safe_copied = pending.popleft()

    def take_ack(self) -> ReplicaAck | None:
        """The acknowledgement to send, if there is anything new to say."""
        now = (self.safe_through, self.safe_copied)
        if now == self._told or self.state == OFFERED:
            return None
        self._told = now
        return ReplicaAck(self.fragment_id, self.reign, *now)
