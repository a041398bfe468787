"""A queue whose consumers are on several nodes: what stays on a node, and what goes elsewhere."""

import pytest

from fedq.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.core.peer_messages import Deliver, Offer
from fedq.fragments.taking.pace import WINDOW_MS
from tests.unit.node.harness import TICK_MS, Client, Cluster

BATCH = 200


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(3)


def consuming(cluster: Cluster, no_ack: bool = True) -> tuple[Client, Client]:
    """Consumers on the node that has the queue, and on another one."""
    here, there = cluster.client("n1"), cluster.client("n2")
    here.ask(QueueDeclare("work", durable=True), QueueDeclareOk)
    for client in (here, there):
        client.ask(BasicConsume("work", "c", no_ack=no_ack), BasicConsumeOk)
    cluster.pass_ms(100)
    return here, there


def stop_reading(client: Client, stopped: bool = True) -> None:
    """The client's socket is full, or has room again."""
    connection = client.connection
    client.host.inbox.append(lambda node: node.on_writable(connection, not stopped))
    client.cluster.settle()


def work_off(cluster: Cluster, here: Client, rounds: int = 3) -> None:
    """The consumer at hand gets so many batches, one a window."""
    for _ in range(rounds):
        here.publish("work", *map(str, range(BATCH)), persistent=False)
        assert len(here.deliveries()) == BATCH
        cluster.now_ms += WINDOW_MS


def crossed(cluster: Cluster) -> list[str]:
    """Deliveries and offers between nodes since the last look, by kind."""
    kinds = [type(m).__name__ for _, _, m in cluster.overheard if isinstance(m, Deliver | Offer)]
    cluster.overheard.clear()
    return kinds


def test_what_a_busy_consumer_takes_in_a_moment_is_left_for_it(cluster: Cluster) -> None:
    here, there = consuming(cluster)
    work_off(cluster, here)
    stop_reading(here)
    cluster.overheard.clear()
    here.publish("work", *map(str, range(BATCH // 2)), persistent=False)
    assert crossed(cluster) == []
    stop_reading(here, False)
    assert len(here.deliveries()) == BATCH // 2
    assert there.deliveries() == []


def test_what_is_more_than_that_goes_elsewhere_at_once(cluster: Cluster) -> None:
    here, there = consuming(cluster)
    work_off(cluster, here)
    stop_reading(here)
    here.publish("work", *map(str, range(1_000)), persistent=False)
    assert 1_000 - BATCH <= len(there.deliveries()) < 1_000


def test_a_consumer_that_has_stopped_is_not_waited_for(cluster: Cluster) -> None:
    here, there = consuming(cluster)
    work_off(cluster, here)
    stop_reading(here)
    here.publish("work", *map(str, range(BATCH // 2)), persistent=False)
    assert there.deliveries() == []
    cluster.pass_ms(5 * TICK_MS)
    assert len(there.deliveries()) == BATCH // 2


def test_slow_work_is_shared_at_once(cluster: Cluster) -> None:
    here, there = consuming(cluster, no_ack=False)
    for number in range(1, 9):
        here.publish("work", "task")
        here.send(BasicAck(number))
        cluster.pass_ms(TICK_MS)
    here.deliveries()
    stop_reading(here)
    here.publish("work", "urgent")
    assert there.deliveries() == ["urgent"]


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("goes", [False, True])
def test_who_has_nothing_does_not_wait_for_a_neighbour_that_is_behind(
    cluster: Cluster, goes: bool, elsewhere: bool
) -> None:
    behind, there = consuming(cluster, no_ack=False)
    if elsewhere:
        behind, there = there, behind
    behind.publish("work", *map(str, range(40)), persistent=False)
    cluster.pass_ms(2_000)
    assert len(behind.deliveries()) > 4
    # Both show signs of life: their nodes may have what they keep up with, and no more.
    behind.send(BasicAck(1))
    there.send(BasicAck(1))
    if goes:
        behind.ask(BasicCancel("c"), BasicCancelOk)
    idle = cluster.client(behind.host.name)
    idle.ask(BasicConsume("work", "c"), BasicConsumeOk)
    got = 0
    for number in range(20):
        there.publish("work", f"urgent {number}", persistent=False)
        cluster.pass_ms(TICK_MS)
        if new := len(idle.deliveries()):
            got += new
            idle.send(BasicAck(got))
    assert got > 5
    assert not behind.deliveries()
