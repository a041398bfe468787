"""Live messages of a backup's copy as they came: in the bytes of their records, not taken apart.

A backup needs a message only when it becomes the primary; most are gone by then. So what a live
record brings stays one thing, and settlements, which mostly take the oldest messages first, drop
it whole or cut off its beginning.

Inputs: outlines of records, ranges that are gone. Outputs: messages, when they are wanted after
all. Invariants: positions ascend from batch to batch, each batch has at least one message;
`bytes_held` is what the messages here take. (The memory they hold may be `KEPT_MIN` times as much:
a batch of which less is left is read.)
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from fedq.core.message import FLAG_PERSISTENT
from fedq.core.ranges import Range, to_ranges
from fedq.fragments.beginnings import SINGLE
from fedq.journal.decoding import Outline
from fedq.journal.events import Enqueue, Group, Note, Publishers, Single
from fedq.journal.records import NOTE_CAME

#: A batch of which less than one part in so many is left is read, so that its bytes can go.
KEPT_MIN: Final = 8


class Batch:
    """The messages of one record, but for the `gone` first ones."""

    __slots__ = ("gone", "outline", "persistent")

    def __init__(self, outline: Outline) -> None:
        self.outline = outline
        self.gone = 0
        self.persistent = _holds_persistent(outline)

    @property
    def first(self) -> int:
        """The position of the first message that is left."""
        return self.outline.first_position + self.gone

    @property
    def left(self) -> int:
        """How many messages are left."""
        return len(self.outline.lengths) - self.gone

    def persistent_ranges(self) -> list[Range]:
        """The positions of the persistent messages that are left, as ranges."""
        if not self.persistent:
            return []
        flags = self.outline.flags()
        return to_ranges(
            self.outline.first_position + index
            for index in range(self.gone, len(flags))
            if flags[index] & FLAG_PERSISTENT
        )

    def may_be_stowed(self) -> bool:
        """Whether all of its messages are persistent, and none has a time or a past."""
        if not self.persistent:
            return False
        wanted = SINGLE | FLAG_PERSISTENT
        return all(
            flags & wanted == FLAG_PERSISTENT for flags in dict.fromkeys(self.outline.flags())
        )

    def has_no_past(self) -> bool:
        """Whether none of its messages has a time or a past."""
        return not any(flags & SINGLE for flags in dict.fromkeys(self.outline.flags()))

    def size(self) -> int:
        """The bytes of the messages that are left."""
        return sum(self.outline.lengths[self.gone :])

    def read(self) -> dict[int, bytes]:
        """The messages that are left, by position."""
        outline = self.outline
        positions = range(self.first, outline.last_position + 1)
        return dict(zip(positions, outline.messages(self.gone), strict=True))


class Unread:
    """The unread messages of one backup's copy."""

    __slots__ = ("_batches", "_kept", "_stays", "bytes_held", "count")

    def __init__(self) -> None:
        self._batches: deque[Batch] = deque()
        #: How many of the first ones were looked at, and stay: of those that the disk has, and of
        #: those that are to be written.
        self._stays = self._kept = 0
        #: What the messages take, and how many there are.
        self.bytes_held = self.count = 0

    def __bool__(self) -> bool:
        return bool(self._batches)

    def add(self, outline: Outline) -> bool:
        """Adds messages beyond all that are here; whether persistent ones are among them."""
        batch = Batch(outline)
        self._batches.append(batch)
        self.bytes_held += batch.size()
        self.count += len(outline.lengths)
        return batch.persistent

    def batches(self) -> list[Batch]:
        """The batches, ascending: a list of now, whose batches change. One that goes is empty."""
        return list(self._batches)

    def ranges(self) -> Iterator[Range]:
        """The positions of each batch, ascending."""
        return ((batch.first, batch.outline.last_position) for batch in self._batches)

    def read(self) -> dict[int, bytes]:
        """Takes all messages out, by ascending position."""
        messages: dict[int, bytes] = {}
        # One after the other: each is here twice while it is taken apart.
        while self._batches:
            batch = self._batches.popleft()
            messages |= batch.read()
            batch.gone += batch.left
        self.bytes_held = self.count = self._stays = self._kept = 0
        return messages

    def forget(self, gone: Range) -> tuple[bool, dict[int, bytes]]:
        """Forgets the messages in the range.

        Whether records with persistent messages were concerned; and messages that are here no more
        because they have to be dealt with singly: all that are below the range, maybe some in it.
        """
        first, last = gone
        batches = self._batches
        persistent = False
        read: dict[int, bytes] = {}
        while batches and batches[0].first <= last:
            batch = batches[0]
            if first > batch.first:
                self._read_first(read)
                continue
            persistent = persistent or batch.persistent
            if last >= batch.outline.last_position:
                self.bytes_held -= batch.size()
                self.count -= batch.left
                self._pop_first().gone += batch.left
                continue
            lengths = batch.outline.lengths
            # Only what goes is looked at: settlements may take a long batch in many small steps.
            stop = last + 1 - batch.outline.first_position
            self.bytes_held -= sum(lengths[batch.gone : stop])
            self.count -= stop - batch.gone
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
            self.bytes_held -= size
            self.count -= batch.left
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
            self.bytes_held -= size
            self.count -= left
            batch.gone += left
        batches.extendleft(reversed(kept))
        batches.rotate(self._kept)
        return gone

    def oldest_persistent(self) -> int | None:
        """The lowest position of a persistent message."""
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
        self.bytes_held -= batch.size()
        self.count -= batch.left
        into |= batch.read()
        batch.gone += batch.left


def _holds_persistent(outline: Outline) -> bool:
    if outline.data[outline.at] & FLAG_PERSISTENT:
        return True
    return any(flags & FLAG_PERSISTENT for flags in dict.fromkeys(outline.flags()))


def singles_of(record: Single | Group | Outline) -> Sequence[Single | Outline]:
    """What a record is made of; new messages stay as they came.

    But for those of which more is said than when they came, and who published them.
    """
    if not isinstance(record, Group):
        return (record,)
    records = record.records
    came = records[0] if 2 <= len(records) <= 3 else None
    if not isinstance(came, Enqueue) or not came.messages:
        return records
    return (_outline_of(came), *records[1:]) if all(map(_leaves_unread, records[1:])) else records


def _leaves_unread(record: Single) -> bool:
    """Whether what is said of new messages is kept apart from them."""
    return isinstance(record, Publishers) or (isinstance(record, Note) and record.what == NOTE_CAME)


def _outline_of(record: Enqueue) -> Outline:
    return Outline(
        record.first_position, record.origin, record.first_number, record.resent,
        b"".join(record.messages), 0, tuple(map(len, record.messages)),
    )  # fmt: skip
