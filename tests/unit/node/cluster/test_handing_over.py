"""A primary that gives its fragments away while it lives: its disk hangs, or it is to stop."""

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.core.ids import NodeId
from fedq.node.views.overview import overview
from tests.unit.node.harness import Client, Cluster


def confirming(cluster: Cluster, name: str) -> Client:
    client = cluster.client(name)
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    return client


def declare(client: Client, replicas: int = 2) -> None:
    request = QueueDeclare("orders", durable=True, arguments={"x-fedq-replicas": replicas})
    client.ask(request, QueueDeclareOk)


def has_stopped(cluster: Cluster, name: str) -> bool:
    return cluster.node(name).stopped


def in_sync(cluster: Cluster, name: str = "n2") -> list[str]:
    (info,) = cluster.node(name).state.map.fragments.values()
    return sorted(info.in_sync)


def test_a_disk_that_hangs_holds_up_no_confirm_beside_a_copy_in_sync() -> None:
    cluster = Cluster(3)
    client = confirming(cluster, "n1")
    declare(client)
    assert cluster.primary_of("orders") == "n1"
    cluster.disk_waits("n1", True)
    client.publish("orders", "a", "b")
    cluster.pass_ms(1_400)
    assert not client.has(BasicAck)
    assert not overview(cluster.node("n1")).node().troubles
    cluster.pass_ms(500)
    assert client.take(BasicAck) == BasicAck(2, True)
    assert cluster.primary_of("orders") != "n1"
    assert "n1" not in in_sync(cluster), "confirms must not wait for it"
    (trouble,) = overview(cluster.node("n1")).node().troubles
    assert "disk" in trouble
    client.publish("orders", "c")
    cluster.pass_ms(100)
    assert client.has(BasicAck), "at once"


def test_the_disk_works_again_and_its_copy_is_in_sync_again() -> None:
    cluster = Cluster(3)
    client = confirming(cluster, "n1")
    declare(client)
    cluster.disk_waits("n1", True)
    client.publish("orders", "a", "b")
    cluster.wait_for(lambda: client.has(BasicAck))
    cluster.disk_waits("n1", False)
    cluster.hosts[NodeId("n1")].inbox.append(lambda node: node.on_tick())
    cluster.wait_for(lambda: len(in_sync(cluster)) == 2)
    assert not overview(cluster.node("n1")).node().troubles


def test_a_disk_that_hangs_keeps_what_has_no_other_copy() -> None:
    cluster = Cluster(3)
    client = confirming(cluster, "n1")
    declare(client, replicas=1)
    cluster.disk_waits("n1", True)
    client.publish("orders", "a")
    cluster.pass_ms(3_000)
    assert cluster.primary_of("orders") == "n1"
    assert not client.has(BasicAck)
    cluster.disk_waits("n1", False)
    cluster.wait_for(lambda: client.has(BasicAck))


def test_the_old_primary_serves_again_if_the_node_it_hands_over_to_has_just_died() -> None:
    cluster = Cluster(3)
    client = confirming(cluster, "n1")
    declare(client)
    client.publish("orders", "a", persistent=False)
    assert client.has(BasicAck), "it is in two memories"
    (info,) = cluster.node("n1").state.map.fragments.values()
    (backup,) = info.backups
    cluster.disk_waits("n1", True)
    client.publish("orders", "b")
    cluster.pass_ms(1_450)
    assert cluster.primary_of("orders") == "n1"
    cluster.kill(backup, unseen=True)
    cluster.wait_for(lambda: cluster.primary_of("orders") == backup, 200)
    cluster.wait_for(lambda: cluster.primary_of("orders") == "n1")
    consumer = cluster.client("n1")
    consumer.ask(BasicConsume("orders", "c"), BasicConsumeOk)
    cluster.pass_ms(500)
    assert consumer.deliveries()[0] in ("a", "again: a")


def test_a_copy_whose_node_says_that_its_disk_hangs_is_not_waited_for_again() -> None:
    cluster = Cluster(3)
    client = confirming(cluster, "n1")
    declare(client)
    cluster.disk_waits("n1", True)
    client.publish("orders", "a")
    cluster.wait_for(lambda: cluster.primary_of("orders") != "n1")
    cluster.pass_ms(350)
    assert in_sync(cluster) == [cluster.primary_of("orders")]


def test_consumers_stay_where_they_are_when_their_fragment_moves() -> None:
    cluster = Cluster(3)
    client, consumer = confirming(cluster, "n1"), cluster.client("n1")
    declare(client)
    consumer.ask(BasicConsume("orders", "c"), BasicConsumeOk)
    client.publish("orders", "a")
    assert consumer.deliveries() == ["a"]
    cluster.disk_waits("n1", True)
    client.publish("orders", "b")
    cluster.wait_for(lambda: cluster.primary_of("orders") != "n1")
    client.publish("orders", "c")
    cluster.pass_ms(500)
    assert consumer.deliveries() == ["b", "c"], "a is with it still, and nothing comes twice"
    consumer.send(BasicAck(3, True))
    cluster.disk_waits("n1", False)
    cluster.pass_ms(1_000)
    consumer.hang_up()
    cluster.pass_ms(500)
    again = cluster.client("n3")
    again.ask(BasicConsume("orders", "c"), BasicConsumeOk)
    cluster.pass_ms(500)
    assert again.deliveries() == [], "all were acknowledged"


def test_a_clean_stop_hands_over_first() -> None:
    cluster = Cluster(3)
    client = confirming(cluster, "n2")
    declare(cluster.client("n1"))
    client.publish("orders", "a")
    node = cluster.node("n1")
    cluster.hosts[NodeId("n1")].inbox.append(lambda node: node.stop())
    cluster.wait_for(lambda: node.stopped, 1_000)
    assert cluster.primary_of("orders") != "n1", "before anybody has to find out that it is gone"
    assert in_sync(cluster) == ["n1", cluster.primary_of("orders")]
    cluster.kill("n1")
    client.publish("orders", "b")
    cluster.wait_for(lambda: client.has(BasicAck), 1_000)


def test_a_clean_stop_waits_for_a_copy_of_what_only_it_has() -> None:
    cluster = Cluster(3, replace_backup_ms=1_000)
    client = confirming(cluster, "n1")
    declare(client)
    (info,) = cluster.node("n1").state.map.fragments.values()
    (backup,) = info.backups
    other = next(name for name in ("n2", "n3") if name != backup)
    cluster.kill(backup)
    client.publish("orders", "a")
    cluster.wait_for(lambda: in_sync(cluster, other) == ["n1"])
    node = cluster.node("n1")
    cluster.hosts[NodeId("n1")].inbox.append(lambda node: node.stop())
    cluster.pass_ms(500)
    assert not node.stopped
    cluster.wait_for(lambda: node.stopped, 3_000)
    assert cluster.primary_of("orders") == other


def test_a_clean_stop_waits_only_so_long_and_not_for_those_that_stop_too() -> None:
    cluster = Cluster(2, stop_wait_ms=2_000)
    client = cluster.client("n1")
    declare(client)
    cluster.disk_waits("n2", True)
    confirming(cluster, "n1").publish("orders", "a")
    cluster.wait_for(lambda: in_sync(cluster) == ["n1"])
    cluster.hosts[NodeId("n1")].inbox.append(lambda node: node.stop())
    cluster.pass_ms(1_500)
    assert not has_stopped(cluster, "n1")
    cluster.pass_ms(1_000)
    assert has_stopped(cluster, "n1")

    cluster = Cluster(2)
    declare(cluster.client("n1"))
    nodes = [cluster.node(name) for name in ("n1", "n2")]
    for name in ("n1", "n2"):
        cluster.hosts[NodeId(name)].inbox.append(lambda node: node.stop())
    cluster.pass_ms(500)
    assert all(node.stopped for node in nodes)


def test_a_node_that_is_alone_stops_at_once() -> None:
    cluster = Cluster(1)
    declare(cluster.client("n1"))
    node = cluster.node("n1")
    cluster.hosts[NodeId("n1")].inbox.append(lambda node: node.stop())
    cluster.settle()
    assert node.stopped
