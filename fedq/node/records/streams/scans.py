"""Scans of streams: ranges of positions that somebody outside reads (docs/adr/0076).

Plain records for `fedq.node.streams.scanning`. Invariant: each scan is answered at most once.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from fedq.amqp.route_filtering import RouteFilter, RouteSieve
from fedq.core.ids import FragmentId
from fedq.core.ranges import Range, to_ranges
from fedq.node.records.streams.stream_pages import MESSAGE

#: Messages that a filter looks at before its scan is answered, whatever it has found: so the tool
#: hears how far it is, and others have their turn.
LOOKED_MAX: Final = 65_536


class Scanned(NamedTuple):
    """What a scan has gathered."""

    #: The positions of the messages, in ascending ranges.
    ranges: list[Range]
    messages: list[bytes]
    #: From which position on messages came at which time at the latest, in Unix milliseconds.
    times: list[tuple[int, int]]
    #: The position before which messages were, or may have been, removed; and where to go on.
    first: int
    next: int
    #: What a filter has looked at, in ascending ranges; empty without one.
    looked: list[Range]


#: Hears what was gathered, once; None: this node does not serve the fragment.
Answer: TypeAlias = Callable[[Scanned | None], None]


class Scan:
    """A range of positions that somebody reads, as far as it was gathered."""

    __slots__ = (
        "answer", "at", "end", "fragment", "is_answered", "left", "looked", "looked_left",
        "messages", "ranges", "sieve", "size",
    )  # fmt: skip

    def __init__(
        self, fragment: FragmentId, begin: int, end: int, size: int, answer: Answer,
        wanted: RouteFilter | None = None,
    ) -> None:  # fmt: skip
        """From `begin` up to before `end`, and about so many bytes, but for one message.

        `wanted`: of which routes messages are wanted; None: all are.
        """
        self.fragment = fragment
        self.at = begin
        self.end = end
        #: Bytes that are still wanted; those that were gathered.
        self.left = size
        self.size = 0
        self.answer = answer
        self.is_answered = False
        self.ranges: list[Range] = []
        self.messages: list[bytes] = []
        self.sieve = None if wanted is None else RouteSieve(wanted)
        #: What the filter has looked at, and how many messages it may look at still.
        self.looked: list[Range] = []
        self.looked_left = LOOKED_MAX

    @property
    def is_full(self) -> bool:
        """Whether all was gathered that was asked for, or a filter has looked at enough."""
        return self.left <= 0 or self.at >= self.end or self.looked_left <= 0

    def end_with(self, found: Scanned | None) -> None:
        """Answers, if that was not done."""
        if not self.is_answered:
            self.is_answered = True
            self.answer(found)

    def add(self, positions: list[int], messages: list[bytes], following: int) -> None:
        """Adds messages at ascending positions that follow; `following`: where to go on.

        Each counts with what it costs to hold.
        """
        if positions:
            first, last = positions[0], positions[-1]
            found = [(first, last)] if last - first == len(positions) - 1 else to_ranges(positions)
            _append(self.ranges, found)
        self.messages += messages
        size = sum(map(len, messages)) + MESSAGE * len(messages)
        self.size += size
        self.left -= size
        self.at = following

    def look(self, looked: list[Range]) -> None:
        """Notes what a filter has looked at; it follows on what it had."""
        _append(self.looked, looked)
        for first, last in looked:
            self.looked_left -= last - first + 1


def _append(ranges: list[Range], more: list[Range]) -> None:
    """Appends ranges that follow; the first of them may go on where the last one ends."""
    if ranges and more and ranges[-1][1] + 1 == more[0][0]:
        ranges[-1] = (ranges[-1][0], more[0][1])
        more = more[1:]
    ranges += more
