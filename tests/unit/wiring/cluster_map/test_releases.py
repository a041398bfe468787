"""The version that a cluster speaks rises with the last member that can, and never falls."""

from dataclasses import replace

from fedq.core.ids import Incarnation, NodeId
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations_members import Speaks
from fedq.wiring.cluster_map.state import MemberSpeaks
from tests.unit.wiring.maps import Wired, up


def says(node: str, oldest: int, newest: int, incarnation: int = 1) -> Speaks:
    return Speaks(NodeId(node), Incarnation(incarnation), oldest, newest)


def test_a_cluster_is_updated_node_by_node() -> None:
    wired = Wired("a", "b", "c")
    assert wired.map.cluster_version == 0
    for node in "abc":
        wired.ok(says(node, 5, 5))
    assert wired.map.cluster_version == 5
    for incarnation, node in enumerate("abc", 2):
        assert wired.map.cluster_version == 5, "not everybody can yet"
        wired.ok(up(node, incarnation))
        wired.ok(says(node, 5, 7, incarnation))
    assert wired.map.cluster_version == 7
    code, text = wired.refused(says("a", 5, 6, 2))
    assert code == 406
    assert "a speaks versions 5 to 6" in text
    assert "the cluster version 7" in text
    assert "the cluster version 7" in wired.refused(says("b", 8, 9, 3))[1]


def test_who_is_new_comes_with_what_it_speaks() -> None:
    wired = Wired("a", "b")
    wired.ok(says("a", 5, 6))
    assert wired.map.cluster_version == 0, "b has not said anything"
    wired.ok(says("b", 4, 5))
    assert wired.map.cluster_version == 5
    wired.ok(up("c"))
    wired.ok(says("c", 5, 9))
    assert wired.map.cluster_version == 5


def test_who_speaks_has_not_come_anew() -> None:
    wired = Wired("a")
    wired.ok(says("a", 5, 6))
    assert wired.last.changes == [MemberSpeaks(NodeId("a"))]


def test_only_the_newest_process_speaks_for_its_node() -> None:
    wired = Wired("a")
    wired.ok(up("a", 2))
    assert "not the newest" in wired.refused(says("a", 5, 5, 1))[1]
    assert "not the newest" in wired.refused(says("b", 5, 5))[1]
    assert "no version at all" in wired.refused(says("a", 6, 5, 2))[1]


def test_it_is_in_the_snapshot() -> None:
    wired = Wired("a")
    wired.ok(says("a", 5, 6))
    other = ClusterMap()
    other.restore(wired.map.snapshot())
    assert (other.cluster_version, other.speaks) == (6, {"a": (5, 6)})
    assert other.snapshot() == wired.map.snapshot()


def test_the_cluster_has_a_name_of_its_own_once_all_know_of_such_and_keeps_it() -> None:
    wired = Wired()
    for number, node in enumerate("ab", 1):
        wired.ok(replace(up(node), start=f"{number:016x}"))
        wired.ok(says(node, 5, 11))
    assert wired.map.cluster_name == ""
    assert b"cluster_name" not in wired.map.snapshot(), "earlier releases would not know it"
    wired.ok(says("a", 5, 12))
    assert wired.map.cluster_name == ""
    wired.ok(says("b", 5, 12))
    assert wired.map.cluster_name == f"{2:016x}"
    wired.ok(says("a", 5, 13))
    wired.ok(says("b", 5, 13))
    assert wired.map.cluster_version == 13
    assert wired.map.cluster_name == f"{2:016x}"
    other = ClusterMap()
    other.restore(wired.map.snapshot())
    assert other.cluster_name == f"{2:016x}"
