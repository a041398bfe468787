"""What a node knows of the readers of a stream: plain records for `fedq.node.streams`."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from fedq.core.ids import FragmentId

if TYPE_CHECKING:
    from fedq.node.records.client_state import Consumer

#: The fragment of deliveries that settle nothing: those of streams. No fragment has this number.
NO_FRAGMENT: Final = FragmentId(0)


class Cursor:
    """Where a reader is in its stream."""

    __slots__ = ("next",)

    def __init__(self, position: int) -> None:
        #: The position of what it gets next, or before that.
        self.next = position


class Chunk:
    """Messages of a stream as its readers get them, at hand for several of them."""

    __slots__ = ("first", "messages", "next", "positions")

    def __init__(self, first: int, positions: list[int], messages: list[bytes]) -> None:
        #: All that there is from this position up to, and without, that one.
        self.first = first
        self.next = positions[-1] + 1 if positions else first
        self.positions = positions
        self.messages = messages

    def has(self, position: int) -> bool:
        """Whether a reader who is there goes on in it."""
        return self.first <= position < self.next

    def part(self, position: int, amount: int) -> tuple[Sequence[int], list[bytes]]:
        """At most so many of the messages, from a position on."""
        start = bisect_left(self.positions, position)
        stop = min(start + amount, len(self.positions))
        positions: Sequence[int] = self.positions[start:stop]
        if positions[-1] - positions[0] == len(positions) - 1:
            positions = range(positions[0], positions[-1] + 1)
        return positions, self.messages[start:stop]


class StreamReaders:
    """The readers of a stream on this node."""

    __slots__ = ("chunk", "consumers")

    def __init__(self) -> None:
        #: Those that are here; who was served last is the last.
        self.consumers: dict[Consumer, None] = {}
        #: What was read last.
        self.chunk: Chunk | None = None

    def turn(self, consumer: "Consumer") -> None:
        """Notes that it is the others' turn now."""
        del self.consumers[consumer]
        self.consumers[consumer] = None
