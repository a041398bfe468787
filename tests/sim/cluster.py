"""A whole cluster in virtual time: hosts, network, log and ledger, put together from a plan."""

from dataclasses import replace
from typing import Final

from fedq.core.ids import FragmentId, Incarnation, NodeId
from fedq.core.message import split
from fedq.core.peer_messages import PeerFrame
from fedq.core.suspects import Suspect
from fedq.journal.recovered import Recovered
from fedq.node.node import Node
from fedq.node.records.state import NodeState
from fedq.node.risk import SetAside
from fedq.node.settings import NodeSettings
from fedq.shell.config.values import Timing
from fedq.wiring.cluster_map.passwords import COST_MIN
from tests.crossing import crossed
from tests.sim.checkers import Ledger
from tests.sim.disk import SECTOR_BYTES, Disk, Start
from tests.sim.last_words import LastWords
from tests.sim.net import Net
from tests.sim.node_host import Factory, Host, Machine
from tests.sim.plan import Plan
from tests.sim.raft import Raft
from tests.sim.world import MS, World

USUAL: Final = Timing()


def through_the_codec(frame: PeerFrame) -> PeerFrame:
    """The frame as its receiver decodes it."""
    return crossed(frame)


class Cluster:
    """Hosts and what connects them. `factory` builds the machines (a real `Node` by default)."""

    def __init__(self, world: World, plan: Plan, factory: Factory | None = None) -> None:
        self.world = world
        self.plan = plan
        self.ledger = Ledger(world)
        self._last_words = LastWords(self.ledger)
        self.names = [NodeId(f"n{number}") for number in range(1, plan.nodes + 1)]
        #: Those that begin the cluster; others are let in.
        self._founders = list(self.names)
        self._build = factory if factory is not None else self._build_node
        #: Those that are of the cluster, in one list for all who ask.
        self.hosts = [self._host(name) for name in self.names]
        #: All that ever were.
        self._all_hosts = {host.name: host for host in self.hosts}
        self.net = Net(world, plan.net, self.hosts, through_the_codec, self._knows)
        self._newest_reign: dict[FragmentId, int] = {}
        #: (a node, another one that came later) -> the process of the first one, and the version of
        #: the map at which that came up.
        self._came_after: dict[tuple[NodeId, NodeId], tuple[str, int]] = {}
        self.raft = Raft(world, plan.raft, self.hosts, self.net.reachable)
        self.raft.changes = plan.joins > 0

    def _host(self, name: NodeId) -> Host:
        host = Host(self.world, name, self._disk(name), self._build, self)
        host.body_bytes_max = self.plan.read_ahead_bytes if self.plan.stow_bytes else None
        return host

    def _knows(self, source: NodeId, target: NodeId) -> bool:
        machine = self._all_hosts[source].machine
        return not isinstance(machine, Node) or target in machine.state.peers

    def join(self, name: NodeId) -> Host:
        """A node that was let in; its process is yet to start."""
        self.names.append(name)
        host = self._all_hosts[name] = self._host(name)
        self.net.add(host)
        self.raft.add(host)
        self.hosts.append(host)
        return host

    def forget(self, host: Host) -> None:
        """A node that is gone was taken out of the cluster."""
        self.raft.remove(host.name)

    def _disk(self, name: NodeId) -> Disk:
        """Disks differ: what one has long written, another still holds in its cache."""
        options = self.plan.disk
        if self.world.generator(f"speed/{name}").random() < 0.3:
            options = replace(options, sync_us_min=10 * MS, sync_us_max=80 * MS)
        return Disk(self.world, options, name)

    def _build_node(self, name: NodeId, start: Start, recovered: Recovered) -> Machine:
        number = self.names.index(name)
        policies = self.plan.policies
        skew_ms = policies.skew_ms(number) if policies is not None else 0
        return Node(
            NodeSettings(
                node=name,
                incarnation=Incarnation(start.number),
                start=start.id,
                directory=f"disk of {name}",
                past=start.past,
                vouched_since=start.vouched_since,
                peers={
                    each: self.address(each)
                    for each in (self._founders if name in self._founders else [name])
                },
                joins=name not in self._founders,
                neighbours=tuple(host.name for host in self.hosts),
                amqp_address=f"{name}.sim:5672",
                zone=f"z{self._machine(number) % self.plan.zones}",
                password_cost=COST_MIN,
                seed=self.plan.seed,
                suspects=self._suspects_of(name),
                unix_offset_ms=self._all_hosts[name].unix_offset_ms + skew_ms,
                heartbeat_ms=USUAL.heartbeat_ms * self.plan.slower,
                lease_ms=USUAL.lease_ms * self.plan.slower,
                suspect_ms=USUAL.suspect_ms * self.plan.slower,
                backup_stall_ms=USUAL.backup_stall_ms * self.plan.slower,
                replace_backup_ms=self.plan.replace_backup_ms,
                replace_voter_ms=self.plan.replace_voter_ms,
                drain_grace_ms=700,
                revive_wait_ms=self.plan.revive_wait_ms,
                fragment_threshold=self.plan.fragment_threshold,
                retire_idle_ms=self.plan.retire_idle_ms,
                retire_age_ms=self.plan.retire_idle_ms,
                segment_bytes_max=self.plan.segment_bytes,
                stow_bytes_min=self.plan.stow_bytes,
                read_ahead_bytes=self.plan.read_ahead_bytes,
                sector_bytes=SECTOR_BYTES,
                work_per_turn=self.plan.work_per_turn,
                scrub_bytes_per_second=1 << 20 if self.plan.scrub else 0,
                scrub_every_ms=1_000,
            ),
            recovered,
        )

    def _machine(self, number: int) -> int:
        """The host of the node with this number."""
        return number % self.plan.hosts if self.plan.hosts else number

    def address(self, name: NodeId) -> str:
        """Where its peers reach a node."""
        if not self.plan.hosts:
            return f"{name}.sim:7000"
        number = self.names.index(name) if name in self.names else len(self.names)
        return f"m{self._machine(number)}.sim:{7_000 + number}"

    def _suspects_of(self, name: NodeId) -> tuple[Suspect, ...]:
        stopped = self._all_hosts[name].stopped
        return tuple(stopped.suspects) if stopped is not None else ()

    # --- the surroundings of a host --------------------------------------------------------------

    def send_frames(self, source: NodeId, target: NodeId, frames: list[PeerFrame]) -> None:
        """Frames of a turn for another node."""
        self.net.send(source, target, frames)

    def propose(self, proposer: NodeId, command: bytes) -> None:
        """A command for the log."""
        self.raft.propose(proposer, command)

    def turn_ended(self, host: Host) -> None:
        """P7: who serves a fragment in a reign has not been followed by another reign yet."""
        if not isinstance(host.machine, Node):
            return
        if self.ledger.untouched:
            alive = [each for each in self.hosts if each.alive]
            living = {each.name: Incarnation(each.incarnation) for each in alive}
            self._last_words.look(host.machine.state, living)
        self._check_unheard(host.machine.state)
        if not host.machine.state.serving:
            return
        newest = self._newest_reign
        for fragment, primary in host.machine.state.primaries.items():
            reign = primary.fragment.reign
            if primary.handing_over:
                continue  # it hands nothing out, because its successor may have begun
            if reign >= newest.get(fragment, 0):
                newest[fragment] = reign
            elif fragment in host.machine.state.map.fragments:
                self.ledger.broken(
                    f"P7: {host.name} serves fragment {fragment} in reign {reign}, while reign "
                    f"{newest[fragment]} has begun"
                )

    def note_coming(self, name: NodeId) -> None:
        """A node is about to be let in: whoever is up now goes on serving meanwhile."""
        for host in self.hosts:
            if host.alive and isinstance(host.machine, Node):
                state = host.machine.state
                if state.map.is_up(host.name, state.settings.incarnation):
                    since = state.map.members[host.name].up_version
                    self._came_after[host.name, name] = (state.settings.start, since)

    def _check_unheard(self, state: NodeState) -> None:
        """Who has been up since before a node came serves without having heard from it."""
        for node in state.unheard:
            process, since = self._came_after.get((state.me, node), ("", 0))
            if process != state.settings.start:
                continue
            if state.map.members[state.me].up_version == since:
                self.ledger.broken(f"{state.me} does not serve before {node}, which joins, speaks")

    def host_started(self, name: NodeId) -> None:
        """A process runs."""
        self.net.on_started(name)
        self.raft.on_started(name)

    def host_paused(self, name: NodeId) -> None:
        """A process hangs."""
        self.net.on_paused(name)

    def host_stopped(self, name: NodeId) -> None:
        """A process is gone."""
        self.net.on_stopped(name)

    def say_last(self, source: NodeId, frame: PeerFrame) -> None:
        """The last words of a process, to all others."""
        for name in self.names:
            if name != source:
                self.net.send(source, name, [frame])

    def set_aside(self, name: NodeId, one: SetAside) -> None:
        """A message is in quarantine."""
        self.world.note(name, f"sets aside {one.fragment}/{one.position} of {one.queue.name}")
        self.ledger.set_aside(one.queue.name, split(one.message)[2])
