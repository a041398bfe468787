"""Who publishes faster than disks and copies take in waits for them, not for memory."""

from fedq.amqp.content import encode_properties
from fedq.amqp.methods import ConnectionBlocked, QueueDeclare, QueueDeclareOk
from fedq.core.limits import KIB, MIB
from fedq.node.clients.memory import held_bytes
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import Cluster

MEMORY = 16 * MIB
#: 64 KiB of persistent messages at a time.
PIECE = publish(1, "", "q", bytes(4_000), encode_properties({"delivery_mode": 2})) * 16


def test_a_copy_whose_disk_lags_holds_publishers_long_before_memory_is_full() -> None:
    cluster = Cluster(3, memory_bytes_max=MEMORY)
    client = cluster.client("n1")
    client.ask(QueueDeclare("q", durable=True, arguments={"x-fedq-replicas": 3}), QueueDeclareOk)
    cluster.disk_waits("n2", True)
    written = 0
    while client.is_read and written < MEMORY:
        client.write(PIECE)
        cluster.settle()
        written += len(PIECE)
    assert MIB <= written < 2 * MIB, "a sixteenth of memory, and what a turn brings"
    cluster.pass_ms(600)
    assert all(held_bytes(cluster.node(name).state) < MEMORY // 2 for name in ("n1", "n2", "n3"))
    assert not client.is_read
    assert not client.has(ConnectionBlocked)
    cluster.disk_waits("n2", False)
    cluster.wait_for(lambda: client.is_read)


def test_a_window_is_neither_tiny_nor_huge() -> None:
    for memory, window in ((MIB, 256 * KIB), (64 * MIB, 4 * MIB), (1 << 40, 16 * MIB)):
        settings = Cluster(1, memory_bytes_max=memory).node("n1").state.settings
        assert settings.publish_window_bytes == window
