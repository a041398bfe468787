"""What a node tells of its bounds and of its connections that wait."""

from fedq.amqp.methods import QueueDelete, QueueDeleteOk
from fedq.core.ids import QueueKey
from fedq.node.views.alarm_view import WAITS_TOLD_MAX, AlarmOverview
from fedq.node.views.overview import overview
from tests.unit.node.harness import Cluster
from tests.unit.node.publishing.test_blocking import MEMORY, confirming, made, queue_on, tell


def alarms(cluster: Cluster, name: str) -> AlarmOverview:
    return overview(cluster.node(name)).node().alarms


def waits(cluster: Cluster, name: str) -> list[tuple[str, str | None, int]]:
    """Full node, queue, connections."""
    return [
        (wait.node, wait.queue.name if wait.queue is not None else None, wait.connections)
        for wait in alarms(cluster, name).waits
    ]


def test_a_node_tells_its_bounds_before_anything_is_full() -> None:
    cluster = made()
    assert alarms(cluster, "n1").disk_free_bytes is None
    tell(cluster, "n1", disk_free=5_000)
    assert alarms(cluster, "n1") == AlarmOverview(
        memory_bytes_max=MEMORY, disk_free_bytes=5_000, disk_free_bytes_min=1_000
    )


def test_each_node_tells_which_of_its_connections_wait_for_which_queue_of_whom() -> None:
    cluster = made()
    for queue in ("far", "farther"):
        queue_on(cluster, "n3", queue)
    tell(cluster, "n3", disk_free=999)
    for queue in ("far", "farther", "farther"):
        confirming(cluster, "n1").publish(queue, "1")
    assert (alarms(cluster, "n3").disk, alarms(cluster, "n3").memory) == (True, False)
    assert alarms(cluster, "n3").connections == 0
    assert alarms(cluster, "n1").connections == 3
    assert waits(cluster, "n1") == [("n3", "farther", 2), ("n3", "far", 1)]
    cluster.client("n2").ask(QueueDelete("far"), QueueDeleteOk)
    assert ("n3", "far", 1) not in waits(cluster, "n1")
    tell(cluster, "n3")
    assert alarms(cluster, "n1").connections == 0
    assert waits(cluster, "n1") == []


def test_who_waits_for_the_memory_of_its_own_node_waits_for_no_queue() -> None:
    cluster = made()
    queue_on(cluster, "n3", "far")
    client = confirming(cluster, "n1")
    client.publish("far", "1")
    tell(cluster, "n1", waiting=2 * MEMORY)
    assert alarms(cluster, "n1").memory
    assert waits(cluster, "n1") == [("n1", None, 1)]


def test_of_many_queues_some_are_told() -> None:
    cluster = made()
    names = [f"q{number:02}" for number in range(WAITS_TOLD_MAX + 5)]
    for name in names:
        queue_on(cluster, "n3", name)
    tell(cluster, "n3", disk_free=999)
    for name in names:
        confirming(cluster, "n1").publish(name, "1")
    assert alarms(cluster, "n1").connections == len(names)
    told = [wait.queue for wait in alarms(cluster, "n1").waits]
    assert told == [QueueKey("/", name) for name in names[:WAITS_TOLD_MAX]]
