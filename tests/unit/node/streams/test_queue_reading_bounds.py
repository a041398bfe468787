"""Readers of queues take no more of a node than is meant for them, and lose nothing of it."""

import pytest

from fedq.core.ids import QueueKey
from fedq.node.records.streams.reservations import RESERVE, SETTLE
from tests.unit.node.copies.test_long_queues import SMALL, body
from tests.unit.node.copies.test_long_queues_ranked import declared, fragment_of, plain
from tests.unit.node.copies.test_long_queues_ranked import publish as publish_ranked
from tests.unit.node.harness import Cluster
from tests.unit.node.streams.test_queue_reading import Reader


@pytest.mark.parametrize("restarts", [False, True])
def test_what_is_reserved_of_a_queue_with_priorities_stays_in_memory(restarts: bool) -> None:
    cluster = Cluster(1, **SMALL)
    client = declared(cluster)
    publish_ranked(cluster, client, range(40), ranks=1)
    reader = Reader(cluster, queue=QueueKey("/", "q"))
    answer = reader.insist(RESERVE, 0, 40)
    publish_ranked(cluster, client, range(40, 240), ranks=1)
    assert fragment_of(cluster).stowed_count
    if restarts:
        cluster.kill("n1")
        cluster.start("n1")
        cluster.pass_ms(3_000)
    rows = plain(reader.read(0, answer.through))
    assert rows == [body(number) for number in range(answer.messages)]
    assert reader.insist(SETTLE, answer.through).messages == answer.messages
    fragment_of(cluster).check()
