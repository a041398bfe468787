"""Nodes that die, are cut off, or come late: what the clients of the others notice, and its own."""

import pytest

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionOpenOk,
    ConnectionUnblocked,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
    encode_method,
)
from fedq.core.ids import NodeId
from fedq.node.node import Node
from fedq.wiring.cluster_map.operations import JoinEra, MemberDown, MemberUp, decode_command
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import Client, Cluster, Host

CUT_OFF = "this node is cut off from the cluster's majority; it confirms and delivers nothing"


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(3)


class Scene:
    """The queue `orders` with its primary, its backup and a third node; a client on the last two.

    Node n1 leads the log and is the third node here, so that killing the primary elects nobody.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        declarer = cluster.client("n2")
        declarer.ask(QueueDeclare("orders", durable=True), QueueDeclareOk)
        self.primary = cluster.primary_of("orders")
        (info,) = cluster.node("n1").state.map.fragments.values()
        (self.backup,) = info.backups
        (self.third,) = [name for name in cluster.hosts if name not in (self.primary, self.backup)]
        self.near = cluster.client(self.backup, channels=2)
        self.far = cluster.client(self.third, channels=2)

    def consume(self, client: Client, limit: int = 0) -> None:
        client.ask(BasicQos(0, limit), BasicQosOk)
        client.ask(BasicConsume("orders", "c"), BasicConsumeOk)
        self.cluster.pass_ms(100)

    def fail_over(self) -> None:
        self.cluster.kill(self.primary)
        self.cluster.wait_for(lambda: self.cluster.primary_of("orders") != self.primary)
        self.cluster.pass_ms(300)


@pytest.fixture
def scene(cluster: Cluster) -> Scene:
    return Scene(cluster)


# --- failover ------------------------------------------------------------------------------------


def test_confirmed_messages_survive_their_primary(scene: Scene) -> None:
    scene.far.ask(ConfirmSelect(), ConfirmSelectOk)
    scene.far.publish("orders", "a", persistent=False)
    scene.far.publish("orders", "b")
    assert scene.far.heard() == [BasicAck(1, False), BasicAck(2, False)]
    scene.fail_over()
    scene.consume(scene.near)
    assert scene.near.deliveries() == ["again: a", "again: b"]


def test_what_was_not_confirmed_is_sent_again_and_taken_once(scene: Scene) -> None:
    """The publisher's node numbers its publishes; its clients need not send anything twice."""
    cluster = scene.cluster
    scene.far.ask(ConfirmSelect(), ConfirmSelectOk)
    cluster.disk_waits(scene.primary, True)
    scene.far.publish("orders", "a")
    cluster.pass_ms(200)
    # The backup has it, on its disk, and the primary never said so.
    assert scene.far.heard() == []
    scene.fail_over()
    cluster.pass_ms(300)
    assert scene.far.heard() == [BasicAck(1, False)]
    got = scene.near.ask(BasicGet("orders"), BasicGetOk)
    assert (got.redelivered, got.message_count) == (True, 0)


def test_deliveries_stay_with_their_consumers_through_a_failover(scene: Scene) -> None:
    scene.consume(scene.far, 2)
    scene.far.publish("orders", *"abcd")
    scene.cluster.pass_ms(100)
    assert scene.far.deliveries() == ["a", "b"]
    scene.fail_over()
    assert scene.far.deliveries() == [], "what a consumer holds is not delivered again"
    scene.far.send(BasicAck(1), BasicNack(2, requeue=True))
    scene.cluster.pass_ms(200)
    assert scene.far.deliveries() == ["again: b", "again: c"]
    scene.far.send(BasicAck(0, True))
    scene.cluster.pass_ms(200)
    assert scene.far.deliveries() == ["again: d"]


def test_deliveries_of_a_consumer_that_dies_after_a_failover_come_once(scene: Scene) -> None:
    scene.consume(scene.far)
    scene.near.publish("orders", *"abc")
    scene.cluster.pass_ms(100)
    scene.fail_over()
    scene.far.hang_up()
    scene.consume(scene.near)
    assert scene.near.deliveries() == ["again: a", "again: b", "again: c"]
    scene.near.send(BasicAck(3, True))
    scene.cluster.pass_ms(100)
    passive = QueueDeclare("orders", passive=True)
    assert scene.near.ask(passive, QueueDeclareOk).message_count == 0


def test_what_a_leaving_channel_holds_comes_back_once_and_to_one(scene: Scene) -> None:
    """Its client is gone, but its commit waits for an answer when the primary dies."""
    cluster = scene.cluster
    scene.near.publish("orders", "a", "b")
    scene.far.ask(TxSelect(), TxSelectOk)
    scene.consume(scene.far)
    assert scene.far.deliveries() == ["a", "b"]
    other = cluster.client(scene.third)
    cluster.disk_waits(scene.backup, True)
    cluster.kill(scene.primary)
    scene.far.publish("orders", "c")
    scene.far.send(TxCommit())
    scene.far.hang_up()
    cluster.wait_for(lambda: cluster.primary_of("orders") != scene.primary)
    scene.consume(other)
    cluster.pass_ms(300)
    seen = other.deliveries()
    cluster.disk_waits(scene.backup, False)
    cluster.pass_ms(300)
    seen += other.deliveries()
    assert sorted(seen) == ["again: a", "again: b", "again: c"]
    other.send(BasicAck(3, True))
    cluster.pass_ms(300)
    passive = QueueDeclare("orders", passive=True)
    assert scene.near.ask(passive, QueueDeclareOk).message_count == 0


def test_what_an_open_transaction_settles_is_with_its_client_still_after_a_failover(
    scene: Scene,
) -> None:
    cluster = scene.cluster
    scene.near.publish("orders", "a", "b")
    scene.far.ask(TxSelect(), TxSelectOk)
    scene.consume(scene.far)
    assert scene.far.deliveries() == ["a", "b"]
    scene.far.send(BasicAck(1, False))
    scene.fail_over()
    scene.consume(scene.near)
    assert scene.near.deliveries() == scene.far.deliveries() == [], "they are with one client"
    scene.far.ask(TxRollback(), TxRollbackOk)
    scene.far.send(BasicAck(1, False))
    scene.far.ask(TxCommit(), TxCommitOk)
    scene.far.hang_up()
    cluster.pass_ms(300)
    assert scene.near.deliveries() == ["again: b"]


def test_what_a_lost_transaction_gave_back_is_delivered_anew_once() -> None:
    """Its primary, the only one, had delivered it again, and went down before all that was safe."""
    cluster = Cluster(3)
    declare = QueueDeclare("orders", durable=True, arguments={"x-fedq-replicas": 1})
    cluster.client("n2").ask(declare, QueueDeclareOk)
    home = cluster.primary_of("orders")
    away = next(name for name in cluster.hosts if name not in (home, "n1"))
    publisher, client = cluster.client(away), cluster.client(away)
    publisher.ask(ConfirmSelect(), ConfirmSelectOk)
    publisher.publish("orders", "a", "b")
    client.ask(TxSelect(), TxSelectOk)
    client.ask(BasicConsume("orders", "c"), BasicConsumeOk)
    assert client.deliveries() == ["a", "b"]
    cluster.disk_waits(home, True)
    segments = {
        number: bytes(data) for number, data in cluster.hosts[NodeId(home)].segments.items()
    }
    client.send(BasicNack(1, False, True), BasicAck(2, False), TxCommit())
    assert client.deliveries() == ["again: a"]
    cluster.kill(home)
    # What was not safe is lost.
    cluster.hosts[NodeId(home)].segments = {n: bytearray(data) for n, data in segments.items()}
    cluster.pass_ms(2_500)
    cluster.disk_waits(home, False)
    cluster.start(home)
    cluster.wait_for(lambda: client.has(TxCommitOk))
    cluster.pass_ms(300)
    assert client.deliveries() == [], "it has that one"
    client.take(TxCommitOk)
    client.send(BasicAck(3, False))
    client.ask(TxCommit(), TxCommitOk)
    client.hang_up()
    passive = QueueDeclare("orders", passive=True)
    assert publisher.ask(passive, QueueDeclareOk).message_count == 0


def test_acknowledged_stays_gone_after_a_failover(scene: Scene) -> None:
    scene.consume(scene.far)
    scene.near.publish("orders", *"abc")
    scene.far.send(BasicAck(2, True))
    scene.far.hang_up()
    scene.cluster.pass_ms(200)
    scene.fail_over()
    scene.near.ask(BasicGet("orders"), BasicGetOk)
    assert scene.near.ask(BasicGet("orders"), BasicGetEmpty) == BasicGetEmpty()


def test_a_get_that_waits_is_answered_by_the_new_primary(scene: Scene) -> None:
    cluster = scene.cluster
    scene.near.publish("orders", "a")
    cluster.cut(scene.primary)
    scene.far.send(BasicGet("orders"))
    cluster.pass_ms(500)
    assert scene.far.heard() == []
    cluster.wait_for(lambda: scene.far.has(BasicGetOk))


def test_a_transient_message_survives_in_the_second_memory(scene: Scene) -> None:
    client = scene.cluster.client(scene.third)
    client.ask(QueueDeclare("brief"), QueueDeclareOk)
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    client.publish("brief", "a", persistent=False)
    assert client.take(BasicAck) == BasicAck(1, False)
    primary = scene.cluster.primary_of("brief")
    others = [name for name in scene.cluster.hosts if name != primary]
    survivor = scene.cluster.client(others[0])
    scene.cluster.kill(primary)
    scene.cluster.wait_for(lambda: scene.cluster.primary_of("brief") != primary)
    assert survivor.ask(BasicGet("brief"), BasicGetOk).redelivered


def test_a_node_that_returns_gets_its_copy_back(scene: Scene) -> None:
    cluster, old = scene.cluster, scene.primary
    scene.far.publish("orders", *"abc")
    scene.fail_over()
    scene.far.publish("orders", "d")
    cluster.start(old)
    (info,) = cluster.node("n1").state.map.fragments.values()
    cluster.wait_for(lambda: old in cluster.node("n1").state.map.fragments[info.id].in_sync, 20_000)
    cluster.pass_ms(200)
    new = cluster.primary_of("orders")
    fragment = cluster.node(new).state.primaries[info.id].fragment
    copy = cluster.node(old).state.backups[info.id].replica
    assert copy.in_order() == fragment.messages
    assert copy.origins == fragment.origins
    # And it serves clients as before.
    client = cluster.client(old)
    client.ask(BasicConsume("orders", "c"), BasicConsumeOk)
    cluster.pass_ms(100)
    assert client.deliveries() == ["again: a", "again: b", "again: c", "d"]


class _Forgetful(Cluster):
    """Its log loses what the leader wants of members: that they are down, or of the era."""

    def _drain(self, host: Host, node: Node) -> None:
        node.out.proposals[:] = [each for each in node.out.proposals if not self._loses(each)]
        super()._drain(host, node)

    def _loses(self, command: bytes) -> bool:
        kinds = [type(operation) for operation in decode_command(command).operations]
        return self.hosts[NodeId("n2")].life > 1 and (
            kinds == [JoinEra] or (MemberDown in kinds and MemberUp not in kinds)
        )


def test_a_copy_in_sync_keeps_what_is_not_durable_when_all_others_go() -> None:
    """However long the leader takes to let its process into the era."""
    cluster = _Forgetful(2)
    client = cluster.client("n1")
    client.ask(QueueDeclare("brief", durable=False), QueueDeclareOk)
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    client.publish("brief", "a")
    cluster.wait_for(lambda: client.has(BasicAck))
    cluster.kill("n2")
    # Its directory is an older one: it is let in to be brought up to date, and leads nothing.
    cluster.hosts[NodeId("n2")].vouched_since = 2
    cluster.start("n2")
    (info,) = cluster.node("n1").state.map.fragments.values()
    cluster.wait_for(
        lambda: cluster.node("n1").state.map.fragments[info.id].in_sync == {"n1": 1, "n2": 2}
    )
    cluster.kill("n1")
    cluster.start("n1")
    cluster.wait_for(lambda: cluster.primary_of("brief") == "n2")
    cluster.pass_ms(500)
    assert cluster.client("n2").ask(BasicGet("brief"), BasicGetOk).redelivered


def test_everything_stops_and_what_is_on_disk_returns(cluster: Cluster) -> None:
    client = cluster.client("n1")
    client.ask(QueueDeclare("orders", durable=True), QueueDeclareOk)
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    client.publish("orders", "kept")
    client.publish("orders", "only in memory", persistent=False)
    cluster.pass_ms(100)
    for name in cluster.hosts:
        cluster.kill(name)
    for name in cluster.hosts:
        cluster.start(name)
    cluster.pass_ms(5_000)
    client = cluster.client("n3")
    client.ask(BasicConsume("orders", "c"), BasicConsumeOk)
    cluster.pass_ms(200)
    assert client.deliveries() == ["again: kept"]


# --- a stalled backup ----------------------------------------------------------------------------


def test_a_backup_that_stalls_is_left_behind_and_comes_back(scene: Scene) -> None:
    cluster = scene.cluster
    scene.far.ask(ConfirmSelect(), ConfirmSelectOk)
    cluster.disk_waits(scene.backup, True)
    scene.far.publish("orders", "a")
    cluster.pass_ms(1_000)
    assert scene.far.heard() == []
    cluster.pass_ms(1_000)
    assert scene.far.heard() == [BasicAck(1, False)]
    (info,) = cluster.node(scene.third).state.map.fragments.values()
    assert list(info.in_sync) == [scene.primary]
    cluster.disk_waits(scene.backup, False)
    (name, number) = (scene.backup, info.id)
    cluster.wait_for(lambda: name in cluster.node("n1").state.map.fragments[number].in_sync)


# --- fencing -------------------------------------------------------------------------------------


def test_a_node_without_the_majority_neither_confirms_nor_delivers(scene: Scene) -> None:
    cluster = scene.cluster
    inside = cluster.client(scene.primary, channels=2)
    inside.ask(ConfirmSelect(), ConfirmSelectOk)
    inside.ask(BasicConsume("orders", "c"), BasicConsumeOk, 2)
    cluster.cut(scene.primary)
    cluster.pass_ms(800)
    inside.publish("orders", "a")
    cluster.pass_ms(100)
    assert inside.heard() == [], "neither an ack nor a delivery"


def test_clients_hear_of_fencing_and_of_its_end(scene: Scene) -> None:
    cluster = scene.cluster
    inside = cluster.client(scene.third)
    cluster.cut(scene.third)
    cluster.pass_ms(900)
    assert inside.heard() == [], "an election is no news"
    cluster.pass_ms(1_000)
    assert inside.heard() == [ConnectionBlocked(CUT_OFF)]
    cluster.mend(scene.third)
    cluster.pass_ms(1_000)
    assert inside.heard() == [ConnectionUnblocked()]
    assert inside.ask(BasicGet("orders"), BasicGetEmpty) == BasicGetEmpty()


def test_requests_wait_for_the_end_of_fencing(scene: Scene) -> None:
    cluster = scene.cluster
    inside = cluster.client(scene.third)
    scene.near.publish("orders", "a")
    cluster.cut(scene.third)
    cluster.pass_ms(100)
    inside.send(BasicGet("orders"), BasicGet("orders"))
    cluster.pass_ms(300)
    assert inside.heard() == []
    cluster.mend(scene.third)
    cluster.pass_ms(1_000)
    assert [type(method) for method in inside.heard()] == [BasicGetOk, BasicGetEmpty]


def test_clients_of_a_node_that_stays_fenced_are_sent_elsewhere(scene: Scene) -> None:
    inside = scene.cluster.client(scene.third)
    scene.cluster.cut(scene.third)
    scene.cluster.pass_ms(12_000)
    assert inside.take(ConnectionBlocked).reason == CUT_OFF
    assert inside.close_reason == (320, f"CONNECTION_FORCED - {CUT_OFF}")


def test_a_publish_into_a_fenced_node_is_confirmed_when_it_heals(scene: Scene) -> None:
    """Its fragment has moved meanwhile: the node sends the publish to the new primary."""
    cluster = scene.cluster
    inside = cluster.client(scene.primary)
    inside.ask(ConfirmSelect(), ConfirmSelectOk)
    cluster.cut(scene.primary)
    cluster.pass_ms(800)
    inside.publish("orders", "a")
    cluster.wait_for(lambda: cluster.primary_of("orders") != scene.primary)
    assert not inside.has(BasicAck)
    cluster.mend(scene.primary)
    cluster.wait_for(lambda: inside.has(BasicAck))
    scene.consume(scene.near)
    assert scene.near.deliveries() in (["a"], ["again: a"])


# --- clients that come early ---------------------------------------------------------------------


def test_a_client_that_comes_before_its_node_has_joined_is_served_then() -> None:
    cluster = Cluster(3)
    cluster.kill("n3")
    cluster.pass_ms(3_000)
    cluster.client("n1").ask(QueueDeclare("orders", durable=True), QueueDeclareOk)
    cluster.cut("n3")
    cluster.start("n3")
    early = cluster.knock("n3")
    early.shake_hands()
    cluster.pass_ms(500)
    assert early.heard() == []
    assert not early.is_read
    cluster.mend("n3")
    cluster.wait_for(lambda: early.has(ConnectionOpenOk))
    assert early.is_read


# --- back-pressure -------------------------------------------------------------------------------


def test_a_connection_is_not_read_while_its_backlog_is_long(scene: Scene) -> None:
    """A request waits for the cluster: what the client sends meanwhile is kept, up to a point."""
    cluster, client = scene.cluster, scene.far
    cluster.cut(scene.third)
    cluster.pass_ms(100)
    get = encode_method(1, BasicGet("orders"))
    client.write(get + b"".join(publish(1, "", "orders", b"%d" % n) for n in range(3)) + get * 80)
    cluster.settle()
    assert not client.is_read
    cluster.mend(scene.third)
    cluster.wait_for(lambda: client.is_read)
    cluster.pass_ms(500)
    answers = [type(method) for method in client.heard()]
    assert answers == [BasicGetEmpty] + [BasicGetOk] * 3 + [BasicGetEmpty] * 77
