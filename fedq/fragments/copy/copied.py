"""Old messages of a backup's copy as they came, newest first: in the bytes of their chunks.

A copy that is made brings what is oldest last, and the disk of its node has it soon after. So what
a chunk brings stays one thing until its body leaves memory; only what has to be dealt with singly
is taken apart. Here are messages that are persistent, all of a chunk, and of which nothing else is
known; the others are kept singly from the beginning (`fedq.fragments.replica`).

Inputs: outlines of chunks, ranges that are gone. Outputs: messages, or where they stood once the
disk has them. Invariants: positions descend from batch to batch; the first and the last batch have
messages; a batch of which none is left may stand between.
"""

from bisect import bisect_left
from itertools import islice

from fedq.core.ranges import Range
from fedq.fragments.copy.batch import KEPT_MIN, Batch
from fedq.journal.payloads import Outline


class Copied:
    """The batches of a copy that is made, or was, newest first."""

    __slots__ = ("_batches", "_numbers", "arrived", "bytes_held", "count")

    def __init__(self) -> None:
        self._batches: list[Batch] = []
        #: Which one in the order of their coming each of them is.
        self._numbers: list[int] = []
        #: How many have come, ever.
        self.arrived = 0
        #: What the messages take, and how many there are.
        self.bytes_held = self.count = 0

    def __bool__(self) -> bool:
        return bool(self._batches)

    def takes(self, outline: Outline) -> Batch | None:
        """The messages as a batch, if they belong here: below all others, and plain ones."""
        if self._batches and outline.last_position >= self._batches[-1].first:
            return None
        batch = Batch(outline)
        return batch if batch.may_be_stowed() else None

    def add(self, batch: Batch) -> None:
        """Adds a batch that belongs here."""
        self._batches.append(batch)
        self.arrived += 1
        self._numbers.append(self.arrived)
        self.bytes_held += batch.size()
        self.count += batch.left

    def batches(self) -> list[Batch]:
        """The batches, ascending: a list of now, whose batches change. One that goes is empty."""
        return [batch for batch in reversed(self._batches) if batch.left]

    def ranges(self) -> list[Range]:
        """The positions of each batch, ascending."""
        return [(batch.first, batch.outline.last_position) for batch in self.batches()]

    @property
    def first(self) -> int | None:
        """The lowest position."""
        return self._batches[-1].first if self._batches else None

    def read(self) -> dict[int, bytes]:
        """Takes all messages out, by ascending position."""
        messages: dict[int, bytes] = {}
        # One after the other: each is here twice while it is taken apart.
        while self._batches:
            batch = self._batches.pop()
            messages |= batch.read()
            batch.gone += batch.left
        self._numbers = []
        self.bytes_held = self.count = 0
        return messages

    def forget(self, gone: Range) -> tuple[bool, dict[int, bytes]]:
        """Forgets the messages in the range.

        Whether some were concerned; and messages, of them and others, that are here no more because
        they have to be dealt with singly.
        """
        first, last = gone
        batches = self._batches
        read: dict[int, bytes] = {}
        concerned = False
        for index in range(bisect_left(batches, -last, key=_descending), len(batches)):
            batch = batches[index]
            if batch.outline.last_position < first:
                break
            if not batch.left:
                continue
            concerned = True
            if first > batch.first:
                self._take(batch, read)
            elif last >= batch.outline.last_position:
                self._drop(batch)
            else:
                self._cut(batch, last)
                count = len(batch.outline.lengths)
                if batch.left * KEPT_MIN < count:
                    self._take(batch, read)
        if concerned:
            self._trim()
        return concerned, read

    def stow(self, arrived: int, most: int) -> list[tuple[int, int, int]]:
        """Takes out the batches that had come when so many had: the disk has them.

        At most so many of them. Returns their first and last positions, and their bytes.
        """
        stowed: list[tuple[int, int, int]] = []
        for batch, number in islice(zip(self._batches, self._numbers, strict=True), most):
            if number > arrived:
                break
            if batch.left:
                stowed.append((batch.first, batch.outline.last_position, batch.size()))
                self._drop(batch)
        if self._batches:
            self._trim()
        return stowed

    def _cut(self, batch: Batch, last: int) -> None:
        """Drops what a batch begins with; only that is looked at."""
        stop = last + 1 - batch.outline.first_position
        self.bytes_held -= sum(batch.outline.lengths[batch.gone : stop])
        self.count -= stop - batch.gone
        batch.gone = stop

    def _take(self, batch: Batch, into: dict[int, bytes]) -> None:
        into |= batch.read()
        self._drop(batch)

    def _drop(self, batch: Batch) -> None:
        self.bytes_held -= batch.size()
        self.count -= batch.left
        batch.gone += batch.left

    def _trim(self) -> None:
        """Lets go of the batches at both ends of which nothing is left."""
        batches = self._batches
        while batches and not batches[-1].left:
            batches.pop()
            self._numbers.pop()
        empty = 0
        while empty < len(batches) and not batches[empty].left:
            empty += 1
        if empty:
            del batches[:empty]
            del self._numbers[:empty]


def _descending(batch: Batch) -> int:
    return -batch.first
