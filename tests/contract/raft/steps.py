"""Voters driven step by step: no loop, no clock and no threads, so that a seed is a history.

Frames wait in their links until somebody delivers, loses or swaps them; a server takes a turn only
when it is told to. After each turn what Raft promises is looked at: one leader in a term, one entry
at each committed place, and leaders that have all of them.
"""

import os
import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import orjson

from fedq.core.ids import NodeId
from fedq.shell.raft import log
from fedq.shell.raft.electorate import Memory
from fedq.shell.raft.hooks import LogMachine, Taken
from fedq.shell.raft.log import RaftTiming, _Voter
from fedq.shell.raft.storage import RaftStorage
from fedq.shell.raft.taking import read_leaders
from fedq.shell.raft.voters import VoterSet
from fedq.shell.raft.wire import RaftMessage, decode, encode
from tests.contract.raft.cluster import Machine, make_voter

TIMING = RaftTiming()
#: A command that says who should vote.
WANT = b"want "

Link = tuple[NodeId, NodeId]


class Violation(AssertionError):
    """Raft's promises are broken."""


class WishMachine(Machine):
    """Takes who should vote from the log, as the cluster map does."""

    def on_committed(self, command: bytes) -> None:
        super().on_committed(command)
        self._read_wish(command)

    def on_snapshot(self, data: object) -> None:
        super().on_snapshot(data)
        for command in self.commands:
            self._read_wish(command)

    def _read_wish(self, command: bytes) -> None:
        if command.startswith(WANT):
            self.wanted = tuple(NodeId(name) for name in command.decode().split()[2:])


class Server:
    """One voter with its files; what its turns would do for it."""

    def __init__(self, group: "Group", name: NodeId) -> None:
        self.name = name
        self.group = group
        self.machine: LogMachine = group.machines.setdefault(name, WishMachine())
        self.storage = RaftStorage.open(group.directory / name, group.memory_of(name))
        if self.storage.restored is not None:
            self.machine.on_snapshot(self.machine.read_snapshot(self.storage.restored.data))
        self.outbox: list[tuple[NodeId, RaftMessage]] = []
        self.read_by_now: Taken | None = None
        configured = group.configured.get(name, ())
        memory = group.memory_of(name)
        self.voter = _Voter(name, configured, group.timing, self.storage, self, memory)
        self.checked = self.storage.journal.first_index

    # --- what the voter calls ---

    def post(self, peer: NodeId, message: RaftMessage) -> None:
        self.outbox.append((peer, message))

    def apply(self, command: bytes) -> bool:
        self.machine.on_committed(command)
        return True

    def encoded_snapshot(self) -> bytes:
        encoded = self.storage.encoded_snapshot()
        assert encoded is not None
        return encoded

    def on_voting(self) -> None:
        self.storage.become_voter()

    def read(self, encoded: bytes) -> None:
        self.read_by_now = read_leaders(self.storage, self.machine, encoded)

    def install(self, taken: Taken) -> None:
        self.storage.install(taken.number, taken.term, taken.voters)
        self.machine.on_snapshot(taken.read)

    def wanted_voters(self) -> tuple[NodeId, ...] | None:
        return self.machine.wanted_voters

    def on_voters(self, voters: tuple[NodeId, ...]) -> None:
        self.machine.on_voters(voters)

    def on_new_set(self, voters: VoterSet) -> None:
        self.group.remembered[self.name] = voters

    def lacks(self, commands: list[bytes]) -> list[bytes]:
        return self.group.machines[self.name].lacks(commands)

    # --- what the turns do ---

    @property
    def leads(self) -> bool:
        return self.voter.leader == self.name

    def turn(self, sender: NodeId | None = None, message: RaftMessage | None = None) -> None:
        if self.read_by_now is not None:
            taken, self.read_by_now = self.read_by_now, None
            self.voter.on_read(taken)
        if sender is not None and message is not None:
            self.voter.handle(sender, message)
        self.voter.step()
        self.storage.journal.sync()
        outbox, self.outbox = self.outbox, []
        for peer, said in outbox:
            if not self.group.send(self.name, peer, encode(said)):
                self.voter.frame_lost(peer)
        self.group.check(self)

    def compact(self) -> None:
        index, journal = self.voter.applied, self.storage.journal
        if index > journal.first_index:
            self.check_upto(index)
            pieces = self.machine.freeze()
            term = journal.term_at(index)
            self.storage.stage(index, term, pieces, self.storage.voters_at(index))
            assert self.storage.sync(False, index) is None
            self.storage.use_compacted(index)

    def check_upto(self, index: int) -> None:
        self.checked = max(self.checked, self.storage.journal.first_index)
        for place in range(self.checked + 1, index + 1):
            entry = self.storage.journal.since(place, 1)[0]
            mine = (entry.term, entry.command)
            if self.group.committed.setdefault(place, mine) != mine:
                raise Violation(f"two entries are committed at {place}")
            self.checked = place


class Group:
    """The servers and the links between them."""

    def __init__(self, directory: Path, configured: dict[str, str]) -> None:
        """`configured`: which voters each server's configuration names."""
        self.directory = directory
        self.timing = TIMING
        directory.mkdir(exist_ok=True)
        self.configured = {
            NodeId(name): tuple(map(NodeId, voters.split())) for name, voters in configured.items()
        }
        self.now_s = 100.0
        self.machines: dict[NodeId, WishMachine] = {}
        self.remembered: dict[NodeId, VoterSet] = {}
        self.used: dict[NodeId, None] = {}
        self.links: dict[Link, list[bytes]] = {}
        self.cuts: set[frozenset[NodeId]] = set()
        self.servers: dict[NodeId, Server] = {}
        self.leaders: dict[int, NodeId] = {}
        self.committed: dict[int, tuple[int, bytes]] = {}
        for name in self.configured:
            self.start(name)

    def memory_of(self, name: NodeId) -> Memory:
        return Memory(is_used=name in self.used, voters=self.remembered.get(name))

    # --- servers ---

    def __getitem__(self, name: str) -> Server:
        return self.servers[NodeId(name)]

    def start(self, name: NodeId) -> None:
        if self.configured[name] and name not in self.used:
            make_voter(self.directory / name)
        self.used[name] = None
        self.machines.pop(name, None)
        server = Server(self, name)
        for other in self.configured:
            server.voter.know(other)
        self.servers[name] = server
        for other in list(self.servers):
            self.mend(name, other)

    def kill(self, name: str) -> None:
        """Ends the process; what it has written is on its disk."""
        dead = NodeId(name)
        self.servers.pop(dead).storage.journal.abandon()
        for other in self.servers.values():
            self.cut(name, other.name)
        self.cuts = {pair for pair in self.cuts if dead not in pair}

    def restart(self, name: str) -> None:
        self.kill(name)
        self.start(NodeId(name))

    def lose_disk(self, name: str, *, whole: bool) -> None:
        """The killed server's Raft directory is gone; `whole`: all of its data directory."""
        shutil.rmtree(self.directory / name)
        if whole:
            self.remembered.pop(NodeId(name), None)

    def close(self) -> None:
        for server in self.servers.values():
            server.storage.journal.abandon()

    # --- links ---

    def is_cut(self, left: str, right: str) -> bool:
        return frozenset((NodeId(left), NodeId(right))) in self.cuts

    def cut(self, left: str, right: str) -> None:
        self.cuts.add(frozenset((NodeId(left), NodeId(right))))
        for one, other in ((left, right), (right, left)):
            self.links.pop((NodeId(one), NodeId(other)), None)
            if one in self.servers and self[one].voter.is_connected(NodeId(other)):
                self[one].voter.disconnected(NodeId(other))

    def mend(self, left: str, right: str) -> None:
        self.cuts.discard(frozenset((NodeId(left), NodeId(right))))
        if left == right or left not in self.servers or right not in self.servers:
            return
        for one, other in ((left, right), (right, left)):
            self.links[NodeId(one), NodeId(other)] = []
            self[one].voter.connected(NodeId(other))

    def split(self, *groups: str) -> None:
        """Only servers of one group hear each other."""
        group_of = {name: number for number, one in enumerate(groups) for name in one.split()}
        for left in self.servers:
            for right in self.servers:
                if left < right and group_of.get(left) != group_of.get(right):
                    self.cut(left, right)

    def heal(self) -> None:
        for pair in list(self.cuts):
            self.mend(*pair)

    def send(self, sender: NodeId, receiver: NodeId, frame: bytes) -> bool:
        if receiver not in self.servers or self.is_cut(sender, receiver):
            return False
        self.links[sender, receiver].append(frame)
        return True

    def deliver(self, link: Link, place: int = 0) -> None:
        frame = self.links[link].pop(place)
        self.servers[link[1]].turn(link[0], decode(frame))

    def deliver_all(self, turns: int = 2_000) -> None:
        """Everything that is under way, and what comes of it."""
        for _ in range(turns):
            waiting = [link for link, frames in self.links.items() if frames]
            if not waiting:
                return
            for link in waiting:
                if self.links.get(link):
                    self.deliver(link)
        raise AssertionError("the servers never stop talking")

    def pass_time(self, seconds: float) -> None:
        """Time goes on, heartbeats go out; nobody loses patience but those told to."""
        self.now_s += seconds
        for server in list(self.servers.values()):
            if server.voter._SyncObj__raftElectionDeadline < self.now_s + 60:
                server.voter._SyncObj__raftElectionDeadline = self.now_s + 60
            server.turn()

    def settle(self, rounds: int = 30) -> None:
        for _ in range(rounds):
            self.pass_time(0.11)
            self.deliver_all()

    def campaign(self, name: str) -> None:
        """The server has heard no leader for too long, and nor have the others."""
        self.now_s += 1.0
        for server in self.servers.values():
            server.voter._SyncObj__raftElectionDeadline = self.now_s + 60
        self[name].voter._SyncObj__raftElectionDeadline = 0.0
        self[name].turn()

    def elect(self, name: str) -> Server:
        """Lets the server stand until it leads; the others hear of it."""
        for _ in range(10):
            self.campaign(name)
            self.deliver_all()
            if self[name].leads:
                return self[name]
        raise AssertionError(f"{name} is not elected: {self.describe()}")

    def propose(self, server: Server, *commands: bytes) -> None:
        server.voter.append(commands)
        server.turn()

    # --- what must hold ---

    def check(self, server: Server) -> None:
        voter, journal = server.voter, server.storage.journal
        server.check_upto(min(voter.committed, journal.last_index))
        if not server.leads:
            return
        if self.leaders.setdefault(voter.term, server.name) != server.name:
            raise Violation(f"two leaders in term {voter.term}")
        for place, (term, _) in self.committed.items():
            if place <= journal.first_index or term > voter.term:
                continue
            if place > journal.last_index or journal.term_at(place) != term:
                raise Violation(f"the leader of term {voter.term} lacks entry {place}")

    def describe(self) -> str:
        return "; ".join(
            f"{name}: leader {one.voter.leader}, term {one.voter.term}, "
            f"{'learns' if one.voter.is_learner else 'votes'}, log {one.storage.journal.last_index}"
            f", committed {one.voter.committed}, {one.voter.voters}"
            for name, one in self.servers.items()
        )


@contextmanager
def group(
    directory: Path, seed: int = 0, configured: dict[str, str] | None = None, **named: str
) -> Iterator[Group]:
    """A group whose time, chance and disks are the test's; its servers and who votes by each."""
    random.seed(seed)
    made: list[Group] = []

    def now() -> float:
        return made[0].now_s if made else 100.0

    def no_sync(_: int) -> None:
        """Processes die here, machines do not."""

    with (
        patch("pysyncobj.syncobj.monotonicTime", now),
        patch.object(log, "_monotonic", now),
        patch.object(os, "fdatasync", no_sync),
        patch.object(os, "fsync", no_sync),
    ):
        found = Group(directory, configured or named)
        made.append(found)
        try:
            yield found
        finally:
            found.close()


def want(number: int, names: Sequence[str]) -> bytes:
    """The command by which these should vote; `number` makes it one of its own."""
    return WANT + orjson.dumps(number) + b" " + " ".join(sorted(names)).encode()
