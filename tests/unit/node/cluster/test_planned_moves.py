"""Drained nodes and planned moves on nodes: nothing comes twice, nobody has to reconnect."""

from collections.abc import Callable

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
    encode_method,
)
from fedq.core.ids import FragmentId, NodeId
from fedq.core.quiet_messages import Quiesced
from fedq.node.cluster.quiescing import QUIET_MS_MAX
from fedq.node.node import Node
from fedq.wiring.cluster_map.operations import Operation
from fedq.wiring.cluster_map.operations_moves import DrainNode, MoveFragment, UndrainNode
from tests.unit.amqp.wire import Content
from tests.unit.amqp.wire import publish as publish_bytes
from tests.unit.node.harness import PERSISTENT, TICK_MS, Client, Cluster

NAMES = ("n1", "n2", "n3")
ONE = FragmentId(1)


def wish(cluster: Cluster, operation: Operation, by: str = "n2") -> None:
    """An operator's wish, by way of a node; not carried out yet."""

    def ask(node: Node) -> None:
        node.cluster.proposals.ask(operation)

    cluster.hosts[NodeId(by)].inbox.append(ask)


def confirming(cluster: Cluster, name: str) -> Client:
    client = cluster.client(name)
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    return client


def declare(cluster: Cluster, replicas: int = 2, queue: str = "orders") -> None:
    request = QueueDeclare(queue, durable=True, arguments={"x-fedq-replicas": replicas})
    cluster.client("n1").ask(request, QueueDeclareOk)


def consuming(cluster: Cluster, name: str, prefetch: int = 10) -> Client:
    client = cluster.client(name)
    client.ask(BasicQos(0, prefetch, False), BasicQosOk)
    client.ask(BasicConsume("orders", "c"), BasicConsumeOk)
    return client


def other_than(cluster: Cluster) -> str:
    """A node that has a copy and does not lead."""
    (info,) = cluster.node("n1").state.map.fragments.values()
    return str(info.backups[0])


def led_by(cluster: Cluster, name: str) -> str:
    """Who leads the fragment, as this node says."""
    return str(cluster.node(name).state.map.fragments[ONE].primary)


def contents(client: Client) -> list[Content]:
    """Deliveries since the last look."""
    found = [said for said in client.said if isinstance(said, Content)]
    client.said = [said for said in client.said if not isinstance(said, Content)]
    return found


def tick(cluster: Cluster) -> None:
    """Time goes on, whatever nodes have to take in."""
    cluster.now_ms += TICK_MS
    for host in cluster.hosts.values():
        host.inbox.append(lambda node: node.on_tick())


def step(cluster: Cluster) -> None:
    """One turn of whoever has something to take in; a tick if nobody has."""
    if not cluster.turn():
        tick(cluster)


def step_until(cluster: Cluster, condition: Callable[[], object]) -> None:
    """Turn by turn, until the condition holds."""
    for _ in range(2_000):
        if condition():
            return
        step(cluster)
    raise AssertionError("it never comes to that")


def is_led_by(cluster: Cluster, name: str) -> Callable[[], bool]:
    return lambda: cluster.primary_of("orders") == name


def test_a_fragment_moves_to_its_copy_and_consumers_keep_what_they_have() -> None:
    cluster = Cluster(3)
    declare(cluster)
    publisher = confirming(cluster, "n1")
    consumers = [consuming(cluster, name, 2) for name in NAMES]
    publisher.publish("orders", *[f"{number}" for number in range(9)])
    cluster.pass_ms(500)
    before = [consumer.deliveries() for consumer in consumers]
    target = other_than(cluster)
    wish(cluster, MoveFragment(ONE, NodeId(target)))
    cluster.wait_for(is_led_by(cluster, target), 1_000)
    cluster.pass_ms(500)
    assert [consumer.deliveries() for consumer in consumers] == [[], [], []]
    for consumer in consumers:
        consumer.send(BasicAck(0, True))
    cluster.pass_ms(500)
    after = [consumer.deliveries() for consumer in consumers]
    everything = [body for bodies in (*before, *after) for body in bodies]
    assert sorted(everything) == [f"{number}" for number in range(9)], "each once, and unmarked"
    assert not cluster.node("n1").state.map.moves


def test_a_fragment_moves_to_a_node_that_has_no_copy_yet() -> None:
    for replicas in (1, 2):
        cluster = Cluster(3)
        declare(cluster, replicas)
        publisher = confirming(cluster, "n1")
        publisher.publish("orders", "a", "b")
        (info,) = cluster.node("n1").state.map.fragments.values()
        target = next(name for name in NAMES if name not in info.copies)
        wish(cluster, MoveFragment(ONE, NodeId(target)))
        cluster.wait_for(is_led_by(cluster, target), 3_000)
        cluster.pass_ms(2_000)
        (info,) = cluster.node("n1").state.map.fragments.values()
        assert len(info.copies) == len(info.in_sync) == replicas
        assert consuming(cluster, "n1").deliveries() == ["a", "b"]


def test_every_node_is_drained_in_turn_under_load_and_nothing_comes_twice() -> None:
    """Turn by turn, so that each wish meets whatever is on its way."""
    cluster = Cluster(3)
    declare(cluster, queue="orders")
    publishers = {name: confirming(cluster, name) for name in NAMES}
    consumers = {name: consuming(cluster, name, 5) for name in NAMES}
    got: dict[str, list[tuple[str, bool]]] = {name: [] for name in NAMES}
    sent = dict.fromkeys(NAMES, 0)

    def work() -> None:
        for name in NAMES:
            body = f"{name}.{sent[name]:04}".encode()
            publishers[name].write(publish_bytes(1, "", "orders", body, PERSISTENT, 0))
            sent[name] += 1
            for said in contents(consumers[name]):
                assert isinstance(said.method, BasicDeliver)
                got[name].append((said.body.decode(), said.method.redelivered))
                ack = encode_method(1, BasicAck(said.method.delivery_tag, False))
                consumers[name].write(ack)
        cluster.turn()

    moved = 0
    for name in (*NAMES, *NAMES):
        led = cluster.primary_of("orders")
        wish(cluster, DrainNode(NodeId(name), False))
        for turn in range(200):
            work()
            if turn % 4 == 0:
                tick(cluster)
        moved += led != cluster.primary_of("orders")
        assert cluster.primary_of("orders") != name
        wish(cluster, UndrainNode(NodeId(name)))
        cluster.pass_ms(200)
    for _ in range(50):
        cluster.pass_ms(50)
        for name in NAMES:
            for said in contents(consumers[name]):
                assert isinstance(said.method, BasicDeliver)
                got[name].append((said.body.decode(), said.method.redelivered))
                consumers[name].send(BasicAck(said.method.delivery_tag, False))
    assert moved >= 3
    bodies = [body for each in got.values() for body, _ in each]
    assert not [body for each in got.values() for body, again in each if again]
    assert len(bodies) == len(set(bodies))
    assert sorted(bodies) == sorted(
        f"{name}.{number:04}" for name in NAMES for number in range(sent[name])
    )
    for each in got.values():
        for name in NAMES:
            of_one = [body for body, _ in each if body.startswith(name)]
            assert of_one == sorted(of_one), "the order of each publisher"


def test_transactions_and_returns_meet_a_move() -> None:
    cluster = Cluster(3)
    declare(cluster)
    publisher = confirming(cluster, "n1")
    publisher.publish("orders", "a", "b", "c")
    target = other_than(cluster)
    third = next(name for name in NAMES if name not in ("n1", target))
    client = cluster.client(third)
    client.ask(TxSelect(), TxSelectOk)
    got = [client.ask(BasicGet("orders", False), BasicGetOk) for _ in range(3)]
    wish(cluster, MoveFragment(ONE, NodeId(target)))
    step_until(cluster, lambda: cluster.node(third).state.quiet)
    client.write(
        encode_method(1, BasicAck(got[0].delivery_tag, False))
        + encode_method(1, BasicNack(got[1].delivery_tag, False, True))
        + publish_bytes(1, "", "orders", b"d", PERSISTENT, 0)
        + encode_method(1, TxCommit())
    )
    cluster.wait_for(is_led_by(cluster, target), 1_000)
    cluster.wait_for(lambda: client.has(TxCommitOk), 1_000)
    consumer = consuming(cluster, "n1")
    cluster.pass_ms(500)
    assert consumer.deliveries() == ["again: b", "d"], "a is gone, c is with its client"


def test_a_node_that_does_not_answer_is_waited_for_and_then_all_go_on() -> None:
    cluster = Cluster(3)
    declare(cluster)
    publisher, consumer = confirming(cluster, "n1"), consuming(cluster, "n1")
    target = other_than(cluster)
    third = next(name for name in NAMES if name not in ("n1", target))
    quiet = cluster.node("n1").state.quiet
    # It has not said yet what it holds of the fragment, and says nothing before that.
    unsaid = cluster.node(third).state.peers[NodeId("n1")].unsaid
    unsaid[ONE] = None
    wish(cluster, MoveFragment(ONE, NodeId(target)))
    cluster.wait_for(lambda: ONE in quiet, 1_000)
    publisher.publish("orders", "a")
    assert not publisher.has(BasicAck), "it is kept"
    cluster.pass_ms(QUIET_MS_MAX + 100)
    assert publisher.has(BasicAck)
    assert consumer.deliveries() == ["a"]
    assert cluster.primary_of("orders") == "n1"
    del unsaid[ONE]
    cluster.wait_for(is_led_by(cluster, target), 3_000)


def test_a_refused_move_is_voided_and_the_primary_hands_out_again() -> None:
    cluster = Cluster(3)
    declare(cluster)
    publisher = confirming(cluster, "n1")
    target = other_than(cluster)
    wish(cluster, MoveFragment(ONE, NodeId(target)))
    primary = cluster.node("n1").state.primaries[ONE]
    step_until(cluster, lambda: primary.seen_at)
    wish(cluster, MoveFragment(ONE, NodeId("")))
    cluster.unheard[NodeId("n1")] = None
    cluster.pass_ms(200)
    del cluster.unheard[NodeId("n1")]
    publisher.publish("orders", "a")
    cluster.pass_ms(2_500)
    consumer = consuming(cluster, cluster.primary_of("orders"))
    cluster.pass_ms(200)
    assert consumer.deliveries() == ["a"]
    assert publisher.has(BasicAck)
    assert not any(cluster.node(name).state.quiet for name in NAMES)


def test_a_primary_that_dies_in_the_quiet_leaves_nothing_undone() -> None:
    cluster = Cluster(3)
    declare(cluster)
    target = other_than(cluster)
    third = next(name for name in NAMES if name not in ("n1", target))
    publisher, consumer = confirming(cluster, third), consuming(cluster, third)
    publisher.publish("orders", "a")
    assert consumer.deliveries() == ["a"]
    wish(cluster, MoveFragment(ONE, NodeId(target)))
    step_until(cluster, lambda: cluster.node(third).state.quiet)
    consumer.write(encode_method(1, BasicAck(1, False)))
    publisher.write(publish_bytes(1, "", "orders", b"b", PERSISTENT, 0))
    cluster.turn()
    cluster.kill("n1")
    cluster.wait_for(lambda: led_by(cluster, third) == target)
    cluster.wait_for(lambda: publisher.has(BasicAck))
    cluster.pass_ms(500)
    assert [body.removeprefix("again: ") for body in consumer.deliveries()] == ["b"]
    assert not cluster.node(third).state.quiet
    assert not cluster.node(third).state.map.moves


def test_a_stop_is_quiet_as_well() -> None:
    cluster = Cluster(3)
    declare(cluster)
    target = other_than(cluster)
    third = next(name for name in NAMES if name not in ("n1", target))
    consumer = consuming(cluster, third)
    confirming(cluster, third).publish("orders", "a", "b")
    assert consumer.deliveries() == ["a", "b"]
    cluster.hosts[NodeId("n1")].inbox.append(lambda node: node.stop())
    step_until(cluster, lambda: cluster.node(third).state.quiet)
    consumer.write(encode_method(1, BasicAck(0, True)))
    step_until(cluster, lambda: led_by(cluster, third) != "n1")
    assert any(isinstance(each[2], Quiesced) for each in cluster.overheard)
    cluster.pass_ms(1_000)
    assert consumer.deliveries() == []


def test_clients_of_a_drained_node_stay_and_new_ones_are_sent_on() -> None:
    cluster = Cluster(3)
    declare(cluster)
    client = cluster.client("n1")
    wish(cluster, DrainNode(NodeId("n1"), False))
    cluster.pass_ms(200)
    client.ask(QueueDeclare("orders", passive=True), QueueDeclareOk)
    newcomer = cluster.knock("n1")
    newcomer.shake_hands()
    cluster.wait_for(lambda: newcomer.has(ConnectionClose))
    close = newcomer.take(ConnectionClose)
    assert close.reply_code == 320
    assert "node n1 is drained: connect to another one: n2:5672, n3:5672" in close.reply_text
    wish(cluster, DrainNode(NodeId("n1"), True))
    cluster.wait_for(lambda: client.has(ConnectionClose))
    assert client.take(ConnectionClose).reply_text.endswith("n2:5672, n3:5672")
    wish(cluster, UndrainNode(NodeId("n1")))
    cluster.pass_ms(200)
    cluster.client("n1")


def test_a_drained_node_is_drained_after_its_restart() -> None:
    cluster = Cluster(3)
    declare(cluster)
    wish(cluster, DrainNode(NodeId("n1"), False))
    cluster.wait_for(lambda: cluster.primary_of("orders") != "n1", 2_000)
    cluster.kill("n1")
    cluster.pass_ms(1_000)
    cluster.start("n1")
    cluster.pass_ms(3_000)
    assert cluster.node("n1").state.map.drained == {NodeId("n1"): False}
    (info,) = cluster.node("n1").state.map.fragments.values()
    assert "n1" not in info.copies
