"""What publishers hear when a queue refuses: each tag once, in order, whatever the way was."""

from hypothesis import given
from hypothesis import strategies as st

from fedq.amqp.content import DIRECT_REPLY_TO, encode_properties
from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicNack,
    BasicReturn,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.amqp.values import FieldTable
from fedq.channels.confirms import ConfirmGroup
from fedq.core.ids import FragmentId, Incarnation, MapVersion, NodeId, Origin
from fedq.core.limits import PEER_FRAME_BYTES_MAX
from fedq.core.peer_messages import PublishAtomic
from fedq.node.cluster.proposals import Result
from fedq.proxy.links import Link
from fedq.proxy.publisher import FragmentPublisher
from fedq.wiring.cluster_map.operations import MemberUp, encode_command
from fedq.wiring.cluster_map.operations_access import SetPermissions
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import Cluster


def test_what_one_of_several_queues_refuses_is_nacked_once() -> None:
    cluster = Cluster(1)
    client = cluster.client()
    for name, most in (("one", 1), ("two", 2), ("all", 9)):
        arguments: FieldTable = {"x-max-length": most, "x-overflow": "reject-publish"}
        declare = QueueDeclare(name, exclusive=name == "two", arguments=arguments)
        client.ask(declare, QueueDeclareOk)
        client.ask(QueueBind(name, "amq.fanout"), QueueBindOk)
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    client.publish("", "a", "b", "c", exchange="amq.fanout", mandatory=True)
    assert client.heard() == [BasicAck(1), BasicNack(2, False, False), BasicNack(3, False, False)]
    client.publish("nowhere", "d", mandatory=True)
    client.publish("all", "e")
    returned, *confirmed = client.heard()
    assert isinstance(returned, BasicReturn)
    assert confirmed == [BasicAck(4), BasicAck(5)]


@given(
    st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=12),
    st.data(),
)
def test_each_group_hears_of_its_own_refused_publishes(
    sizes: list[tuple[int, bool]], data: st.DataObject
) -> None:
    """Also when a primary says it in pieces, and some publishes wait for no confirm."""
    publisher: FragmentPublisher[int] = FragmentPublisher(FragmentId(1), 1 << 20)
    groups: list[ConfirmGroup[int]] = []
    numbers: dict[int, int] = {}
    tag = 0
    for size, confirmed in sizes:
        group = None
        if confirmed:
            numbers.update((publisher.last + n, tag + n) for n in range(1, size + 1))
            tag += size
            group = ConfirmGroup(0, tag, size, 1)
            groups.append(group)
        publisher.add([b"x"] * size, group)
    publisher.take()
    refused = data.draw(st.lists(st.integers(1, publisher.last), unique=True))
    middle = data.draw(st.integers(1, publisher.last))
    done = publisher.on_done(middle, [n for n in refused if n <= middle])
    done += publisher.on_done(publisher.last, [n for n in refused if n > middle])
    assert done == groups
    told = {tag for group in groups for tag in group.refused or ()}
    assert told == {numbers[n] for n in refused if n in numbers}


def test_a_large_transaction_fills_a_frame() -> None:
    """Otherwise several of them would be one frame, longer than the stream takes."""
    link = Link(NodeId("a"), Incarnation(1), NodeId("b"))
    link.set_session(1, 2)
    link.on_connected()
    origin, body = Origin(NodeId("a"), Incarnation(1)), bytes(PEER_FRAME_BYTES_MAX)
    for number in (1, 2):
        link.send(PublishAtomic(FragmentId(1), 1, origin, number, False, [body], [], [], []))
    assert len(link.take_frames(MapVersion(1), 0, None)) == 2


def test_a_message_that_matches_by_its_headers_follows_one_that_does_not() -> None:
    cluster = Cluster(1)
    client = cluster.client()
    client.ask(QueueDeclare("orders"), QueueDeclareOk)
    arguments: FieldTable = {"x-match": "all", "a": 1}
    client.ask(QueueBind("orders", "amq.headers", arguments=arguments), QueueBindOk)
    client.ask(BasicConsume("orders", no_ack=True), BasicConsumeOk)
    client.write(
        b"".join(
            publish(1, "amq.headers", "", str(a).encode(), encode_properties({"headers": {"a": a}}))
            for a in (2, 1, 3, 1)
        )
    )
    cluster.settle()
    assert client.deliveries() == ["1", "1"]


def test_whoever_may_ask_may_hear_the_answer() -> None:
    """Direct replies need no permission to read, as in RabbitMQ."""
    cluster = Cluster(1)
    answers: list[Result] = []
    operation = SetPermissions("guest", "/", "^$", ".*", "^$")
    cluster.hosts[NodeId("n1")].inbox.append(
        lambda node: node.on_change_asked(operation, answers.append)
    )
    cluster.wait_for(lambda: bool(answers))
    client = cluster.client()
    client.ask(BasicConsume(DIRECT_REPLY_TO, no_ack=True), BasicConsumeOk)
    assert client.ask(BasicConsume("orders"), ChannelClose).reply_code == 403


def test_what_is_under_way_is_sent_once_though_the_map_says_again_that_its_node_is_in() -> None:
    """The map says so again when a node joins the era.

    A queue that refuses cannot tell what it took from what it refused: it would refuse all that is
    sent to it again.
    """
    cluster = Cluster(3)
    client = cluster.client()
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    arguments: FieldTable = {"x-max-length": 2, "x-overflow": "reject-publish"}
    client.ask(QueueDeclare("q", durable=True, arguments=arguments), QueueDeclareOk)
    assert cluster.primary_of("q") == "n1"
    for name in cluster.hosts:
        cluster.disk_waits(name, True)
    client.publish("q", "a", "b", "c")
    known = cluster.node("n1").state.map.members[NodeId("n1")]
    moved = MemberUp(
        NodeId("n1"), known.incarnation, known.peer_address, "elsewhere:5672", known.zone,
        known.start, known.started_ms, known.incarnation, known.start,
    )  # fmt: skip
    cluster.log.append(encode_command("moved", [moved]))
    cluster.settle()
    assert cluster.node("n2").state.map.members[NodeId("n1")].amqp_address == "elsewhere:5672"
    for name in cluster.hosts:
        cluster.disk_waits(name, False)
    cluster.pass_ms(200)
    answers = [each for each in client.heard() if isinstance(each, BasicAck | BasicNack)]
    assert [type(each) for each in answers] == [BasicAck, BasicNack]
    assert [each.delivery_tag for each in answers] == [2, 3]
