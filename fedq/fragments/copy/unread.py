"""Live messages of a backup's copy as they came: in the bytes of their records, not taken apart.

A backup needs a message only when it becomes the primary; most are gone by then. So what a live
record brings stays one thing, and settlements, which mostly take the oldest messages first, drop
it whole or cut off its beginning.

Inputs: outlines of records, ranges that are gone. Outputs: messages, when they are wanted after
all. Invariants: positions ascend from batch to batch, each batch has at least one message;
`bytes_held` is what the messages here take. (The memory they hold may be `KEPT_MIN` times as much:
a batch of which less is left is read.) What copies of old messages bring stands apart, before all
of these: `fedq.fragments.copy.copied`.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from fedq.core.message import FLAG_PERSISTENT
from fedq.core.ranges import Range
from fedq.fragments.copy.batch import KEPT_MIN, Batch
from fedq.fragments.copy.copied import Copied
from fedq.journal.events import Copy, Enqueue, Group, Note, Single
from fedq.journal.payloads import Outline
from fedq.journal.records import NOTE_CAME


class Unread:
    """The unread messages of one backup's copy."""

    __slots__ = ("_batches", "_bytes", "_count", "_kept", "_stays", "copied")

    def __init__(self) -> None:
        self._batches: deque[Batch] = deque()
        #: How many of the first ones were looked at, and stay: of those that the disk has, and of
        #: those that are to be written.
        self._stays = self._kept = 0
        #: What these messages take, and how many there are.
        self._bytes = self._count = 0
        #: Old ones that a copy has brought, below all of these.
        self.copied = Copied()

    def __bool__(self) -> bool:
        return bool(self._batches) or bool(self.copied)

    @property
    def bytes_held(self) -> int:
        """What the messages take."""
        return self._bytes + self.copied.bytes_held

    @property
    def count(self) -> int:
        """How many messages there are."""
        return self._count + self.copied.count

    def add(self, outline: Outline) -> bool:
        """Adds messages beyond all that are here; whether persistent ones are among them."""
        batch = Batch(outline)
        self._batches.append(batch)
        self._bytes += batch.size()
        self._count += len(outline.lengths)
        return batch.persistent

    def add_copied(self, outline: Outline) -> bool:
        """Adds old messages, if they are below all that are here and plain; whether it did.

        Plain ones are persistent, and have neither a time nor a past.
        """
        if self._batches and outline.last_position >= self._batches[0].first:
            return False
        batch = self.copied.takes(outline)
        if batch is None:
            return False
        self.copied.add(batch)
        return True

    def is_above(self, position: int) -> bool:
        """Whether all that is here stands beyond a position."""
        lowest = self.copied.first
        if lowest is None and self._batches:
            lowest = self._batches[0].first
        return lowest is None or lowest > position

    def batches(self) -> list[Batch]:
        """The batches, ascending: a list of now, whose batches change. One that goes is empty."""
        return [*self.copied.batches(), *self._batches]

    def ranges(self) -> Iterator[Range]:
        """The positions of each batch, ascending."""
        live = ((batch.first, batch.outline.last_position) for batch in self._batches)
        return chain(self.copied.ranges(), live)

    def read(self) -> dict[int, bytes]:
        """Takes all messages out, by ascending position."""
        messages = self.copied.read()
        # One after the other: each is here twice while it is taken apart.
        while self._batches:
            batch = self._batches.popleft()
            messages |= batch.read()
            batch.gone += batch.left
        self._bytes = self._count = self._stays = self._kept = 0
        return messages

    def forget(self, gone: Range) -> tuple[bool, dict[int, bytes]]:
        """Forgets the messages in the range.

        Whether records with persistent messages were concerned; and messages that are here no more
        because they have to be dealt with singly: all that are below the range, maybe some in it.
        """
        first, last = gone
        batches = self._batches
        persistent, read = False, dict[int, bytes]()
        if self.copied:
            persistent, read = self.copied.forget(gone)
        while batches and batches[0].first <= last:
            batch = batches[0]
            if first > batch.first:
                self._read_first(read)
                continue
            persistent = persistent or batch.persistent
            if last >= batch.outline.last_position:
                self._bytes -= batch.size()
                self._count -= batch.left
                self._pop_first().gone += batch.left
                continue
            lengths = batch.outline.lengths
            # Only what goes is looked at: settlements may take a long batch in many small steps.
            stop = last + 1 - batch.outline.first_position
            self._bytes -= sum(lengths[batch.gone : stop])
            self._count -= stop - batch.gone
            batch.gone = stop
            count = len(lengths)
            if (count - batch.gone) * KEPT_MIN < count:
                self._read_first(read)
            break
        return persistent, read

    def stow(self, through: int, most: int) -> tuple[list[tuple[int, int, int]], dict[int, bytes]]:
        """Takes out batches up to a position that are persistent throughout: the disk has them.

        Of at most so many batches; the others stay, and are not looked at again, but for those that
        are persistent in part: their messages are to leave memory one by one. Returns the first and
        last positions of batches, and their bytes; and messages of those in part.
        """
        stowed: list[tuple[int, int, int]] = []
        mixed: dict[int, bytes] = {}
        batches = self._batches
        batches.rotate(-self._stays)
        for _ in range(min(most, len(batches) - self._stays)):
            batch = batches[0]
            if batch.outline.last_position > through:
                break
            may_go = batch.may_be_stowed()
            if not may_go and not (batch.persistent and batch.has_no_past()):
                batches.rotate(-1)
                self._stays += 1
                continue
            batches.popleft()
            self._kept -= self._stays < self._kept
            size = batch.size()
            if may_go:
                stowed.append((batch.first, batch.outline.last_position, size))
            else:
                mixed |= batch.read()
            self._bytes -= size
            self._count -= batch.left
            batch.gone += batch.left
        batches.rotate(self._stays)
        return stowed, mixed

    def transient(self, size: int, most: int, durable: bool) -> dict[int, bytes]:
        """The messages of the next batches of which the journal has nothing.

        About so many bytes, of batches that follow on each other here, so that `let_go` finds all
        of them; about `most` batches are looked at. `durable`: the journal has persistent ones.
        """
        found: dict[int, bytes] = {}
        for batch in islice(self._batches, self._kept, self._kept + most):
            if (durable and batch.persistent) or not batch.has_no_past():
                if found:
                    break
                self._kept += 1
                continue
            found |= batch.read()
            size -= batch.size()
            if size <= 0:
                break
        return found

    def let_go(self, positions: Sequence[int]) -> list[tuple[int, int, int]]:
        """Takes out the batches of which all that is left is at these positions (ascending).

        Of those that `transient` gave. Returns their first and last positions, and their bytes.
        """
        gone: list[tuple[int, int, int]] = []
        kept: deque[Batch] = deque()
        batches = self._batches
        batches.rotate(-self._kept)
        for _ in range(len(batches) - self._kept):
            if batches[0].first > positions[-1]:
                break
            batch = batches.popleft()
            first, last, left = batch.first, batch.outline.last_position, batch.left
            at = bisect_left(positions, first)
            part = positions[at : at + left]
            if len(part) < left or (part[0], part[-1]) != (first, last):
                kept.append(batch)
                continue
            self._stays -= self._kept + len(kept) < self._stays
            size = batch.size()
            gone.append((first, last, size))
            self._bytes -= size
            self._count -= left
            batch.gone += left
        batches.extendleft(reversed(kept))
        batches.rotate(self._kept)
        return gone

    def oldest_persistent(self) -> int | None:
        """The lowest position of a persistent message."""
        if self.copied:
            return self.copied.first
        for batch in self._batches:
            if batch.persistent:
                flags = batch.outline.flags()
                for index in range(batch.gone, len(flags)):
                    if flags[index] & FLAG_PERSISTENT:
                        return batch.outline.first_position + index
        return None

    def _pop_first(self) -> Batch:
        self._stays, self._kept = max(self._stays - 1, 0), max(self._kept - 1, 0)
        return self._batches.popleft()

    def _read_first(self, into: dict[int, bytes]) -> None:
        batch = self._pop_first()
        self._bytes -= batch.size()
        self._count -= batch.left
        into |= batch.read()
        batch.gone += batch.left


def singles_of(record: Single | Group | Outline) -> Sequence[Single | Outline]:
    """What a record is made of; messages with nothing but their time stay as they came."""
    if not isinstance(record, Group):
        return (record,)
    if any(isinstance(each, Note) and each.what != NOTE_CAME for each in record.records):
        return record.records
    return [_outline_of(each) for each in record.records]


def _outline_of(record: Single) -> Single | Outline:
    """The record as an outline, if it can be one."""
    if isinstance(record, Enqueue) and record.messages:
        return Outline(
            record.first_position, record.origin, record.first_number, record.resent,
            b"".join(record.messages), 0, tuple(map(len, record.messages)),
        )  # fmt: skip
    if isinstance(record, Copy) and record.positions and not record.origins:
        first, positions = record.positions[0], record.positions
        if positions == list(range(first, first + len(positions))):
            lengths = tuple(map(len, record.messages))
            return Outline(first, None, 0, False, b"".join(record.messages), 0, lengths)
    return record
