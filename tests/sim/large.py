"""A cluster of up to 200 nodes in virtual time: five voters, observers, subscribers of topics.

    python -m tests.sim --large [--nodes 200] [--subscribers 10] [--slower 1]

Input: sizes and a seed. Output: a `Report` of what each phase took, and sentences about what broke
a promise. The phases: five nodes begin; the others join; subscribers come, each with an exclusive
queue; messages of topics are published; nodes are killed, a voter among them, while publishes go
on, and their subscribers come back on the others; the dead ones start again.

What has to hold: every subscriber gets what it is owed exactly once, whoever died elsewhere; a
publish crosses exactly once to each node that has interest, and to no other; in the end all nodes
are whole, with equal maps, and every fragment has its copies.

Beyond `NODES_MAX` nodes the map refuses to let any join. To see what comes after that, larger runs
lift that bound.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from fedq.core.errors import Refused
from fedq.core.ids import NodeId
from fedq.core.limits import NODES_MAX, VOTERS_MAX, WORK_PER_TURN
from fedq.core.versions import JOINING
from fedq.node.records.state import NodeState
from fedq.wiring.cluster_map import invariants, roster
from fedq.wiring.cluster_map.operations_members import AdmitNode
from fedq.wiring.cluster_map.state import Ok
from tests.sim import inspect_node
from tests.sim.disk import DiskOptions
from tests.sim.large_parts import (
    LargeCluster,
    Opening,
    Publisher,
    QueueMaker,
    Subscriber,
    TimedHost,
)
from tests.sim.movers import ask_for
from tests.sim.net import NetOptions
from tests.sim.node_host import Host
from tests.sim.plan import FaultPlan, Plan
from tests.sim.raft import RaftOptions
from tests.sim.world import MS, SECOND, Trace, World

#: Nodes that join at a time.
_JOIN_AT_ONCE = 8
_LOOK_US = 20 * MS


@dataclass(frozen=True, slots=True)
class Size:
    """What a run is made of."""

    nodes: int = 200
    subscribers_per_node: int = 10
    topics: int = 20
    publishes: int = 60
    #: Nodes that die at once; one of them votes.
    kills: int = 10
    queues: int = 20
    #: Nodes wait so many times longer for each other than by default.
    slower: int = 1
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Phase:
    """What one phase took. Times of turns are of this machine; all others are virtual."""

    name: str
    virtual_ms: int
    frames: int
    turns: int
    turn_us: float
    longest_turn_ms: float
    #: What a node was busy with for each second, in the middle, as pure Python on this machine.
    busy_ms_per_second: float


@dataclass(slots=True)
class Report:
    """What was seen."""

    size: Size
    phases: list[Phase] = field(default_factory=list)
    map_bytes: int = 0
    map_version: int = 0
    crossings_per_publish: float = 0.0
    interested_per_publish: float = 0.0
    frame_bytes: float = 0.0
    resubscribed_ms: int = 0
    most_on_one_node: int = 0
    problems: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The report as a table for people."""
        size = self.size
        rows = [
            f"{size.nodes} nodes, {size.nodes * size.subscribers_per_node} subscribers of "
            f"{size.topics} topics, {size.kills} nodes killed at once, timing {size.slower}",
            "| phase | virtual ms | frames | turns | us a turn | longest ms | busy ms a second |",
            "|---|---|---|---|---|---|---|",
        ]
        rows += [
            f"| {each.name} | {each.virtual_ms} | {each.frames} | {each.turns} | "
            f"{each.turn_us:.0f} | {each.longest_turn_ms:.1f} | {each.busy_ms_per_second:.0f} |"
            for each in self.phases
        ]
        rows.append(
            f"map: version {self.map_version}, {self.map_bytes} bytes; a frame: "
            f"{self.frame_bytes:.0f} bytes; a publish crossed to {self.crossings_per_publish:.2f} "
            f"nodes of {self.interested_per_publish:.2f} others that had interest; all were "
            f"subscribed again {self.resubscribed_ms} ms after the kill, at most "
            f"{self.most_on_one_node} on a node"
        )
        return [*rows, *(f"* {problem}" for problem in self.problems)]


def lift_the_bound(nodes: int) -> None:
    """Lets the map have so many nodes, in this process."""
    if nodes > NODES_MAX:
        for module in (roster, invariants):
            vars(module)["NODES_MAX"] = nodes


def run_large(size: Size, trace: Trace | None = None) -> Report:
    """A whole run. See the module's docstring."""
    lift_the_bound(size.nodes)
    run = LargeRun(size, trace)
    try:
        run.go()
    except AssertionError as error:
        run.report.problems.append(str(error))
    return run.report


class LargeRun:
    """One run."""

    def __init__(self, size: Size, trace: Trace | None = None) -> None:
        self.size = size
        self.report = Report(size)
        self.world = World(size.seed, trace)
        self.random = self.world.generator("large")
        self.cluster = LargeCluster(self.world, _plan(size))
        self.book = self.cluster.book
        self.publisher = self._opening(Publisher, "publisher", self.book)
        self.maker = self._opening(
            QueueMaker, "maker", [f"q{number}" for number in range(size.queues)]
        )
        self.subscribers: list[Subscriber] = []
        self._doomed: dict[NodeId, None] = {}
        self._died: dict[NodeId, None] = {}

    def _opening(self, kind: type[Opening], name: str, *more: object) -> "Opening":
        return kind(self.world, self.world.generator(name), self._any_host, *more)

    def go(self) -> None:
        """All phases; a promise that is broken is a problem of the report."""
        self._phase("five begin", self._begin)
        self._phase("the others join", self._join)
        self._phase("subscribers come", self._subscribe)
        self._phase("nothing happens", lambda: self.world.run(self.world.now_us + SECOND))
        self._phase("publishes", self._publish_in_peace)
        self._phase("nodes die", self._kill)
        self._phase("they come back", self._revive)
        self._note_map()
        self.report.problems += [*self.crossed_again(), *self.cluster.ledger.problems]

    # --- phases ----------------------------------------------------------------------------------

    def _begin(self) -> None:
        for host in self.cluster.hosts:
            host.start()
        self._wait("five nodes are whole", 20, self._grows)

    def _grows(self) -> bool:
        known = self._state(self.cluster.hosts[0]).map
        return self._whole() and known.cluster_version >= JOINING and bool(known.roster)

    def _join(self) -> None:
        while len(self.cluster.hosts) < self.size.nodes:
            count = min(_JOIN_AT_ONCE, self.size.nodes - len(self.cluster.hosts))
            coming = [self._admit() for _ in range(count)]
            for host in coming:
                host.start()
            self._wait("nodes that join are up", 30, partial(self._all_serve, coming))
        self._wait("all nodes are whole", 60, self._whole)

    def _admit(self) -> Host:
        cluster = self.cluster
        name = NodeId(f"n{len(cluster.names) + 1}")
        cluster.note_coming(name)
        heard: list[Ok | Refused] = []
        wish = AdmitNode(name, cluster.address(name), f"disk of {name}")
        cluster.hosts[0].submit(partial(ask_for, wish, heard))
        self._wait(f"{name} is let in", 20, lambda: bool(heard))
        assert not isinstance(heard[0], Refused), f"what breaks first: {heard[0].text}"
        return cluster.join(name)

    def _subscribe(self) -> None:
        for each in (self.publisher, self.maker):
            each.start(100 * MS)
        self._wait("queues and the exchange are declared", 30, lambda: self.maker.ready)
        self._wait("the publisher is ready", 30, lambda: self.publisher.ready)
        size = self.size
        for number, host in enumerate(self.cluster.hosts):
            for place in range(size.subscribers_per_node):
                # A node's subscribers share a few topics, so it has no interest in the others.
                topic = (number * 7 + place % 3) % size.topics
                name = f"{host.name}/{place}"
                first = [host]
                made = Subscriber(
                    self.world, self.world.generator(name), partial(self._host_for, first), topic,
                    self.book,
                )  # fmt: skip
                self.subscribers.append(made)
                made.start(SECOND)
        self._wait("all have subscribed", 60, self._all_subscribed)

    def _publish_in_peace(self) -> None:
        first = len(self.book.topics)
        interested = [self._interested(topic) for topic in range(self.size.topics)]
        self._publish(self.size.publishes)
        self._wait("all is confirmed", 30, lambda: not self._publisher.unconfirmed)
        self.world.run(self.world.now_us + 300 * MS)
        crossings = wanted = 0
        own = self._publisher.host
        assert own is not None
        for number in range(first, len(self.book.topics)):
            for host in self.cluster.hosts:
                times = self.book.crossed[number, host.name]
                is_due = host.name in interested[self.book.topics[number]] and host is not own
                crossings += times
                wanted += is_due
                if times != is_due:
                    self.report.problems.append(f"publish {number} crossed {times} times to "
                                                f"{host.name}, due: {is_due}")  # fmt: skip
        count = max(1, len(self.book.topics) - first)
        self.report.crossings_per_publish = crossings / count
        self.report.interested_per_publish = wanted / count
        self._judge()

    def _kill(self) -> None:
        cluster, size = self.cluster, self.size
        own = self._publisher.host
        voters = [host for host in cluster.hosts[:VOTERS_MAX] if host is not own]
        others = [host for host in cluster.hosts[VOTERS_MAX:] if host is not own]
        dying = [self.random.choice(voters), *self.random.sample(others, size.kills - 1)]
        lost = sum(subscriber.host in dying for subscriber in self.subscribers)
        self._publish(size.publishes // 4)
        for host in dying:
            self._doomed[host.name] = self._died[host.name] = None
            host.crash("killed")
        begun = self.world.now_us
        for _ in range(4):
            self._publish(size.publishes // 4)
            self.world.run(self.world.now_us + 200 * size.slower * MS)
        self._wait("all have subscribed again", 60, self._all_subscribed)
        self.report.resubscribed_ms = (self.world.now_us - begun) // MS
        self._wait("the dead count as down", 60, self._dead_are_down)
        self._publish(size.publishes // 4)
        self._wait("all is confirmed", 30, lambda: not self._publisher.unconfirmed)
        self.world.run(self.world.now_us + 500 * MS)
        self._judge()
        assert lost, "nobody had to come back"
        here = [
            sum(subscriber.host is host for subscriber in self.subscribers)
            for host in cluster.hosts
        ]
        self.report.most_on_one_node = max(here)

    def _revive(self) -> None:
        for host in self.cluster.hosts:
            if not host.alive:
                host.start()
        self._doomed = {}
        self._wait("all nodes are whole again", 120, self._whole)
        self._publish(self.size.publishes // 4)
        self._wait("all is confirmed", 30, lambda: not self._publisher.unconfirmed)
        self.world.run(self.world.now_us + 500 * MS)
        self._judge()

    # --- what phases share -----------------------------------------------------------------------

    @property
    def _publisher(self) -> Publisher:
        assert isinstance(self.publisher, Publisher)
        return self.publisher

    def _publish(self, count: int) -> None:
        for number in range(count):
            if self._publisher.ready:
                self._publisher.publish(number % self.size.topics)
            self.world.run(self.world.now_us + 2 * MS)

    def _interested(self, topic: int) -> dict[NodeId, None]:
        hosts = [each.host for each in self.subscribers if each.topic == topic and each.ready]
        return {host.name: None for host in hosts if host is not None}

    def _judge(self) -> None:
        for subscriber in self.subscribers:
            self.report.problems += subscriber.problems()
            for refusal in subscriber.refusals:
                self.report.problems.append(f"{subscriber.where} was refused: {refusal}")
        del self.report.problems[100:]

    def crossed_again(self) -> list[str]:
        """Publishes that crossed to a node more than once, to which the session never ended."""
        return [
            f"publish {number} crossed to {name} more than once"
            for (number, name), times in self.book.crossed.items()
            if times > 1 and name not in self._died
        ]

    def _any_host(self) -> Host | None:
        """Where somebody connects that has no place yet: a node that serves."""
        able = [host for host in self.cluster.hosts if self._serves(host)]
        return self.random.choice(able) if able else None

    def _host_for(self, first: list[Host]) -> Host | None:
        """Its own node at first, then any."""
        return first.pop() if first and first[0].alive else self._any_host()

    def _serves(self, host: Host) -> bool:
        return host.alive and self._state(host).serving and self._state(host).joined

    def _all_serve(self, hosts: list[Host]) -> bool:
        return all(map(self._serves, hosts))

    def _all_subscribed(self) -> bool:
        return all(subscriber.ready for subscriber in self.subscribers)

    def _dead_are_down(self) -> bool:
        for host in self.cluster.hosts:
            if host.alive:
                members = self._state(host).map.members
                if any(members[name].up for name in self._doomed):
                    return False
        return True

    def _whole(self) -> bool:
        return not inspect_node.why_not_whole(self.cluster.hosts)

    def _wait(self, what: str, limit_s: int, done: Callable[[], bool]) -> None:
        deadline_us = self.world.now_us + limit_s * self.size.slower * SECOND
        while not done():
            if self.world.now_us >= deadline_us:
                why = inspect_node.why_not_whole(self.cluster.hosts)
                raise AssertionError(f"not within {limit_s} s: {what}; {why}")
            assert not self.cluster.ledger.problems, self.cluster.ledger.problems[0]
            self.world.run(self.world.now_us + _LOOK_US)

    def _state(self, host: Host) -> NodeState:
        return inspect_node.state_of(host)

    def _phase(self, name: str, act: Callable[[], object]) -> None:
        before = [host for host in self.cluster.hosts if isinstance(host, TimedHost)]
        for host in before:
            host.forget_times()
        begun, frames = self.world.now_us, self.book.frames
        try:
            act()
        finally:
            took_us = max(1, self.world.now_us - begun)
            hosts = [host for host in self.cluster.hosts if isinstance(host, TimedHost)]
            turns = sum(host.timed_turns for host in hosts)
            spent = sorted(host.spent_ns for host in hosts)
            self.report.phases.append(
                Phase(
                    name, took_us // MS, self.book.frames - frames, turns,
                    sum(spent) / 1_000 / max(1, turns),
                    max(host.longest_ns for host in hosts) / 1e6,
                    spent[len(spent) // 2] / 1e6 / (took_us / SECOND),
                )
            )  # fmt: skip

    def _note_map(self) -> None:
        host = next(host for host in self.cluster.hosts if host.alive)
        assert host.machine is not None
        self.report.map_bytes = len(host.machine.snapshot())
        self.report.map_version = self._state(host).map.version
        self.report.frame_bytes = self.book.weighed_bytes / max(1, self.book.weighed)


def _plan(size: Size) -> Plan:
    """A calm network, sound disks, and nobody but who comes with the run."""
    return Plan(
        seed=size.seed, nodes=VOTERS_MAX, zones=1, safety_us=0,
        fragment_threshold=1_000, replace_backup_ms=5_000, revive_wait_ms=5_000,
        segment_bytes=1 << 20, work_per_turn=WORK_PER_TURN, net=NetOptions(),
        disk=DiskOptions(full=0.0, power_cut=0.0),
        raft=RaftOptions(), faults=FaultPlan(), queues=(), exchanges=(), publishers=(),
        consumers=(), getters=(), subscribers=(), churn_rounds=0, joins=size.nodes,
        slower=size.slower,
    )  # fmt: skip
