"""A node that begins to lead lets go of no body that its own disk does not have yet."""

from typing import Any

from fedq.amqp.methods import QueueDeclare, QueueDeclareOk
from fedq.amqp.values import FieldTable
from tests.unit.node.copies.test_long_queues import body
from tests.unit.node.harness import Cluster

SETTINGS: Any = {"stow_bytes_min": 1, "read_ahead_bytes": 1_500, "backup_stall_ms": 60_000}


def test_what_is_on_its_way_to_the_disk_stays_in_memory() -> None:
    cluster = Cluster(3, **SETTINGS)
    client = cluster.client()
    arguments: FieldTable = {"x-fedq-replicas": 2}
    client.ask(QueueDeclare("q", durable=True, arguments=arguments), QueueDeclareOk)
    primary = cluster.primary_of("q")
    cluster.pass_ms(1_000)
    [backup] = [name for name in cluster.hosts if cluster.node(name).state.backups]
    cluster.disk_waits(backup, True)
    for start in range(0, 300, 20):
        client.publish("q", *[body(number) for number in range(start, start + 20)])
    cluster.kill(primary)
    cluster.wait_for(lambda: bool(cluster.node(backup).state.primaries), 30_000)
    cluster.pass_ms(3_000)
    state = cluster.node(backup).state
    [served] = state.primaries.values()
    assert state.synced < state.sync_asked
    assert served.fragment.ready_count == 300
    # What was let go of would have to be read from a disk that has not said that it has it.
    assert served.fragment.fresh.stowed_count == 0
    assert state.reads.asked == 0
