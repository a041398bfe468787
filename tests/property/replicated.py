"""A fragment's copies wired by hand, as the node wires them: the ground of the replication model.

`Member` is a node with a disk that syncs when told; `Leader` is the primary's part on one of them.
Between two members messages travel in order, in queues that the test empties as it likes.
"""

from collections import deque
from typing import NamedTuple

from fedq.core.ids import FragmentId, NodeId, Origin, first_position
from fedq.core.peer_messages import CopyChunk, CopyStart, ReplicaAck, ReplicaOffer, Replicate
from fedq.fragments.fragment import Fragment
from fedq.fragments.replica import Replica
from fedq.journal.records import encode_keep
from fedq.journal.recovery import RecoveredFragment, recover
from fedq.replication.backup import BackupReplication
from fedq.replication.durable import DurableMark
from fedq.replication.primary import PrimaryReplication

FRAGMENT = FragmentId(1)

ToPrimary = ReplicaOffer | ReplicaAck
ToBackup = CopyStart | CopyChunk | Replicate


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
        """What a restart would find if the power went now."""
        data = b"".join(self.chunks[: self.synced])
        return recover([(1, data)]).fragments.get(FRAGMENT, RecoveredFragment())


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
            self.outbox.append(
                ReplicaOffer(FRAGMENT, reign, self.copies_asked, self.replica.held())
            )

    def receive(self, amount: int) -> None:
        """Takes messages of the primary, and acknowledges what is safe."""
        following = self.following
        if following is None:
            return
        for _ in range(min(amount, len(self.inbox))):
            message = self.inbox.popleft()
            if isinstance(message, CopyStart):
                if following.on_start(message):
                    self.replica.start_copy(message.dropped, message.origins)
                    keep = encode_keep(FRAGMENT, message.reign, message.base, message.dropped)
                    self.disk.append(keep, False)
            elif isinstance(message, CopyChunk):
                if following.on_chunk(message):
                    self._apply(following, message.records)
                    if message.done:
                        self.replica.finish_copy()
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

    def _acknowledge(self) -> None:
        ack = self.following.take_ack() if self.following is not None else None
        if ack is not None:
            self.outbox.append(ack)


class Leader:
    """The primary's part: its fragment, its disk's mark, and what it knows of the backups."""

    def __init__(self, member: Member, reign: int, created: bool) -> None:
        self.member = member
        member.following = None
        member.inbox.clear()
        member.outbox.clear()
        self.reign = reign
        self.fragment = Fragment(
            FRAGMENT, reign, durable=True, recording=True,
            messages=member.replica.in_order(), origins=member.replica.origins,
        )  # fmt: skip
        last = self.fragment.last
        self.replication = PrimaryReplication(FRAGMENT, reign, last)
        self.mark = DurableMark(last)
        disk = member.disk
        if disk.asked > disk.synced:
            self.mark = DurableMark(last - 1)
            self.mark.advance(last, disk.asked)
            self.replication.local = self.mark.safe
        self.created = created

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
            fragment = self.fragment
            self.replication.on_offer(
                node, message.copy, message.held, fragment.messages, {}, fragment.origins,
                fragment.last, now_ms,
            )  # fmt: skip

    def end_turn(self, members: dict[NodeId, Member], now_ms: int) -> dict[Origin, int]:
        """Sends what is to be sent; returns what its publishers may be told now."""
        self.drain(now_ms)
        replication = self.replication
        replication.pump_copies(self.fragment.messages, {}, now_ms)
        sends, replication.sends = replication.sends, {}
        for node, messages in sends.items():
            members[node].inbox.extend(messages)
        self.mark.on_synced(self.member.disk.synced)
        if self.mark.safe > replication.local or replication.commit < replication.local:
            replication.on_local(self.mark.safe)
        done: dict[Origin, int] = {}
        owed = self.fragment.out.owed
        while owed and owed[0][0] <= replication.commit:
            _, origin, through = owed.popleft()
            done[origin] = max(through, done.get(origin, 0))
        return done
