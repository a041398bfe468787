"""After a stop of all, who leads: never a copy that is known to lack something."""

import pytest

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.core.ids import FragmentId, NodeId
from fedq.journal.marks import MARK_BYTES, mark_at
from fedq.node.views.overview import overview
from tests.unit.node.harness import Cluster
from tests.unit.node.views.totals import cluster_of


def published(cluster: Cluster, *bodies: str) -> None:
    """Confirmed, on a queue with copies on n1 and n2."""
    client = cluster.client("n1")
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    client.ask(QueueDeclare("orders", durable=True), QueueDeclareOk)
    for body in bodies:
        client.publish("orders", body)
        cluster.wait_for(lambda: client.has(BasicAck))
        client.take(BasicAck)
    # A quiet journal says what it has.
    cluster.pass_ms(1_200)


def consumed(cluster: Cluster, name: str) -> list[str]:
    client = cluster.client(name)
    client.ask(BasicConsume("orders", "c"), BasicConsumeOk)
    cluster.pass_ms(500)
    return [body.removeprefix("again: ") for body in client.deliveries()]


def holders(cluster: Cluster) -> list[str]:
    (info,) = cluster.node("n1").state.map.fragments.values()
    return list(info.copies)


def flip(cluster: Cluster, name: str) -> None:
    """One bit in the middle of the newest segment."""
    segments = cluster.hosts[NodeId(name)].segments
    data = segments[max(segments)]
    data[len(data) // 2] ^= 1


def test_a_flipped_bit_costs_nothing_that_another_copy_has() -> None:
    cluster = Cluster(3)
    published(cluster, "a", "b", "c", "d")
    first, second = holders(cluster)
    for name in ("n1", "n2", "n3"):
        cluster.kill(name)
    flip(cluster, first)
    other = next(name for name in ("n1", "n2", "n3") if name not in (first, second))
    cluster.start(first)
    cluster.start(other)
    cluster.pass_ms(8_000)
    assert cluster.node(other).state.primary_of(_fragment(cluster, other)) != first
    cluster.start(second)
    cluster.wait_for(lambda: cluster.primary_of("orders") == second)
    cluster.pass_ms(3_000)
    assert consumed(cluster, other) == ["a", "b", "c", "d"]
    (info,) = cluster.node(other).state.map.fragments.values()
    assert sorted(info.in_sync) == sorted([first, second]), "it is brought up to date"


def spoil_the_end(cluster: Cluster, name: str, size: int) -> None:
    """What follows the last mark cannot be read: it looks like the tail of a power cut."""
    segments = cluster.hosts[NodeId(name)].segments
    data = segments[max(segments)]
    marks = [at for at in range(len(data)) if mark_at(bytes(data), at) is not None]
    at = max(marks[-1] + MARK_BYTES, len(data) - size)
    assert at < len(data), "something follows the last mark"
    data[at] ^= 1


def published_just_now(cluster: Cluster, *bodies: str) -> None:
    client = cluster.client("n1")
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    for body in bodies:
        client.publish("orders", body)
    cluster.wait_for(lambda: client.take(BasicAck).delivery_tag == len(bodies))


def start_all(cluster: Cluster, *names: str) -> None:
    for name in names:
        cluster.start(name)


@pytest.mark.parametrize("number", [0, 1])
def test_rot_behind_the_last_mark_costs_nothing_that_another_copy_has(number: int) -> None:
    cluster = Cluster(3)
    published(cluster, "a", "b")
    published_just_now(cluster, "c", "d")
    spoilt = holders(cluster)[number]
    for name in ("n1", "n2", "n3"):
        cluster.kill(name)
    spoil_the_end(cluster, spoilt, 60)
    # Whoever comes first waits for the other copy.
    start_all(cluster, spoilt, *(name for name in ("n3", "n2", "n1") if name != spoilt))
    cluster.wait_for(lambda: cluster.primary_of("orders") is not None)
    assert consumed(cluster, "n3") == ["a", "b", "c", "d"]


@pytest.mark.parametrize("number", [0, 1])
def test_a_directory_put_back_within_one_start_leads_nobody(number: int) -> None:
    cluster = Cluster(3)
    published(cluster, "a", "b")
    put_back = holders(cluster)[number]
    segments = cluster.hosts[NodeId(put_back)].segments
    copy = {number: bytearray(data) for number, data in segments.items()}
    published_just_now(cluster, "c", "d")
    for name in ("n1", "n2", "n3"):
        cluster.kill(name)
    segments.clear()
    segments.update(copy)
    start_all(cluster, put_back, *(name for name in ("n3", "n2", "n1") if name != put_back))
    cluster.wait_for(lambda: cluster.primary_of("orders") is not None)
    assert consumed(cluster, "n3") == ["a", "b", "c", "d"]


def test_the_operator_sees_who_is_waited_for_and_whose_copy_was_not_compared() -> None:
    cluster = Cluster(3, revive_wait_ms=3_000)
    published(cluster, "a")
    first, second = holders(cluster)
    other = next(name for name in ("n1", "n2", "n3") if name not in (first, second))
    for name in ("n1", "n2", "n3"):
        cluster.kill(name)
    start_all(cluster, first, other)

    def told() -> list[str]:
        return [
            trouble
            for name in (first, other)
            for trouble in overview(cluster.node(name)).node().troubles
        ]

    cluster.wait_for(lambda: any(f"for the copies of {second}" in each for each in told()))
    cluster.wait_for(lambda: cluster.primary_of("orders") == first)
    cluster.wait_for(lambda: any(f"comparing that of {second}" in each for each in told()))
    assert not any(f"for the copies of {second}" in each for each in told())
    assert consumed(cluster, other) == ["a"]


def test_a_single_copy_is_told_as_such() -> None:
    cluster = Cluster(3)
    published(cluster, "a")
    first, second = holders(cluster)
    assert cluster_of(cluster.node(first)).alone == ()
    cluster.kill(second)
    cluster.wait_for(lambda: cluster_of(cluster.node(first)).alone == ((first, 1),))
    cluster.wait_for(lambda: cluster_of(cluster.node(first)).alone == ())


def _fragment(cluster: Cluster, name: str) -> FragmentId:
    return next(iter(cluster.node(name).state.map.fragments))
