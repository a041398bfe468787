"""Messages that nobody has given back, as an interval list: what came in together stays together.

Inputs: batches of messages at consecutive positions, how many are wanted, which are settled.
Outputs: the same batches, whole or in parts, with their positions as ranges. So the usual way of a
message (in, out, settled) costs a share of an operation on its run, and no object of its own.

`Fresh` (`fedq.fragments.runs.fresh`) holds those that wait, `InFlight`
(`fedq.fragments.runs.in_flight`) what takers have. Messages with a history (that came back, or of
which there is something to note) are in neither: `fedq.fragments.singly.tracked`. A run is in
memory or *stowed*: its messages are on disk alone.

Invariants: runs are in ascending order of positions; a run is never empty but in `InFlight`, where
those left behind are swept when they are the most; a run does not keep messages that are gone.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from fedq.core.ids import NodeId
from fedq.core.message import FLAG_PERSISTENT
from fedq.core.ranges import Range, to_ranges

#: Stands for a message whose bytes are on disk alone: no message is empty.
ON_DISK: Final = b""
#: Messages in a run at most: taking some from its front moves the rest.
RUN_MAX: Final = 1_024
#: Left behind runs, at the front and in between, from which on they are swept.
SWEEP_FROM: Final = 32


class Run:
    """Messages at consecutive positions that have the same holder."""

    __slots__ = ("first", "holder", "is_mixed", "left", "messages", "persistent", "stowed")

    def __init__(
        self, first: int, messages: list[bytes | None], persistent: bool, holder: NodeId | None
    ) -> None:
        #: The position of the first entry.
        self.first = first
        #: None where a message is gone; neither the first nor the last entry is. Empty if stowed.
        self.messages = messages
        #: Whether some of them are persistent, or were.
        self.persistent = persistent
        self.holder = holder
        #: How many messages there are.
        self.left = len(messages)
        #: The bytes of those that are on disk alone: all of them, or none (0).
        self.stowed = 0
        #: Some of them are known not to be persistent: the journal has a part of the run.
        self.is_mixed = False

    def pairs(self) -> Iterator[tuple[int, bytes]]:
        """The positions and messages of the run; none if they are on disk alone."""
        for position, message in enumerate(self.messages, self.first):
            if message is not None:
                yield position, message

    def get(self, position: int) -> bytes | None:
        """The message at a position, `ON_DISK` if stowed; None if it is not in this run."""
        index = position - self.first
        if self.stowed:
            return ON_DISK if 0 <= index < self.left else None
        return self.messages[index] if 0 <= index < len(self.messages) else None

    def trim(self) -> None:
        """Drops the entries at both ends whose messages are gone; the run is not empty."""
        messages = self.messages
        start = 0
        while messages[start] is None:
            start += 1
        if start:
            del messages[:start]
            self.first += start
        while messages[-1] is None:
            messages.pop()

    @property
    def last(self) -> int:
        """The position of the last entry."""
        return self.first + (len(self.messages) or self.left) - 1

    def ranges(self) -> list[Range]:
        """The positions of the messages, as ranges."""
        if self.stowed or self.left == len(self.messages):
            return [(self.first, self.first + self.left - 1)]
        return to_ranges([position for position, _ in self.pairs()])

    def persistent_ranges(self) -> list[Range]:
        """The positions of the persistent messages, as ranges."""
        if not self.persistent:
            return []
        if self.stowed:
            return [(self.first, self.last)]
        # A checkpoint looks at all that is in memory: a plain loop takes a tenth of the time.
        found: list[Range] = []
        begun, position = -1, self.first
        for message in self.messages:
            if message is not None and message[0] & FLAG_PERSISTENT:
                if begun < 0:
                    begun = position
            elif begun >= 0:
                found.append((begun, position - 1))
                begun = -1
            position += 1
        if begun >= 0:
            found.append((begun, position - 1))
        return found

    def oldest_persistent(self) -> int | None:
        """The position of the run's first persistent message."""
        if self.stowed:
            return self.first if self.persistent else None
        if self.persistent:
            for position, message in self.pairs():
                if message[0] & FLAG_PERSISTENT:
                    return position
        return None

    def persists(self, position: int) -> bool:
        """Whether a message that is on disk alone is persistent."""
        return self.persistent

    def stowed_part(self, first: int, count: int, size: int) -> "Run":
        """A part of what is on disk alone, which takes so many bytes."""
        return stowed_run(first, count, size, self.persistent)

    def stretches(self, persistent: bool) -> list[tuple[int, int, int]]:
        """What is on disk alone and of one kind: first and last positions, and bytes."""
        return [(self.first, self.last, self.stowed)] if self.persistent == persistent else []


class StowedMix(Run):
    """Messages on disk alone of which the journal has some, and a scratch file the others."""

    __slots__ = ("kinds",)

    def __init__(self, first: int, kinds: bytes, size: int) -> None:
        super().__init__(first, [], True, None)
        self.left, self.stowed = len(kinds), size
        #: Of each message, whether it is persistent.
        self.kinds = kinds

    def persistent_ranges(self) -> list[Range]:
        """The positions of the persistent messages, as ranges."""
        return self._ranges(True)

    def _ranges(self, persistent: bool) -> list[Range]:
        return to_ranges([p for p, kind in enumerate(self.kinds, self.first) if kind == persistent])

    def oldest_persistent(self) -> int | None:
        """The position of the run's first persistent message."""
        return self.first + self.kinds.index(1)

    def persists(self, position: int) -> bool:
        """Whether a message that is on disk alone is persistent."""
        return self.kinds[position - self.first] == 1

    def stowed_part(self, first: int, count: int, size: int) -> Run:
        """A part of what is on disk alone, which takes so many bytes."""
        start = first - self.first
        return stowed_mix(first, self.kinds[start : start + count], size)

    def stretches(self, persistent: bool) -> list[tuple[int, int, int]]:
        """What is on disk alone and of one kind: first and last positions, and bytes."""
        each = self.stowed // self.left
        ranges = self._ranges(persistent)
        return [(first, last, max(each, 1) * (last - first + 1)) for first, last in ranges]


def stowed_run(first: int, count: int, size: int, persistent: bool) -> Run:
    """A run of messages that are on disk alone, and take so many bytes."""
    run = Run(first, [], persistent, None)
    run.left, run.stowed = count, size
    return run


def stowed_mix(first: int, kinds: bytes, size: int) -> Run:
    """A run of messages on disk alone that are persistent or not, each for itself."""
    if 0 in kinds and 1 in kinds:
        return StowedMix(first, kinds, size)
    return stowed_run(first, len(kinds), size, 1 in kinds)


class Runs:
    """Runs in ascending order; the first ones of the list may be used up."""

    __slots__ = ("_head", "_run_max", "_runs", "_sweep_from", "count")

    def __init__(self, run_max: int = RUN_MAX, sweep_from: int = SWEEP_FROM) -> None:
        """`run_max`: messages in a run at most; `sweep_from`: see `SWEEP_FROM`."""
        self._run_max = run_max
        self._sweep_from = sweep_from
        self._runs: list[Run] = []
        #: Where in the list the first run is.
        self._head = 0
        #: How many messages there are.
        self.count = 0

    def pairs(self) -> Iterator[tuple[int, bytes]]:
        """Positions and messages, ascending; without those on disk alone."""
        for run in self._live():
            yield from run.pairs()

    def ranges(self) -> list[Range]:
        """The positions of all messages, as ranges."""
        return [each for run in self._live() for each in run.ranges()]

    def persistent_ranges(self) -> list[Range]:
        """The positions of persistent messages, without a look at runs that have none."""
        return [each for run in self._live() for each in run.persistent_ranges()]

    def after(self, position: int) -> Run | None:
        """The first run that has messages beyond a position."""
        for index in range(max(self._index_of(position), self._head), len(self._runs)):
            run = self._runs[index]
            if run.left and run.last > position:
                return run
        return None

    def _live(self) -> Iterator[Run]:
        return (run for run in self._runs[self._head :] if run.left)

    def _index_of(self, position: int) -> int:
        """The index of the run that begins here or, at last, before this position; -1: none."""
        found = bisect_right(self._runs, position, self._head, key=first_of) - 1
        return found if found >= self._head else -1

    def get(self, position: int) -> bytes | None:
        """The message at a position, `ON_DISK` if stowed; None if it is not here."""
        index = self._index_of(position)
        return self._runs[index].get(position) if index >= 0 else None

    def at(self, position: int) -> Run | None:
        """The run that has something at a position, or had."""
        index = self._index_of(position)
        return self._runs[index] if index >= 0 and position <= self._runs[index].last else None

    def oldest_persistent(self) -> int | None:
        """The first position of a persistent message."""
        for run in self._live():
            position = run.oldest_persistent()
            if position is not None:
                return position
        return None

    def _check(self) -> None:
        assert self.count == sum(run.left for run in self._live())
        for run in self._live():
            if run.stowed:
                assert not run.messages
                continue
            assert run.left == sum(message is not None for message in run.messages)
            assert run.messages[0] is not None
            assert run.messages[-1] is not None
            assert run.persistent or not any(m[0] & FLAG_PERSISTENT for _, m in run.pairs())


def first_of(run: Run) -> int:
    """Where a run begins, to search by."""
    return run.first


#: Stands in the list for a run that is used up.
NO_RUN: Final = Run(0, [], False, None)
