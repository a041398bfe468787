"""Failover under random losses and returns: never unsafe, and always finished in the end.

The test plays the nodes: who is really alive, who has restarted, what the leader hears and when it
begins to suspect. Backups that are to join do so when the test lets them. It also plays publishers:
a number is confirmed when every in-sync copy has it, and must never be missed by a primary.
"""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from fedq.core.ids import FragmentId, Incarnation, NodeId
from fedq.wiring.cluster_map import invariants
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations import (
    DeclareQueue,
    JoinEra,
    MemberUp,
    NewEra,
    Operation,
    SetCopies,
    encode_command,
)
from fedq.wiring.cluster_map.state import FragmentChanged, FragmentInfo, Ok
from fedq.wiring.failover.decide import SCAN_PAUSE_MS, FailoverMemory, decide
from fedq.wiring.failover.worth import Worth

NODES = [NodeId(name) for name in "abcde"]
ZONES = dict(zip(NODES, "xxyyz", strict=True))
PATIENCE_MS = 5_000
SUSPECT_MS = 1_800
#: Longer than these tests keep anybody away for good.
REVIVE_WAIT_MS = 60_000

verbs = st.tuples(
    st.sampled_from(
        ["crash", "pause", "return", "restart", "join", "lead", "wait", "declare", "publish"]
    ),
    st.integers(0, 4),
)


class World:
    """Five nodes, of which the test kills, pauses and restarts some."""

    def __init__(self) -> None:
        self.map = ClusterMap()
        self.memory = FailoverMemory(PATIENCE_MS, REVIVE_WAIT_MS)
        self.now_ms = 1_000_000
        self.requests = 0
        self.alive = dict.fromkeys(NODES, True)
        self.silent_since = dict.fromkeys(NODES, 0)
        self.incarnations = dict.fromkeys(NODES, 1)
        #: Per fragment how much was confirmed, and how much of it each node has on its disk.
        self.confirmed: dict[FragmentId, int] = {}
        self.disks: dict[tuple[FragmentId, NodeId], int] = {}
        #: Whose disk has lost something that it had confirmed.
        self.rotten: NodeId | None = None
        for node in NODES:
            self.come_up(node)

    def send(self, *operations: Operation) -> list[bool]:
        self.requests += 1
        applied = self.map.apply(encode_command(str(self.requests), operations))
        invariants.check(self.map)
        for change in applied.changes:
            if isinstance(change, FragmentChanged):
                assert change.after.primary in change.before.in_sync
                self.check_memories(change.before, change.after)
                self.check_disks(change.after)
        return [isinstance(result, Ok) for result in applied.results]

    def come_up(self, node: NodeId) -> None:
        number = Incarnation(self.incarnations[node])
        self.send(MemberUp(node, number, "p", "c", ZONES[node]))
        if number == 1:
            self.send(JoinEra(node, number))

    def check_memories(self, before: FragmentInfo, after: FragmentInfo) -> None:
        """A queue that is not durable begins anew only where no process has it in memory."""
        restarts = after.in_sync[after.primary] != before.in_sync[after.primary]
        if restarts and not self.map.queues[after.queue].durable:
            lives = [
                node for node, start in before.in_sync.items() if self.incarnations[node] == start
            ]
            assert not lives, "a memory behind a partition is given up"

    def check_disks(self, info: FragmentInfo) -> None:
        for node, incarnation in info.in_sync.items():
            if node == self.rotten and incarnation != self.incarnations[node]:
                continue
            held = self.disks.get((info.id, node), 0)
            assert held == self.confirmed.get(info.id, 0), "a confirmed message is lost"

    def publish(self) -> None:
        """One more message to each fragment, confirmed where every in-sync copy answers."""
        for info in self.map.fragments.values():
            serving = [
                node
                for node, incarnation in info.in_sync.items()
                if self.alive[node] and self.incarnations[node] == incarnation
            ]
            if len(serving) == len(info.in_sync):
                self.confirmed[info.id] = self.confirmed.get(info.id, 0) + 1
                for node in serving:
                    self.disks[info.id, node] = self.confirmed[info.id]

    def lead(self) -> bool:
        """One look of the leader; whether it did anything."""
        silent = [node for node in NODES if not self.alive[node]]
        suspects = [node for node in silent if self.now_ms >= self.silent_since[node] + SUSPECT_MS]
        # Some hosts refuse connections when their process is gone, others went with it.
        gone = [
            node
            for node in silent
            if node in "ace" and self.incarnations[node] != self.map.members[node].incarnation
        ]
        suspects += [node for node in gone if node not in suspects]
        operations = decide(self.map, suspects, self.now_ms, self.memory, silent, gone=gone)
        self.answer()
        if not operations:
            return False
        assert all(self.send(*operations)), "the map refused what the leader decided"
        return True

    def answer(self) -> None:
        """What the leader asks is answered by whoever lives."""
        revivals = self.memory.revivals
        questions, revivals.questions = revivals.questions, deque()
        for node, fragment, epoch in questions:
            if self.alive[node]:
                worth = Worth(last=self.disks.get((fragment, node), 0))
                number = Incarnation(self.incarnations[node])
                self.memory.on_worth(node, number, fragment, epoch, worth)

    def rot(self, node: NodeId) -> None:
        """The disk of a node loses the end of what others in sync hold, too."""
        self.rotten = node
        for info in self.map.fragments.values():
            durable = self.map.queues[info.queue].durable
            if durable and node in info.in_sync and len(info.in_sync) > 1:
                self.disks[info.id, node] = self.disks.get((info.id, node), 0) // 2

    def join(self) -> bool:
        """Every joining backup that lives comes into sync; whether one did."""
        joined = False
        for info in list(self.map.fragments.values()):
            hot = self.map.hot_copies(info)
            fresh = [
                (node, self.map.members[node].incarnation)
                for node in info.backups
                if node not in info.in_sync and self.map.members[node].up and self.alive[node]
            ]
            if info.primary in hot and self.alive[info.primary] and fresh:
                in_sync = (*info.in_sync.items(), *fresh)
                joined = True
                for node, _ in fresh:
                    self.disks[info.id, node] = self.disks.get((info.id, info.primary), 0)
                assert self.send(
                    SetCopies(info.id, info.epoch, info.primary, info.backups, in_sync, False)
                ) == [True]
        return joined

    def step(self, verb: str, number: int) -> None:
        node = NODES[number]
        if verb in ("crash", "pause"):
            if self.alive[node]:
                self.silent_since[node] = self.now_ms
            self.alive[node] = False
            self.incarnations[node] += verb == "crash"
        elif verb in ("return", "restart"):
            self.incarnations[node] += verb == "restart"
            self.alive[node] = True
            self.come_up(node)
        elif verb == "declare":
            name, durable = f"q{number}", number % 2 == 0
            self.send(DeclareQueue("/", name, durable, False, "", node, 1, number % 3 + 1))
        elif verb == "join":
            self.join()
        elif verb == "wait":
            self.now_ms += (SUSPECT_MS, PATIENCE_MS)[number % 2]
        elif verb == "publish":
            self.publish()
        else:
            self.lead()

    def settle(self) -> None:
        quiet_since_ms = self.now_ms
        for _ in range(400):
            joined = self.join()
            if self.lead() or joined:
                quiet_since_ms = self.now_ms
            elif self.now_ms > quiet_since_ms + REVIVE_WAIT_MS + SCAN_PAUSE_MS:
                return
            self.now_ms += 500
        raise AssertionError("the leader never comes to rest")


def after(queues: int, history: list[tuple[str, int]]) -> World:
    """The world after so many queues were declared, and then this."""
    world = World()
    for verb, number in [("declare", number) for number in range(queues)] + history:
        world.step(verb, number)
    return world


@given(st.lists(verbs, max_size=30))
def test_after_any_losses_each_fragment_is_served_that_can_be(
    history: list[tuple[str, int]],
) -> None:
    world = after(4, history)
    world.settle()
    cluster = world.map
    up = sum(world.alive.values())
    for info in cluster.fragments.values():
        queue = cluster.queues[info.queue]
        hot = cluster.hot_copies(info)
        someone_returned = any(cluster.members[node].up for node in info.in_sync)
        hidden = not queue.durable and not hot
        if hidden and someone_returned:
            unheard = [node for node in info.in_sync if not cluster.members[node].up]
            assert unheard, "nobody can have it in memory"
        if hidden or not someone_returned:
            serves = [f for f in queue.fragments if cluster.hot_copies(cluster.fragments[f])]
            assert queue.durable or not up or serves, "a queue that has to wait for nobody"
            continue
        assert info.primary in hot
        assert world.alive[info.primary]
        assert list(hot) == list(info.in_sync), "a copy in the set that is lost or cold"
        assert len(hot) == min(queue.replicas, up)
        assert len(info.copies) == len(hot), "a backup that never joined, or one too many"


@given(st.lists(verbs, max_size=30))
def test_when_everyone_is_back_everything_is_served_in_full_and_evenly(
    history: list[tuple[str, int]],
) -> None:
    world = after(5, history)
    for number, node in enumerate(NODES):
        if not world.alive[node]:
            world.step("return", number)
    world.settle()
    cluster = world.map
    for info in cluster.fragments.values():
        assert len(cluster.hot_copies(info)) == cluster.queues[info.queue].replicas
        assert len(info.copies) == len(info.in_sync)
    assert cluster.era_is_alive()


@given(st.lists(verbs, max_size=15), st.permutations(range(5)), st.none() | st.sampled_from(NODES))
def test_after_a_stop_of_everything_durable_queues_are_served_again(
    history: list[tuple[str, int]], order: list[int], rotten: NodeId | None
) -> None:
    world = after(5, history)
    world.publish()
    for number in range(len(NODES)):
        world.step("crash", number)
    if rotten is not None:
        world.rot(rotten)
    world.memory = FailoverMemory(PATIENCE_MS, REVIVE_WAIT_MS)
    for number in order:
        world.step("return", number)
        for _ in range(number):
            world.lead()
            world.now_ms += 500
    world.settle()
    for info in world.map.fragments.values():
        assert info.primary in world.map.hot_copies(info)
    names = [key.name for key in world.map.queues]
    assert [name for name in ("q0", "q2", "q4") if name in names] == ["q0", "q2", "q4"]


def test_a_single_node_begins_a_new_era_at_each_start() -> None:
    cluster = ClusterMap()
    for start in range(1, 4):
        up = MemberUp(NodeId("a"), Incarnation(start), "p", "c", "")
        cluster.apply(encode_command(f"up {start}", [up]))
        operations = decide(cluster, [], 0, FailoverMemory(PATIENCE_MS, REVIVE_WAIT_MS))
        assert [isinstance(each, NewEra) for each in operations[:1]] == [True] * (start > 1)
        if operations:
            cluster.apply(encode_command(f"act {start}", operations))
        queue = DeclareQueue("/", "q", False, False, "", NodeId("a"), 1, 1)
        applied = cluster.apply(encode_command(f"declare {start}", [queue]))
        assert applied.results == (Ok(1),), "last era's queue is gone"
