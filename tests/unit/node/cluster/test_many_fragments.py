"""A node that is lost with very many fragments is replaced at once, not fragment by fragment."""

from fedq.amqp.methods import QueueDeclare, encode_method
from fedq.core.ids import NodeId
from fedq.core.limits import OPERATIONS_PER_COMMAND_MAX
from tests.unit.node.harness import TICK_MS, Cluster

#: More than two commands hold.
COUNT = 2 * OPERATIONS_PER_COMMAND_MAX + 50


def led_by(cluster: Cluster, name: str) -> int:
    found = cluster.node("n1").state.map.fragments.values()
    return sum(info.primary == NodeId(name) for info in found)


def test_all_fragments_of_a_lost_node_have_another_primary_within_one_tick() -> None:
    cluster = Cluster(3)
    client = cluster.client("n3", channels=2)
    names = [f"q{number}" for number in range(COUNT)]
    client.write(
        b"".join(encode_method(1, QueueDeclare(name, no_wait=True)) for name in names)
        + encode_method(1, QueueDeclare("last"))
    )
    cluster.wait_for(lambda: led_by(cluster, "n3") == COUNT + 1)
    cluster.pass_ms(2_000)
    cluster.kill("n3")
    left = COUNT + 1
    while led_by(cluster, "n3") == left:
        cluster.pass_ms(TICK_MS)
    assert led_by(cluster, "n3") == 0, "what did not fit into the first command waited for a tick"
