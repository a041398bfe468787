"""Counters that all processes of a run see: one row for each, written by its owner alone.

In shared memory made before the processes part, so that reading them costs no message and the
parent can take all at one moment. Values only grow.
"""

import mmap
from enum import IntEnum, auto
from typing import Final

_CELL: Final = 8


class Cell(IntEnum):
    """What a process counts."""

    #: Messages handed to the broker.
    PUBLISHED = 0
    CONFIRMED = auto()
    #: Publishes that the broker refused with basic.nack.
    REFUSED = auto()
    DELIVERED = auto()
    #: Deliveries that the broker owes for what was published.
    OWED = auto()
    #: Connections that are ready.
    CONNECTED = auto()


class Board:
    """The rows of all processes."""

    __slots__ = ("_cells", "_rows")

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._cells = memoryview(mmap.mmap(-1, rows * len(Cell) * _CELL)).cast("Q")

    def add(self, row: int, cell: Cell, amount: int) -> None:
        """Adds to a counter; only the owner of the row may."""
        self._cells[row * len(Cell) + cell] += amount

    def of(self, row: int, cell: Cell) -> int:
        """One process's count."""
        return self._cells[row * len(Cell) + cell]

    def total(self, cell: Cell) -> int:
        """The sum over all processes."""
        return sum(self._cells[cell :: len(Cell)])
