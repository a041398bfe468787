"""Where a queue's messages are, as a node tells it: in memory, on its disk, on which copy."""

import pytest

from fedq.amqp.methods import BasicGet, BasicGetOk, QueuePurge, QueuePurgeOk
from fedq.core.ids import NodeId, QueueKey
from fedq.node.records.ages import MARK_EVERY_MS
from fedq.node.views.overview import overview
from fedq.node.views.storage_types import CopyOverview, CopyRole
from tests.unit.node.copies.test_long_queues import SMALL, body, filled, publish, stowed
from tests.unit.node.copies.test_scratch import filled as filled_with_transient
from tests.unit.node.copies.test_scratch import scratched
from tests.unit.node.harness import Cluster
from tests.unit.node.streams.test_larger_than_memory import LARGER
from tests.unit.node.streams.test_reading import declared, reads

QUEUE, STREAM = QueueKey("/", "q"), QueueKey("/", "s")
BODY_BYTES = len(body(0))


def copies(cluster: Cluster, name: str = "n1", queue: QueueKey = QUEUE) -> list[CopyOverview]:
    return list(overview(cluster.node(name)).copies(queue))


def test_both_copies_say_what_is_in_memory_and_what_is_on_disk_alone() -> None:
    cluster = Cluster(2, **SMALL)
    filled(cluster, 300, replicas=2)
    for name, role in (("n1", CopyRole.PRIMARY), ("n2", CopyRole.BACKUP)):
        (copy,) = copies(cluster, name)
        assert (copy.role, copy.messages) == (role, 300)
        assert copy.stowed_messages == stowed(cluster, name) > 100
        assert copy.stowed_bytes >= copy.stowed_messages * BODY_BYTES
        assert copy.memory_bytes >= (300 - copy.stowed_messages) * BODY_BYTES
        assert copy.memory_bytes < 300 * BODY_BYTES
        assert copy.journal_bytes >= 300 * BODY_BYTES
        assert copy.journal_segments > 1
        assert copy.scratch_bytes == 0


def test_transient_bodies_are_in_scratch_files() -> None:
    cluster = Cluster(1, **SMALL)
    client = filled_with_transient(cluster, 300)
    (copy,) = copies(cluster)
    assert copy.stowed_messages == scratched(cluster) > 100
    assert copy.scratch_bytes >= copy.stowed_messages * BODY_BYTES
    assert copy.scratch_bytes == cluster.node("n1").state.scratch.bytes_held
    client.ask(QueuePurge("q"), QueuePurgeOk)
    cluster.pass_ms(5_000)
    (copy,) = copies(cluster)
    assert (copy.messages, copy.stowed_messages, copy.scratch_bytes) == (0, 0, 0)


def test_what_is_read_ahead_is_at_hand() -> None:
    cluster = Cluster(1, **SMALL)
    client = filled(cluster, 300)
    for _ in range(100):
        client.send(BasicGet("q", no_ack=True))
        cluster.wait_for(lambda: client.has(BasicGetOk))
        client.said.clear()
    (copy,) = copies(cluster)
    assert copy.messages == 200
    assert 0 < copy.at_hand_bytes < 200 * BODY_BYTES


def test_a_checkpoint_finds_what_is_dead_and_who_has_records_there_is_told() -> None:
    cluster = Cluster(1, **SMALL)
    client = filled(cluster, 300)
    # The first one stays where it is; all that was near it goes.
    for number in range(250):
        client.send(BasicGet("q", no_ack=number > 0))
        cluster.wait_for(lambda: client.has(BasicGetOk))
        client.said.clear()
    plan = cluster.node("n1").state.plan
    before = plan.checkpoint
    for start in range(300, 3_000, 100):
        publish(cluster, client, range(start, start + 100))
        if plan.checkpoint > before:
            break
    (copy,) = copies(cluster)
    segments = [each for each in plan.full if each.number < plan.checkpoint]
    assert segments, "there is no checkpoint"
    assert copy.dead_bytes == overview(cluster.node("n1")).node().journal_dead_bytes
    assert copy.dead_bytes <= sum(each.size for each in segments)
    assert copy.journal_bytes <= plan.bytes_held
    assert copy.journal_segments == len(plan.segments)


def test_the_age_of_the_first_in_line_is_told_between_two_marks() -> None:
    cluster = Cluster(1)
    client = filled(cluster, 20)
    cluster.pass_ms(3 * MARK_EVERY_MS)
    publish(cluster, client, range(20, 40))
    (copy,) = copies(cluster)
    assert copy.age_ms is not None
    assert copy.age_ms_max is not None
    assert 2 * MARK_EVERY_MS <= copy.age_ms <= 3 * MARK_EVERY_MS + 2_000 <= copy.age_ms_max + 5_000
    for _ in range(20):
        client.ask(BasicGet("q", no_ack=True), BasicGetOk)
    (copy,) = copies(cluster)
    assert copy.age_ms_max is not None
    assert copy.age_ms_max <= MARK_EVERY_MS + 2_000
    client.ask(QueuePurge("q"), QueuePurgeOk)
    (copy,) = copies(cluster)
    assert (copy.age_ms, copy.age_ms_max) == (None, None)


def test_what_an_earlier_reign_has_left_is_as_old_as_this_one_at_least() -> None:
    cluster = Cluster(2)
    filled(cluster, 20, replicas=2)
    cluster.kill("n1")
    cluster.start("n1")
    cluster.wait_for(lambda: cluster.primary_of("q") == "n2")
    cluster.pass_ms(3_000)
    (copy,) = copies(cluster, "n2")
    assert copy.age_ms is not None
    assert copy.age_ms >= 2_900
    assert copy.age_ms_max is None
    assert copies(cluster, "n1")[0].age_ms is None


def test_a_copy_without_a_part_is_told_as_kept() -> None:
    cluster = Cluster(3)
    filled(cluster, 20, replicas=2)
    backup = next(n for n in ("n2", "n3") if copies(cluster, n))
    cluster.kill(backup)
    cluster.pass_ms(10_000)
    assert [len(copies(cluster, n)) for n in ("n1", "n2", "n3") if n != backup] == [1, 1]
    state = cluster.node("n1").state
    assert not any(NodeId(backup) in info.copies for info in state.map.fragments.values())
    cluster.start(backup)
    cluster.wait_for(lambda: cluster.node(backup).state.joined)
    kept = copies(cluster, backup)
    assert [(copy.role, copy.messages) for copy in kept] == [(CopyRole.KEPT, 20)]
    assert kept[0].memory_bytes + kept[0].stowed_bytes >= 20 * BODY_BYTES


def test_a_stream_tells_its_offsets_and_what_is_read_for_its_readers() -> None:
    cluster = Cluster(1, **LARGER)
    client = declared(cluster)
    (empty,) = copies(cluster, queue=STREAM)
    assert empty.stream is not None
    assert (empty.stream.first_offset, empty.stream.last_offset) == (None, None)
    for number in range(50):
        client.publish("s", body(number))
    cluster.pass_ms(5_000)
    reads(client, prefetch=5)
    (copy,) = copies(cluster, queue=STREAM)
    assert copy.stream is not None
    assert (copy.stream.first_offset, copy.stream.last_offset) == (0, 49)
    assert copy.stream.size >= 50 * BODY_BYTES
    assert copy.stream.segments >= 1
    assert copy.stream.readers == 1
    assert copy.stowed_messages > 0


@pytest.mark.parametrize("name", ["", "other", "q\0", "\ud800"])
def test_a_queue_that_is_not_there_has_no_copies(name: str) -> None:
    assert list(overview(Cluster(1).node("n1")).copies(QueueKey("/", name))) == []
