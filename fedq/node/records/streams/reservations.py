"""What readers of queues ask of the node that serves a fragment (docs/adr/0107).

Plain records for `fedq.node.streams.queue_reading`. Invariant: each is answered once.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from fedq.core.ids import FragmentId
from fedq.core.ranges import Range

#: What is asked for: the next batch, that all up to a batch leaves the queue, or goes back to it.
RESERVE: Final = 1
SETTLE: Final = 2
RELEASE: Final = 3

#: What became of it: it is done, and all copies have it;
DONE: Final = 0
#: this node does not serve the fragment (any more);
ELSEWHERE: Final = 1
#: it may be asked again soon: something has to be read, or heard, or another call ended first;
NOT_YET: Final = 2
#: another driver has the name;
TAKEN: Final = 3
#: there are too many names, or too much is reserved;
NAMES_FULL: Final = 4
RESERVED_FULL: Final = 5
#: other nodes do not know it; the queue has a single active consumer, or an exclusive one;
TOO_OLD: Final = 6
ONE_CONSUMER: Final = 7
#: the batch is settled or released.
OVER: Final = 8


class Reserved(NamedTuple):
    """The answer to a call."""

    verdict: int
    #: Of the next batch: its number, or that of the last one if there is nothing more.
    through: int = 0
    #: How many messages it has, or how many were settled or released.
    messages: int = 0


class ReaderCall:
    """A call of a reader, or about one."""

    __slots__ = ("answer", "begins", "fragment", "instance", "kind", "most", "name", "through")

    def __init__(
        self, kind: int, fragment: FragmentId, name: str, through: int,
        answer: Callable[[Reserved], None], *, instance: str = "", begins: bool = False,
        most: int = 0,
    ) -> None:  # fmt: skip
        """`through`: up to which batch its reader has committed; or the last one to go back.

        `instance`, `begins`: which driver asks, and whether it asks here for the first time;
        `most`: messages of the next batch.
        """
        self.kind = kind
        self.fragment = fragment
        self.name = name
        self.through = through
        self.answer = answer
        self.instance = instance
        self.begins = begins
        self.most = most


class ReservedPart(NamedTuple):
    """A part of what is reserved."""

    verdict: int
    #: The positions of the messages, in ascending ranges.
    ranges: list[Range]
    messages: list[bytes]
    #: The position of the next one; 0: that is all.
    next: int


#: Hears what is reserved, once.
PartAnswer: TypeAlias = Callable[[ReservedPart], None]


class ReservedRead:
    """What is reserved for a reader: of batches after one, up to another, from a position on."""

    __slots__ = ("after", "answer", "begin", "fragment", "name", "size", "through")

    def __init__(
        self, fragment: FragmentId, name: str, after: int, through: int, begin: int, size: int,
        answer: PartAnswer,
    ) -> None:  # fmt: skip
        """`size`: about how many bytes, but for one message."""
        self.fragment = fragment
        self.name = name
        self.after = after
        self.through = through
        self.begin = begin
        self.size = size
        self.answer = answer
