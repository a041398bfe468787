"""Who is of the cluster, and who elects, as nodes take it from the map."""

from dataclasses import replace
from typing import ClassVar

import pytest

from fedq.amqp.methods import QueueDeclare, QueueDeclareOk
from fedq.core.ids import Incarnation, MapVersion, NodeId
from fedq.core.versions import JOINING, MEMBERSHIP
from fedq.node.requests.queue_refusals import refuse_too_new_change
from fedq.node.views.overview import overview
from fedq.node.views.overview_types import MemberRole
from fedq.wiring.cluster_map.operations import Operation, encode_command
from fedq.wiring.cluster_map.operations_members import AdmitNode, ForgetNode
from fedq.wiring.cluster_map.operations_moves import DrainNode, UndrainNode
from tests.unit.node.harness import Cluster, Host

N1, N2, N3, N4, N5, N6 = (NodeId(f"n{number}") for number in range(1, 7))


def decide(cluster: Cluster, *operations: Operation) -> None:
    """Commits them, as if an operator had asked for it."""
    cluster.log.append(encode_command(f"by hand {len(cluster.log)}", operations))
    cluster.settle()


def elect(cluster: Cluster, *voters: NodeId) -> None:
    """The log names these voters."""
    for host in cluster.hosts.values():
        host.inbox.append(lambda node: node.on_new_set(voters))
        host.inbox.append(lambda node: node.on_voters(voters))
    cluster.pass_ms(500)


def serves(cluster: Cluster, name: str = "n1") -> bool:
    return cluster.node(name).state.serving


def forgotten(cluster: Cluster, name: NodeId) -> None:
    """The node is gone, declared down, and taken out."""
    cluster.kill(name)
    cluster.wait_for(lambda: not cluster.node("n1").state.map.members[name].up)
    decide(cluster, ForgetNode(name, 1))


def joins(cluster: Cluster, name: str) -> None:
    """A new node is let in, and starts once it has heard of the others."""
    node = NodeId(name)
    decide(cluster, AdmitNode(node, f"{name}:7000", f"disk of {name}"))
    cluster.hosts[node] = Host(node)
    cluster.joined[node] = None
    cluster.start(name)


def test_the_roster_begins_with_the_configured_voters() -> None:
    cluster = Cluster(3)
    cluster.pass_ms(1_000)
    for name in (N1, N2, N3):
        state = cluster.node(name).state
        assert {node: place.peer_address for node, place in state.map.roster.items()} == {
            N1: "n1:7000", N2: "n2:7000", N3: "n3:7000",
        }  # fmt: skip
        assert cluster.node(name).wanted_voters == (N1, N2, N3)
        # The log has not named anybody: the configurations count.
        assert sorted(state.voters) == [N1, N2, N3]


def test_a_cluster_that_shrank_needs_a_majority_of_who_is_left() -> None:
    cluster = Cluster(5)
    cluster.pass_ms(1_000)
    for name in (N5, N4):
        forgotten(cluster, name)
        del cluster.hosts[name]
    elect(cluster, N1, N2, N3)
    assert cluster.node("n1").state.voters == (N1, N2, N3)
    cluster.kill("n3")
    cluster.pass_ms(5_000)
    # Two of three; of five that would be none.
    assert cluster.node("n1").state.serving
    assert cluster.node("n2").state.serving
    cluster.client().ask(QueueDeclare("q"), QueueDeclareOk)


def test_a_node_that_was_taken_out_ends_and_says_why() -> None:
    cluster = Cluster(3)
    cluster.pass_ms(1_000)
    forgotten(cluster, N3)
    # The harness stops at a node that must end.
    cluster.start("n3")
    with pytest.raises(AssertionError, match=r"was taken out of this cluster.*empty data dir"):
        cluster.pass_ms(1_000)


def test_a_new_node_of_a_forgotten_name_is_not_ended_by_the_log_that_tells_of_it() -> None:
    cluster = Cluster(3)
    cluster.pass_ms(1_000)
    forgotten(cluster, N3)
    cluster.hosts[N3].segments, cluster.hosts[N3].life = {}, 50
    decide(cluster, AdmitNode(N3, "n3:7000", "another disk"))
    cluster.directories[N3] = "another disk"
    cluster.start("n3")
    cluster.pass_ms(1_000)
    assert cluster.node("n3").state.serving
    assert cluster.node("n1").state.map.is_up(N3, Incarnation(51))


def test_who_was_forgotten_does_not_take_the_place_of_its_successor() -> None:
    cluster = Cluster(3)
    cluster.pass_ms(1_000)
    forgotten(cluster, N3)
    decide(cluster, AdmitNode(N3, "n3:7000", "another disk"))
    # The old machine comes back, before its successor has come up.
    cluster.start("n3")
    with pytest.raises(AssertionError, match=r"another data directory.*taken out of it"):
        cluster.pass_ms(2_000)
    cluster.hosts[N3].node = None
    assert N3 not in cluster.node("n1").state.map.members


def test_nor_does_it_while_its_successor_is_stopped() -> None:
    cluster = Cluster(3)
    cluster.pass_ms(1_000)
    forgotten(cluster, N3)
    decide(cluster, AdmitNode(N3, "n3:7000", "another disk"))
    cluster.directories[N3] = "another disk"
    cluster.start("n3")
    cluster.wait_for(lambda: cluster.node("n3").state.serving)
    cluster.kill("n3")
    cluster.wait_for(lambda: not cluster.node("n1").state.map.members[N3].up)
    # Its number is higher than that of its successor, which it knows nothing of.
    del cluster.directories[N3]
    cluster.hosts[N3].life = 70
    cluster.start("n3")
    with pytest.raises(AssertionError, match="another data directory"):
        cluster.pass_ms(2_000)
    assert cluster.node("n1").state.map.members[N3].incarnation < 70


def test_who_joins_gets_links_and_a_session_from_the_roster() -> None:
    cluster = Cluster(1)
    cluster.pass_ms(1_000)
    joins(cluster, "n2")
    cluster.wait_for(lambda: cluster.node("n2").state.serving)
    one, two = cluster.node("n1"), cluster.node("n2")
    assert two.state.settings.voters == ()
    assert two.state.peers.keys() == {N1}
    assert one.wanted_voters == (N1, N2)
    assert overview(one).members()[1].role is MemberRole.JOINING
    # Its log counts it from now on: this node goes on serving with no pause.
    for name in (N1, N2):
        cluster.hosts[name].inbox.append(lambda node: node.on_new_set((N1, N2)))
        cluster.hosts[name].inbox.append(lambda node: node.on_voters((N1, N2)))
    cluster.settle()
    assert serves(cluster)
    assert overview(one).members()[1].role is MemberRole.VOTER
    client = cluster.client("n2")
    client.ask(QueueDeclare("q"), QueueDeclareOk)
    cluster.client("n1").ask(QueueDeclare("q", passive=True), QueueDeclareOk)


def test_nobody_pauses_while_a_node_joins_or_for_one_that_says_nothing() -> None:
    class Watched(Cluster):
        serving: ClassVar[dict[NodeId, None]] = {}
        pauses: ClassVar[list[NodeId]] = []

        def _turn(self, host: Host) -> bool:
            had = super()._turn(host)
            if host.node is not None and host.node.state.serving:
                self.serving[host.name] = None
            elif host.name in self.serving:
                self.pauses.append(host.name)
            return had

    cluster = Watched(2)
    cluster.pass_ms(1_000)
    for name, is_mute in (("n3", False), ("n4", True)):
        if is_mute:
            cluster.mute |= {(name, old): None for old in cluster.hosts}
        joins(cluster, name)
        cluster.pass_ms(1_000)
        assert cluster.node("n1").state.map.is_up(NodeId(name), Incarnation(1))
    assert [*cluster.serving] == [N1, N2, N3]
    assert not cluster.pauses


def test_a_new_voter_waits_until_the_leader_could_count_it() -> None:
    cluster = Cluster(1)
    cluster.pass_ms(1_000)
    joins(cluster, "n2")
    cluster.mute["n2", "n1"] = None
    cluster.pass_ms(1_000)
    assert cluster.node("n1").wanted_voters == (N1,)
    del cluster.mute["n2", "n1"]
    cluster.wait_for(lambda: cluster.node("n1").wanted_voters == (N1, N2))


def test_beyond_five_those_who_join_observe() -> None:
    cluster = Cluster(5)
    cluster.pass_ms(1_000)
    joins(cluster, "n6")
    cluster.wait_for(lambda: cluster.node("n6").state.serving)
    shown = overview(cluster.node("n6")).members()
    assert [each.role for each in shown] == [MemberRole.VOTER] * 5 + [MemberRole.OBSERVER]
    assert NodeId("n6") not in (cluster.node("n1").wanted_voters or ())


def test_a_node_alone_is_so_until_another_one_votes() -> None:
    cluster = Cluster(1)
    cluster.pass_ms(1_000)
    node = cluster.node("n1")
    decide(cluster, AdmitNode(N2, "n2:7000", "its disk"))
    # It has to come up first.
    assert node.wanted_voters == (N1,)
    # Its log has another set, which is not committed: from now on two elect.
    cluster.hosts[N1].inbox.append(lambda node: node.on_new_set((N1, N2)))
    cluster.settle()
    assert not node.cluster.lease.holds(cluster.now_ms, N1)
    assert not serves(cluster)
    cluster.hosts[N1].inbox.append(lambda node: node.on_new_set(()))
    cluster.settle()
    assert node.state.voters == (N1,)
    assert serves(cluster)


def test_who_learns_counts_those_whom_its_directory_or_the_map_has() -> None:
    cluster = Cluster(1)
    cluster.pass_ms(1_000)
    # Its log is not let to say with whom it would elect: the map says so.
    cluster.hosts[N1].inbox.append(lambda node: node.on_voters((N1, N2)))
    cluster.settle()
    assert not serves(cluster)
    # Nor has it a log at all: its directory says so.
    lost = Cluster(1, N1, N2)
    lost.pass_ms(1_000)
    assert not serves(lost)


def test_nobody_leaves_before_all_nodes_know_what_that_is() -> None:
    cluster = Cluster(1)
    cluster.pass_ms(1_000)
    known = cluster.node("n1").state.map
    assert refuse_too_new_change(ForgetNode(N1, 1), known) is None
    known.cluster_version = MEMBERSHIP - 1
    refused = refuse_too_new_change(ForgetNode(N1, 1), known)
    assert refused is not None
    assert "commands that forget nodes" in refused.text
    known.cluster_version = JOINING - 1
    assert refuse_too_new_change(ForgetNode(N1, 1), known) is None
    refused = refuse_too_new_change(AdmitNode(N2, "n2:7000", "its disk"), known)
    assert refused is not None
    assert "nodes that join" in refused.text


def replacing_after(cluster_ms: int) -> Cluster:
    """Five voters and an observer; whoever is away for so long is replaced."""
    cluster = Cluster(5, replace_voter_ms=cluster_ms)
    cluster.pass_ms(1_000)
    joins(cluster, "n6")
    cluster.wait_for(lambda: cluster.node("n6").state.serving)
    return cluster


def test_a_voter_that_stays_away_is_replaced_by_an_observer_and_observes_when_it_returns() -> None:
    cluster = replacing_after(20_000)
    cluster.kill("n5")
    cluster.pass_ms(19_000)
    assert cluster.node("n1").wanted_voters == (N1, N2, N3, N4, N5)
    cluster.wait_for(lambda: cluster.node("n1").wanted_voters == (N1, N2, N3, N4, N6), 10_000)
    assert any("n6 votes in its place" in line for line in cluster.hosts[N1].story)
    cluster.start("n5")
    cluster.wait_for(lambda: cluster.node("n5").state.serving)
    elect(cluster, N1, N2, N3, N4, N6)
    shown = {each.node: each.role for each in overview(cluster.node("n5")).members()}
    assert shown[N5] is MemberRole.OBSERVER
    assert shown[N6] is MemberRole.VOTER
    cluster.pass_ms(30_000)
    assert cluster.node("n1").wanted_voters == (N1, N2, N3, N4, N6)


def test_a_voter_that_comes_back_in_time_goes_on_voting() -> None:
    cluster = replacing_after(10_000)
    for _ in range(3):
        cluster.kill("n5")
        cluster.pass_ms(8_000)
        cluster.start("n5")
        cluster.wait_for(lambda: cluster.node("n5").state.serving)
        cluster.pass_ms(4_000)
    assert cluster.node("n1").wanted_voters == (N1, N2, N3, N4, N5)


def test_a_voter_is_not_replaced_by_an_observer_that_is_drained_or_silent() -> None:
    cluster = replacing_after(5_000)
    decide(cluster, DrainNode(N6, False))
    cluster.kill("n5")
    cluster.pass_ms(15_000)
    assert cluster.node("n1").wanted_voters == (N1, N2, N3, N4, N5)
    cluster.mute["n6", "n1"] = None
    cluster.pass_ms(1_000)
    decide(cluster, UndrainNode(N6))
    # It was not heard lately, and soon it counts as down.
    cluster.pass_ms(15_000)
    assert cluster.node("n1").wanted_voters == (N1, N2, N3, N4, N5)
    del cluster.mute["n6", "n1"]
    cluster.wait_for(lambda: cluster.node("n1").wanted_voters == (N1, N2, N3, N4, N6), 10_000)


def test_a_voter_is_not_replaced_by_an_observer_that_is_behind_with_the_log() -> None:
    cluster = replacing_after(5_000)
    cluster.kill("n5")
    cluster.pass_ms(3_000)
    assert not cluster.node("n1").state.map.is_up(N5, Incarnation(1))
    # As if its word on what it has applied were still under way.
    cluster.node("n1").state.peers[N6].applied = MapVersion(0)
    cluster.pass_ms(15_000)
    assert cluster.node("n1").wanted_voters == (N1, N2, N3, N4, N5)
    cluster.client().ask(QueueDeclare("q"), QueueDeclareOk)
    cluster.wait_for(lambda: cluster.node("n1").wanted_voters == (N1, N2, N3, N4, N6), 10_000)


def test_who_replaces_a_voter_is_of_a_host_where_nobody_votes() -> None:
    cluster = replacing_after(5_000)
    joins(cluster, "n7")
    cluster.wait_for(lambda: cluster.node("n7").state.serving)
    # As if n6 were a second node on the host of a voter.
    for host in cluster.hosts.values():
        assert host.node is not None
        roster = host.node.state.map.roster
        roster[N6] = replace(roster[N6], peer_address="n1:7001")
    cluster.kill("n5")
    cluster.wait_for(lambda: "n5" not in (cluster.node("n1").wanted_voters or ()), 20_000)
    assert cluster.node("n1").wanted_voters == (N1, N2, N3, N4, NodeId("n7"))


def test_with_a_patience_of_zero_nobody_is_replaced() -> None:
    cluster = replacing_after(0)
    cluster.kill("n5")
    cluster.pass_ms(60_000)
    assert cluster.node("n1").wanted_voters == (N1, N2, N3, N4, N5)


def test_who_joins_reads_of_nodes_that_were_before_the_roster_and_are_gone() -> None:
    cluster = Cluster(3)
    cluster.pass_ms(1_000)
    cluster.client("n3").ask(QueueDeclare("q"), QueueDeclareOk)
    cluster.pass_ms(1_000)
    forgotten(cluster, N3)
    del cluster.hosts[N3]
    joins(cluster, "n4")
    cluster.wait_for(lambda: cluster.node("n4").state.serving)
    assert cluster.node("n4").state.map.members.keys() == {N1, N2, N4}
    # What it says to a primary of then goes nowhere; there has to be somebody to say it to.
    assert N3 in cluster.node("n4").state.peers
