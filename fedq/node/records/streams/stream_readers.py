"""What a node knows of the readers of a stream: plain records for `fedq.node.streams`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from fedq.amqp.filtering import StreamFilter
from fedq.core.ids import FragmentId, NodeId
from fedq.core.limits import STREAM_FILTERS_MAX
from fedq.node.records.client_state import Cursor, Place
from fedq.node.records.named_readers import Group, Member
from fedq.node.records.streams.scans import Scan
from fedq.node.records.streams.stream_pages import MESSAGE

#: No fragment has this number, or a higher one: deliveries of streams do, as they settle nothing.
READ: Final = 1 << 60

#: Hears at which position a reader begins; None: there is no such stream any more.
Then: TypeAlias = Callable[[int | None], None]
#: As `Then`, for all fragments of a stream.
Begun: TypeAlias = Callable[[dict[FragmentId, int] | None], None]


def as_read(fragment: FragmentId) -> FragmentId:
    """What stands for a fragment of a stream in deliveries, and the other way round."""
    return FragmentId(fragment ^ READ)


class Starts:
    """Gathers where a reader begins in each fragment, and says so once it is known of all."""

    __slots__ = ("_gone", "_left", "_positions", "_then")

    def __init__(self, count: int, then: Begun) -> None:
        self._left = count
        self._then = then
        self._positions: dict[FragmentId, int] = {}
        self._gone = False

    def take(self, fragment: FragmentId, position: int | None) -> None:
        """Takes where it begins in one of them, once for each."""
        self._left -= 1
        if position is None:
            self._gone = True
        else:
            self._positions[fragment] = position
        if not self._left:
            self._then(None if self._gone else self._positions)


class Chunk:
    """Messages of a stream as its readers get them, for all that are at the same place."""

    __slots__ = ("messages", "next", "positions", "size", "work")

    def __init__(
        self, positions: list[int], messages: list[bytes], following: int, work: int
    ) -> None:
        """There may be none, if nothing up to `following` is what was asked for."""
        self.positions = positions
        self.messages = messages
        #: Where who got all of it goes on.
        self.next = following
        #: What it cost to find, and nobody has paid yet, in units of work.
        self.work = work
        self.size = sum(map(len, messages)) + MESSAGE * len(messages)

    def part(self, amount: int) -> tuple[Sequence[int], list[bytes]]:
        """At most so many of the messages, and their positions."""
        positions: Sequence[int] = self.positions[:amount]
        if positions and positions[-1] - positions[0] == len(positions) - 1:
            positions = range(positions[0], positions[-1] + 1)
        return positions, self.messages[:amount]


class Read:
    """A question of another node for messages."""

    __slots__ = ("amount", "at", "wanted")

    def __init__(self, position: int, amount: int, wanted: StreamFilter | None) -> None:
        #: Up to where nothing was found that is wanted.
        self.at = position
        self.amount = amount
        self.wanted = wanted


#: Who asked, from where on, and the number of the question: 0 without a filter.
ReadKey: TypeAlias = tuple[NodeId, int, int]


class StreamReaders:
    """Readers of a fragment of a stream: on this node, and of others if this one serves it."""

    __slots__ = (
        "again", "asked", "awaited", "bytes_held", "chunks", "cursors", "filters", "groups",
        "has_left", "left", "members", "moved", "reads", "scans", "seeks", "vacant", "yielding",
    )  # fmt: skip

    def __init__(self) -> None:
        #: Those that are here; who was served last is the last.
        self.cursors: dict[Cursor, None] = {}
        #: What was read, and somebody here has not got yet, by where it begins.
        self.chunks: dict[Place, Chunk] = {}
        #: What that takes.
        self.bytes_held = 0
        #: How many readers have which filter.
        self.filters: dict[StreamFilter, int] = {}
        #: A reader has left who may have asked for something.
        self.has_left = False
        #: From where on the node that serves it was asked for messages, by which question (0: one
        #: without a filter); those with one by their numbers;
        self.asked: dict[Place, int] = {}
        self.awaited: dict[int, Place] = {}
        #: where it had no room for a question, and when it is asked again;
        self.again: dict[Place, int] = {}
        #: and where readers begin who said so: who hears it, by kind and number.
        self.seeks: dict[tuple[int, int], list[Then]] = {}
        #: Those with a name that are here, also while they begin, by number; of these, who has
        #: moved since that was said, and who has left.
        self.members: dict[int, Member] = {}
        self.moved: dict[Member, None] = {}
        self.left: dict[Member, None] = {}
        #: Whose turn ends once they have acknowledged what they got.
        self.yielding: dict[Member, None] = {}
        #: If this node serves it: those with names, here and on other nodes, and of which names
        #: nobody is served, or perhaps not who is to be.
        self.groups: dict[str, Group] = {}
        self.vacant: dict[str, None] = {}
        #: What other nodes want to read; who was served last is the last.
        self.reads: dict[ReadKey, Read] = {}
        #: And what is read by way of the admin port; who was served last is the last.
        self.scans: dict[Scan, None] = {}

    @property
    def is_idle(self) -> bool:
        """Whether nobody reads it."""
        if self.cursors or self.seeks or self.reads or self.awaited or self.scans:
            return False
        return not (self.members or self.groups)

    def refuse_scans(self) -> None:
        """Ends all scans: this node does not serve the fragment, or it is gone."""
        scans, self.scans = self.scans, {}
        for scan in scans:
            scan.end_with(None)

    def has_room_for(self, wanted: StreamFilter | None) -> bool:
        """Whether a reader with that filter may begin."""
        return wanted is None or wanted in self.filters or len(self.filters) < STREAM_FILTERS_MAX

    def add(self, cursor: Cursor) -> None:
        """Adds a reader."""
        self.cursors[cursor] = None
        wanted = cursor.wanted
        if wanted is not None:
            self.filters[wanted] = self.filters.get(wanted, 0) + 1

    def remove(self, cursor: Cursor) -> None:
        """Removes a reader, if it is here."""
        if cursor not in self.cursors:
            return
        del self.cursors[cursor]
        if cursor.named is not None:
            self.left[cursor.named] = None
            self.has_left = True
        wanted = cursor.wanted
        if wanted is not None:
            self.has_left = True
            self.filters[wanted] -= 1
            if not self.filters[wanted]:
                del self.filters[wanted]

    def places(self) -> dict[Place, int]:
        """Where readers are, and how many at each place; elsewhere there are chunks no more."""
        places: dict[Place, int] = {}
        for cursor in self.cursors:
            if not cursor.waits:
                place = cursor.place
                places[place] = places.get(place, 0) + 1
        for place in [place for place in self.chunks if place not in places]:
            self.drop(place)
        return places

    def put(self, place: Place, chunk: Chunk) -> None:
        """Puts what was read there."""
        self.drop(place)
        self.chunks[place] = chunk
        self.bytes_held += chunk.size

    def drop(self, place: Place) -> None:
        """Forgets what was read there, if anything was."""
        chunk = self.chunks.pop(place, None)
        if chunk is not None:
            self.bytes_held -= chunk.size

    def take_back(self, places: Mapping[Place, int]) -> list[tuple[int, int]]:
        """Forgets questions that nobody is there for any more: their positions and numbers."""
        self.has_left = False
        void = [(place[0], number) for number, place in self.awaited.items() if place not in places]
        for _, number in void:
            del self.asked[self.awaited.pop(number)]
        return void

    def ask(self, place: Place, number: int) -> None:
        """Notes that it is asked for what is there."""
        self.asked[place] = number
        if number:
            self.awaited[number] = place

    def put_off(self, place: Place, until_ms: int) -> None:
        """Notes that it is not asked for what is there before that time."""
        self.again[place] = until_ms
        if len(self.again) > len(self.cursors):
            places = self.places()
            self.again = {each: ms for each, ms in self.again.items() if each in places}

    def answered(self, position: int, number: int) -> Place | None:
        """The place that an answer is about, which was asked for; None if it was not."""
        place = self.awaited.pop(number, None) if number else (position, None)
        if place is None or place[0] != position or self.asked.get(place) != number:
            return None
        del self.asked[place]
        return place

    def keep(self, most: int, least: int) -> None:
        """Forgets what was read first, as long as there is more than so much; not the last ones."""
        while self.bytes_held > most and len(self.chunks) > least:
            self.drop(next(iter(self.chunks)))

    def turn(self, cursor: Cursor) -> None:
        """Notes that it is the others' turn now."""
        del self.cursors[cursor]
        self.cursors[cursor] = None


#: The readers of a stream, by fragment; which of them gave something last is the last.
Parts: TypeAlias = dict[FragmentId, StreamReaders]
