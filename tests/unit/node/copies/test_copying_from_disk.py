"""Copies of what is on disk alone, while the backup is slow, and once they are done."""

from typing import Any

from fedq.amqp.methods import BasicAck, ConfirmSelect, ConfirmSelectOk, QueueDeclare, QueueDeclareOk
from fedq.amqp.values import FieldTable
from fedq.core.ids import NodeId
from fedq.core.limits import COPY_CHUNKS_IN_FLIGHT_MAX, MIB
from fedq.node.clients.memory import held_bytes
from tests.unit.node.copies.test_long_queues import stowed
from tests.unit.node.harness import TICK_MS, Cluster

LARGER: Any = {
    "stow_bytes_min": 1, "read_ahead_bytes": 15_000, "segment_bytes_max": 8 * MIB,
}  # fmt: skip


def prepared(size: int = 10_000, each: int = 10) -> tuple[Cluster, str, str]:
    """A queue of some mebibytes on disk alone, of which a backup has nothing: it was down."""
    cluster = Cluster(3, **LARGER)
    client = cluster.client()
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    arguments: FieldTable = {"x-fedq-replicas": 3}
    client.ask(QueueDeclare("q", durable=True, arguments=arguments), QueueDeclareOk)
    primary = cluster.primary_of("q")
    assert primary == "n1"
    backup = "n3"
    cluster.kill(backup)
    cluster.pass_ms(4_000)
    for number in range(40):
        client.publish("q", *[f"{number:06} {'x' * size}" for _ in range(each)])
        cluster.wait_for(lambda: client.has(BasicAck))
        client.take(BasicAck)
        cluster.pass_ms(600)
    assert stowed(cluster, "n1") > 20 * each
    return cluster, primary, backup


def test_a_backup_whose_disk_is_slow_does_not_have_the_primary_read_over_and_over() -> None:
    """The last chunk under way is cut short, as its next message is on disk alone."""
    cluster, primary, backup = prepared(300_000, 1)
    state = cluster.node(primary).state
    [served] = state.primaries.values()
    cluster.start(backup)
    name = NodeId(backup)
    while (progress := served.replication.backups.get(name)) is None or not progress.chunk_sent:
        if not cluster.turn():
            cluster.now_ms += TICK_MS
            for host in cluster.hosts.values():
                host.inbox.append(lambda node: node.on_tick())
    cluster.turn()
    cluster.disk_waits(backup, True)
    for _ in range(60):
        cluster.turn()
    assert progress.chunk_sent - progress.chunk_acked == COPY_CHUNKS_IN_FLIGHT_MAX
    before = state.reads.asked
    for _ in range(200):
        cluster.turn()
    assert state.reads.asked - before <= 2
    # What was read waits until the backup has acknowledged something, and is counted.
    kept = served.replication.bytes_read
    assert sum(map(len, progress.read.values())) < kept <= 3 * MIB
    held = held_bytes(state)
    progress.put_read({})
    assert held - held_bytes(state) == kept


def test_nothing_is_left_in_memory_of_what_was_read_for_a_copy() -> None:
    cluster, primary, backup = prepared()
    state = cluster.node(primary).state
    [served] = state.primaries.values()
    cluster.start(backup)
    cluster.pass_ms(10_000)
    assert served.replication.settled
    assert NodeId(backup) in served.replication.in_sync
    assert served.replication.bytes_read == 0
    assert not any(progress.read for progress in served.replication.backups.values())
