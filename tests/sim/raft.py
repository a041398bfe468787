"""A Raft log as its users see it: one total order, at most one working leader, honest losses.

Inputs: proposals, starts and stops of processes, and what the network lets through. Outputs:
`on_committed` in log order on every node at its own pace, `on_leader`, and after a restart
`on_snapshot` with what follows it.

It promises what Raft promises and nothing more:

* a proposal is committed only by a leader that reaches a majority, and only if the proposer
  reaches that leader; otherwise it is lost in silence; it may be lost or repeated anyway;
* when the leader is gone, or cut off, half a second to a second passes before another is elected
  among those who reach a majority; the old one may believe in itself for longer;
* a node takes in as many commands in a turn as it has room for, and the rest in the next ones;
* a node that cannot reach the leader learns nothing until it can again;
* who elects changes by one node at a time, to whom the leader's map wants, if it `changes`;
* a restarted node starts from its own stored snapshot and hears every command after it once.

pysyncobj itself is tested by contract (`tests/contract/raft/test_log.py`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from fedq.core.ids import NodeId
from fedq.shell.raft.voters import next_set
from tests.sim.world import MS, World, between


class LogMachine(Protocol):
    """What the log tells a node."""

    @property
    def takes_commands(self) -> bool: ...
    def on_committed(self, command: bytes) -> None: ...
    def on_leader(self, leader: NodeId | None) -> None: ...
    def snapshot(self) -> bytes: ...
    def on_snapshot(self, data: bytes) -> None: ...
    @property
    def wanted_voters(self) -> tuple[NodeId, ...] | None: ...
    def on_new_set(self, voters: tuple[NodeId, ...]) -> None: ...
    def on_voters(self, voters: tuple[NodeId, ...]) -> None: ...


class Voter(Protocol):
    """A host as the log sees it."""

    @property
    def name(self) -> NodeId: ...

    @property
    def alive(self) -> bool: ...

    @property
    def paused(self) -> bool: ...

    @property
    def life(self) -> int: ...

    def submit(self, action: Callable[[LogMachine], None]) -> None: ...


@dataclass(frozen=True, slots=True)
class RaftOptions:
    """Delays in microseconds; probabilities per proposal, or per look at a follower."""

    hop_us_min: int = 300
    hop_us_max: int = 4 * MS
    commit_us_min: int = 1 * MS
    commit_us_max: int = 12 * MS
    election_us_min: int = 500 * MS
    election_us_max: int = 1_000 * MS
    loss: float = 0.0
    duplicate: float = 0.0
    #: How often a node stores a snapshot; 0 never.
    snapshot_every_us: int = 0
    #: A follower this many commands behind the leader's snapshot gets that instead of the log.
    snapshot_lag: int = 20


class Follower:
    """What the log knows of one node."""

    __slots__ = ("applied", "believes", "busy_until_us", "life", "scheduled", "stored",
                 "stored_index")  # fmt: skip

    def __init__(self) -> None:
        self.life = 0
        #: Commands that its machine has been given.
        self.applied = 0
        #: Commands that are on their way to it.
        self.scheduled = 0
        self.busy_until_us = 0
        #: Its snapshot on disk, and how many commands that contains.
        self.stored: bytes | None = None
        self.stored_index = 0
        #: Whom it was last told to be the leader.
        self.believes: NodeId | None = None


class Raft:
    """The log of the whole cluster. See the module's docstring."""

    LOOK_US = 20 * MS

    def __init__(
        self,
        world: World,
        options: RaftOptions,
        voters: Sequence[Voter],
        reachable: Callable[[NodeId, NodeId], bool],
    ) -> None:
        self.world = world
        self.options = options
        #: All nodes, whether they elect or follow.
        self.voters = {voter.name: voter for voter in voters}
        #: Those that elect.
        self.electing = tuple(sorted(self.voters))
        #: Whether that changes; and whether the log names them by now.
        self.changes = False
        self._names_them = False
        #: Commands, and sets of those that elect.
        self.log: list[bytes | tuple[NodeId, ...]] = []
        self.leader: NodeId | None = None
        self.term = 0
        self._reachable = reachable
        self._random = world.generator("raft")
        self._followers = {name: Follower() for name in self.voters}
        self._leader_life = 0
        self._election_due_us: int | None = None
        #: Commands that were asked for and are neither in the log nor lost yet.
        self._under_way = 0
        self._next_snapshot_us = options.snapshot_every_us
        world.every(self.LOOK_US, self._look)

    def add(self, voter: Voter) -> None:
        """One more node, which follows the log."""
        self.voters[voter.name] = voter
        self._followers[voter.name] = Follower()

    def remove(self, name: NodeId) -> None:
        """A node that is gone for good follows no more; who elects changes by itself."""
        del self._followers[name]

    # --- what hosts do ---------------------------------------------------------------------------

    def on_started(self, name: NodeId) -> None:
        """A process begins: it restores its snapshot and will hear the rest from the leader."""
        voter, follower = self.voters[name], self._followers[name]
        follower.life = voter.life
        follower.applied = follower.scheduled = follower.stored_index
        follower.busy_until_us = self.world.now_us
        follower.believes = None
        stored = follower.stored
        if stored is not None:
            data = stored
            voter.submit(lambda machine: machine.on_snapshot(data))
        if self._names_them:
            electing = self.electing
            voter.submit(lambda machine: machine.on_new_set(electing))

    def on_directory_lost(self, name: NodeId) -> None:
        """Its snapshot is gone; it will hear the whole log from the leader, or a snapshot."""
        follower = self._followers[name]
        follower.stored, follower.stored_index = None, 0

    def propose(self, proposer: NodeId, command: bytes) -> None:
        """A node asks for a command to be committed; there is no answer but the commit."""
        options, generator = self.options, self._random
        leader = self.leader
        if leader is None or not self._reachable(proposer, leader):
            return
        if options.loss and generator.random() < options.loss:
            return
        times = 2 if options.duplicate and generator.random() < options.duplicate else 1
        term = self.term
        for _ in range(times):
            delay_us = between(generator, options.commit_us_min, options.commit_us_max)
            if proposer != leader:
                delay_us += between(generator, options.hop_us_min, options.hop_us_max)
            self._under_way += 1
            self.world.after(delay_us, lambda: self._arrive(command, term))

    def _arrive(self, command: bytes, term: int) -> None:
        self._under_way -= 1
        self._commit(command, term)

    def settled(self) -> bool:
        """There is a leader and every voter runs, knows it, and has applied the whole log.

        What is on its way to the log may be about anything: a copy may be about to be taken out.
        """
        return (
            not self._under_way
            and self.leader is not None
            and all(
                self.voters[name].alive
                and follower.believes == self.leader
                and follower.applied == len(self.log)
                for name, follower in self._followers.items()
            )
        )

    def applied(self, name: NodeId) -> int:
        """How many commands the machine of `name` has been given."""
        return self._followers[name].applied

    # --- the leader ------------------------------------------------------------------------------

    def _reaches_majority(self, name: NodeId) -> bool:
        reached = sum(self._reachable(name, other) for other in self.electing)
        return not self.voters[name].paused and 2 * reached > len(self.electing)

    def _leader_works(self) -> bool:
        leader = self.leader
        return (
            leader is not None
            and self.voters[leader].life == self._leader_life
            and self._reaches_majority(leader)
        )

    def _look(self) -> bool:
        if not self._leader_works():
            self._elect()
        if self.leader is not None:
            self._tell_leader()
            self._replicate()
            if self.changes and self._leader_works():
                self.voters[self.leader].submit(partial(self._change_set, self.leader, self.term))
        every_us = self.options.snapshot_every_us
        if every_us and self.world.now_us >= self._next_snapshot_us:
            self._next_snapshot_us = self.world.now_us + every_us
            self._store_snapshots()
        return True

    def _change_set(self, leader: NodeId, term: int, machine: LogMachine) -> None:
        """Takes the next step, in a turn of the leader's, to those whom its map wants to elect."""
        wanted = machine.wanted_voters
        if term != self.term or leader != self.leader or not wanted or wanted == self.electing:
            return
        alive = [name for name in self._followers if self._reachable(leader, name)]
        joining = [name for name in alive if self._followers[name].applied == len(self.log)]
        names = next_set(self.electing, wanted, joining, alive, leader)
        if not self._names_them:
            # As it is, before there is another one.
            names = self.electing
        if names is None:
            if {*self.electing} - {leader} == {*wanted}:
                # Another one is to remove it.
                self._leader_life = -1
            return
        self._names_them = True
        self.electing = names
        machine.on_new_set(names)
        self.world.note("raft", f"{', '.join(names)} elect from {len(self.log) + 1} on")
        self.log.append(names)
        self._replicate()

    def _elect(self) -> None:
        options, now_us = self.options, self.world.now_us
        if self._election_due_us is None:
            if self.leader is not None:
                self.world.note("raft", f"leader {self.leader} lost")
            self.term += 1
            self.leader = None
            wait_us = between(self._random, options.election_us_min, options.election_us_max)
            self._election_due_us = now_us + wait_us
            self._forget_leader()
        elif now_us >= self._election_due_us:
            able = [name for name in self.electing if self._reaches_majority(name)]
            if able:
                self.leader = self._random.choice(able)
                if self._followers[self.leader].believes == self.leader:
                    # It led before: it heard of a later term, and stood again.
                    self._believe(self.leader, None)
                self._leader_life = self.voters[self.leader].life
                self._election_due_us = None
                self.world.note("raft", f"leader {self.leader} of term {self.term}")

    def _forget_leader(self) -> None:
        """Some followers notice the loss before the election, the others hear of its result."""
        for name, follower in self._followers.items():
            if follower.believes is not None and self._random.random() < 0.5:
                delay_us = between(self._random, 300 * MS, 2_000 * MS)
                self.world.after(delay_us, partial(self._unbelieve, name, self.term))

    def _unbelieve(self, name: NodeId, term: int) -> None:
        if name not in self._followers:
            return
        reaches = self.leader is not None and self._reachable(name, self.leader)
        if self.term == term and not reaches and name in self._followers:
            self._believe(name, None)

    def _tell_leader(self) -> None:
        leader = self.leader
        assert leader is not None
        for name, follower in self._followers.items():
            if follower.believes != leader and self._reachable(leader, name):
                self._believe(name, leader)
            elif follower.believes == name != leader and self._meets_follower(name):
                # It leads an earlier term, and is told so by whom it wants to append to.
                self._believe(name, None)

    def _meets_follower(self, name: NodeId) -> bool:
        return any(
            self._followers[other].believes == self.leader and self._reachable(name, other)
            for other in self._followers
            if other != name
        )

    def _believe(self, name: NodeId, leader: NodeId | None) -> None:
        voter, follower = self.voters[name], self._followers[name]
        if voter.alive and follower.life == voter.life and follower.believes != leader:
            follower.believes = leader
            if leader == name and self._names_them:
                # It leads with the newest set in its log, applied or not.
                electing = self.electing
                voter.submit(lambda machine: machine.on_new_set(electing))
            voter.submit(lambda machine: machine.on_leader(leader))

    # --- the log ---------------------------------------------------------------------------------

    def _commit(self, command: bytes, term: int) -> None:
        if self.term == term and self._leader_works():
            self.log.append(command)
            if self.world.trace.on:
                self.world.note("raft", f"commit {len(self.log)} {command[:400]!r}")
            self._replicate()

    def _replicate(self) -> None:
        leader = self.leader
        if leader is None:
            return
        options, generator = self.options, self._random
        end = len(self.log)
        source = self._followers[leader]
        for name, follower in self._followers.items():
            if follower.scheduled == end or not self._reachable(leader, name):
                continue
            delay_us = between(generator, options.hop_us_min, options.hop_us_max)
            if name == leader:
                delay_us = 0
            behind = source.stored_index - follower.scheduled
            first = follower.scheduled
            if behind > options.snapshot_lag and source.stored is not None:
                self._schedule_snapshot(name, source.stored, source.stored_index, delay_us)
                first = source.stored_index
            for index in range(first, end):
                self._schedule(name, index, delay_us)
            follower.scheduled = end

    def _when(self, follower: Follower, delay_us: int) -> int:
        follower.busy_until_us = max(follower.busy_until_us, self.world.now_us + delay_us)
        return follower.busy_until_us

    def _schedule(self, name: NodeId, index: int, delay_us: int) -> None:
        voter, follower = self.voters[name], self._followers[name]
        life, command = voter.life, self.log[index]

        def apply(machine: LogMachine) -> None:
            if not machine.takes_commands:
                voter.submit(apply)
                return
            assert follower.applied == index, f"{name} skips from {follower.applied} to {index}"
            follower.applied = index + 1
            if isinstance(command, bytes):
                machine.on_committed(command)
            else:
                machine.on_new_set(self.electing)
                machine.on_voters(command)

        def arrive() -> None:
            if voter.alive and voter.life == life:
                voter.submit(apply)

        self.world.at(self._when(follower, delay_us), arrive)

    def _schedule_snapshot(self, name: NodeId, data: bytes, index: int, delay_us: int) -> None:
        voter, follower = self.voters[name], self._followers[name]
        life = voter.life

        def apply(machine: LogMachine) -> None:
            if not machine.takes_commands:
                # Commands before it may be waiting, too.
                voter.submit(apply)
                return
            follower.applied = index
            machine.on_snapshot(data)
            if self._names_them:
                machine.on_new_set(self.electing)

        def arrive() -> None:
            if voter.alive and voter.life == life:
                voter.submit(apply)

        self.world.note("raft", f"{name} gets the snapshot at {index}")
        self.world.at(self._when(follower, delay_us), arrive)

    def _store_snapshots(self) -> None:
        for name in self._followers:
            voter = self.voters[name]
            if voter.alive and not voter.paused and self._random.random() < 0.5:
                voter.submit(partial(self._store, name))

    def _store(self, name: NodeId, machine: LogMachine) -> None:
        follower = self._followers[name]
        if follower.applied > follower.stored_index:
            follower.stored = machine.snapshot()
            follower.stored_index = follower.applied
