"""Logins, virtual hosts and permissions of nodes driven by hand."""

from collections.abc import Callable

import pytest

from fedq.amqp.handshake import PROTOCOL_HEADER
from fedq.amqp.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionTune,
    ConnectionTuneOk,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
    encode_method,
)
from fedq.amqp.sasl import EXTERNAL, PLAIN
from fedq.amqp.values import FieldTable
from fedq.core.errors import Refused
from fedq.core.ids import NodeId, QueueKey
from fedq.node.cluster.proposals import Result
from fedq.node.node import Node
from fedq.node.views.overview import overview
from fedq.wiring.cluster_map import invariants
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations import Operation, encode_command
from fedq.wiring.cluster_map.operations_access import (
    AddVhost,
    ClearPermissions,
    DeleteUser,
    DeleteVhost,
    PutUser,
    SetPassword,
    SetPermissions,
)
from fedq.wiring.cluster_map.passwords import COST_MIN, make_record, verify
from fedq.wiring.cluster_map.state import Ok
from tests.unit.amqp.wire import start_ok
from tests.unit.node import harness
from tests.unit.node.harness import Client, Cluster

RECORD = make_record("geheim", bytes(16), COST_MIN)


def plain(user: str, password: str) -> bytes:
    return f"\0{user}\0{password}".encode()


def change(cluster: Cluster, *operations: Operation, at: str = "n1") -> list[Result]:
    """Has the map changed through a node, and waits until all have applied it."""
    results: list[Result] = []
    for operation in operations:

        def ask(node: Node, operation: Operation = operation) -> None:
            node.on_change_asked(operation, results.append)

        cluster.hosts[NodeId(at)].inbox.append(ask)
    cluster.wait_for(lambda: len(results) == len(operations))
    return results


def add_user(cluster: Cluster, user: str = "ann", *patterns: str, vhost: str = "/") -> None:
    wanted = SetPermissions(user, vhost, *(patterns or (".*", ".*", ".*")))
    results = change(cluster, PutUser(user, RECORD, (), False), wanted)
    assert results == [Ok(1), Ok(1)]


def open_as(
    cluster: Cluster, user: str, password: str = "geheim", vhost: str = "/", name: str = "n1",
    address: str = "127.0.0.1:9",
) -> Client:  # fmt: skip
    """A client that has said all it has to say."""
    client = cluster.knock(name, address)
    client.write(
        PROTOCOL_HEADER
        + start_ok(
            {"capabilities": {"authentication_failure_close": True}},
            "PLAIN",
            plain(user, password),
        )
        + encode_method(0, ConnectionTuneOk(0, 0, 0))
        + encode_method(0, ConnectionOpen(vhost))
    )
    cluster.settle()
    return client


def channel_of(cluster: Cluster, user: str, vhost: str = "/", name: str = "n1") -> Client:
    client = open_as(cluster, user, vhost=vhost, name=name)
    assert client.has(ConnectionOpenOk)
    client.ask(ChannelOpen(), ChannelOpenOk)
    client.said.clear()
    return client


def refused(cluster: Cluster, client: Client, method: Method) -> str:
    """The text with which a channel is closed for a method; opens it again."""
    closed = client.ask(method, ChannelClose)
    assert closed.reply_code == 403
    client.send(ChannelCloseOk())
    client.ask(ChannelOpen(), ChannelOpenOk)
    return closed.reply_text


# --- logging in ----------------------------------------------------------------------------------


def test_the_first_users_are_those_of_the_configuration() -> None:
    cluster = Cluster(3)
    for name in ("n1", "n2", "n3"):
        known = cluster.node(name).state.map
        assert list(known.users) == ["guest"]
        assert verify(known.users["guest"].password, "guest")
        assert "guest" not in known.users["guest"].password
        assert open_as(cluster, "guest", "guest", name=name).has(ConnectionOpenOk)


def test_a_user_who_was_deleted_does_not_come_back_with_a_restart() -> None:
    cluster = Cluster(1)
    add_user(cluster)
    change(cluster, DeleteUser("guest"))
    cluster.kill("n1")
    cluster.start("n1")
    cluster.pass_ms(2_000)
    assert list(cluster.node("n1").state.map.users) == ["ann"]


def test_a_wrong_password_is_403() -> None:
    cluster = Cluster(1)
    add_user(cluster)
    for user, password in (("ann", "wrong"), ("nobody", "geheim"), ("ann", "")):
        client = open_as(cluster, user, password)
        assert not client.has(ConnectionTune)
        code, text = client.close_reason
        assert (code, text[:17]) == (403, "ACCESS_REFUSED - ")


@pytest.fixture
def hashes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passwords that were verified at a cost."""
    tried: list[str] = []

    def counted(record: str, password: str) -> bool:
        tried.append(password)
        return verify(record, password)

    monkeypatch.setattr(harness, "verify", counted)
    return tried


def logins(cluster: Cluster) -> Callable[[str, str], str | None]:
    def login(user: str, password: str) -> str | None:
        client = open_as(cluster, user, password)
        is_in = client.has(ConnectionOpenOk)
        client.hang_up()
        return user if is_in else None

    return login


def test_many_connections_of_one_user_cost_one_hash(hashes: list[str]) -> None:
    cluster = Cluster(1)
    add_user(cluster)
    login = logins(cluster)
    assert [login("ann", "geheim") for _ in range(1_000)] == ["ann"] * 1_000
    assert hashes == ["geheim"]
    other = make_record("neu", bytes(16), COST_MIN)
    change(cluster, SetPassword("ann", other))
    assert login("ann", "geheim") is None, "the old password is remembered too long"
    assert login("ann", "neu") == "ann"


def test_guessing_costs_the_node_little_and_others_nothing(hashes: list[str]) -> None:
    cluster = Cluster(1)
    add_user(cluster)
    add_user(cluster, "ben")
    login = logins(cluster)
    for number in range(1_000):
        assert login("ann", f"guess {number}") is None
        assert login("nobody", f"guess {number}") is None
    assert len(hashes) == 5, "a burst of one user"
    assert login("ben", "geheim") == "ben", "another user suffers"
    assert login("ann", "geheim") is None, "even the right one has to wait while many are tried"
    cluster.pass_ms(1_000)
    assert login("ann", "geheim") == "ann"
    for number in range(100):
        assert login("ann", f"more {number}") is None
        assert login("ann", "geheim") == "ann", "who has been verified is let in"
    cluster.pass_ms(60_000)
    before = len(hashes)
    for _ in range(1_000):
        login("ann", "the same wrong one")
    assert len(hashes) == before + 1
    story = cluster.hosts[cluster.node("n1").state.me].story
    told = [line for line in story if "failed" in line]
    assert told[0] == "login of 'ann' from 127.0.0.1:9 failed: wrong password"
    assert told[1] == "login of 'nobody' from 127.0.0.1:9 failed: there is no such user"
    assert len(told) < 15, "a line for each attempt"
    cluster.pass_ms(10_000)
    assert overview(cluster.node("n1")).node().failed_logins > 1_000
    failed = cluster.node("n1").clients.access.failed_logins
    assert f"and {failed} since this node's start" in story[-1]


def test_strangers_who_guess_do_not_keep_a_user_out(hashes: list[str]) -> None:
    cluster = Cluster(1)
    names = [f"user-{number}" for number in range(30)]
    for name in names:
        add_user(cluster, name)
    cluster.pass_ms(2_000)
    for number in range(30):
        for name in names:
            open_as(cluster, name, f"guess {number}", address="203.0.113.7:999")
    asked_at = len(hashes)
    client = open_as(cluster, "user-3", address="198.51.100.1:999")
    cluster.wait_for(lambda: client.has(ConnectionOpenOk), 200)
    assert hashes[asked_at:].index("geheim") <= 2, "it waits for all that is guessed before it"
    behind = open_as(cluster, "user-7", address="203.0.113.7:999")
    assert behind.close_reason[0] == 403, "whom that place guesses at is not looked at from there"


def test_a_client_goes_on_where_it_was_when_its_password_is_verified() -> None:
    cluster = Cluster(1)
    add_user(cluster)
    host = cluster.hosts[NodeId("n1")]
    host.verifies_by_hand = True
    right, gone = open_as(cluster, "ann"), open_as(cluster, "ann", "guess", address="[::1]:9")
    wrong = open_as(cluster, "ann", "another guess", address="[2001:db8::5]:9")
    right.write(encode_method(1, ChannelOpen()))
    cluster.settle()
    assert [len(client.said) for client in (right, gone, wrong)] == [1, 1, 1], "start alone"
    assert host.reading[right.connection] is False
    assert len(host.unverified) == 2, "more are handed over than can be looked at"
    gone.hang_up()
    while host.unverified:
        cluster.verify("n1")
        cluster.settle()
    said = [type(method).__name__ for method in right.heard()]
    assert said == ["ConnectionStart", "ConnectionTune", "ConnectionOpenOk", "ChannelOpenOk"]
    assert right.is_read
    assert wrong.close_reason[0] == 403
    assert cluster.node("n1").clients.access.queue.running == 0


def test_a_password_that_was_changed_meanwhile_lets_nobody_in() -> None:
    cluster = Cluster(1)
    add_user(cluster)
    host = cluster.hosts[NodeId("n1")]
    host.verifies_by_hand = True
    late = open_as(cluster, "ann")
    change(cluster, SetPassword("ann", make_record("neu", bytes(16), COST_MIN)))
    cluster.verify("n1")
    cluster.settle()
    assert late.close_reason[0] == 403


def test_many_users_at_once_are_let_in_one_after_the_other(hashes: list[str]) -> None:
    cluster = Cluster(1)
    users = [f"user-{number}" for number in range(60)]
    change(cluster, *(PutUser(user, RECORD, (), False) for user in users))
    change(cluster, *(SetPermissions(user, "/", ".*", ".*", ".*") for user in users))
    cluster.pass_ms(1_000)
    clients = [open_as(cluster, user) for user in users]
    assert len(hashes) == 20, "a turn takes no longer than a burst"
    assert [client.has(ConnectionOpenOk) for client in clients] == [True] * 20 + [False] * 40
    assert not clients[-1].is_read, "it waits for its verdict"
    clients[30].hang_up()
    cluster.wait_for(lambda: clients[-1].has(ConnectionOpenOk), 3_000)
    assert all(client.has(ConnectionOpenOk) for client in clients if client is not clients[30])
    assert clients[-1].is_read


def test_a_herd_that_comes_before_the_node_has_joined_waits_its_turn(hashes: list[str]) -> None:
    cluster = Cluster(1)
    users = [f"user-{number}" for number in range(40)]
    change(cluster, *(PutUser(user, RECORD, (), False) for user in users))
    change(cluster, *(SetPermissions(user, "/", ".*", ".*", ".*") for user in users))
    cluster.kill("n1")
    hashes.clear()
    cluster.start("n1")
    clients = [open_as(cluster, user) for user in users]
    cluster.wait_for(lambda: clients[0].has(ConnectionOpenOk))
    assert len(hashes) <= 21
    cluster.wait_for(lambda: all(client.has(ConnectionOpenOk) for client in clients))


def test_guest_and_certificates() -> None:
    cluster = Cluster(1)
    change(cluster, PutUser("tls", "", (), False))
    access = cluster.node("n1").clients.access
    assert open_as(cluster, "guest", "guest").has(ConnectionOpenOk)
    assert access.authenticate(PLAIN, plain("guest", "guest"), True) == "guest"
    assert access.authenticate(PLAIN, plain("guest", "guest"), False) is None
    assert access.authenticate(EXTERNAL, b"", False, "tls") == "tls"
    assert access.authenticate(EXTERNAL, b"", False, "nobody") is None
    assert access.authenticate(EXTERNAL, b"", False, "guest") is None
    assert access.authenticate(EXTERNAL, b"tls", False) is None
    assert access.authenticate(PLAIN, plain("tls", ""), True) is None


# --- virtual hosts -------------------------------------------------------------------------------


def test_a_virtual_host_opens_to_those_with_permissions_in_it() -> None:
    cluster = Cluster(3)
    change(cluster, AddVhost("shop"))
    add_user(cluster, "ann", vhost="shop")
    assert open_as(cluster, "ann", vhost="shop", name="n3").has(ConnectionOpenOk)
    code, text = open_as(cluster, "ann", name="n2").close_reason
    assert (code, text) == (530, "NOT_ALLOWED - access to vhost '/' refused for user 'ann'")
    code, _ = open_as(cluster, "ann", vhost="no").close_reason
    assert code == 530
    change(cluster, ClearPermissions("ann", "shop"))
    access = cluster.node("n1").clients.access
    assert isinstance(access.may_open("ann", "shop"), Refused)
    assert access.may_open("guest", "/") is None


def test_a_deleted_virtual_host_leaves_nothing_behind() -> None:
    cluster = Cluster(3)
    change(cluster, AddVhost("shop"))
    add_user(cluster, "ann", vhost="shop")
    ann, ben = channel_of(cluster, "ann", "shop", "n2"), cluster.client("n2")
    ben.ask(QueueDeclare("q"), QueueDeclareOk)
    ann.ask(QueueDeclare("q", durable=True), QueueDeclareOk)
    ann.ask(QueueDeclare("mine", exclusive=True), QueueDeclareOk)
    server_named = ann.ask(QueueDeclare(""), QueueDeclareOk).queue
    ann.ask(QueueBind(server_named, "amq.fanout", ""), QueueBindOk)
    ann.ask(BasicConsume("q"), BasicConsumeOk)
    ann.publish("q", "one", "two")
    assert change(cluster, DeleteVhost("shop"), at="n3") == [Ok(1)]
    assert ann.close_reason == (320, "CONNECTION_FORCED - vhost 'shop' is deleted")
    cluster.pass_ms(2_000)
    for name in ("n1", "n2", "n3"):
        state = cluster.node(name).state
        assert not [key for key in (*state.private, *state.map.claims) if key.vhost == "shop"]
        assert list(state.map.queues) == [QueueKey("/", "q")]
        assert len({*state.primaries, *state.backups}) <= 1
        invariants.check(state.map)
    ben.publish("q", "still here")
    assert ben.ask(QueueDeclare("q", passive=True), QueueDeclareOk).message_count == 1


def test_a_deleted_user_is_sent_away_by_every_node() -> None:
    cluster = Cluster(3)
    add_user(cluster)
    clients = [channel_of(cluster, "ann", name=name) for name in ("n1", "n2", "n3")]
    stays = cluster.client("n2")
    change(cluster, DeleteUser("ann"), at="n2")
    for client in clients:
        assert client.close_reason == (320, "CONNECTION_FORCED - user 'ann' is deleted")
    assert not stays.has(ConnectionClose)


def test_a_node_that_was_away_sends_them_away_when_it_hears_of_it() -> None:
    cluster = Cluster(1)
    change(cluster, AddVhost("shop"))
    add_user(cluster)
    add_user(cluster, "ben", vhost="shop")
    ann, ben = channel_of(cluster, "ann"), channel_of(cluster, "ben", "shop")
    ben.ask(QueueDeclare(""), QueueDeclareOk)
    node = cluster.node("n1")
    newer = ClusterMap()
    newer.restore(node.snapshot())
    newer.apply(encode_command("elsewhere", [DeleteUser("ann"), DeleteVhost("shop")]))
    cluster.hosts[node.state.me].inbox.append(lambda node: node.on_snapshot(newer.snapshot()))
    cluster.settle()
    assert ann.close_reason == (320, "CONNECTION_FORCED - user 'ann' is deleted")
    assert ben.close_reason == (320, "CONNECTION_FORCED - vhost 'shop' is deleted")
    assert node.state.private == {}


# --- permissions ---------------------------------------------------------------------------------


def test_each_method_needs_its_permission() -> None:
    cluster = Cluster(1)
    admin = cluster.client()
    admin.ask(QueueDeclare("other"), QueueDeclareOk)
    admin.ask(ExchangeDeclare("other", "fanout"), ExchangeDeclareOk)
    add_user(cluster, "ann", "^mine", "^mine", "^mine")
    ann = channel_of(cluster, "ann")
    ann.ask(QueueDeclare("mine"), QueueDeclareOk)
    ann.ask(ExchangeDeclare("mine", "fanout"), ExchangeDeclareOk)
    ann.ask(QueueBind("", "mine", ""), QueueBindOk)
    ann.ask(QueueDeclare("other", passive=True), QueueDeclareOk)
    letters: FieldTable = {"x-dead-letter-exchange": "other"}
    alternate: FieldTable = {"alternate-exchange": "other"}
    for kind, name, method in (
        ("queue", "other", QueueDeclare("other")),
        ("queue", "other", QueueDelete("other")),
        ("queue", "other", QueuePurge("other")),
        ("queue", "other", QueueBind("other", "mine", "")),
        ("exchange", "other", QueueBind("mine", "other", "")),
        ("queue", "other", BasicConsume("other")),
        ("queue", "other", BasicGet("other")),
        ("exchange", "other", ExchangeDeclare("other", "fanout")),
        ("exchange", "other", ExchangeDelete("other")),
        ("exchange", "other", ExchangeBind("other", "mine", "")),
        ("exchange", "other", ExchangeBind("mine", "other", "")),
        ("exchange", "other", QueueDeclare("mine2", arguments=letters)),
        ("exchange", "other", ExchangeDeclare("mine2", "fanout", arguments=alternate)),
    ):
        text = refused(cluster, ann, method)
        assert text == (
            f"ACCESS_REFUSED - access to {kind} '{name}' in vhost '/' refused for user 'ann'"
        )
    for text, method in (
        ("operation not permitted on the default exchange", ExchangeDelete("")),
        ("operation not permitted on the default exchange", QueueBind("mine", "", "")),
        ("queue name 'amq.x' contains reserved prefix 'amq.*'", QueueDeclare("amq.x")),
    ):
        assert refused(cluster, ann, method) == f"ACCESS_REFUSED - {text}"
    assert "access to queue 'amq.gen-n1-" in refused(cluster, ann, QueueDeclare(""))


def test_publishing_is_asked_for_by_name_and_follows_the_map() -> None:
    cluster = Cluster(1)
    add_user(cluster, "ann", "", "^(amq\\.default|a)$", "")
    ann = channel_of(cluster, "ann")
    state, permissions = cluster.node("n1").state, cluster.node("n1").clients.flow.permissions
    client = state.clients[ann.connection]
    assert permissions.may_publish(client, "")
    assert permissions.may_publish(client, "a")
    assert not permissions.may_publish(client, "amq.topic")
    change(cluster, SetPermissions("ann", "/", "", ".*", ""))
    assert permissions.may_publish(client, "amq.topic")
    change(cluster, ClearPermissions("ann", "/"))
    assert not permissions.may_publish(client, "")
