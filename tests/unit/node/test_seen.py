"""What a clean stop says was seen: after it, only that is marked (docs/adr/0046)."""

import pytest

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.amqp.values import FieldTable
from fedq.core.ids import NodeId
from fedq.node.node import Node
from tests.unit.node.harness import TICK_MS, Client, Cluster, Host


def stop_node(node: Node) -> None:
    """The node's input of that name."""
    node.stop()


def declare(client: Client, arguments: FieldTable | None = None) -> None:
    request = QueueDeclare("orders", durable=True, arguments=arguments or {})
    client.ask(request, QueueDeclareOk)


def publisher(cluster: Cluster, name: str = "n1", arguments: FieldTable | None = None) -> Client:
    client = cluster.client(name)
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    declare(client, arguments)
    return client


def stop(cluster: Cluster, *names: str) -> None:
    """These are asked to stop at the same moment, and end when they are done."""
    for name in names:
        cluster.hosts[NodeId(name)].inbox.append(stop_node)
    nodes = [cluster.node(name) for name in names]
    cluster.wait_for(lambda: all(node.stopped for node in nodes), 15_000)
    for name in names:
        cluster.kill(name)


def restart(cluster: Cluster, *names: str) -> None:
    for name in names:
        cluster.start(name)
    cluster.pass_ms(7_000)


def consume(cluster: Cluster, name: str = "n1", prefetch: int = 0) -> Client:
    client = cluster.client(name)
    client.ask(BasicQos(0, prefetch), BasicQosOk)
    client.ask(BasicConsume("orders", "c"), BasicConsumeOk)
    cluster.pass_ms(500)
    return client


def test_what_nobody_saw_is_not_marked_after_a_clean_stop() -> None:
    cluster = Cluster(1)
    publisher(cluster).publish("orders", "a", "b", "c", "d")
    consumer = consume(cluster, prefetch=2)
    assert consumer.deliveries() == ["a", "b"]
    consumer.send(BasicAck(1))
    assert consumer.deliveries() == ["c"]
    stop(cluster, "n1")
    restart(cluster, "n1")
    assert consume(cluster).deliveries() == ["again: b", "again: c", "d"]


def test_after_a_crash_all_is_marked() -> None:
    cluster = Cluster(1)
    publisher(cluster).publish("orders", "a", "b")
    cluster.kill("n1")
    restart(cluster, "n1")
    assert consume(cluster).deliveries() == ["again: a", "again: b"]


@pytest.mark.parametrize("sees", [True, False])
def test_what_a_stop_said_counts_once(sees: bool) -> None:
    """The start that takes it up crashes, with and without having handed out something."""
    cluster = Cluster(1)
    publisher(cluster).publish("orders", "a", "b")
    stop(cluster, "n1")
    restart(cluster, "n1")
    if sees:
        assert consume(cluster, prefetch=1).deliveries() == ["a"]
    cluster.kill("n1")
    restart(cluster, "n1")
    assert consume(cluster).deliveries() == ["again: a", "again: b"]


def test_a_second_clean_stop_says_it_anew() -> None:
    cluster = Cluster(1)
    publisher(cluster).publish("orders", "a", "b", "c")
    for seen in ([], ["a"], ["again: a", "b"]):
        assert consume(cluster, prefetch=len(seen)).deliveries() == seen if seen else True
        stop(cluster, "n1")
        restart(cluster, "n1")
    assert consume(cluster).deliveries() == ["again: a", "again: b", "c"]


def test_what_came_back_stays_marked() -> None:
    cluster = Cluster(1)
    publisher(cluster, arguments={"x-delivery-limit": 3}).publish("orders", "a", "b")
    consumer = consume(cluster, prefetch=1)
    consumer.send(BasicNack(1, False, True))
    consumer.hang_up()
    stop(cluster, "n1")
    restart(cluster, "n1")
    assert consume(cluster).deliveries() == ["again: a", "b"]


@pytest.mark.parametrize("order", [("n1", "n2", "n3"), ("n3", "n1", "n2"), ("n2", "n3", "n1")])
def test_all_nodes_stop_one_after_the_other(order: tuple[str, ...]) -> None:
    cluster = Cluster(3)
    publisher(cluster, "n2").publish("orders", "a", "b", "c")
    assert consume(cluster, "n3", prefetch=1).deliveries() == ["a"]
    for name in order:
        stop(cluster, name)
        cluster.pass_ms(500)
    restart(cluster, *order)
    assert consume(cluster, "n2").deliveries() == ["again: a", "b", "c"]


@pytest.mark.parametrize("later_ms", [100, 300, 500, 1_000, 5_000])
def test_the_last_one_that_stopped_is_the_last_one_back(later_ms: int) -> None:
    """The map calls it up until it is suspected; nobody copies from it meanwhile."""
    cluster = Cluster(3)
    publisher(cluster, "n2").publish("orders", "a", "b", "c")
    assert consume(cluster, "n3", prefetch=1).deliveries() == ["a"]
    last = cluster.primary_of("orders")
    others = [name for name in cluster.hosts if name != last]
    for name in (*others, last):
        stop(cluster, name)
        cluster.pass_ms(500)
    for name in others:
        cluster.start(name)
    cluster.pass_ms(later_ms)
    restart(cluster, last)
    assert consume(cluster, last).deliveries() == ["again: a", "b", "c"]


def test_all_nodes_stop_at_the_same_moment() -> None:
    cluster = Cluster(3)
    publisher(cluster, "n2").publish("orders", "a", "b", "c")
    assert consume(cluster, "n3", prefetch=1).deliveries() == ["a"]
    stop(cluster, "n1", "n2", "n3")
    restart(cluster, "n3", "n1", "n2")
    assert consume(cluster, "n1").deliveries() == ["again: a", "b", "c"]


class SlowMap(Cluster):
    """One whose map takes its time to decide who is primary."""

    def __init__(self, size: int) -> None:
        self.is_slow = False
        self.undecided: list[bytes] = []
        super().__init__(size)

    def _drain(self, host: Host, node: Node) -> None:
        proposals = node.out.proposals
        held = [each for each in proposals if self.is_slow and b'"set_copies"' in each]
        self.undecided += held
        proposals[:] = [each for each in proposals if each not in held]
        super()._drain(host, node)


def test_who_stops_too_waits_for_what_it_has_just_been_given() -> None:
    """It is told to stop when the map has been asked to make it the primary."""
    cluster = SlowMap(2)
    publisher(cluster).publish("orders", "a", "b", "c")
    assert consume(cluster, prefetch=1).deliveries() == ["a"]
    cluster.is_slow = True
    cluster.hosts[NodeId("n1")].inbox.append(stop_node)
    cluster.wait_for(lambda: len(cluster.undecided) > 0)
    second = cluster.node("n2")
    cluster.hosts[NodeId("n2")].inbox.append(stop_node)
    cluster.pass_ms(TICK_MS)
    assert not second.stopped
    cluster.is_slow = False
    cluster.log += cluster.undecided
    cluster.wait_for(lambda: second.stopped, 1_000)
    stop(cluster, "n1", "n2")
    restart(cluster, "n1", "n2")
    assert consume(cluster).deliveries() == ["again: a", "b", "c"]


def test_a_fragment_that_moves_at_a_stop_marks_what_was_seen_alone() -> None:
    cluster = Cluster(3)
    declare(cluster.client("n1"))
    publishing = publisher(cluster, "n2")
    publishing.publish("orders", "a", "b", "c")
    first = consume(cluster, "n3", prefetch=1)
    assert first.deliveries() == ["a"]
    assert cluster.primary_of("orders") == "n1"
    stop(cluster, "n1")
    publishing.publish("orders", "d")
    first.hang_up()
    assert consume(cluster, "n2").deliveries() == ["again: a", "b", "c", "d"]


def test_what_is_published_between_the_last_word_and_the_move_was_not_seen() -> None:
    cluster = Cluster(3)
    declare(cluster.client("n1"))
    publishing = publisher(cluster, "n2")
    publishing.publish("orders", "a", "b")
    consumer = consume(cluster, "n3", prefetch=1)
    assert consumer.deliveries() == ["a"]
    cluster.proposals_lost = True
    cluster.hosts[NodeId("n1")].inbox.append(stop_node)
    cluster.pass_ms(100)
    publishing.publish("orders", "c")
    assert publishing.has(BasicAck)
    consumer.send(BasicAck(1))
    assert consumer.deliveries() == [], "nobody hands out"
    assert cluster.primary_of("orders") == "n1"
    consumer.hang_up()
    cluster.proposals_lost = False
    cluster.wait_for(lambda: cluster.primary_of("orders") != "n1")
    assert consume(cluster, "n3").deliveries() == ["b", "c"]


def test_a_node_that_dies_after_its_last_word_leaves_it_to_the_next_primary() -> None:
    cluster = Cluster(3, stop_wait_ms=1_000)
    declare(cluster.client("n1"))
    publisher(cluster, "n2").publish("orders", "a", "b")
    first = consume(cluster, "n2", prefetch=1)
    assert first.deliveries() == ["a"]
    # Nothing of the map is decided any more: it ends as the primary.
    cluster.proposals_lost = True
    cluster.hosts[NodeId("n1")].inbox.append(stop_node)
    cluster.pass_ms(200)
    cluster.kill("n1")
    cluster.proposals_lost = False
    first.hang_up()
    cluster.pass_ms(2_000)
    assert consume(cluster, "n3").deliveries() == ["again: a", "b"]


def test_nothing_is_handed_out_after_the_last_word() -> None:
    cluster = Cluster(3)
    declare(cluster.client("n1"))
    publisher(cluster, "n2").publish("orders", "a", "b")
    consumer = consume(cluster, "n1", prefetch=1)
    assert consumer.deliveries() == ["a"]
    cluster.proposals_lost = True
    cluster.hosts[NodeId("n1")].inbox.append(stop_node)
    cluster.pass_ms(200)
    consumer.send(BasicAck(1))
    cluster.pass_ms(500)
    assert consumer.deliveries() == []
    cluster.proposals_lost = False
    cluster.wait_for(lambda: cluster.primary_of("orders") != "n1")


def test_a_disk_does_not_know_what_living_publishers_send_again() -> None:
    """Its publishes may be there twice, then: the marked one must not come first."""
    for name, expected in (("n2", ["again: a"]), ("n1", ["a"])):
        cluster = Cluster(3)
        declare(cluster.client("n1"), {"x-fedq-replicas": 1})
        cluster.client(name).publish("orders", "a")
        assert cluster.primary_of("orders") == "n1"
        stop(cluster, "n1")
        restart(cluster, "n1")
        assert consume(cluster, "n3").deliveries() == expected


def test_a_cluster_with_an_older_release_in_it_marks_as_before() -> None:
    cluster = Cluster(3)
    declare(cluster.client("n1"))
    publisher(cluster, "n2").publish("orders", "a")
    for name in cluster.hosts:
        cluster.node(name).state.map.cluster_version = 5
    stop(cluster, "n1")
    assert consume(cluster, "n2").deliveries() == ["again: a"]
