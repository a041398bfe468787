"""A fragment's events as records: the same bytes for its journal and for its backups.

Inputs: what happened, and the number of its last event. Output: `RecordOut`s in the fragment's
lane. A fragment with neither journal nor backups (a private queue) records nothing.

`SparingRecorder` is for queues that have persistent messages copied alone (docs/adr/0055).
"""

from collections.abc import Mapping, Sequence
from itertools import groupby

from fedq.core.ids import FragmentId, Origin
from fedq.core.message import is_persistent
from fedq.core.ranges import Range
from fedq.fragments.primary.outbox import FragmentOut, RecordOut
from fedq.fragments.publishers.known_publishers import News
from fedq.journal.events import ALL, FORGOTTEN, SOME, PublisherMark
from fedq.journal.records import (
    encode_copy,
    encode_enqueue,
    encode_group,
    encode_note,
    encode_publishers,
    encode_readers,
    encode_seen,
    encode_settle,
    encode_with_notes,
)


class Recorder:
    """Turns the events of one fragment into records."""

    __slots__ = ("_fragment_id", "_out", "_reign", "active", "durable")

    def __init__(
        self, fragment_id: FragmentId, reign: int, out: FragmentOut, *, active: bool, durable: bool
    ) -> None:
        """`active`: somebody wants the records; `durable`: the journal does."""
        self._fragment_id = fragment_id
        self._reign = reign
        self._out = out
        self.active = active
        self.durable = durable

    def enqueue(
        self, last: int, origin: Origin, number: int, messages: Sequence[bytes], resent: bool,
        persistent: bool, notes: Mapping[int, Mapping[int, int]], news: News | None = None,
    ) -> None:  # fmt: skip
        """Records messages that end at position `last`, with the notes about them, as one.

        `news`: who published them, if it is a publisher with a name.
        """
        if not self.active:
            return
        first = last - len(messages) + 1
        data = encode_enqueue(
            self._fragment_id, self._reign, first, origin, number, messages, resent
        )
        if notes:
            data = encode_with_notes(self._fragment_id, self._reign, data, last, notes)
        if news is not None:
            marks = {**dict.fromkeys(news.over, FORGOTTEN), news.publisher: news.mark}
            data += encode_publishers(self._fragment_id, self._reign, last, SOME, marks)
            data = encode_group(self._fragment_id, self._reign, data)
        journal = persistent and self.durable
        self._out.records.append(RecordOut(last, first, last, data, journal, journal))

    def settle(self, last: int, ranges: Sequence[Range], persistent: bool) -> None:
        """Records that the messages in these ranges (ascending) are gone."""
        if self.active:
            data = encode_settle(self._fragment_id, self._reign, last, ranges)
            self._append(last, data, persistent)

    def note(
        self, last: int, what: int, values: Mapping[int, int], persistent: bool, keep: bool
    ) -> None:
        """Records notes about messages; `keep`: they are worth a place on disk."""
        if self.active:
            data = encode_note(self._fragment_id, self._reign, last, what, values)
            self._append(last, data, persistent and keep)

    def origin(self, last: int, origin: Origin, number: int) -> None:
        """Records that an origin's publishes are known up to a number, though none is here."""
        if self.active:
            data = encode_copy(self._fragment_id, self._reign, [], [], {origin: number})
            self._append(last, data, False)

    def seen(self, last: int, epoch: int, ranges: Sequence[Range]) -> None:
        """Records what may have been seen; nothing is handed out after that."""
        if self.active:
            data = encode_seen(self._fragment_id, self._reign, last, epoch, ranges)
            self._append(last, data, True)

    def readers(self, last: int, whole: bool, places: Mapping[str, int]) -> None:
        """Records where named readers go on, which is no event."""
        if self.active:
            data = encode_readers(self._fragment_id, self._reign, last, whole, places)
            self._append(last, data, True)

    def publishers(self, last: int, marks: Mapping[str, PublisherMark]) -> None:
        """Records all that was taken of publishers with names, which is no event."""
        if self.active:
            data = encode_publishers(self._fragment_id, self._reign, last, ALL, marks)
            self._append(last, data, True)

    def forget_publishers(self, last: int, names: Sequence[str]) -> None:
        """Records that publishers with names are forgotten, which is no event."""
        if self.active:
            marks = dict.fromkeys(names, FORGOTTEN)
            data = encode_publishers(self._fragment_id, self._reign, last, SOME, marks)
            self._append(last, data, True)

    def _append(self, last: int, data: bytes, journal: bool) -> None:
        self._out.records.append(RecordOut(last, 0, 0, data, journal and self.durable, False))

    def begin_atomic(self) -> int:
        """Begins a group that takes effect as a whole, or not at all; for `end_atomic`."""
        return len(self._out.records)

    def end_atomic(self, mark: int) -> None:
        """Makes one record of the group, which waits for the disk if one of its events must."""
        records = self._out.records[mark:]
        if not records:
            return
        journal = any(record.journal for record in records)
        data = b"".join([record.data for record in records])
        self._out.records[mark:] = [
            RecordOut(
                records[-1].last,
                min((r.first_position for r in records if r.first_position), default=0),
                max(record.last_position for record in records),
                encode_group(self._fragment_id, self._reign, data),
                journal,
                journal,
            )
        ]


class SparingRecorder(Recorder):
    """Records what concerns persistent messages: of the others nobody else is to know.

    What it leaves out is an event all the same, and so a record without data.
    """

    __slots__ = ()

    def enqueue(
        self, last: int, origin: Origin, number: int, messages: Sequence[bytes], resent: bool,
        persistent: bool, notes: Mapping[int, Mapping[int, int]], news: News | None = None,
    ) -> None:  # fmt: skip
        """Records each stretch of persistent messages as one."""
        if not self.active:
            return
        if not persistent:
            self._leave_out(last)
            return
        position = last - len(messages) + 1
        for is_kept, stretch in groupby(messages, is_persistent):
            part = list(stretch)
            end = position + len(part) - 1
            if is_kept:
                about = _within(notes, position, end)
                until = _until(news, last - end) if news is not None else None
                super().enqueue(end, origin, number, part, resent, True, about, until)
            else:
                self._leave_out(end)
            position, number = end + 1, number + len(part)

    def settle(self, last: int, ranges: Sequence[Range], persistent: bool) -> None:
        """Records that messages are gone, if persistent ones are among them."""
        if persistent:
            super().settle(last, ranges, persistent)
        else:
            self._leave_out(last)

    def note(
        self, last: int, what: int, values: Mapping[int, int], persistent: bool, keep: bool
    ) -> None:
        """Records notes, if persistent messages are among those that they are about."""
        if persistent:
            super().note(last, what, values, persistent, keep)
        else:
            self._leave_out(last)

    def end_atomic(self, mark: int) -> None:
        """Makes one record of the group; without data, if nothing in it is to be told."""
        records = self._out.records
        if any(record.data for record in records[mark:]):
            super().end_atomic(mark)
        else:
            del records[mark:-1]

    def _leave_out(self, last: int) -> None:
        if self.active:
            self._out.records.append(RecordOut(last, 0, 0, b"", False, False))


def _until(news: News, before: int) -> News:
    """What is to be said with the message that is so many before the last one."""
    publisher, mark, last, over = news
    # Where refused ones are repeated, more was taken before.
    highest = mark.highest - before if mark.highest == last else mark.highest
    return News(publisher, mark._replace(highest=highest), last - before, over)


def _within(
    notes: Mapping[int, Mapping[int, int]], first: int, last: int
) -> dict[int, dict[int, int]]:
    """The notes about messages between two positions."""
    return {
        what: {position: value for position, value in table.items() if first <= position <= last}
        for what, table in notes.items()
    }
