"""Replication as a fragment's primary sees it: who has what, and what is committed.

Inputs: records of the fragment (`on_records`), this node's own disk (`on_local`), backups' offers
and acknowledgements, the copies the cluster map names (`set_copies`). Outputs: messages per
backup in `sends`, and the `commit` mark.

The commit rule: an event is committed when this node (`local`) and every *required* backup hold
it. Required are the in-sync backups of the map, those whose joining has been proposed and is not
decided (so nothing is confirmed without them that the map may at that moment be counting on), and
those that are *awaited*: a backup may join when it has acknowledged all that is committed, which
it never has where events follow on each other faster than acknowledgements come back. So commits
wait for one that is seen to be close behind, until it has caught up and is proposed.

A backup's progress:

    WAITING   nothing is sent: it has not said yet what it holds
    COPYING   live records go out; old messages follow newest first, some chunks at a time: few if
              much else waits for its node
    STREAMING it has everything; its acknowledgements count

Notes of messages travel with them. Those that change while a message lives are sent, without it, to
a backup that holds it already: that backup may have heard less of them, or more than is true.

Where backups are spared some events (docs/adr/0055), a backup that has what it was sent before them
has them, too.

At the creation of a fragment all copies are empty, so the first in-sync backups start STREAMING.
A new primary's in-sync backups start WAITING: what they hold beyond the commit mark may differ
from this copy, and `CopyStart` makes it the same (docs/adr/0005).
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from fedq.core.batches import cut
from fedq.core.ids import FragmentId, NodeId, Origin
from fedq.core.limits import (
    COPY_BEHIND_MS_MAX,
    COPY_CHUNK_BYTES_MAX,
    COPY_CHUNKS_IN_FLIGHT_MAX,
    COPY_CHUNKS_IN_FLIGHT_MIN,
)
from fedq.core.peer_messages import CopyChunk, CopyStart, Replicate
from fedq.core.ranges import Range, is_in, minus, to_ranges
from fedq.core.work import Work
from fedq.journal.events import ALL, PublisherMark
from fedq.journal.records import (
    NOTES_THAT_CHANGE,
    encode_copy,
    encode_publishers,
    encode_with_notes,
)
from fedq.replication.progress import (
    COPYING,
    LOOKED_MAX,
    STREAMING,
    WAITING,
    Chunk,
    Messages,
    Progress,
)

#: Kind -> position -> value; see `fedq.journal.records.NOTES`.
Notes = Mapping[int, Mapping[int, int]]

Send = CopyStart | CopyChunk | Replicate


class Records(Protocol):
    """One encoded record, as the fragment puts it out."""

    @property
    def last(self) -> int:
        """The highest event number in the record."""

    @property
    def data(self) -> bytes:
        """The record's journal encoding; empty if backups are spared it."""


class PrimaryReplication:
    """The replication of one fragment in one reign; see the module's docstring."""

    __slots__ = ("_chunk_bytes_max", "_silences", "_told", "awaited", "backups", "commit", "epoch",
                 "fragment_id", "in_sync", "joining", "local", "reign", "sends",
                 "sparing")  # fmt: skip

    def __init__(
        self, fragment_id: FragmentId, reign: int, base: int,
        chunk_bytes_max: int = COPY_CHUNK_BYTES_MAX, sparing: bool = False,
    ) -> None:  # fmt: skip
        """`chunk_bytes_max`: how much of a copy travels in one piece.

        `sparing`: records without data are for nobody else.
        """
        self._chunk_bytes_max = chunk_bytes_max
        self.sparing = sparing
        #: The last event of which backups were told; and, ascending, after which event they were
        #: told nothing, and up to which one.
        self._told = base
        self._silences: deque[tuple[int, int]] = deque()
        self.fragment_id = fragment_id
        self.reign = reign
        self.backups: dict[NodeId, Progress] = {}
        self.in_sync: dict[NodeId, None] = {}
        #: The epoch of `in_sync`.
        self.epoch = 0
        #: Backups whose entry into the in-sync set has been proposed at this epoch, and may have
        #: been decided. They are required until the epoch changes, which voids the proposal.
        self.joining: dict[NodeId, None] = {}
        #: Backups that are close behind, and about to be proposed.
        self.awaited: dict[NodeId, None] = {}
        self.local = base
        #: Nothing is known to be committed before every required backup has said what it holds.
        self.commit = base - 1
        #: What to send, per backup, in order.
        self.sends: dict[NodeId, list[Send]] = {}

    def set_copies(
        self,
        backups: Iterable[NodeId],
        in_sync: Iterable[NodeId],
        epoch: int,
        last: int,
        new: bool,
        now_ms: int,
    ) -> None:
        """Sets the backups by the map's word; `new`: just created, so all copies are empty.

        Decides, then changes: with half of it something might be committed too early.
        """
        required = dict.fromkeys(in_sync)
        wanted = dict.fromkeys(backups)
        come = {
            node: Progress(STREAMING if new and node in required else WAITING, last, now_ms)
            for node in wanted
            if node not in self.backups
        }
        gone = [node for node in self.backups if node not in wanted]
        if not self.backups:
            self._told = last
            self._silences.clear()
        self.in_sync = required
        if epoch != self.epoch:
            self.epoch = epoch
            self.joining = {}
            self.awaited = {}
        for node in gone:
            del self.backups[node]
            self.awaited.pop(node, None)
            self.sends.pop(node, None)
        self.backups.update(come)
        self._raise_commit()

    def reset(self, node: NodeId, now_ms: int) -> None:
        """Has a backup say again what it holds, as the link to it starts anew."""
        if node in self.backups:
            self.sends.pop(node, None)
            self.awaited.pop(node, None)
            self.backups[node] = Progress(WAITING, 0, now_ms)

    def on_records(self, records: Sequence[Records], now_ms: int) -> None:
        """Takes new events of this turn, in order: as few messages as can be to each backup."""
        if self.sparing:
            records = self._to_be_told(records)
        encoded = [record.data for record in records]
        pieces = [(records[stop - 1].last, b"".join(encoded[at:stop])) for at, stop in cut(encoded)]
        for node, progress in self.backups.items():
            if progress.state == WAITING:
                continue
            if progress.acked >= progress.sent:
                progress.moved_ms = now_ms
            for last, data in pieces:
                self._send(node, Replicate(self.fragment_id, self.reign, progress.sent, last, data))
                progress.sent = last

    def _to_be_told(self, records: Sequence[Records]) -> list[Records]:
        """The records that backups get; notes between which events they hear nothing."""
        silences, told = self._silences, []
        for record in records:
            if record.data:
                told.append(record)
                self._told = record.last
            elif silences and silences[-1][0] == self._told:
                silences[-1] = (self._told, record.last)
            else:
                silences.append((self._told, record.last))
        return told

    def _reach(self, event: int) -> int:
        """Up to which event a backup has everything that has acknowledged this one."""
        for after, through in self._silences:
            if after > event:
                break
            event = max(event, through)
        return event

    def on_local(self, through: int) -> bool:
        """Takes note that this node holds all up to `through`, on disk where that is asked for.

        Whether that commits anything.
        """
        self.local = through
        return self._raise_commit()

    def on_offer(
        self,
        node: NodeId,
        copy: int,
        held: Sequence[Range],
        here: Sequence[Range],
        notes: Notes,
        origins: Mapping[Origin, int],
        last: int,
        now_ms: int,
        publishers: Mapping[str, PublisherMark] | None = None,
    ) -> None:
        """Takes a backup's offer of what it holds: from here on it follows, and gets what it lacks.

        `here`: the positions that it is to have. Ranges are compared, not messages.
        `publishers`: what was taken of those with names when the reign began.
        """
        if node not in self.backups:
            return
        theirs = sorted(held)
        progress = Progress(COPYING, last, now_ms)
        changing = [notes.get(what, {}) for what in NOTES_THAT_CHANGE]
        progress.noted = {p: None for table in changing for p in table if is_in(theirs, p)}
        noted = to_ranges(sorted(progress.noted))
        progress.missing = sorted([*minus(here, theirs), *noted])
        dropped = minus(theirs, here)
        self.backups[node] = progress
        self.awaited.pop(node, None)
        known = encode_copy(self.fragment_id, self.reign, [], [], origins)
        if publishers:
            known += encode_publishers(self.fragment_id, self.reign, last, ALL, publishers)
        self._send(node, CopyStart(self.fragment_id, self.reign, copy, last, dropped, known))

    def copies_under_way(self) -> list[NodeId]:
        """The backups that more chunks are to be sent to."""
        return [
            node
            for node, progress in self.backups.items()
            if progress.state == COPYING and not progress.done_sent
        ]

    def pump_copies(
        self, messages: Messages, notes: Notes, now_ms: int, work: Work,
        pressed: Collection[NodeId] = (),
    ) -> bool:  # fmt: skip
        """Sends the next chunks of every copy under way, newest messages first.

        A copy whose next message is on disk alone (no bytes) waits for it (`Progress.waits_for`):
        it is read while what was read before is under way. `pressed`: backups that few chunks may
        be under way to. False if the turn has no room for what could be sent.
        """
        for node in self.copies_under_way():
            progress = self.backups[node]
            most = COPY_CHUNKS_IN_FLIGHT_MIN if node in pressed else COPY_CHUNKS_IN_FLIGHT_MAX
            while not progress.done_sent:
                if progress.chunk_sent - progress.chunk_acked >= most:
                    progress.waits_for = self._next_on_disk(progress, messages)
                    break
                if not work.may_serve:
                    return False
                chunk = self._next_chunk(progress, messages, notes, work)
                if chunk is None:
                    if progress.waits_for:
                        break
                    continue
                self._send(node, chunk)
                progress.moved_ms = now_ms
        return True

    def on_ack(self, node: NodeId, through: int, copied: int, now_ms: int) -> bool:
        """Takes note that a backup holds the events up to `through` and the chunks up to `copied`.

        Whether that commits anything, or more of its copy is to be sent.
        """
        progress = self.backups.get(node)
        if progress is None or progress.state == WAITING:
            return False
        progress.moved_ms = now_ms
        progress.chunk_acked = max(progress.chunk_acked, copied)
        if progress.state == COPYING and progress.done_sent:
            if progress.chunk_acked < progress.chunk_sent:
                return False
            progress.state = STREAMING
            progress.mark, progress.mark_ms = self.commit, now_ms
        if progress.state != STREAMING:
            return True
        progress.acked = max(progress.acked, through)
        is_required = node in self.in_sync or node in self.joining
        if self._reach(progress.acked) >= progress.mark and not is_required:
            self._look_how_far_behind(node, progress, now_ms)
        return self._raise_commit()

    def _look_how_far_behind(self, node: NodeId, progress: Progress, now_ms: int) -> None:
        """Moves a backup's mark, if it has what was committed there."""
        if now_ms - progress.mark_ms <= COPY_BEHIND_MS_MAX:
            self.awaited[node] = None
        progress.mark, progress.mark_ms = self.commit, now_ms

    def follows(self, node: NodeId) -> bool:
        """Whether a backup has everything but what it has not acknowledged yet."""
        progress = self.backups.get(node)
        return progress is not None and progress.state == STREAMING

    def keeps_up(self, node: NodeId, now_ms: int, within_ms: int) -> bool:
        """Whether a backup follows, and owes nothing or has acknowledged something lately."""
        progress = self.backups.get(node)
        return (
            progress is not None
            and progress.state == STREAMING
            and (progress.acked >= progress.sent or now_ms - progress.moved_ms < within_ms)
        )

    def has(self, node: NodeId, event: int) -> bool:
        """Whether a backup has said that it has everything up to an event."""
        progress = self.backups.get(node)
        return progress is not None and progress.state == STREAMING and progress.acked >= event

    def may_join(self) -> list[NodeId]:
        """The backups that have everything and are not in the in-sync set yet."""
        return [
            node
            for node, progress in self.backups.items()
            if progress.state == STREAMING
            and node not in self.in_sync
            and self._reach(progress.acked) >= self.commit
        ]

    def propose_joining(self, node: NodeId) -> None:
        """Has commits need this backup, too, until the map has decided."""
        self.awaited.pop(node, None)
        self.joining[node] = None

    def end_joining(self, node: NodeId) -> None:
        """Needs the backup for commits no more: the map refused."""
        self.joining.pop(node, None)
        self._raise_commit()

    @property
    def bytes_read(self) -> int:
        """What was read for copies under way, and is not sent yet."""
        return sum([progress.bytes_read for progress in self.backups.values()])

    @property
    def settled(self) -> bool:
        """Whether every backup is in sync and owes nothing."""
        return all(
            node in self.in_sync and progress.acked >= progress.sent
            for node, progress in self.backups.items()
        )

    def stalled(self, now_ms: int, stall_ms: int, hanging: Collection[NodeId] = ()) -> list[NodeId]:
        """The required backups that owe something and have not moved for `stall_ms`.

        A tenth of that is enough where they are `hanging`: their disks have been waited for that
        long already.
        """
        return [
            node
            for node in (*self.in_sync, *self.joining, *self.awaited)
            if (progress := self.backups.get(node)) is not None
            and (progress.state != STREAMING or progress.acked < progress.sent)
            and now_ms - progress.moved_ms >= (stall_ms // 10 if node in hanging else stall_ms)
        ]

    def _next_on_disk(self, progress: Progress, messages: Messages) -> int:
        """The position that is next, if it has to be read first and was not; otherwise 0."""
        position = progress.missing[-1][1] if progress.missing else 0
        if position in progress.read or position in progress.noted:
            return 0
        return position if messages.message_at(position) == b"" else 0

    def _next_chunk(
        self, progress: Progress, messages: Messages, notes: Notes, work: Work
    ) -> CopyChunk | None:
        """The next chunk; None if what is next has to be read first, or was only looked for."""
        missing = progress.missing
        progress.waits_for = 0
        chunk = Chunk()
        most = self._chunk_bytes_max
        while missing and chunk.size < most and chunk.looked_at < LOOKED_MAX:
            if progress.waits_for:
                break
            first, position = missing.pop()
            lowest = position + 1 if progress.noted else messages.on_disk_from(position)
            if lowest <= position:
                lowest = max(lowest, first)
                left = chunk.take_read(progress, lowest, position, most)
            else:
                left = chunk.take(progress, position, messages)
            if first <= left:
                missing.append((first, left))
        if missing and not chunk.told:
            # What is next has to be read, or nothing of what was looked at is there any more.
            work.serve(chunk.cost)
            return None
        known = {
            what: {p: table[p] for p in chunk.told if p in table}
            for what, table in notes.items()
            if table
        }
        work.serve(chunk.cost)
        chunk.positions.reverse()
        chunk.bodies.reverse()
        copy = encode_copy(self.fragment_id, self.reign, chunk.positions, chunk.bodies, {})
        data = encode_with_notes(self.fragment_id, self.reign, copy, 0, known)
        progress.chunk_sent += 1
        progress.done_sent = not missing
        if not missing:
            # Of what was settled meanwhile something may be left.
            progress.put_read({})
        return CopyChunk(
            self.fragment_id, self.reign, progress.chunk_sent, progress.done_sent, data
        )

    def _raise_commit(self) -> bool:
        mark = self.local
        if self.backups:
            mark = self._least(self.in_sync, mark)
            mark = self._least(self.joining, mark)
            mark = self._least(self.awaited, mark)
            if self._silences:
                mark = self._with_silences(mark)
        if mark <= self.commit:
            return False
        self.commit = mark
        return True

    def _with_silences(self, mark: int) -> int:
        """What is committed if every required backup has acknowledged the mark, or is far ahead."""
        silences = self._silences
        if mark < self.local:
            mark = min(self.local, self._reach(mark))
        # The one at which the mark stands says who has as much.
        while silences and silences[0][1] < mark:
            silences.popleft()
        return mark

    def _least(self, required: dict[NodeId, None], mark: int) -> int:
        """What these have acknowledged, if that is less."""
        for node in required:
            progress = self.backups.get(node)
            if progress is not None and progress.acked < mark:
                mark = progress.acked
        return mark

    def _send(self, node: NodeId, message: Send) -> None:
        lane = self.sends.get(node)
        if lane is None:
            lane = self.sends[node] = []
        lane.append(message)
