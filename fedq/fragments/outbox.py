"""What a fragment wants done with its events: data only.

`records` holds, in event order, what the journal and every backup must get: *the same bytes*.
`owed` is the after-commit lane: what may be said to publishers once an event is committed.
The node empties `records` every turn and pops `owed` from the left as the commit mark rises.
"""

from collections import deque
from typing import NamedTuple

from fedq.core.ids import Origin


class RecordOut(NamedTuple):
    """One journal record and the events it stands for."""

    #: The highest event number in the record.
    last: int
    #: The highest message position in the record; 0 if it holds no message.
    max_position: int
    data: bytes
    #: It says something about persistent messages: it belongs into the journal.
    journal: bool
    #: Persistent messages begin here: a commit waits for the disk.
    sync: bool


class FragmentOut:
    """The lanes of one fragment."""

    __slots__ = ("owed", "records")

    def __init__(self) -> None:
        self.records: list[RecordOut] = []
        #: (event, origin, through): once `event` is committed, `origin`'s publishes up to
        #: `through` are safe.
        self.owed: deque[tuple[int, Origin, int]] = deque()
