"""Fragments without traffic go, nothing is lost or twice by that, and channels keep their order."""

from functools import partial
from typing import Any

import pytest

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicQos,
    BasicQosOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
    encode_method,
)
from fedq.amqp.values import FieldTable
from fedq.core.ids import FragmentId, NodeId, QueueKey
from fedq.core.quiet_messages import Quiesce, Quiesced
from fedq.node.node import Node
from fedq.wiring.cluster_map.operations import AddFragment, MemberDown
from tests.unit.amqp.wire import Content
from tests.unit.amqp.wire import publish as publish_bytes
from tests.unit.node.cluster.test_planned_moves import step, step_until, tick, wish
from tests.unit.node.harness import PERSISTENT, Client, Cluster
from tests.unit.node.inputs import link_up
from tests.unit.node.map.test_policies import put

IDLE_MS, AGE_MS = 1_000, 3_000
SOON: Any = {"fragment_threshold": 5, "retire_idle_ms": IDLE_MS, "retire_age_ms": AGE_MS}
NAMES = ("n1", "n2", "n3")
TWO = FragmentId(2)


def confirming(cluster: Cluster, name: str) -> Client:
    client = cluster.client(name)
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    return client


def fragments(cluster: Cluster, name: str = "n1") -> list[FragmentId]:
    (queue,) = cluster.node(name).state.map.queues.values()
    return list(queue.fragments)


def grown(**more: Any) -> tuple[Cluster, Client]:
    """A queue of n1 that has a second fragment on n3, which is empty; its publisher there."""
    cluster = Cluster(3, **{**SOON, **more})
    cluster.client("n1").ask(QueueDeclare("orders", durable=True), QueueDeclareOk)
    first = cluster.client("n3")
    for _ in range(3):
        first.publish("orders", *"......")
    cluster.wait_for(lambda: len(fragments(cluster)) == 2)
    publisher = confirming(cluster, "n3")
    publisher.publish("orders", "0")
    drain(cluster)
    assert cluster.node("n3").state.primaries
    return cluster, publisher


def sticking(cluster: Cluster) -> Client:
    """A publisher on n2, which has no fragment, that keeps to n3's."""
    for _ in range(8):
        publisher = confirming(cluster, "n2")
        publisher.publish("orders", ".")
        (connection, *_) = reversed(cluster.node("n2").state.clients)
        client = cluster.node("n2").state.clients[connection]
        assert drain(cluster) == ["."]
        if TWO in client.channels[1].sticky.values():
            publisher.said.clear()
            return publisher
    raise AssertionError("connections are spread over fragments")


def drain(cluster: Cluster) -> list[str]:
    """Takes all there is, and acknowledges it."""
    client = cluster.client("n2")
    client.ask(BasicConsume("orders", "c"), BasicConsumeOk)
    cluster.pass_ms(300)
    found = client.deliveries()
    client.send(BasicAck(0, True))
    cluster.pass_ms(100)
    client.hang_up()
    cluster.pass_ms(200)
    return found


def is_retired(cluster: Cluster, name: str = "n1") -> bool:
    return TWO not in cluster.node(name).state.map.fragments


def test_a_fragment_without_traffic_goes_and_comes_back_with_it() -> None:
    cluster, publisher = grown()
    cluster.wait_for(lambda: is_retired(cluster))
    assert fragments(cluster) == [FragmentId(1)]
    assert any(
        "fragment 2 of 'orders' is retired" in line for line in cluster.hosts[NodeId("n1")].story
    )
    publisher.said.clear()
    publisher.publish("orders", *[f"{number}" for number in range(20)])
    cluster.wait_for(lambda: publisher.has(BasicAck))
    assert drain(cluster) == [f"{number}" for number in range(20)]
    # Its traffic is back, so it has a fragment again, which stays for a while.
    newcomer = confirming(cluster, "n3")
    newcomer.publish("orders", "a")
    assert len(fragments(cluster)) == 2
    cluster.pass_ms(AGE_MS - 1_000)
    assert len(fragments(cluster)) == 2
    assert drain(cluster) == ["a"]


def test_a_trickle_keeps_a_fragment() -> None:
    cluster, publisher = grown()
    for number in range(20):
        publisher.publish("orders", f"{number}")
        assert drain(cluster) == [f"{number}"]
    assert not is_retired(cluster)


def test_messages_and_unacknowledged_ones_keep_a_fragment() -> None:
    cluster, publisher = grown()
    publisher.publish("orders", "a")
    cluster.pass_ms(3 * AGE_MS)
    assert not is_retired(cluster)
    client = cluster.client("n3")
    got = client.ask(BasicGet("orders", False), BasicGetOk)
    cluster.pass_ms(3 * AGE_MS)
    assert not is_retired(cluster)
    client.send(BasicAck(got.delivery_tag, False))
    cluster.wait_for(lambda: is_retired(cluster))


def test_the_first_fragment_and_a_fixed_number_stay() -> None:
    cluster = Cluster(3, **SOON)
    request = QueueDeclare("orders", durable=True, arguments={"x-fedq-fragments": 3})
    cluster.client("n1").ask(request, QueueDeclareOk)
    cluster.pass_ms(3 * AGE_MS)
    assert len(fragments(cluster)) == 3
    cluster, _ = grown()
    cluster.pass_ms(5 * AGE_MS)
    assert fragments(cluster) == [FragmentId(1)]


def test_nothing_is_retired_where_that_is_turned_off() -> None:
    cluster, _ = grown(retire_idle_ms=0)
    cluster.pass_ms(5 * AGE_MS)
    assert not is_retired(cluster)


def test_nothing_is_retired_while_a_member_is_down() -> None:
    cluster, _ = grown()
    cluster.kill("n2")
    cluster.pass_ms(5 * AGE_MS)
    assert not is_retired(cluster)
    cluster.start("n2")
    cluster.wait_for(lambda: is_retired(cluster), 3 * AGE_MS)


def asks_for_quiet(cluster: Cluster) -> bool:
    return any(isinstance(message, Quiesce) for *_, message in cluster.overheard)


@pytest.mark.parametrize("turns", range(0, 24, 2))
def test_what_is_published_meanwhile_goes_elsewhere_in_order(turns: int) -> None:
    """So many turns after it began: all is confirmed, nothing is lost, twice or marked."""
    cluster, publisher = grown()
    publisher.said.clear()
    step_until(cluster, lambda: asks_for_quiet(cluster))
    for _ in range(turns):
        step(cluster)
    assert turns or cluster.node("n3").state.quiet
    for body in (b"a", b"b", b"c"):
        publisher.write(publish_bytes(1, "", "orders", body, PERSISTENT, 0))
        step(cluster)
    for _ in range(6):
        step(cluster)
    publisher.write(publish_bytes(1, "", "orders", b"d", PERSISTENT, 0))
    cluster.pass_ms(300)
    acks = [each for each in publisher.heard() if isinstance(each, BasicAck)]
    assert acks[-1].delivery_tag == 5
    assert drain(cluster) == [*"abcd"]


def test_a_channel_goes_where_what_was_kept_for_it_went() -> None:
    """Two other fragments are at hand: what follows does not pass what was kept, in another one."""
    cluster, _ = grown()
    busy = cluster.client("n2")
    for _ in range(3):
        busy.publish("orders", *"......")
    cluster.wait_for(lambda: len(fragments(cluster)) == 3)
    drain(cluster)
    publishers = [confirming(cluster, "n3") for _ in range(4)]
    for publisher in publishers:
        publisher.publish("orders", ".")
    drain(cluster)
    # It is younger, so the other one goes first.
    step_until(cluster, lambda: TWO in cluster.node("n3").state.quiet)
    assert len(fragments(cluster)) == 3
    for number, publisher in enumerate(publishers):
        publisher.write(publish_bytes(1, "", "orders", f"{number}.a".encode(), PERSISTENT, 0))
    cluster.wait_for(lambda: is_retired(cluster, "n3"))
    assert len(fragments(cluster)) == 2
    for number, publisher in enumerate(publishers):
        publisher.publish("orders", f"{number}.b")
    # A consumer has what is at hand first.
    consumer = cluster.client("n2")
    consumer.ask(BasicQos(0, 1, False), BasicQosOk)
    consumer.ask(BasicConsume("orders", "c"), BasicConsumeOk)
    seen: list[str] = []
    for _ in range(8):
        cluster.wait_for(lambda: any(isinstance(said, Content) for said in consumer.said))
        seen += consumer.deliveries()
        consumer.send(BasicAck(len(seen), False))
    for number in range(4):
        assert [each for each in seen if each.startswith(f"{number}.")] == [
            f"{number}.a", f"{number}.b",
        ]  # fmt: skip


def test_dead_letters_go_where_those_went_that_were_kept() -> None:
    """As what a channel publishes: one that dies later does not pass another one."""
    cluster = Cluster(4, **SOON)
    client = cluster.client("n1")
    client.ask(QueueDeclare("orders", durable=True), QueueDeclareOk)
    orders = QueueKey("/", "orders")
    queues = cluster.node("n1").state.map.queues
    for name in ("n3", "n4"):
        wish(cluster, AddFragment("/", "orders", NodeId(name)))
        cluster.pass_ms(500)
    for name in ("four", "five", "six"):
        client.ask(QueueDeclare(name), QueueDeclareOk)
    dying = cluster.client("n2")
    table: FieldTable = {
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders", "x-max-length": 1,
    }  # fmt: skip
    dying.ask(QueueDeclare("work", durable=True, arguments=table), QueueDeclareOk)
    assert queues[QueueKey("/", "work")].fragments == [7]
    cluster.unheard[NodeId("n3")] = None
    cluster.client("n4").publish("orders", "stays")
    step_until(cluster, lambda: TWO in cluster.node("n2").state.quiet)
    assert queues[orders].fragments == [1, 2, 3]
    dying.publish("work", "a", "b")
    del cluster.unheard[NodeId("n3")]
    cluster.wait_for(lambda: is_retired(cluster, "n2"))
    assert queues[orders].fragments == [1, 3]
    dying.publish("work", "c")
    consumer = cluster.client("n4")
    consumer.ask(BasicQos(0, 1, False), BasicQosOk)
    consumer.ask(BasicConsume("orders", "c"), BasicConsumeOk)
    seen: list[str] = []
    while len(seen) < 3:
        cluster.wait_for(lambda: any(isinstance(said, Content) for said in consumer.said))
        seen += consumer.deliveries()
        consumer.send(BasicAck(len(seen), False))
    assert [each for each in seen if each != "stays"] == ["a", "b"]


def relink(cluster: Cluster) -> None:
    """The stream between n2 and n3 breaks and is opened anew: what was lost on it is sent again."""
    for mine, other in (("n2", NodeId("n3")), ("n3", NodeId("n2"))):
        inbox = cluster.hosts[NodeId(mine)].inbox
        inbox.append(partial(link_down, peer=other))
        inbox.append(partial(link_up, peer=other))


def link_down(node: Node, peer: NodeId) -> None:
    node.on_link_down(peer, False)


def test_a_node_with_publishes_on_their_way_says_so() -> None:
    cluster, _ = grown()
    far = sticking(cluster)
    cluster.mute["n2", "n3"] = None
    cluster.mute["n3", "n2"] = None
    far.publish("orders", "a")
    del cluster.mute["n3", "n2"]
    cluster.wait_for(lambda: any(isinstance(m, Quiesce) for *_, m in cluster.overheard), 10_000)
    cluster.pass_ms(100)
    del cluster.mute["n2", "n3"]
    relink(cluster)
    cluster.wait_for(lambda: far.has(BasicAck))
    assert any(isinstance(m, Quiesced) and m.busy for *_, m in cluster.overheard)
    assert drain(cluster) == ["a"]


def test_a_transaction_meets_a_retirement() -> None:
    cluster, _ = grown()
    client = cluster.client("n3")
    client.ask(TxSelect(), TxSelectOk)
    step_until(cluster, lambda: TWO in cluster.node("n3").state.quiet)
    client.write(
        publish_bytes(1, "", "orders", b"a", PERSISTENT, 0)
        + publish_bytes(1, "", "orders", b"b", PERSISTENT, 0)
        + encode_method(1, TxCommit())
    )
    cluster.wait_for(lambda: client.has(TxCommitOk))
    assert is_retired(cluster)
    assert drain(cluster) == ["a", "b"]


def test_a_commit_in_pieces_outlasts_the_fragment_that_it_was_to_go_to() -> None:
    """What it has for a queue of one node takes many turns, and sets out before what is shared."""
    cluster, _ = grown()
    owner = cluster.client("n3")
    owner.ask(QueueDeclare("mine", exclusive=True), QueueDeclareOk)
    client = cluster.client("n3")
    client.ask(TxSelect(), TxSelectOk)
    client.publish("orders", "a", "b")
    for number in range(400):
        client.publish("mine", f"{number}")
    step_until(cluster, lambda: TWO in cluster.node("n3").state.quiet)
    cluster.node("n3").state.work.resize(10)
    client.write(encode_method(1, TxCommit()))
    step_until(cluster, lambda: is_retired(cluster, "n3"))
    assert not client.has(TxCommitOk)
    cluster.wait_for(lambda: client.has(TxCommitOk))
    cluster.node("n3").state.work.resize(10_000)
    assert drain(cluster) == ["a", "b"]


def test_what_is_left_has_the_length_of_all_once_a_fragment_is_retired() -> None:
    """A policy gave each of two fragments half of it; without traffic they are one again."""
    cluster, _ = grown()
    put(cluster, {"max-length": 6}, "^orders$")
    cluster.wait_for(lambda: is_retired(cluster))
    publisher = confirming(cluster, "n1")
    publisher.publish("orders", *"abcdefg")
    cluster.wait_for(lambda: publisher.has(BasicAck))
    assert drain(cluster) == [*"bcdefg"]


def test_a_fragment_that_comes_takes_its_part_of_a_length() -> None:
    """It was asked for before the policy came that has its queue stay in one place."""
    cluster = Cluster(3, **SOON)
    cluster.client("n1").ask(QueueDeclare("orders", durable=True), QueueDeclareOk)
    put(cluster, {"max-length": 6}, "^orders$")
    wish(cluster, AddFragment("/", "orders", NodeId("n3")))
    cluster.wait_for(lambda: len(fragments(cluster)) == 2)
    for name in ("n1", "n3"):
        confirming(cluster, name).publish("orders", *"abcdefg")
    assert len(drain(cluster)) == 6


@pytest.mark.parametrize("lost", [True, False])
def test_a_primary_that_dies_in_the_silence_leaves_nothing_undone(lost: bool) -> None:
    cluster, _ = grown()
    publisher = sticking(cluster)
    cluster.proposals_lost = lost
    step_until(cluster, lambda: TWO in cluster.node("n2").state.quiet)
    publisher.write(publish_bytes(1, "", "orders", b"a", PERSISTENT, 0))
    cluster.turn()
    cluster.kill("n3")
    cluster.proposals_lost = False
    cluster.wait_for(lambda: publisher.has(BasicAck))
    cluster.pass_ms(500)
    assert not cluster.node("n2").state.quiet
    assert drain(cluster) == ["a"]


def test_who_goes_down_and_comes_up_meanwhile_voids_it() -> None:
    """What its last session kept is sent with the new one, to a primary that still takes it."""
    cluster, _ = grown()
    publisher = sticking(cluster)
    cluster.unheard[NodeId("n3")] = None
    step_until(cluster, lambda: TWO in cluster.node("n2").state.quiet)
    publisher.publish("orders", "a")
    assert not publisher.has(BasicAck)
    incarnation = cluster.node("n2").state.settings.incarnation
    wish(cluster, MemberDown(NodeId("n2"), incarnation), by="n1")
    cluster.wait_for(lambda: publisher.has(BasicAck))
    # The question of before is decided only now.
    del cluster.unheard[NodeId("n3")]
    cluster.pass_ms(1_000)
    assert not is_retired(cluster)
    assert drain(cluster) == ["a"]
    cluster.wait_for(lambda: is_retired(cluster), 30_000)


def test_a_refused_question_voids_one_of_which_nobody_knows() -> None:
    cluster, publisher = grown(request_timeout_ms=1_000)
    publisher.said.clear()
    epoch = cluster.node("n1").state.map.fragments[TWO].epoch
    cluster.unheard[NodeId("n3")] = None
    step_until(cluster, lambda: TWO in cluster.node("n3").state.quiet)
    cluster.pass_ms(2_000)
    incarnation = cluster.node("n2").state.settings.incarnation
    wish(cluster, MemberDown(NodeId("n2"), incarnation), by="n1")
    cluster.pass_ms(500)
    publisher.publish("orders", "a")
    assert not publisher.has(BasicAck), "what was asked first may be decided yet"
    del cluster.unheard[NodeId("n3")]
    cluster.wait_for(lambda: publisher.has(BasicAck))
    assert cluster.node("n1").state.map.fragments[TWO].epoch > epoch
    assert drain(cluster) == ["a"]


@pytest.mark.parametrize("name", ["n2", "n3"])
def test_what_begins_anew_meanwhile_sends_nothing(name: str) -> None:
    """A step that failed is done again later: all are turned to the primary once more."""
    cluster, own = grown()
    publisher = sticking(cluster) if name == "n2" else own
    publisher.said.clear()
    cluster.unheard[NodeId("n3")] = None
    step_until(cluster, lambda: TWO in cluster.node(name).state.quiet)
    publisher.publish("orders", "a")

    def aim(node: Node) -> None:
        node.map.sessions.aim(node.state.map.fragments[TWO])

    cluster.hosts[NodeId(name)].inbox.append(aim)
    cluster.pass_ms(200)
    assert not publisher.has(BasicAck)
    del cluster.unheard[NodeId("n3")]
    cluster.wait_for(lambda: is_retired(cluster))
    cluster.wait_for(lambda: publisher.has(BasicAck))
    assert drain(cluster) == ["a"]


def test_a_question_of_which_nobody_knows_is_asked_again() -> None:
    cluster, publisher = grown(request_timeout_ms=1_000)
    cluster.proposals_lost = True
    step_until(cluster, lambda: TWO in cluster.node("n3").state.quiet)
    publisher.said.clear()
    publisher.publish("orders", "a")
    cluster.pass_ms(3_000)
    assert not publisher.has(BasicAck), "the map may have decided: it is kept"
    cluster.proposals_lost = False
    cluster.wait_for(lambda: publisher.has(BasicAck))
    assert is_retired(cluster)
    assert drain(cluster) == ["a"]


def test_a_get_that_asks_a_fragment_which_goes_is_answered() -> None:
    cluster, _ = grown()
    client = cluster.client("n2")
    step_until(cluster, lambda: TWO in cluster.node("n2").state.quiet)
    client.write(encode_method(1, BasicGet("orders", True)))
    cluster.wait_for(lambda: is_retired(cluster))
    cluster.wait_for(lambda: client.has(BasicGetEmpty))


@pytest.mark.parametrize("turns", range(0, 12, 3))
def test_all_nodes_stop_around_a_retirement(turns: int) -> None:
    cluster, _ = grown()
    step_until(cluster, lambda: TWO in cluster.node("n3").state.quiet)
    for _ in range(turns):
        step(cluster)
    for name in NAMES:
        cluster.kill(name)
    tick(cluster)
    for name in NAMES:
        cluster.start(name)
    cluster.pass_ms(8_000)
    publisher = confirming(cluster, "n3")
    publisher.publish("orders", "b")
    cluster.wait_for(lambda: publisher.has(BasicAck))
    assert drain(cluster) == ["b"]
    cluster.wait_for(lambda: is_retired(cluster), 30_000)


@pytest.mark.parametrize("name", ["n2", "n3"])
@pytest.mark.parametrize("turns", range(0, 12, 2))
def test_a_get_finds_what_its_channel_has_published_before(name: str, turns: int) -> None:
    """Kept for a fragment that goes, it is in one that was asked already, and had nothing."""
    cluster, own = grown()
    client = sticking(cluster) if name == "n2" else own
    client.said.clear()
    step_until(cluster, lambda: TWO in cluster.node(name).state.quiet)
    for _ in range(turns):
        step(cluster)
    client.write(
        publish_bytes(1, "", "orders", b"a", PERSISTENT, 0)
        + encode_method(1, BasicGet("orders", True))
    )
    cluster.wait_for(lambda: client.has(BasicGetOk) or client.has(BasicGetEmpty))
    assert client.has(BasicGetOk)
