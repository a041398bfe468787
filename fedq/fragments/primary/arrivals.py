"""Messages come into a fragment: publishes with numbers of their origins, some with names.

Inputs: batches of publishes, or their numbers alone. Outputs: records, and what is owed for them.
Invariants: a publish of an origin is taken once, however often it is sent (`origins`); so is a
sequence of a publisher with a name (`publishers`), of which nothing is handed out before it is
committed (`safe`; docs/adr/0078).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fedq.core.ids import Origin
from fedq.core.message import FLAG_DELAYED, FLAG_EXPIRES, FLAG_PERSISTENT, FLAG_SEEN
from fedq.core.publish_messages import NamedRun
from fedq.core.ranges import Range
from fedq.core.weights import weigh
from fedq.fragments.primary.contents import EVERYTHING, Contents
from fedq.fragments.primary.outbox import Owed
from fedq.fragments.publishers.known_publishers import KnownPublishers, News, Part
from fedq.fragments.runs.beginnings import SINGLE, KnownNotes
from fedq.fragments.streams.log import StreamLog, as_kept, sizes_of
from fedq.journal.records import NOTE_CAME


class Named(NamedTuple):
    """The publisher of a batch, and its first sequence; those of the other messages follow."""

    publisher: str
    first: int


class Piece(NamedTuple):
    """Messages of a batch, from one place to another, to be taken as one, or known already."""

    start: int
    stop: int
    is_new: bool
    #: Who published it, if it is new and of a publisher with a name.
    named: Named | None


def pieces_of(
    fragment: "Arrivals", messages: Sequence[bytes], runs: Sequence[NamedRun]
) -> Iterator[Piece]:
    """Cuts a batch into pieces that are nobody's, or new, or known, of one publisher with a name.

    What is known is looked up as each run begins: take the pieces of those before, first.
    """
    place = 0
    for run in runs:
        if run.place > place:
            yield Piece(place, run.place, True, None)
        place, first = run.place, run.first
        known = fragment.publishers
        parts = [Part(run.size, True)]
        if known is not None:
            parts = list(known.parts(run.publisher, first, run.size))
        for count, is_new in parts:
            named = Named(run.publisher, first) if is_new else None
            yield Piece(place, place + count, is_new, named)
            place, first = place + count, first + count
    if place < len(messages):
        yield Piece(place, len(messages), True, None)


def behind(named: Named | None, count: int) -> Named | None:
    """The publisher of what comes so many messages later in a batch."""
    return Named(named.publisher, named.first + count) if named is not None else None


class Arrivals(Contents):
    """The part of a fragment that takes messages in. See the module's docstring."""

    __slots__ = ()

    def publish(
        self, origin: Origin, first: int, messages: Sequence[bytes], resent: bool = False,
        unix_ms: int = 0, named: Named | None = None,
    ) -> None:  # fmt: skip
        """Enqueues publishes `first`, `first + 1`, … of an origin; those known are left out.

        A fragment that may have refused some cannot tell which of the known ones, after a
        failover: they are refused (again), so that nothing is confirmed that is nowhere.
        `named`: who published them; all of these sequences are new (`KnownPublishers.parts`).
        """
        through = first + len(messages) - 1
        known = self.origins.get(origin, 0)
        doubtful: tuple[int, ...] = ()
        if known >= first:
            if self.doubts:
                doubtful = tuple(range(first, min(known, through) + 1))
            skipped = known + 1 - first
            messages = messages[skipped:]
            first = known + 1
            named = behind(named, skipped)
        if messages:
            self.origins[origin] = through
            self._enqueue(origin, first, messages, resent, unix_ms, named)
        self.out.owed.append(Owed(self.last, origin, through, doubtful))

    def take_number(self, origin: Origin, number: int) -> None:
        """Takes a number for a transaction without publishes: if sent again, it is known."""
        self.origins[origin] = number
        self.last += 1
        self.recorder.origin(self.last, origin, number)
        self.out.owed.append(Owed(self.last, origin, number, ()))

    def refuse(self, origin: Origin, first: int, count: int) -> None:
        """Refuses publishes that the policy turns away; their publisher hears so."""
        through = first + count - 1
        self.origins[origin] = max(through, self.origins.get(origin, 0))
        refused = tuple(range(first, through + 1))
        self.out.owed.append(Owed(self.last, origin, through, refused))

    def pass_over(self, origin: Origin, first: int, count: int) -> None:
        """Takes publishes for known, as their sequences are: they are owed, like new ones.

        Their origin's numbers are told to nobody: whoever leads next knows the sequences.
        """
        through = first + count - 1
        self.origins[origin] = max(through, self.origins.get(origin, 0))
        self.out.owed.append(Owed(self.last, origin, through, ()))

    def know_publishers(self, unix_ms: int = 0) -> KnownPublishers:
        """The publishers with names; from the first one on what is not committed yet waits."""
        if self.publishers is None:
            self.publishers = KnownPublishers(now_ms=unix_ms)
        if self.safe == EVERYTHING:
            self.safe = self.last
        return self.publishers

    def news_of(self, named: Named, count: int, unix_ms: int) -> News:
        """Takes so many sequences; returns what is to be recorded with their messages."""
        publishers = self.know_publishers(unix_ms)
        return publishers.take(named.publisher, named.first, named.first + count - 1, unix_ms)

    def forget_publishers(self, names: Sequence[str]) -> None:
        """Forgets publishers with names, here and, by a record, on all copies."""
        if self.publishers is not None and names:
            self.publishers.forget(names)
            self.recorder.forget_publishers(self.last, names)

    def _enqueue(
        self, origin: Origin, number: int, messages: Sequence[bytes], resent: bool, unix_ms: int,
        named: Named | None,
    ) -> None:  # fmt: skip
        log = self.log
        if log is not None:
            # Whoever reads it has a place of its own: who has seen what is not the stream's matter.
            messages, resent = as_kept(messages), False
        news = self.news_of(named, len(messages), unix_ms) if named is not None else None
        size, flags = weigh(messages)
        if log is not None:
            log.add(self.last + 1, sizes_of(messages), size, unix_ms)
        notes = self._add(messages, size, flags, resent, unix_ms)
        if log is not None and (came := log.note(self.last - len(messages) + 1, unix_ms)):
            notes = {NOTE_CAME: {self.last - len(messages) + 1: came}}
        lasting = flags & FLAG_PERSISTENT != 0
        self.recorder.enqueue(self.last, origin, number, messages, resent, lasting, notes, news)

    def keep_times(self, log: StreamLog, lost: Sequence[Range]) -> None:
        """Notes of others when messages of a stream came that are lost."""
        moved = log.move_notes(lost, self.fresh)
        if moved:
            self.last += 1
            self.recorder.note(self.last, NOTE_CAME, moved, True, True)

    def thin_out_times(self, log: StreamLog) -> None:
        """Lets go of some of the notes of when messages of a stream came, if there are too many."""
        changed = log.thin_out_notes()
        if changed:
            self.last += 1
            self.recorder.note(self.last, NOTE_CAME, changed, True, True)

    def publish_private(self, messages: Sequence[bytes], unix_ms: int = 0) -> None:
        """Enqueues into a private queue: no origin, no record, no confirm to wait for."""
        size, flags = weigh(messages)
        self._add(messages, size, flags, False, unix_ms)

    def _add(
        self, messages: Sequence[bytes], size: int, flags: int, resent: bool, unix_ms: int
    ) -> KnownNotes:
        """Adds new messages to the line; returns the notes about them."""
        first = self.last + 1
        self.last += len(messages)
        self.came += len(messages)
        self.bytes_held += size
        if not (self.singly or resent or flags & SINGLE):
            self.fresh.add(first, messages, flags & FLAG_PERSISTENT != 0)
            if self.expires or flags & FLAG_EXPIRES:
                return self.make_tracked().make_deadlines(first, messages, flags, unix_ms)
            return {}
        tracked = self.make_tracked()
        tracked.add(first, messages)
        if resent:
            tracked.redelivered.update(range(first, self.last + 1))
        elif flags & FLAG_SEEN:
            tracked.redelivered.update(p for p, m in enumerate(messages, first) if m[0] & FLAG_SEEN)
        if self.expires or flags & (FLAG_EXPIRES | FLAG_DELAYED):
            return tracked.make_appointments(first, messages, unix_ms)
        return {}
