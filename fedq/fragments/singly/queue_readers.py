"""Readers of a queue by reservation: names, and how far each is settled (docs/adr/0107).

A reader has a number, which stands in the notes of what is reserved for it, beside the number of
the batch that this is of. A *mark* is both: `number << BATCH_BITS | batch`; of a name it says up to
which batch all is settled or released.

Inputs: names, marks, as readers say them or an earlier reign has left them. Outputs: marks by name,
for a record. Invariants: numbers are different, from 1 on; batches of a name ascend.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from fedq.core.limits import QUEUE_READERS_MAX

#: Bits of a mark that are the number of a batch; the highest one.
BATCH_BITS: Final = 40
BATCH_MAX: Final = (1 << BATCH_BITS) - 1


class QueueReaders:
    """Names with their marks, and who has each of them in this reign."""

    __slots__ = ("_instances", "_marks")

    def __init__(self, marks: Mapping[str, int]) -> None:
        """`marks`: what an earlier reign has left."""
        self._marks = dict(marks)
        #: The driver that has a name, as far as this reign has heard: no promise, a help.
        self._instances: dict[str, str] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._marks)

    def __len__(self) -> int:
        return len(self._marks)

    @property
    def marks(self) -> dict[str, int]:
        """All of them, for a record."""
        return dict(self._marks)

    def number(self, name: str) -> int:
        """The number of a name; 0: it is not known."""
        return self._marks.get(name, 0) >> BATCH_BITS

    def settled(self, name: str) -> int:
        """Up to which batch all of a name is settled or released; 0: none is."""
        return self._marks.get(name, 0) & BATCH_MAX

    def admit(self, name: str, through: int, busy: Collection[int]) -> bool:
        """Makes a name known, if it is not; false if there are too many others.

        `through`: what its reader knows as settled, from a time when it was known. `busy`: the
        numbers of those that have something reserved: another one is forgotten if there is no room.
        """
        if name in self._marks:
            return True
        if len(self._marks) >= QUEUE_READERS_MAX:
            idle = next((each for each in self._marks if self.number(each) not in busy), None)
            if idle is None:
                return False
            del self._marks[idle]
            self._instances.pop(idle, None)
        numbers = {mark >> BATCH_BITS for mark in self._marks.values()}
        number = next(each for each in range(1, len(numbers) + 2) if each not in numbers)
        self._marks[name] = number << BATCH_BITS | through
        return True

    def settle(self, name: str, through: int) -> bool:
        """Raises the mark of a name that is known; false if it is there already."""
        if through <= self.settled(name):
            return False
        self._marks[name] = self.number(name) << BATCH_BITS | through
        return True

    def claim(self, name: str, instance: str, begins: bool) -> bool:
        """Whether a driver has the name, or gets it since it `begins`, or nobody was heard of."""
        if begins or name not in self._instances:
            self._instances[name] = instance
        return self._instances[name] == instance
