"""Publishes of a publisher with a name, by hand: bodies say publisher and sequence."""

from collections.abc import Iterable

from fedq.amqp.content import encode_properties
from fedq.amqp.methods import (
    BasicConsume,
    BasicConsumeOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.amqp.values import FieldTable, TableValue
from fedq.core.ids import FragmentId
from fedq.node.node import Node
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import Client, Cluster

MANY = range(1, 6)


def headers(publisher: TableValue, sequence: TableValue) -> bytes:
    """The properties of a persistent message with both headers; None: without that one."""
    table = {"x-fedq-publisher": publisher, "x-fedq-sequence": sequence}
    present: FieldTable = {name: value for name, value in table.items() if value is not None}
    return encode_properties({"headers": present, "delivery_mode": 2})


def send(
    client: Client, queue: str, sequences: Iterable[int], *, publisher: str = "p",
    exchange: str = "", channel: int = 1, body: str = "",
) -> None:  # fmt: skip
    """Publishes these, in one piece of bytes; `body`: what is behind publisher and sequence."""
    client.write(
        b"".join(
            publish(
                channel, exchange, queue, f"{publisher}{n}{body}".encode(), headers(publisher, n)
            )
            for n in sequences
        )
    )
    client.cluster.settle()


def queue_on(cluster: Cluster, name: str = "n1", **arguments: TableValue) -> Client:
    """A client of the node with a channel in confirm mode, and a durable queue "q"."""
    client = cluster.client(name, channels=2)
    table = {key.replace("_", "-"): value for key, value in arguments.items()}
    client.ask(QueueDeclare("q", durable=True, arguments=table), QueueDeclareOk)
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    client.said.clear()
    return client


def again(cluster: Cluster, name: str) -> Client:
    """A client that has come back, through this node."""
    client = cluster.client(name, channels=2)
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    client.said.clear()
    return client


def all_of(cluster: Cluster, name: str = "n1", queue: str = "q") -> list[str]:
    """What a new consumer is delivered."""
    client = cluster.client(name)
    client.ask(BasicConsume(queue, "reader"), BasicConsumeOk)
    cluster.pass_ms(500)
    found = client.deliveries()
    client.hang_up()
    cluster.settle()
    return found


def bodies(sequences: Iterable[int], publisher: str = "p", mark: str = "") -> list[str]:
    """What is delivered of these."""
    return [f"{mark}{publisher}{n}" for n in sequences]


def known_to(node: Node, fragment: int = 1) -> dict[str, int]:
    """The highest sequence of each publisher, as a node has it of a fragment."""
    identity = FragmentId(fragment)
    primary = node.state.primaries.get(identity)
    if primary is not None:
        publishers = primary.fragment.publishers
        marks = publishers.marks if publishers is not None else {}
    else:
        marks = node.state.backups[identity].replica.publishing.sure
    return {name: mark.highest for name, mark in marks.items()}
