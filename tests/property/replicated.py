"""A fragment's copies wired by hand, as the node wires them: the ground of the replication model.

`Member` is a node with a disk that syncs when told; `Leader` is the primary's part on one of them.
Between two members messages travel in order, in queues that the test empties as it likes.
"""

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from fedq.core.ids import FragmentId, NodeId, Origin, first_position
from fedq.core.peer_messages import CopyChunk, CopyStart, ReplicaAck, ReplicaOffer, Replicate
from fedq.core.ranges import Range
from fedq.core.work import Work
from fedq.fragments.fragment import Fragment
from fedq.fragments.primary.outbox import RecordOut
from fedq.fragments.replica import Replica
from fedq.journal.notes import Notes, forget_notes, take_notes
from fedq.journal.records import encode_group, encode_keep, encode_note, encode_with_notes
from fedq.journal.recovered import RecoveredFragment
from fedq.journal.recovery import recover
from fedq.replication.backup import BackupReplication
from fedq.replication.durable import DurableMark
from fedq.replication.primary import PrimaryReplication

FRAGMENT = FragmentId(1)

ToPrimary = ReplicaOffer | ReplicaAck
ToBackup = CopyStart | CopyChunk | Replicate


def held(replica: Replica) -> list[Range]:
    """The positions of a copy, found in the smallest pieces."""
    positions, work = replica.positions(), Work(1)
    while not positions.go_on(work):
        pass
    return positions.ranges


class Copies(NamedTuple):
    """What the map says of the fragment's copies."""

    epoch: int
    backups: list[NodeId]
    #: Contains the primary.
    in_sync: list[NodeId]


class Disk:
    """Chunks in order; some of them are on disk."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.synced = 0
        #: The last chunk that somebody waits for.
        self.asked = 0

    def append(self, data: bytes, sync: bool) -> int:
        """Returns the chunk's number if it must sync, else 0."""
        self.chunks.append(data)
        if sync:
            self.asked = len(self.chunks)
        return self.asked if sync else 0

    def after_power_cut(self) -> RecoveredFragment:
        """What a restart would find if the power went now, in the middle of a write."""
        recovered = recover({1: self._torn()})
        return recovered.fragments.get(FRAGMENT, RecoveredFragment())

    def cut_power(self) -> None:
        """The power goes: what was no whole record is cut away."""
        data = self._torn()
        self.chunks = [data[: recover({1: data}).segments[0].size]]
        self.synced = self.asked = 1

    def _torn(self) -> bytes:
        data = b"".join(self.chunks[: self.synced])
        if self.synced < len(self.chunks):
            last = self.chunks[self.synced]
            data += last[: len(last) * 3 // 4]
        return data


class Member:
    """A node: its disk, its copy, and the two directions of its link with the primary."""

    def __init__(self, name: str) -> None:
        self.name = NodeId(name)
        self.disk = Disk()
        self.replica = Replica(FRAGMENT, durable=True)
        self.following: BackupReplication | None = None
        self.copies_asked = 0
        self.inbox: deque[ToBackup] = deque()
        self.outbox: deque[ToPrimary] = deque()

    def restart(self) -> None:
        """Its process dies, the machine with it, and starts again with what its disk has."""
        found = self.disk.after_power_cut()
        self.disk.cut_power()
        self.replica = Replica(FRAGMENT, durable=True, messages=found.messages, notes=found.notes)
        self.following = None

    def follow(self, reign: int, primary: NodeId, created: bool) -> None:
        """The map made it a backup, or its link to the primary starts anew."""
        self.inbox.clear()
        self.outbox.clear()
        self.compare(reign, primary, created)

    def compare(self, reign: int, primary: NodeId, created: bool = False) -> None:
        """Follows from the start: unless all copies are empty, it says what it has."""
        self.following = BackupReplication(FRAGMENT, reign, primary, first_position(reign), created)
        if self.disk.asked > self.disk.synced:
            self.following.advance(self.disk.asked)
        if not created:
            self.copies_asked += 1
            self.following.copy = self.copies_asked
            self.outbox.append(ReplicaOffer(FRAGMENT, reign, self.copies_asked, held(self.replica)))

    def receive(self, amount: int) -> None:
        """Takes messages of the primary, and acknowledges what is safe."""
        following = self.following
        if following is None:
            return
        for _ in range(min(amount, len(self.inbox))):
            message = self.inbox.popleft()
            if isinstance(message, CopyStart):
                if following.on_start(message):
                    dropped, reign, base = message.dropped, message.reign, message.base
                    self.replica.start_copy(dropped, message.origins, reign, base, True)
                    keep = encode_keep(FRAGMENT, reign, base, dropped)
                    self.disk.append(keep, False)
            elif isinstance(message, CopyChunk):
                if following.on_chunk(message):
                    self._apply(following, message.records)
                    if message.done:
                        self._finish_copy(message.reign)
            elif following.on_records(message):
                self._apply(following, message.records)
        self._acknowledge()

    def sync(self, chunks: int) -> None:
        """Some more chunks are on disk."""
        self.disk.synced = min(self.disk.synced + chunks, len(self.disk.chunks))
        if self.following is not None:
            self.following.on_synced(self.disk.synced)
            self._acknowledge()

    def _apply(self, following: BackupReplication, records: bytes) -> None:
        applied = self.replica.apply(records)
        chunk = self.disk.append(records, applied.sync) if applied.journal else 0
        following.advance(chunk)

    def _finish_copy(self, reign: int) -> None:
        for what, values in self.replica.finish_copy(reign).items():
            self.disk.append(encode_note(FRAGMENT, reign, 0, what, values), False)

    def _acknowledge(self) -> None:
        ack = self.following.take_ack() if self.following is not None else None
        if ack is not None:
            self.outbox.append(ack)


class Leader:
    """The primary's part: its fragment, its disk's mark, and what it knows of the backups."""

    def __init__(
        self, member: Member, reign: int, chunk_bytes_max: int, created: bool, sparing: bool = False
    ) -> None:
        """`chunk_bytes_max`: how much of a copy travels in one piece."""
        self.member = member
        member.following = None
        member.inbox.clear()
        member.outbox.clear()
        self.reign = reign
        self.fragment = Fragment(
            FRAGMENT, reign, durable=True, recording=True,
            messages=member.replica.in_order(), origins=member.replica.origins, sparing=sparing,
        )  # fmt: skip
        last = self.fragment.last
        self.replication = PrimaryReplication(FRAGMENT, reign, last, chunk_bytes_max, sparing)
        #: The last event of each record that somebody else is to have.
        self.told: list[int] = []
        self.mark = DurableMark(last)
        disk = member.disk
        if disk.asked > disk.synced:
            self.mark = DurableMark(last - 1)
            self.mark.advance(last, disk.asked)
            self.replication.local = self.mark.safe
        self.created = created
        #: What this reign knows of its messages.
        self.notes: Notes = {}
        for what, values in member.replica.notes.items():
            take_notes(self.notes, what, values, self.fragment.messages)
        #: Notes that are not committed yet: (event, kind, values).
        self.noting: deque[tuple[int, int, Mapping[int, int]]] = deque()

    def publish(
        self, origin: Origin, first: int, messages: list[bytes], notes: Notes, resent: bool = False
    ) -> None:
        """Publishes, with notes by kind and by index in the batch, of which nothing parts them."""
        fragment, before = self.fragment, self.fragment.last
        since = len(fragment.out.records)
        fragment.publish(origin, first, messages, resent)
        begins = fragment.last + 1 - len(messages)
        for record in fragment.out.records[since:]:
            known, positions = Notes(), range(record.first_position, record.last_position + 1)
            for what, values in notes.items():
                placed = {begins + i: value for i, value in values.items() if begins + i > before}
                about = {p: value for p, value in placed.items() if p in positions}
                take_notes(known, what, about, fragment.messages)
                take_notes(self.notes, what, placed, fragment.messages)
            data = encode_with_notes(FRAGMENT, self.reign, record.data, record.last, known)
            record.data = data

    def settle(self, taker: NodeId, positions: list[int]) -> None:
        """Messages are gone, and their notes with them."""
        self.fragment.settle(taker, positions)
        forget_notes(self.notes, [p for p in positions if p not in self.fragment.messages])

    def note(self, what: int, values: Mapping[int, int]) -> None:
        """Something new is known of live messages."""
        fragment = self.fragment
        fragment.last += 1
        journal = any(fragment.messages[position][0] & 1 for position in values)
        data = encode_note(FRAGMENT, self.reign, fragment.last, what, values)
        if self.replication.sparing and not journal:
            data = b""
        fragment.out.records.append(RecordOut(fragment.last, 0, 0, data, journal, False))
        take_notes(self.notes, what, values, fragment.messages)
        self.noting.append((fragment.last, what, values))

    def as_one(self, since: int) -> None:
        """The records from this index on take effect together."""
        records = self.fragment.out.records[since:]
        if records:
            data = b"".join(r.data for r in records)
            data = encode_group(FRAGMENT, self.reign, data) if data else b""
            journal = any(r.journal for r in records)
            first = min((r.first_position for r in records if r.last_position), default=0)
            last = max(r.last_position for r in records)
            self.fragment.out.records[since:] = [
                RecordOut(records[-1].last, first, last, data, journal, journal)
            ]

    def committed_notes(self) -> Notes:
        """What every in-sync copy knows by now, since this was asked last."""
        committed = Notes()
        while self.noting and self.noting[0][0] <= self.replication.commit:
            _, what, values = self.noting.popleft()
            committed.setdefault(what, {}).update(values)
        return committed

    def set_copies(self, copies: Copies, now_ms: int) -> None:
        """The map's word."""
        self.drain(now_ms)
        others = [node for node in copies.in_sync if node != self.member.name]
        self.replication.set_copies(
            copies.backups, others, copies.epoch, self.fragment.last, self.created, now_ms
        )
        self.created = False

    def drain(self, now_ms: int) -> None:
        """New records go to the disk and to the backups."""
        records, self.fragment.out.records = self.fragment.out.records, []
        if not records:
            return
        chunk = 0
        for record in records:
            if record.journal:
                chunk = self.member.disk.append(record.data, record.sync) or chunk
        self.told += [record.last for record in records if record.data]
        self.mark.advance(records[-1].last, chunk)
        self.replication.on_records(records, now_ms)

    def hear(self, node: NodeId, message: ToPrimary, now_ms: int) -> None:
        """A backup's message."""
        if message.reign != self.reign:
            return
        if isinstance(message, ReplicaAck):
            self.replication.on_ack(node, message.through, message.copied, now_ms)
        else:
            self.drain(now_ms)
            fragment, messages = self.fragment, self.fragment.messages
            spares = self.replication.sparing
            here = messages.persistent_ranges() if spares else messages.ranges()
            self.replication.on_offer(
                node, message.copy, message.held, here, self.notes,
                fragment.origins, fragment.last, now_ms,
            )  # fmt: skip

    def end_turn(self, members: dict[NodeId, Member], now_ms: int) -> dict[Origin, int]:
        """Sends what is to be sent; returns what its publishers may be told now."""
        self.drain(now_ms)
        replication = self.replication
        # As if much were on its way to all of them.
        replication.pump_copies(
            self.fragment.messages, self.notes, now_ms, Work(20_000), replication.backups
        )
        sends, replication.sends = replication.sends, {}
        for node, messages in sends.items():
            members[node].inbox.extend(messages)
        self.mark.on_synced(self.member.disk.synced)
        if self.mark.safe > replication.local or replication.commit < replication.local:
            replication.on_local(self.mark.safe)
        done: dict[Origin, int] = {}
        owed = self.fragment.out.owed
        while owed and owed[0].event <= replication.commit:
            each = owed.popleft()
            done[each.origin] = max(each.through, done.get(each.origin, 0))
        return done
