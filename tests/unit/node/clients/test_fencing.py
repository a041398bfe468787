"""What clients of a node hear that is cut off."""

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionClose,
    QueueBind,
    QueueBindOk,
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


def test_what_waited_in_a_node_that_was_out_reaches_what_was_bound_meanwhile() -> None:
    """bind-ok waits for members that live: nobody asks what one knows that counts as down."""
    cluster = Cluster(3)
    publisher, subscriber = cluster.client("n1"), cluster.client("n3")
    publisher.ask(ConfirmSelect(), ConfirmSelectOk)
    cluster.cut("n1")
    subscriber.ask(QueueDeclare("mine", exclusive=True), QueueDeclareOk)
    cluster.wait_for(lambda: not cluster.node("n3").state.map.members[NodeId("n1")].up)
    subscriber.ask(QueueBind("mine", "amq.fanout"), QueueBindOk)
    subscriber.ask(BasicConsume("mine", "tag", no_ack=True), BasicConsumeOk)
    publisher.publish("", "late", exchange="amq.fanout")
    cluster.mute["n3", "n1"] = None
    cluster.mend("n1")
    cluster.wait_for(lambda: cluster.node("n1").state.map.members[NodeId("n1")].up)
    cluster.pass_ms(500)
    assert not publisher.has(BasicAck), "before it knows what n3 wants to hear"
    del cluster.mute["n3", "n1"]
    cluster.wait_for(lambda: publisher.has(BasicAck))
    assert subscriber.deliveries() == ["late"]
