"""What clients of a node hear that is cut off."""

from fedq.amqp.methods import (
    ConnectionBlocked,
    ConnectionClose,
    QueueDeclare,
    QueueDeclareOk,
    encode_method,
)
from fedq.core.ids import NodeId
from fedq.core.peer_messages import Heartbeat
from fedq.node.node import Node
from tests.unit.node.harness import Cluster


def test_who_is_cut_off_tells_its_clients_once_others_must_serve_in_its_place() -> None:
    cluster = Cluster(3)
    client = cluster.client("n1")
    cluster.cut("n1")
    cluster.pass_ms(2_000)
    assert client.has(ConnectionBlocked)
    assert not client.has(ConnectionClose), "an election takes a while"
    cluster.pass_ms(3_000)
    assert client.close_reason[0] == 320, "not only after ten seconds"


def test_a_turn_that_comes_late_fences_nobody_when_it_hears_what_renews_the_lease() -> None:
    cluster = Cluster(3)
    client = cluster.client("n1")
    node = cluster.node("n1")
    began_with: list[bool] = []

    def late(node: Node) -> None:
        began_with.append(node.state.serving)
        node.on_bytes(client.connection, encode_method(1, QueueDeclare("q")))
        node.on_tick()
        for peer in ("n2", "n3"):
            heard = Heartbeat(1, cluster.now_ms, False)
            node.cluster.lease.on_heartbeat(NodeId(peer), heard, cluster.now_ms)

    cluster.now_ms += 5_000
    client.host.inbox.append(late)
    cluster.turn()
    assert began_with == [False]
    assert node.state.serving
    cluster.pass_ms(1_000)
    assert client.has(QueueDeclareOk), "not only when it is given up"
    cluster.pass_ms(10_000)
    assert not client.has(ConnectionBlocked)
    assert not client.has(ConnectionClose)
