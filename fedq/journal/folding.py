"""Takes records in, one after the other: how a fragment comes out of its events.

Inputs: what is known so far, the next record. Changes: the fragments, and the segment's spans.
Invariant: a record is taken in as a whole or, where that raises, not at all.
"""

from array import array
from collections.abc import Iterable
from itertools import count
from typing import TypeAlias, assert_never

from fedq.core.ids import Origin, first_position
from fedq.core.message import FLAG_PERSISTENT
from fedq.core.ranges import Range, from_ranges, minus, to_ranges, within
from fedq.journal.bare import Was
from fedq.journal.decoding import tracked
from fedq.journal.events import (
    SURE,
    Checkpoint,
    Copy,
    Drop,
    Enqueue,
    Group,
    Keep,
    Live,
    Note,
    PublisherMark,
    Publishers,
    Readers,
    Record,
    Reset,
    Seen,
    Settle,
    Single,
    Standing,
)  # fmt: skip
from fedq.journal.notes import forget_between, forget_notes, table_of, take_notes
from fedq.journal.records import NOTE_EXPIRES
from fedq.journal.recovered import ABSENT, Recovered, RecoveredFragment
from fedq.journal.segments import KEEP_POSITION, Segment
from fedq.journal.steps import Step, Steps, forget_within

#: What was surely taken of publishers, and what a copy under way will know.
Publishing: TypeAlias = tuple[dict[str, PublisherMark], dict[str, PublisherMark]]


def apply_whole(recovered: Recovered, segment: Segment, record: Record) -> None:
    """Applies a record; what raises leaves all as it was, of a group, too."""
    identity = record.fragment
    fragment = recovered.fragments.get(identity)
    if not isinstance(record, Group) and not _changes_times(fragment, record):
        _apply(recovered, segment, record)
        return
    before = _Before(fragment, segment.spans.get(identity))
    singles, told = _in_parts(fragment, record)
    try:
        for single in singles:
            if fragment is not None:
                before.note(fragment, single)
            _apply(recovered, segment, single)
        for single in told:
            _apply(recovered, segment, single)
    except Exception:
        recovered.fragments.pop(identity, None)
        segment.spans.pop(identity, None)
        if before.spans is not None:
            segment.spans[identity] = before.spans
        if fragment is not None:
            before.put_back(fragment)
            recovered.fragments[identity] = fragment
        raise


def _in_parts(
    fragment: RecoveredFragment | None, record: Record
) -> tuple[list[Single], list[Publishers]]:
    """What may fail of a record; and what cannot, and comes last: what it says of publishers.

    So no table of publishers has to be kept as it was before, which would be a copy of it for each
    record. Where what follows is about all of the fragment, all stays in its place, and what is
    known is copied.
    """
    if not isinstance(record, Group):
        return [record], []
    told = [single for single in record.records if isinstance(single, Publishers)]
    if any(isinstance(single, Keep | Reset | Drop) for single in record.records[1:]):
        if told and fragment is not None:
            fragment.publishers = dict(fragment.publishers)
            fragment.publishers_ahead = dict(fragment.publishers_ahead)
        told = []
    if not told:
        return list(record.records), []
    return [single for single in record.records if not isinstance(single, Publishers)], told


def _changes_times(fragment: RecoveredFragment | None, record: Record) -> bool:
    """Whether a record changes times that go by steps, so not in one go."""
    if isinstance(record, Note):
        return record.what == NOTE_EXPIRES
    return isinstance(record, Settle | Keep) and (
        fragment is not None and NOTE_EXPIRES in fragment.notes
    )


class _Before:
    """What a record, or a group, is about to change of a fragment, as it was before."""

    __slots__ = (
        "_messages", "_notes", "_origins", "_publishers", "_readers", "_scalars", "_steps",
        "_touched", "_was", "spans",
    )  # fmt: skip

    def __init__(self, fragment: RecoveredFragment | None, spans: "array[int] | None") -> None:
        self.spans = spans[:] if spans is not None else None
        self._scalars: tuple[int, int, bool, Seen | None] = (0, 0, True, None)
        if fragment is not None:
            self._scalars = (fragment.last, fragment.reign, fragment.whole, fragment.seen)
        #: Never changed, but replaced (the tables of publishers: see `_in_parts`).
        self._readers = fragment.readers if fragment is not None else {}
        self._publishers: Publishing = ({}, {})
        if fragment is not None:
            self._publishers = (fragment.publishers, fragment.publishers_ahead)
        self._messages: dict[int, bytes | None] = {}
        #: Instead, where there are no bodies.
        self._was: list[Was] = []
        self._notes: dict[int, dict[int, int]] = {}
        #: Times of messages, by steps, and between which positions they may be changed.
        self._steps: list[Step] = []
        self._touched: list[Range] = []
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
                touched = self._within(fragment, single.ranges)
            case Keep():
                touched = self._within(fragment, single.dropped)
            case Note():
                touched = list(single.values)
                if single.what == NOTE_EXPIRES:
                    self._note_times(fragment, to_ranges(sorted(touched)))
            case _:
                # A fragment of its own takes the place of this one.
                touched = []
        if fragment.bare is not None and isinstance(single, Enqueue | Copy):
            for first, last in to_ranges(sorted(touched)):
                self._was.append(fragment.bare.was(first, last))
        for position in touched:
            if position not in self._messages:
                self._messages[position] = fragment.messages.get(position)
                for what, table in fragment.notes.items():
                    if what != NOTE_EXPIRES and position in table:
                        self._notes.setdefault(what, {})[position] = table[position]

    def _note_times(self, fragment: RecoveredFragment, ranges: list[Range]) -> None:
        """Keeps the times of messages between these positions."""
        times = fragment.notes.get(NOTE_EXPIRES)
        touched = minus(ranges, self._touched)
        if isinstance(times, Steps):
            self._steps += [step for each in touched for step in times.between(*each)]
        self._touched += touched

    def _within(self, fragment: RecoveredFragment, ranges: list[Range]) -> list[int]:
        """What of the ranges is there that can be gone: of bare ones, notes."""
        self._note_times(fragment, ranges)
        if fragment.bare is None:
            return within(ranges, fragment.messages)
        self._was += [fragment.bare.was(first, last) for first, last in ranges]
        others = [table for what, table in fragment.notes.items() if what != NOTE_EXPIRES]
        return [position for table in others for position in within(ranges, table)]

    def put_back(self, fragment: RecoveredFragment) -> None:
        """Undoes what was changed since."""
        if fragment.bare is not None:
            for was in reversed(self._was):
                fragment.bare.put_back(was)
        for position, message in self._messages.items():
            fragment.messages.pop(position, None)
            if message is not None:
                fragment.messages[position] = message
        for what, table in fragment.notes.items():
            if what != NOTE_EXPIRES:
                forget_within(table, self._messages)
        for what, values in self._notes.items():
            table_of(fragment.notes, what).update(values)
        if self._touched:
            times = Steps(fragment.notes.get(NOTE_EXPIRES))
            for first, last in self._touched:
                times.forget(first, last)
            for first, last, when_ms in self._steps:
                times.add(first, last, when_ms)
            fragment.notes[NOTE_EXPIRES] = times
        for what in [what for what, table in fragment.notes.items() if not table]:
            del fragment.notes[what]
        for origin, number in self._origins.items():
            fragment.origins.pop(origin, None)
            if number is not None:
                fragment.origins[origin] = number
        fragment.last, fragment.reign, fragment.whole, fragment.seen = self._scalars
        fragment.readers = self._readers
        fragment.publishers, fragment.publishers_ahead = self._publishers


def _apply(recovered: Recovered, segment: Segment, record: Single) -> None:
    """Decides, then applies: what raises leaves all as it was."""
    if isinstance(record, Drop | Reset | Standing | Live | Checkpoint):
        _apply_to_all(recovered, record)
        return
    fragments = recovered.fragments
    fragment = fragments.get(record.fragment) or recovered.new_fragment()
    match record:
        case Enqueue():
            positions = range(record.first_position, record.last_position + 1)
            last, origins = record.last_position, {record.origin: record.last_number}
            _add(fragment, segment, record, positions, origins)
            fragment.last = max(fragment.last, last)
            if record.resent:
                fragment.seen = None
        case Copy() if not record.positions and not record.origins:
            last = first_position(record.reign)
            if not fragment.whole:
                fragment.publishers, fragment.publishers_ahead = fragment.publishers_ahead, {}
            fragment.whole = True
            fragment.last = max(fragment.last, last)
        case Copy():
            last = max(record.positions, default=0)
            _add(fragment, segment, record, record.positions, record.origins)
            fragment.last = max(fragment.last, last)
        case Settle():
            _remove(fragment, record.ranges)
            fragment.last = max(fragment.last, record.event)
        case Keep():
            segment.copied(record.fragment, KEEP_POSITION, KEEP_POSITION)
            _remove(fragment, record.dropped)
            fragment.last = max(fragment.last, record.base)
            fragment.whole = False
            fragment.publishers_ahead = {}
            fragment.seen = None
        case Note():
            take_notes(fragment.notes, record.what, record.values, fragment.live)
            fragment.last = max(fragment.last, record.event)
        case Seen():
            fragment.last = max(fragment.last, record.event)
            fragment.seen = record
        case Readers():
            fragment.readers = record.taken(fragment.readers)
            fragment.last = max(fragment.last, record.event)
        case Publishers():
            _take_publishers(fragment, record)
            fragment.last = max(fragment.last, record.event)
        case _:
            assert_never(record)
    fragment.reign = max(fragment.reign, record.reign)
    fragments[record.fragment] = fragment


def _take_publishers(fragment: RecoveredFragment, record: Publishers) -> None:
    """Takes what is said of publishers with names: of a copy under way, beside what is sure."""
    if record.kind == SURE:
        fragment.publishers, fragment.publishers_ahead = dict(record.marks), {}
    elif not fragment.whole:
        for name in record.take_into(fragment.publishers_ahead):
            # What its primary has forgotten it may take anew, from the first sequence on.
            fragment.publishers.pop(name, None)
    else:
        record.take_into(fragment.publishers)


def _apply_to_all(
    recovered: Recovered, record: Drop | Reset | Standing | Live | Checkpoint
) -> None:
    """Applies a record about all that a fragment has."""
    identity = record.fragment
    if isinstance(record, Drop):
        recovered.fragments.pop(identity, None)
        recovered.failed.pop(identity, None)
    elif isinstance(record, Reset):
        recovered.fragments[identity] = recovered.new_fragment(record.base, record.reign)
        recovered.failed.pop(identity, None)
    elif not isinstance(record, Checkpoint) and record.segment == (recovered.checkpoint or None):
        _take_up(recovered, record)


def _take_up(recovered: Recovered, record: Standing | Live) -> None:
    """Takes up what the checkpoint says of a fragment; bodies are looked for later."""
    fragment = recovered.fragments.setdefault(record.fragment, recovered.new_fragment())
    if isinstance(record, Live) and fragment.bare is not None:
        for first, last in record.ranges:
            fragment.bare.take_up(first, last)
        return
    if isinstance(record, Live):
        for position in from_ranges(record.ranges):
            fragment.messages.setdefault(position, ABSENT)
        return
    fragment.last = max(fragment.last, record.event)
    fragment.reign = max(fragment.reign, record.reign)
    fragment.whole, fragment.seen = record.whole, None
    if record.whole:
        fragment.publishers_ahead = {}
    for origin, number in record.origins.items():
        fragment.origins[origin] = max(number, fragment.origins.get(origin, 0))


def _add(
    fragment: RecoveredFragment,
    segment: Segment,
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
        # First, for it is harmless: the rest cannot fail.
        note = segment.copied if isinstance(record, Copy) else segment.arrived
        note(record.fragment, min(kept), max(kept))
    if fragment.bare is None:
        fragment.messages |= kept
    else:
        for first, last in to_ranges(sorted(kept)):
            fragment.bare.hold(first, last)
    known |= raised


def _remove(fragment: RecoveredFragment, ranges: list[Range]) -> None:
    if fragment.bare is not None:
        for first, last in ranges:
            fragment.bare.forget(first, last)
        forget_between(fragment.notes, ranges)
        return
    gone = within(ranges, fragment.messages)
    forget_notes(fragment.notes, gone)
    for position in gone:
        fragment.messages.pop(position, None)


def spread_of(record: Record) -> tuple[int, int, bool] | None:
    """Between which positions a record's persistent messages are, and whether they are old ones."""
    first = last = 0
    copied = found = False
    for single in tracked([record]):
        if isinstance(single, Enqueue):
            # The first and the last one that count: no look at those between.
            end = single.last_position
            lowest = _first_kept(enumerate(single.messages, single.first_position))
            highest = _first_kept(zip(count(end, -1), reversed(single.messages), strict=False))
        elif isinstance(single, Copy):
            pairs = zip(single.positions, single.messages, strict=True)
            kept = [position for position, message in pairs if message[0] & FLAG_PERSISTENT]
            lowest, highest = min(kept, default=None), max(kept, default=None)
            copied = True
        else:
            continue
        if lowest is not None and highest is not None:
            first = min(first, lowest) if found else lowest
            last, found = max(last, highest), True
    return (first, last, copied) if found else None


def _first_kept(placed: Iterable[tuple[int, bytes]]) -> int | None:
    """The position of the first persistent message."""
    for position, message in placed:
        if message[0] & FLAG_PERSISTENT:
            return position
    return None


def sort_messages(fragment: RecoveredFragment) -> None:
    """Sorts messages by position: copies arrive newest first, the queue wants the oldest first."""
    ascending = sorted(fragment.messages)
    if ascending != list(fragment.messages):
        fragment.messages = {position: fragment.messages[position] for position in ascending}
