"""Copies that this node keeps for other primaries: apply, journal, acknowledge.

Changes `backups`, `sync_waits`; sends to primaries.
"""

from fedq.core.ids import FragmentId, NodeId
from fedq.core.limits import FAILED_COPY_MS_MAX, FAILED_COPY_MS_MIN
from fedq.core.peer_messages import (
    CopyChunk,
    CopyStart,
    ReplicaOffer,
    Replicate,
    ReplicaWanted,
)
from fedq.fragments.publishers.known_publishers import PUBLISHER_WORK
from fedq.journal.decoding import CorruptRecord, outlines
from fedq.journal.events import SURE
from fedq.journal.records import (
    encode_group,
    encode_keep,
    encode_note,
    encode_publishers,
    encode_whole,
)
from fedq.journal.segments import KEEP_POSITION
from fedq.node.records.roles import Backup
from fedq.node.records.state import NodeState
from fedq.node.risk import Fault


class ReplicaFlow:
    """The copies that this node keeps for other primaries."""

    __slots__ = ("state",)

    def __init__(self, state: NodeState) -> None:
        self.state = state

    def offer(self, backup: Backup) -> None:
        """Tells the primary what this copy holds, so that it makes it complete."""
        self.state.chores.begin(backup, _Offering(self.state, backup))

    def on_wanted(self, sender: NodeId, message: ReplicaWanted) -> None:
        """The primary has stopped sending: this copy fell too far behind."""
        backup = self._current(message.fragment, sender)
        if backup is not None and backup.replication.reign == message.reign:
            self.state.marks.suspect_copies[message.fragment] = None

    def on_copy_start(self, sender: NodeId, message: CopyStart) -> None:
        """The copy begins: what the primary does not have is forgotten, on disk too."""
        backup = self._current(message.fragment, sender)
        if backup is None:
            return
        try:
            outlines(message.origins, message.fragment)
        except CorruptRecord as error:
            self._doubt(backup, f"a bad record of origins: {error}")
            return
        if not backup.replication.on_start(message):
            return
        info = self.state.map.fragments[message.fragment]
        in_sync = info.in_sync.get(self.state.me) == self.state.settings.incarnation
        replica, reign, base = backup.replica, message.reign, message.base
        knew = replica.publishing.sure or replica.publishing.ahead
        replica.start_copy(message.dropped, message.origins, reign, base, in_sync)
        backup.whole = False
        if replica.durable:
            keep = encode_keep(message.fragment, reign, base, message.dropped)
            sure = replica.publishing.sure
            if sure or knew:
                # That nothing is sure any more is written, too: the disk has what was.
                known = encode_publishers(message.fragment, reign, base, SURE, sure)
                self.state.work.serve(len(sure) * PUBLISHER_WORK)
                keep = encode_group(message.fragment, reign, keep + known)
            self.state.plan.append(
                message.fragment, keep, False, KEEP_POSITION, KEEP_POSITION, copied=True
            )

    def on_copy_chunk(self, sender: NodeId, message: CopyChunk) -> None:
        """Takes old messages, newest first."""
        backup = self._current(message.fragment, sender)
        if backup is not None and backup.replication.on_chunk(message):
            if self._apply(backup, message.records) and message.done:
                self._finish_copy(backup)
        elif backup is not None and backup.replication.astray:
            self._doubt(backup, f"chunk {message.number} of a copy out of its order")

    def _finish_copy(self, backup: Backup) -> None:
        """Completes the copy; notes that the primary does not know are void on disk, too."""
        replication = backup.replication
        for what, values in backup.replica.finish_copy(replication.reign).items():
            data = encode_note(
                replication.fragment_id, replication.reign, replication.received, what, values
            )
            self.state.plan.append(replication.fragment_id, data, False)
        backup.whole = True
        if backup.replica.durable:
            whole = encode_whole(replication.fragment_id, replication.reign)
            number = self.state.plan.append(replication.fragment_id, whole, True)
            replication.advance(number)
            self.await_sync(replication.fragment_id, number)

    def on_replicate(self, sender: NodeId, message: Replicate) -> None:
        """Takes live records."""
        backup = self._current(message.fragment, sender)
        if backup is not None and backup.replication.on_records(message):
            if not self._apply(backup, message.records):
                backup.replication.received = message.previous
        elif backup is not None and backup.replication.astray:
            self._doubt(backup, f"records after {message.previous} out of their order")

    def _doubt(self, backup: Backup, why: str) -> None:
        """Counts nothing of what came: the copy is compared with the primary's once more."""
        fragment = backup.replication.fragment_id
        if fragment not in self.state.marks.suspect_copies and not backup.failed:
            self.state.out.warnings.append(f"fragment {fragment}: {why}")
            self.state.marks.suspect_copies[fragment] = None

    def _give_up(self, backup: Backup, error: Exception) -> None:
        """Gives the copy up (ADR 0042): what its primary sent cannot be taken in here.

        Nothing but this copy is half changed. It acknowledges nothing from now on, so its primary
        has it taken out of the set in sync; after a while it is begun anew, empty.
        """
        state = self.state
        fragment = backup.replication.fragment_id
        text = f"this node cannot keep a copy of fragment {fragment} of {backup.queue.name!r}"
        state.out.faults.append(Fault(text, error))
        state.found[f"copy {fragment}"] = (text, state.now_ms)
        _, wait_ms = state.failed_copies.get(fragment, (0, FAILED_COPY_MS_MIN // 4))
        state.failed_copies[fragment] = (state.now_ms, min(4 * wait_ms, FAILED_COPY_MS_MAX))
        backup.failed = backup.replication.astray = True
        backup.whole = False
        state.marks.suspect_copies.pop(fragment, None)

    def _apply(self, backup: Backup, records: bytes) -> bool:
        """Applies records of the primary; false if they are none, and nothing of them counts."""
        state, replication = self.state, backup.replication
        try:
            applied = backup.replica.apply(records)
        except CorruptRecord as error:
            self._doubt(backup, f"bad records: {error}")
            return False
        except Exception as failure:
            self._give_up(backup, failure)
            return False
        chunk = 0
        if applied.journal:
            number = state.plan.append(
                replication.fragment_id,
                records,
                applied.sync,
                applied.first,
                applied.last,
                applied.copied,
            )
            chunk = number if applied.sync else 0
        replication.advance(chunk)
        if chunk:
            self.await_sync(replication.fragment_id, chunk)
        state.marks.backups[replication.fragment_id] = None
        return True

    def await_sync(self, fragment: FragmentId, chunk: int) -> None:
        """Lets the backup hear when a journal chunk is on disk."""
        self.state.sync_asked = chunk
        self.state.sync_waits.append((chunk, fragment))

    def on_synced(self, fragment: FragmentId, chunk: int) -> None:
        """Takes note that the journal is on disk up to a chunk for which the backup has waited."""
        backup = self.state.backups.get(fragment)
        if backup is not None:
            backup.replication.on_synced(chunk)
            self.state.marks.backups[fragment] = None

    def finish(self, backup: Backup) -> None:
        """Sends one acknowledgement per fragment and turn, if there is something new."""
        ack = backup.replication.take_ack()
        if ack is not None:
            self.state.send(backup.replication.primary, ack)

    def _current(self, fragment: FragmentId, sender: NodeId) -> Backup | None:
        backup = self.state.backups.get(fragment)
        if backup is None or backup.replication.primary != sender:
            return None
        return backup


class _Offering:
    """A chore: finds out what a copy holds, and offers it to the primary that it follows.

    Until then nothing of that primary is taken in. If it follows another one meanwhile, or anew,
    there is another offer for that.
    """

    __slots__ = ("_backup", "_edits", "_positions", "_replication", "_state")

    def __init__(self, state: NodeState, backup: Backup) -> None:
        self._state = state
        self._backup = backup
        self._replication = backup.replication
        self._begin()

    def _begin(self) -> None:
        replica = self._backup.replica
        self._edits = replica.edits
        self._positions = replica.positions()

    def go_on(self) -> bool:
        """Looks at the next positions of the copy."""
        state, backup, replication = self._state, self._backup, self._replication
        fragment = replication.fragment_id
        if state.backups.get(fragment) is not backup or backup.replication is not replication:
            return True
        if backup.replica.edits != self._edits:
            self._begin()
        if not self._positions.go_on(state.work):
            return False
        state.copies_asked += 1
        replication.copy = state.copies_asked
        ranges = self._positions.ranges
        offer = ReplicaOffer(fragment, replication.reign, replication.copy, ranges)
        state.send(replication.primary, offer)
        return True
