"""Reads of this node's own journal that are under way, and who waits for each.

Inputs: what is wanted, what the driver has read. Outputs: `NodeOut.reads`. Invariant: each read is
answered at most once.
"""

from typing import Protocol

from fedq.core.ids import FragmentId
from fedq.journal.places import Place
from fedq.journal.segments import SegmentPlan
from fedq.node.outbox import NodeOut, ReadWanted


class ReadAnswer(Protocol):
    """What waits for a read hears one of these, once."""

    def on_read(self, data: bytes) -> None:
        """Takes the bytes that were asked for."""

    def on_read_failed(self, reason: str) -> None:
        """Takes note that there are none."""


class Reads:
    """Reads under way."""

    __slots__ = ("_out", "_waiting", "asked", "bytes_asked")

    def __init__(self, out: NodeOut) -> None:
        self._out = out
        #: How many there were.
        self.asked = 0
        self._waiting: dict[int, tuple[int, ReadAnswer]] = {}
        #: What is under way.
        self.bytes_asked = 0

    def ask(
        self, segment: int, offset: int, length: int, wanted: ReadAnswer, from_disk: bool = False
    ) -> int:
        """Asks for bytes of a segment; returns the number of the read.

        `from_disk`: what the host's memory has of it does not count.
        """
        self.asked += 1
        self._waiting[self.asked] = (length, wanted)
        self.bytes_asked += length
        self._out.reads.append(ReadWanted(self.asked, segment, offset, length, from_disk))
        return self.asked

    def answer(self, number: int, data: bytes) -> None:
        """Hands out what was read."""
        length, wanted = self._waiting.pop(number, (0, None))
        self.bytes_asked -= length
        if wanted is not None:
            wanted.on_read(data)

    def fail(self, number: int, reason: str) -> None:
        """Hands out why nothing was read."""
        length, wanted = self._waiting.pop(number, (0, None))
        self.bytes_asked -= length
        if wanted is not None:
            wanted.on_read_failed(reason)


def extended(plan: SegmentPlan, fragment: FragmentId, place: Place, last: int, most: int) -> Place:
    """The place with those that follow it there, up to a position, and up to so many bytes."""
    while place.last < last and place.length < most:
        after = plan.locate(fragment, place.last + 1)
        if after is None or after.segment != place.segment:
            break
        end = place.offset + place.length
        if after.offset < end or after.offset - end > most >> 1:
            break
        length = after.offset + after.length - place.offset
        place = place._replace(length=length, last=after.last)
    return place
