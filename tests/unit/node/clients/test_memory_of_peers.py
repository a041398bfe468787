"""What other nodes send, against the bound on what a node holds."""

from fedq.amqp.methods import ConnectionBlocked, QueueDeclare, QueueDeclareOk
from fedq.core.ids import NodeId
from fedq.core.limits import KIB, MIB
from tests.unit.amqp.wire import publish
from tests.unit.node.clients.test_memory import held, is_read
from tests.unit.node.harness import Cluster


def test_what_other_nodes_publish_here_sets_the_alarm_at_once_and_they_hear_it() -> None:
    # None of it leaves memory for the disk.
    cluster = Cluster(2, memory_bytes_max=2 * MIB, stow_bytes_min=2 * MIB)
    client, other = cluster.client("n1"), cluster.client("n2")
    client.ask(QueueDeclare("q", arguments={"x-fedq-replicas": 1}), QueueDeclareOk)
    state = cluster.node("n1").state
    for _ in range(100):
        if not state.memory_full:
            other.write(publish(1, "", "q", bytes(100 * KIB)))
            cluster.settle()
    assert state.memory_full
    # What is on its way from another node has room below the bound.
    assert held(cluster) < 1.95 * MIB
    assert cluster.node("n2").state.peers[NodeId("n1")].alarm is not None
    cluster.pass_ms(100)
    other.publish("q", "one more")
    assert "n1" in other.take(ConnectionBlocked).reason
    assert not is_read(other)
