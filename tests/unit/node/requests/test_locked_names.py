"""A name that a process holds of which nobody knows whether it lives: a client waits, not fails."""

from fedq.amqp.methods import ChannelClose, QueueDeclare, QueueDeclareOk
from fedq.core.ids import Incarnation, NodeId
from tests.unit.node.harness import Cluster

QUEUE = QueueDeclare("mine", exclusive=True)


def test_a_holder_that_lives_is_believed_after_a_moment() -> None:
    cluster = Cluster(3)
    cluster.client("n2").ask(QUEUE, QueueDeclareOk)
    client = cluster.client("n1")
    client.send(QUEUE)
    cluster.pass_ms(1_000)
    assert client.take(ChannelClose).reply_code == 405


def test_a_holder_whose_node_answers_as_another_process_is_waited_for() -> None:
    """It was killed and is back before the map knows: its queue is gone, and the name soon free."""
    cluster = Cluster(3)
    holder = cluster.client("n2")
    holder.ask(QUEUE, QueueDeclareOk)
    state = cluster.node("n1").state
    client = cluster.client("n1")
    process = cluster.node("n2").state.settings.incarnation
    state.peers[NodeId("n2")].answering = Incarnation(process + 1)
    client.send(QUEUE)
    cluster.pass_ms(1_500)
    assert not client.has(ChannelClose)
    holder.hang_up()
    cluster.wait_for(lambda: client.has(QueueDeclareOk))


def test_while_the_map_has_no_leader_nobody_knows() -> None:
    cluster = Cluster(3)
    holder = cluster.client("n2")
    holder.ask(QUEUE, QueueDeclareOk)
    client = cluster.client("n1")
    cluster.node("n1").state.leader = None
    client.send(QUEUE)
    cluster.pass_ms(1_500)
    assert not client.has(ChannelClose)
    holder.hang_up()
    cluster.wait_for(lambda: client.has(QueueDeclareOk))
