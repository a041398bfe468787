"""A stop with neither a message nor a fragment in hand: what was at hand is gone with the process.

Nobody sets it aside; the node comes back, and does not meet it again.
"""

import pytest

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.core import peer_messages as peer
from fedq.core.ids import NodeId
from fedq.node.peers.peer_inbox import PeerInbox
from fedq.node.private.private_flow import PrivateFlow
from fedq.node.records.private_queue import PrivateQueue
from tests.unit.node.harness import Cluster
from tests.unit.node.injection import Injected
from tests.unit.node.uncompiled import only_uncompiled

pytestmark = only_uncompiled

#: What the nodes say to each other while clients of all of them publish, get and consume. (Not
#: `Tally`: what it says has no number, so it is said again as it was.)
KINDS = (
    peer.PublishBatch, peer.PublishDone, peer.Watch, peer.Credit, peer.Deliver, peer.Settle,
    peer.Get, peer.Got, peer.Replicate, peer.ReplicaAck, peer.MapApplied, peer.Interest,
    peer.InterestDone, peer.Relay, peer.RelayDone, peer.Call, peer.Reply,
)  # fmt: skip


def _live(cluster: Cluster) -> None:
    """Clients of each node do one thing after the other."""
    for name in cluster.hosts:
        client = cluster.client(name)
        client.ask(QueueDeclare(f"of {name}", durable=True), QueueDeclareOk)
        private = client.ask(QueueDeclare(exclusive=True), QueueDeclareOk).queue
        client.ask(QueueBind(private, "amq.topic", "all"), QueueBindOk)
        client.ask(BasicConsume(private, no_ack=True), BasicConsumeOk)
        client.ask(ConfirmSelect(), ConfirmSelectOk)
        cluster.pass_ms(100)
    for name in cluster.hosts:
        client = cluster.client(name)
        client.ask(ConfirmSelect(), ConfirmSelectOk)
        for other in cluster.hosts:
            client.publish(f"of {other}", "one", "two")
            client.publish("all", "three", exchange="amq.topic")
            client.send(BasicGet(f"of {other}"))
            client.ask(BasicConsume(f"of {other}", no_ack=True), BasicConsumeOk)
            cluster.pass_ms(100)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_message_of_a_peer_that_stopped_a_node_does_not_come_again(
    kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its session ended with the process: what the sender kept of it is void, and not sent."""
    fatal: list[object] = []
    hear = PeerInbox._hear

    def fail(self: PeerInbox, sender: NodeId, messages: list[peer.PeerMessage]) -> None:
        found = [message for message in messages if isinstance(message, kind)]
        if self.state.me == "n2" and found:
            if not fatal:
                fatal.append(found[0])
            if fatal[0] in found:
                raise Injected(kind.__name__)
        hear(self, sender, messages)

    cluster = Cluster(3)
    cluster.tolerates_faults = True
    with monkeypatch.context() as patch:
        patch.setattr(PeerInbox, "_hear", fail)
        with pytest.raises(Injected):
            _live(cluster)
        assert cluster.turning == "n2"
        cluster.kill("n2")
        cluster.pass_ms(3_000)
        cluster.start("n2")
        # The bug is there as before.
        cluster.pass_ms(10_000)
    client = cluster.client("n2")
    client.ask(QueueDeclare("after"), QueueDeclareOk)
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    client.publish("after", "all")
    cluster.wait_for(lambda: client.has(BasicAck))
    assert client.ask(BasicGet("after", no_ack=True), BasicGetOk)


def test_a_private_queue_that_stopped_a_node_is_gone_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    delete = PrivateFlow.delete

    def fail(self: PrivateFlow, private: PrivateQueue) -> None:
        if private.policy.expires_ms is not None:
            raise Injected("a queue that expires")
        delete(self, private)

    monkeypatch.setattr(PrivateFlow, "delete", fail)
    cluster = Cluster(3)
    client = cluster.client("n1")
    client.ask(QueueDeclare(exclusive=True, arguments={"x-expires": 300}), QueueDeclareOk)
    with pytest.raises(Injected):
        cluster.pass_ms(1_000)
    cluster.kill("n1")
    cluster.pass_ms(3_000)
    cluster.start("n1")
    cluster.pass_ms(10_000)
    assert cluster.client("n1").ask(QueueDeclare("after"), QueueDeclareOk)
