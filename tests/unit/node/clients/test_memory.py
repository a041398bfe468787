"""What a node counts as held: with its upkeep, for whatever clients make it hold."""

import pytest

from fedq.amqp.content import encode_properties
from fedq.amqp.method_types import Method
from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicQos,
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionUnblocked,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
    encode_method,
)
from fedq.amqp.values import FieldTable
from fedq.core.ids import Incarnation, MapVersion, NodeId
from fedq.core.peer_messages import Deliver, PeerFrame, Relay
from fedq.node.clients.memory import held_bytes
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import Client, Cluster

KIB = 1024
MIB = 1024 * KIB


def is_read(client: Client) -> bool:
    return client.is_read


def held(cluster: Cluster, name: str = "n1") -> int:
    return held_bytes(cluster.node(name).state)


def report(cluster: Cluster, *, waiting: int = 0, resident: int = 0, disk_free: int = -1) -> None:
    """The driver says what it sees."""
    host = next(iter(cluster.hosts.values()))
    host.inbox.append(lambda node: node.on_resources(waiting, resident, disk_free))
    cluster.pass_ms(600)


@pytest.mark.parametrize(
    ("arguments", "properties", "least"),
    [
        # What 200,000 empty messages take of a process, per message, less a tenth.
        ({}, {}, 46),
        ({}, {"expiration": "1000000"}, 65),
        ({"x-message-ttl": 1_000_000}, {}, 51),
        ({"x-message-ttl": 1_000_000, "x-max-priority": 5}, {}, 219),
    ],
)
def test_messages_are_counted_with_what_it_costs_to_hold_them(
    arguments: FieldTable, properties: FieldTable, least: int
) -> None:
    cluster = Cluster()
    client = cluster.client()
    client.ask(QueueDeclare("q", arguments=arguments), QueueDeclareOk)
    before = held(cluster)
    each = publish(1, "", "q", b"", encode_properties(properties))
    client.write(each * 1_000)
    cluster.settle()
    assert least * 1_000 <= held(cluster) - before <= 1.6 * least * 1_000


def test_a_backup_counts_what_it_keeps() -> None:
    cluster = Cluster(2)
    client = cluster.client("n1")
    client.ask(QueueDeclare("q"), QueueDeclareOk)
    cluster.pass_ms(1_000)
    before = held(cluster, "n2")
    client.publish("q", *["x" * KIB] * 500)
    cluster.pass_ms(500)
    assert 500 * KIB <= held(cluster, "n2") - before <= 600 * KIB


def endless(channel: int, size: int) -> bytes:
    """So many bytes, in whole frames, of a body of which one byte more is promised."""
    whole = publish(channel, "", "q", bytes(size))
    return whole.replace(size.to_bytes(8), (size + 1).to_bytes(8), 1)


def comes_and_goes(
    cluster: Cluster, client: Client, least: int, grows: Method, goes: Method
) -> None:
    before = held(cluster)
    client.send(grows)
    assert held(cluster) - before >= least
    client.send(goes)
    assert held(cluster) == before


def test_what_a_connection_has_is_counted_while_it_has_it() -> None:
    cluster = Cluster()
    before = held(cluster)
    client = cluster.client()
    assert held(cluster) - before >= 4 * KIB
    comes_and_goes(
        cluster, client, 1_300, QueueDeclare("mine", exclusive=True), QueueDelete("mine")
    )
    client.ask(QueueDeclare("mine", exclusive=True), QueueDeclareOk)
    mine = held(cluster)
    arguments: FieldTable = {"x-match": "all", **{f"k{n}": n for n in range(250)}}
    client.ask(QueueBind("mine", "amq.headers", arguments=arguments), QueueBindOk)
    assert held(cluster) - mine >= 38_000
    bound = held(cluster)
    client.ask(BasicConsume("mine"), BasicConsumeOk)
    assert held(cluster) - bound >= 700
    client.ask(ChannelOpen(), ChannelOpenOk, 2)
    assert held(cluster) - bound >= 1_400
    client.hang_up()
    cluster.pass_ms(500)
    assert held(cluster) == before
    accounts = cluster.node("n1").state.accounts
    assert (accounts.users, accounts.vhosts, accounts.bytes_unfinished) == ({}, {}, 0)


def test_users_and_virtual_hosts_have_accounts() -> None:
    cluster = Cluster()
    clients = [cluster.client(), cluster.client(channels=3)]
    accounts = cluster.node("n1").state.accounts
    account = accounts.users["guest"]
    assert (account.connections, account.channels) == (2, 4)
    assert accounts.vhosts["/"].bytes_held == account.bytes_held == accounts.bytes_held
    clients[1].ask(QueueDeclare("mine", exclusive=True), QueueDeclareOk)
    assert accounts.vhosts["/"].bytes_held == account.bytes_held == accounts.bytes_held
    clients[1].hang_up()
    assert (account.connections, account.channels) == (1, 1)
    assert account.bytes_held == accounts.bytes_held


def test_a_transaction_is_counted_until_it_is_committed() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.ask(QueueDeclare("q"), QueueDeclareOk)
    client.ask(TxSelect(), TxSelectOk)
    before = held(cluster)
    client.publish("", *["x" * KIB] * 100)
    assert held(cluster) - before >= 100 * KIB
    client.ask(TxCommit(), TxCommitOk)
    assert held(cluster) == before


def test_commands_that_wait_are_counted_and_bounded() -> None:
    cluster = Cluster(2)
    client = cluster.client("n2")
    cluster.disk_waits("n1", True)
    client.ask(QueueDeclare("q", durable=True), QueueDeclareOk)
    cluster.cut("n1")
    before = held(cluster, "n2")
    client.write(encode_method(1, QueueDeclare("other")))
    for _ in range(30):
        client.write(publish(1, "", "q", bytes(100 * KIB)))
        cluster.turn()
    cluster.settle()
    assert held(cluster, "n2") - before >= 3_000 * KIB
    assert not is_read(client)


def test_a_publish_that_will_be_refused_is_refused_before_its_body_comes() -> None:
    cluster = Cluster()
    client = cluster.client()
    whole = publish(1, "nothing", "k", bytes(900 * KIB))
    client.write(whole[: 200 * KIB])
    cluster.settle()
    close = client.take(ChannelClose)
    assert close.reply_code == 404
    assert "no exchange 'nothing'" in close.reply_text
    assert held(cluster) < 250 * KIB
    for start in range(200 * KIB, len(whole), 100 * KIB):
        client.write(whole[start : start + 100 * KIB])
        cluster.settle()
    assert client.heard() == [], "the rest is thrown away"
    client.send(ChannelOpen(), channel=2)
    assert client.has(ChannelOpenOk)


def test_what_was_asked_for_before_decides_about_a_body_that_comes() -> None:
    cluster = Cluster(3)
    client = cluster.client("n2")
    whole = publish(1, "", "q", bytes(300 * KIB))
    client.write(encode_method(1, QueueDeclare("q")) + whole[: 200 * KIB])
    cluster.wait_for(lambda: client.has(QueueDeclareOk))
    client.take(QueueDeclareOk)
    client.write(whole[200 * KIB :])
    cluster.pass_ms(500)
    assert client.ask(QueueDeclare("q", passive=True), QueueDeclareOk).message_count == 1


def test_unfinished_bodies_set_the_alarm_and_are_held_by_it() -> None:
    cluster = Cluster(1, memory_bytes_max=4 * MIB)
    clients = [cluster.client() for _ in range(12)]
    for client in clients:
        whole = endless(1, 900 * KIB)
        for start in range(0, len(whole), 100 * KIB):
            if is_read(client):
                client.write(whole[start : start + 100 * KIB])
                cluster.settle()
                assert held(cluster) < 4.4 * MIB
    closed = [client for client in clients if client.has(ConnectionClose)]
    assert closed, "they are the cause, so the largest ends"
    assert closed[0].close_reason[0] == 506
    assert is_read(clients[-1]), "there is room again"


def test_what_a_closed_connection_still_sends_is_not_counted() -> None:
    cluster = Cluster(1, memory_bytes_max=8 * MIB)
    before = held(cluster)
    client = cluster.client(channels=6)
    accounts = cluster.node("n1").state.accounts
    for channel in range(1, 7):
        client.write(endless(channel, MIB))
        cluster.settle()
    assert client.has(ConnectionClose)
    for _ in range(3):
        client.write(b"\x03\x00\x01\x00\x01\x00\x00" + bytes(60 * KIB))
        cluster.settle()
        assert accounts.bytes_unfinished == 0
    client.hang_up()
    assert (accounts.bytes_unfinished, held(cluster)) == (0, before)


def test_one_connection_has_no_more_than_a_quarter_of_the_memory_in_bodies() -> None:
    cluster = Cluster(1, memory_bytes_max=8 * MIB)
    client = cluster.client(channels=6)
    for channel in range(1, 7):
        client.write(endless(channel, MIB))
        cluster.settle()
    assert client.close_reason[0] == 506
    assert held(cluster) < MIB


def test_the_alarm_does_not_wait_for_the_clock() -> None:
    cluster = Cluster(1, memory_bytes_max=2 * MIB)
    client = cluster.client()
    client.ask(QueueDeclare("q"), QueueDeclareOk)
    for _ in range(100):
        if is_read(client):
            client.write(publish(1, "", "q", bytes(100 * KIB)))
            cluster.settle()
    assert held(cluster) < 2.3 * MIB


def test_resident_memory_sets_the_alarm_and_does_not_keep_it() -> None:
    # None of it leaves memory for the disk.
    cluster = Cluster(1, memory_bytes_max=MIB, stow_bytes_min=MIB)
    client, consumer = cluster.client(), cluster.client()
    client.ask(QueueDeclare("q"), QueueDeclareOk)
    client.publish("q", *["x" * 10 * KIB] * 60)
    report(cluster, resident=MIB // 2)
    assert is_read(client)
    report(cluster, resident=2 * MIB)
    assert not is_read(client)
    assert client.take(ConnectionBlocked).reason.startswith("low on memory")
    consumer.ask(BasicConsume("q", no_ack=True), BasicConsumeOk)
    report(cluster, resident=2 * MIB)
    assert is_read(client), "what is counted is gone: the rest is the allocator's"
    assert client.has(ConnectionUnblocked)


def test_what_waits_in_the_driver_counts() -> None:
    cluster = Cluster(1, memory_bytes_max=MIB)
    client = cluster.client()
    client.ask(QueueDeclare("q"), QueueDeclareOk)
    client.publish("q", "x")
    report(cluster, waiting=2 * MIB)
    assert not is_read(client)
    report(cluster)
    assert is_read(client)


def test_publishers_wait_while_the_disk_has_little_room() -> None:
    cluster = Cluster(1, disk_free_bytes_min=100)
    client, consumer = cluster.client(), cluster.client()
    client.ask(QueueDeclare("q"), QueueDeclareOk)
    client.publish("q", "x")
    report(cluster, disk_free=1_000)
    assert is_read(client)
    report(cluster, disk_free=99)
    assert is_read(client), "as long as it does not publish"
    client.publish("q", "x")
    assert not is_read(client)
    assert is_read(consumer)
    assert client.take(ConnectionBlocked).reason == "low on disk"
    report(cluster, disk_free=105)
    assert not is_read(client), "not at once, or it would flap"
    report(cluster, disk_free=120)
    assert is_read(client)
    assert client.has(ConnectionUnblocked)


def test_a_disk_without_any_room_is_full_until_there_is_some_whatever_the_bound_is() -> None:
    cluster = Cluster(1, disk_free_bytes_min=0)
    for _ in range(3):
        report(cluster, disk_free=0)
        assert cluster.node("n1").state.disk_low
    report(cluster, disk_free=1)
    assert not cluster.node("n1").state.disk_low


def test_each_blocked_has_its_unblocked_whatever_the_reasons_are() -> None:
    cluster = Cluster(1, memory_bytes_max=MIB, disk_free_bytes_min=100)
    client = cluster.client()
    client.ask(QueueDeclare("q"), QueueDeclareOk)
    client.publish("q", "x")
    report(cluster, waiting=2 * MIB, disk_free=99)
    assert not is_read(client)
    assert client.heard() == [ConnectionBlocked("low on memory & disk")]
    report(cluster, waiting=0, disk_free=99)
    client.publish("q", "x")
    assert not is_read(client)
    assert client.heard() == [ConnectionUnblocked(), ConnectionBlocked("low on disk")]
    report(cluster, disk_free=1_000)
    assert is_read(client)
    assert [type(each) for each in client.heard()] == [ConnectionUnblocked]


def test_deleted_queues_leave_nothing_behind() -> None:
    cluster = Cluster()
    client = cluster.client()
    before = held(cluster)
    client.ask(QueueDeclare("q"), QueueDeclareOk)
    client.publish("q", *["x" * KIB] * 10)
    client.send(BasicGet("q"))
    client.ask(QueueDelete("q"), QueueDeleteOk)
    cluster.pass_ms(1_000)
    assert held(cluster) == before


class Gulps:
    """How many bytes a client got in its largest turn."""

    def __init__(self, client: Client) -> None:
        self.largest = 0
        self._receive = client.receive
        client.receive = self.note  # type: ignore[method-assign]

    def note(self, data: bytes) -> None:
        self.largest = max(self.largest, len(data))
        self._receive(data)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"x-message-ttl": 1_000_000}, {"x-max-priority": 5}],
    ids=["in runs", "singly", "by priority"],
)
def test_a_consumer_without_a_limit_is_handed_no_more_bytes_than_a_turn_gives(
    arguments: FieldTable,
) -> None:
    cluster = Cluster()
    client, other = cluster.client(), cluster.client()
    client.ask(QueueDeclare("q", arguments=arguments), QueueDeclareOk)
    bodies = [f"{n:02}" + "x" * (600 * KIB) for n in range(20)]
    for n, body in enumerate(bodies):
        client.publish("q", *[f"small {n}"] * 3, body)
    gulps = Gulps(other)
    other.send(BasicConsume("q", no_ack=True))
    assert len(other.deliveries()) == 80
    assert gulps.largest <= 2 * MIB


def test_several_consumers_share_large_messages_and_none_gets_more_than_a_turn_gives() -> None:
    cluster = Cluster()
    client, *others = [cluster.client() for _ in range(4)]
    client.ask(QueueDeclare("q"), QueueDeclareOk)
    for n in range(12):
        client.publish("q", f"{n:02}" + "x" * (1536 * KIB))
    gulps = [Gulps(other) for other in others]
    for other in others:
        other.send(BasicQos(0, 1, False), BasicConsume("q"))
    for turn in range(1, 4):
        for other in others:
            other.send(BasicAck(turn))
    assert [len(other.deliveries()) for other in others] == [4, 4, 4]
    assert max(gulp.largest for gulp in gulps) <= 2 * MIB


def test_another_nodes_consumer_is_handed_large_messages_piece_by_piece() -> None:
    cluster = Cluster(2)
    client, other = cluster.client("n1"), cluster.client("n2")
    client.ask(QueueDeclare("q"), QueueDeclareOk)
    for n in range(30):
        client.publish("q", f"{n:02}" + "x" * (1024 * KIB))
    del cluster.overheard[:]
    largest, seen = 0, 0
    other.write(encode_method(1, BasicConsume("q", no_ack=True)))
    while cluster.turn():
        said = cluster.overheard[seen:]
        seen = len(cluster.overheard)
        dealt = [m for _, _, m in said if isinstance(m, Deliver)]
        largest = max(largest, sum(len(each) for m in dealt for each in m.messages))
    assert [body[:2] for body in other.deliveries()] == [f"{n:02}" for n in range(30)]
    assert 0 < largest <= 5 * MIB


def test_frames_that_wait_for_the_map_are_bounded_and_counted_in_bytes() -> None:
    cluster = Cluster(2)
    client = cluster.client("n1")
    client.ask(QueueDeclare("q"), QueueDeclareOk)
    state = cluster.node("n2").state
    link = state.peers[NodeId("n1")].link
    before = held(cluster, "n2")
    frame = PeerFrame(
        NodeId("n1"), Incarnation(1), link.session[::-1], 1_000, 0,
        MapVersion(state.map.version + 1), [Relay(1, "/", [bytes(4 * MIB)])], None,
    )  # fmt: skip
    for _ in range(100):
        cluster.hosts[NodeId("n2")].inbox.append(lambda node: node.on_peer(frame))
    cluster.settle()
    assert 7 <= len(link.held) <= 8
    assert held(cluster, "n2") - before >= len(link.held) * 4 * MIB


def test_a_turn_writes_so_much_to_all_who_get_long_messages_and_no_more() -> None:
    cluster = Cluster(1, work_per_turn=2_000)
    owner, clients = cluster.client(), [cluster.client() for _ in range(20)]
    owner.ask(QueueDeclare("q"), QueueDeclareOk)
    for _ in clients:
        owner.publish("q", "x" * MIB)
    gulps = [Gulps(client) for client in clients]
    written: list[int] = []
    for client in clients:
        client.write(encode_method(1, BasicGet("q")))
    while cluster.turn():
        written.append(sum(gulp.largest for gulp in gulps))
        for gulp in gulps:
            gulp.largest = 0
    assert sum(written) >= 20 * MIB
    assert max(written) <= 6 * MIB


def test_small_messages_that_cost_much_do_not_run_past_the_bound() -> None:
    cluster = Cluster(1, memory_bytes_max=8 * MIB)
    client = cluster.client()
    # Messages with priorities are kept singly, and stay where their bytes are counted.
    arguments: FieldTable = {"x-max-priority": 5, "x-max-length-bytes": 1 << 40}
    client.ask(QueueDeclare("q", arguments=arguments), QueueDeclareOk)
    each = publish(1, "", "q", b"", encode_properties({"priority": 3}))
    largest = 0
    for _ in range(200):
        if not client.is_read:
            break
        client.write(each * 200)
        cluster.settle()
        largest = max(largest, held(cluster))
    assert not client.is_read
    assert 8 * MIB < largest < 8.5 * MIB


def test_bodies_that_are_not_finished_keep_nobody_else_of_that_user_from_a_queue() -> None:
    cluster = Cluster(1, memory_bytes_max=4 * MIB)
    other = cluster.client()
    for _ in range(2):
        client = cluster.client()
        client.write(endless(1, 1_000 * KIB))
    cluster.settle()
    assert cluster.node("n1").state.accounts.bytes_unfinished > 2 * MIB
    other.ask(QueueDeclare("mine", exclusive=True), QueueDeclareOk)
