"""What the leader leaves as it is while nobody has heard from the node that it is about."""

from fedq.core.ids import Incarnation, NodeId
from fedq.wiring.cluster_map.operations import JoinEra, SetCopies
from tests.unit.wiring.failover.test_failover import Leader
from tests.unit.wiring.maps import Wired, down, queue, up


def test_nothing_changes_while_no_copy_is_heard() -> None:
    """Nobody can copy from it; and a new epoch would void what it said when it stopped in order."""
    wired = Wired("a", "b", "c")
    wired.ok(queue("work"))
    leader = Leader(wired)
    backup = wired.fragment().backups[0]
    wired.ok(down(backup))
    leader.act()
    wired.ok(up(backup, 2))
    before = wired.fragment()
    assert before.copies == ("a",)
    assert not any(isinstance(each, SetCopies) for each in leader.act(unproven=("a",)))
    assert wired.fragment() == before
    leader.act()
    assert wired.fragment().copies == ("a", backup), "that one was lost, so it is taken first"


def test_no_copy_moves_while_its_primary_is_not_heard() -> None:
    wired = Wired("a", "b")
    for number in range(30):
        wired.ok(queue(f"q{number}"))
    wired.ok(up("c"))
    leader = Leader(wired)
    assert leader.act() == [JoinEra(NodeId("c"), Incarnation(1))]
    assert leader.act(unproven=("a",)) == []
    assert len(leader.act()) == 4
