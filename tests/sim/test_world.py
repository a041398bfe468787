"""The simulator's own parts, checked with a tiny machine before a real node is trusted to them."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.core.ids import ConnectionId, Incarnation, MapVersion, NodeId
from fedq.core.peer_messages import MapApplied, PeerFrame
from fedq.core.suspects import Stopped
from fedq.journal.recovered import Recovered
from fedq.journal.segments import Chunk
from fedq.node.outbox import NodeOut
from fedq.node.risk import SetAside
from tests.examples import examples
from tests.sim.disk import Disk, DiskOptions, Start
from tests.sim.net import Net, NetOptions
from tests.sim.node_host import Host, Machine
from tests.sim.raft import Raft, RaftOptions
from tests.sim.world import MS, SECOND, Trace, World

NAMES = [NodeId("a"), NodeId("b"), NodeId("c")]


class Echo:
    """A machine that numbers what it sends, and remembers all it hears."""

    def __init__(self, name: NodeId, start: Start, recovered: Recovered) -> None:
        self.out = NodeOut()
        self.stopped = False
        self.name = name
        self.incarnation = Incarnation(start.number)
        self.up: dict[NodeId, bool] = {}
        self.refused: list[NodeId] = []
        self.heard: dict[NodeId, list[int]] = {}
        self.committed: list[bytes] = []
        self.leaders: list[NodeId | None] = []
        self.sent = 0
        self.in_turn = self.has_applied = False
        self.clock_ms = -1

    def begin_turn(self, now_ms: int) -> None:
        assert not self.in_turn
        assert now_ms >= self.clock_ms
        self.in_turn = True
        self.has_applied = False
        self.clock_ms = now_ms

    def end_turn(self) -> None:
        assert self.in_turn
        self.in_turn = False

    def on_connected(self, connection: ConnectionId, address: str, is_loopback: bool) -> None:
        self.out.reading[connection] = True

    def on_bytes(self, connection: ConnectionId, data: bytes) -> None:
        self.out.writes.setdefault(connection, []).append(data)

    def on_writable(self, connection: ConnectionId, writable: bool) -> None:
        assert self.in_turn

    def on_disconnected(self, connection: ConnectionId) -> None:
        assert self.in_turn

    def on_link_up(self, peer: NodeId, process: Incarnation) -> None:
        assert not self.up.get(peer, False)
        self.up[peer] = True

    def on_link_down(self, peer: NodeId, refused: bool) -> None:
        self.up[peer] = False
        if refused:
            self.refused.append(peer)

    def on_peer(self, frame: PeerFrame) -> None:
        self.heard.setdefault(frame.sender, []).append(frame.first)

    @property
    def takes_commands(self) -> bool:
        """A command a turn, no more."""
        return not self.has_applied

    def on_committed(self, command: bytes) -> None:
        assert not self.has_applied
        self.has_applied = True
        self.committed.append(command)

    def on_leader(self, leader: NodeId | None) -> None:
        self.leaders.append(leader)

    def snapshot(self) -> bytes:
        return b"\n".join(self.committed)

    def on_snapshot(self, data: bytes) -> None:
        self.committed = data.split(b"\n")

    def on_synced(self, number: int) -> None:
        assert self.in_turn

    def on_read(self, number: int, data: bytes) -> None:
        assert self.in_turn

    def on_read_failed(self, number: int, reason: str) -> None:
        assert self.in_turn

    def on_scratch_written(self, number: int) -> None:
        assert self.in_turn

    def on_scratch_failed(self, number: int, reason: str) -> None:
        assert self.in_turn

    def on_journal_failed(self, reason: str) -> None:
        self.out.fatal = reason

    def on_resources(self, waiting: int, resident: int, disk_free: int) -> None:
        raise AssertionError("not used here")

    def on_tick(self) -> None:
        self.sent += 1
        for peer in NAMES:
            if peer != self.name:
                frame = PeerFrame(
                    self.name, self.incarnation, (1, 1), self.sent, 0, MapVersion(0),
                    [MapApplied(MapVersion(0))], None,
                )  # fmt: skip
                self.out.peers.setdefault(peer, []).append(frame)

    def on_verified(self, number: int, is_right: bool | None) -> None:
        raise AssertionError("nobody logs in")

    def stop(self) -> None:
        self.out.fatal = "stopped"

    def post_mortem(self, error: Exception) -> Stopped:
        raise error


class Small:
    """Three echoes with a network and a log."""

    def __init__(
        self,
        seed: int = 1,
        net: NetOptions | None = None,
        raft: RaftOptions | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.world = World(seed, trace)
        self.hosts = {
            name: Host(self.world, name, Disk(self.world, DiskOptions(), name), self._build, self)
            for name in NAMES
        }
        self.net = Net(self.world, net or NetOptions(), list(self.hosts.values()))
        self.raft = Raft(
            self.world, raft or RaftOptions(), list(self.hosts.values()), self.net.reachable
        )
        for host in self.hosts.values():
            host.start()

    def _build(self, name: NodeId, start: Start, recovered: Recovered) -> Machine:
        return Echo(name, start, recovered)

    def send_frames(self, source: NodeId, target: NodeId, frames: list[PeerFrame]) -> None:
        self.net.send(source, target, frames)

    def propose(self, proposer: NodeId, command: bytes) -> None:
        self.raft.propose(proposer, command)

    def turn_ended(self, host: Host) -> None:
        """Nothing to watch."""

    def host_started(self, name: NodeId) -> None:
        self.net.on_started(name)
        self.raft.on_started(name)

    def host_paused(self, name: NodeId) -> None:
        self.net.on_paused(name)

    def say_last(self, source: NodeId, frame: PeerFrame) -> None:
        """An echo never fails."""

    def set_aside(self, name: NodeId, one: SetAside) -> None:
        """It has no messages."""

    def host_stopped(self, name: NodeId) -> None:
        self.net.on_stopped(name)

    def echo(self, name: str) -> Echo:
        machine = self.hosts[NodeId(name)].machine
        assert isinstance(machine, Echo)
        return machine

    def live(self, duration_us: int) -> None:
        self.world.run(self.world.now_us + duration_us)


def test_actions_happen_in_the_order_of_time_then_of_asking() -> None:
    world = World(1)
    seen: list[str] = []
    world.after(5, lambda: seen.append("late"))
    world.after(2, lambda: seen.append("early"))
    world.after(5, lambda: seen.append("later"))
    world.run(100)
    assert seen == ["early", "late", "later"]
    assert world.now_us == 100


def test_a_seed_gives_one_history_and_another_seed_another() -> None:
    def digest(seed: int) -> str:
        trace = Trace(digest=True)
        small = Small(seed, NetOptions(loss=0.1, reorder=0.1, duplicate=0.1), trace=trace)
        small.live(1 * SECOND)
        return trace.digest()

    assert digest(1) == digest(1)
    assert digest(1) != digest(2)


def test_frames_arrive_in_order_and_once_on_a_good_network() -> None:
    small = Small()
    small.live(1 * SECOND)
    heard = small.echo("b").heard[NodeId("a")]
    assert heard == list(range(heard[0], heard[0] + len(heard)))
    assert len(heard) > 15


def test_a_bad_network_loses_repeats_and_overtakes() -> None:
    small = Small(net=NetOptions(loss=0.1, duplicate=0.1, reorder=0.3, delay_us_max=60 * MS))
    small.live(5 * SECOND)
    heard = small.echo("b").heard[NodeId("a")]
    assert len(set(heard)) < small.echo("a").sent - 3
    assert len(set(heard)) < len(heard)
    assert heard != sorted(heard)


def test_a_cut_in_one_direction_breaks_both_streams_and_refuses_nobody() -> None:
    small = Small()
    small.live(200 * MS)
    small.net.cut(NodeId("a"), NodeId("b"))
    small.live(4 * SECOND)
    assert not small.echo("a").up[NodeId("b")]
    assert not small.echo("b").up[NodeId("a")]
    assert small.echo("a").up[NodeId("c")]
    assert small.echo("a").refused == []
    small.net.heal(NodeId("a"), NodeId("b"))
    small.live(2 * SECOND)
    assert small.net.whole()


def test_what_a_short_cut_held_goes_on() -> None:
    small = Small()
    small.live(200 * MS)
    small.net.cut(NodeId("a"), NodeId("b"))
    small.live(500 * MS)
    small.net.heal(NodeId("a"), NodeId("b"))
    small.live(200 * MS)
    heard = small.echo("b").heard[NodeId("a")]
    assert heard == list(range(heard[0], heard[0] + len(heard)))


def test_a_dead_process_refuses_and_its_next_life_hears_nothing_old() -> None:
    small = Small(net=NetOptions(delay_us_min=20 * MS, delay_us_max=40 * MS))
    small.live(500 * MS)
    small.hosts[NodeId("b")].crash("test")
    small.live(10 * MS)
    small.hosts[NodeId("b")].start()
    small.live(5 * MS)
    assert small.echo("b").heard == {}
    small.hosts[NodeId("b")].crash("test")
    small.live(300 * MS)
    assert small.echo("a").refused.count(NodeId("b")) >= 2
    assert not small.echo("c").up[NodeId("b")]


def test_a_process_behind_a_cut_is_not_refused() -> None:
    small = Small()
    small.live(200 * MS)
    for pair in ((NAMES[0], NAMES[1]), (NAMES[1], NAMES[0])):
        small.net.cut(*pair)
    small.hosts[NodeId("b")].crash("test")
    small.live(3 * SECOND)
    assert NodeId("b") not in small.echo("a").refused
    assert NodeId("b") in small.echo("c").refused


def test_a_paused_process_gets_its_inputs_when_it_goes_on() -> None:
    small = Small()
    small.live(200 * MS)
    before = len(small.echo("b").heard[NodeId("a")])
    small.hosts[NodeId("b")].pause(300 * MS)
    small.live(290 * MS)
    assert len(small.echo("b").heard[NodeId("a")]) == before
    small.live(50 * MS)
    assert len(small.echo("b").heard[NodeId("a")]) > before + 3


def test_the_log_gives_every_node_the_same_commands_once() -> None:
    small = Small(raft=RaftOptions(duplicate=0.2, loss=0.1))
    small.live(2 * SECOND)
    for number in range(50):
        small.raft.propose(NAMES[number % 3], b"%d" % number)
    small.live(1 * SECOND)
    log = small.raft.log
    assert len(set(log)) > 30
    assert small.echo("a").committed == small.echo("b").committed == log
    assert small.echo("c").committed == log
    assert small.raft.settled()


def test_a_log_is_not_settled_while_a_command_is_on_its_way_to_it() -> None:
    small = Small()
    small.live(3 * SECOND)
    assert small.raft.settled()
    small.propose(NAMES[1], b"take a copy out")
    assert not small.raft.settled()
    small.live(1 * SECOND)
    assert small.raft.settled()


def test_a_minority_commits_nothing_and_a_majority_goes_on() -> None:
    small = Small()
    small.live(2 * SECOND)
    old = small.raft.leader
    assert old is not None
    others = [name for name in NAMES if name != old]
    for other in others:
        small.net.cut(old, other)
        small.net.cut(other, old)
    small.raft.propose(old, b"from the minority")
    small.live(3 * SECOND)
    assert small.raft.leader in others
    small.raft.propose(others[0], b"from the majority")
    small.live(1 * SECOND)
    assert small.raft.log == [b"from the majority"]
    assert small.echo(old).committed == []
    small.net.heal_all()
    small.live(3 * SECOND)
    assert small.echo(old).committed == small.raft.log
    assert small.echo(old).leaders[-1] == small.raft.leader


def test_a_restarted_node_begins_with_its_snapshot_and_hears_the_rest_once() -> None:
    small = Small(raft=RaftOptions(snapshot_every_us=100 * MS))
    small.live(2 * SECOND)
    for number in range(20):
        small.raft.propose(NAMES[0], b"early %d" % number)
    small.live(1 * SECOND)
    small.hosts[NodeId("b")].crash("test")
    small.live(2 * SECOND)
    for number in range(10):
        small.raft.propose(NAMES[2], b"late %d" % number)
    small.live(1 * SECOND)
    small.hosts[NodeId("b")].start()
    small.live(2 * SECOND)
    assert small.echo("b").committed == small.raft.log
    assert len(small.raft.log) == 30


def test_a_failed_sync_is_reported_once_and_nothing_after_it() -> None:
    world = World(1)
    disk = Disk(world, DiskOptions(), "d")
    synced: list[int] = []
    failed: list[str] = []
    disk.open(synced.append, failed.append)
    disk.append([Chunk(1, 1, b"one", True)])
    world.run(1 * SECOND)
    disk.fail()
    disk.append([Chunk(2, 1, b"two", True)])
    world.run(2 * SECOND)
    disk.append([Chunk(3, 1, b"three", True)])
    world.run(3 * SECOND)
    assert synced == [1]
    assert len(failed) == 1


def test_segments_go_at_once_whatever_the_disk_owes() -> None:
    """As with the real one, the node alone sees to it that nothing in them is missed."""
    world = World(1)
    disk = Disk(world, DiskOptions(power_cut=1.0), "d")
    disk.open(lambda number: None, lambda reason: None)
    disk.append([Chunk(1, 1, b"token", True), Chunk(2, 2, b"first", True)])
    world.run(1 * SECOND)
    disk.stall(2 * SECOND)
    disk.append([Chunk(3, 2, b"transaction", True), Chunk(4, 2, b"an ack", False)])
    disk.drop([1])
    world.run(world.now_us + 100 * MS)
    assert list(disk.segments) == [2]
    disk.crash()
    assert list(disk.segments) == [2]


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 10_000), st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=30))
def test_a_power_cut_leaves_a_prefix_that_holds_all_that_was_synced(
    seed: int, steps: list[tuple[bool, int]]
) -> None:
    world = World(seed)
    disk = Disk(world, DiskOptions(power_cut=1.0), "d")
    synced = [0]
    disk.open(synced.append, lambda reason: None)
    written: list[bytes] = []
    segment = 1
    for number, (sync, wait_ms) in enumerate(steps, 1):
        segment += number % 7 == 0
        written.append(b"<%d>" % number)
        disk.append([Chunk(number, segment, written[-1], sync)])
        world.run(world.now_us + wait_ms * MS)
    disk.crash()
    found = b"".join(disk.read_segments().values())
    assert b"".join(written).startswith(found)
    assert found.startswith(b"".join(written[: synced[-1]]))
