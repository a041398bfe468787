"""The line of a queue with priorities, as far as it is on disk alone; what is not is kept singly.

Inputs: messages that leave memory (`stow`), what an earlier reign has left there, what was read.
Outputs: which message is next of those on disk alone, by priority and then by position, and which
of what was read is wanted now. It stands where the line of other queues stands (`fedq.fragments.
runs.fresh`), without a run: nothing can be taken of it before it was read, and then it is kept
singly (`fedq.fragments.singly.tracked`), where nothing behind its next one is taken either.
"""

from collections import deque
from collections.abc import Container, Iterable, Mapping
from itertools import islice
from typing import Final

from fedq.core.message import head_size
from fedq.core.ranges import Range
from fedq.fragments.runs.fresh import Fresh
from fedq.fragments.runs.ranked_pages import PAGE_BYTES, Found, RankedPages
from fedq.fragments.runs.runs import ON_DISK, Run, stowed_mix
from fedq.fragments.runs.sized import HEADS, RECORD

#: Beyond all positions: what is on disk alone stands at no place that a position tells.
NOWHERE: Final = (1 << 62) - 1
#: What a message that was read ahead takes in the list of these.
_AHEAD_BYTES: Final = 120
#: So many of these are remembered, whether they are taken or not.
_AHEAD_MIN: Final = 1_024


class RankedFresh(Fresh):
    """Messages with priorities on disk alone, without a taker. See the module's docstring."""

    __slots__ = ("_ahead", "_ahead_bytes", "_ahead_max", "_head_bytes", "pages")

    def __init__(self, max_priority: int) -> None:
        super().__init__()
        self.pages = RankedPages(max_priority)
        #: Positions and bytes of those that were read, some of which may be taken by now.
        self._ahead: deque[tuple[int, int]] = deque()
        self._ahead_bytes = 0
        #: How many of those there are before they are looked through.
        self._ahead_max = _AHEAD_MIN
        #: The longest head that was seen; 0: none was.
        self._head_bytes = 0
        self.first_stowed = NOWHERE

    @property
    def first(self) -> int:
        """Beyond all positions: what is kept singly knows what it is behind."""
        return NOWHERE

    @property
    def run_count(self) -> int:
        """How many pages there are to walk over."""
        return self.pages.page_count

    @property
    def index_bytes(self) -> int:
        """What is kept of the messages."""
        return self.pages.page_count * PAGE_BYTES + len(self._ahead) * _AHEAD_BYTES

    @property
    def body_bytes(self) -> int:
        """About the bytes of all bodies, rather less than they have: there are no sizes.

        For a queue whose length has come to be limited in bytes while it was here (a policy).
        """
        heads = self.pages.count * (self._head_bytes + RECORD)
        return max(0, self.pages.size - heads) if self._head_bytes else 0

    def note_heads(self, messages: Iterable[bytes]) -> None:
        """Takes note of how long the heads of some messages are, to estimate those of all."""
        for message in islice(messages, HEADS):
            if message:
                self._head_bytes = max(self._head_bytes, head_size(message))

    def _count(self) -> None:
        """Takes over how many there are."""
        self.count = self.stowed_count = self.pages.count
        self.stowed_bytes = self.pages.size

    # --- what is next ----------------------------------------------------------------------------

    def may_pass(self, priority: int) -> int:
        """Below which position messages of a priority that are in memory come before all of these.

        0: none does.
        """
        if not self.stowed_count:
            return NOWHERE
        rank, position = self.pages.next()
        if priority == rank:
            return position
        return NOWHERE if priority > rank else 0

    def next_wanted(self) -> int:
        """The position of the next one; there must be one."""
        return self.pages.next()[1]

    def next_unread(self, amount: int, before: int) -> list[Range]:
        """Where the next ones stand `before` a position, at most so many, of the same priority.

        None before that is known.
        """
        return self.pages.of_next(amount, before) if self.stowed_count else []

    def bytes_ahead(self, messages: Mapping[int, bytes], out: Container[int]) -> int:
        """What those take that were read and nobody has taken.

        `messages`, `out`: what is kept singly, and which of that is not ready.
        """
        ahead = self._ahead
        while ahead and not _waits(ahead[0][0], messages, out):
            self._ahead_bytes -= ahead.popleft()[1]
        if len(ahead) > self._ahead_max:
            # One of a lower priority that nobody takes keeps its place before all others.
            self._ahead = deque([each for each in ahead if _waits(each[0], messages, out)])
            self._ahead_bytes = sum([size for _, size in self._ahead])
            self._ahead_max = max(_AHEAD_MIN, 2 * len(self._ahead))
        return self._ahead_bytes

    def is_alike(self, position: int, other: int) -> bool:
        """Whether two messages have the same priority, or both one that is not known.

        Then whoever reads for one of them keeps the other one, too.
        """
        pages = self.pages
        are_here = position in pages and other in pages
        return are_here and pages.rank_of(position) == pages.rank_of(other)

    # --- they come and go ------------------------------------------------------------------------

    def leave_memory(self, position: int, persistent: bool, priority: int, size: int) -> None:
        """Adds a message that the disk has."""
        self.pages.add(position, persistent, priority, size)
        self._count()

    def add_stowed(self, first: int, last: int, size: int, persistent: bool = True) -> None:
        """Adds messages on disk alone, of so many bytes, whose priorities are not known."""
        kinds = bytes([1 if persistent else 0]) * (last - first + 1)
        self.pages.add_unknown(first, kinds, size)
        self._count()

    def put_back(self, run: Run) -> None:
        """Puts messages on disk alone that were handed out back: their priorities are not known."""
        kinds = [1 if run.persists(position) else 0 for position in range(run.first, run.last + 1)]
        self.pages.add_unknown(run.first, bytes(kinds), run.stowed)
        self.returns += 1
        self._count()

    def learn(self, priorities: Mapping[int, int]) -> None:
        """Takes note of the priorities of messages that were read, if they were not known."""
        for position, priority in priorities.items():
            if self.pages.is_unknown(position):
                self.pages.learn(position, priority)

    def comes_now(self, position: int) -> bool:
        """Whether a message is here and of the priority of the next one in line."""
        return self.stowed_count > 0 and self.pages.rank_of(position) == self.pages.next()[0]

    def come_back(self, position: int, size: int) -> tuple[int, bool]:
        """Takes out a message that was read; what was told of its bytes, and if it is persistent.

        `size`: what it has.
        """
        persistent = self.pages.is_persistent(position)
        share = self.pages.remove(position)
        self._count()
        self._ahead.append((position, size))
        self._ahead_bytes += size
        return share, persistent

    def extract(self, position: int) -> bytes | None:
        """Takes a message out of turn: `ON_DISK`; None if it is not here."""
        if position not in self.pages:
            return None
        self.pages.remove(position)
        self._count()
        return ON_DISK

    def take_stowed(self, first: int, last: int) -> list[Run]:
        """Takes out what stands between two positions, in runs without gaps."""
        found = [_run_of(each) for each in self.pages.take(first, last)]
        if found:
            self._count()
        return found

    # --- what is where ---------------------------------------------------------------------------

    def is_persistent(self, position: int) -> bool:
        """Whether the message at this position is here, and persistent."""
        return self.pages.is_persistent(position)

    def get(self, position: int) -> bytes | None:
        """`ON_DISK` for a message that is here; else None."""
        return ON_DISK if position in self.pages else None

    def at(self, position: int) -> Run | None:
        """Messages that stand side by side up to a position, as a run."""
        if position not in self.pages:
            return None
        found = self.pages.after(self.pages.begins(position) - 1)
        return _run_of(found) if found is not None else None

    def after(self, position: int) -> Run | None:
        """The first messages beyond a position that stand side by side, as a run."""
        found = self.pages.after(position)
        return _run_of(found) if found is not None else None

    def ranges(self) -> list[Range]:
        """The positions of all messages, as ranges."""
        return self.pages.ranges()

    def persistent_ranges(self) -> list[Range]:
        """The positions of persistent messages."""
        return [each for run in self.stowed() for each in run.persistent_ranges()]

    def oldest_persistent(self) -> int | None:
        """The first position of a persistent message."""
        return self.pages.oldest_persistent()

    def stowed(self) -> list[Run]:
        """All messages, side by side within a page, as runs."""
        return [_run_of(found) for found in self.pages.all_found()]

    def stowed_after(self, position: int) -> Range | None:
        """The positions of the first ones beyond a position that stand side by side."""
        found = self.pages.after(position)
        return (found.first, found.first + len(found.kinds) - 1) if found is not None else None

    def within(self, amount: int, size: int) -> int:
        """The amount itself: none of these can be taken, whatever they take."""
        return amount

    def at_hand_before(self, stop: int) -> int:
        """None of these can be taken."""
        return 0

    def check(self) -> None:
        """Asserts the invariants."""
        assert not self._runs
        self.pages.check()
        assert (self.count, self.stowed_count) == (self.pages.count, self.pages.count)
        assert self.stowed_bytes == self.pages.size
        assert self._ahead_bytes == sum([size for _, size in self._ahead])


def _waits(position: int, messages: Mapping[int, bytes], out: Container[int]) -> bool:
    return position in messages and position not in out


def _run_of(found: Found) -> Run:
    return stowed_mix(found.first, found.kinds, found.size)
