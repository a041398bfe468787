"""What the leader decides, told as small histories."""

from collections import deque
from typing import Any

from fedq.core.ids import Incarnation, NodeId
from fedq.core.work import Work
from fedq.wiring.cluster_map.operations import (
    AddFragment,
    JoinEra,
    MemberDown,
    NewEra,
    Operation,
    SetCopies,
)
from fedq.wiring.cluster_map.operations_members import Speaks
from fedq.wiring.cluster_map.state import Ok
from fedq.wiring.failover.decide import SCAN_PAUSE_MS, FailoverMemory, decide
from fedq.wiring.failover.worth import Worth
from tests.unit.wiring.maps import Wired, copies, down, queue, up

PATIENCE_MS = 5_000
REVIVE_WAIT_MS = 4_000


class Leader:
    """Decides on a map, applies what it decided, and lets joining backups finish on request."""

    def __init__(self, wired: Wired) -> None:
        self.wired = wired
        self.memory = FailoverMemory(PATIENCE_MS, REVIVE_WAIT_MS)
        self.now_ms = 1_000_000
        #: What nodes say that they hold, of whatever is asked.
        self.worths: dict[str, Worth] = {}

    def look(
        self,
        suspects: tuple[str, ...] = (),
        unproven: tuple[str, ...] = (),
        unheard: tuple[str, ...] = (),
        gone: tuple[str, ...] = (),
    ) -> list[Operation]:
        operations = decide(
            self.wired.map,
            [NodeId(node) for node in suspects],
            self.now_ms,
            self.memory,
            [NodeId(node) for node in unproven],
            [NodeId(node) for node in unheard],
            [NodeId(node) for node in gone],
        )
        revivals = self.memory.revivals
        questions, revivals.questions = revivals.questions, deque()
        for node, fragment, epoch in questions:
            number = self.wired.map.members[node].incarnation
            worth = self.worths.get(node, Worth())
            self.memory.on_worth(node, number, fragment, epoch, worth)
        return operations

    def act(
        self,
        suspects: tuple[str, ...] = (),
        unproven: tuple[str, ...] = (),
        gone: tuple[str, ...] = (),
    ) -> list[Operation]:
        operations = self.look(suspects, unproven, gone=gone)
        if operations:
            results = self.wired.send(*operations).results
            assert all(isinstance(result, Ok) for result in results), results
        return operations

    def settle(self, suspects: tuple[str, ...] = (), gone: tuple[str, ...] = ()) -> None:
        """Acts and lets copies join until nothing was left to do for a scan's pause."""
        quiet_since_ms = self.now_ms
        for _ in range(500):
            joined = self.join()
            if self.act(suspects, gone=gone) or joined:
                quiet_since_ms = self.now_ms
            elif self.now_ms > quiet_since_ms + REVIVE_WAIT_MS + SCAN_PAUSE_MS:
                return
            self.now_ms += 100
        raise AssertionError("the leader never comes to rest")

    def join(self) -> bool:
        """Every joining backup that is up is in sync now."""
        cluster = self.wired.map
        some = False
        for info in list(cluster.fragments.values()):
            if info.primary not in cluster.hot_copies(info):
                continue
            fresh = [
                node
                for node in info.backups
                if node not in info.in_sync and cluster.members[node].up
            ]
            if fresh:
                some = True
                in_sync: dict[str, int] = {node: info.in_sync[node] for node in info.in_sync}
                in_sync.update((node, cluster.members[node].incarnation) for node in fresh)
                self.wired.ok(copies(info, info.primary, list(info.backups), in_sync))
        return some


def test_a_quiet_cluster_needs_nothing() -> None:
    wired = Wired("a", "b", "c")
    wired.ok(queue("work"))
    assert Leader(wired).look() == []


def test_a_lost_primary_is_replaced_in_one_command() -> None:
    wired = Wired("a", "b")
    wired.ok(queue("work"))
    leader = Leader(wired)
    assert leader.act(("a",)) == [
        down("a"),
        copies(wired.map.fragments[wired.fragment().id], "b", [], {"b": 1}, epoch=1),
    ]
    assert wired.fragment().primary == "b"
    assert leader.act(("a",)) == []


def test_primaries_spread_over_those_who_lead_least() -> None:
    wired = Wired("a", "b", "c")
    for number in range(12):
        wired.ok(queue(f"q{number}", replicas=3))
    Leader(wired).act(("a",))
    leads = [info.primary for info in wired.map.fragments.values()]
    assert (leads.count(NodeId("b")), leads.count(NodeId("c"))) == (6, 6)


def test_a_lost_backup_is_waited_for_and_then_replaced() -> None:
    wired = Wired("a", "b", "c")
    wired.ok(queue("work"))
    (lost,) = wired.fragment().backups
    other = "c" if lost == "b" else "b"
    leader = Leader(wired)
    until_ms = leader.now_ms + PATIENCE_MS
    leader.settle((lost,))
    assert wired.fragment().copies == ("a",)
    leader.now_ms = until_ms - 1
    assert leader.act((lost,)) == []
    leader.now_ms = until_ms
    leader.settle((lost,))
    assert wired.fragment().copies == ("a", other)
    assert wired.fragment().in_sync == {"a": 1, other: 1}


def test_a_backup_that_returns_in_time_is_taken_at_once() -> None:
    wired = Wired("a", "b", "c")
    wired.ok(queue("work"))
    (lost,) = wired.fragment().backups
    leader = Leader(wired)
    leader.settle((lost,))
    wired.ok(up(lost, 2))
    leader.settle()
    assert wired.fragment().in_sync == {"a": 1, lost: 2}


def test_nobody_is_waited_for_when_everybody_is_there() -> None:
    wired = Wired("a")
    wired.ok(queue("work"))
    wired.ok(up("b"))
    leader = Leader(wired)
    leader.settle()
    assert wired.fragment().in_sync == {"a": 1, "b": 1}


def test_a_backup_that_restarted_leaves_the_set_and_joins_again() -> None:
    wired = Wired("a", "b")
    wired.ok(queue("work"))
    wired.ok(up("b", 2))
    join, operation = Leader(wired).act()
    assert join == JoinEra(NodeId("b"), Incarnation(2))
    assert isinstance(operation, SetCopies)
    assert (operation.backups, operation.in_sync) == (("b",), (("a", 1),))


def test_the_last_copy_of_a_durable_queue_is_waited_for_and_restarts_from_disk() -> None:
    wired = Wired("a", "b", "c")
    wired.ok(queue("work"))
    backup = wired.fragment().backups[0]
    leader = Leader(wired)
    leader.settle(("a", backup))
    leader.now_ms += 100 * PATIENCE_MS
    assert leader.act(("a", backup)) == []
    wired.ok(up("a", 2))
    leader.settle((backup,))
    assert wired.fragment().primary == "a"
    assert wired.fragment().in_sync[NodeId("a")] == 2
    assert wired.fragment().reign > 1


def test_a_returned_memory_is_better_than_a_disk() -> None:
    wired = Wired("a", "b")
    wired.ok(queue("work"))
    wired.ok(up("a", 2))
    wired.ok(down("b"))
    wired.ok(up("b"))
    Leader(wired).settle()
    assert wired.fragment().primary == "b"
    assert wired.fragment().reign == 2


def test_after_a_total_stop_a_node_that_did_not_return_is_not_relied_on() -> None:
    # The map still takes b for up. Giving up a's copy for b's would leave the fragment
    # without any copy if b never returns.
    wired = Wired("a", "b", "c", zones={"a": "1", "b": "2", "c": "1"})
    wired.ok(queue("work"))
    assert wired.fragment().backups == ("b",)
    wired.ok(up("a", 2))
    wired.ok(up("c", 2))
    leader = Leader(wired)
    assert leader.act(unproven=("b",)) == []
    assert wired.fragment().in_sync == {"a": 1, "b": 1}
    leader.settle(("b",))
    assert wired.fragment().primary == "a"
    assert wired.fragment().in_sync == {"a": 2}


def test_a_queue_without_durability_gets_a_fragment_that_serves_and_keeps_the_hidden_one() -> None:
    wired = Wired("a", "b", "c")
    wired.ok(queue("work", "b", durable=False, replicas=1))
    leader = Leader(wired)
    leader.settle(("b",))
    assert wired.fragment().primary == "b"
    leader.now_ms += PATIENCE_MS
    (add,) = leader.act(("b",))
    assert isinstance(add, AddFragment)
    assert wired.fragment(2).primary in ("a", "c")
    assert leader.act(("b",)) == []
    # b was behind a partition: what it had in memory is still there.
    assert wired.fragment(1).in_sync == {"b": 1}
    assert list(wired.map.fragments) == [1, 2]


def a_copy_unheard_and_one_restarted() -> tuple[Leader, str]:
    """A queue that is not durable, on b, which has restarted, and on another node, which is named.

    That one has all that was confirmed in its memory, and is not heard.
    """
    wired = Wired("a", "b", "c")
    wired.ok(queue("work", "b", durable=False))
    (unheard,) = wired.fragment().backups
    wired.ok(up("b", 2))
    return Leader(wired), unheard


def test_a_memory_that_may_live_unheard_is_not_given_up_for_an_empty_start() -> None:
    leader, unheard = a_copy_unheard_and_one_restarted()
    leader.settle((unheard,))
    assert leader.wired.fragment(1).in_sync == {"b": 1, unheard: 1}
    leader.now_ms += PATIENCE_MS
    leader.settle((unheard,))
    assert leader.wired.map.hot_copies(leader.wired.fragment(2)), "it serves meanwhile"
    # It was behind a partition.
    leader.wired.ok(up(unheard))
    leader.settle()
    assert leader.wired.fragment(1).primary == unheard
    assert leader.wired.fragment(1).in_sync == {unheard: 1, "b": 2}


def test_a_memory_that_is_known_to_be_gone_is_not_waited_for() -> None:
    leader, unheard = a_copy_unheard_and_one_restarted()
    leader.settle((unheard,), gone=(unheard,))
    assert leader.wired.fragment(1).primary == "b"
    assert list(leader.wired.map.fragments) == [1]
    # Or its next process is here.
    leader, unheard = a_copy_unheard_and_one_restarted()
    leader.settle((unheard,))
    leader.wired.ok(up(unheard, 2))
    leader.settle()
    assert leader.wired.map.hot_copies(leader.wired.fragment(1))


def all_stopped(*names: str) -> Leader:
    """A leader of nodes that came up again: `work` was in sync on a and on its backup."""
    wired = Wired("a", "b", "c")
    wired.ok(queue("work"))
    backup = wired.fragment().backups[0]
    leader = Leader(wired)
    for name in ("a", backup, "b" if backup == "c" else "c"):
        wired.ok(down(name))
    for name in names:
        wired.ok(up(backup if name == "backup" else name, 2))
    leader.worths = {"a": Worth(last=5, live=5), backup: Worth(last=9, live=9)}
    return leader


def test_after_a_stop_of_all_the_copy_that_holds_most_leads() -> None:
    leader = all_stopped("a", "backup")
    backup = leader.wired.fragment().backups[0]
    leader.settle()
    assert leader.wired.fragment().primary == backup
    leader = all_stopped("a", "backup")
    leader.worths = {"a": Worth(last=9, live=9), backup: Worth(last=9, live=5)}
    leader.settle()
    assert leader.wired.fragment().primary == "a"
    leader = all_stopped("a", "backup")
    leader.worths = {"a": Worth(last=9, live=9), backup: Worth(whole=False, last=12, live=12)}
    leader.settle()
    assert leader.wired.fragment().primary == "a", "the other one was not complete yet"


def test_a_copy_in_sync_that_is_not_back_is_waited_for_and_not_for_ever() -> None:
    leader = all_stopped("a")
    backup = leader.wired.fragment().backups[0]
    while leader.now_ms < 1_000_000 + REVIVE_WAIT_MS - 200:
        leader.act()
        assert leader.wired.fragment().reign == 1, "it waits"
        leader.now_ms += 100
    assert leader.memory.revivals.awaited == {backup: 1}
    leader.wired.ok(up(backup, 2))
    leader.settle()
    assert leader.wired.fragment().primary == backup

    leader = all_stopped("a")
    leader.settle()
    assert leader.wired.fragment().primary == "a"
    assert leader.wired.fragment().reign > 1, "it serves"


def test_a_queue_without_durability_begins_again_on_a_node_that_restarted() -> None:
    wired = Wired("a", "b")
    wired.ok(queue("work", "b", durable=False, replicas=1))
    wired.ok(up("b", 2))
    Leader(wired).settle()
    assert wired.fragment().in_sync == {"b": 2}


def test_a_new_era_comes_with_the_repairs_of_what_stays() -> None:
    wired = Wired("a")
    wired.ok(queue("stays"))
    wired.ok(queue("goes", durable=False))
    wired.ok(up("a", 2))
    operations = Leader(wired).act()
    assert operations[0] == NewEra()
    assert [type(operation) for operation in operations] == [NewEra, SetCopies]
    assert wired.fragment().in_sync == {"a": 2}


def test_a_process_that_was_not_heard_lets_nobody_into_the_era() -> None:
    """After a stop of all the leader reads of `b` in its log before it hears b's next process."""
    wired = Wired("a", "b")
    wired.ok(queue("goes", durable=False))
    wired.ok(up("a", 2))
    leader = Leader(wired)
    assert JoinEra(NodeId("a"), Incarnation(2)) not in leader.look(unheard=("b",))
    assert leader.look()[0] == JoinEra(NodeId("a"), Incarnation(2)), "b lives, and knew the era"
    # It was another process.
    assert NewEra() in leader.look(suspects=("b",), unheard=("b",))


def test_idle_nodes_take_over_backups_a_few_at_a_time() -> None:
    wired = Wired("a", "b")
    for number in range(30):
        wired.ok(queue(f"q{number}"))
    wired.ok(up("c"))
    leader = Leader(wired)
    assert leader.act() == [JoinEra(NodeId("c"), Incarnation(1))]
    assert len(leader.act()) == 4
    leader.now_ms += 10_000
    assert leader.act() == [], "no more moves until these are done"
    leader.settle()
    held = [node for info in wired.map.fragments.values() for node in info.backups]
    assert (held.count(NodeId("b")), held.count(NodeId("c"))) == (15, 15)
    assert all(len(info.in_sync) == 2 for info in wired.map.fragments.values())


def test_new_copies_go_where_the_fewest_are_so_that_none_is_moved_after_that() -> None:
    wired = Wired("a", "b", "c")
    for node in "abc":
        wired.ok(Speaks(NodeId(node), Incarnation(1), 5, 14))
    leader = Leader(wired)
    for number in range(60):
        wired.ok(queue(f"q{number}", "ab"[number % 3 == 2], replicas=1 + number % 3))
        assert leader.look() == [], f"a copy of queue {number} is moved"
        leader.now_ms += 10_000
    wired.ok(queue("in parts", fragments=3))
    assert leader.look() == []


def test_balance_does_not_give_up_zones() -> None:
    wired = Wired("a", "b", zones={"a": "x", "b": "y"})
    for number in range(10):
        wired.ok(queue(f"q{number}"))
    wired.ok(up("c", zone="x"))
    leader = Leader(wired)
    assert leader.act() == [JoinEra(NodeId("c"), Incarnation(1))]
    assert leader.look() == []


def test_a_flood_of_repairs_goes_in_several_commands() -> None:
    wired = Wired("a", "b")
    for number in range(450):
        wired.ok(queue(f"q{number}"))
    leader = Leader(wired)
    sizes = []
    while operations := leader.act(("a",)):
        sizes.append(len(operations))
    assert sizes[0] <= 200
    assert sum(sizes) == 451
    assert all(info.primary == "b" for info in wired.map.fragments.values())


def test_a_lost_proposal_is_made_again_but_not_at_every_tick() -> None:
    wired = Wired("a", "b")
    wired.ok(queue("work"))
    leader = Leader(wired)
    first = leader.look(("a",))
    assert isinstance(first[0], MemberDown)
    leader.now_ms += 50
    assert leader.look(("a",)) == []
    leader.now_ms += 500
    assert leader.look(("a",)) == first


class Counted(dict[Any, Any]):
    """A table that counts how often one of its rows is looked up."""

    looks = 0

    def get(self, key: Any, default: Any = None) -> Any:
        self.looks += 1
        return super().get(key, default)


#: So many queues, and units of work for a turn.
QUEUES = 60
WORK = 40


def very_many() -> Leader:
    """Three nodes with many queues, all well."""
    wired = Wired("a", "b", "c")
    for number in range(QUEUES):
        wired.ok(queue(f"q{number}", "abc"[number % 3], replicas=2))
    leader = Leader(wired)
    while leader.act():
        leader.now_ms += SCAN_PAUSE_MS
    return leader


def decide_in_turns(leader: Leader, suspects: list[NodeId]) -> tuple[list[Operation], int]:
    """The leader's decision, in turns of `WORK` each; and how many it takes."""
    work = Work(WORK)
    turns = 0
    while True:
        work.begin_turn()
        turns += 1
        table = leader.wired.map.fragments = Counted(leader.wired.map.fragments)
        operations = decide(leader.wired.map, suspects, leader.now_ms, leader.memory, work=work)
        assert table.looks <= WORK, f"{table.looks} fragments in turn {turns}"
        if operations or not leader.memory.is_looking:
            return operations, turns


def test_a_look_at_all_fragments_takes_as_many_turns_as_it_needs() -> None:
    whole, pieces = very_many(), very_many()
    suspects = [NodeId("c")]
    at_once = decide(whole.wired.map, suspects, whole.now_ms, whole.memory)
    operations, turns = decide_in_turns(pieces, suspects)
    assert operations == at_once
    assert len(operations) > QUEUES // 3
    assert turns >= QUEUES * 4 // WORK


def test_a_look_whose_members_have_changed_begins_again() -> None:
    leader = very_many()
    work = Work(WORK)
    suspects = [NodeId("c")]
    assert decide(leader.wired.map, suspects, leader.now_ms, leader.memory, work=work) == []
    assert leader.memory.is_looking
    leader.wired.ok(down("b"))
    operations, _ = decide_in_turns(leader, suspects)
    assert MemberDown(NodeId("c"), Incarnation(1)) in operations
    led = [each.primary for each in operations if isinstance(each, SetCopies)]
    assert led
    assert set(led) == {NodeId("a")}, "decided for members that are down"


def test_what_changes_behind_a_look_is_found_by_the_next_one() -> None:
    leader = very_many()
    work = Work(WORK)
    leader.now_ms += SCAN_PAUSE_MS
    leader.wired.ok(queue("one more", "a", replicas=2))
    assert decide(leader.wired.map, [], leader.now_ms, leader.memory, work=work) == []
    assert leader.memory.is_looking
    first = leader.wired.fragment(1)
    leader.wired.ok(copies(first, first.primary, [], {first.primary: 1}))
    found, _ = decide_in_turns(leader, [])
    if not found:
        leader.now_ms += SCAN_PAUSE_MS
        found, _ = decide_in_turns(leader, [])
    assert [each.fragment for each in found if isinstance(each, SetCopies)] == [first.id]
