"""When each message was sent: noted by its publisher, reported to the master.

In: what a block of the generator hands out. Out: for each sequence when it was due and when it was
sent, in nanoseconds of the wall clock, and which ones are *unsettled*: sent, and not confirmed when
their connection broke. Nobody is owed these.
"""

from array import array
from collections.abc import Callable, Sequence
from typing import Any

from fedq.bench.blocks import Block, Shape


class Sends:
    """The messages of one publisher."""

    __slots__ = ("due_ns", "sent_ns", "unsettled")

    def __init__(self) -> None:
        self.due_ns = array("q")
        self.sent_ns = array("q")
        #: Ranges (first, behind the last).
        self.unsettled: list[tuple[int, int]] = []

    def settled_in(self, first: int, stop: int) -> int:
        """How many sequences of a range somebody may be owed; one that was never sent is none."""
        stop = min(stop, len(self.sent_ns))
        count = max(stop - first, 0)
        for low, high in self.unsettled:
            count -= max(min(stop, high) - max(first, low), 0)
        return max(count, 0)

    def since(self, known: int) -> dict[str, Any]:
        """The report of what was sent after the first `known`."""
        return {
            "first": known,
            "due_ns": list(self.due_ns[known:]),
            "sent_ns": list(self.sent_ns[known:]),
            "unsettled": [list(each) for each in self.unsettled],
        }

    def take(self, plain: dict[str, Any]) -> None:
        """Takes a report of another one."""
        assert plain["first"] == len(self.sent_ns), "reports come whole and in order"
        self.due_ns.extend(plain["due_ns"])
        self.sent_ns.extend(plain["sent_ns"])
        self.unsettled = [(first, stop) for first, stop in plain["unsettled"]]


class NotedBlock(Block):
    """A block that notes when its messages are sent.

    A producer counts from 0 with each connection; here that is the first sequence not sent before.
    """

    __slots__ = ("_block", "_clock", "_sends", "base")

    def __init__(
        self, producer: int, shapes: Sequence[Shape], sends: Sends, clock: Callable[[], int]
    ) -> None:
        super().__init__(producer, shapes, is_persistent=False)
        #: Counts the sequences of all connections.
        self._block = Block(producer, shapes, is_persistent=False)
        self._sends = sends
        self._clock = clock
        self.base = len(sends.sent_ns)

    def take(self, sequence: int, count: int, time_ns: int) -> bytes:
        """Takes publishes, as `Block` does."""
        taken = self.room(sequence, count)
        assert self.base + sequence == len(self._sends.sent_ns), "each sequence is sent once"
        self._sends.due_ns.extend([time_ns] * taken)
        self._sends.sent_ns.extend([self._clock()] * taken)
        return self._block.take(self.base + sequence, taken, time_ns)

    def room(self, sequence: int, count: int) -> int:
        """How many messages `take` gives for these arguments."""
        return self._block.room(self.base + sequence, count)
