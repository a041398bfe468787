"""Which messages of a fragment are alive while the journal is folded without their bodies.

Inputs: messages that come, positions that a checkpoint calls alive, positions that are gone.
Outputs: what is alive, and of what the body was not met. Memory goes by ranges, not by messages.
"""

from fedq.core.ranges import Range
from fedq.journal.intervals import Intervals

#: What a range held before it was changed: which of it was alive, and of what there was no body.
Was = tuple[Range, list[Range], list[Range]]


class Bare:
    """The live messages of one fragment, without their bodies."""

    __slots__ = ("absent", "live", "somewhere")

    def __init__(self) -> None:
        self.live = Intervals()
        #: What is alive, as a checkpoint says, and was not met so far.
        self.absent = Intervals()
        #: What is in a segment of which only the index was read.
        self.somewhere = Intervals()

    def __contains__(self, position: object) -> bool:
        return position in self.live

    def hold(self, first: int, last: int) -> None:
        """Takes messages that were met."""
        self.live.add(first, last)
        self.absent.remove(first, last)

    def take_up(self, first: int, last: int) -> None:
        """Takes what a checkpoint calls alive."""
        begin = first
        for known_first, known_last in self.live.within(first, last):
            if begin < known_first:
                self.absent.add(begin, known_first - 1)
            begin = known_last + 1
        if begin <= last:
            self.absent.add(begin, last)
        self.live.add(first, last)

    def forget(self, first: int, last: int) -> None:
        """Forgets what is gone."""
        self.live.remove(first, last)
        self.absent.remove(first, last)

    def was(self, first: int, last: int) -> Was:
        """What the range holds, for `put_back`."""
        return (first, last), self.live.within(first, last), self.absent.within(first, last)

    def put_back(self, was: Was) -> None:
        """Undoes all that was changed within a range since."""
        (first, last), live, absent = was
        self.forget(first, last)
        for each in live:
            self.live.add(*each)
        for each in absent:
            self.absent.add(*each)
