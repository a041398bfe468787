"""What a node knows of the readers of a stream: plain records for `fedq.node.streams`."""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from fedq.core.ids import FragmentId, NodeId
from fedq.node.records.client_state import Consumer
from fedq.node.records.stream_pages import MESSAGE

#: The fragment of deliveries that settle nothing: those of streams. No fragment has this number.
NO_FRAGMENT: Final = FragmentId(0)

#: Hears at which position a reader begins; None: there is no such stream any more.
Then: TypeAlias = Callable[[int | None], None]


class Chunk:
    """Messages of a stream as its readers get them, for all that are at the same place."""

    __slots__ = ("messages", "positions", "size")

    def __init__(self, positions: list[int], messages: list[bytes]) -> None:
        """There is one at least."""
        self.positions = positions
        self.messages = messages
        self.size = sum(map(len, messages)) + MESSAGE * len(messages)

    def part(self, amount: int) -> tuple[Sequence[int], list[bytes]]:
        """At most so many of the messages, and their positions."""
        positions: Sequence[int] = self.positions[:amount]
        if positions[-1] - positions[0] == len(positions) - 1:
            positions = range(positions[0], positions[-1] + 1)
        return positions, self.messages[:amount]


class StreamReaders:
    """The readers of a stream: on this node, and of other nodes if this one serves it."""

    __slots__ = ("asked", "bytes_held", "chunks", "consumers", "reads", "seeks")

    def __init__(self) -> None:
        #: Those that are here; who was served last is the last.
        self.consumers: dict[Consumer, None] = {}
        #: What was read, and somebody here has not got yet, by where it begins.
        self.chunks: dict[int, Chunk] = {}
        #: What that takes.
        self.bytes_held = 0
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

    def places(self) -> dict[int, int]:
        """Where readers are, and how many at each place; elsewhere there are chunks no more."""
        places: dict[int, int] = {}
        for consumer in self.consumers:
            if (cursor := consumer.cursor) is not None:
                places[cursor.next] = places.get(cursor.next, 0) + 1
        for place in [place for place in self.chunks if place not in places]:
            self.drop(place)
        return places

    def put(self, place: int, chunk: Chunk) -> None:
        """Puts what was read there."""
        self.drop(place)
        self.chunks[place] = chunk
        self.bytes_held += chunk.size

    def drop(self, place: int) -> None:
        """Forgets what was read there, if anything was."""
        chunk = self.chunks.pop(place, None)
        if chunk is not None:
            self.bytes_held -= chunk.size

    def keep(self, most: int, least: int) -> None:
        """Forgets what was read first, as long as there is more than so much; not the last ones."""
        while self.bytes_held > most and len(self.chunks) > least:
            self.drop(next(iter(self.chunks)))

    def turn(self, consumer: Consumer) -> None:
        """Notes that it is the others' turn now."""
        del self.consumers[consumer]
        self.consumers[consumer] = None
