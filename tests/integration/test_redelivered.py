"""What is marked `redelivered` after stops in order, and after kills (ADR 0046)."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.integration.conftest import Connect
from tests.integration.harness import Cluster
from tests.integration.stock import PERSISTENT
from tests.integration.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.patience(120)]


#: Nobody is taken for dead, or not waited for, because the machine has much else to do: whatever
#: leads then knows less, and marks more (ADR 0046). A killed process is noticed at once all the
#: same, for its host refuses connections.
PATIENT = {"timing": {"lease_ms": 2_000, "suspect_ms": 6_000, "revive_wait_ms": 60_000}}


def fill(cluster: Cluster, node: str, open_connection: Connect) -> None:
    """Five persistent messages; the first two are handed out, and the first is acknowledged."""
    connection = open_connection(cluster.nodes[node].amqp)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("kept", durable=True)
    for number in range(5):
        channel.basic_publish("", "kept", b"%d" % number, PERSISTENT)
    method, _, _ = channel.basic_get("kept")
    channel.basic_ack(method.delivery_tag)
    channel.basic_get("kept")
    # Its answer comes behind the acknowledgement.
    channel.queue_declare("kept", passive=True)
    connection.close()


def look(
    cluster: Cluster, node: str, open_connection: Connect, most: int = 9
) -> list[tuple[bytes, bool]]:
    """The first messages and whether they are marked; they come back when the client goes."""
    connection = open_connection(cluster.nodes[node].amqp)
    channel = connection.channel()
    found: list[tuple[bytes, bool]] = []
    while len(found) < most and (answer := channel.basic_get("kept"))[0] is not None:
        found.append((answer[2], answer[0].redelivered))
    connection.close()
    return found


def marked(*numbers: int, among: Sequence[int] = (1, 2, 3, 4)) -> list[tuple[bytes, bool]]:
    return [(b"%d" % number, number in numbers) for number in among]


def stop_in_order(cluster: Cluster, names: Sequence[str]) -> None:
    """One after the other, each when the map says that the ones before are gone.

    The commit that says so may otherwise lie between what the last one says and what is next: then
    all is marked, and none is lost (ADR 0046).
    """
    for name in names:
        assert cluster.terminate(name) == 0
        if sum(node.process is not None for node in cluster.nodes.values()) > len(names) // 2:
            until(f"{name} is in no set in sync", partial(is_gone, cluster, name))


def is_gone(cluster: Cluster, name: str) -> bool:
    return all(name not in fragment["in_sync"] for fragment in cluster.fragments("kept"))


def start_all(cluster: Cluster) -> None:
    cluster.start_all()
    cluster.wait_whole("kept")


@pytest.mark.parametrize("names", ["a", "abc"])
@pytest.mark.parametrize("together", [False, True])
def test_after_a_stop_in_order_only_what_was_handed_out_is_marked(
    open_connection: Connect, tmp_path: Path, names: str, together: bool
) -> None:
    with Cluster(tmp_path, names=names, more=PATIENT) as cluster:
        first, last = names[0], names[-1]
        fill(cluster, last, open_connection)
        cluster.wait_whole("kept")
        if together:
            with ThreadPoolExecutor(len(names)) as pool:
                assert not any(pool.map(cluster.terminate, names))
        else:
            stop_in_order(cluster, names)
        start_all(cluster)
        found = look(cluster, first, open_connection, most=2)
        if together and len(names) > 1 and found == marked(1, 2, among=(1, 2)):
            # A node handed over to one that was stopping, too, and ended before it heard that: then
            # all are marked, and none is lost (ADR 0046).
            assert look(cluster, first, open_connection) == marked(1, 2, 3, 4)
            return
        assert found == marked(1, among=(1, 2))
        stop_in_order(cluster, names[::-1])
        start_all(cluster)
        assert look(cluster, last, open_connection, most=3) == marked(1, 2, among=(1, 2, 3))
        for name in names:
            cluster.kill(name)
        start_all(cluster)
        assert look(cluster, first, open_connection) == marked(1, 2, 3, 4)


def test_a_fragment_that_moves_at_a_stop_keeps_what_nobody_saw(
    open_connection: Connect, tmp_path: Path
) -> None:
    with Cluster(tmp_path, more=PATIENT) as cluster:
        fill(cluster, "b", open_connection)
        cluster.wait_whole("kept")
        primary = cluster.primary_of("kept")
        others = [name for name in cluster.nodes if name != primary]
        assert cluster.terminate(primary) == 0
        assert look(cluster, others[0], open_connection, most=2) == marked(1, among=(1, 2))
        cluster.wait_whole("kept")
        second = cluster.primary_of("kept")
        cluster.kill(second)
        third = next(name for name in others if name != second)
        cluster.nodes[primary].start()
        cluster.wait_served(third)
        assert look(cluster, third, open_connection) == marked(1, 2, 3, 4)
