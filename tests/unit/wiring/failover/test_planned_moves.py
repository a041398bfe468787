"""What the leader does about drained nodes and fragments that are to be led elsewhere."""

from fedq.core.ids import FragmentId, NodeId
from fedq.wiring.cluster_map.operations import SetCopies
from fedq.wiring.cluster_map.operations_moves import DrainNode, MoveFragment, UndrainNode
from fedq.wiring.cluster_map.state import FragmentInfo
from fedq.wiring.failover.repairs import MOVES_IN_FLIGHT_MAX
from tests.unit.wiring.failover.test_failover import Leader
from tests.unit.wiring.maps import Wired, copies, queue, up

A, B, C, D = NodeId("a"), NodeId("b"), NodeId("c"), NodeId("d")


def placed(*nodes: str, queues: int = 1, replicas: int = 2, zones: str = "") -> Wired:
    wired = Wired(*nodes, zones=dict(zip(nodes, zones, strict=False)))
    for number in range(queues):
        wired.ok(queue(f"q{number}", replicas=replicas))
    return wired


def hand_over(wired: Wired) -> bool:
    """Does what primaries do by themselves: whoever is to go hands over to a copy in sync."""
    some = False
    for info in list(wired.map.fragments.values()):
        target = _successor(wired, info)
        if target is not None:
            backups: list[str] = [node for node in info.copies if node != target]
            in_sync: dict[str, int] = {node: info.in_sync[node] for node in info.in_sync}
            wired.ok(copies(info, target, backups, in_sync))
            some = True
    return some


def _successor(wired: Wired, info: FragmentInfo) -> NodeId | None:
    wanted = wired.map.moves.get(info.id)
    if wanted is not None:
        return wanted if wanted in info.in_sync else None
    if info.primary not in wired.map.drained:
        return None
    return next((node for node in info.in_sync if node not in wired.map.drained), None)


def settle(wired: Wired) -> None:
    leader = Leader(wired)
    leader.settle()
    while hand_over(wired):
        leader.settle()


def test_a_drained_node_ends_up_with_nothing() -> None:
    for replicas in (1, 2, 3):
        wired = placed("a", "b", "c", "d", queues=8, replicas=replicas)
        wired.ok(DrainNode(A, False))
        settle(wired)
        for info in wired.map.fragments.values():
            assert A not in info.copies
            assert len(info.in_sync) == replicas


def test_a_copy_that_nobody_else_may_hold_stays_and_does_not_lead() -> None:
    wired = placed("a", "b", "c", queues=3, replicas=3)
    wired.ok(DrainNode(A, False))
    settle(wired)
    for info in wired.map.fragments.values():
        assert info.primary != A
        assert set(info.in_sync) == {A, B, C}


def test_the_only_copy_goes_when_another_one_leads_and_not_before() -> None:
    wired = placed("a", "b", replicas=1)
    wired.ok(DrainNode(A, False))
    leader = Leader(wired)
    leader.settle()
    assert wired.fragment().primary == A
    assert set(wired.fragment().in_sync) == {A, B}, "its primary has to hand over"
    hand_over(wired)
    leader.settle()
    assert wired.fragment().copies == (B,)


def test_few_copies_move_at_a_time() -> None:
    wired = placed("a", "b", "c", queues=20)
    wired.ok(DrainNode(A, False))
    assert Leader(wired).act() == [], "they are led elsewhere first"
    assert hand_over(wired)
    operations = Leader(wired).act()
    assert len(operations) == MOVES_IN_FLIGHT_MAX
    assert all(isinstance(each, SetCopies) and len(each.backups) == 2 for each in operations)


def test_copies_of_a_drained_node_go_to_other_zones_if_they_can() -> None:
    wired = placed("a", "b", "c", "d", queues=12, zones="xxyy")
    wired.ok(DrainNode(A, False))
    settle(wired)
    zones = {node: member.zone for node, member in wired.map.members.items()}
    for info in wired.map.fragments.values():
        assert len({zones[node] for node in info.copies}) == 2


def test_no_lost_copy_is_replaced_on_a_drained_node_nor_does_one_lead_if_another_can() -> None:
    wired = placed("a", "b", "c", queues=4, replicas=3)
    wired.ok(DrainNode(B, False))
    leader = Leader(wired)
    leader.settle(("a",), gone=("a",))
    assert all(info.primary == C for info in wired.map.fragments.values())
    for number in range(4):
        assert set(wired.fragment(number + 1).copies) == {B, C}


def test_backups_do_not_even_out_onto_a_drained_node() -> None:
    wired = placed("a", "b", queues=8)
    wired.ok(up("c"))
    wired.ok(DrainNode(C, False))
    Leader(wired).settle()
    assert all(C not in info.copies for info in wired.map.fragments.values())
    wired.ok(UndrainNode(C))
    Leader(wired).settle()
    assert any(C in info.copies for info in wired.map.fragments.values())


def test_a_move_lets_the_node_join_and_drops_a_copy_when_it_leads() -> None:
    for replicas in (1, 2):
        wired = placed("a", "b", "c", replicas=replicas)
        target = next(n for n in (B, C) if n not in wired.fragment().copies)
        wired.ok(MoveFragment(FragmentId(1), target))
        leader = Leader(wired)
        leader.settle()
        assert target in wired.fragment().in_sync
        assert len(wired.fragment().in_sync) == replicas + 1
        assert hand_over(wired)
        leader.settle()
        assert wired.fragment().primary == target
        assert len(wired.fragment().copies) == len(wired.fragment().in_sync) == replicas


def test_a_move_that_is_given_up_leaves_no_copy_too_many() -> None:
    wired = placed("a", "b", "c", replicas=1)
    wired.ok(MoveFragment(FragmentId(1), C))
    leader = Leader(wired)
    leader.settle()
    wired.ok(MoveFragment(FragmentId(1), NodeId("")))
    leader.settle()
    assert len(wired.fragment().copies) == 1


def test_a_move_whose_node_dies_is_undone_and_one_whose_primary_dies_goes_on() -> None:
    wired = placed("a", "b", "c")
    (backup,) = wired.fragment().backups
    target = next(n for n in (B, C) if n != backup)
    wired.ok(MoveFragment(FragmentId(1), target))
    leader = Leader(wired)
    leader.settle()
    leader.settle((target,))
    assert wired.map.moves == {}
    assert set(wired.fragment().copies) == {A, backup}
    wired.ok(up(target, 2))
    wired.ok(MoveFragment(FragmentId(1), target))
    leader.settle(("a",))
    assert wired.fragment().primary == backup
    assert target in wired.fragment().in_sync
    hand_over(wired)
    assert wired.fragment().primary == target
