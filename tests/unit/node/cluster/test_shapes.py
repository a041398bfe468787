"""An operator sets in how many fragments a queue is: it grows at once, and shrinks in quiet."""

from functools import partial

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.core.ids import FragmentId, NodeId
from fedq.core.limits import RETIRE_IDLE_MS
from fedq.node.views.overview import overview
from fedq.node.views.shape import shape_of
from fedq.wiring.cluster_map.operations_copies import ShapeQueue
from tests.unit.node.cluster.test_planned_moves import wish
from tests.unit.node.cluster.test_retiring import NAMES, confirming, drain, fragments
from tests.unit.node.harness import Cluster


def declared() -> Cluster:
    """A queue of n1; nothing in it is retired for being idle within a test."""
    cluster = Cluster(3, fragment_threshold=5)
    cluster.client("n1").ask(QueueDeclare("orders", durable=True), QueueDeclareOk)
    return cluster


def shape(cluster: Cluster, count: int) -> None:
    wish(cluster, ShapeQueue("/", "orders", count))
    cluster.pass_ms(300)


def leads(cluster: Cluster) -> dict[str, FragmentId]:
    """Which node leads which fragment."""
    known = cluster.node("n1").state.map.fragments
    return {str(known[each].primary): each for each in fragments(cluster)}


def test_a_queue_grows_to_where_its_clients_are() -> None:
    cluster = declared()
    shape(cluster, 3)
    assert sorted(leads(cluster)) == list(NAMES)
    for name in NAMES:
        publisher = confirming(cluster, name)
        publisher.publish("orders", f"from {name}")
        cluster.wait_for(partial(publisher.has, BasicAck))
        (primary,) = cluster.node(name).state.primaries.values()
        assert len(primary.fragment.messages) == 1
    assert sorted(drain(cluster)) == ["from n1", "from n2", "from n3"]
    cluster.pass_ms(2 * RETIRE_IDLE_MS)
    assert len(fragments(cluster)) == 3, "what an operator asked for is not retired"


def test_a_queue_shrinks_as_its_fragments_are_empty_and_loses_nothing() -> None:
    cluster = declared()
    shape(cluster, 3)
    publishers = {name: confirming(cluster, name) for name in NAMES}
    for name, publisher in publishers.items():
        publisher.publish("orders", f"{name} 0")
        cluster.wait_for(partial(publisher.has, BasicAck))
        publisher.said.clear()
    shape(cluster, 1)
    cluster.pass_ms(1_000)
    assert len(fragments(cluster)) == 3, "all have a message"
    last = fragments(cluster)[-1]
    name = next(each for each, number in leads(cluster).items() if number == last)
    found = shape_of(cluster.node(name), cluster.node(name).state.primaries[last])
    assert found is not None
    assert found.stays[0] == "it has messages: 1"
    assert sorted(drain(cluster)) == ["n1 0", "n2 0", "n3 0"]
    cluster.wait_for(lambda: len(fragments(cluster)) == 1, 30_000)
    assert list(leads(cluster)) == ["n1"]
    for name, publisher in publishers.items():
        publisher.publish("orders", *[f"{name} {number}" for number in range(1, 20)])
        cluster.wait_for(partial(publisher.has, BasicAck))
    cluster.pass_ms(1_000)
    assert len(fragments(cluster)) == 1, "traffic asks for no more than the operator"
    got = drain(cluster)
    for name in NAMES:
        assert [each for each in got if each.startswith(name)] == [
            f"{name} {number}" for number in range(1, 20)
        ]


def test_a_queue_under_traffic_shrinks_in_a_pause_and_keeps_the_order() -> None:
    cluster = declared()
    shape(cluster, 3)
    consumer = cluster.client("n1")
    consumer.ask(BasicConsume("orders", "c", no_ack=True), BasicConsumeOk)
    publisher = confirming(cluster, "n3")
    shape(cluster, 1)
    for number in range(200):
        publisher.publish("orders", f"{number}")
        cluster.pass_ms(50)
    cluster.wait_for(lambda: len(fragments(cluster)) == 1, 30_000)
    assert consumer.deliveries() == [f"{number}" for number in range(200)]


def test_what_the_queue_was_declared_with_is_seen_beside_what_counts() -> None:
    cluster = Cluster(3)
    request = QueueDeclare("orders", durable=True, arguments={"x-fedq-fragments": 2})
    cluster.client("n1").ask(request, QueueDeclareOk)
    shape(cluster, 3)
    again = cluster.client("n2").ask(request, QueueDeclareOk)
    assert again.queue == "orders"
    (key,) = cluster.node("n1").state.map.queues
    known = overview(cluster.node(NodeId("n1"))).queue(key)
    assert known is not None
    assert len(known.fragments) == 3
