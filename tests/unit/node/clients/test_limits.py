"""Limits of virtual hosts, users and connections, as their clients meet them."""

import pytest

from fedq.amqp.handshake import PROTOCOL_HEADER
from fedq.amqp.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    ChannelClose,
    ChannelOpen,
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionTune,
    ConnectionTuneOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    encode_method,
)
from fedq.amqp.values import FieldTable
from fedq.core.ids import NodeId
from fedq.core.peer_messages import Tally
from fedq.node.node import Node
from fedq.proxy.links import FIXED_BYTES
from fedq.wiring.cluster_map.operations import Operation
from fedq.wiring.cluster_map.operations_access import (
    DeleteUser,
    DeleteVhost,
    SetUserLimits,
    SetVhostLimits,
)
from tests.unit.amqp.wire import start_ok
from tests.unit.node.harness import CAPABILITIES, Client, Cluster

MIB = 1024 * 1024


def change(cluster: Cluster, operation: Operation) -> None:
    results: list[object] = []

    def ask(node: Node) -> None:
        node.on_change_asked(operation, results.append)

    cluster.hosts[NodeId("n1")].inbox.append(ask)
    cluster.wait_for(lambda: len(results) == 1)


def knock(cluster: Cluster, node: str = "n1") -> Client:
    client = cluster.knock(node)
    client.shake_hands()
    cluster.wait_for(lambda: client.has(ConnectionOpenOk) or client.has(ConnectionClose))
    return client


def test_a_virtual_host_has_no_more_connections_than_its_limit() -> None:
    cluster = Cluster()
    first = cluster.client()
    change(cluster, SetVhostLimits("/", (("max-connections", 2),)))
    second = knock(cluster)
    assert second.has(ConnectionOpenOk)
    assert knock(cluster).close_reason == (
        530,
        "NOT_ALLOWED - access to vhost '/' refused for user 'guest': connection limit (2) is "
        "reached",
    )
    first.hang_up()
    assert knock(cluster).has(ConnectionOpenOk)


def test_a_user_has_no_more_connections_than_its_limit() -> None:
    cluster = Cluster()
    change(cluster, SetUserLimits("guest", (("max-connections", 0),)))
    assert knock(cluster).close_reason == (
        530,
        "NOT_ALLOWED - connection refused for user 'guest': user connection limit (0) is reached",
    )


def test_a_user_has_no_more_channels_than_its_limit_on_all_its_connections() -> None:
    cluster = Cluster()
    change(cluster, SetUserLimits("guest", (("max-channels", 3),)))
    first, second = cluster.client(channels=2), cluster.client(channels=1)
    second.write(encode_method(2, ChannelOpen()) + encode_method(3, ChannelOpen()))
    cluster.settle()
    assert second.close_reason == (
        530,
        "NOT_ALLOWED - number of channels opened for user 'guest' has reached the maximum allowed "
        "user limit of (3)",
    )
    first.ask(QueueDeclare("q"), QueueDeclareOk)


VHOST_IS_FULL = (
    530,
    "NOT_ALLOWED - access to vhost '/' refused for user 'guest': connection limit (2) is reached",
)
USER_IS_FULL = (
    530,
    "NOT_ALLOWED - connection refused for user 'guest': user connection limit (2) is reached",
)
LIMITS: list[tuple[Operation, tuple[int, str]]] = [
    (SetVhostLimits("/", (("max-connections", 2),)), VHOST_IS_FULL),
    (SetUserLimits("guest", (("max-connections", 2),)), USER_IS_FULL),
]


@pytest.mark.parametrize(("limit", "refusal"), LIMITS)
def test_connections_of_all_nodes_count(limit: Operation, refusal: tuple[int, str]) -> None:
    cluster = Cluster(3)
    first, _ = cluster.client("n1"), cluster.client("n2")
    change(cluster, limit)
    cluster.pass_ms(200)
    for name in ("n1", "n2", "n3"):
        assert knock(cluster, name).close_reason == refusal
    first.hang_up()
    cluster.pass_ms(200)
    assert knock(cluster, "n3").has(ConnectionOpenOk)
    cluster.pass_ms(200)
    assert knock(cluster, "n1").close_reason == refusal


@pytest.mark.parametrize(("limit", "refusal"), LIMITS)
def test_a_node_that_dies_takes_its_connections_out_of_the_count(
    limit: Operation, refusal: tuple[int, str]
) -> None:
    cluster = Cluster(3)
    cluster.client("n3"), cluster.client("n3")
    change(cluster, limit)
    cluster.pass_ms(200)
    assert knock(cluster, "n1").close_reason == refusal
    cluster.kill("n3")
    cluster.wait_for(lambda: not cluster.node("n1").state.map.members[NodeId("n3")].up)
    assert knock(cluster, "n1").has(ConnectionOpenOk)
    # Who comes (back) is told what there is.
    cluster.start("n3")
    cluster.wait_for(lambda: cluster.node("n3").state.joined)
    assert knock(cluster, "n2").has(ConnectionOpenOk)
    cluster.pass_ms(200)
    assert knock(cluster, "n3").close_reason == refusal


def test_a_link_that_breaks_leaves_the_count_as_it_was_told() -> None:
    cluster = Cluster(3)
    change(cluster, SetVhostLimits("/", (("max-connections", 2),)))
    one, _ = cluster.client("n2"), cluster.client("n2")
    cluster.pass_ms(200)
    cluster.cut("n2")
    assert knock(cluster, "n1").close_reason == VHOST_IS_FULL
    cluster.mend("n2")
    one.hang_up()
    cluster.pass_ms(500)
    assert knock(cluster, "n1").has(ConnectionOpenOk)


def test_channels_of_a_user_count_on_all_nodes() -> None:
    cluster = Cluster(3)
    change(cluster, SetUserLimits("guest", (("max-channels", 3),)))
    cluster.client("n2", channels=2)
    other = cluster.client("n1", channels=1)
    cluster.pass_ms(200)
    other.write(encode_method(2, ChannelOpen()))
    cluster.settle()
    code, text = other.close_reason
    assert code == 530
    assert "user limit of (3)" in text


def test_many_names_are_told_in_pieces_and_only_names_of_the_map_are_kept() -> None:
    cluster = Cluster(3)
    tallies = cluster.node("n1").cluster.tallies
    sent = Tally("", "/", 7, 0)
    for message in (sent, Tally("nobody", "", 5, 5), Tally("", "nowhere", 5, 0)):
        tallies.on_tally(NodeId("n2"), message)
    assert tallies.connections(("vhost", "/")) == 7
    assert tallies.connections(("user", "nobody")) == 0
    assert tallies.connections(("vhost", "nowhere")) == 0
    accounts = cluster.node("n1").state.accounts
    accounts.changed.update({("user", f"u{number}"): None for number in range(450)})
    told: list[int] = []
    link = cluster.node("n1").state.peers[NodeId("n2")].link
    for _ in range(4):
        before = link.bytes_unacked
        tallies.tick()
        told.append((link.bytes_unacked - before) // FIXED_BYTES)
    assert told == [200, 200, 50, 0]


@pytest.mark.parametrize("exclusive", [False, True])
def test_exclusive_queues_count_against_the_limit_of_queues(exclusive: bool) -> None:
    cluster = Cluster()
    client = cluster.client(channels=2)
    change(cluster, SetVhostLimits("/", (("max-queues", 3),)))
    for name in ("", "", "mine"):
        client.ask(QueueDeclare(name, exclusive=True), QueueDeclareOk)
    client.send(QueueDeclare("" if exclusive else "shared", exclusive=exclusive), channel=2)
    cluster.wait_for(lambda: client.has(ChannelClose))
    close = client.take(ChannelClose)
    assert close.reply_code == 406
    assert "queue limit in vhost '/' (3) is reached" in close.reply_text
    client.hang_up()
    other = cluster.client()
    for name in ("a", "b", "c"):
        other.ask(QueueDeclare(name), QueueDeclareOk)


def test_a_connection_holds_no_more_than_its_share_in_queues_and_bindings() -> None:
    cluster = Cluster(1, memory_bytes_max=4 * MIB)
    client, other = cluster.client(), cluster.client()
    client.ask(QueueDeclare("mine", exclusive=True), QueueDeclareOk)
    bound = 0
    while not client.has(ChannelClose):
        arguments: FieldTable = {"x-match": "all", "n": bound, "long": "x" * 3_000}
        client.send(QueueBind("mine", "amq.headers", "", arguments=arguments))
        bound += client.has(QueueBindOk)
        client.said = [each for each in client.said if isinstance(each, ChannelClose)]
    assert 50 < bound < 150
    close = client.take(ChannelClose)
    assert close.reply_code == 506
    assert "this connection holds more than" in close.reply_text
    client.send(ChannelOpen(), channel=2)
    client.send(BasicConsume("mine"), channel=2)
    assert client.take(ChannelClose).reply_code == 506
    other.ask(QueueDeclare("other", exclusive=True), QueueDeclareOk)


def test_how_many_channels_are_offered_is_a_setting() -> None:
    cluster = Cluster(1, channels_max=5)
    client = cluster.knock()
    client.write(PROTOCOL_HEADER + start_ok(CAPABILITIES))
    cluster.settle()
    assert client.take(ConnectionTune).channel_max == 5
    client.write(encode_method(0, ConnectionTuneOk(6, 0, 0)))
    client.write(encode_method(0, ConnectionOpen("/")))
    cluster.settle()
    assert client.close_reason[0] == 530


def test_a_channel_and_a_connection_have_no_more_consumers_than_is_set() -> None:
    cluster = Cluster(1, consumers_per_channel_max=2, consumers_per_connection_max=3)
    client = cluster.client(channels=3)
    client.ask(QueueDeclare("q"), QueueDeclareOk)
    for number in (1, 2):
        for turn in range(3):
            # One that was cancelled counts no more.
            client.ask(BasicConsume("q", f"{number}{turn}"), BasicConsumeOk, number)
            if turn:
                client.ask(BasicCancel(f"{number}{turn}"), BasicCancelOk, number)
    client.ask(BasicConsume("q"), BasicConsumeOk, 3)
    client.send(BasicConsume("q"), channel=3)
    assert client.close_reason == (
        530,
        "NOT_ALLOWED - reached maximum (3) of consumers per connection",
    )
    other = cluster.client()
    other.ask(QueueDeclare("mine", exclusive=True), QueueDeclareOk)
    for queue in ("q", "mine"):
        other.ask(BasicConsume(queue), BasicConsumeOk)
    other.ask(QueueDelete("mine"), QueueDeleteOk)
    other.ask(BasicConsume("q"), BasicConsumeOk)
    other.send(BasicConsume("q"))
    assert other.close_reason == (530, "NOT_ALLOWED - reached maximum (2) of consumers per channel")


@pytest.mark.parametrize("gone", [DeleteVhost("/"), DeleteUser("guest")])
def test_the_clients_of_what_is_deleted_leave_piece_by_piece(gone: Operation) -> None:
    cluster = Cluster(1, work_per_turn=1_000)
    clients = [cluster.client() for _ in range(100)]
    results: list[object] = []
    cluster.hosts[NodeId("n1")].inbox.append(
        lambda node: node.on_change_asked(gone, results.append)
    )
    most = before = 0
    while cluster.turn():
        closed = sum(client.has(ConnectionClose) for client in clients)
        most, before = max(most, closed - before), closed
    assert before == 100
    assert most <= 50
    assert {client.close_reason[0] for client in clients} == {320}


def test_a_virtual_host_holds_no_more_than_its_share() -> None:
    cluster = Cluster(1, memory_bytes_max=4 * MIB)
    state = cluster.node("n1").state
    clients = [cluster.client() for _ in range(5)]
    for number, client in enumerate(clients):
        # Nobody has used up what is his own, of all together there is too much.
        owner = state.clients[client.connection]
        state.accounts.charge(owner, 700 * 1024)
        assert owner.of_user is not None
        owner.of_user.bytes_held -= 700 * 1024
        client.send(QueueDeclare(f"{number}", exclusive=True))
    assert [client.has(QueueDeclareOk) for client in clients] == [True] * 4 + [False]
    close = clients[4].take(ChannelClose)
    assert close.reply_code == 506
    assert "vhost '/' holds more than" in close.reply_text


def test_starts_that_are_over_leave_nothing_with_the_fragments_they_published_to() -> None:
    cluster = Cluster(3)
    client = cluster.client("n1")
    client.ask(QueueDeclare("q", arguments={"x-fedq-replicas": 2}), QueueDeclareOk)
    for _ in range(3):
        publisher = cluster.client("n3")
        publisher.publish("q", "x")
        cluster.kill("n3")
        cluster.pass_ms(3_000)
        cluster.start("n3")
        cluster.pass_ms(3_000)
    cluster.client("n3").publish("q", "x")
    states = [cluster.node(name).state for name in cluster.hosts]
    copies = [each.fragment.origins for state in states for each in state.primaries.values()]
    copies += [each.replica.origins for state in states for each in state.backups.values()]
    assert [origin.incarnation for origins in copies for origin in origins] == [4, 4]
    assert (
        cluster.client("n2").ask(QueueDeclare("q", passive=True), QueueDeclareOk).message_count == 4
    )
