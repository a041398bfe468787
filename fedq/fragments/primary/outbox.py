"""What a fragment wants done with its events: data only.

`records` holds, in event order, what the journal and every backup must get: *the same bytes*.
`owed` is the after-commit lane: what may be said to publishers once an event is committed.
`dead` names messages whose dead-lettering is to begin.
The node empties `records` and `dead` every turn and pops `owed` from the left as the commit mark
rises.
"""

from collections import deque

from fedq.core.ids import Origin
from fedq.fragments.primary.losses import Losses


class RecordOut:
    """Journal records and the events they stand for."""

    __slots__ = ("data", "first_position", "journal", "last", "last_position", "sync")

    def __init__(
        self, last: int, first_position: int, last_position: int, data: bytes, journal: bool,
        sync: bool,
    ) -> None:  # fmt: skip
        #: The highest event number in the records.
        self.last = last
        #: Between which positions their messages stand; 0 if they hold none.
        self.first_position = first_position
        self.last_position = last_position
        #: Empty where nobody else is to know (`fedq.fragments.primary.recorder.SparingRecorder`).
        self.data = data
        #: They say something about persistent messages: they belong into the journal.
        self.journal = journal
        #: Persistent messages begin here: a commit waits for the disk.
        self.sync = sync


class Owed:
    """Once `event` is committed, `origin`'s publishes up to `through` are dealt with.

    They are safe, but for those in `refused`, which are nowhere.
    """

    __slots__ = ("event", "origin", "refused", "through")

    def __init__(self, event: int, origin: Origin, through: int, refused: tuple[int, ...]) -> None:
        self.event = event
        self.origin = origin
        self.through = through
        self.refused = refused


class FragmentOut:
    """The lanes of one fragment."""

    __slots__ = ("_dead", "_owed", "losses", "records")

    def __init__(self) -> None:
        self.records: list[RecordOut] = []
        #: Where messages are noted that leave otherwise than by acknowledgement.
        self.losses: Losses | None = None
        # Most private queues need neither of these, and they are large.
        self._owed: deque[Owed] | None = None
        self._dead: deque[int] | None = None

    @property
    def owed(self) -> deque[Owed]:
        """Notes what is owed once an event is committed (the after-commit lane)."""
        if self._owed is None:
            self._owed = deque()
        return self._owed

    @property
    def dead(self) -> deque[int]:
        """Positions of messages that died and go to the dead-letter exchange."""
        if self._dead is None:
            self._dead = deque()
        return self._dead
