"""Folds the journal back into what it says: live messages and progress of every fragment.

Inputs: the segments in order, one at a time. Output: `Recovered`. Rules:

* Only the last segment can end in the middle of a write, since a segment is fsynced before the
  next one is made. What cannot be read at its end, and no mark calls synced
  (`fedq.journal.marks`), is a torn tail: what was never confirmed. It is cut and counted.
* Anything else that cannot be read, and a missing segment, is *damage*: what was confirmed may be
  lost. `recover` raises `CorruptJournal`; `salvage` notes it and goes on behind it, with the next
  mark or the next segment, for a node whose copies others can make whole again.
* A whole record that this release fails at, in reading or in applying it, is damage, too, to the
  byte: it says so with every start until it is out of the way (docs/adr/0042). It has changed
  nothing, and the fragment counts as no whole copy.
* A record of a newer release is `CorruptJournal` in any case: that release can read it.
* Transient messages do not outlive the process, even if they shared a record with others.
* A note counts for a message that is there. Of one that is not there yet, a copy's chunk that
  brings it brings its notes, too.

Recovering the same segments twice gives the same result.
"""

import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, assert_never

from fedq.core.errors import NodeFailure
from fedq.core.ids import FragmentId, Origin, first_position
from fedq.core.message import FLAG_PERSISTENT
from fedq.core.ranges import Range, within
from fedq.journal.decoding import CorruptRecord, NewerRecord, end_of
from fedq.journal.marks import Mark, next_mark, was_synced
from fedq.journal.notes import Notes, forget_notes, take_notes
from fedq.journal.reader import read
from fedq.journal.records import (
    BASE,
    FRAME,
    HEAD,
    KIND_ENQUEUE,
    KIND_NOTE,
    KIND_SETTLE,
    Copy,
    Drop,
    Enqueue,
    Group,
    Keep,
    Note,
    Record,
    Reset,
    Seen,
    Settle,
    Single,
)
from fedq.journal.segments import KEEP_POSITION, Segment

#: Records of these kinds begin with a position, or the number of an event.
_PLACED: Final = (KIND_ENQUEUE, KIND_SETTLE, KIND_NOTE)
#: What is told of an exception's own words.
_WORDS_MAX: Final = 200
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
    #: What its last primary said that was seen; None: it is not known.
    seen: Seen | None = None


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
    #: Fragments one of whose records could not be taken in.
    failed: dict[FragmentId, None] = field(default_factory=dict)

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
    """As `recover`, of whatever can be read; what cannot is in `damages`.

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
    for identity, fragment in recovered.fragments.items():
        _sort_messages(fragment)
        fragment.whole = fragment.whole and identity not in recovered.failed
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
    """Applies the whole records of a segment; returns the record that ends it, if it is none."""
    at = 0
    nonce: int | None = None
    while True:
        try:
            for offset, size, record in read(data, at):
                if isinstance(record, Mark):
                    nonce = record.nonce if record.segment == segment.number else nonce
                else:
                    _apply_whole(recovered, segment.highest, record)
                segment.size += size
                at = offset + size
        except NewerRecord as error:
            raise CorruptJournal(segment.number, error.offset, error.reason) from error
        except MemoryError:
            # Nothing is wrong with the record.
            raise
        except Exception as failure:
            stop = end_of(data, at)
            if stop is not None:
                reason = _why_set_aside(recovered, data, at, failure)
            else:
                torn = isinstance(failure, CorruptRecord)
                reason = failure.reason if isinstance(failure, CorruptRecord) else _words(failure)
                if torn and not was_synced(data, at, segment.number, nonce):
                    return Damage(segment.number, at, len(data), reason)
                behind = next_mark(data, at, segment.number, nonce)
                stop = behind[0] if behind is not None else len(data)
            recovered.damages.append(Damage(segment.number, at, stop, reason))
            at = stop
        else:
            return None


def _why_set_aside(recovered: Recovered, data: bytes, at: int, failure: Exception) -> str:
    """Sets a whole record aside that this release fails at; returns whose it is, and why."""
    _, kind, number, _ = HEAD.unpack_from(data, at + FRAME.size)
    recovered.failed[FragmentId(number)] = None
    whose = f"fragment {number}"
    place_at = at + FRAME.size + HEAD.size
    if kind in _PLACED and place_at + BASE.size <= len(data):
        whose += f", position {BASE.unpack_from(data, place_at)[0]}"
    why = failure.reason if isinstance(failure, CorruptRecord) else _words(failure)
    return f"this release fails at a whole record of {whose}: {why}"


def _words(error: Exception) -> str:
    """Kind, words and place of an exception that is a bug, bounded."""
    place = "".join(
        f" in {frame.name}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)[-1:]
    )
    return f"{type(error).__name__}: {str(error)[:_WORDS_MAX]}{place}"


def _apply_whole(recovered: Recovered, highest: dict[FragmentId, int], record: Record) -> None:
    """Applies a record; what raises leaves all as it was, of a group, too."""
    if not isinstance(record, Group):
        _apply(recovered, highest, record)
        return
    identity = record.fragment
    fragment = recovered.fragments.get(identity)
    before = _Before(fragment, highest.get(identity))
    try:
        for single in record.records:
            if fragment is not None:
                before.note(fragment, single)
            _apply(recovered, highest, single)
    except Exception:
        recovered.fragments.pop(identity, None)
        highest.pop(identity, None)
        if before.highest is not None:
            highest[identity] = before.highest
        if fragment is not None:
            before.put_back(fragment)
            recovered.fragments[identity] = fragment
        raise


class _Before:
    """What a group is about to change of a fragment, as it was before."""

    __slots__ = ("_messages", "_notes", "_origins", "_scalars", "highest")

    def __init__(self, fragment: RecoveredFragment | None, highest: int | None) -> None:
        self.highest = highest
        self._scalars: tuple[int, int, bool, Seen | None] = (0, 0, True, None)
        if fragment is not None:
            self._scalars = (fragment.last, fragment.reign, fragment.whole, fragment.seen)
        self._messages: dict[int, bytes | None] = {}
        self._notes: dict[int, dict[int, int]] = {}
        self._origins: dict[Origin, int | None] = {}

    def note(self, fragment: RecoveredFragment, single: Single) -> None:
        """Keeps what one record of the group, which is about to be applied, would change."""
        match single:
            case Enqueue():
                touched = list(range(single.first_position, single.last_position + 1))
                self._origins.setdefault(single.origin, fragment.origins.get(single.origin))
            case Copy():
                touched = single.positions
                for origin in single.origins:
                    self._origins.setdefault(origin, fragment.origins.get(origin))
            case Settle():
                touched = within(single.ranges, fragment.messages)
            case Keep():
                touched = within(single.dropped, fragment.messages)
            case Note():
                touched = list(single.values)
            case _:
                # A fragment of its own takes the place of this one.
                touched = []
        for position in touched:
            if position not in self._messages:
                self._messages[position] = fragment.messages.get(position)
                for what, table in fragment.notes.items():
                    if position in table:
                        self._notes.setdefault(what, {})[position] = table[position]

    def put_back(self, fragment: RecoveredFragment) -> None:
        """Undoes what was changed since."""
        for position, message in self._messages.items():
            fragment.messages.pop(position, None)
            if message is not None:
                fragment.messages[position] = message
        for table in fragment.notes.values():
            for position in self._messages:
                table.pop(position, None)
        for what, values in self._notes.items():
            fragment.notes.setdefault(what, {}).update(values)
        for what in [what for what, table in fragment.notes.items() if not table]:
            del fragment.notes[what]
        for origin, number in self._origins.items():
            fragment.origins.pop(origin, None)
            if number is not None:
                fragment.origins[origin] = number
        fragment.last, fragment.reign, fragment.whole, fragment.seen = self._scalars


def _apply(recovered: Recovered, highest: dict[FragmentId, int], record: Single) -> None:
    """Decides, then applies: what raises leaves all as it was."""
    fragments = recovered.fragments
    if isinstance(record, Drop):
        fragments.pop(record.fragment, None)
        recovered.failed.pop(record.fragment, None)
        return
    if isinstance(record, Reset):
        fragments[record.fragment] = RecoveredFragment(last=record.base, reign=record.reign)
        recovered.failed.pop(record.fragment, None)
        return
    fragment = fragments.get(record.fragment) or RecoveredFragment()
    match record:
        case Enqueue():
            positions = range(record.first_position, record.last_position + 1)
            last, origins = record.last_position, {record.origin: record.last_number}
            _add(fragment, highest, record, positions, origins)
            fragment.last = max(fragment.last, last)
            if record.resent:
                fragment.seen = None
        case Copy() if not record.positions and not record.origins:
            last = first_position(record.reign)
            fragment.whole = True
            fragment.last = max(fragment.last, last)
        case Copy():
            last = max(record.positions, default=0)
            _add(fragment, highest, record, record.positions, record.origins)
            fragment.last = max(fragment.last, last)
        case Settle():
            _remove(fragment, record.ranges)
            fragment.last = max(fragment.last, record.event)
        case Keep():
            highest[record.fragment] = max(highest.get(record.fragment, 0), KEEP_POSITION)
            _remove(fragment, record.dropped)
            fragment.last = max(fragment.last, record.base)
            fragment.whole = False
            fragment.seen = None
        case Note():
            take_notes(fragment.notes, record.what, record.values, fragment.messages)
            fragment.last = max(fragment.last, record.event)
        case Seen():
            fragment.last = max(fragment.last, record.event)
            fragment.seen = record
        case _:
            assert_never(record)
    fragment.reign = max(fragment.reign, record.reign)
    fragments[record.fragment] = fragment


def _add(
    fragment: RecoveredFragment,
    highest: dict[FragmentId, int],
    record: Enqueue | Copy,
    positions: Iterable[int],
    origins: dict[Origin, int],
) -> None:
    kept = {
        position: message
        for position, message in zip(positions, record.messages, strict=True)
        if message[0] & FLAG_PERSISTENT
    }
    known = fragment.origins
    raised = {origin: max(known.get(origin, 0), number) for origin, number in origins.items()}
    if kept:
        fragment.messages |= kept
        highest[record.fragment] = max(highest.get(record.fragment, 0), max(kept))
    known |= raised


def _remove(fragment: RecoveredFragment, ranges: list[Range]) -> None:
    gone = within(ranges, fragment.messages)
    forget_notes(fragment.notes, gone)
    for position in gone:
        fragment.messages.pop(position, None)


def _sort_messages(fragment: RecoveredFragment) -> None:
    """Sorts messages by position: copies arrive newest first, the queue wants the oldest first."""
    ascending = sorted(fragment.messages)
    if ascending != list(fragment.messages):
        fragment.messages = {position: fragment.messages[position] for position in ascending}
