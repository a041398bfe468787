"""Several Raft logs in one process, over ordered in-memory streams that can be cut."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from fedq.core.ids import NodeId
from fedq.shell.raft.electorate import NO_MEMORY, Memory
from fedq.shell.raft.journal import RaftJournal
from fedq.shell.raft.log import RaftLog, RaftTiming
from fedq.shell.raft.storage import JOURNAL_NAME
from fedq.shell.raft.voters import VoterSet
from tests.integration.waiting import patient

FAST = RaftTiming(
    election_min_ms=150,
    election_max_ms=300,
    heartbeat_ms=30,
    majority_lost_ms=300,
    leader_lost_ms=60,
    tick_ms=15,
)
DEADLINE_S = patient(10.0)


class Machine:
    """Keeps every command, and what else it was told, in order; ignores what it has seen."""

    def __init__(self) -> None:
        self.commands: list[bytes] = []
        #: Commands that came again, because their proposer repeated them.
        self.repeated: list[bytes] = []
        self._seen: set[bytes] = set()
        self.leaders: list[NodeId | None] = []
        self.snapshots_taken = 0
        self.snapshots_installed = 0
        self.poison: bytes | None = None
        #: Called when a snapshot is made, in the thread that makes it.
        self.on_pieces: Callable[[], None] = lambda: None
        #: Why no snapshot can be read.
        self.unreadable = ""
        #: Called when one is read, in the thread that reads it.
        self.on_reading: Callable[[], None] = lambda: None
        #: Who should vote; None: who does. And who did, one set after the other.
        self.wanted: tuple[NodeId, ...] | None = None
        self.voters: list[tuple[NodeId, ...]] = []
        #: How many commands it still takes in this turn of the event loop; None: all.
        self.room: int | None = None

    @property
    def takes_commands(self) -> bool:
        return self.room is None or self.room > 0

    def knows(self, command: bytes) -> bool:
        return not command.startswith(b"of a newer release")

    def on_committed(self, command: bytes) -> None:
        if command == self.poison:
            raise RuntimeError("this command cannot be applied")
        if command in self._seen:
            self.repeated.append(command)
            return
        if self.room is not None:
            self.room -= 1
        self._seen.add(command)
        self.commands.append(command)

    def freeze(self) -> Callable[[], list[bytes]]:
        self.snapshots_taken += 1
        commands = list(self.commands)

        def pieces() -> list[bytes]:
            self.on_pieces()
            data = orjson.dumps([command.hex() for command in commands])
            return [data[:1], data[1:]]

        return pieces

    def read_snapshot(self, data: bytes) -> bytes:
        self.on_reading()
        if self.unreadable:
            raise ValueError(self.unreadable)
        return data

    def on_snapshot(self, data: object) -> None:
        assert isinstance(data, bytes)
        self.snapshots_installed += 1
        self.commands = [bytes.fromhex(command) for command in orjson.loads(data)]
        self._seen = set(self.commands)

    def lacks(self, commands: Iterable[bytes]) -> list[bytes]:
        return [command for command in commands if command not in self._seen]

    @property
    def wanted_voters(self) -> tuple[NodeId, ...] | None:
        return self.wanted

    def on_voters(self, voters: tuple[NodeId, ...]) -> None:
        self.voters.append(voters)

    def on_leader(self, leader: NodeId | None) -> None:
        self.leaders.append(leader)


class _Ticking(RaftLog):
    """Says when its time goes on."""

    def __init__(self, ticked: asyncio.Event, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._ticked = ticked

    def _on_timer(self) -> None:
        self._ticked.set()
        super()._on_timer()


class Member:
    """One voter: its log, its machine, its directory."""

    def __init__(self, cluster: "Cluster", name: NodeId) -> None:
        self.name = name
        self.machine = Machine()
        self.machine.unreadable = cluster.unreadable.get(name, "")
        self.failures: list[str] = []
        self.log = _Ticking(
            cluster.ticked,
            name,
            () if name in cluster.joining else cluster.voters or cluster.names,
            cluster.directory / name,
            send=lambda peer, frame: cluster.send(name, peer, frame),
            machine=self.machine,
            failed=self.failures.append,
            timing=cluster.timing_of(name),
            memory=cluster.memory.get(name, NO_MEMORY),
            joins=name in cluster.joining,
            remember=lambda voters: cluster.remembered.update({name: voters}),
        )
        for other in cluster.names:
            self.log.know(other)


class Threads(ThreadPoolExecutor):
    """The threads that wait for the disks of all members."""

    def __init__(self) -> None:
        super().__init__()
        self._given: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._given = [given for given in self._given if not given.done()]
        self._given.append(super().submit(fn, *args, **kwargs))
        return self._given[-1]

    def settle(self) -> None:
        """Waits until none writes any more."""
        wait(self._given)


class Cluster:
    """The members and the streams between them."""

    def __init__(self, directory: Path, size: int, timing: RaftTiming = FAST) -> None:
        self.directory = directory
        self.timing = timing
        self.threads = Threads()
        #: Members that, however busy the machine is, neither call an election nor let another
        #: one win it while their leader lives.
        self.patient: frozenset[NodeId] = frozenset()
        self.names: Sequence[NodeId] = [NodeId(f"n{number}") for number in range(1, size + 1)]
        #: Who votes at first, if not all; and who is no voter by its configuration.
        self.voters: Sequence[NodeId] = ()
        self.joining: frozenset[NodeId] = frozenset()
        #: The sets with which voters have promised something.
        self.remembered: dict[NodeId, VoterSet] = {}
        self.members: dict[NodeId, Member] = {}
        #: Why these, when they start, can read no snapshot.
        self.unreadable: dict[NodeId, str] = {}
        #: What is known of a voter's files from elsewhere.
        self.memory: dict[NodeId, Memory] = {}
        self.connected: set[tuple[NodeId, NodeId]] = set()
        #: Some member's time has gone on.
        self.ticked = asyncio.Event()
        #: Counts the connections, so that frames of an old one get lost.
        self.generation = 0
        #: What a frame looks like when it arrives; None drops it.
        self.meddle: Callable[[NodeId, NodeId, bytes], bytes | None] = lambda _, __, frame: frame

        #: Sees every frame as it leaves.
        self.on_send: Callable[[NodeId, NodeId, bytes], None] = lambda _, __, ___: None

    def timing_of(self, name: NodeId) -> RaftTiming:
        if name in self.patient:
            return replace(self.timing, election_min_ms=3_000, election_max_ms=4_000)
        return self.timing

    # --- the streams ---

    def send(self, sender: NodeId, receiver: NodeId, frame: bytes) -> bool:
        if (sender, receiver) not in self.connected:
            return False
        self.on_send(sender, receiver, frame)
        asyncio.get_running_loop().call_soon(self._arrive, self.generation, sender, receiver, frame)
        return True

    def _arrive(self, generation: int, sender: NodeId, receiver: NodeId, frame: bytes) -> None:
        if generation != self.generation or (sender, receiver) not in self.connected:
            return
        seen = self.meddle(sender, receiver, frame)
        if seen is not None and receiver in self.members:
            self.members[receiver].log.receive(sender, seen)

    def connect(self, left: NodeId, right: NodeId) -> None:
        for sender, receiver in ((left, right), (right, left)):
            if (sender, receiver) not in self.connected:
                self.connected.add((sender, receiver))
                self.members[sender].log.on_peer_connected(receiver)

    def cut(self, left: NodeId, right: NodeId) -> None:
        for sender, receiver in ((left, right), (right, left)):
            if (sender, receiver) in self.connected:
                self.connected.discard((sender, receiver))
                if sender in self.members:
                    self.members[sender].log.on_peer_disconnected(receiver)

    def isolate(self, name: NodeId) -> None:
        for other in self.names:
            if other != name:
                self.cut(name, other)

    def heal(self) -> None:
        for left in self.members:
            for right in self.members:
                if left < right:
                    self.connect(left, right)

    # --- the members ---

    def start(self, *names: NodeId) -> None:
        asyncio.get_running_loop().set_default_executor(self.threads)
        for name in names or self.names:
            member = Member(self, name)
            member.log.start()
            self.members[name] = member
        self.heal()

    def kill(self, name: NodeId) -> None:
        """The process is gone: nothing is closed, its peers see their connections reset."""
        member = self.members.pop(name)
        member.log.abort()
        # A process that dies takes its threads along: the next one finds no one at work.
        self.threads.settle()
        self.isolate(name)

    async def stop(self) -> None:
        for member in list(self.members.values()):
            await member.log.stop()
        self.members.clear()
        self.connected.clear()

    # --- waiting ---

    async def tick(self) -> None:
        """Until the next tick of any member."""
        self.ticked.clear()
        await self.ticked.wait()

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DEADLINE_S
        while not condition():
            assert loop.time() < deadline, f"never came true: {what}; {self.describe()}"
            for member in self.members.values():
                assert not member.failures, member.failures
            await asyncio.sleep(0.002)

    def describe(self) -> str:
        return "; ".join(
            f"{name}: leader {member.log.leader}, term {member.log.term}, "
            f"applied {member.log.applied_index}, {len(member.machine.commands)} commands"
            for name, member in self.members.items()
        )

    async def leader(self, *names: NodeId) -> Member:
        """The member that all of `names` (else all members) agree on."""
        asked = [self.members[name] for name in names or self.members]

        def agreed() -> bool:
            leaders = {member.log.leader for member in asked}
            return len(leaders) == 1 and leaders <= {member.name for member in asked}

        await self.until(agreed, "a common leader")
        leader = asked[0].log.leader
        assert leader is not None
        return self.members[leader]

    def followers(self, leader: Member) -> list[Member]:
        return [member for member in self.members.values() if member is not leader]

    async def propose(self, member: Member, commands: Sequence[bytes]) -> None:
        """Proposes as a node does: repeats what it does not see committed."""
        waiting = commands

        def proposed_until_seen() -> bool:
            nonlocal waiting
            waiting = member.machine.lacks(waiting)
            for command in waiting:
                if not member.log.propose(command):
                    break
            return not waiting

        await self.until(proposed_until_seen, "own proposals committed")

    async def agreed(self, commands: Iterable[bytes]) -> None:
        """Waits until every member has exactly these commands, all in one order."""
        expected = sorted(commands)

        def all_agree() -> bool:
            first, *others = [member.machine.commands for member in self.members.values()]
            return sorted(first) == expected and all(other == first for other in others)

        await self.until(all_agree, f"{len(expected)} commands on every member")


def run(
    directory: Path,
    scenario: Callable[[Cluster], Awaitable[None]],
    size: int = 3,
    timing: RaftTiming = FAST,
    patient: int = 0,
) -> None:
    """Runs `scenario`; the last `patient` members are patient, and so is whoever leads."""

    async def main() -> None:
        cluster = Cluster(directory, size, timing)
        if patient:
            cluster.patient = frozenset(cluster.names[-patient:])
            cluster.timing = replace(timing, majority_lost_ms=5_000, proposal_ms=10_000)
        cluster.start()
        try:
            await scenario(cluster)
        finally:
            await cluster.stop()

    asyncio.run(main())


def make_voter(directory: Path) -> None:
    """Files of a voter that has never voted and says so: it need not learn first."""
    directory.mkdir(exist_ok=True)
    RaftJournal.open(directory / JOURNAL_NAME).close()


def numbered(count: int, name: str = "command") -> list[bytes]:
    return [f"{name} {number}".encode() for number in range(count)]


def compacting(entries: int) -> RaftTiming:
    return replace(FAST, compact_entries=entries)
