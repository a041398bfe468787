"""A consumer whose own node has nothing for it: from which other node the next message comes."""

from typing import ClassVar

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicQos,
    BasicQosOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.amqp.values import FieldTable
from tests.unit.node.harness import Client, Cluster

MESSAGES = 5


class InZones(Cluster):
    """One node is elsewhere."""

    ZONES: ClassVar = {"n1": "east", "n2": "west", "n3": "east"}


def filled(cluster: Cluster, *nodes: str) -> Client:
    """A queue in three fragments, those of these nodes with messages; a client of `n1`."""
    taking = cluster.client("n1")
    arguments: FieldTable = {"x-fedq-fragments": 3, "x-fedq-replicas": 1}
    taking.ask(QueueDeclare("work", durable=True, arguments=arguments), QueueDeclareOk)
    for node in nodes:
        client = cluster.client(node)
        client.ask(ConfirmSelect(), ConfirmSelectOk)
        client.publish("work", *[f"{node} {number}" for number in range(MESSAGES)])
        cluster.wait_for(lambda client=client: client.has(BasicAck))  # type: ignore[misc]
    taking.ask(BasicQos(0, 1), BasicQosOk)
    return taking


def taken(cluster: Cluster, client: Client) -> list[str]:
    """The nodes of all messages, in the order in which a consumer with prefetch 1 gets them."""
    client.ask(BasicConsume("work", "c"), BasicConsumeOk)
    nodes: list[str] = []
    for tag in range(1, 2 * MESSAGES + 1):
        cluster.wait_for(lambda: client.has(BasicDeliver))
        (body,) = client.deliveries()
        nodes.append(body.split()[0])
        client.said.clear()
        client.send(BasicAck(tag))
    return nodes


def test_the_fragment_in_the_same_zone_is_drained_first() -> None:
    cluster = InZones(3)
    client = filled(cluster, "n2", "n3")
    assert taken(cluster, client) == ["n3"] * MESSAGES + ["n2"] * MESSAGES


def test_fragments_as_near_as_each_other_take_turns() -> None:
    cluster = Cluster(3)
    client = filled(cluster, "n2", "n3")
    nodes = taken(cluster, client)
    assert nodes[:MESSAGES].count("n2") in (2, 3)
