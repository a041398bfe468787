"""A new cluster lets clients in once it is complete, and never closes its doors again."""

import pytest

from fedq.amqp.handshake import PROTOCOL_HEADER
from fedq.amqp.methods import ConnectionClose, ConnectionOpenOk, QueueDeclare, QueueDeclareOk
from fedq.core.ids import NodeId
from fedq.node.views.overview import overview
from fedq.node.views.overview_types import Readiness
from fedq.wiring.cluster_map.operations import encode_command
from fedq.wiring.cluster_map.operations_members import AdmitNode, ForgetNode
from tests.unit.node.harness import Client, Cluster, Host


def waits(cluster: Cluster) -> Client:
    """A client that says all it has to."""
    client = cluster.knock("n1")
    client.shake_hands()
    cluster.pass_ms(200)
    return client


def joins(cluster: Cluster, name: str) -> None:
    node = NodeId(name)
    admit = AdmitNode(node, f"{name}:7000", f"disk of {name}")
    cluster.log.append(encode_command(f"admit {name}", [admit]))
    cluster.settle()
    cluster.hosts[node] = Host(node)
    cluster.joined[node] = None
    cluster.start(name)
    cluster.pass_ms(1_000)


def troubles(cluster: Cluster) -> list[str]:
    return list(overview(cluster.node("n1")).node().troubles)


def test_clients_wait_until_the_last_member_has_come_up() -> None:
    cluster = Cluster(1, cluster_size=3)
    client = waits(cluster)
    joins(cluster, "n2")
    assert client.heard() == []
    # A load balancer would send it clients whom it refuses.
    ready = overview(cluster.node("n1")).readiness
    assert ready() is Readiness.CLOSED
    assert "once 3 members have come up" in overview(cluster.node("n1")).node().closed
    assert (
        "once 3 members have come up (cluster_size); 2 have: start the others"
        in troubles(cluster)[0]
    )
    joins(cluster, "n3")
    cluster.wait_for(lambda: client.has(ConnectionOpenOk))
    assert troubles(cluster) == []
    assert overview(cluster.node("n1")).node().closed == ""
    assert ready() is Readiness.READY


def test_who_waits_for_long_hears_why() -> None:
    cluster = Cluster(1, cluster_size=2)
    client = waits(cluster)
    cluster.pass_ms(6_000)
    code, text = client.close_reason
    assert code == 320
    assert "lets clients in once 2 members have come up (cluster_size); 1 has" in text
    # So does who comes then, and the next one after the last member.
    late = waits(cluster)
    cluster.pass_ms(1_000)
    assert late.has(ConnectionClose)
    joins(cluster, "n2")
    cluster.client("n1")


def test_who_was_not_read_before_it_said_what_it_speaks_hears_why_as_well() -> None:
    """Before, whether the first bytes came before reading was held decided about an answer."""
    cluster = Cluster(1, cluster_size=2)
    client = cluster.knock("n1")
    cluster.settle()
    assert not is_read(client)
    cluster.pass_ms(6_000)
    assert is_read(client)
    client.write(PROTOCOL_HEADER[:3])
    cluster.settle()
    assert not is_read(client)
    cluster.pass_ms(100)
    assert is_read(client)
    client.write(PROTOCOL_HEADER[3:])
    cluster.pass_ms(100)
    assert client.close_reason[0] == 320


def is_read(client: Client) -> bool:
    return client.is_read


@pytest.mark.parametrize("is_new", [True, False], ids=["empty", "with a queue"])
def test_doors_that_were_open_do_not_close_again(is_new: bool) -> None:
    cluster = Cluster(3, cluster_size=3)
    cluster.pass_ms(1_000)
    client = cluster.client("n1")
    if not is_new:
        client.ask(QueueDeclare("q", durable=True), QueueDeclareOk)
    cluster.kill("n3")
    cluster.wait_for(lambda: not cluster.node("n1").state.map.members[NodeId("n3")].up)
    cluster.log.append(encode_command("forget", [ForgetNode(NodeId("n3"), 1)]))
    cluster.settle()
    cluster.kill("n1")
    cluster.pass_ms(1_000)
    cluster.start("n1")
    cluster.pass_ms(2_000)
    cluster.client("n1")


def test_a_cluster_in_which_anything_was_declared_is_not_new() -> None:
    cluster = Cluster(1)
    cluster.client("n1").ask(QueueDeclare("q", durable=True), QueueDeclareOk)
    cluster.kill("n1")
    # Its operator has written a number into the file that it never had.
    cluster._settings["cluster_size"] = 5
    cluster.start("n1")
    cluster.pass_ms(1_000)
    cluster.client("n1")
