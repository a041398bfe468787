"""Messages that takers have, as an interval list in memory and on disk.

Inputs: batches that were taken, which of them are settled or come back; up to which position the
journal has them, what was written elsewhere. Outputs: the same, whole or in parts, with their
positions as ranges; what is to be written. Bodies of these are not needed before they come back, so
they may be on disk alone (`fedq.fragments.runs.held_on_disk`).

Invariants: those of `fedq.fragments.runs.runs`; each run has one taker; what was settled out of
turn are gaps in it, and no message that is taken later stands within a run.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from fedq.core.ids import NodeId
from fedq.core.message import FLAG_PERSISTENT
from fedq.core.ranges import Range, from_ranges
from fedq.fragments.runs.held_on_disk import HeldOnDisk, held_parts, is_mixed, kinds_of
from fedq.fragments.runs.run_parts import Written, may_go
from fedq.fragments.runs.runs import RUN_MAX, SWEEP_FROM, Run, Runs, first_of

#: A run of fewer bytes stays in memory: what would be left of it takes about as much.
RUN_BYTES_MIN: Final = 512


class InFlight(Runs):
    """Messages that takers have. Each run has one taker; what was settled out of turn are gaps."""

    __slots__ = ("_empty", "stowed_bytes", "stowed_count")

    def __init__(self, run_max: int = RUN_MAX, sweep_from: int = SWEEP_FROM) -> None:
        super().__init__(run_max, sweep_from)
        #: Runs between others that have nothing left.
        self._empty = 0
        #: How many of the messages are on disk alone, and their bytes.
        self.stowed_count = self.stowed_bytes = 0

    @property
    def run_count(self) -> int:
        """How many runs there are, those that have nothing left among them."""
        return len(self._runs) - self._head

    def add(self, holder: NodeId, first: int, messages: list[bytes], persistent: bool) -> None:
        """Adds messages that go to a taker: mostly beyond all that is here, as the next ones."""
        runs = self._runs
        self.count += len(messages)
        if runs:
            last = runs[-1]
            if (
                last.left
                and last.first + len(last.messages) == first
                and last.holder == holder
                and last.persistent == persistent
                and len(last.messages) + len(messages) <= self._run_max
            ):
                last.messages += messages
                last.left += len(messages)
                return
            if first < last.first:
                # They had come back.
                self._insert(Run(first, [*messages], persistent, holder))
                return
        runs.append(Run(first, [*messages], persistent, holder))

    def _insert(self, run: Run) -> None:
        """Puts a run in its place."""
        runs = self._runs
        index = bisect_right(runs, run.first, self._head, key=first_of)
        end = index
        while end < len(runs) and runs[end].first <= run.last:
            # One that has nothing left, and must not be found in its place.
            end += 1
        self._empty -= end - index
        runs[index:end] = [run]

    def release(
        self, holder: NodeId, first: int, last: int, gone: list[bytes], ranges: list[Range]
    ) -> None:
        """Moves what the holder has from `first` to `last` to the two lists."""
        runs = self._runs
        index = self._head
        if index < len(runs) and first >= runs[index].first + len(runs[index].messages):
            index = max(index, self._index_of(first))
        while index < len(runs):
            run = runs[index]
            if run.first > last:
                break
            if run.holder == holder and run.left:
                before = len(gone)
                _cut(run, max(first - run.first, 0), last - run.first + 1, gone, ranges)
                taken = len(gone) - before
                if taken:
                    self._shrink(index, taken)
            index += 1
        if self._head + self._empty >= self._sweep_from:
            self._sweep()

    def extract(self, position: int) -> tuple[bytes, NodeId] | None:
        """Takes a message out of turn, whoever has it; None if it is not here in memory."""
        index = self._index_of(position)
        if index < 0:
            return None
        run = self._runs[index]
        message = run.get(position)
        if not message:
            return None
        assert run.holder is not None
        run.messages[position - run.first] = None
        self._shrink(index, 1)
        if self._head + self._empty >= self._sweep_from:
            self._sweep()
        return message, run.holder

    def take_from(self, holder: NodeId) -> list[tuple[int, bytes]]:
        """Takes all that the holder has in memory: positions and messages, ascending."""
        found: list[tuple[int, bytes]] = []
        for index in range(self._head, len(self._runs)):
            run = self._runs[index]
            if run.holder == holder and run.left and not run.stowed:
                found += run.pairs()
                self._shrink(index, run.left)
        self._sweep()
        return found

    def counts(self) -> dict[NodeId, int]:
        """How many messages each holder has; looks at each run, not at each message."""
        found: dict[NodeId, int] = {}
        for run in self._live():
            assert run.holder is not None
            found[run.holder] = found.get(run.holder, 0) + run.left
        return found

    def holders(self) -> Iterator[tuple[int, NodeId]]:
        """Positions, ascending, and who has them."""
        for run in self._live():
            assert run.holder is not None
            for position in from_ranges(run.ranges()):
                yield position, run.holder

    # --- what is on disk alone ---------------------------------------------------------------

    def stow(self, through: int, most: int, least: int = RUN_BYTES_MIN) -> int:
        """Lets go of the bodies of persistent messages up to a position: the journal has these.

        `most`: so many messages are looked at, and a run; `least`: the bytes of a run that goes.
        Returns how many bodies went.
        """
        gone = 0
        for index in range(self._head, len(self._runs)):
            run = self._runs[index]
            if run.first > through or most <= 0:
                break
            if not run.left or not may_go(run) or run.last > through:
                continue
            most -= run.left
            kinds = kinds_of(run)
            if is_mixed(kinds):
                run.is_mixed = True
            else:
                gone += self._let_go(index, kinds, least)
        return gone

    def _let_go(self, index: int, kinds: bytearray, least: int) -> int:
        """Lets go of the bodies of a run, if they take enough; returns how many went."""
        run = self._runs[index]
        size = _size_of(run)
        if size < least:
            return 0
        self._runs[index] = HeldOnDisk(run.first, kinds, size, run.holder)
        self.stowed_count += run.left
        self.stowed_bytes += size
        return run.left

    def beyond(
        self, size: int, most: int, any_kind: bool, through: int, least: int = RUN_BYTES_MIN
    ) -> tuple[list[int], list[bytes]]:
        """The next messages that only memory has, with positions: about so many bytes.

        Persistent ones are left out, unless it is `any_kind`: then all are wanted. Of mixed runs
        those are told up to a position `through` which the journal has the rest. At most so many
        messages are looked at, and a run. `least`: the bytes of a run that is wanted.
        """
        positions: list[int] = []
        messages: list[bytes] = []
        index = self._head
        while index < len(self._runs) and size > 0 and most > 0:
            run = self._runs[index]
            index += 1
            if run.stowed or not run.left:
                continue
            is_mix = run.persistent and not any_kind
            if is_mix and not (run.is_mixed and run.last <= through):
                continue
            if _size_of(run) < least:
                continue
            self._cut_to(index - 1, size)
            most -= run.left
            before = len(positions)
            for position, message in run.pairs():
                size -= len(message)
                if not is_mix or not message[0] & FLAG_PERSISTENT:
                    positions.append(position)
                    messages.append(message)
            if is_mix and len(positions) == before:
                run.is_mixed = False
        return positions, messages

    def _cut_to(self, index: int, size: int) -> None:
        """Cuts a run in memory in two, so that the first one has about so many bytes."""
        run = self._runs[index]
        for at, message in enumerate(run.messages):
            if size <= 0 and message is not None:
                self._cut_in_two(index, at)
                break
            size -= len(message) if message is not None else 0

    def _cut_in_two(self, index: int, at: int) -> None:
        """Cuts a run in memory in two at an entry, unless all that is left is on one side."""
        run = self._runs[index]
        behind = Run(run.first + at, run.messages[at:], run.persistent, run.holder)
        behind.left -= behind.messages.count(None)
        if not 0 < behind.left < run.left:
            return
        behind.is_mixed = run.is_mixed
        del run.messages[at:]
        run.left -= behind.left
        run.trim()
        behind.trim()
        self._runs.insert(index + 1, behind)

    def let_go(self, positions: Sequence[int], through: int) -> int:
        """Lets go of bodies at these positions (ascending), which were written elsewhere.

        Of whole runs; persistent ones between them are in the journal up to a position `through`.
        Returns how many went.
        """
        written = Written(positions, through)
        gone = 0
        index = max(self._index_of(positions[0]), self._head)
        while index < len(self._runs) and self._runs[index].first <= positions[-1]:
            run = self._runs[index]
            if run.left and not run.stowed:
                if run.last > positions[-1]:
                    # What is new has joined it.
                    self._cut_in_two(index, positions[-1] + 1 - run.first)
                if written.has(run):
                    gone += self._let_go(index, kinds_of(run), 1)
            index += 1
        return gone

    def release_stowed(
        self, holder: NodeId | None, first: int, last: int
    ) -> tuple[list[Range], int, bool]:
        """Forgets what the holder (None: any) has on disk alone from `first` to `last`.

        Returns where it was, its bytes, and whether any of it was persistent.
        """
        ranges: list[Range] = []
        size, persistent = 0, False
        index = max(self._index_of(first), self._head)
        while index < len(self._runs) and self._runs[index].first <= last:
            run = self._runs[index]
            is_its = holder is None or run.holder == holder
            if is_its and isinstance(run, HeldOnDisk) and run.left:
                gone, part, persists = run.settle(first, last)
                ranges += gone
                size += part
                persistent = persistent or persists
                taken = sum([high - low + 1 for low, high in gone])
                self.stowed_count -= taken
                if taken:
                    self._shrink(index, taken)
            index += 1
        self.stowed_bytes -= size
        if self._head + self._empty >= self._sweep_from:
            self._sweep()
        return ranges, size, persistent

    def take_stowed(self, holder: NodeId, first: int, last: int) -> list[Run]:
        """Takes what the holder has on disk alone from `first` to `last`: runs without gaps."""
        found: list[Run] = []
        index = max(self._index_of(first), self._head)
        while index < len(self._runs) and self._runs[index].first <= last:
            run = self._runs[index]
            if run.holder != holder or not isinstance(run, HeldOnDisk) or not run.left:
                index += 1
                continue
            kept, out = run.cut_out(first, last)
            if not out:
                index += 1
                continue
            taken = sum([each.left for each in out])
            found += out
            self.stowed_count -= taken
            self.stowed_bytes -= sum([each.stowed for each in out])
            if kept:
                self.count -= taken
                self._runs[index : index + 1] = kept
            else:
                run.settle(first, last)
                self._shrink(index, taken)
            index += max(len(kept), 1)
        if self._head + self._empty >= self._sweep_from:
            self._sweep()
        return found

    def put_stowed(self, run: Run, holder: NodeId) -> None:
        """Adds messages on disk alone, wherever they stand, that go to a taker."""
        for part in held_parts(run, holder, self._run_max):
            self._insert(part)
            self.count += part.left
            self.stowed_count += part.left
            self.stowed_bytes += part.stowed

    def stowed(self) -> list[Run]:
        """The runs that are on disk alone, ascending."""
        return [run for run in self._live() if run.stowed] if self.stowed_count else []

    def stowed_by(self, holder: NodeId) -> list[Range]:
        """Where the holder has messages that are on disk alone, ascending."""
        return [each for run in self.stowed() if run.holder == holder for each in run.ranges()]

    def stowed_after(self, position: int) -> Range | None:
        """Where the first ones beyond a position stand that are on disk alone, up to a gap."""
        if not self.stowed_count:
            return None
        for index in range(max(self._index_of(position), self._head), len(self._runs)):
            run = self._runs[index]
            if isinstance(run, HeldOnDisk) and run.left and run.last > position:
                return run.between(position + 1, run.last)[0]
        return None

    def is_persistent(self, position: int) -> bool:
        """Whether the message at this position is here on disk alone, and persistent."""
        index = self._index_of(position)
        run = self._runs[index] if index >= 0 else None
        return isinstance(run, HeldOnDisk) and position <= run.last and run.persists(position)

    def check(self) -> None:
        """Asserts the invariants."""
        self._check()
        assert all(run.holder is not None for run in self._live())
        live = list(self._live())
        assert all(one.last < other.first for one, other in pairwise(live))
        stowed = self.stowed()
        assert all(isinstance(run, HeldOnDisk) and run.stowed >= run.left for run in stowed)
        assert self.stowed_count == sum([run.left for run in stowed])
        assert self.stowed_bytes == sum([run.stowed for run in stowed])

    def _shrink(self, index: int, taken: int) -> None:
        """Notes that so many messages have left a run."""
        self.count -= taken
        run = self._runs[index]
        run.left -= taken
        if run.left:
            run.trim()
            return
        run.messages = []
        if index != self._head:
            self._empty += 1
            return
        self._head += 1
        while self._head < len(self._runs) and not self._runs[self._head].left:
            self._head += 1
            self._empty -= 1

    def _sweep(self) -> None:
        """Forgets runs that have nothing left, once they are the most."""
        if 2 * (self._head + self._empty) >= len(self._runs):
            self._runs = list(self._live())
            self._head = self._empty = 0


def _size_of(run: Run) -> int:
    """The bytes of a run in memory, which may have gaps."""
    return sum([len(message) for message in run.messages if message is not None])


def _cut(run: Run, start: int, stop: int, gone: list[bytes], ranges: list[Range]) -> None:
    """Moves the messages of these entries to `gone`, and their positions to `ranges`."""
    messages, first = run.messages, run.first
    stop = min(stop, len(messages))
    if start >= stop:
        return
    part = messages[start:stop]
    if run.left == len(messages):
        gone += part  # type: ignore[arg-type]  # there are no gaps
        ranges.append((first + start, first + stop - 1))
    else:
        for position, message in enumerate(part, first + start):
            if message is None:
                continue
            gone.append(message)
            if ranges and ranges[-1][1] == position - 1:
                ranges[-1] = (ranges[-1][0], position)
            else:
                ranges.append((position, position))
    if start == 0:
        del messages[:stop]
        run.first += stop
    elif stop == len(messages):
        del messages[start:]
    else:
        messages[start:stop] = [None] * (stop - start)
