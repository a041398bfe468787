"""Planned moves that cannot end, or change: others go on, and nothing hangs."""

from fedq.amqp.methods import (
    BasicReject,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.amqp.values import FieldTable
from fedq.core.ids import FragmentId, NodeId, QueueKey
from fedq.node.views.overview import overview
from fedq.node.views.overview_types import ClusterOverview, Staying
from fedq.wiring.cluster_map.operations_moves import DrainNode, MoveFragment, UndrainNode
from fedq.wiring.cluster_map.state import FragmentInfo
from tests.unit.amqp.wire import publish as publish_bytes
from tests.unit.node.cluster.test_planned_moves import (
    ONE,
    confirming,
    consuming,
    declare,
    step_until,
    tick,
    wish,
)
from tests.unit.node.harness import TICK_MS, Cluster

NO_PROPERTIES = b"\0\0"


def fragment(cluster: Cluster, number: int = 1) -> FragmentInfo:
    return cluster.node("n1").state.map.fragments[FragmentId(number)]


def test_a_wish_that_changes_while_a_copy_is_made_is_fulfilled() -> None:
    """Before, three copies stayed for ever, and the fragment where it was."""
    cluster = Cluster(4)
    declare(cluster)
    confirming(cluster, "n1").publish("orders", "a", "b")
    first, second = [node for node in cluster.hosts if node not in fragment(cluster).copies]
    wish(cluster, MoveFragment(ONE, first))
    cluster.wait_for(lambda: first in fragment(cluster).copies)
    wish(cluster, MoveFragment(ONE, second))
    cluster.wait_for(lambda: fragment(cluster).primary == second)
    cluster.wait_for(lambda: len(fragment(cluster).copies) == 2)
    assert cluster.node("n1").state.map.moves == {}


def test_fragments_that_cannot_be_handed_over_are_in_nobody_s_way() -> None:
    """Before, four of them stopped all drains, moves and evening out of the cluster."""
    cluster = Cluster(3, replace_backup_ms=500)
    client = cluster.client("n1")
    arguments: FieldTable = {"x-fedq-replicas": 2, "x-fedq-replicate": "persistent"}
    for number in range(7):
        name = f"q{number}"
        client.ask(QueueDeclare(name, durable=True, arguments=arguments), QueueDeclareOk)
    alone = QueueDeclare("alone", durable=True, arguments={"x-fedq-replicas": 1})
    client.ask(alone, QueueDeclareOk)
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    for number in range(7):
        client.write(publish_bytes(1, "", f"q{number}", b"transient", NO_PROPERTIES, 0))
    cluster.pass_ms(500)
    wish(cluster, DrainNode(NodeId("n1"), False))
    cluster.wait_for(lambda: fragment(cluster, 8).primary != "n1", 20_000)
    assert [fragment(cluster, number).primary for number in range(1, 8)] == ["n1"] * 7
    # And it is said why.
    (note,) = overview(cluster.node("n1")).node().notes
    assert "of queue 'q" in note
    assert "and 6 more: there are messages in it of which no copy is asked for" in note
    wish(cluster, UndrainNode(NodeId("n1")))
    cluster.pass_ms(1_000)
    assert overview(cluster.node("n1")).node().notes == ()


def test_copies_that_no_other_node_could_have_are_said_to_stay() -> None:
    cluster = Cluster(3)
    declare(cluster, 3)
    declare(cluster, 2, "less")
    wish(cluster, DrainNode(NodeId("n1"), False))
    cluster.wait_for(lambda: fragment(cluster).primary != "n1")
    cluster.wait_for(lambda: "n1" not in fragment(cluster, 2).copies)
    assert staying(cluster) == {NodeId("n1"): Staying(1, 3, QueueKey("/", "orders"))}
    wish(cluster, UndrainNode(NodeId("n1")))
    cluster.pass_ms(500)
    assert staying(cluster) == {}


def test_it_is_counted_of_what_a_node_alone_has_a_copy() -> None:
    cluster = Cluster(3, replace_backup_ms=60_000)
    declare(cluster, 1, "single")
    declare(cluster, 2, "twice")
    cluster.pass_ms(500)
    found = tallied(cluster)
    assert (dict(found.only_copies), dict(found.single_copies)) == ({}, {NodeId("n1"): 1})
    (backup,) = fragment(cluster, 2).backups
    cluster.kill(backup)
    cluster.pass_ms(1_000)
    assert dict(tallied(cluster).only_copies) == {NodeId("n1"): 1}


def tallied(cluster: Cluster) -> ClusterOverview:
    view = overview(cluster.node("n1"))
    tally = view.cluster_tally()
    tally.add(view.fragment_ids())
    return tally.found()


def staying(cluster: Cluster) -> dict[NodeId, Staying]:
    return dict(tallied(cluster).staying)


def test_who_cannot_be_handed_over_is_held_back_ever_more_rarely() -> None:
    """Before, consumers of such a queue stood still for one second of three."""
    cluster = Cluster(3)
    dead = QueueDeclare("dead", durable=True, arguments={"x-fedq-replicas": 1})
    cluster.client("n3").ask(dead, QueueDeclareOk)
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    request = QueueDeclare("orders", durable=True, arguments={"x-fedq-replicas": 2, **letters})
    cluster.client("n1").ask(request, QueueDeclareOk)
    cluster.kill("n3")
    cluster.wait_for(lambda: "n3" not in fragment(cluster, 2).copies, 20_000)
    confirming(cluster, "n1").publish("orders", "x")
    consumer = consuming(cluster, "n1")
    assert consumer.deliveries()
    consumer.send(BasicReject(1, False))
    primary = cluster.node("n1").state.primaries[FragmentId(2)]
    assert primary.dying, "a letter is under way to a node that is gone"
    wish(cluster, MoveFragment(FragmentId(2), NodeId("n2")), by="n1")
    held = ticks = 0
    for _ in range(60_000 // TICK_MS):
        cluster.pass_ms(TICK_MS)
        held += primary.handing_over
        ticks += 1
    assert 0 < held < ticks // 6


def test_a_drained_node_asks_for_no_fragments() -> None:
    """Before, others got one more each time, although nobody published there."""
    cluster = Cluster(3, fragment_threshold=5)
    declare(cluster)
    publisher = confirming(cluster, "n3")
    wish(cluster, DrainNode(NodeId("n3"), False))
    cluster.pass_ms(500)
    for _ in range(20):
        publisher.publish("orders", *"abcdef")
        cluster.pass_ms(100)
    assert list(cluster.node("n1").state.map.fragments) == [ONE]


def test_if_all_that_are_up_are_drained_they_take_clients() -> None:
    """Before, each sent them to another one."""
    cluster = Cluster(3)
    wish(cluster, DrainNode(NodeId("n1"), False))
    cluster.pass_ms(200)
    wish(cluster, DrainNode(NodeId("n2"), False))
    cluster.pass_ms(200)
    stranger = cluster.knock("n1")
    stranger.shake_hands()
    cluster.pass_ms(200)
    assert "n3:5672" in stranger.take(ConnectionClose).reply_text
    cluster.kill("n3")
    cluster.pass_ms(6_000)
    declare(cluster)


def test_who_comes_during_a_silence_is_asked_too() -> None:
    """Before, what it acknowledged after the last word was delivered again."""
    cluster = Cluster(4)
    declare(cluster)
    confirming(cluster, "n1")
    target = fragment(cluster).backups[0]
    late, silent = [node for node in cluster.hosts if node not in ("n1", target)]
    cluster.kill(late)
    cluster.pass_ms(5_000)
    node = cluster.node("n1")
    cluster.node(silent).state.peers[NodeId("n1")].unsaid[ONE] = None
    wish(cluster, MoveFragment(ONE, target))
    step_until(cluster, lambda: node.state.quiet)
    (before,) = node.state.quiet.values()
    cluster.start(late)

    def is_asked() -> bool:
        tick(cluster)
        return late in node.state.live_peers() and [*node.state.quiet.values()] != [before]

    step_until(cluster, is_asked)
    assert fragment(cluster).primary == "n1"
