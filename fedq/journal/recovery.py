"""Folds the journal back into what it says: live messages and progress of every fragment.

Inputs: the segments in order, one at a time. Output: `Recovered`. Rules:

* Only the last segment can end in the middle of a write, since a segment is fsynced before the
  next one is made. What cannot be read at its end, and no mark calls synced
  (`fedq.journal.marks`), is a torn tail: what was never confirmed. It is cut and counted.
* Anything else that cannot be read, and a missing segment, is *damage*: what was confirmed may be
  lost. `recover` raises `CorruptJournal`; `salvage` notes it and goes on behind it, with the next
  mark or the next segment, for a node whose copies others can make whole again.
* A whole record that this version cannot read is `CorruptJournal` in any case.
* Transient messages do not outlive the process, even if they shared a record with others.
* A note counts for a message that is there. Of one that is not there yet, a copy's chunk that
  brings it brings its notes, too.

Recovering the same segments twice gives the same result.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, assert_never

from fedq.core.errors import NodeFailure
from fedq.core.ids import FragmentId, Origin, first_position
from fedq.core.message import FLAG_PERSISTENT
from fedq.core.ranges import Range, within
from fedq.journal.decoding import CorruptRecord, ForeignRecord, singles
from fedq.journal.marks import Mark, next_mark, was_synced
from fedq.journal.notes import Notes, forget_notes, take_notes
from fedq.journal.reader import read
from fedq.journal.records import Copy, Drop, Enqueue, Keep, Note, Reset, Settle, Single
from fedq.journal.segments import Segment

#: Its presence says that an operator knows of the damage and wants the node to start.
ACCEPT_NAME: Final = "accept-loss"


class CorruptJournal(NodeFailure):
    """Confirmed messages may be lost: `segment` is damaged from byte `offset` on."""

    def __init__(self, segment: int, offset: int, reason: str) -> None:
        super().__init__(
            f"journal segment {segment} cannot be read from byte {offset} on: {reason}. "
            "This node has the only copy of its messages, so it does not start by itself: restore "
            "the file from a backup; or run `fedq store accept-loss` on the data directory and "
            "start again, and the node goes on with what can be read (the damaged file is kept)"
        )
        self.segment = segment
        self.offset = offset
        self.reason = reason


class Damage(NamedTuple):
    """Bytes `first` up to `stop` of a segment cannot be read, though they were on disk once."""

    segment: int
    first: int
    stop: int
    reason: str


@dataclass(slots=True)
class RecoveredFragment:
    """One fragment as the journal knows it."""

    #: Live persistent messages by position, ascending.
    messages: dict[int, bytes] = field(default_factory=dict)
    #: The highest event number seen.
    last: int = 0
    reign: int = 0
    #: The highest publish number of each origin.
    origins: dict[Origin, int] = field(default_factory=dict)
    #: What is known of live messages: by kind (`fedq.journal.records.NOTES`), by position.
    notes: Notes = field(default_factory=dict)
    #: It is not a copy that was still being made: of such a one older messages may be missing.
    whole: bool = True


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

    @classmethod
    def empty(cls) -> "Recovered":
        """What a node knows that never ran before."""
        return cls()


def recover(segments: Iterable[tuple[int, bytes]]) -> Recovered:
    """Folds (number, bytes) of all segments in ascending order; raises `CorruptJournal`.

    Takes one segment at a time, so that an iterator never holds two of them.
    """
    recovered = salvage(segments)
    if recovered.damages:
        damage = recovered.damages[0]
        raise CorruptJournal(damage.segment, damage.first, damage.reason)
    return recovered


def salvage(segments: Iterable[tuple[int, bytes]]) -> Recovered:
    """The same, of whatever can be read; what cannot is in `damages`.

    Raises `CorruptJournal` only for records of a newer version.
    """
    recovered = Recovered()
    tear: Damage | None = None
    for number, data in segments:
        if tear is not None:
            # Its segment is not the last one, so it was on disk.
            recovered.damages.append(tear)
        expected = recovered.segments[-1].number + 1 if recovered.segments else number
        for missing in range(expected, number):
            recovered.segments.append(Segment(missing))
            recovered.damages.append(Damage(missing, 0, 0, "the segment is missing"))
        segment = Segment(number)
        recovered.segments.append(segment)
        tear = _fold_segment(recovered, segment, data)
    recovered.torn_bytes = tear.stop - tear.first if tear is not None else 0
    for fragment in recovered.fragments.values():
        _sort_messages(fragment)
    return recovered


def mended(data: bytes, damages: Iterable[Damage], torn_bytes: int = 0) -> bytes:
    """A segment without its damage and its torn end."""
    parts: list[bytes] = []
    at = 0
    for damage in damages:
        parts.append(data[at : damage.first])
        at = damage.stop
    parts.append(data[at : len(data) - torn_bytes])
    return b"".join(parts)


def _fold_segment(recovered: Recovered, segment: Segment, data: bytes) -> Damage | None:
    """Applies the whole records of a segment; returns the end that is none, if there is such."""
    at = 0
    nonce: int | None = None
    while True:
        try:
            for offset, size, record in read(data, at):
                if isinstance(record, Mark):
                    nonce = record.nonce if record.segment == segment.number else nonce
                else:
                    for single in singles((record,)):
                        _apply(recovered.fragments, segment.highest, single)
                segment.size += size
                at = offset + size
        except ForeignRecord as error:
            raise CorruptJournal(segment.number, error.offset, error.reason) from error
        except CorruptRecord as error:
            if not was_synced(data, at, segment.number, nonce):
                return Damage(segment.number, at, len(data), error.reason)
            behind = next_mark(data, at, segment.number, nonce)
            assert behind is not None, "some mark said that it was synced"
            recovered.damages.append(Damage(segment.number, at, behind[0], error.reason))
            at = behind[0]
        else:
            return None


def _apply(
    fragments: dict[FragmentId, RecoveredFragment],
    highest: dict[FragmentId, int],
    record: Single,
) -> None:
    if isinstance(record, Drop):
        fragments.pop(record.fragment, None)
        return
    if isinstance(record, Reset):
        fragments[record.fragment] = RecoveredFragment(last=record.base, reign=record.reign)
        return
    fragment = fragments.get(record.fragment)
    if fragment is None:
        fragment = fragments[record.fragment] = RecoveredFragment()
    fragment.reign = max(fragment.reign, record.reign)
    match record:
        case Enqueue():
            positions = range(record.first_position, record.last_position + 1)
            _add(fragment, highest, record.fragment, positions, record.messages)
            fragment.last = max(fragment.last, record.last_position)
            _raise_origins(fragment, {record.origin: record.last_number})
        case Copy() if not record.positions and not record.origins:
            fragment.whole = True
            fragment.last = max(fragment.last, first_position(record.reign))
        case Copy():
            _add(fragment, highest, record.fragment, record.positions, record.messages)
            fragment.last = max(fragment.last, max(record.positions, default=0))
            _raise_origins(fragment, record.origins)
        case Settle():
            _remove(fragment, record.ranges)
            fragment.last = max(fragment.last, record.event)
        case Keep():
            _remove(fragment, record.dropped)
            fragment.last = max(fragment.last, record.base)
            fragment.whole = False
        case Note():
            take_notes(fragment.notes, record.what, record.values, fragment.messages)
            fragment.last = max(fragment.last, record.event)
        case _:
            assert_never(record)


def _add(
    fragment: RecoveredFragment,
    highest: dict[FragmentId, int],
    identity: FragmentId,
    positions: Iterable[int],
    messages: list[bytes],
) -> None:
    kept = {
        position: message
        for position, message in zip(positions, messages, strict=True)
        if message[0] & FLAG_PERSISTENT
    }
    if kept:
        fragment.messages |= kept
        highest[identity] = max(highest.get(identity, 0), max(kept))


def _remove(fragment: RecoveredFragment, ranges: list[Range]) -> None:
    gone = within(ranges, fragment.messages)
    for position in gone:
        fragment.messages.pop(position, None)
    forget_notes(fragment.notes, gone)


def _raise_origins(fragment: RecoveredFragment, origins: dict[Origin, int]) -> None:
    known = fragment.origins
    for origin, number in origins.items():
        known[origin] = max(known.get(origin, 0), number)


def _sort_messages(fragment: RecoveredFragment) -> None:
    """Copies arrive newest first; the queue wants the oldest first."""
    ascending = sorted(fragment.messages)
    if ascending != list(fragment.messages):
        fragment.messages = {position: fragment.messages[position] for position in ascending}
