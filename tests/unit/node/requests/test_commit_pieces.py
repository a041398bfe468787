"""A commit of very many publishes to queues of this node alone takes many turns."""

from itertools import pairwise

import pytest

from fedq.amqp.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicReturn,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
    encode_method,
)
from tests.unit.node.harness import Client, Cluster

COUNT = 400
SMALL = 60


def begin(cluster: Cluster, private: str) -> tuple[Client, Client]:
    """Who owns the private queue, and who has published to it, to one that all see and nowhere."""
    owner = cluster.client("n1")
    owner.ask(QueueDeclare(private, exclusive=True), QueueDeclareOk)
    client = cluster.client("n1")
    client.ask(QueueDeclare("shared", durable=True), QueueDeclareOk)
    client.ask(TxSelect(), TxSelectOk)
    for number in range(COUNT):
        client.publish(private, str(number))
    client.publish("shared", "one", "two")
    client.publish("none", "lost", mandatory=True)
    return owner, client


def test_private_queues_get_what_is_committed_as_turns_have_room() -> None:
    cluster = Cluster(1)
    state = cluster.node("n1").state
    owner, client = begin(cluster, "mine")
    (private,) = state.private.values()
    (primary,) = state.primaries.values()
    state.work.resize(SMALL)
    client.write(encode_method(1, TxCommit()))
    counts = [0]
    while counts[-1] < COUNT:
        assert not client.has(TxCommitOk)
        assert not primary.fragment.messages, "what is shared sets out when all is there"
        assert cluster.turn()
        counts.append(len(private.fragment.messages))
    assert max(after - before for before, after in pairwise(counts)) <= SMALL
    cluster.settle()
    said = client.heard()
    assert [type(method) for method in said] == [BasicReturn, TxCommitOk]
    assert len(primary.fragment.messages) == 2
    owner.ask(BasicConsume("mine", no_ack=True), BasicConsumeOk)
    cluster.settle()
    assert owner.deliveries() == [str(number) for number in range(COUNT)]
    assert client.host.node is not None
    assert not any(each.transaction_bytes for each in state.clients.values())


@pytest.mark.parametrize("who", ["publisher", "owner"])
def test_a_commit_ends_well_when_somebody_leaves_on_the_way(who: str) -> None:
    cluster = Cluster(1)
    state = cluster.node("n1").state
    owner, client = begin(cluster, "mine")
    (primary,) = state.primaries.values()
    state.work.resize(SMALL)
    client.write(encode_method(1, TxCommit()))
    cluster.turn()
    (client if who == "publisher" else owner).hang_up()
    cluster.pass_ms(1_000)
    assert len(primary.fragment.messages) == 2
    assert not state.waiting
    if who == "publisher":
        (private,) = state.private.values()
        assert len(private.fragment.messages) == COUNT
    else:
        assert client.has(TxCommitOk)


def test_a_shared_queue_that_goes_on_the_way_holds_up_no_commit() -> None:
    cluster = Cluster(1)
    state = cluster.node("n1").state
    _, client = begin(cluster, "mine")
    other = cluster.client("n1")
    state.work.resize(SMALL)
    client.write(encode_method(1, TxCommit()))
    cluster.turn()
    other.ask(QueueDelete("shared"), QueueDeleteOk)
    cluster.pass_ms(1_000)
    assert client.has(TxCommitOk)
    assert not state.primaries
