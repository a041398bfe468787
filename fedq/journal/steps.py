"""A table of numbers by position in which neighbours mostly have the same: an interval map.

Inputs: positions with their numbers, positions that are gone. Outputs: the same, as a mapping or by
steps. Invariants: steps ascend, do not overlap, and touch only where their numbers differ, but for
those that were cut apart and filled again; memory goes by steps, not by positions.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Final, TypeAlias

#: First position, last position, number.
Step: TypeAlias = tuple[int, int, int]
#: Steps that are gone at the front of the list, from which on they are swept.
_SWEEP_FROM: Final = 64
_BEYOND: Final = 1 << 64


class Steps(MutableMapping[int, int]):
    """Such a table."""

    __slots__ = ("_count", "_head", "_steps")

    def __init__(self, values: Mapping[int, int] | None = None) -> None:
        #: Those before the head are gone.
        self._steps: list[Step] = []
        self._head = 0
        self._count = 0
        if isinstance(values, Steps):
            self._steps = values._steps[values._head :]
            self._count = sum([last - first + 1 for first, last, _ in self._steps])
        elif values:
            for position in sorted(values):
                self.add(position, position, values[position])

    # --- by steps ----------------------------------------------------------------------------

    @property
    def step_count(self) -> int:
        """How many steps there are."""
        return len(self._steps) - self._head

    def add(self, first: int, last: int, value: int) -> None:
        """Sets the number of all positions between two."""
        steps = self._steps
        if self._head < len(steps):
            before = steps[-1]
            if before[1] >= first:
                self._insert(first, last, value)
                return
            if before[1] + 1 == first and before[2] == value:
                self._count += last - first + 1
                steps[-1] = (before[0], last, value)
                return
        self._count += last - first + 1
        steps.append((first, last, value))

    def _insert(self, first: int, last: int, value: int) -> None:
        """As `add`, where there are others behind, or some of these."""
        self.forget(first, last)
        steps, at = self._steps, self._at(first) + 1
        self._count += last - first + 1
        if at > self._head and steps[at - 1][1] + 1 == first and steps[at - 1][2] == value:
            at -= 1
            first = steps[at][0]
            del steps[at]
        if at < len(steps) and steps[at][0] == last + 1 and steps[at][2] == value:
            last = steps[at][1]
            del steps[at]
        steps.insert(max(at, self._head), (first, last, value))

    def between(self, first: int, last: int) -> Iterator[Step]:
        """The steps between two positions, those at the ends as far as they are between them."""
        at = max(self._at(first), self._head)
        while at < len(self._steps):
            low, high, value = self._steps[at]
            if low > last:
                break
            if high >= first:
                yield max(low, first), min(high, last), value
            at += 1

    def steps(self) -> list[Step]:
        """All steps."""
        return self._steps[self._head :]

    def forget(self, first: int, last: int) -> None:
        """Forgets what stands between two positions."""
        steps = self._steps
        at = max(self._at(first), self._head)
        while at < len(steps) and steps[at][0] <= last:
            low, high, value = steps[at]
            if high < first:
                at += 1
                continue
            self._count -= min(high, last) - max(low, first) + 1
            if low >= first and high <= last:
                is_front = at == self._head
                self._drop(at)
                if is_front:
                    at = self._head
                continue
            if low < first and high > last:
                steps.insert(at + 1, (last + 1, high, value))
            steps[at] = (low, first - 1, value) if low < first else (last + 1, high, value)
            at += 1

    def _drop(self, at: int) -> None:
        """Drops a step; at the front it is left behind, until those are the most."""
        if at > self._head:
            del self._steps[at]
            return
        self._head += 1
        if self._head >= _SWEEP_FROM and 2 * self._head >= len(self._steps):
            del self._steps[: self._head]
            self._head = 0
        elif self._head == len(self._steps):
            self._steps.clear()
            self._head = 0

    def _at(self, position: int) -> int:
        """The index of the last step that begins here or before; before the head: none does."""
        return bisect_right(self._steps, (position, _BEYOND, _BEYOND), self._head) - 1

    # --- as a mapping ------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._count

    def __contains__(self, position: object) -> bool:
        return isinstance(position, int) and self._value(position) is not None

    def _value(self, position: int) -> int | None:
        at = self._at(position)
        if at < self._head:
            return None
        step = self._steps[at]
        return step[2] if position <= step[1] else None

    def __getitem__(self, position: int) -> int:
        value = self._value(position)
        if value is None:
            raise KeyError(position)
        return value

    def __setitem__(self, position: int, value: int) -> None:
        self.add(position, position, value)

    def __delitem__(self, position: int) -> None:
        if position not in self:
            raise KeyError(position)
        self.forget(position, position)

    def __iter__(self) -> Iterator[int]:
        for first, last, _ in self.steps():
            yield from range(first, last + 1)


def forget_within(table: MutableMapping[int, int], positions: Iterable[int]) -> None:
    """Forgets numbers of positions, those that there are."""
    if isinstance(table, Steps):
        for position in positions:
            table.forget(position, position)
        return
    for position in positions:
        table.pop(position, None)
