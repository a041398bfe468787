"""What a node knows of the readers of a stream: plain records for `fedq.node.streams`."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from fedq.core.ids import FragmentId, NodeId

if TYPE_CHECKING:
    from fedq.node.records.client_state import Consumer

#: The fragment of deliveries that settle nothing: those of streams. No fragment has this number.
NO_FRAGMENT: Final = FragmentId(0)

#: Hears at which position a reader begins; None: there is no such stream any more.
Then: TypeAlias = Callable[[int | None], None]


class Cursor:
    """Where a reader is in its stream."""

    __slots__ = ("next",)

    def __init__(self, position: int) -> None:
        #: The position of what it gets next, or before that.
        self.next = position


class Chunk:
    """Messages of a stream as its readers get them, for all that are at the same place."""

    __slots__ = ("messages", "positions")

    def __init__(self, positions: list[int], messages: list[bytes]) -> None:
        """There is one at least."""
        self.positions = positions
        self.messages = messages

    def part(self, amount: int) -> tuple[Sequence[int], list[bytes]]:
        """At most so many of the messages, and their positions."""
        positions: Sequence[int] = self.positions[:amount]
        if positions[-1] - positions[0] == len(positions) - 1:
            positions = range(positions[0], positions[-1] + 1)
        return positions, self.messages[:amount]


class StreamReaders:
    """The readers of a stream: on this node, and of other nodes if this one serves it."""

    __slots__ = ("asked", "chunks", "consumers", "reads", "seeks")

    def __init__(self) -> None:
        #: Those that are here; who was served last is the last.
        self.consumers: dict[Consumer, None] = {}
        #: What was read, and somebody here has not got yet, by where it begins.
        self.chunks: dict[int, Chunk] = {}
        #: From where on the node that serves it was asked for messages,
        self.asked: dict[int, None] = {}
        #: and where readers begin who said so: who hears it, by kind and number.
        self.seeks: dict[tuple[int, int], list[Then]] = {}
        #: What other nodes want to read: from where on, and how many messages.
        self.reads: dict[tuple[NodeId, int], int] = {}

    @property
    def is_idle(self) -> bool:
        """Whether nobody reads it."""
        return not (self.consumers or self.seeks or self.reads)

    def turn(self, consumer: "Consumer") -> None:
        """Notes that it is the others' turn now."""
        del self.consumers[consumer]
        self.consumers[consumer] = None
