"""The roster: nodes are let in, made voters and forgotten, and the map says what goes with them."""

from dataclasses import replace

import pytest

from fedq.core.ids import Incarnation, NodeId
from fedq.core.limits import FORGOTTEN_MAX, NODES_MAX, VOTERS_MAX
from fedq.core.versions import DIRECTORIES, MEMBERSHIP, NEWEST, VOTERS_REPLACED
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations import ClaimName, MemberUp
from fedq.wiring.cluster_map.operations_members import (
    AdmitNode,
    ForgetNode,
    NameVoters,
    PromoteNode,
    ReplaceVoter,
    Speaks,
)
from fedq.wiring.cluster_map.state import MemberChanged, Place, RosterChanged
from tests.unit.wiring.maps import Wired, copies, down, queue
from tests.unit.wiring.maps import up as process_up


def names(nodes: str) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, nodes))


def admit(node: str, directory: str = "", address: str = "") -> AdmitNode:
    return AdmitNode(NodeId(node), address or f"{node}:1", directory or f"disk of {node}")


def up(node: str, incarnation: int = 1, directory: str = "") -> MemberUp:
    """A process on the data directory that was let in."""
    return replace(process_up(node, incarnation), directory=directory or f"disk of {node}")


def forget(node: str, incarnation: int = 1) -> ForgetNode:
    return ForgetNode(NodeId(node), incarnation)


def grown(voters: str, observers: str = "") -> Wired:
    """A cluster whose first nodes vote, and the others joined, all up, by the log, too."""
    wired = Wired(*voters)
    for node in voters:
        wired.ok(Speaks(NodeId(node), Incarnation(1), 5, NEWEST))
    wired.ok(NameVoters(tuple((NodeId(node), f"{node}:1") for node in voters)))
    for node in observers:
        wired.ok(admit(node))
        wired.ok(up(node))
        wired.ok(Speaks(NodeId(node), Incarnation(1), 5, NEWEST))
    wired.map.take_voters(wired.map.wanted_voters or ())
    return wired


def test_it_begins_with_the_voters_by_the_configurations_once_all_know_of_it() -> None:
    wired = Wired("a", "b")
    naming = NameVoters(((NodeId("a"), "a:1"), (NodeId("b"), "b:1")))
    assert not wired.map.wanted_voters
    assert "update all of its nodes" in wired.refused(naming)[1]
    assert f"from version {MEMBERSHIP} on" in wired.refused(admit("c"))[1]
    for node in "ab":
        wired.ok(Speaks(NodeId(node), Incarnation(1), 5, NEWEST))
    assert wired.ok(naming) == 1
    assert wired.map.wanted_voters == names("ab")
    assert wired.last.changes == [RosterChanged("roster", NodeId(node)) for node in "ab"]
    # Whoever says it again, and whatever: the first one counts.
    assert wired.ok(NameVoters(((NodeId("x"), "x:1"),))) == 0


def test_who_joins_votes_as_long_as_there_is_room_and_observes_then() -> None:
    wired = grown("a")
    for node in "bcdefg":
        assert wired.ok(admit(node)) == 1
    # Who has not come up yet does not count for anything.
    assert wired.map.wanted_voters == names("a")
    for node in "bcdefg":
        wired.ok(up(node))
    assert wired.map.wanted_voters == names("abcde")
    assert [node for node, place in wired.map.roster.items() if not place.votes] == ["f", "g"]
    assert wired.map.roster[NodeId("f")] == Place("f:1", "disk of f", False)
    # A join that was cut goes on.
    assert wired.ok(admit("f")) == 0
    assert wired.ok(admit("f", address="f:9")) == 1
    assert wired.map.roster[NodeId("f")].peer_address == "f:9"


def test_a_name_and_an_address_are_one_node_s() -> None:
    wired = grown("a", "b")
    text = wired.refused(admit("b", "another disk"))[1]
    assert "a name of its own" in text
    assert "`fedq cluster forget b`" in text
    assert "there is a node 'a'" in wired.refused(admit("a"))[1]
    assert "the address of node 'b'" in wired.refused(admit("c", address="b:1"))[1]
    for number in range(NODES_MAX - 2):
        wired.ok(admit(f"n{number}"))
    assert f"at most {NODES_MAX} nodes" in wired.refused(admit("c"))[1]


def test_nobody_comes_up_who_was_not_let_in() -> None:
    wired = grown("ab")
    assert "under `join`" in wired.refused(up("c"))[1]
    wired.ok(admit("c"))
    assert wired.ok(up("c")) == 1


def test_a_node_that_moves_is_looked_for_where_it_is() -> None:
    wired = grown("ab")
    moved = up("b", 2)
    assert wired.map.roster[NodeId("b")].peer_address == moved.peer_address
    wired.ok(AdmitNode(NodeId("c"), "elsewhere:1", "disk of c"))
    wired.ok(up("c"))
    assert wired.map.roster[NodeId("c")].peer_address == "c:1"
    assert MemberChanged(NodeId("c")) in wired.last.changes


def test_what_nobody_can_dial_is_no_address_of_a_node() -> None:
    wired, early = grown("ab"), Wired("a")
    early.ok(Speaks(NodeId("a"), Incarnation(1), 5, NEWEST))
    for wrong in ("garbage", "a..b:5672", f"{'x' * 64}:1"):
        assert "is no address" in wired.refused(admit("c", address=wrong))[1]
        assert "is no address" in early.refused(NameVoters(((NodeId("a"), wrong),)))[1]
        # Who is of the cluster and says so of itself stays where it was.
        wired.ok(replace(up("b", 2), peer_address=wrong))
        assert wired.map.roster[NodeId("b")].peer_address == up("b").peer_address


def test_who_lives_or_is_the_last_or_unknown_is_not_forgotten() -> None:
    wired = grown("ab", "c")
    assert "stop it first" in wired.refused(forget("c"))[1]
    assert "no node 'x'" in wired.refused(forget("x"))[1]
    wired.ok(down("c"))
    assert "started meanwhile (process 1)" in wired.refused(forget("c", 2))[1]
    alone = grown("a")
    alone.ok(down("a"))
    assert "the only voter" in alone.refused(forget("a"))[1]


def test_with_a_node_goes_what_it_held() -> None:
    wired = grown("abc")
    wired.ok(queue("jobs", "b", replicas=2))
    wired.ok(ClaimName("/", "mine", NodeId("c"), Incarnation(1)))
    wired.ok(copies(wired.fragment(), "b", ["c"], {"b": 1, "c": 1}))
    wired.ok(down("b"))
    assert wired.ok(forget("b")) == 1
    info = wired.fragment()
    assert (info.primary, info.backups, [*info.in_sync]) == ("c", (), ["c"])
    assert info.reign == info.epoch
    assert NodeId("b") not in wired.map.members
    assert NodeId("b") not in wired.map.speaks
    assert wired.map.forgotten == {NodeId("b"): 1}
    assert wired.map.wanted_voters == names("ac")
    # Once more is nothing.
    assert wired.ok(forget("b")) == 0


def test_a_node_that_has_the_only_copy_is_not_forgotten() -> None:
    wired = grown("abc")
    wired.ok(queue("jobs", "b", replicas=1))
    wired.ok(down("b"))
    text = wired.refused(forget("b"))[1]
    assert "only copy in sync of 1 fragments" in text
    assert "queue 'jobs'" in text
    assert "`fedq queue adopt`" in text


def test_a_copy_that_was_not_in_sync_goes_too() -> None:
    wired = grown("abc")
    wired.ok(queue("jobs", "a", replicas=2))
    wired.ok(copies(wired.fragment(), "a", ["b"], {"a": 1}))
    wired.ok(down("b"))
    wired.ok(forget("b"))
    assert wired.fragment().copies == ("a",)
    assert wired.fragment().reign == 1


def test_an_observer_takes_the_place_of_a_voter_that_is_forgotten() -> None:
    wired = grown("abcde", "fg")
    wired.ok(down("f"))
    wired.ok(down("b"))
    wired.ok(forget("b"))
    # The first one that is up.
    assert wired.map.wanted_voters == names("acdeg")
    wired.ok(up("f", 2))
    assert f"there are {VOTERS_MAX} voters" in wired.refused(PromoteNode(NodeId("f")))[1]
    assert wired.ok(PromoteNode(NodeId("g"))) == 0
    assert "no node 'x'" in wired.refused(PromoteNode(NodeId("x")))[1]
    wired.ok(down("c"))
    wired.ok(down("f", 2))
    wired.ok(forget("c"))
    assert wired.map.wanted_voters == names("adeg")
    assert "start it first" in wired.refused(PromoteNode(NodeId("f")))[1]
    wired.ok(up("f", 3))
    # Nobody of its host votes, and there is room.
    assert wired.map.wanted_voters == names("adefg")
    assert wired.ok(PromoteNode(NodeId("f"))) == 0
    assert wired.map.wanted_voters == names("adefg")


def replacing(gone: str, by: str, incarnation: int = 1, by_incarnation: int = 1) -> ReplaceVoter:
    return ReplaceVoter(NodeId(gone), incarnation, NodeId(by), by_incarnation)


def test_an_observer_votes_in_the_place_of_a_voter_that_is_down_and_observes_then() -> None:
    wired = grown("abcde", "f")
    wired.ok(down("b"))
    assert wired.ok(replacing("b", "f")) == 1
    assert wired.last.changes == [RosterChanged("roster", NodeId(node)) for node in "bf"]
    assert wired.map.wanted_voters == names("acdef")
    # It comes back on its own directory, and observes.
    wired.ok(up("b", 2))
    assert not wired.map.roster[NodeId("b")].votes
    assert "no voter" in wired.refused(replacing("b", "f", 2))[1]


def test_a_voter_is_replaced_once_the_log_has_done_what_was_wanted_before() -> None:
    wired = grown("abcde", "fgh")
    for node in "bc":
        wired.ok(down(node))
    wired.ok(replacing("b", "f"))
    assert "under way" in wired.refused(replacing("c", "g"))[1]
    wired.map.take_voters(names("acde"))
    assert "under way" in wired.refused(replacing("c", "g"))[1]
    # Who was to vote, and is lost before the log counts it, is replaced at once.
    wired.ok(down("f"))
    assert wired.ok(replacing("f", "h")) == 1
    wired.map.take_voters(names("acdeh"))
    assert wired.ok(replacing("c", "g")) == 1
    assert wired.map.wanted_voters == names("adegh")


def test_the_log_need_not_have_named_anybody_before_a_voter_is_replaced() -> None:
    wired = grown("abcde", "fg")
    wired.map.take_voters(())
    for node in "bc":
        wired.ok(down(node))
    assert wired.ok(replacing("b", "f")) == 1
    assert "under way" in wired.refused(replacing("c", "g"))[1]


def test_what_would_not_be_safer_replaces_no_voter() -> None:
    wired = grown("abcde", "fg")
    assert "has come back" in wired.refused(replacing("b", "f"))[1]
    wired.ok(down("b"))
    assert "has come back" in wired.refused(replacing("b", "f", incarnation=2))[1]
    assert "a voter already" in wired.refused(replacing("b", "a"))[1]
    assert "no node 'x'" in wired.refused(replacing("b", "x"))[1]
    assert "not up as it was" in wired.refused(replacing("b", "f", by_incarnation=2))[1]
    wired.ok(down("f"))
    assert "not up as it was" in wired.refused(replacing("b", "f"))[1]
    for node in "cd":
        wired.ok(down(node))
    # With it three of five would be up; and with two only, nobody is to decide anything.
    wired.ok(down("e"))
    assert "a majority of those who would vote" in wired.refused(replacing("b", "g"))[1]
    wired.ok(up("e", 2))
    assert wired.ok(replacing("b", "g")) == 1


def test_nobody_is_replaced_before_all_nodes_know_what_that_is() -> None:
    wired = grown("abcde", "f")
    wired.ok(down("b"))
    wired.map.cluster_version = VOTERS_REPLACED - 1
    assert f"from version {VOTERS_REPLACED} on" in wired.refused(replacing("b", "f"))[1]


def test_who_was_forgotten_comes_back_as_a_new_node_alone() -> None:
    wired = grown("abc")
    wired.ok(down("b"))
    wired.ok(forget("b"))
    text = wired.refused(up("b", 2))[1]
    assert "taken out of this cluster" in text
    assert "empty data directory" in text
    # As long as the log counts it, another one of its name would vote twice.
    assert "still counts as a voter" in wired.refused(admit("b", "new disk"))[1]
    changes = wired.map.take_voters(names("ac")).changes
    assert changes == [RosterChanged("roster", NodeId(node)) for node in "ac"]
    assert wired.ok(admit("b", "new disk")) == 1
    assert wired.map.forgotten == {}
    assert wired.ok(up("b", 2, "new disk")) == 1
    assert wired.map.wanted_voters == names("abc")


def test_who_was_let_in_comes_up_on_the_directory_that_was_let_in_alone() -> None:
    wired = grown("ab", "c")
    first = up("c", 2)
    for wrong in ("", "an older disk"):
        text = wired.refused(replace(first, directory=wrong))[1]
        assert "node 'c' of this cluster has another data directory" in text
    assert wired.ok(replace(first, directory="disk of c")) == 1
    # Those with which the cluster began say which one they have, and nobody knew it before.
    assert wired.ok(replace(up("a", 2), directory="a disk")) == 1
    wired.ok(down("c", 2))
    wired.ok(forget("c", 2))
    wired.map.take_voters(names("ab"))
    wired.ok(admit("c", "new disk"))
    assert "another data directory" in wired.refused(replace(up("c", 9), directory="disk of c"))[1]
    assert wired.ok(replace(up("c", 3), directory="new disk")) == 1


def test_before_all_nodes_say_which_directory_they_have_nobody_is_held_to_it() -> None:
    wired = grown("ab", "c")
    wired.map.cluster_version = DIRECTORIES - 1
    assert wired.ok(process_up("c", 2)) == 1


def test_the_version_of_the_cluster_waits_no_longer_for_who_is_gone() -> None:
    wired = grown("ab", "c")
    for node in "ab":
        wired.ok(Speaks(NodeId(node), Incarnation(1), 5, NEWEST + 1))
    assert wired.map.cluster_version == NEWEST
    wired.ok(down("c"))
    wired.ok(forget("c"))
    assert wired.map.cluster_version == NEWEST + 1


def test_the_forgotten_are_bounded() -> None:
    wired = grown("a")
    for number in range(FORGOTTEN_MAX + 3):
        wired.ok(admit(f"n{number}"))
        wired.ok(forget(f"n{number}", 0))
    assert len(wired.map.forgotten) == FORGOTTEN_MAX
    assert next(iter(wired.map.forgotten)) == "n3"


@pytest.mark.parametrize("nodes", ["", "bc"])
def test_it_is_in_the_snapshot(nodes: str) -> None:
    wired = grown("a", nodes)
    if nodes:
        wired.ok(down("b"))
        wired.ok(forget("b"))
    again = ClusterMap()
    again.restore(wired.map.snapshot())
    for table in ("roster", "voters", "forgotten"):
        assert getattr(again, table) == getattr(wired.map, table)
    assert again.wanted_voters == wired.map.wanted_voters
    assert again.snapshot() == wired.map.snapshot()
    assert again.bytes_held == wired.map.bytes_held


def test_voters_of_the_log_change_the_digest_and_the_version() -> None:
    one, other = grown("ab"), grown("ab")
    assert (one.map.version, one.map.digest) == (other.map.version, other.map.digest)
    one.map.take_voters(names("a"))
    other.map.take_voters(names("b"))
    assert one.map.version == other.map.version
    assert one.map.voters == names("a")
    if one.map.digest:
        assert one.map.digest != other.map.digest
