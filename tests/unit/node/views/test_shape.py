"""Why a fragment is there, stays, and is led where it is, as its node tells it."""

from fedq.amqp.methods import QueueDeclare, QueueDeclareOk
from fedq.amqp.values import FieldTable
from fedq.core.ids import FragmentId, NodeId, QueueKey
from fedq.node.views.overview import overview
from fedq.node.views.storage_types import FragmentCause, ShapeOverview
from fedq.wiring.cluster_map.operations_moves import DrainNode, MoveFragment
from tests.unit.node.cluster.test_planned_moves import step_until, wish
from tests.unit.node.cluster.test_retiring import SOON, TWO, drain, grown, is_retired
from tests.unit.node.harness import Cluster

KEY = QueueKey("/", "orders")
ONE = FragmentId(1)


def shape(cluster: Cluster, fragment: FragmentId, name: str) -> ShapeOverview:
    (found,) = [
        copy.shape
        for copy in overview(cluster.node(name)).copies(KEY)
        if copy.fragment == fragment and copy.shape is not None
    ]
    return found


def causes(cluster: Cluster) -> list[FragmentCause]:
    queue = overview(cluster.node("n1")).queue(KEY)
    assert queue is not None
    return [fragment.cause for fragment in queue.fragments]


def test_what_came_with_traffic_says_for_how_long_it_stays() -> None:
    cluster, publisher = grown(retire_idle_ms=60_000, retire_age_ms=90_000)
    assert causes(cluster) == [FragmentCause.DECLARED, FragmentCause.TRAFFIC]
    assert shape(cluster, ONE, "n1").stays == ("it is the first one of its queue",)
    publisher.publish("orders", "a")
    cluster.pass_ms(2_000)
    seen = shape(cluster, TWO, "n3")
    assert seen.stays[0] == "it has messages: 1"
    drain(cluster)
    cluster.pass_ms(5_000)
    seen = shape(cluster, TWO, "n3")
    assert seen.idle_ms is not None
    assert 5_000 <= seen.idle_ms < 6_000
    assert seen.stays[0] == "it had traffic 5 s ago, and stays without any for 60 s"
    assert "and stays for 90 s at least" in seen.stays[1]
    cluster.kill("n2")
    cluster.wait_for(lambda: "n2 is down" in shape(cluster, TWO, "n3").stays)


def test_what_is_about_to_go_says_so() -> None:
    cluster, _ = grown()
    step_until(cluster, lambda: TWO in cluster.node("n3").state.quiet)
    assert shape(cluster, TWO, "n3").retiring
    cluster.wait_for(lambda: is_retired(cluster))
    assert causes(cluster) == [FragmentCause.DECLARED]


def test_a_fixed_number_and_a_setting_are_reasons() -> None:
    cluster = Cluster(3, **SOON)
    request = QueueDeclare("orders", durable=True, arguments={"x-fedq-fragments": 2})
    cluster.client("n1").ask(request, QueueDeclareOk)
    assert causes(cluster) == [FragmentCause.DECLARED, FragmentCause.FIXED]
    (second,) = cluster.node("n2").state.primaries or cluster.node("n3").state.primaries
    name = cluster.node("n1").state.map.fragments[second].primary
    assert "fixes their number" in shape(cluster, second, name).stays[0]
    cluster, _ = grown(retire_idle_ms=0)
    assert "retire_idle_ms is 0" in shape(cluster, TWO, "n3").stays[0]


def test_a_move_says_what_it_waits_for() -> None:
    cluster = Cluster(3)
    arguments: FieldTable = {"x-fedq-replicate": "persistent", "x-fedq-replicas": 2}
    client = cluster.client("n1")
    client.ask(QueueDeclare("orders", durable=True, arguments=arguments), QueueDeclareOk)
    client.publish("orders", "a", "b", persistent=False)
    (info,) = cluster.node("n1").state.map.fragments.values()
    other = next(n for n in ("n2", "n3") if n not in info.copies)
    assert shape(cluster, ONE, "n1").waits == ()
    wish(cluster, MoveFragment(ONE, NodeId(other)))
    step_until(cluster, lambda: cluster.node("n1").state.map.moves)
    assert f"{other} has no copy yet" in shape(cluster, ONE, "n1").waits
    cluster.pass_ms(3_000)
    queue = overview(cluster.node("n2")).queue(KEY)
    assert queue is not None
    assert queue.fragments[0].moves_to == other
    waits = shape(cluster, ONE, "n1").waits
    assert waits[0].startswith("2 transient messages are on its primary alone")
    drain(cluster)
    cluster.wait_for(lambda: cluster.primary_of("orders") == other, 70_000)
    assert shape(cluster, ONE, other).waits == ()


def test_a_copy_on_a_drained_node_says_why_it_is_there() -> None:
    cluster = Cluster(3)
    request = QueueDeclare("orders", durable=True, arguments={"x-fedq-replicas": 3})
    cluster.client("n1").ask(request, QueueDeclareOk)
    wish(cluster, DrainNode(NodeId("n2"), False))
    cluster.pass_ms(2_000)
    (said,) = shape(cluster, ONE, "n1").waits
    assert said == "n2 is drained, and keeps its copy until another node has one in sync"
