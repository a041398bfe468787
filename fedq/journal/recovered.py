"""What a journal says of a node's fragments: the outcome of `fedq.journal.recovery`. Data only."""

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from fedq.core.ids import FragmentId, Origin
from fedq.core.ranges import Range
from fedq.journal.bare import Bare
from fedq.journal.events import PublisherMark, Seen
from fedq.journal.notes import Notes
from fedq.journal.segments import Segment

#: Stands for a message that is alive, until its body is found.
ABSENT: Final = b""


class Damage(NamedTuple):
    """Bytes `first` up to `stop` of a segment cannot be read, though they were on disk once."""

    segment: int
    first: int
    stop: int
    reason: str


@dataclass(slots=True)
class RecoveredFragment:
    """One fragment as the journal knows it."""

    #: Live persistent messages by position, ascending; but for those that are stowed.
    messages: dict[int, bytes] = field(default_factory=dict)
    #: The highest event number seen.
    last: int = 0
    reign: int = 0
    #: The highest publish number of each origin.
    origins: dict[Origin, int] = field(default_factory=dict)
    #: What is known of live messages: by kind (`fedq.journal.records.NOTES`), by position. Stowed
    #: ones have notes, too.
    notes: Notes = field(default_factory=dict)
    #: It is not a copy that was still being made: of such a one older messages may be missing.
    whole: bool = True
    #: What its last primary said that was seen; None: it is not known.
    seen: Seen | None = None
    #: Where its named readers go on; replaced, never changed.
    readers: dict[str, int] = field(default_factory=dict)
    #: What was surely taken of publishers with names; and, of a copy that is not whole, what its
    #: primary had taken (docs/adr/0078).
    publishers: dict[str, PublisherMark] = field(default_factory=dict)
    publishers_ahead: dict[str, PublisherMark] = field(default_factory=dict)
    #: The journal has it. (What this node led, and cannot take up again, need not be there.)
    durable: bool = True
    #: Live persistent messages whose bodies are on disk alone: first position, last position,
    #: and about how many bytes their records take. They ascend; there are no gaps inside.
    stowed: list[tuple[int, int, int]] = field(default_factory=list)
    #: The same, of what this node led, and has in scratch files.
    scratched: list[tuple[int, int, int]] = field(default_factory=list)
    #: What is alive, while it is folded without bodies.
    bare: Bare | None = field(default=None, compare=False, repr=False)
    #: The bytes of its messages; 0: nobody has asked yet.
    _size: int = field(default=0, compare=False)

    @property
    def size(self) -> int:
        """The bytes of its messages, which do not change any more; counted once.

        Of those that are stowed they are about these.
        """
        if not self._size:
            self._size = sum(map(len, self.messages.values())) + sum(
                taken for _, _, taken in self.stowed
            )
        return self._size

    @property
    def live(self) -> Container[int]:
        """The positions of live messages, while the journal is folded."""
        return self.bare if self.bare is not None else self.messages

    @property
    def count(self) -> int:
        """How many messages it has, in memory and on disk alone."""
        return len(self.messages) + sum(last - first + 1 for first, last, _ in self.stowed)

    @property
    def oldest(self) -> int | None:
        """The lowest position of a message."""
        places = [next(iter(self.messages), None), self.stowed[0][0] if self.stowed else None]
        return min((place for place in places if place is not None), default=None)


@dataclass(slots=True)
class Recovered:
    """What a node knows from its disk when it starts."""

    fragments: dict[FragmentId, RecoveredFragment] = field(default_factory=dict)
    #: The segments on disk, ascending; a `SegmentPlan` starts from them. The size of the last one
    #: is where its torn tail, if any, begins.
    segments: list[Segment] = field(default_factory=list)
    #: How many bytes at the end of the last segment were no whole record.
    torn_bytes: int = 0
    #: What `salvage` could not read, in order. The segments' sizes are without it.
    damages: list[Damage] = field(default_factory=list)
    #: The segment at which the last complete checkpoint begins: those before have nothing but
    #: bodies of what is alive. 0: there is none.
    checkpoint: int = 0
    #: What is alive, as the checkpoint says, and is in no segment that can be read.
    lost: dict[FragmentId, list[Range]] = field(default_factory=dict)
    #: What cannot be read in segments before the checkpoint: nothing that is alive was there.
    rotten: list[Damage] = field(default_factory=list)
    #: Fragments one of whose records could not be taken in.
    failed: dict[FragmentId, None] = field(default_factory=dict)
    #: It is folded without bodies.
    without_bodies: bool = False

    def new_fragment(self, last: int = 0, reign: int = 0) -> RecoveredFragment:
        """A fragment of which nothing is known."""
        bare = Bare() if self.without_bodies else None
        return RecoveredFragment(last=last, reign=reign, bare=bare)

    @classmethod
    def empty(cls) -> "Recovered":
        """What a node knows that never ran before."""
        return cls()
