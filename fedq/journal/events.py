"""What records say, once they are decoded: the events of fragments, and checkpoints.

Data only. `fedq.journal.records` has the layout and encodes, `fedq.journal.decoding` decodes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from fedq.core.ids import FragmentId, Origin
from fedq.core.limits import PUBLISHERS_KNOWN_MAX
from fedq.core.ranges import Range


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Messages at consecutive positions from `first_position`, published by one origin.

    `first_number` is the origin's number of the first one; the others follow without gaps.
    """

    fragment: FragmentId
    reign: int
    first_position: int
    origin: Origin
    first_number: int
    #: Sent before, to an earlier primary.
    resent: bool
    messages: list[bytes]

    @property
    def last_position(self) -> int:
        """The position of the last message; also the record's last event number."""
        return self.first_position + len(self.messages) - 1

    @property
    def last_number(self) -> int:
        """The origin's number of the last message."""
        return self.first_number + len(self.messages) - 1


@dataclass(frozen=True, slots=True)
class Copy:
    """Old messages for a backup that catches up, and how far each origin's publishes got."""

    fragment: FragmentId
    reign: int
    positions: list[int]
    messages: list[bytes]
    #: The highest publish number of each origin.
    origins: dict[Origin, int]


@dataclass(frozen=True, slots=True)
class Settle:
    """Event number `event`: the messages in `ranges` are gone for good, for whatever reason."""

    fragment: FragmentId
    reign: int
    event: int
    ranges: list[Range]


@dataclass(frozen=True, slots=True)
class Reset:
    """The start of a whole copy after event `base`: forget everything before."""

    fragment: FragmentId
    reign: int
    base: int


@dataclass(frozen=True, slots=True)
class Keep:
    """The start of an incremental copy after event `base`: forget `dropped`, keep the rest."""

    fragment: FragmentId
    reign: int
    base: int
    dropped: list[Range]


@dataclass(frozen=True, slots=True)
class Drop:
    """The fragment is gone from this node."""

    fragment: FragmentId
    reign: int


@dataclass(frozen=True, slots=True)
class Note:
    """Event number `event`: what is known from now on of some messages, in place of earlier notes.

    A value of 0 takes the note away: all four kinds speak of something that is not there, then.
    """

    fragment: FragmentId
    reign: int
    event: int
    #: One of `NOTES`.
    what: int
    #: By position.
    values: dict[int, int]


@dataclass(frozen=True, slots=True)
class Seen:
    """Event number `event`: of what is here, that in `ranges` may have been seen; nothing else was.

    The primary that says so hands out nothing more. Void but for a reign that begins at the very
    next epoch (docs/adr/0046).
    """

    fragment: FragmentId
    reign: int
    event: int
    #: At which the primary said so.
    epoch: int
    ranges: list[Range]


@dataclass(frozen=True, slots=True)
class Readers:
    """As of event `event`: where named readers of a stream go on. No event itself (ADR 0063)."""

    fragment: FragmentId
    reign: int
    event: int
    #: There are no others.
    whole: bool
    #: Positions by name; 0: the name is forgotten.
    places: dict[str, int]

    def taken(self, known: Mapping[str, int]) -> dict[str, int]:
        """What is known with this."""
        places = {**({} if self.whole else known), **self.places}
        return {name: position for name, position in places.items() if position}


class PublisherMark(NamedTuple):
    """What a fragment has taken of a publisher with a name (docs/adr/0078)."""

    #: The highest sequence; 0: the name is forgotten, in a record of `SOME`.
    highest: int
    #: Sequences that it refused, ascending: these it has not taken. As in records, since a tuple of
    #: them would take eight times as much (`fedq.core.ranges.pack_ranges`).
    refused: bytes = b""


FORGOTTEN: Final = PublisherMark(0)


@dataclass(frozen=True, slots=True)
class Publishers:
    """As of event `event`: what was taken of publishers with names. No event itself (ADR 0078).

    In the order of when something was taken of them last: who comes first is forgotten first.
    """

    fragment: FragmentId
    reign: int
    event: int
    #: One of `SOME`, `ALL`, `SURE`.
    kind: int
    marks: dict[str, PublisherMark]

    @property
    def forgets(self) -> bool:
        """Whether some name is forgotten."""
        return any(not mark.highest for mark in self.marks.values())

    def take_into(self, known: dict[str, PublisherMark]) -> dict[str, PublisherMark]:
        """Takes it into what is known, the same on all copies; returns what is forgotten.

        What it costs goes by what the record says, not by what is known.
        """
        gone: dict[str, PublisherMark] = {}
        if self.kind != SOME:
            gone = {name: mark for name, mark in known.items() if name not in self.marks}
            known.clear()
        for name, mark in self.marks.items():
            before = known.pop(name, FORGOTTEN)
            if mark.highest:
                known[name] = mark
            else:
                gone[name] = before
        while len(known) > PUBLISHERS_KNOWN_MAX:
            first = next(iter(known))
            gone[first] = known.pop(first)
        return gone


#: Of some publishers; of others it says nothing.
SOME: Final = 0
#: Of all that there are.
ALL: Final = 1
#: Of all of which the copy surely has everything, whose making begins with this.
SURE: Final = 2


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a fragment stands as of event `event`, for the checkpoint begun at `segment`."""

    fragment: FragmentId
    reign: int
    segment: int
    event: int
    #: It is not a copy that is still being made.
    whole: bool
    #: The highest publish number of each origin.
    origins: dict[Origin, int]


@dataclass(frozen=True, slots=True)
class Live:
    """Persistent messages that are alive, says the checkpoint begun at `segment`."""

    fragment: FragmentId
    reign: int
    segment: int
    ranges: list[Range]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint begun at `segment` is complete: no segment before is needed for its events."""

    fragment: FragmentId
    reign: int
    segment: int


#: Any record but a group.
Single: TypeAlias = (
    Enqueue
    | Copy
    | Settle
    | Reset
    | Keep
    | Drop
    | Note
    | Seen
    | Readers
    | Publishers
    | Standing
    | Live
    | Checkpoint
)
#: Those that only this node itself writes, about its own disk.
OWN: Final = (Standing, Live, Checkpoint)


@dataclass(frozen=True, slots=True)
class Group:
    """Records of one fragment under one checksum: a torn write keeps all or none of them."""

    fragment: FragmentId
    reign: int
    records: list[Single]


Record: TypeAlias = Single | Group
