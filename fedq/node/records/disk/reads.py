"""Reads of this node's own journal that are under way, and who waits for each.

Inputs: what is wanted, what the driver has read. Outputs: `NodeOut.reads`. Invariant: each read is
answered at most once.
"""

from typing import Protocol

from fedq.core.ids import FragmentId
from fedq.journal.bodies import messages_in
from fedq.journal.places import Place
from fedq.journal.rot import mark_of
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

    __slots__ = ("_out", "_waiting", "asked", "bytes_asked", "bytes_kept")

    def __init__(self, out: NodeOut) -> None:
        self._out = out
        #: How many there were.
        self.asked = 0
        self._waiting: dict[int, tuple[int, ReadAnswer]] = {}
        #: What is under way; and what is kept of places that are read in pieces.
        self.bytes_asked = self.bytes_kept = 0

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


def messages_of(
    plan: SegmentPlan, fragment: FragmentId, place: Place, data: bytes, first: int
) -> tuple[dict[int, bytes], list[str]]:
    """The messages from a position on of what was read of a place, as `messages_in` tells them.

    Where something cannot be read, marks alone say where the next record begins. So does the index:
    of a place that was extended each part is taken apart by itself.
    """
    mark = mark_of(plan, fragment, place.segment)
    found, reasons = messages_in(data, fragment, first, place.last, mark)
    position = place.first
    while reasons and position <= place.last:
        part = plan.locate(fragment, position)
        if part is None or part.segment != place.segment or part.length >= place.length:
            break
        at = part.offset - place.offset
        if at < 0 or at + part.length > place.length:
            break
        more, _ = messages_in(data[at : at + part.length], fragment, first, part.last, mark)
        found |= more
        position = part.last + 1
    return dict(sorted(found.items())) if reasons else found, reasons
