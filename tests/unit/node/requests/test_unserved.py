"""Queues whose homes are down: clients are told whom to start, and nobody what is not so."""

from functools import partial

import pytest

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from fedq.amqp.values import FieldTable
from fedq.core.ids import FragmentId, NodeId
from fedq.node.cluster.awaiting import PATIENCE_MS
from fedq.node.node import Node
from tests.unit.node.harness import Client, Cluster
from tests.unit.node.views.totals import cluster_of

ONE_COPY: FieldTable = {"x-fedq-replicas": 1}
PASSIVE = QueueDeclare("orders", passive=True)
SENTENCE = "home node n2 of durable queue 'orders' in vhost '/' is down: start it"


def down(cluster: Cluster, name: str) -> None:
    """The node dies, and all others know it."""
    cluster.kill(name)
    near = cluster.node("n1").state
    cluster.wait_for(lambda: not near.map.members[NodeId(name)].up)
    cluster.settle()


def of_one_home(cluster: Cluster, **arguments: int) -> Client:
    """A client on n1 of a durable queue with three messages, of which n2 has the only copy."""
    table: FieldTable = {
        **ONE_COPY,
        **{f"x-{k}".replace("_", "-"): v for k, v in arguments.items()},
    }
    maker = cluster.client("n2")
    maker.ask(ConfirmSelect(), ConfirmSelectOk)
    maker.ask(QueueDeclare("orders", durable=True, arguments=table), QueueDeclareOk)
    maker.publish("orders", *"abc")
    cluster.wait_for(lambda: maker.has(BasicAck))
    return cluster.client("n1")


def refusal(client: Client, request: Method) -> tuple[int, str]:
    """Why the server closes the channel; another one is opened in its place."""
    closed = client.ask(request, ChannelClose)
    client.send(ChannelCloseOk())
    client.ask(ChannelOpen(), ChannelOpenOk)
    return closed.reply_code, closed.reply_text.removeprefix("NOT_FOUND - ")


ASKED = (
    PASSIVE,
    BasicGet("orders"),
    BasicConsume("orders", "c"),
    QueuePurge("orders"),
    QueueDelete("orders"),
    QueueDelete("orders", if_empty=True),
)


@pytest.mark.parametrize("request_", ASKED, ids=lambda request: type(request).__name__)
def test_who_asks_for_a_queue_without_a_home_is_told_whom_to_start(request_: Method) -> None:
    cluster = Cluster(3)
    client = of_one_home(cluster)
    down(cluster, "n2")
    assert refusal(client, request_) == (404, SENTENCE)
    cluster.start("n2")
    cluster.wait_for(lambda: cluster.node("n1").state.map.members[NodeId("n2")].up)
    assert client.ask(PASSIVE, QueueDeclareOk).message_count == 3


def test_what_is_declared_anew_is_there_and_publishes_wait_for_the_home() -> None:
    cluster = Cluster(3)
    client = of_one_home(cluster)
    down(cluster, "n2")
    declare = QueueDeclare("orders", durable=True, arguments=ONE_COPY)
    client.ask(declare, QueueDeclareOk)
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    client.publish("orders", "d")
    cluster.pass_ms(5_000)
    assert not client.has(BasicAck)
    cluster.start("n2")
    cluster.wait_for(lambda: client.has(BasicAck), 20_000)
    assert client.ask(PASSIVE, QueueDeclareOk).message_count == 4


def test_a_node_through_which_much_is_published_becomes_a_home() -> None:
    cluster = Cluster(3, fragment_threshold=5)
    client = of_one_home(cluster)
    down(cluster, "n2")
    client.publish("orders", *"defgh")
    cluster.wait_for(lambda: _homes(cluster) == 2)
    client.ask(PASSIVE, QueueDeclareOk)
    other = cluster.client("n1")
    other.ask(ConfirmSelect(), ConfirmSelectOk)
    other.publish("orders", "i")
    cluster.wait_for(lambda: other.has(BasicAck))
    assert client.ask(PASSIVE, QueueDeclareOk).message_count == 1


def _homes(cluster: Cluster) -> int:
    return len(cluster.node("n1").state.map.fragments)


def test_a_queue_of_which_a_part_is_served_answers_with_that_and_is_not_known_to_be_empty() -> None:
    cluster = Cluster(3)
    maker = cluster.client("n1")
    table: FieldTable = {**ONE_COPY, "x-fedq-fragments": 3}
    maker.ask(QueueDeclare("orders", durable=True, arguments=table), QueueDeclareOk)
    down(cluster, "n2")
    assert maker.ask(PASSIVE, QueueDeclareOk).message_count == 0
    code, text = refusal(maker, QueueDelete("orders", if_empty=True))
    assert code == 406
    assert text.endswith(f"nobody knows whether it is empty: {SENTENCE}")
    maker.ask(QueueDelete("orders"), QueueDeleteOk)


def test_a_queue_that_is_not_durable_is_none_of_these() -> None:
    cluster = Cluster(3)
    maker = cluster.client("n2")
    maker.ask(QueueDeclare("orders", arguments=ONE_COPY), QueueDeclareOk)
    client = cluster.client("n1")
    down(cluster, "n2")
    client.ask(PASSIVE, QueueDeclareOk)
    client.ask(QueuePurge("orders"), QueuePurgeOk)


def cold(cluster: Cluster) -> str:
    """A queue of two copies; both die, and the one that did not lead is back. Returns its node."""
    maker = cluster.client("n2")
    maker.ask(ConfirmSelect(), ConfirmSelectOk)
    maker.ask(QueueDeclare("orders", durable=True), QueueDeclareOk)
    maker.publish("orders", *"abc")
    cluster.wait_for(lambda: maker.has(BasicAck))
    (info,) = cluster.node("n1").state.map.fragments.values()
    (backup,) = info.backups
    primary = info.primary
    assert "n5" not in (primary, backup)
    for name in (primary, backup):
        cluster.kill(name, unseen=True)
    cluster.start(backup)
    return backup


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (PASSIVE, QueueDeclareOk), (BasicGet("orders"), BasicGetOk),
        (BasicConsume("orders", "c"), BasicConsumeOk), (QueuePurge("orders"), QueuePurgeOk),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, type) else "",
)  # fmt: skip
def test_who_asks_while_a_copy_begins_anew_from_its_disk_waits_for_it(
    request_: Method, answer: type[Method]
) -> None:
    cluster = Cluster(5, revive_wait_ms=4_000)
    client = cluster.client("n5")
    cold(cluster)
    cluster.wait_for(lambda: not cluster.node("n5").state.is_in_memory(_only(cluster)))
    client.send(request_)
    cluster.pass_ms(1_000)
    assert not client.has(ChannelClose)
    assert not client.has(BasicGetEmpty)
    cluster.wait_for(lambda: client.has(answer), 20_000)
    said = client.take(answer)
    assert getattr(said, "message_count", 3) in (2, 3)


def _only(cluster: Cluster) -> FragmentId:
    return next(iter(cluster.node("n5").state.map.fragments))


def test_a_get_that_waited_for_a_copy_is_answered_when_that_goes_again() -> None:
    cluster = Cluster(5, revive_wait_ms=60_000)
    client = cluster.client("n5")
    backup = cold(cluster)
    cluster.wait_for(lambda: not cluster.node("n5").state.is_in_memory(_only(cluster)))
    client.send(BasicGet("orders"))
    cluster.pass_ms(500)
    cluster.kill(backup)
    cluster.wait_for(lambda: client.has(BasicGetEmpty) or client.has(ChannelClose), 20_000)


# --- what the log and the status say --------------------------------------------------------------


def told(cluster: Cluster, name: str, part: str) -> list[str]:
    return [line for line in cluster.hosts[NodeId(name)].story if part in line]


def test_fragments_that_wait_are_told_once_and_when_they_do_not_any_more() -> None:
    cluster = Cluster(3)
    of_one_home(cluster)
    assert cluster_of(cluster.node("n1")).awaited == ()
    down(cluster, "n2")
    cluster.pass_ms(30_000)
    sentence = (
        "1 fragments wait for n2, which had all that was confirmed: start n2; queues 'orders'"
    )
    assert told(cluster, "n1", "wait for") == [sentence]
    assert told(cluster, "n3", "wait for") == [sentence]
    (awaited,) = cluster_of(cluster.node("n3")).awaited
    assert (awaited.nodes, awaited.fragments) == (("n2",), 1)
    assert [key.name for key in awaited.queues] == ["orders"]
    cluster.start("n2")
    cluster.wait_for(lambda: bool(told(cluster, "n1", "no fragment waits")), 20_000)
    assert cluster_of(cluster.node("n1")).awaited == ()
    cluster.pass_ms(30_000)
    assert len(told(cluster, "n1", "no fragment waits")) == 1


def refused(node: Node, peer: NodeId) -> None:
    """Nobody listens at the peer's address."""
    node.on_link_down(peer, True)


def test_a_start_says_how_many_others_it_waits_for() -> None:
    cluster = Cluster(3)
    for name in ("n1", "n2", "n3"):
        cluster.kill(name)
    cluster.start("n3")
    host = cluster.hosts[NodeId("n3")]
    for other in ("n1", "n2"):
        host.inbox.append(partial(refused, peer=NodeId(other)))
    cluster.pass_ms(20 * PATIENCE_MS)
    waits = "this node waits for a majority of the cluster"
    assert told(cluster, "n3", waits) == [f"{waits}: start one of n1, n2"]
    cluster.start("n1")
    cluster.wait_for(lambda: cluster.node("n3").state.joined, 20_000)
    assert len(told(cluster, "n3", waits)) == 1


def test_a_start_in_time_says_nothing() -> None:
    cluster = Cluster(3)
    cluster.pass_ms(20 * PATIENCE_MS)
    assert told(cluster, "n1", "waits for") == []
