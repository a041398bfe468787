"""Which part this node plays for each fragment, as the cluster map says: primary, backup or none.

`reconcile` compares the map's word with what is in memory and makes it so. What a new primary
starts from is, in this order: the copy it kept as a backup, the copy on its disk (after a
restart), nothing (a new fragment).

Changes `primaries`, `backups`, `recovered`.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fedq.core.ids import FragmentId, Origin, QueueKey, first_position
from fedq.core.limits import COPY_CHUNK_BYTES_MAX
from fedq.core.policy import QUARANTINED, QueuePolicy
from fedq.core.ranges import Range, is_in
from fedq.core.versions import STREAM_TIMES
from fedq.fragments.fragment import Fragment
from fedq.fragments.publishers.copied_publishers import CopiedPublishers, on_disk
from fedq.fragments.publishers.known_publishers import (
    PUBLISHER_WORK,
    KnownPublishers,
    marks_of,
)
from fedq.fragments.replica import Replica
from fedq.fragments.runs.stowed import StowedRanges, Stretch
from fedq.fragments.upkeep.asides import note_asides
from fedq.fragments.upkeep.seen import take_up_seen
from fedq.journal.events import ALL, Seen
from fedq.journal.notes import Notes, copy_of, forget_between
from fedq.journal.records import (
    NOTE_DEAD,
    encode_drop,
    encode_group,
    encode_publishers,
    encode_settle,
    encode_whole,
)
from fedq.journal.recovered import RecoveredFragment
from fedq.node.containment.rehearsal import failure_of
from fedq.node.copies.fragment_flow import FragmentFlow
from fedq.node.copies.replica_flow import ReplicaFlow
from fedq.node.records.roles import Backup, Primary
from fedq.node.records.state import NodeState
from fedq.node.risk import Fault
from fedq.replication.backup import BackupReplication
from fedq.replication.durable import DurableMark
from fedq.replication.primary import PrimaryReplication
from fedq.wiring.cluster_map.operations import REPLICATE_PERSISTENT
from fedq.wiring.cluster_map.state import FragmentInfo

#: How long after joining a copy on disk may wait for a part in the map.
KEEP_COLD_MS = 30_000


class Copy(NamedTuple):
    """What this node has of a fragment; `last` and `whole` as its disk has them."""

    messages: dict[int, bytes]
    origins: dict[Origin, int]
    notes: Notes
    last: int
    whole: bool = True
    #: The last primary's last word on what was seen.
    seen: Seen | None = None
    #: Who published what is here, as far as that is known no more.
    unsure: Mapping[Origin, int] = {}
    #: What is on disk alone, in the journal and in scratch files: first and last position, bytes;
    #: ascending.
    stowed: Sequence[Stretch] = ()
    scratched: Sequence[Stretch] = ()
    #: Where named readers go on.
    readers: Mapping[str, int] = {}
    #: What was taken of publishers with names.
    publishing: CopiedPublishers | None = None

    def holds(self, position: int) -> bool:
        """Whether there is a message at this position."""
        return position in self.messages or any(
            first <= position <= last for first, last, _ in (*self.stowed, *self.scratched)
        )


class FragmentRoles:
    """Takes up and gives up parts for fragments, as the map says."""

    __slots__ = ("fragments", "replicas", "state")

    def __init__(self, state: NodeState, fragments: FragmentFlow, replicas: ReplicaFlow) -> None:
        self.state = state
        self.fragments = fragments
        self.replicas = replicas

    def reconcile(self, fragment: FragmentId) -> bool:
        """Takes up the part the map gives this node; true if a reign begins here."""
        try:
            return self._reconcile(fragment)
        except Exception:
            self._retire(fragment)
            raise

    def _reconcile(self, fragment: FragmentId) -> bool:
        state = self.state
        info = state.map.fragments.get(fragment)
        if not state.map.is_up(state.me, state.settings.incarnation):
            return False
        if info is None:
            self.leave(fragment)
        elif info.primary == state.me:
            if info.in_sync.get(state.me) == state.settings.incarnation:
                return self._lead(info)
        elif state.me in info.backups:
            self._follow(info)
        elif fragment not in state.recovered:
            self.leave(fragment)
        return False

    def _retire(self, fragment: FragmentId) -> None:
        """Retires: the next part cannot be taken up, and an earlier reign here ends all the same.

        What is there waits in memory for the next try, as if it had been read from the disk.
        """
        state = self.state
        primary, info = state.primaries.get(fragment), state.map.fragments.get(fragment)
        if primary is None or info is None:
            return
        ended = primary.fragment
        if (info.primary, info.reign) != (state.me, ended.reign):
            # Its last events must reach the disk like all others.
            self.drain(primary)
            del state.primaries[fragment]
            state.recovered[fragment] = RecoveredFragment(
                dict(ended.messages.pairs()), ended.last, ended.reign, dict(ended.origins),
                ended.notes, durable=ended.recorder.durable, stowed=ended.stowed,
                scratched=ended.scratched, readers=ended.reader_places,
                publishers=marks_of(ended.publishers),
            )  # fmt: skip

    def forget_cold(self) -> None:
        """Forgets copies from the disk that the map has found no use for.

        A node that restarts is taken out of its fragments' copies and, mostly, soon put back: what
        it has on disk need not be sent to it again. So they are kept for a while; and as long as no
        copy in sync is up, for an operator may have to name this one (`fedq store mark-clean`).
        """
        state = self.state
        if state.failed_copies:
            self.begin_failed_anew()
        if not state.joined or state.now_ms - state.joined_ms < KEEP_COLD_MS:
            return
        for fragment in list(state.recovered):
            info = state.map.fragments.get(fragment)
            if info is None or (state.me not in info.copies and state.map.hot_copies(info)):
                self.leave(fragment)

    def begin_failed_anew(self) -> None:
        """Begins copies anew that this node could not keep, and that nobody counts on."""
        state = self.state
        for fragment, (failed_ms, wait_ms) in state.failed_copies.items():
            backup, info = state.backups.get(fragment), state.map.fragments.get(fragment)
            if backup is None or info is None or not backup.failed or state.me in info.in_sync:
                continue
            if state.now_ms - failed_ms >= wait_ms:
                durable = backup.replica.durable
                self._write(fragment, encode_drop(fragment))
                backup.replica = Replica(fragment, durable=durable)
                backup.last = backup.replication.received = first_position(info.reign)
                backup.failed = False
                self.refollow(backup)

    def leave(self, fragment: FragmentId) -> None:
        """Gives up the copy of this node: memory and journal forget it."""
        if self.forget(fragment):
            self._write(fragment, encode_drop(fragment))

    def forget(self, fragment: FragmentId) -> bool:
        """Forgets in memory alone, for the next start to find; whether it was here."""
        state = self.state
        held = fragment in state.primaries or fragment in state.backups
        held = held or fragment in state.recovered
        state.primaries.pop(fragment, None)
        state.backups.pop(fragment, None)
        state.recovered.pop(fragment, None)
        state.marks.primaries.pop(fragment, None)
        state.marks.backups.pop(fragment, None)
        state.failed_copies.pop(fragment, None)
        return held

    def drain(self, primary: Primary) -> None:
        """Lets the journal, and the backups, have the primary's last events."""
        risk = self.state.risk
        risk.begin()
        self.fragments.drain_records(primary)
        risk.end()

    def _write(self, fragment: FragmentId, record: bytes) -> None:
        """Writes a record without messages to the journal."""
        risk = self.state.risk
        risk.begin()
        self.state.plan.append(fragment, record, False)
        risk.end()

    def refollow(self, backup: Backup) -> None:
        """Has the copy compared again, as the link to the primary starts anew."""
        if backup.failed:
            return
        info = self.state.map.fragments[backup.replication.fragment_id]
        backup.last = backup.last_held
        backup.replication = self._backup_replication(info, created=False)
        self.replicas.offer(backup)

    def compare_again(self) -> None:
        """Begins copies anew that did not follow their primaries."""
        suspects, self.state.marks.suspect_copies = self.state.marks.suspect_copies, {}
        for fragment in suspects:
            backup = self.state.backups.get(fragment)
            if backup is not None:
                self.refollow(backup)

    def oldest_persistent(self, fragment: FragmentId) -> int | None:
        """The lowest position of a fragment that the journal must keep."""
        state = self.state
        primary = state.primaries.get(fragment)
        if primary is not None:
            return primary.fragment.oldest_persistent()
        backup, recovered = state.backups.get(fragment), state.recovered.get(fragment)
        if backup is not None:
            # Without what says that a copy has begun, a half one would pass for a whole one.
            return backup.replica.oldest_persistent() if backup.whole else 0
        if recovered is None:
            return None
        return recovered.oldest if recovered.whole else 0

    # --- primary -----------------------------------------------------------------------------

    def _lead(self, info: FragmentInfo) -> bool:
        """Serves the fragment; what raises on the way leaves all as it was."""
        state = self.state
        primary = state.primaries.get(info.id)
        begins = primary is None or primary.fragment.reign != info.reign
        created = info.reign == info.created
        if primary is None or begins:
            primary = self._become_primary(info)
        others = [node for node in info.in_sync if node != state.me]
        self.drain(primary)
        recorder = primary.fragment.recorder
        recorder.active = recorder.durable or bool(info.backups)
        primary.replication.set_copies(
            info.backups, others, info.epoch, primary.fragment.last, begins and created,
            state.now_ms,
        )  # fmt: skip
        if begins:
            self._begin_reign(info, primary)
        state.marks.primaries[info.id] = None
        state.marks.queues[info.queue] = None
        return begins

    def _begin_fragment(self, info: FragmentInfo, copy: Copy, aside: list[int]) -> Fragment:
        """The fragment as its reign begins, with these messages set aside."""
        durable = self.state.map.queues[info.queue].durable
        notes = copy.notes
        if aside:
            dead = {**notes.get(NOTE_DEAD, {}), **dict.fromkeys(aside, QUARANTINED)}
            notes = {**notes, NOTE_DEAD: dead}
        fragment = Fragment(
            info.id, info.reign, durable=durable, recording=durable or bool(info.backups),
            policy=self.part_of_policy(info.queue), messages=copy.messages, origins=copy.origins,
            notes=notes, unix_ms=self.state.unix_ms, sparing=self._spares(info),
            stowed=copy.stowed, scratched=copy.scratched,
        )  # fmt: skip
        fragment.out.losses = self.state.losses
        if info.queue.vhost in self.state.map.refusing:
            fragment.doubts = True
        if fragment.log is not None:
            fragment.log.notes_times = self.state.all_speak(STREAM_TIMES)
        fragment.begin_readers(copy.readers)
        if copy.publishing is not None and (copy.publishing.sure or copy.publishing.ahead):
            # Also where nothing is sure: the disk may have what the last primary had taken.
            fragment.publishers = KnownPublishers(copy.publishing.sure, self.state.unix_ms)
        # A reign begins at the epoch that made it: no other one lies between.
        if copy.seen is not None and copy.whole and copy.seen.epoch + 1 == info.reign:
            take_up_seen(fragment, copy.seen.ranges)
        return fragment

    def _spares(self, info: FragmentInfo) -> bool:
        """Whether backups are to hear of persistent messages alone."""
        return self.state.map.queues[info.queue].mode == REPLICATE_PERSISTENT

    def _failing(
        self, info: FragmentInfo, messages: dict[int, bytes], error: Exception
    ) -> list[int]:
        """The messages that fail wherever they are tried, of a fragment that could not begin."""
        state, policy = self.state, self.part_of_policy(info.queue)
        state.out.faults.append(Fault(f"fragment {info.id} could not begin its reign", error))
        return [
            position for position, message in messages.items()
            if failure_of(message, policy, state.unix_ms) is not None
        ]  # fmt: skip

    def _become_primary(self, info: FragmentInfo) -> Primary:
        """Makes a primary of the new reign, of what this node has; nobody knows of it yet."""
        state = self.state
        state.at, state.at_what = info.queue, None
        copy, reverted = _reverted(self._copy_of(info.id))
        aside = [p for p in state.suspects.of(info.id) if copy.holds(p)]
        try:
            fragment = self._begin_fragment(info, copy, aside)
        except Exception as error:
            # Nothing has changed yet: those it fails at are set aside, and it is begun anew.
            aside = sorted([*aside, *self._failing(info, copy.messages, error)])
            fragment = self._begin_fragment(info, copy, aside)
        if aside:
            note_asides(fragment, aside)
        replication = PrimaryReplication(
            info.id, info.reign, fragment.last,
            state.settings.piece_bytes(COPY_CHUNK_BYTES_MAX), self._spares(info),
        )  # fmt: skip
        if fragment.publishers is not None:
            fragment.safe = replication.commit
            state.named[info.id] = None
        primary = Primary(info.queue, fragment, replication, state.now_ms)
        primary.reverted = reverted
        primary.begun_chunk = state.sync_asked
        if state.sync_asked > state.synced:
            # Some of the copy may be on its way to the disk yet: nothing counts before.
            primary.mark = DurableMark(fragment.last - 1)
            primary.mark.advance(fragment.last, state.sync_asked)
            replication.local = primary.mark.safe
        if info.reign != info.created:
            primary.attaching = dict.fromkeys(state.live_peers(), state.map.version)
            primary.unsure = copy.unsure
            # Its consumers may all have died with the old primary: the queue goes with them.
            primary.takers.had_consumers = state.map.queues[info.queue].consumed
        state.untold.update(dict.fromkeys([(info.id, position) for position in aside]))
        return primary

    def _begin_reign(self, info: FragmentInfo, primary: Primary) -> None:
        """Puts the new primary in the place of what this node had of the fragment before."""
        state = self.state
        if primary.fragment.recorder.durable and info.reign != info.created:
            # Whatever it was: from now on all that counts is here.
            self._write(info.id, _beginning(info, primary))
        if primary.fragment.publishers is not None:
            state.work.apply(len(primary.fragment.publishers) * PUBLISHER_WORK)
        if state.sync_asked > state.synced:
            self.fragments.await_sync(primary, state.sync_asked)
        if info.reign != info.created:
            state.attaching[info.id] = None
        state.suspects.take(info.id)
        state.backups.pop(info.id, None)
        state.recovered.pop(info.id, None)
        state.primaries[info.id] = primary
        state.ages.begin(info.id, primary.fragment.last, state.now_ms)
        if state.tracer is not None:
            state.tracer.on_leads(primary.fragment)

    def part_of_policy(self, queue: QueueKey) -> QueuePolicy:
        """What the queue's policy asks of one of its fragments: its equal part of a length."""
        policy = self.state.policy_of(queue)
        count = len(self.state.map.queues[queue].fragments)
        if count == 1:
            return policy
        return policy._replace(
            max_length=None if policy.max_length is None else -(-policy.max_length // count),
            max_bytes=None if policy.max_bytes is None else -(-policy.max_bytes // count),
        )

    def _copy_of(self, fragment: FragmentId) -> Copy:
        """What this node has of the fragment, from wherever it is."""
        state = self.state
        primary = state.primaries.get(fragment)
        if primary is not None:
            # Its last events must reach the disk like all others.
            self.drain(primary)
            old = primary.fragment
            here = dict(old.messages.pairs())
            stowed, scratched = StowedRanges(old.stowed), StowedRanges(old.scratched)
            notes = copy_of(old.notes)
            for first, last in primary.damaged:
                # What this node cannot read it does not have.
                stowed.forget(first, last)
                scratched.forget(first, last)
            forget_between(notes, primary.damaged)
            return Copy(
                here, old.origins, notes, old.last, stowed=list(stowed),
                scratched=list(scratched), readers=old.reader_places,
                publishing=CopiedPublishers(marks_of(old.publishers), old.reign),
            )  # fmt: skip
        backup = state.backups.get(fragment)
        if backup is not None:
            replica, last = backup.replica, backup.last_held
            return Copy(
                replica.in_order(), replica.origins, replica.known_notes, last, backup.whole,
                replica.seen, backup.unsure, list(replica.stowed), list(replica.scratched),
                replica.readers, replica.publishing,
            )  # fmt: skip
        recovered = state.recovered.get(fragment)
        if recovered is not None:
            # Of the origins it knows nothing: transient publishes that it has seen are not on the
            # disk. One that is sent again is taken again, and marked redelivered.
            return Copy(
                recovered.messages, {}, recovered.notes, recovered.last, recovered.whole,
                recovered.seen, recovered.origins, recovered.stowed, recovered.scratched,
                recovered.readers, on_disk(recovered),
            )  # fmt: skip
        return Copy({}, {}, {}, 0)

    # --- backup ------------------------------------------------------------------------------

    def _follow(self, info: FragmentInfo) -> None:
        state = self.state
        backup = state.backups.get(info.id)
        if backup is not None:
            replication = backup.replication
            if state.me not in info.in_sync:
                backup.replica.publishing.leave_sync()
            if (replication.reign, replication.primary) == (info.reign, info.primary):
                return
        durable = state.map.queues[info.queue].durable
        copy = self._copy_of(info.id)
        created = (
            info.reign == info.created and info.in_sync.get(state.me) == state.settings.incarnation
        )
        replica = Replica(
            info.id, durable=durable, messages=copy.messages, origins=copy.origins,
            notes=copy.notes, stowed=copy.stowed, scratched=copy.scratched,
        )  # fmt: skip
        replica.seen, replica.readers = copy.seen, copy.readers
        # Of one that was just created there is nothing that this copy has not got.
        complete = info.reign if created else 0
        replica.publishing = copy.publishing or CopiedPublishers(reign=complete)
        replication = self._backup_replication(info, created)
        backup = Backup(info.queue, replica, replication, copy.last, copy.whole, copy.unsure)
        known = state.backups.get(info.id)
        # What it failed at may be in memory alone, or on disk alone: it is none in this reign, too.
        backup.failed = replication.astray = known is not None and known.failed
        # Who leads it now has heard what to set aside; an operator may have put it back since.
        state.suspects.take(info.id)
        state.primaries.pop(info.id, None)
        state.recovered.pop(info.id, None)
        state.backups[info.id] = backup
        if not created and not backup.failed:
            self.replicas.offer(backup)

    def _backup_replication(self, info: FragmentInfo, created: bool) -> BackupReplication:
        state = self.state
        replication = BackupReplication(
            info.id, info.reign, info.primary, first_position(info.reign), created
        )
        if state.sync_asked > state.synced:
            # What this copy holds already may be on its way to the disk yet.
            replication.advance(state.sync_asked)
            self.replicas.await_sync(info.id, state.sync_asked)
        return replication


def _reverted(copy: Copy) -> tuple[Copy, list[Range]]:
    """The copy as it was before it was made equal to its last primary, if that was not done.

    And what had come since, which goes; of a copy that knows publishers with names (ADR 0078).
    """
    ranges = copy.publishing.to_revert() if copy.publishing is not None else []
    if not ranges:
        return copy, ranges
    stowed, scratched = StowedRanges(copy.stowed), StowedRanges(copy.scratched)
    for first, last in ranges:
        stowed.forget(first, last)
        scratched.forget(first, last)
    notes = copy_of(copy.notes)
    forget_between(notes, ranges)
    messages = {p: message for p, message in copy.messages.items() if not is_in(ranges, p)}
    return copy._replace(
        messages=messages, notes=notes, stowed=list(stowed), scratched=list(scratched)
    ), ranges


def _beginning(info: FragmentInfo, primary: Primary) -> bytes:
    """What the journal is to say as a reign begins: this copy counts, less what it reverted."""
    fragment = primary.fragment
    records = encode_whole(info.id, info.reign)
    if primary.reverted:
        records += encode_settle(info.id, info.reign, fragment.last, primary.reverted)
    if primary.reverted or fragment.publishers is not None:
        marks = marks_of(fragment.publishers)
        records += encode_publishers(info.id, info.reign, fragment.last, ALL, marks)
        records = encode_group(info.id, info.reign, records)
    return records
