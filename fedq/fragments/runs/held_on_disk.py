"""A run of messages that a taker has and whose bodies are on disk alone: a byte for each message.

Inputs: a run in memory, or a stowed one; which messages are settled or come back. Outputs: where
they stand, of which kind they are, and what they take. Settling out of turn leaves a gap, which
takes the byte it took; only what comes back cuts a run in two, as it may be taken again.

Invariants: neither the first nor the last message is gone, unless all are; each message has a byte
at least of what the run takes, and of a part of it its share is told.
"""

from typing import Final

from fedq.core.ids import NodeId
from fedq.core.message import FLAG_PERSISTENT
from fedq.core.ranges import Range, to_ranges
from fedq.fragments.runs.runs import ON_DISK, Run, stowed_mix

#: What is kept of a message.
_GONE: Final = 0
_TRANSIENT: Final = 1
_PERSISTENT: Final = 2
#: The same as it is kept of what waits: whether it is persistent.
_TO_KINDS: Final = bytes.maketrans(bytes((_TRANSIENT, _PERSISTENT)), bytes((0, 1)))


class HeldOnDisk(Run):
    """Messages on disk alone that a taker has; those that were settled out of turn are gaps."""

    __slots__ = ("kinds",)

    def __init__(self, first: int, kinds: bytearray, size: int, holder: NodeId | None) -> None:
        super().__init__(first, [], _PERSISTENT in kinds, holder)
        #: Of each message, whether it is persistent or not, or gone.
        self.kinds = kinds
        self.left = len(kinds) - kinds.count(_GONE)
        self.stowed = size

    @property
    def last(self) -> int:
        """The position of the last message."""
        return self.first + len(self.kinds) - 1

    def get(self, position: int) -> bytes | None:
        """`ON_DISK` for a message of the run; None for others."""
        index = position - self.first
        is_here = 0 <= index < len(self.kinds) and self.kinds[index] != _GONE
        return ON_DISK if is_here else None

    def trim(self) -> None:
        """Drops the entries at both ends whose messages are gone; the run is not empty."""
        kinds = self.kinds
        if kinds[0] == _GONE:
            gone = len(kinds) - len(kinds.lstrip(b"\0"))
            del kinds[:gone]
            self.first += gone
        if kinds[-1] == _GONE:
            del kinds[len(kinds.rstrip(b"\0")) :]

    def ranges(self) -> list[Range]:
        """The positions of the messages, as ranges."""
        return self.between(self.first, self.last)

    def between(self, first: int, last: int) -> list[Range]:
        """The positions of those between two positions, as ranges."""
        kinds, base = self.kinds, self.first
        start, stop = max(first - base, 0), min(last - base + 1, len(kinds))
        if start >= stop:
            return []
        if kinds.find(_GONE, start, stop) < 0:
            return [(base + start, base + stop - 1)]
        return to_ranges([base + at for at in range(start, stop) if kinds[at] != _GONE])

    def persistent_ranges(self) -> list[Range]:
        """The positions of the persistent messages, as ranges."""
        return self._ranges(_PERSISTENT)

    def _ranges(self, wanted: int) -> list[Range]:
        kinds = self.kinds
        if kinds.count(wanted) == len(kinds):
            return [(self.first, self.last)]
        return to_ranges([p for p, kind in enumerate(kinds, self.first) if kind == wanted])

    def oldest_persistent(self) -> int | None:
        """The position of the run's first persistent message."""
        index = self.kinds.find(_PERSISTENT)
        return self.first + index if index >= 0 else None

    def persists(self, position: int) -> bool:
        """Whether a message of the run is persistent."""
        return self.kinds[position - self.first] == _PERSISTENT

    def stretches(self, persistent: bool) -> list[tuple[int, int, int]]:
        """What is of one kind: first and last positions, and bytes."""
        each = self.stowed // self.left
        ranges = self._ranges(_PERSISTENT if persistent else _TRANSIENT)
        return [(first, last, each * (last - first + 1)) for first, last in ranges]

    def settle(self, first: int, last: int) -> tuple[list[Range], int, bool]:
        """Makes gaps of what stands between two positions; what is left is told later (`left`).

        Returns where it was, its bytes, and whether any of it was persistent.
        """
        ranges = self.between(first, last)
        taken = sum([high - low + 1 for low, high in ranges])
        if not taken:
            return [], 0, False
        start, stop = max(first - self.first, 0), min(last - self.first + 1, len(self.kinds))
        persistent = self.kinds.find(_PERSISTENT, start, stop) >= 0
        size = self._share(taken)
        self.stowed -= size
        if taken == self.left:
            self.kinds = bytearray()
        else:
            self.kinds[start:stop] = bytes(stop - start)
        return ranges, size, persistent

    def _share(self, count: int) -> int:
        """What so many of its messages take."""
        return self.stowed if count == self.left else self.stowed * count // self.left

    def cut_out(self, first: int, last: int) -> tuple[list["HeldOnDisk"], list[Run]]:
        """The run without what stands between two positions, in up to two runs; and that, in runs.

        The latter have no gaps, and no holder.
        """
        start, stop = max(first - self.first, 0), min(last - self.first + 1, len(self.kinds))
        kept: list[HeldOnDisk] = []
        size = self.stowed
        for begin, end in ((0, start), (stop, len(self.kinds))):
            kinds = self.kinds[begin:end]
            count = len(kinds) - kinds.count(_GONE)
            if count:
                share = self._share(count)
                size -= share
                kept.append(HeldOnDisk(self.first + begin, kinds, share, self.holder))
        for each in kept:
            each.trim()
        out: list[Run] = []
        ranges = self.between(first, last)
        left = sum([high - low + 1 for low, high in ranges])
        for low, high in ranges:
            count = high - low + 1
            share = size * count // left
            part = bytes(self.kinds[low - self.first : high - self.first + 1])
            out.append(stowed_mix(low, part.translate(_TO_KINDS), share))
            size, left = size - share, left - count
        return kept, out


def kinds_of(run: Run) -> bytearray:
    """What is kept of each message of a run in memory: its kind, or that it is gone."""
    kinds = bytearray(len(run.messages))
    for index, message in enumerate(run.messages):
        if message is not None:
            kinds[index] = _PERSISTENT if message[0] & FLAG_PERSISTENT else _TRANSIENT
    return kinds


def is_mixed(kinds: bytearray) -> bool:
    """Whether some of the messages are transient."""
    return kinds.find(_TRANSIENT) >= 0


def held_parts(run: Run, holder: NodeId, most: int) -> list[HeldOnDisk]:
    """The messages of a stowed run that get a taker, in runs of so many at most."""
    parts: list[HeldOnDisk] = []
    size, left = run.stowed, run.left
    for start in range(0, run.left, most):
        count = min(most, run.left - start)
        share = size * count // left
        begin = run.first + start
        kinds = bytearray(
            [
                _PERSISTENT if run.persists(position) else _TRANSIENT
                for position in range(begin, begin + count)
            ]
        )
        parts.append(HeldOnDisk(begin, kinds, share, holder))
        size, left = size - share, left - count
    return parts
