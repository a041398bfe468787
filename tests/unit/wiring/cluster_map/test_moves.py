"""Drained nodes and planned moves in the map: what is wished, refused, fulfilled and given up."""

from fedq.core.errors import NOT_FOUND, PRECONDITION_FAILED
from fedq.core.ids import FragmentId, NodeId
from fedq.wiring.cluster_map.operations import (
    AddFragment,
    DeleteQueue,
    RetireFragment,
    SetCopies,
)
from fedq.wiring.cluster_map.operations_moves import (
    DrainChanged,
    DrainNode,
    MoveChanged,
    MoveFragment,
    UndrainNode,
)
from tests.unit.wiring.maps import Wired, down, queue, up

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
ONE = FragmentId(1)


def wired(replicas: int = 2) -> Wired:
    cluster = Wired("a", "b", "c")
    cluster.ok(queue("orders", "a", replicas=replicas))
    return cluster


def lead(cluster: Wired, node: NodeId) -> SetCopies:
    """Has a copy that is in sync lead."""
    info = cluster.fragment()
    backups = tuple(each for each in info.copies if each != node)
    return SetCopies(ONE, info.epoch, node, backups, tuple(info.in_sync.items()), False)


def join(cluster: Wired, node: NodeId) -> None:
    """Lets a copy begin, and get in sync."""
    for in_sync in ((), ((node, 1),)):
        info = cluster.fragment()
        copies = (*info.in_sync.items(), *in_sync)
        backups = tuple(dict.fromkeys((*info.backups, node)))
        cluster.ok(SetCopies(ONE, info.epoch, info.primary, backups, copies, False))


def test_a_drained_node_is_drained_until_it_is_not() -> None:
    cluster = wired()
    assert cluster.ok(DrainNode(A, False)) == 1
    assert cluster.last.changes == [DrainChanged(A)]
    assert cluster.map.drained == {A: False}
    assert cluster.ok(DrainNode(A, False)) == 0
    assert cluster.ok(DrainNode(A, True)) == 1
    cluster.send(down("a"), up("a", 2))
    assert cluster.map.drained == {A: True}, "a restart changes nothing"
    assert cluster.ok(UndrainNode(A)) == 1
    assert cluster.map.drained == {}
    assert cluster.ok(UndrainNode(A)) == 0


def test_who_decides_looks_again_when_a_node_is_drained_or_a_move_begins() -> None:
    cluster = wired()
    cluster.ok(DrainNode(A, False))
    assert cluster.map.members_version == cluster.map.version
    cluster.ok(MoveFragment(ONE, C))
    assert cluster.map.fragments_version == cluster.map.version


def test_unknown_nodes_are_neither_drained_nor_undrained() -> None:
    cluster = wired()
    for operation in (DrainNode(NodeId("x"), False), UndrainNode(NodeId("x"))):
        code, text = cluster.refused(operation)
        assert code == NOT_FOUND
        assert text == "no member 'x'; there are a, b, c"


def test_the_last_node_that_can_hold_something_is_not_drained() -> None:
    cluster = wired()
    cluster.ok(DrainNode(A, False))
    cluster.ok(down("b"))
    code, text = cluster.refused(DrainNode(C, False))
    assert code == PRECONDITION_FAILED
    assert "no other node is up and not drained" in text
    assert cluster.ok(DrainNode(B, False)) == 1, "one that is down: c is left"
    assert cluster.ok(DrainNode(A, True)) == 1, "it is drained already"


def test_nothing_new_is_placed_on_a_drained_node() -> None:
    cluster = wired()
    cluster.ok(DrainNode(A, False))
    cluster.ok(queue("bills", "a", fragments=3, replicas=3))
    placed = [cluster.fragment(number) for number in cluster.map.fragments if number != ONE]
    assert len(placed) == 2, "as many as there are nodes"
    assert all(A not in info.copies for info in placed)
    cluster.ok(AddFragment("/", "orders", A))
    added = cluster.fragment(max(cluster.map.fragments))
    assert added.primary != A
    assert A not in added.backups


def test_if_all_that_are_up_are_drained_queues_are_declared_all_the_same() -> None:
    cluster = wired()
    cluster.ok(DrainNode(A, False))
    cluster.send(down("b"), down("c"))
    cluster.ok(queue("bills", "a"))
    assert cluster.fragment(2).primary == A


def test_a_move_is_done_when_the_node_leads() -> None:
    cluster = wired()
    target = cluster.fragment().backups[0]
    assert cluster.ok(MoveFragment(ONE, target)) == 1
    assert cluster.last.changes == [MoveChanged(ONE)]
    assert cluster.map.moves == {ONE: target}
    assert cluster.ok(MoveFragment(ONE, target)) == 0
    cluster.ok(lead(cluster, target))
    assert MoveChanged(ONE) in cluster.last.changes
    assert cluster.map.moves == {}
    assert cluster.ok(MoveFragment(ONE, target)) == 0, "it leads already"


def test_a_move_goes_on_with_another_primary() -> None:
    cluster = wired()
    (backup,) = cluster.fragment().backups
    target = next(node for node in (B, C) if node != backup)
    cluster.ok(MoveFragment(ONE, target))
    join(cluster, target)
    cluster.ok(lead(cluster, backup))
    assert cluster.map.moves == {ONE: target}


def test_moves_that_cannot_be_are_refused() -> None:
    cluster = wired()
    cluster.ok(DrainNode(B, False))
    cluster.ok(down("c"))
    for operation, said in (
        (MoveFragment(FragmentId(9), A), "no fragment 9"),
        (MoveFragment(ONE, NodeId("x")), "no member 'x'"),
        (MoveFragment(ONE, B), "node 'b' is drained: undrain it"),
        (MoveFragment(ONE, C), "node 'c' is down: start it"),
    ):
        assert said in cluster.refused(operation)[1]


def test_a_move_is_given_up_when_its_node_goes_or_is_drained_or_at_a_word() -> None:
    for operation in (down("c"), up("c", 2), DrainNode(C, False), MoveFragment(ONE, NodeId(""))):
        cluster = wired(replicas=1)
        cluster.ok(MoveFragment(ONE, C))
        cluster.ok(operation)
        assert cluster.map.moves == {}
        assert MoveChanged(ONE) in cluster.last.changes


def test_a_move_goes_with_its_fragment() -> None:
    cluster = wired(replicas=1)
    cluster.ok(AddFragment("/", "orders", B))
    cluster.ok(MoveFragment(ONE, C))
    cluster.ok(MoveFragment(FragmentId(2), C))
    cluster.ok(RetireFragment(ONE, cluster.fragment().epoch))
    assert cluster.map.moves == {FragmentId(2): C}
    cluster.ok(DeleteQueue("/", "orders"))
    assert cluster.map.moves == {}


def test_what_is_wished_is_in_the_snapshot_and_weighs_something() -> None:
    cluster = wired(replicas=1)
    before = cluster.map.bytes_held
    cluster.ok(MoveFragment(ONE, C))
    cluster.ok(DrainNode(B, True))
    assert cluster.map.bytes_held > before
    other = Wired()
    other.map.restore(cluster.map.snapshot())
    assert (other.map.moves, other.map.drained) == ({ONE: C}, {B: True})
    assert other.map.bytes_held == cluster.map.bytes_held
    cluster.ok(UndrainNode(B))
    cluster.ok(MoveFragment(ONE, NodeId("")))
    assert cluster.map.bytes_held == before
