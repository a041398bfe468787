"""The length that a policy gives a queue, of which each fragment has its part at any time."""

from fedq.core.ids import QueueKey
from fedq.wiring.cluster_map.operations import AddFragment
from tests.unit.node.cluster.test_retiring import fragments, grown
from tests.unit.node.harness import Cluster
from tests.unit.node.map.test_policies import declare, put
from tests.unit.node.tracing.traced import change


def lengths(cluster: Cluster, queue: str) -> list[int | None]:
    """The length of each fragment of a queue, as its primary has it."""
    info = cluster.node("n1").state.map.queues[QueueKey("/", queue)]
    found: list[int | None] = []
    for fragment in info.fragments:
        primary = cluster.node("n1").state.map.fragments[fragment].primary
        served = cluster.node(primary).state.primaries[fragment]
        found.append(served.fragment.policy.max_length)
    return found


def test_of_a_queue_whose_fragment_retires_the_others_get_its_part() -> None:
    cluster, _ = grown()
    put(cluster, {"max-length": 10})
    assert lengths(cluster, "orders") == [5, 5]
    cluster.wait_for(lambda: len(fragments(cluster)) == 1, 20_000)
    cluster.pass_ms(50)
    assert lengths(cluster, "orders") == [10]


def test_a_fragment_that_was_asked_for_before_the_policy_came_shares_the_length() -> None:
    cluster = Cluster(3)
    declare(cluster.client("n1"), "orders")
    put(cluster, {"max-length": 10})
    assert lengths(cluster, "orders") == [10]
    [primary] = [each.primary for each in cluster.node("n1").state.map.fragments.values()]
    other = next(name for name in ("n1", "n2", "n3") if name != primary)
    change(cluster, AddFragment("/", "orders", cluster.node(other).state.me))
    cluster.pass_ms(50)
    assert lengths(cluster, "orders") == [5, 5]
