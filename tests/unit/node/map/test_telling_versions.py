"""How far each node has applied the map: of many nodes not all are told at once, and none too late.

Each telling each other one costs a frame for each pair, for each change: with 200 nodes 39,800.
"""

import pytest

from fedq.amqp.methods import QueueDeclare, QueueDeclareOk
from fedq.core.ids import NodeId
from fedq.core.peer_messages import MapApplied
from fedq.node.cluster.proposals import asked
from tests.unit.node.harness import Cluster

MANY, FEW = 18, 3


def told(cluster: Cluster) -> list[tuple[NodeId, NodeId]]:
    """Who has told whom since the last look."""
    found = [(a, b) for a, b, message in cluster.overheard if isinstance(message, MapApplied)]
    cluster.overheard.clear()
    return found


@pytest.fixture(scope="module")
def many() -> Cluster:
    return Cluster(MANY)


def test_who_asked_for_a_change_hears_at_once_and_the_others_with_a_heartbeat(
    many: Cluster,
) -> None:
    client = many.client("n7")
    many.pass_ms(300)
    told(many)
    client.ask(QueueDeclare("q", durable=True), QueueDeclareOk)
    at_once = told(many)
    # The leader chose copies, and waits for nobody, but has asked as well.
    assert {target for _, target in at_once} <= {"n7", "n1"}
    assert {source for source, target in at_once if target == "n7"} == {*many.hosts} - {"n7"}
    many.pass_ms(200)
    assert {*at_once, *told(many)} == {
        (one, other) for one in many.hosts for other in many.hosts if one != other
    }


def test_one_who_did_not_ask_waits_for_a_heartbeat_at_most(many: Cluster) -> None:
    asking, other = many.client("n3"), many.client("n5")
    many.pass_ms(300)
    asking.ask(QueueDeclare("p", durable=True), QueueDeclareOk)
    other.said.clear()
    other.send(QueueDeclare("p", passive=True))
    many.pass_ms(150)
    assert [said.queue for said in other.said if isinstance(said, QueueDeclareOk)] == ["p"]


def test_of_few_nodes_all_hear_at_once() -> None:
    cluster = Cluster(FEW)
    client = cluster.client("n2")
    told(cluster)
    client.ask(QueueDeclare("q", durable=True), QueueDeclareOk)
    assert {*told(cluster)} == {
        (one, other) for one in cluster.hosts for other in cluster.hosts if one != other
    }


def test_requests_of_a_node_whose_name_begins_another_one_count_for_both() -> None:
    assert asked(NodeId("h.2"), ["h.2.17ab.3"])
    assert asked(NodeId("h"), ["h.2.17ab.3"])
    assert not asked(NodeId("h.2"), ["h.17ab.3", "h.22.17ab.3"])
