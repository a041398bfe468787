"""No second log beside one that is: who was emptied or put back founds nothing."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from fedq.core.ids import NodeId
from fedq.shell.raft.electorate import Memory
from tests.contract.raft.steps import TIMING, Group, Violation, group, want


def empty_two_of_three(servers: Group, is_told: bool, leads: bool = True) -> None:
    """Of five voters, two lose everything: a majority of those that their files name."""
    leader = servers.elect("n3")
    servers.propose(leader, want(1, ["n1", "n2", "n3", "n4", "n5"]))
    servers.settle()
    for name in ("n1", "n2"):
        servers.kill(name)
        servers.lose_disk(name, whole=True)
    with patch.object(servers, "memory_of", lambda _: Memory()):
        servers.start(NodeId("n1"))
        servers.start(NodeId("n2"))
    servers.split("n1 n2", "n3 n4 n5")
    for name in ("n1", "n2"):
        if is_told:
            servers[name].voter.found_nothing()
    if not leads:
        servers["n1"].turn()
        servers["n2"].turn()
        servers.deliver_all()
        return
    for name in ("n1", "n2", "n1"):
        servers.campaign(name)
        servers.deliver_all()


def test_who_was_emptied_founds_nothing_beside_a_cluster_that_is(tmp_path: Path) -> None:
    voters = "n1 n2 n3"
    with group(tmp_path, n1=voters, n2=voters, n3=voters, n4="", n5="") as servers:
        empty_two_of_three(servers, is_told=True)
        assert not servers["n1"].leads
        assert not servers["n2"].leads
        servers.heal()
        servers.elect("n3")
        servers.settle()
        assert not servers["n1"].voter.is_learner
        assert servers["n1"].voter.voters.names == ("n1", "n2", "n3", "n4", "n5")


def test_who_hears_of_a_cluster_before_it_has_founded_one_learns(tmp_path: Path) -> None:
    voters = "n1 n2 n3"
    with group(tmp_path, n1=voters, n2=voters, n3=voters, n4="", n5="") as servers:
        empty_two_of_three(servers, is_told=False, leads=False)
        # They vote by now, and their log is as empty as it was.
        assert not servers["n1"].voter.is_learner
        # One is called, and tells the other.
        servers["n1"].voter.found_nothing()
        servers["n1"].turn()
        servers.deliver_all()
        assert servers["n2"].voter.is_learner
        for name in ("n1", "n2", "n1"):
            servers.campaign(name)
            servers.deliver_all()
            assert servers[name].voter.leader is None
        servers.heal()
        servers.elect("n3")
        servers.settle()
        assert not servers["n1"].voter.is_learner


def test_a_leader_that_hears_of_a_cluster_before_anything_was_said_leads_no_more(
    tmp_path: Path,
) -> None:
    voters = "n1 n2 n3"
    with group(tmp_path, n1=voters, n2=voters, n3=voters) as servers:
        for name in voters.split():
            servers.kill(name)
            servers.lose_disk(name, whole=True)
        with patch.object(servers, "memory_of", lambda _: Memory()):
            for name in voters.split():
                servers.start(NodeId(name))
        servers.deliver_all()
        leader = servers.elect("n1")
        leader.voter.found_nothing()
        assert not leader.leads
        # Nobody has heard anything more of it: they found one after all.
        servers.now_s += TIMING.hearsay_ms / 1_000
        servers.elect("n2")
        servers.settle()
        servers.propose(servers["n2"], b"the first")
        servers.settle()
        assert servers.machines[NodeId("n1")].commands == [b"the first"]


@pytest.mark.parametrize("whole", [True, False], ids=["its disk is new", "it has a log"])
def test_who_is_alone_listens_before_it_leads(tmp_path: Path, whole: bool) -> None:
    with group(tmp_path, n1="n1") as servers:
        servers.timing = replace(TIMING, listen_ms=2_000)
        servers.propose(servers.elect("n1"), b"of n1 alone")
        servers.kill("n1")
        if whole:
            servers.lose_disk("n1", whole=True)
            # With nobody left who has it, another log begins.
            servers.committed.clear()
            servers.leaders.clear()
        with patch.object(servers, "memory_of", lambda _: Memory()):
            servers.start(NodeId("n1"))
        alone = servers["n1"]
        alone.turn()
        assert not alone.leads
        # Whom its map names is known to it meanwhile.
        commands = servers.machines[alone.name].commands
        assert commands == ([] if whole else [b"of n1 alone"])
        servers.now_s += 1.9
        alone.voter.found_nothing()
        assert [leads_after(servers, 1.2) for _ in range(4)] == [False] * 4
        assert leads_after(servers, 0.3)
        servers.propose(alone, b"goes on")
        alone.voter.found_nothing()
        assert leads_after(servers, 0.1)


def leads_after(servers: Group, seconds: float) -> bool:
    servers.now_s += seconds
    servers["n1"].turn()
    return servers["n1"].leads


def test_who_was_emptied_and_is_told_nothing_founds_another_cluster(tmp_path: Path) -> None:
    voters = "n1 n2 n3"
    with (
        group(tmp_path, n1=voters, n2=voters, n3=voters, n4="", n5="") as servers,
        pytest.raises(Violation, match="two leaders"),
    ):
        empty_two_of_three(servers, is_told=False)
