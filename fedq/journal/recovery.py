"""Folds the journal back into what it says: live messages and progress of every fragment.

Inputs: the segments in order, one at a time. Output: `Recovered`. Rules:

* Only the last segment can end in the middle of a write, since a segment is fsynced before the
  next one is made. Damage there is a torn tail: what was never confirmed. It is cut and counted.
* Damage anywhere else, a missing segment, or a whole record that this version cannot read is
  `CorruptJournal`: what was confirmed may be lost, so the node refuses to start.
* Transient messages do not outlive the process, even if they shared a record with others.
* A note counts for a message that is there. Of one that is not there yet, a copy's chunk that
  brings it brings its notes, too.

Recovering the same segments twice gives the same result.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from fedq.core.errors import NodeFailure
from fedq.core.ids import FragmentId, Origin
from fedq.core.message import FLAG_PERSISTENT
from fedq.core.ranges import Range, within
from fedq.journal.decoding import CorruptRecord, ForeignRecord, singles
from fedq.journal.notes import Notes, forget_notes, take_notes
from fedq.journal.reader import read
from fedq.journal.records import Copy, Drop, Enqueue, Keep, Note, Reset, Settle, Single
from fedq.journal.segments import Segment


class CorruptJournal(NodeFailure):
    """Confirmed messages may be lost: `segment` is damaged from byte `offset` on."""

    def __init__(self, segment: int, offset: int, reason: str) -> None:
        super().__init__(
            f"journal segment {segment} cannot be read from byte {offset} on: {reason}. "
            "The node does not start on a damaged journal: restore the file, or move the journal "
            "away so that this node is copied anew from the others"
        )
        self.segment = segment
        self.offset = offset
        self.reason = reason


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


@dataclass(slots=True)
class Recovered:
    """What a node knows from its disk when it starts."""

    fragments: dict[FragmentId, RecoveredFragment] = field(default_factory=dict)
    #: The segments on disk, ascending; a `SegmentPlan` starts from them. The size of the last one
    #: is where its torn tail, if any, begins.
    segments: list[Segment] = field(default_factory=list)
    #: How many bytes at the end of the last segment were no whole record.
    torn_bytes: int = 0

    @classmethod
    def empty(cls) -> "Recovered":
        """What a node knows that never ran before."""
        return cls()


def recover(segments: Iterable[tuple[int, bytes]]) -> Recovered:
    """Folds (number, bytes) of all segments in ascending order; raises `CorruptJournal`.

    Takes one segment at a time, so that an iterator never holds two of them.
    """
    recovered = Recovered()
    tear: CorruptRecord | None = None
    for number, data in segments:
        if recovered.segments:
            previous = recovered.segments[-1]
            if tear is not None:
                raise CorruptJournal(previous.number, tear.offset, tear.reason)
            if number != previous.number + 1:
                raise CorruptJournal(previous.number + 1, 0, "the segment is missing")
        segment = Segment(number)
        recovered.segments.append(segment)
        tear = _fold_segment(recovered.fragments, segment, data)
        recovered.torn_bytes = len(data) - segment.size
    for fragment in recovered.fragments.values():
        _sort_messages(fragment)
    return recovered


def _fold_segment(
    fragments: dict[FragmentId, RecoveredFragment], segment: Segment, data: bytes
) -> CorruptRecord | None:
    """Applies the whole records of a segment; returns why the rest is none, if there is a rest."""
    try:
        for offset, size, record in read(data):
            for single in singles((record,)):
                _apply(fragments, segment.highest, single)
            segment.size = offset + size
    except ForeignRecord as error:
        raise CorruptJournal(segment.number, error.offset, error.reason) from error
    except CorruptRecord as error:
        return error
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
