"""Which messages of a copy that are kept singly are to be looked at next, to leave memory.

Inputs: positions as messages come, and when something that kept one here is no more. Outputs: the
next positions, each once: so a message that stays is not looked at again and again, in front of
those that may go. Invariants: in the order in which they came, so that what had come by some time
is told by a number; a position may be gone by then, or be told twice; there are not many more of
them than messages.
"""

from collections import deque
from collections.abc import Container, Iterable, Sequence, Sized
from typing import Final, Protocol

#: Positions beyond twice the messages, from which on those are forgotten whose messages are gone.
_SPARE: Final = 1_024


class _Here(Sized, Container[int], Protocol):
    """The positions of messages that are here."""


class Leaving:
    """Positions in the order in which they came."""

    __slots__ = ("_looked", "_waiting")

    def __init__(self, positions: Iterable[int] = ()) -> None:
        self._waiting = deque(positions)
        #: How many were looked at.
        self._looked = 0

    @property
    def arrived(self) -> int:
        """How many have come, ever."""
        return self._looked + len(self._waiting)

    def add(self, positions: Iterable[int], here: _Here) -> None:
        """Adds positions of messages that have come, or that something kept here until now.

        `here`: those that are not gone.
        """
        self._waiting.extend(positions)
        if len(self._waiting) > 2 * len(here) + _SPARE:
            # Which of them had come by an earlier time is not known any more: none counts as such.
            self._looked = self.arrived
            left = dict.fromkeys(position for position in self._waiting if position in here)
            self._waiting = deque(left)

    def take(self, most: int, arrived: int | None = None) -> list[int]:
        """Takes the next ones, at most so many; those that were here when so many had come."""
        if arrived is not None:
            most = min(most, arrived - self._looked)
        positions = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
        self._looked += len(positions)
        return positions

    def put_back(self, positions: Sequence[int]) -> None:
        """Puts some back that were taken last: they are looked at again."""
        self._waiting.extendleft(reversed(positions))
        self._looked -= len(positions)
