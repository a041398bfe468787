"""What moves in a fragment in one go: messages that are handed out, and messages that leave."""

from collections.abc import Sequence
from itertools import chain

from fedq.core.ids import NodeId
from fedq.core.message import FLAG_PERSISTENT
from fedq.core.ranges import Range
from fedq.core.weights import weigh
from fedq.fragments.runs.fresh import Fresh
from fedq.fragments.runs.in_flight import InFlight
from fedq.fragments.runs.runs import Run


class Taken:
    """Messages handed to one taker, in their order; `redelivered` are those handed out before."""

    __slots__ = ("messages", "pieces", "redelivered")

    def __init__(self, pieces: list[range], messages: list[bytes], redelivered: list[int]) -> None:
        #: Their positions: those in a range follow each other.
        self.pieces = pieces
        self.messages = messages
        self.redelivered = redelivered

    @property
    def positions(self) -> list[int]:
        """The position of each message."""
        return list(chain.from_iterable(self.pieces))


class Going:
    """Messages that leave in one event."""

    __slots__ = ("persistent", "ranges", "size")

    def __init__(self) -> None:
        #: Where they were, in no order.
        self.ranges: list[Range] = []
        #: Their bytes.
        self.size = 0
        #: Whether one of them is persistent.
        self.persistent = False

    def add(self, messages: Sequence[bytes], ranges: list[Range]) -> None:
        """Adds messages that stood at the positions of these ranges."""
        size, flags = weigh(messages)
        self.size += size
        self.persistent = self.persistent or flags & FLAG_PERSISTENT != 0
        self.ranges += ranges

    def add_run(self, run: Run) -> None:
        """Adds a run of messages that were on disk alone."""
        self.ranges.append((run.first, run.last))
        self.size += run.stowed
        self.persistent = self.persistent or run.persistent

    def add_held(self, held: InFlight, taker: NodeId | None, ranges: Sequence[Range]) -> int:
        """Adds those that a taker (None: any) has on disk alone; returns how many there were."""
        before = held.stowed_count
        for first, last in ranges:
            gone, size, persistent = held.release_stowed(taker, first, last)
            self.ranges += gone
            self.size += size
            self.persistent = self.persistent or persistent
        return before - held.stowed_count

    def add_stowed(self, fresh: Fresh, ranges: Sequence[Range]) -> int:
        """Adds those that are on disk alone; returns how many there were."""
        before = fresh.stowed_count
        for first, last in ranges:
            gone, size, persistent = fresh.forget_stowed(first, last)
            self.ranges += gone
            self.size += size
            self.persistent = self.persistent or persistent
        return before - fresh.stowed_count
