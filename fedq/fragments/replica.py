"""A fragment as a backup holds it: its messages, their notes, and nothing about who has them.

Inputs: the primary's journal records. What consumers do meanwhile shows as settlements. When the
map makes this node the primary, the replica's messages become a `Fragment` of the new reign.
Live messages without notes stay unread until then, or until something concerns them singly
(`fedq.fragments.copy.unread`).

Invariants: notes speak of messages that are here; when a copy is complete, messages, notes and
origins are the primary's.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from fedq.core.ids import FragmentId, NodeId, Origin
from fedq.core.message import FLAG_PERSISTENT
from fedq.core.ranges import Range, within
from fedq.fragments.copy.applied import Applied, Mark, is_copy
from fedq.fragments.copy.batch import Batch
from fedq.fragments.copy.leaving import Leaving
from fedq.fragments.copy.positions import Positions
from fedq.fragments.copy.unread import Unread, singles_of
from fedq.fragments.publishers.copied_publishers import CopiedPublishers
from fedq.fragments.publishers.origins import forget_origins
from fedq.fragments.runs.beginnings import SINGLE
from fedq.fragments.runs.stowed import StowedRanges, Stretch
from fedq.fragments.singly.tracked import oldest_persistent
from fedq.journal.decoding import outlines
from fedq.journal.events import (
    ALL,
    Copy,
    Enqueue,
    Group,
    Note,
    Publishers,
    Readers,
    Seen,
    Settle,
    Single,
)
from fedq.journal.notes import Notes, forget_between, forget_notes, take_notes
from fedq.journal.payloads import Outline
from fedq.journal.records import NOTE_CAME, NOTE_EXPIRES, NOTES_THAT_CHANGE
from fedq.journal.steps import Steps


class Replica:
    """A backup's copy of one fragment."""

    __slots__ = (
        "_ahead", "_doubtful", "_read", "_read_bytes", "_to_stow", "_to_write", "_top", "_unread",
        "came", "durable", "edits", "fragment_id", "notes", "origins", "publishing", "readers",
        "scratched", "seen", "sorted", "stowed",
    )  # fmt: skip

    def __init__(
        self,
        fragment_id: FragmentId,
        *,
        durable: bool,
        messages: Mapping[int, bytes] | None = None,
        origins: Mapping[Origin, int] | None = None,
        notes: Mapping[int, Mapping[int, int]] | None = None,
        stowed: Iterable[Stretch] = (),
        scratched: Iterable[Stretch] = (),
    ) -> None:
        """Begins with what the node recovered, or had as the primary of before.

        `stowed`, `scratched`: where others stand that are on disk alone, ascending, with their
        bytes: persistent ones in the journal, and the rest in scratch files.
        """
        self.fragment_id = fragment_id
        self.durable = durable
        self._read: dict[int, bytes] = dict(messages or {})
        self._read_bytes = sum(map(len, self._read.values()))
        #: Which of them may leave memory: for the journal has them, or to a scratch file.
        self._to_stow, self._to_write = Leaving(self._read), Leaving(self._read)
        #: All of them beyond those that are read.
        self._unread = Unread()
        #: And those that are on disk alone: in the journal, and in scratch files.
        self.stowed = StowedRanges(stowed)
        self.scratched = StowedRanges(scratched)
        on_disk = chain(self.stowed.ranges(), self.scratched.ranges())
        #: The highest position there ever was here.
        self._top = max([0, *self._read, *[last for _, last in on_disk]])
        #: Highest publish number of each origin up to which this copy surely has everything.
        self.origins: dict[Origin, int] = dict(origins or {})
        #: What is known of the messages, by kind (`fedq.journal.records.NOTES`), by position.
        self.notes: Notes = {}
        #: When messages of a stream came: apart, as they stay unread all the same.
        self.came: dict[int, int] = {}
        for what, values in (notes or {}).items():
            if what == NOTE_CAME:
                self.came.update(values)
            elif isinstance(values, Steps) and values:
                # They speak of what is here, which may be very much.
                self.notes[what] = Steps(values)
            else:
                take_notes(self.notes, what, values, self)
        #: While a copy is under way: changing notes that the primary has not confirmed yet.
        self._doubtful: Notes = {}
        #: While a copy is under way: what the origins will be when it is complete.
        self._ahead: dict[Origin, int] | None = None
        #: What the primary said that was seen, as its last word; None: it has not, or in vain.
        self.seen: Seen | None = None
        #: Where named readers of a stream go on.
        self.readers: Mapping[str, int] = {}
        #: What was taken of publishers with names.
        self.publishing = CopiedPublishers()
        #: Whether `messages` is known to be in ascending order (a copy comes newest first).
        self.sorted = True
        #: Counts what may have changed which messages are here, or where.
        self.edits = 0

    def __contains__(self, position: object) -> bool:
        """Whether a message at this position is here, or on disk. Reads all that are unread."""
        return position in self.messages or self._is_on_disk(position)

    def _is_on_disk(self, position: object) -> bool:
        return position in self.stowed or position in self.scratched

    @property
    def messages(self) -> dict[int, bytes]:
        """The messages in memory, by position. Reads them all: do not ask for every record."""
        self._read_all()
        return self._read

    @property
    def known_notes(self) -> Notes:
        """All that is known of the messages; to be read only."""
        return {**self.notes, NOTE_CAME: self.came} if self.came else self.notes

    @property
    def bytes_held(self) -> int:
        """The bytes that the messages take."""
        return self.bytes_in_memory + self.stowed.bytes_held + self.scratched.bytes_held

    @property
    def bytes_in_memory(self) -> int:
        """The bytes of those that are not on disk alone."""
        return self._read_bytes + self._unread.bytes_held

    @property
    def count_read(self) -> int:
        """How many messages are kept singly."""
        return len(self._read)

    @property
    def count_unread(self) -> int:
        """How many messages are still in their records."""
        return self._unread.count

    @property
    def count(self) -> int:
        """How many messages there are, wherever they are."""
        return len(self._read) + self._unread.count + self.stowed.count + self.scratched.count

    def apply(self, records: bytes) -> Applied:
        """Applies the primary's records in order; a repeated one changes nothing.

        Raises `CorruptRecord` before anything is changed: what is in memory must not be more than
        what goes to the journal.
        """
        journal = sync = copied = False
        first = last = 0
        self.edits += 1
        for record in outlines(records, self.fragment_id):
            whole = isinstance(record, Group)
            for single in singles_of(record):
                persistent, low, high = self._apply(single)
                journal = journal or persistent
                # Nothing but messages has a position.
                sync = sync or (persistent and (whole or high > 0))
                if high:
                    copied = copied or is_copy(single)
                    first, last = min(low, first or low), max(last, high)
        return Applied(self.durable and journal, self.durable and sync, first, last, copied)

    def _apply(self, record: Single | Outline) -> tuple[bool, int, int]:
        """Applies a record; whether persistent messages are concerned, and between which positions.

        Zeros where it brings no messages.
        """
        # Known is what is here: that it is known is noted last.
        if isinstance(record, Outline):
            if record.origin is None:
                return self._add_copied(record), record.first_position, record.last_position
            if record.first_position > self._top:
                persistent = self._unread.add(record)
                self._top = record.last_position
            else:
                positions = range(record.first_position, record.last_position + 1)
                persistent = self._add(positions, record.messages())
            self._saw(record.origin, record.last_number)
            if record.resent:
                self.seen = None
            return persistent, record.first_position, record.last_position
        if isinstance(record, Enqueue):
            positions = range(record.first_position, record.last_position + 1)
            persistent = self._add(positions, record.messages)
            self._saw(record.origin, record.last_number)
            if record.resent:
                self.seen = None
            return persistent, record.first_position, record.last_position
        if isinstance(record, Copy):
            self.sorted = False
            persistent = self._add(record.positions, record.messages)
            self.publishing.came(record.positions)
            for origin, number in record.origins.items():
                self._saw(origin, number)
            return persistent, min(record.positions, default=0), max(record.positions, default=0)
        if isinstance(record, Settle):
            return self._forget(record.ranges), 0, 0
        if isinstance(record, Note):
            return self._note(record), 0, 0
        if isinstance(record, Seen):
            self.seen = record
            return True, 0, 0
        if isinstance(record, Readers):
            self.readers = record.taken(self.readers)
            return True, 0, 0
        if isinstance(record, Publishers):
            self.publishing.hear(record)
            # What it says goes with messages, or is about all, or of what is gone.
            return record.kind == ALL or record.forgets, 0, 0
        return False, 0, 0

    def start_copy(
        self, dropped: list[Range], origins: bytes, reign: int, base: int, in_sync: bool
    ) -> None:
        """Drops what the primary does not have, and learns what it knows of those who publish.

        Until the copy is complete only that counts which both knew: were this copy to lead before,
        it must rather take a publish twice than believe that it has one whose message is missing.
        And nothing counts if messages are dropped: the primary may have taken them anew, elsewhere.
        Notes stay until they are replaced: some of them may be committed.
        """
        self.edits += 1
        self._forget(dropped)
        self.seen = None
        self._doubtful = {
            what: dict(self.notes[what]) for what in NOTES_THAT_CHANGE if what in self.notes
        }
        self._ahead = {}
        self.publishing.begin_copy(base, in_sync)
        self.apply(origins)
        self.publishing.begin_with(reign)
        self.origins = {
            origin: min(number, self._ahead.get(origin, 0))
            for origin, number in self.origins.items()
            if origin in self._ahead and not dropped
        }

    def finish_copy(self, reign: int) -> Notes:
        """Ends the copying: the last chunk is applied, and this copy has what the primary has.

        Returns notes for the journal of this node: those that the primary does not know, as 0.
        """
        if self._ahead is not None:
            self.origins, self._ahead = self._ahead, None
        self.publishing.finish_copy(reign)
        doubtful, self._doubtful = self._doubtful, {}
        void: Notes = {}
        for what, values in doubtful.items():
            nothing = dict.fromkeys(values, 0)
            self._may_leave(take_notes(self.notes, what, nothing, self))
            if kept := {p: 0 for p in nothing if self._in_journal(p)}:
                void[what] = kept
        return void

    def forget_origins(self, node: NodeId, before: int) -> None:
        """Forgets the origins of earlier processes of the node, which send nothing again."""
        for known in (self.origins, self._ahead or {}):
            forget_origins(known, node, before)

    @property
    def singles(self) -> Mapping[int, bytes]:
        """The messages that are kept singly; the others are in `batches`."""
        return self._read

    def batches(self) -> list[Batch]:
        """The messages that are still in their records (`fedq.fragments.copy.unread.Unread`)."""
        return self._unread.batches()

    def positions(self) -> Positions:
        """The positions of this copy, to be found as long as `edits` stays as it is."""
        on_disk = chain(self.stowed.ranges(), self.scratched.ranges())
        return Positions(self._read, chain(self._unread.ranges(), on_disk))

    def oldest_persistent(self) -> int | None:
        """The lowest live position that the journal must keep."""
        if not self.durable:
            return None
        self._sort()
        oldest = oldest_persistent(self._read)
        if oldest is None:
            oldest = self._unread.oldest_persistent()
        lowest = (oldest, self._unread.copied.first, self.stowed.first)
        return min([each for each in lowest if each is not None], default=None)

    def in_order(self) -> dict[int, bytes]:
        """The messages by ascending position."""
        self._read_all()
        self._sort()
        return self._read

    def _forget(self, ranges: list[Range]) -> bool:
        """Forgets the messages in the ranges; whether persistent ones were among them."""
        persistent = False
        for position in within(ranges, self.came) if self.came else ():
            self.came.pop(position, None)
        if self.stowed.count or self.scratched.count:
            persistent = self._forget_stowed(ranges)
        if self.notes or self._doubtful:
            self._read_all()
        elif self._unread:
            self.sorted = self.sorted and not self._unread.copied
            for each in ranges:
                concerned, read = self._unread.forget(each)
                persistent = persistent or concerned
                self._keep_singly(read)
        held = self._read
        if not held:
            return persistent
        gone = within(ranges, held)
        messages = [message for p in gone if (message := held.pop(p, None)) is not None]
        self._read_bytes -= sum(map(len, messages))
        forget_notes(self.notes, gone)
        forget_notes(self._doubtful, gone)
        return persistent or any(message[0] & FLAG_PERSISTENT for message in messages)

    def _forget_stowed(self, ranges: list[Range]) -> bool:
        """Forgets what is on disk alone in the ranges; whether any of it is persistent."""
        count = transient = 0
        for first, last in ranges:
            count += self.stowed.forget(first, last)
            transient += self.scratched.forget(first, last)
        if count or transient:
            # Whatever is in memory there goes as well.
            for notes in (self.notes, self._doubtful):
                forget_between(notes, ranges)
        return count > 0

    def mark(self) -> Mark:
        """What is here by now: for `stow`, once the disk has all of it."""
        return Mark(self._top, self._to_stow.arrived, self._unread.copied.arrived)

    @property
    def note_count(self) -> int:
        """How many notes there are, but for those that go by steps."""
        return sum([len(table) for what, table in self.notes.items() if what != NOTE_EXPIRES])

    def _with_a_past(self) -> dict[int, None]:
        """The positions of messages of which more is to be said than when they expire."""
        tables = [table for what, table in self.notes.items() if what != NOTE_EXPIRES]
        return dict.fromkeys([position for table in tables for position in table])

    def stow(self, mark: Mark, most: int) -> int:
        """Lets bodies go that were here at a mark: the disk has them. Returns how many messages.

        Persistent ones without a time, a past or a note; about `most` are looked at.
        """
        before = self.stowed.count
        self.edits += 1
        whole, mixed = self._unread.stow(mark.top, most)
        for first, last, size in chain(whole, self._unread.copied.stow(mark.copied, most)):
            self.stowed.add(first, last, size)
        if mixed:
            self._keep_singly(mixed)
            self.sorted = False
        self._stow_read(self._to_stow.take(most, mark.arrived))
        return self.stowed.count - before

    def _stow_read(self, positions: list[int]) -> None:
        """Lets go of those that are kept singly: the others stay until a note of them goes."""
        wanted = SINGLE | FLAG_PERSISTENT
        noted = self._with_a_past()
        for position in positions:
            message = self._read.get(position)
            if message and position not in noted and message[0] & wanted == FLAG_PERSISTENT:
                del self._read[position]
                self._read_bytes -= len(message)
                self.stowed.add(position, position, len(message))

    def for_scratch(self, size: int, most: int) -> dict[int, bytes]:
        """The next messages that the journal does not have, by position.

        About so many bytes; about `most` are looked at. They stay, until `scratch`.
        """
        found = self._unread.transient(size, most, self.durable)
        if found:
            return found
        noted = self._with_a_past()
        while size > 0 and most > 0 and (positions := self._to_write.take(1)):
            [position] = positions
            most -= 1
            message = self._read.get(position)
            if message is None or position in noted or message[0] & SINGLE:
                continue
            if position not in found and not (self.durable and message[0] & FLAG_PERSISTENT):
                found[position] = message
                size -= len(message)
        # They stay until they are written, if they are.
        self._to_write.put_back(list(found))
        return found

    def scratch(self, positions: Sequence[int]) -> int:
        """Lets bodies go that were written to a scratch file, those that are still here.

        Returns how many messages those were. What has got a note meanwhile stays.
        """
        self.edits += 1
        before = self.scratched.count
        for first, last, size in self._unread.let_go(positions):
            self.scratched.add(first, last, size)
        noted = self._with_a_past()
        for position in positions if self._read else ():
            if position in self._read and position not in noted:
                size = len(self._read.pop(position))
                self._read_bytes -= size
                self.scratched.add(position, position, size)
        return self.scratched.count - before

    def _add_copied(self, outline: Outline) -> bool:
        """Adds old messages, as they came if it can be; whether persistent ones are among them."""
        first, last = outline.first_position, outline.last_position
        self._top = max(self._top, last)
        self.sorted = False
        on_disk = self.stowed.has_some_in(first, last) or self.scratched.has_some_in(first, last)
        is_new = self.durable and not on_disk and not within([(first, last)], self._read)
        here = range(first, last + 1)
        self.publishing.came(here)
        return (is_new and self._unread.add_copied(outline)) or self._add(here, outline.messages())

    def _add(self, positions: Sequence[int], messages: Sequence[bytes]) -> bool:
        """Adds messages; whether persistent ones are among them.

        A position that is known already keeps its message: it is the same one.
        """
        highest, added = max(positions, default=0), list[int]()
        held = self._read if self._unread.is_above(highest) else self.messages
        self._top = max(self._top, highest)
        for position, message in zip(positions, messages, strict=True):
            if position not in held and not self._is_on_disk(position):
                held[position] = message
                added.append(position)
        self._read_bytes += sum([len(held[position]) for position in added])
        self._may_leave(added)
        return any(message[0] & FLAG_PERSISTENT for message in messages)

    def _note(self, record: Note) -> bool:
        """Takes notes; whether persistent messages are concerned: those of a stream are."""
        if record.what == NOTE_CAME:
            for position, unix_ms in record.values.items():
                if unix_ms:
                    self.came[position] = unix_ms
                else:
                    self.came.pop(position, None)
            return True
        concerned = take_notes(self.notes, record.what, record.values, self)
        if 0 in record.values.values():
            self._may_leave(concerned)
        doubtful = self._doubtful.get(record.what)
        if doubtful:
            for position in concerned:
                doubtful.pop(position, None)
        return any(map(self._in_journal, concerned))

    def _in_journal(self, position: int) -> bool:
        if not self.durable or position in self.scratched:
            return False
        return position in self.stowed or self.messages[position][0] & FLAG_PERSISTENT != 0

    def _saw(self, origin: Origin, number: int) -> None:
        origins = self.origins if self._ahead is None else self._ahead
        if number > origins.get(origin, 0):
            origins[origin] = number

    def _read_all(self) -> None:
        if self._unread:
            self.edits += 1
            self.sorted = self.sorted and not self._unread.copied
            self._keep_singly(self._unread.read())

    def _keep_singly(self, messages: Mapping[int, bytes]) -> None:
        self._read |= messages
        self._read_bytes += sum(map(len, messages.values()))
        self._may_leave(messages)

    def _may_leave(self, positions: Iterable[int]) -> None:
        """Has messages that are kept singly looked at, since they came, or a note of them went."""
        positions = [position for position in positions if position in self._read]
        self._to_stow.add(positions, self._read)
        self._to_write.add(positions, self._read)

    def _sort(self) -> None:
        if not self.sorted:
            self.edits += 1
            self._read = dict(sorted(self._read.items()))
            self.sorted = True
