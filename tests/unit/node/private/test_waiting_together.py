"""What waits in all exclusive queues together is bounded; who has little of it loses none."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicNack,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
from fedq.core.ids import QueueKey
from fedq.node.views.overview import overview
from tests.examples import examples
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import Client, Cluster
from tests.unit.node.private.test_bounding import fill, heard, queues, send, subscriber


def waiting(cluster: Cluster) -> dict[str, tuple[int, int]]:
    """Messages that wait, and were dropped, in each queue of the node that has a name."""
    state = cluster.node("n1").state
    return {
        key.name: (private.fragment.ready_count, private.dropped)
        for key, private in state.private.items()
    }


def slow_one(cluster: Cluster, name: str, **arguments: int | str) -> Client:
    """A client with a queue of that name that nobody takes from."""
    client = cluster.client()
    table: dict[str, Any] = {key.replace("_", "-"): value for key, value in arguments.items()}
    client.ask(QueueDeclare(name, exclusive=True, arguments=table), QueueDeclareOk)
    return client


def put(client: Client, name: str, count: int, size: int = 1) -> None:
    """Publishes so many messages to a queue, each in a turn of its own."""
    for number in range(count):
        client.write(publish(1, "", name, b"%d" % number + b"x" * (size - 1)))
        client.cluster.settle()


def test_the_longest_gives_up_its_oldest_and_who_has_little_loses_nothing() -> None:
    cluster = Cluster(1, exclusive_total_messages=20)
    owners = [slow_one(cluster, name) for name in ("long", "short")]
    publisher = cluster.client()
    put(publisher, "short", 4)
    put(publisher, "long", 50)
    assert waiting(cluster) == {"long": (16, 34), "short": (4, 0)}
    assert overview(cluster.node("n1")).node().exclusive_waiting == 20
    owners[0].ask(BasicConsume("long", no_ack=True), BasicConsumeOk)
    assert heard(owners[0])[:1] == [34]


def test_one_that_is_left_alone_gives_up_what_others_need() -> None:
    cluster = Cluster(1, exclusive_total_messages=20)
    for name in ("a", "b"):
        slow_one(cluster, name)
    publisher = cluster.client()
    put(publisher, "a", 20)
    put(publisher, "b", 9)
    cluster.pass_ms(200)
    assert waiting(cluster) == {"a": (11, 9), "b": (9, 0)}


def test_who_keeps_up_hears_everything_however_little_room_there_is() -> None:
    cluster = Cluster(1, exclusive_total_messages=1)
    slow, quick, publisher = (subscriber(cluster) for _ in range(3))
    fill(slow, False)
    send(publisher, range(60), each=7)
    assert heard(quick) == list(range(60))
    [found] = queues(overview(cluster.node("n1")), slow=True)
    assert (found.ready, found.dropped) == (1, 59)


def test_who_keeps_up_loses_nothing_because_a_turn_is_short() -> None:
    cluster = Cluster(1, exclusive_total_messages=10, work_per_turn=1)
    slow_one(cluster, "slow")
    publisher = cluster.client()
    put(publisher, "slow", 8)
    quick = [slow_one(cluster, name) for name in ("a", "b", "c")]
    for name, client in zip(("a", "b", "c"), quick, strict=True):
        client.ask(QueueBind(name, "amq.fanout"), QueueBindOk)
        client.ask(BasicConsume(name), BasicConsumeOk)
    for number in range(0, 100, 20):
        numbers = range(number, number + 20)
        publisher.write(b"".join([publish(1, "amq.fanout", "", b"%d" % each) for each in numbers]))
        cluster.pass_ms(100)
    assert [heard(client) for client in quick] == [list(range(100))] * 3
    assert waiting(cluster)["slow"] == (8, 0)


def test_bytes_count_with_properties_and_bodies_on_disk() -> None:
    cluster = Cluster(1, exclusive_total_bytes=10_000)
    for name in ("a", "b"):
        slow_one(cluster, name)
    publisher = cluster.client()
    put(publisher, "b", 3, size=500)
    put(publisher, "a", 60, size=500)
    found = waiting(cluster)
    state = cluster.node("n1").state
    assert found["b"] == (3, 0)
    assert sum(each.fragment.bytes_held for each in state.private.values()) <= 10_000
    assert 10 <= found["a"][0] <= 17


def test_each_virtual_host_has_a_bound_of_its_own() -> None:
    cluster = Cluster(1, exclusive_vhost_messages=5)
    slow_one(cluster, "a")
    state = cluster.node("n1").state
    publisher = cluster.client()
    put(publisher, "a", 8)
    assert waiting(cluster) == {"a": (5, 3)}
    private = state.private[QueueKey("/", "a")]
    assert state.exclusive_waiting.fits(private, [b"x"] * 9) == 0
    assert state.exclusive_waiting.messages == 5


def test_a_node_that_keeps_the_oldest_drops_what_comes_and_tells_no_publisher() -> None:
    cluster = Cluster(1, exclusive_queue_messages=3, exclusive_queue_keeps_oldest=True)
    slow, quick = subscriber(cluster), subscriber(cluster)
    publisher = subscriber(cluster)
    publisher.ask(ConfirmSelect(), ConfirmSelectOk)
    fill(slow, False)
    send(publisher, range(10))
    assert heard(quick) == list(range(10))
    publisher.said.clear()
    send(publisher, range(10, 12))
    confirms = [said for said in publisher.said if isinstance(said, BasicAck)]
    assert confirms
    [found] = queues(overview(cluster.node("n1")), slow=True)
    assert (found.ready, found.dropped) == (3, 9)
    assert overview(cluster.node("n1")).node().exclusive_dropped == 9
    fill(slow, True)
    assert heard(slow) == [0, 1, 2]


def test_what_is_dropped_so_is_dead_lettered_where_the_queue_says_so() -> None:
    cluster = Cluster(1, exclusive_queue_messages=2, exclusive_queue_keeps_oldest=True)
    slow_one(cluster, "dead")
    slow_one(cluster, "a", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    put(cluster.client(), "a", 4)
    cluster.pass_ms(200)
    found = waiting(cluster)
    assert found == {"dead": (2, 0), "a": (2, 2)}


def test_together_nothing_new_comes_in_beyond_a_share() -> None:
    cluster = Cluster(
        1, exclusive_queue_messages=0, exclusive_total_messages=20,
        exclusive_queue_keeps_oldest=True,
    )  # fmt: skip
    for name in ("a", "b"):
        slow_one(cluster, name)
    publisher = cluster.client()
    put(publisher, "b", 2)
    put(publisher, "a", 40)
    assert waiting(cluster) == {"a": (18, 22), "b": (2, 0)}


@pytest.mark.parametrize("refuses", [False, True])
def test_what_several_publish_in_one_turn_is_bounded_from_the_end(refuses: bool) -> None:
    cluster = Cluster(1, exclusive_total_messages=20, exclusive_queue_keeps_oldest=not refuses)
    table: dict[str, int | str] = {"x_overflow": "reject-publish", "x_max_length": 100}
    owner = slow_one(cluster, "a", **(table if refuses else {}))
    publishers = [cluster.client(), cluster.client()]
    for publisher in publishers:
        publisher.ask(ConfirmSelect(), ConfirmSelectOk)
    for start, publisher in zip((0, 15), publishers, strict=True):
        numbers = range(start, start + 15)
        publisher.write(b"".join([publish(1, "", "a", b"%d" % number) for number in numbers]))
    cluster.pass_ms(200)
    assert waiting(cluster) == {"a": (20, 0 if refuses else 10)}
    assert any(isinstance(said, BasicNack) for said in publishers[1].said) is refuses
    owner.ask(BasicConsume("a", no_ack=True), BasicConsumeOk)
    assert heard(owner) == list(range(20))


def test_an_owner_leaves_of_whose_queue_others_need_the_room() -> None:
    cluster = Cluster(1, exclusive_total_messages=20, exclusive_queue_disconnects=True)
    owner = slow_one(cluster, "a")
    other = slow_one(cluster, "b")
    publisher = cluster.client()
    put(publisher, "a", 20)
    put(publisher, "b", 1)
    cluster.pass_ms(200)
    assert any(isinstance(said, ConnectionClose) for said in owner.said)
    assert not any(isinstance(said, ConnectionClose) for said in other.said)
    assert waiting(cluster) == {"b": (1, 0)}


def test_a_queue_that_asked_for_refusals_gives_up_nothing_and_refuses() -> None:
    cluster = Cluster(1, exclusive_total_messages=6)
    slow_one(cluster, "a", x_max_length=100, x_overflow="reject-publish")
    put(cluster.client(), "a", 9)
    assert waiting(cluster) == {"a": (6, 0)}


def test_queues_that_give_up_nothing_are_not_looked_at_again_and_again() -> None:
    cluster = Cluster(1, exclusive_total_messages=2)
    publisher = cluster.client()
    for name in ("a", "b", "c"):
        slow_one(cluster, name, x_max_length=100, x_overflow="reject-publish")
        put(publisher, name, 2)
    state, timers = cluster.node("n1").state, cluster.node("n1").consuming.timers
    # One each: somebody might have taken it.
    assert state.exclusive_waiting.is_over
    cluster.pass_ms(200)
    timers.tick()
    while state.chores.has_more:
        state.chores.work_off()
    assert not state.marks.queues


def test_a_queue_that_goes_makes_room() -> None:
    cluster = Cluster(1, exclusive_total_messages=10)
    owner = slow_one(cluster, "a")
    slow_one(cluster, "b")
    publisher = cluster.client()
    put(publisher, "a", 10)
    owner.ask(QueueDelete("a"), QueueDeleteOk)
    put(publisher, "b", 10)
    assert waiting(cluster) == {"b": (10, 0)}


STEPS = st.lists(
    st.tuples(st.sampled_from(("a", "b", "c")), st.integers(0, 12), st.booleans()), max_size=12
)


@pytest.mark.parametrize("keeps_oldest", [False, True])
@given(STEPS, st.integers(1, 15), st.sampled_from((1, 30, 1_000_000)))
@settings(max_examples=examples(60))
def test_sums_are_right_within_bounds_and_no_share_is_touched(
    keeps_oldest: bool, steps: list[tuple[str, int, bool]], bound: int, work: int
) -> None:
    cluster = Cluster(
        1, exclusive_total_messages=bound, work_per_turn=work,
        exclusive_queue_keeps_oldest=keeps_oldest,
    )  # fmt: skip
    owners = {name: slow_one(cluster, name) for name in ("a", "b", "c")}
    publisher = cluster.client()
    published = dict.fromkeys(owners, 0)
    for name, count, reads in steps:
        if reads:
            owners[name].ask(BasicConsume(name, "x", no_ack=True), BasicConsumeOk)
            owners[name].ask(QueueDelete(name), QueueDeleteOk)
            owners[name].ask(QueueDeclare(name, exclusive=True), QueueDeclareOk)
            published[name] = 0
        put(publisher, name, count)
        published[name] += count
        cluster.pass_ms(100)
        state, found = cluster.node("n1").state, waiting(cluster)
        assert state.exclusive_waiting.messages == sum(ready for ready, _ in found.values())
        assert state.exclusive_waiting.messages <= bound
        for queue, (ready, dropped) in found.items():
            assert ready + dropped == published[queue]
            # One of three at most has less than its part, and lost something.
            assert not dropped or ready >= bound // 3
