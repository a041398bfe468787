"""The line of a queue whose length is limited in bytes: how many bytes its bodies have, everywhere.

Inputs: as for `fedq.fragments.runs.fresh`, whose line this is. Outputs: the same, and the bytes of
the bodies of all messages in it. Of one that leaves memory its size stays, in four bytes. What an
earlier reign has left on disk alone has none until it is read: then it counts by what it takes
there, less what its head and its record take at most, so rather as less than it is.
"""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice
from typing import Final

from fedq.core.message import body_size
from fedq.fragments.runs.fresh import Fresh
from fedq.fragments.runs.run_parts import Filled
from fedq.fragments.runs.runs import RUN_MAX, SWEEP_FROM, Run

#: Sizes in one piece of a table, at most.
_PIECE: Final = 4_096
#: What one takes.
_SIZE: Final = 4
#: What a record adds to a message.
RECORD: Final = 64
#: Messages whose heads are looked at.
HEADS: Final = 16


class Sizes:
    """A table of sizes by position, in pieces without gaps."""

    __slots__ = ("_firsts", "_pieces", "count")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._pieces: list[array[int]] = []
        #: How many sizes there are.
        self.count = 0

    def add(self, first: int, sizes: Sequence[int]) -> None:
        """Adds sizes of messages from a position on; none of them is here."""
        self.count += len(sizes)
        at = bisect_right(self._firsts, first) - 1
        if at >= 0:
            piece = self._pieces[at]
            if self._firsts[at] + len(piece) == first and len(piece) + len(sizes) <= _PIECE:
                piece.extend(sizes)
                return
        self._firsts.insert(at + 1, first)
        self._pieces.insert(at + 1, array("I", sizes))

    def enough(self, first: int, most: int, size: int) -> int:
        """How many from a position on have so many bytes together, as far as they are known.

        At most so many; all of these, where they have less.
        """
        count = 0
        at = bisect_right(self._firsts, first) - 1
        while 0 <= at < len(self._firsts) and size > 0 and count < most:
            start = first + count - self._firsts[at]
            piece = self._pieces[at]
            if not 0 <= start < len(piece):
                break
            for each in islice(piece, start, start + most - count):
                count += 1
                size -= each
                if size <= 0:
                    break
            at += 1
        return count

    def take(self, first: int, last: int) -> tuple[int, int]:
        """Forgets the sizes between two positions; returns how many there were, and their sum."""
        count = total = 0
        at = max(bisect_right(self._firsts, first) - 1, 0)
        while at < len(self._firsts) and self._firsts[at] <= last:
            begin, piece = self._firsts[at], self._pieces[at]
            low, high = max(first - begin, 0), min(last - begin + 1, len(piece))
            if low >= high:
                at += 1
                continue
            count += high - low
            total += sum(piece[low:high])
            rest = piece[high:]
            del piece[low:]
            if rest:
                self._firsts.insert(at + 1, begin + high)
                self._pieces.insert(at + 1, rest)
            if piece:
                at += 1
            else:
                del self._firsts[at], self._pieces[at]
        self.count -= count
        return count, total


class SizedFresh(Fresh):
    """Messages that were never handed out, and the bytes of their bodies."""

    __slots__ = ("_head_bytes", "_known", "_sizes", "_unknown_bytes", "_unknown_count")

    def __init__(self, run_max: int = RUN_MAX, sweep_from: int = SWEEP_FROM) -> None:
        super().__init__(run_max, sweep_from)
        #: The bytes of bodies whose size is known, wherever they are.
        self._known = 0
        #: Of those that are on disk alone.
        self._sizes = Sizes()
        #: Those whose size is not: how many, and about what they take on the disk.
        self._unknown_count = self._unknown_bytes = 0
        #: The longest head that was seen; 0: none was.
        self._head_bytes = 0

    @classmethod
    def of_line(cls, line: Fresh) -> "SizedFresh":
        """The line that holds what another one holds, which is used no more.

        Of what that has on disk alone no size is known.
        """
        sized = cls(line._run_max, line._sweep_from)
        sized._runs, sized._head, sized.count = line._runs, line._head, line.count
        sized.stowed_count, sized.stowed_bytes = line.stowed_count, line.stowed_bytes
        sized.first_stowed, sized._at_hand = line.first_stowed, line._at_hand
        sized.returns, sized._back_from = line.returns, line._back_from
        sized._unknown_count, sized._unknown_bytes = line.stowed_count, line.stowed_bytes
        for index in range(line._head, len(line._runs)):
            for message in line._runs[index].messages:
                if message is not None:
                    sized._known += body_size(message)
        return sized

    @property
    def body_bytes(self) -> int:
        """The bytes of all bodies; of those of unknown size rather less than they have."""
        if not self._unknown_count:
            return self._known
        if not self._head_bytes and not self._runs[self._head].stowed:
            self._note_heads([message for _, message in self._runs[self._head].pairs()])
        if not self._head_bytes:
            return self._known
        heads = self._unknown_count * (self._head_bytes + RECORD)
        return self._known + max(0, self._unknown_bytes - heads)

    @property
    def index_bytes(self) -> int:
        """What the sizes take."""
        return self._sizes.count * _SIZE

    def enough(self, most: int, size: int, before: int | None) -> int:
        """How many of the next ones in memory have so many bytes of bodies; at least 1.

        At most so many, of one run, at positions `before` the given one.
        """
        run = self._runs[self._head]
        if before is not None:
            most = min(most, before - run.first)
        count = 0
        for message in islice(run.messages, most):
            assert message is not None
            count += 1
            size -= body_size(message)
            if size <= 0:
                break
        return count

    def enough_unread(self, most: int, size: int) -> int:
        """How many of the next ones, on disk alone, have so many bytes; as far as is known."""
        run = self._runs[self._head]
        return self._sizes.enough(run.first, min(most, run.left), size) if run.stowed else 0

    # --- they come and go ------------------------------------------------------------------------

    def add(self, first: int, messages: Sequence[bytes], persistent: bool) -> None:
        """Adds new messages behind all others, at positions from `first` on."""
        self._known += sum(map(body_size, messages))
        super().add(first, messages, persistent)

    def add_stowed(self, first: int, last: int, size: int, persistent: bool = True) -> None:
        """Adds messages behind all others that are on disk alone, and take so many bytes."""
        self._unknown_count += last - first + 1
        self._unknown_bytes += size
        super().add_stowed(first, last, size, persistent)

    def pop(self, amount: int, before: int | None = None) -> tuple[int, list[bytes], bool]:
        """Takes the next ones of one run: first position, up to `amount` messages, persistence."""
        popped = super().pop(amount, before)
        self._known -= sum(map(body_size, popped[1]))
        return popped

    def extract(self, position: int) -> bytes | None:
        """Takes a message out of turn: `ON_DISK` if it is stowed; None if it is not here."""
        message = super().extract(position)
        if message:
            self._known -= body_size(message)
        return message

    def cut(self, first: int, last: int) -> list[tuple[int, list[bytes]]]:
        """Takes out what is in memory between two positions: first positions, and messages."""
        found = super().cut(first, last)
        for _, part in found:
            self._known -= sum(map(body_size, part))
        return found

    def _leaves(self, run: Run) -> None:
        """Keeps the sizes of what leaves memory."""
        self._sizes.add(run.first, [body_size(message) for _, message in run.pairs()])

    def _put_in(self, index: int, first: int, part: list[bytes], filled: Filled) -> None:
        """Puts messages, the first of them at `first`, in their place in a stowed run."""
        super()._put_in(index, first, part, filled)
        count, total = self._sizes.take(first, first + len(part) - 1)
        if count < len(part):
            self._known += sum(map(body_size, part)) - total
            self._learned(len(part) - count)
            self._note_heads(part)

    def put_back(self, run: Run) -> None:
        """Puts messages on disk alone that were handed out back to their place."""
        self._unknown_count += run.left
        self._unknown_bytes += run.stowed
        super().put_back(run)

    def take_stowed(self, first: int, last: int) -> list[Run]:
        """Takes out what is stowed between two positions."""
        gone = super().take_stowed(first, last)
        for run in gone:
            count, total = self._sizes.take(run.first, run.last)
            self._known -= total
            self._learned(run.left - count)
        return gone

    def _learned(self, count: int) -> None:
        """Takes note that so many have no unknown size any more."""
        left = self._unknown_count - count
        self._unknown_bytes = self._unknown_bytes * left // max(self._unknown_count, 1)
        self._unknown_count = left

    def _note_heads(self, messages: Sequence[bytes]) -> None:
        heads = [len(message) - body_size(message) for message in messages[:HEADS]]
        self._head_bytes = max(self._head_bytes, *heads)

    def check(self) -> None:
        """Asserts the invariants."""
        super().check()
        assert self._sizes.count + self._unknown_count == self.stowed_count
        here = sum([body_size(message) for _, message in self.pairs()])
        assert self._known == here + sum(map(sum, self._sizes._pieces))
