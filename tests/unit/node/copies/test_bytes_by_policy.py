"""Long queues whose length comes to be limited in bytes, by a policy, when much is on disk."""

import pytest

from tests.unit.node.copies.test_long_queues import SMALL, body, drained
from tests.unit.node.copies.test_long_queues_ranked import (
    count_of,
    declared,
    fragment_of,
    plain,
    publish,
    ranked,
)
from tests.unit.node.harness import Cluster
from tests.unit.node.map.test_policies import drop, put


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_bound_in_bytes_that_is_not_reached_loses_nothing_of_priorities(exclusive: bool) -> None:
    cluster = Cluster(1, **SMALL, exclusive_queue_bytes=0, exclusive_queue_messages=0)
    client = declared(cluster, exclusive)
    publish(cluster, client, range(300))
    put(cluster, {"max-length-bytes": 1 << 30})
    assert count_of(client) == 300
    publish(cluster, client, range(300, 320))
    assert drained(cluster, client, 320, True) == ranked(range(320))
    assert count_of(client) == 0


def test_of_a_long_queue_with_priorities_that_is_cut_the_last_ones_stay() -> None:
    cluster = Cluster(1, **SMALL)
    client = declared(cluster)
    publish(cluster, client, range(300))
    assert fragment_of(cluster).fresh.stowed_count > 200
    size = len(body(0))
    put(cluster, {"max-length-bytes": 50 * size})
    cluster.pass_ms(5_000)
    # Some may be more, as sizes on the disk are estimated until they are read.
    left = count_of(client)
    assert 50 <= left < 150
    drop(cluster)
    expected = ranked(range(300))[300 - left :]
    assert plain(drained(cluster, client, left, True)) == expected
    assert count_of(client) == 0


def test_a_queue_that_begins_anew_with_such_a_policy_has_all_and_obeys_it() -> None:
    cluster = Cluster(1, **SMALL)
    client = declared(cluster)
    publish(cluster, client, range(300))
    put(cluster, {"max-length-bytes": 1 << 30})
    cluster.kill("n1")
    cluster.start("n1")
    cluster.pass_ms(5_000)
    client = cluster.client()
    assert count_of(client) == 300
    assert plain(drained(cluster, client, 300, True)) == ranked(range(300))
