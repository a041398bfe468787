"""Scans of streams: ranges of positions that somebody outside reads (docs/adr/0076).

Plain records for `fedq.node.streams.scanning`. Invariant: each scan is answered at most once.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from fedq.core.ids import FragmentId
from fedq.core.ranges import Range, to_ranges
from fedq.node.records.stream_pages import MESSAGE


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


#: Hears what was gathered, once; None: this node does not serve the fragment.
Answer: TypeAlias = Callable[[Scanned | None], None]


class Scan:
    """A range of positions that somebody reads, as far as it was gathered."""

    __slots__ = (
        "answer", "at", "end", "fragment", "is_answered", "left", "messages", "ranges", "size",
    )  # fmt: skip

    def __init__(
        self, fragment: FragmentId, begin: int, end: int, size: int, answer: Answer
    ) -> None:
        """From `begin` up to before `end`, and about so many bytes, but for one message."""
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

    @property
    def is_full(self) -> bool:
        """Whether all was gathered that was asked for."""
        return self.left <= 0 or self.at >= self.end

    def end_with(self, found: Scanned | None) -> None:
        """Answers, if that was not done."""
        if not self.is_answered:
            self.is_answered = True
            self.answer(found)

    def add(self, positions: list[int], messages: list[bytes], following: int) -> None:
        """Adds messages at ascending positions that follow; `following`: where to go on.

        Each counts with what it costs to hold.
        """
        ranges = self.ranges
        if positions:
            first, last = positions[0], positions[-1]
            found = [(first, last)] if last - first == len(positions) - 1 else to_ranges(positions)
            if ranges and ranges[-1][1] + 1 == first:
                found[0] = (ranges.pop()[0], found[0][1])
            ranges += found
        self.messages += messages
        size = sum(map(len, messages)) + MESSAGE * len(messages)
        self.size += size
        self.left -= size
        self.at = following
