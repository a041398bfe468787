"""Virtual hosts, users and permissions as clients and operators meet them, on real nodes."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.integration.conftest import Connect
from tests.integration.harness import Cluster, eventually
from tests.integration.stock import (
    PERSISTENT,
    Address,
    BlockingChannel,
    BlockingConnection,
    connect,
    pika,
)

pytestmark = pytest.mark.slow

ChannelClosed = pika.exceptions.ChannelClosedByBroker
ConnectionClosed = pika.exceptions.ConnectionClosedByBroker
LoginRefused = (
    pika.exceptions.ProbableAuthenticationError,
    pika.exceptions.AuthenticationError,
    pika.exceptions.ConnectionClosedByBroker,
)
OpenRefused = (ConnectionClosed, pika.exceptions.ProbableAccessDeniedError)


@pytest.fixture
def user(cluster: Cluster, name: str) -> Iterator[str]:
    """A user with the password "geheim" and no permission at all."""
    cluster.ask("user", "add", name, "--password", "geheim", node="a")
    yield name
    cluster.ask("user", "delete", name, node="b")


def login(user: str, password: str = "geheim", vhost: str = "/") -> dict[str, object]:
    """Connection parameters."""
    return {"credentials": pika.PlainCredentials(user, password), "virtual_host": vhost}


def refusal(connection: BlockingConnection, act: Callable[[BlockingChannel], object]) -> str:
    """What channel.close says to an act; its code must be 403."""
    channel = connection.channel()
    with pytest.raises(ChannelClosed) as closed:
        act(channel)
    assert closed.value.reply_code == 403
    return str(closed.value.reply_text)


def test_a_new_user_works_from_any_node_right_away(
    cluster: Cluster, nodes: dict[str, Address], user: str, open_connection: Connect
) -> None:
    with pytest.raises(OpenRefused, match=f"access to vhost '/' refused for user '{user}'"):
        open_connection(nodes["c"], **login(user))
    cluster.ask("permission", "set", user, ".*", ".*", ".*", node="b")
    for address in nodes.values():
        channel = open_connection(address, **login(user)).channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, b"x")
        assert channel.basic_get(queue, auto_ack=True)[2] == b"x"


def test_what_is_not_permitted_is_403(
    cluster: Cluster, nodes: dict[str, Address], user: str, open_connection: Connect
) -> None:
    admin = open_connection(nodes["a"]).channel()
    other, mine = f"other-{user}", f"mine-{user}"
    admin.queue_declare(other)
    admin.exchange_declare(other, "fanout")
    cluster.ask("permission", "set", user, "^mine-", "^(mine-|amq.default)", "^mine-")
    connection = open_connection(nodes["b"], **login(user))
    channel = connection.channel()
    channel.queue_declare(mine)
    channel.exchange_declare(mine, "fanout")
    channel.queue_bind(mine, mine)
    channel.basic_publish("", mine, b"x")
    letters = {"x-dead-letter-exchange": other}
    attempts: list[tuple[str, Callable[[BlockingChannel], object]]] = [
        ("queue", lambda channel: channel.queue_declare(f"no-{user}")),
        ("queue", lambda channel: channel.queue_declare(other)),
        ("queue", lambda channel: channel.queue_delete(other)),
        ("queue", lambda channel: channel.queue_purge(other)),
        ("queue", lambda channel: channel.queue_bind(other, mine)),
        ("exchange", lambda channel: channel.queue_bind(mine, other)),
        ("queue", lambda channel: channel.basic_consume(other, lambda *_: None)),
        ("queue", lambda channel: channel.basic_get(other)),
        ("exchange", lambda channel: channel.exchange_declare(other, "fanout")),
        ("exchange", lambda channel: channel.exchange_delete(other)),
        ("exchange", lambda channel: channel.exchange_bind(other, mine)),
        ("exchange", lambda channel: channel.exchange_bind(mine, other)),
        ("exchange", lambda channel: channel.queue_declare(f"{mine}-2", arguments=letters)),
        (
            "exchange",
            lambda channel: channel.exchange_declare(
                f"{mine}-2", "fanout", arguments={"alternate-exchange": other}
            ),
        ),
    ]
    for kind, act in attempts:
        said = refusal(connection, act)
        assert said.startswith(f"ACCESS_REFUSED - access to {kind} '"), said
        assert said.endswith(f"' in vhost '/' refused for user '{user}'"), said
    # Looking whether it is there asks for no permission, as in RabbitMQ.
    connection.channel().queue_declare(other, passive=True)
    assert "queue 'amq.gen-" in refusal(connection, lambda channel: channel.queue_declare(""))
    for name in (mine, other):
        admin.queue_delete(name)
        admin.exchange_delete(name)


def test_publishing_without_permission_is_403(
    cluster: Cluster, nodes: dict[str, Address], user: str, open_connection: Connect
) -> None:
    cluster.ask("permission", "set", user, "", "^amq.topic$", "")
    connection = open_connection(nodes["c"], **login(user))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("amq.topic", "key", b"x")
    for exchange, shown in (("", "amq.default"), ("amq.fanout", "amq.fanout")):

        def act(channel: BlockingChannel, exchange: str = exchange) -> None:
            channel.confirm_delivery()
            channel.basic_publish(exchange, "key", b"x")

        assert f"access to exchange '{shown}' in vhost '/'" in refusal(connection, act)


def test_a_change_of_permissions_holds_at_once_on_open_connections(
    cluster: Cluster, nodes: dict[str, Address], user: str, open_connection: Connect
) -> None:
    cluster.ask("permission", "set", user, ".*", ".*", ".*", node="a")
    connection = open_connection(nodes["c"], **login(user))
    connection.channel().queue_declare(user)
    cluster.ask("permission", "set", user, "", "", "", node="b")
    refusal(connection, lambda channel: channel.queue_declare(user))
    cluster.ask("permission", "set", user, ".*", "", "", node="b")
    connection.channel().queue_delete(user)


def test_a_wrong_password_is_403_and_a_changed_one_works(
    cluster: Cluster, nodes: dict[str, Address], user: str, open_connection: Connect
) -> None:
    cluster.ask("permission", "set", user, ".*", ".*", ".*")
    for _ in range(8):
        with pytest.raises(LoginRefused, match="403"):
            open_connection(nodes["b"], **login(user, "wrong"))
    open_connection(nodes["b"], **login(user))
    cluster.ask("user", "change-password", user, "--password", "neu", node="a")
    for address in nodes.values():
        open_connection(address, **login(user, "neu"))
        with pytest.raises(LoginRefused, match="403"):
            open_connection(address, **login(user))


def test_virtual_hosts_are_apart_and_go_with_all_that_is_in_them(
    cluster: Cluster, nodes: dict[str, Address], user: str, open_connection: Connect
) -> None:
    assert cluster.ask("vhost", "add", user, node="a") == {"vhost": user, "created": True}
    cluster.ask("permission", "set", user, ".*", ".*", ".*", "--vhost", user, node="b")
    inside = open_connection(nodes["c"], **login(user, vhost=user))
    outside = open_connection(nodes["c"]).channel()
    outside.queue_declare(user)
    channel = inside.channel()
    channel.queue_declare(user, durable=True)
    shared = channel.queue_declare("", auto_delete=False).method.queue
    channel.queue_bind(user, "amq.topic", "#")
    channel.queue_bind(shared, "amq.topic", "#")
    channel.confirm_delivery()
    channel.basic_publish("amq.topic", "key", b"x", PERSISTENT)
    assert outside.queue_declare(user, passive=True).method.message_count == 0
    with pytest.raises(OpenRefused, match="refused for user 'guest'"):
        open_connection(nodes["a"], virtual_host=user)
    cluster.ask("vhost", "delete", user, node="a")
    with pytest.raises(ConnectionClosed) as closed:
        inside.process_data_events(10)
    assert closed.value.reply_code == 320
    assert closed.value.reply_text == f"CONNECTION_FORCED - vhost '{user}' is deleted"
    with pytest.raises(OpenRefused, match="530"):
        open_connection(nodes["b"], **login(user, vhost=user))
    assert outside.queue_declare(user, passive=True)
    outside.queue_delete(user)
    # It comes back empty.
    cluster.ask("vhost", "add", user, node="c")
    cluster.ask("permission", "set", user, ".*", ".*", ".*", "--vhost", user, node="b")
    again = open_connection(nodes["a"], **login(user, vhost=user)).channel()
    with pytest.raises(ChannelClosed) as missing:
        again.queue_declare(user, passive=True)
    assert missing.value.reply_code == 404
    cluster.ask("vhost", "delete", user)


def test_the_connections_of_a_deleted_user_are_closed(
    cluster: Cluster, nodes: dict[str, Address], name: str, open_connection: Connect
) -> None:
    cluster.ask("user", "add", name, "--password", "geheim", node="a")
    cluster.ask("permission", "set", name, ".*", ".*", ".*", node="a")
    connection = open_connection(nodes["b"], **login(name))
    cluster.ask("user", "delete", name, node="c")
    with pytest.raises(ConnectionClosed) as closed:
        connection.process_data_events(10)
    assert closed.value.reply_code == 320
    assert closed.value.reply_text == f"CONNECTION_FORCED - user '{name}' is deleted"
    with pytest.raises(LoginRefused, match="403"):
        open_connection(nodes["b"], **login(name))


def works(address: Address, user: str) -> bool:
    """Whether the user can log in, and open its virtual host `shop`."""
    connect(address, **login(user, vhost="shop")).close()
    return True


def test_users_and_permissions_survive_the_stop_of_everything(
    tmp_path: Path, open_connection: Connect
) -> None:
    with Cluster(tmp_path, names=("alone",)) as node:
        address = node.nodes["alone"].amqp
        node.ask("vhost", "add", "shop")
        node.ask("user", "add", "ann", "--password", "geheim", "--tag", "management")
        node.ask("permission", "set", "ann", ".*", ".*", ".*", "--vhost", "shop")
        before = [node.ask(kind, "list")[f"{kind}s"] for kind in ("user", "permission")]
        channel = open_connection(address, **login("ann", vhost="shop")).channel()
        channel.queue_declare("orders", durable=True)
        channel.confirm_delivery()
        channel.basic_publish("", "orders", b"x", PERSISTENT)
        node.kill("alone")
        node.nodes["alone"].start()
        eventually("ann is served", partial(works, address, "ann"), 30.0)
        assert [node.ask(kind, "list")[f"{kind}s"] for kind in ("user", "permission")] == before
        channel = open_connection(address, **login("ann", vhost="shop")).channel()
        assert channel.basic_get("orders", auto_ack=True)[2] == b"x"
        node.ask("user", "delete", "guest")
        node.kill("alone")
        node.nodes["alone"].start()
        eventually("ann is served", partial(works, address, "ann"), 30.0)
        with pytest.raises(LoginRefused, match="403"):
            open_connection(address)


def test_passwords_are_in_no_file_and_no_list(tmp_path: Path) -> None:
    secret = "correct-horse-battery"
    with Cluster(tmp_path, names=("alone",)) as node:
        node.ask("user", "add", "ann", "--password", secret)
        node.ask("permission", "set", "ann", ".*", ".*", ".*")
        connect(node.nodes["alone"].amqp, **login("ann", secret)).close()
        assert secret not in str(node.ask("user", "list"))
        node.terminate("alone")
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert any("node.log" in path.name for path in files)
        assert [path for path in files if secret.encode() in path.read_bytes()] == []
