"""Primary and backups through copies, evictions, joins and failovers: nothing confirmed is lost.

Links deliver in order, disks sync late, the cluster map decides late, and the primary hears of its
decisions later still. The model knows which publishes were confirmed and which were settled; what
is left of those must be on every copy that the map counts on, and, if persistent, on its disk. So
must the notes of messages: those that come with a message are wherever it is.
"""

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from fedq.core.ids import Incarnation, NodeId, Origin
from fedq.core.message import is_persistent
from fedq.fragments.replica import Replica
from fedq.journal.notes import Notes
from fedq.journal.records import NOTE_DEAD, NOTE_EXPIRES, NOTE_RETURNS
from fedq.replication.backup import COPYING, OFFERED
from fedq.replication.progress import STREAMING
from tests.examples import examples
from tests.property.replicated import FRAGMENT, Copies, Leader, Member
from tests.unit.journal.samples import message

#: Two messages fill a chunk, so that copies take many.
CHUNK_BYTES = 80


class Proposal(NamedTuple):
    """A change of the in-sync set, as proposed at an epoch."""

    epoch: int
    in_sync: list[NodeId]


ANN, BEN, CAT, DAN = NAMES = [NodeId("ann"), NodeId("ben"), NodeId("cat"), NodeId("dan")]
CLIENT = Origin(NodeId("eve"), Incarnation(1))
TAKER = NodeId("eve")
STALL_MS = 1_000


def expires(number: int) -> int | None:
    """When a publish expires: every second one does."""
    return number * 1_000 if number % 2 else None


def notes_of_publishes(first: int, last: int) -> Notes:
    """Their notes, by index."""
    times = {n - first: when for n in range(first, last + 1) if (when := expires(n)) is not None}
    return {NOTE_EXPIRES: times}


names = st.sampled_from(NAMES)


class ReplicationMachine(RuleBasedStateMachine):
    """One fragment, four nodes, and a map that is agreed on somewhere else."""

    #: Transient messages are on the primary alone; see `test_sparing_model`.
    sparing = False

    def __init__(self) -> None:
        super().__init__()
        self.members = {name: Member(name) for name in NAMES}
        self.now_ms = 0
        self.last_number = 0
        self.confirmed = 0
        #: Publishes a primary has heard of, by number: what a failover makes the client resend.
        self.bodies: dict[int, bytes] = {}
        self.settled: dict[bytes, None] = {}
        #: A copy that is not complete cannot say which publishes it lacks. Rather than lose one it
        #: takes those that it holds once more, if it has to lead.
        self.may_repeat: dict[bytes, None] = {}
        #: Publishes up to this one were confirmed when such a copy had to lead: if sent again,
        #: because their publisher had not heard so, they would be taken twice.
        self.unsure = 0
        #: Notes that may not be lost: by kind, by position.
        self.safe_notes: Notes = {NOTE_RETURNS: {}, NOTE_DEAD: {}}

    def teardown(self) -> None:
        self.come_to_rest()

    @initialize(count=st.integers(0, 3))
    def create(self, count: int) -> None:
        primary, *others = NAMES[: count + 1]
        self.primary = primary
        #: What the map says; what the primary has heard of it comes later.
        self.copies = Copies(1, others, [primary, *others])
        #: Commands that the log may commit, in order, and whether their proposer still waits.
        self.log: list[Proposal] = []
        #: The map's news on their way to the primary; None: its proposal was refused.
        self.news: deque[Copies | None] = deque()
        self.waiting: Proposal | None = None
        self.leader = Leader(self.members[primary], 1, CHUNK_BYTES, True, self.sparing)
        for name in others:
            self.members[name].follow(1, primary, created=True)
        self.leader.set_copies(self.copies, self.now_ms)

    # --- clients ---------------------------------------------------------------------------------

    @rule(kinds=st.lists(st.booleans(), min_size=1, max_size=5))
    def publish(self, kinds: list[bool]) -> None:
        first = self.last_number + 1
        for persistent in kinds:
            self.last_number += 1
            self.bodies[self.last_number] = message(str(self.last_number), persistent)
        batch = [self.bodies[number] for number in range(first, self.last_number + 1)]
        self.leader.publish(CLIENT, first, batch, notes_of_publishes(first, self.last_number))

    @rule(amount=st.integers(1, 4))
    def consume(self, amount: int) -> None:
        taken = self.leader.fragment.take(TAKER, amount)
        self.leader.settle(TAKER, taken.positions)
        self.settled.update(dict.fromkeys(taken.messages))

    @rule(amount=st.integers(0, 3), kinds=st.lists(st.booleans(), min_size=1, max_size=3))
    def transact(self, amount: int, kinds: list[bool]) -> None:
        """Acknowledgements and publishes that take effect together."""
        since = len(self.leader.fragment.out.records)
        if amount:
            self.consume(amount)
        self.publish(kinds)
        self.leader.as_one(since)

    @rule(every=st.integers(1, 4), dead=st.booleans())
    def note(self, every: int, dead: bool) -> None:
        """Messages come back, or die."""
        leader = self.leader
        positions = list(leader.fragment.messages)[::every]
        if dead:
            values = dict.fromkeys(positions[:1], every)
        else:
            returns = leader.notes.get(NOTE_RETURNS, {})
            values = {position: returns.get(position, 0) + 1 for position in positions}
        if values:
            leader.note(NOTE_DEAD if dead else NOTE_RETURNS, values)

    # --- time passes -----------------------------------------------------------------------------

    @rule()
    def turn(self) -> None:
        done = self.leader.end_turn(self.members, self.now_ms)
        self.confirmed = max(self.confirmed, done.get(CLIENT, 0))
        assert self.confirmed <= self.last_number
        for what, values in self.leader.committed_notes().items():
            self.safe_notes[what].update(values)

    @rule(kinds=st.lists(st.booleans(), min_size=1, max_size=3))
    def publish_and_sync(self, kinds: list[bool]) -> None:
        """The primary's own disk is the fastest."""
        self.publish(kinds)
        self.turn()
        self.disk_syncs(self.primary, 1_000)
        self.turn()

    @rule(name=names, amount=st.integers(1, 10))
    def backup_receives(self, name: NodeId, amount: int) -> None:
        self.members[name].receive(amount)

    @rule(name=names, amount=st.integers(1, 10))
    def primary_receives(self, name: NodeId, amount: int) -> None:
        outbox = self.members[name].outbox
        for _ in range(min(amount, len(outbox))):
            self.leader.hear(name, outbox.popleft(), self.now_ms)

    @rule(name=names, chunks=st.integers(1, 5))
    def disk_syncs(self, name: NodeId, chunks: int) -> None:
        self.members[name].sync(chunks)

    @rule(
        who=st.lists(names, unique=True, min_size=1),
        rounds=st.integers(1, 8),
        amount=st.sampled_from([1, 2, 1_000]),
    )
    def exchange(self, who: list[NodeId], rounds: int, amount: int = 1_000) -> None:
        """Some of the nodes have a good time together."""
        for _ in range(rounds):
            self.turn()
            for name in who:
                self.backup_receives(name, amount)
                self.disk_syncs(name, 1_000)
                self.primary_receives(name, amount)
        self.turn()

    @rule(name=names)
    def link_starts_anew(self, name: NodeId) -> None:
        """As when the backup's process is declared down and comes back with its memory."""
        if name in self.copies.backups:
            self.leader.replication.reset(name, self.now_ms)
            self.members[name].follow(self.leader.reign, self.primary, created=False)

    @rule(name=names)
    def copy_begins_anew(self, name: NodeId) -> None:
        """It fell too far behind, or could not read a record: what is under way is void."""
        if name in self.copies.backups:
            self.members[name].compare(self.leader.reign, self.primary)

    # --- the map ---------------------------------------------------------------------------------

    @precondition(lambda self: self.waiting is None)
    @rule(catch_up=st.booleans())
    def propose_joining(self, catch_up: bool) -> None:
        if catch_up:
            self.exchange(self.copies.backups, 8)
        replication = self.leader.replication
        for name in replication.may_join():
            replication.propose_joining(name)
            self.propose([*self.known_in_sync(), name])
            return

    @precondition(lambda self: self.waiting is None)
    @rule()
    def propose_eviction(self) -> None:
        """If only a joining copy stalls, the same set at a new epoch voids its joining."""
        self.now_ms += STALL_MS
        stalled = self.leader.replication.stalled(self.now_ms, STALL_MS)
        if stalled:
            self.propose([name for name in self.known_in_sync() if name not in stalled])

    def propose(self, in_sync: list[NodeId]) -> None:
        self.waiting = Proposal(self.leader.replication.epoch, in_sync)
        self.log.append(self.waiting)

    def known_in_sync(self) -> list[NodeId]:
        return [self.primary, *self.leader.replication.in_sync]

    @precondition(lambda self: self.waiting is not None)
    @rule()
    def give_up(self) -> None:
        """No answer came in time: the command may still be committed, or never."""
        self.waiting = None

    @precondition(lambda self: self.log)
    @rule(lost=st.booleans())
    def commit(self, lost: bool) -> None:
        """The next command takes effect, if its epoch is still that of the map."""
        proposal = self.log.pop(0)
        if proposal is self.waiting:
            lost = False  # it would be asked for again
        if not lost and proposal.epoch == self.copies.epoch:
            self.copies = self.copies._replace(
                epoch=proposal.epoch + 1, in_sync=list(proposal.in_sync)
            )
            self.news.append(self.copies)
        elif proposal is self.waiting:
            self.news.append(None)

    @precondition(lambda self: self.news)
    @rule()
    def primary_hears_the_map(self) -> None:
        copies = self.news.popleft()
        replication = self.leader.replication
        if copies is not None:
            self.leader.set_copies(copies, self.now_ms)
        else:
            for name in list(replication.joining):
                replication.end_joining(name)
        answered = all(proposal is not self.waiting for proposal in self.log)
        if answered and not self.news:
            self.waiting = None

    @precondition(lambda self: not self.news)
    @rule(name=names)
    def replace_a_copy(self, name: NodeId) -> None:
        """A copy that is not counted on goes, or a node without one gets one."""
        epoch, backups, in_sync = self.copies
        if name == self.primary or name in in_sync:
            return
        if name in backups:
            backups = [other for other in backups if other != name]
            self.members[name] = Member(name)
        else:
            backups = [*backups, name]
            self.members[name].follow(self.leader.reign, self.primary, created=False)
        self.copies = Copies(epoch + 1, backups, in_sync)
        self.leader.set_copies(self.copies, self.now_ms)

    @rule(name=names)
    def a_backup_restarts(self, name: NodeId) -> None:
        """One that is not counted on comes back with what its disk has.

        Nor is it about to be: a set names processes, and this is another one.
        """
        counted_on = [self.copies.in_sync, *(proposal.in_sync for proposal in self.log)]
        if name in self.copies.backups and not any(name in nodes for nodes in counted_on):
            self.members[name].restart()
            self.leader.replication.reset(name, self.now_ms)
            self.members[name].follow(self.leader.reign, self.primary, created=False)

    @rule(name=names, deposed_lives=st.booleans())
    def fail_over(self, name: NodeId, deposed_lives: bool) -> None:
        """The map makes another in-sync copy the primary; the old one may follow it."""
        epoch, backups, in_sync = self.copies
        if name not in in_sync or name == self.primary:
            return
        old, reign = self.leader, self.leader.reign + 1
        if deposed_lives:
            old.drain(self.now_ms)
            old.member.replica = Replica(
                FRAGMENT, durable=True,
                messages=old.fragment.messages, origins=old.fragment.origins, notes=old.notes,
            )  # fmt: skip
        else:
            self.members[self.primary] = Member(self.primary)
        backups = [each for each in [*backups, self.primary] if each != name]
        self.copies = Copies(epoch + 1, backups, [n for n in in_sync if n != self.primary])
        self.news.clear()
        self.waiting = None
        self.primary = name
        replica = self.members[name].replica
        known = replica.origins.get(CLIENT, 0)
        if known < self.known_by_all():
            assert not self._is_complete(name)
            self.unsure = self.confirmed
        held = dict.fromkeys(replica.messages.values())
        self.may_repeat.update((b, None) for n, b in self.bodies.items() if n > known and b in held)
        self.leader = Leader(self.members[name], reign, CHUNK_BYTES, False, self.sparing)
        for backup in backups:
            self.members[backup].follow(reign, name, created=False)
        self.leader.set_copies(self.copies, self.now_ms)
        # The publisher sends again what was not confirmed; what came through counts once.
        first = self.confirmed + 1
        if first <= self.last_number:
            batch = [self.bodies[number] for number in range(first, self.last_number + 1)]
            notes = notes_of_publishes(first, self.last_number)
            self.leader.publish(CLIENT, first, batch, notes, resent=True)

    # --- what must hold --------------------------------------------------------------------------

    def must_have(self, name: NodeId, body: bytes) -> bool:
        """Whether a copy in sync is to have this message, once confirmed."""
        return body not in self.settled

    def known_by_all(self) -> int:
        """The last publish of which every copy in sync must know."""
        return self.confirmed

    def reach(self, acked: int) -> int:
        """What a backup has that has acknowledged so much."""
        return acked

    def is_copied(self, body: bytes) -> bool:
        """Whether each copy has it."""
        return True

    @invariant()
    def nothing_confirmed_is_lost(self) -> None:
        if not self.confirmed:
            return
        confirmed = [body for number, body in self.bodies.items() if number <= self.confirmed]
        for name in self.copies.in_sync:
            wanted = [body for body in confirmed if self.must_have(name, body)]
            member = self.members[name]
            if name == self.primary:
                held = self.leader.fragment.messages.values()
                origins = self.leader.fragment.origins
            else:
                held = member.replica.messages.values()
                origins = member.replica.origins
            there = dict.fromkeys(held)
            assert all(body in there for body in wanted), f"{name} lacks a confirmed message"
            known = origins.get(CLIENT, 0)
            knows = known >= self.known_by_all() or self.confirmed <= self.unsure
            assert knows or not self._is_complete(name), f"{name} would take it twice"
            kept = dict.fromkeys(member.disk.after_power_cut().messages.values())
            for body in wanted:
                assert body in kept or not is_persistent(body), f"{name} has it in memory only"

    def _is_complete(self, name: NodeId) -> bool:
        """Whether a copy has all that its primary had when it began to follow."""
        following = self.members[name].following
        return following is None or following.state not in (OFFERED, COPYING)

    @invariant()
    def a_message_is_nowhere_without_the_notes_it_came_with(self) -> None:
        numbers = {body: number for number, body in self.bodies.items()}
        for member in self.members.values():
            disk, replica = member.disk.after_power_cut(), member.replica
            copies: list[tuple[Mapping[int, bytes], Notes]]
            copies = [(disk.messages, disk.notes), (replica.messages, replica.notes)]
            if member.name == self.primary:
                copies[1] = self.leader.fragment.messages, self.leader.notes
            for messages, notes in copies:
                for position, body in messages.items():
                    assert notes.get(NOTE_EXPIRES, {}).get(position) == expires(numbers[body])
                assert all(position in messages for table in notes.values() for position in table)

    @invariant()
    def no_committed_note_is_lost(self) -> None:
        for name in self.copies.in_sync:
            replica = self.members[name].replica
            messages: Mapping[int, bytes] = replica.messages
            notes = replica.notes
            if name == self.primary:
                messages, notes = self.leader.fragment.messages, self.leader.notes
            for what, values in self.safe_notes.items():
                for position, value in values.items():
                    known = notes.get(what, {}).get(position, 0)
                    if position in messages:
                        assert known >= value or (what == NOTE_DEAD and known)

    @invariant()
    def nothing_is_there_twice(self) -> None:
        """But for what a half copy held when it had to lead, and that says so to consumers."""
        fragment = self.leader.fragment
        known: dict[bytes, None] = {}
        for position, body in fragment.messages.items():
            if body in known:
                assert body in self.may_repeat
                assert fragment.was_handed_out(position)
            known[body] = None
        fragment.check()

    @invariant()
    def commit_waits_for_every_required_copy(self) -> None:
        replication = self.leader.replication
        for name in (*replication.in_sync, *replication.joining):
            progress = replication.backups[name]
            following = self.members[name].following
            assert following is not None
            if progress.state == STREAMING and following.state != OFFERED:
                assert replication.commit <= self.reach(progress.acked)
                assert progress.acked <= following.safe_through

    def come_to_rest(self) -> None:
        """With everything delivered and synced, all is confirmed and all copies are alike."""
        while self.news:
            self.primary_hears_the_map()
        for _ in range(60):
            self.turn()
            for name in self.copies.backups:
                self.members[name].receive(1_000)
            for member in self.members.values():
                member.sync(1_000)
            for name in self.copies.backups:
                self.primary_receives(name, 1_000)
        self.turn()
        assert self.confirmed == self.last_number
        self.nothing_confirmed_is_lost()
        there = {p: m for p, m in self.leader.fragment.messages.items() if self.is_copied(m)}
        for name in self.copies.backups:
            replica = self.members[name].replica
            assert replica.in_order() == there, f"{name} differs"
            assert replica.origins.get(CLIENT, 0) >= self.known_by_all()
            assert replica.notes == notes_of(self.leader.notes, there)
            kept = self.members[name].disk.after_power_cut()
            assert kept.notes == notes_of(self.leader.notes, kept.messages), f"{name}'s disk"
            assert list(replica.in_order()) == list(there)


def notes_of(notes: Notes, messages: dict[int, bytes]) -> Notes:
    """Those of these messages."""
    kept = {
        what: {p: v for p, v in table.items() if p in messages} for what, table in notes.items()
    }
    return {what: table for what, table in kept.items() if table}


def test_a_copy_that_drops_what_was_published_anew_does_not_know_it_any_more() -> None:
    """Twice the primary is lost; in between a copy had begun, and not brought the message yet."""
    machine = ReplicationMachine()
    machine.create(count=3)
    machine.publish([False])
    machine.exchange(who=[DAN], rounds=1)
    machine.fail_over(name=BEN, deposed_lives=False)
    machine.primary_receives(name=DAN, amount=1)
    machine.exchange(who=[DAN], rounds=1, amount=1)
    machine.fail_over(name=DAN, deposed_lives=False)
    machine.exchange(who=[ANN, BEN, CAT], rounds=3)
    assert machine.confirmed == 1
    machine.nothing_confirmed_is_lost()
    machine.come_to_rest()


TestReplication = ReplicationMachine.TestCase
TestReplication.settings = settings(max_examples=examples(250), stateful_step_count=40)
