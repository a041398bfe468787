"""An older copy that an operator names is served, by its node, and to all others."""

from typing import Any

from fedq.amqp.methods import (
    BasicAck,
    BasicGet,
    BasicGetOk,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
from fedq.core.errors import Refused
from fedq.core.ids import NodeId
from fedq.node.node import Node
from fedq.node.views.overview import overview
from fedq.wiring.cluster_map.operations_copies import AdoptCopy
from fedq.wiring.cluster_map.state import FragmentInfo
from tests.unit.node.harness import Client, Cluster
from tests.unit.node.requests.test_unserved import told

PASSIVE = QueueDeclare("orders", passive=True)


def alive(cluster: Cluster) -> Node:
    """The first node that runs."""
    return next(host.node for host in cluster.hosts.values() if host.node is not None)


def only(cluster: Cluster) -> FragmentInfo:
    return next(iter(alive(cluster).state.map.fragments.values()))


def publish(cluster: Cluster, client: Client, *bodies: str) -> None:
    client.publish("orders", *bodies)
    cluster.wait_for(lambda: client.has(BasicAck))
    while client.has(BasicAck):
        client.take(BasicAck)


def orphaned(cluster: Cluster) -> tuple[str, str]:
    """Copies on two nodes; one misses the last messages; the other one is gone. Their names."""
    maker = cluster.client("n2")
    maker.ask(ConfirmSelect(), ConfirmSelectOk)
    maker.ask(QueueDeclare("orders", durable=True), QueueDeclareOk)
    publish(cluster, maker, "a", "b", "c")
    info = only(cluster)
    home, (old,) = info.primary, info.backups
    cluster.kill(old)
    cluster.wait_for(lambda: list(only(cluster).in_sync) == [home])
    publish(cluster, maker, "d", "e")
    cluster.kill(home)
    cluster.start(old)
    cluster.wait_for(lambda: not alive(cluster).state.map.members[NodeId(home)].up)
    cluster.wait_for(lambda: cluster.node(old).state.joined)
    return home, old


def asked(cluster: Cluster, operation: AdoptCopy) -> object:
    """What the node answers."""
    answers: list[object] = []

    def ask(node: Node) -> None:
        node.on_change_asked(operation, answers.append)

    cluster.hosts[alive(cluster).state.me].inbox.append(ask)
    cluster.wait_for(lambda: bool(answers))
    return answers[0]


def adopt(cluster: Cluster, node: str) -> object:
    info, member = only(cluster), alive(cluster).state.map.members[NodeId(node)]
    return asked(cluster, AdoptCopy(info.id, info.epoch, NodeId(node), member.incarnation))


SETTINGS: Any = {"replace_backup_ms": 600_000}


def test_a_copy_that_the_map_does_without_is_kept_while_the_others_are_away() -> None:
    """Before, it was forgotten after half a minute: nothing was left that could be named."""
    cluster = Cluster(5, replace_backup_ms=1_000)
    maker = cluster.client("n2")
    maker.ask(ConfirmSelect(), ConfirmSelectOk)
    maker.ask(QueueDeclare("orders", durable=True), QueueDeclareOk)
    publish(cluster, maker, "a", "b", "c")
    home, (old,) = only(cluster).primary, only(cluster).backups
    cluster.kill(old)
    cluster.wait_for(lambda: len(only(cluster).in_sync) == 2 and old not in only(cluster).copies)
    away = list(only(cluster).in_sync)
    for name in away:
        cluster.kill(name)
    cluster.start(old)
    cluster.wait_for(lambda: cluster.node(old).state.joined)
    cluster.pass_ms(60_000)
    (kept,) = overview(cluster.node(old)).copies(only(cluster).queue)
    assert kept.messages == 3
    cluster.start(home)
    cluster.wait_for(lambda: not overview(cluster.node(old)).copies(only(cluster).queue), 90_000)


def test_what_the_copy_has_is_served_and_the_rest_is_gone_even_when_its_home_returns() -> None:
    cluster = Cluster(5, **SETTINGS)
    home, old = orphaned(cluster)
    near = next(name for name in cluster.hosts if name not in (home, old))
    client = cluster.client(near)
    client.send(PASSIVE)
    cluster.wait_for(lambda: client.has(ChannelClose))
    (kept,) = overview(cluster.node(old)).copies(only(cluster).queue)
    assert kept.messages == 3
    assert kept.last < only(cluster).epoch << 40
    assert not isinstance(adopt(cluster, old), Refused)
    client = cluster.client(near)
    assert client.ask(PASSIVE, QueueDeclareOk).message_count == 3
    got = client.ask(BasicGet("orders", no_ack=True), BasicGetOk)
    assert got.redelivered
    cluster.start(home)
    cluster.wait_for(lambda: len(only(cluster).in_sync) == 2, 60_000)
    assert only(cluster).primary == old
    assert client.ask(PASSIVE, QueueDeclareOk).message_count == 2
    assert told(cluster, near, f"primary {old} (was {home})")


def test_a_node_without_a_copy_begins_with_nothing_and_the_queue_can_be_deleted() -> None:
    cluster = Cluster(5, **SETTINGS)
    home, old = orphaned(cluster)
    other = next(name for name in cluster.hosts if name not in (home, old))
    assert not isinstance(adopt(cluster, other), Refused)
    client = cluster.client(old)
    assert client.ask(PASSIVE, QueueDeclareOk).message_count == 0
    client.ask(QueueDelete("orders", if_empty=True), QueueDeleteOk)


def test_it_is_not_proposed_before_all_nodes_know_what_it_is() -> None:
    cluster = Cluster(3)
    cluster.client("n2").ask(QueueDeclare("orders", durable=True), QueueDeclareOk)
    state = cluster.node("n1").state
    state.map.cluster_version = 10
    info, before = only(cluster), len(cluster.log)
    refused = asked(cluster, AdoptCopy(info.id, info.epoch, NodeId("n1"), state.origin.incarnation))
    assert isinstance(refused, Refused)
    assert "before every node of the cluster runs a release that has them" in refused.text
    assert not any(b"adopt_copy" in command for command in cluster.log[before:])
