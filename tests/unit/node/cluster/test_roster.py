"""Who is of the cluster, and who elects, as nodes take it from the map."""

import pytest

from fedq.amqp.methods import QueueDeclare, QueueDeclareOk
from fedq.core.ids import NodeId
from fedq.core.versions import MEMBERSHIP
from fedq.node.requests.queue_refusals import refuse_too_new_change
from fedq.wiring.cluster_map.operations import Operation, encode_command
from fedq.wiring.cluster_map.operations_members import AdmitNode, ForgetNode
from tests.unit.node.harness import Cluster

N1, N2, N3, N4, N5 = (NodeId(f"n{number}") for number in range(1, 6))


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
        cluster.settle()


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


def test_nobody_leaves_before_all_nodes_know_what_that_is() -> None:
    cluster = Cluster(1)
    cluster.pass_ms(1_000)
    known = cluster.node("n1").state.map
    assert refuse_too_new_change(ForgetNode(N1, 1), known) is None
    known.cluster_version = MEMBERSHIP - 1
    refused = refuse_too_new_change(ForgetNode(N1, 1), known)
    assert refused is not None
    assert "nodes that join and leave" in refused.text
