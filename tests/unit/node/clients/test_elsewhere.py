"""A node that is full takes no further clients, and says which others do."""

from fedq.amqp.methods import ConnectionClose, ConnectionOpenOk, QueueDeclare, QueueDeclareOk
from fedq.core.ids import NodeId
from fedq.node.views.overview import overview
from fedq.node.views.overview_types import Readiness
from fedq.wiring.cluster_map.operations import encode_command
from fedq.wiring.cluster_map.operations_moves import DrainNode
from tests.unit.node.harness import Client, Cluster

MIB = 1 << 20


def comes(cluster: Cluster, name: str = "n1") -> Client:
    """A client that says all it has to, and hears whether it is taken."""
    client = cluster.knock(name)
    client.shake_hands()
    cluster.wait_for(lambda: client.has(ConnectionOpenOk) or client.has(ConnectionClose))
    return client


def is_taken(client: Client) -> bool:
    return client.has(ConnectionOpenOk)


def fill(cluster: Cluster, *names: str, waiting: int = 64 * MIB) -> None:
    """Drivers say that so much waits for sockets; the others hear of it."""
    for name in names:
        cluster.hosts[NodeId(name)].inbox.append(lambda node: node.on_resources(waiting, 0, -1))
    cluster.pass_ms(1_500)


def readiness(cluster: Cluster) -> Readiness:
    return overview(cluster.node("n1")).readiness()


def test_a_node_that_is_low_on_memory_names_those_that_are_not() -> None:
    cluster = Cluster(3, memory_bytes_max=32 * MIB)
    before = cluster.client("n1")
    fill(cluster, "n1")
    refused = comes(cluster)
    assert refused.close_reason == (
        320,
        "CONNECTION_FORCED - node n1 is low on memory: connect to another one: n2:5672, n3:5672",
    )
    assert readiness(cluster) is Readiness.FULL
    assert before.ask(QueueDeclare("q"), QueueDeclareOk).queue == "q", "who is there stays"
    assert is_taken(comes(cluster, "n2"))
    fill(cluster, "n2")
    assert comes(cluster).close_reason[1].endswith("connect to another one: n3:5672")
    fill(cluster, "n1", waiting=0)
    assert is_taken(comes(cluster))
    assert readiness(cluster) is Readiness.READY


def test_who_would_be_taken_nowhere_is_taken_by_a_node_that_is_low_on_memory() -> None:
    cluster = Cluster(3, memory_bytes_max=32 * MIB)
    fill(cluster, "n1", "n2", "n3")
    assert is_taken(comes(cluster))
    alone = Cluster(1, memory_bytes_max=32 * MIB)
    fill(alone, "n1")
    assert is_taken(comes(alone))
    assert readiness(alone) is Readiness.READY


def test_a_drained_node_is_not_named() -> None:
    cluster = Cluster(3, memory_bytes_max=32 * MIB)
    cluster.log.append(encode_command("by hand", [DrainNode(NodeId("n2"), False)]))
    fill(cluster, "n1")
    assert comes(cluster).close_reason[1].endswith("connect to another one: n3:5672")


def test_a_node_with_as_many_clients_as_it_may_have_names_the_others() -> None:
    cluster = Cluster(2, connections_max=2)
    first, second = cluster.client("n1"), cluster.client("n1")
    # Whoever has not logged in counts as nobody.
    cluster.knock("n1")
    refused = comes(cluster)
    assert refused.close_reason == (
        320,
        "CONNECTION_FORCED - node n1 has 2 clients, as many as it may (limits.connections): "
        "connect to another one: n2:5672",
    )
    assert readiness(cluster) is Readiness.FULL
    assert is_taken(comes(cluster, "n2"))
    first.hang_up()
    cluster.pass_ms(100)
    assert is_taken(comes(cluster))
    assert not second.has(ConnectionClose)


def test_a_lone_node_with_as_many_clients_as_it_may_have_says_so() -> None:
    cluster = Cluster(1, connections_max=1)
    cluster.client("n1")
    assert comes(cluster).close_reason == (
        530, "NOT_ALLOWED - connection refused: node connection limit (1) is reached"
    )  # fmt: skip
