"""Messages that takers have, as an interval list.

Inputs: batches that were taken, which of them are settled or come back. Outputs: the same, whole or
in parts, with their positions as ranges. Invariants: those of `fedq.fragments.runs`; each run has
one taker, and what was settled out of turn are gaps in it.
"""

from collections.abc import Iterator

from fedq.core.ids import NodeId
from fedq.core.ranges import Range
from fedq.fragments.runs import RUN_MAX, SWEEP_FROM, Run, Runs


class InFlight(Runs):
    """Messages that takers have. Each run has one taker; what was settled out of turn are gaps."""

    __slots__ = ("_empty",)

    def __init__(self, run_max: int = RUN_MAX, sweep_from: int = SWEEP_FROM) -> None:
        super().__init__(run_max, sweep_from)
        #: Runs between others that have nothing left.
        self._empty = 0

    @property
    def run_count(self) -> int:
        """How many runs there are, those that have nothing left among them."""
        return len(self._runs) - self._head

    def add(self, holder: NodeId, first: int, messages: list[bytes], persistent: bool) -> None:
        """Adds messages that were the next ones, so beyond all that is here, and go to a taker."""
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
        runs.append(Run(first, [*messages], persistent, holder))

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
        """Takes a message out of turn, whoever has it; None if it is not here."""
        index = self._index_of(position)
        if index < 0:
            return None
        run = self._runs[index]
        message = run.get(position)
        if message is None:
            return None
        assert run.holder is not None
        run.messages[position - run.first] = None
        self._shrink(index, 1)
        if self._head + self._empty >= self._sweep_from:
            self._sweep()
        return message, run.holder

    def take_from(self, holder: NodeId) -> list[tuple[int, bytes]]:
        """Takes all that the holder has: positions and messages, ascending."""
        found: list[tuple[int, bytes]] = []
        for index in range(self._head, len(self._runs)):
            run = self._runs[index]
            if run.holder == holder and run.left:
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
            for position, _ in run.pairs():
                yield position, run.holder

    def check(self) -> None:
        """Asserts the invariants."""
        self._check()
        assert all(run.holder is not None for run in self._live())

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
