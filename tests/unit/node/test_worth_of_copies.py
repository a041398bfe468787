"""After a stop of all, who leads: never a copy that is known to lack something."""

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.core.ids import FragmentId, NodeId
from tests.unit.node.harness import Cluster


def published(cluster: Cluster, *bodies: str) -> None:
    """Confirmed, on a queue with copies on n1 and n2."""
    client = cluster.client("n1")
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    client.ask(QueueDeclare("orders", durable=True), QueueDeclareOk)
    for body in bodies:
        client.publish("orders", body)
        cluster.wait_for(lambda: client.has(BasicAck))
        client.take(BasicAck)
    # A quiet journal says what it has.
    cluster.pass_ms(1_200)


def consumed(cluster: Cluster, name: str) -> list[str]:
    client = cluster.client(name)
    client.ask(BasicConsume("orders", "c"), BasicConsumeOk)
    cluster.pass_ms(500)
    return [body.removeprefix("again: ") for body in client.deliveries()]


def holders(cluster: Cluster) -> list[str]:
    (info,) = cluster.node("n1").state.map.fragments.values()
    return list(info.copies)


def flip(cluster: Cluster, name: str) -> None:
    """One bit in the middle of the newest segment."""
    segments = cluster.hosts[NodeId(name)].segments
    data = segments[max(segments)]
    data[len(data) // 2] ^= 1


def test_a_flipped_bit_costs_nothing_that_another_copy_has() -> None:
    cluster = Cluster(3)
    published(cluster, "a", "b", "c", "d")
    first, second = holders(cluster)
    for name in ("n1", "n2", "n3"):
        cluster.kill(name)
    flip(cluster, first)
    other = next(name for name in ("n1", "n2", "n3") if name not in (first, second))
    cluster.start(first)
    cluster.start(other)
    cluster.pass_ms(8_000)
    assert cluster.node(other).state.primary_of(_fragment(cluster, other)) != first
    cluster.start(second)
    cluster.wait_for(lambda: cluster.primary_of("orders") == second)
    cluster.pass_ms(3_000)
    assert consumed(cluster, other) == ["a", "b", "c", "d"]
    (info,) = cluster.node(other).state.map.fragments.values()
    assert sorted(info.in_sync) == sorted([first, second]), "it is brought up to date"


def _fragment(cluster: Cluster, name: str) -> FragmentId:
    return next(iter(cluster.node(name).state.map.fragments))
