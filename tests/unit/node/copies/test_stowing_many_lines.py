"""Many queues, each a little longer than what its beginning keeps in memory."""

from typing import Any

from fedq.amqp.methods import QueueDeclare, QueueDeclareOk
from fedq.core.limits import MIB
from tests.unit.node.harness import Cluster

SETTINGS: Any = {"memory_bytes_max": 16 * MIB, "segment_bytes_max": 4 * MIB}
#: What each keeps is a sixty-fourth of memory: 256 KiB.
QUEUES, EACH = 80, 40


def test_publishers_go_on_where_all_bodies_may_leave_memory() -> None:
    cluster = Cluster(1, **SETTINGS)
    client = cluster.client()
    for number in range(QUEUES):
        client.ask(QueueDeclare(f"q{number}", durable=True), QueueDeclareOk)
    state = cluster.node("n1").state
    for _ in range(EACH):
        for number in range(QUEUES):
            client.publish(f"q{number}", "x" * 10_000)
        cluster.pass_ms(100)
    cluster.pass_ms(5_000)
    total = sum(p.fragment.bytes_held for p in state.primaries.values())
    held = total - sum(p.fragment.fresh.stowed_bytes for p in state.primaries.values())
    assert not state.memory_full, f"{held} of {total} bytes are in memory"
    assert sum(p.fragment.ready_count for p in state.primaries.values()) == QUEUES * EACH


def test_what_left_memory_is_not_read_back_while_nobody_wants_it() -> None:
    """A line of 400 KB keeps 256 KiB; the rest leaves, is read ahead, leaves again, and so on."""
    cluster = Cluster(1, **SETTINGS)
    client = cluster.client()
    for number in range(20):
        client.ask(QueueDeclare(f"q{number}", durable=True), QueueDeclareOk)
    state = cluster.node("n1").state
    for _ in range(EACH):
        for number in range(20):
            client.publish(f"q{number}", "x" * 10_000)
        cluster.pass_ms(100)
    cluster.pass_ms(5_000)
    before = state.reads.asked
    cluster.pass_ms(10_000)
    assert state.reads.asked == before
