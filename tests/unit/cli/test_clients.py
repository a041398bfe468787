"""`fedq connection`, `fedq channel` and `fedq consumer` against real admin services."""

from dataclasses import replace

from fedq.node.views.overview_types import ConnectionOverview
from tests.unit.admin.served import (
    Served,
    a_channel,
    a_cluster,
    a_connection,
    a_consumer,
    a_subscriber,
    served,
)
from tests.unit.cli.command import Outcome, fedq


def run(servers: Served, *arguments: str) -> Outcome:
    return fedq(*arguments, "--node", servers.address("n2"))


def a_client(number: int, **changes: object) -> ConnectionOverview:
    return replace(a_connection(number), **changes)  # type: ignore[arg-type]


def test_connections_are_listed_in_rabbitmqs_columns() -> None:
    cluster = a_cluster()
    cluster["n1"].clients = [a_client(1), a_client(2, vhost="shop", client_address="[::1]:5000")]
    cluster["n3"].clients = [a_client(3, blocked=True)]
    with served(cluster) as servers:
        value = run(servers, "connection", "list", "--json").value
        shop = run(servers, "connection", "list", "--vhost", "shop", "--json").value
        table = run(servers, "connection", "list").rows("NAME")
    assert [each["name"] for each in value["connections"]] == ["n1.1.1", "n1.1.2", "n3.1.3"]
    assert (value["more"], value["silent_members"]) == (False, [])
    assert shop["connections"] == [
        {
            "name": "n1.1.2", "node": "n1", "user": "guest", "vhost": "shop", "peer_host": "::1",
            "peer_port": 5000, "user_provided_name": "orders-worker", "channels": 2,
            "consumers": 1, "messages_unacknowledged": 3, "state": "running",
        }
    ]  # fmt: skip
    assert table[2] == [
        "n3.1.3", "guest", "/", "127.0.0.1", "50003", "orders-worker", "2", "blocked",
    ]  # fmt: skip


def test_channels_are_listed_in_rabbitmqs_columns() -> None:
    cluster = a_cluster()
    cluster["n3"].channels = [a_channel(3, 1), a_channel(3, 2)]
    with served(cluster) as servers:
        value = run(servers, "channel", "list", "--json").value
        table = run(servers, "channel", "list").rows("CONNECTION")
    assert value["channels"][1] == {
        "name": "n3.1.3 (2)", "node": "n3", "connection": "n3.1.3", "number": 2, "user": "guest",
        "vhost": "/", "consumer_count": 2, "messages_unacknowledged": 7, "messages_uncommitted": 0,
        "acks_uncommitted": 0, "messages_unconfirmed": 4, "prefetch_count": 10,
        "global_prefetch_count": 0, "confirm": True, "transactional": False,
        "client_flow_blocked": False,
    }  # fmt: skip
    assert table[0] == ["n3.1.3", "1", "guest", "/", "2", "7", "10", "0", "yes", "no"]


def test_consumers_are_listed_in_rabbitmqs_columns() -> None:
    cluster = a_cluster()
    cluster["n1"].consuming = [
        replace(a_consumer(1, "a"), priority=3),
        replace(a_consumer(1, "b", active=None), no_ack=True),
    ]
    with served(cluster) as servers:
        value = run(servers, "consumer", "list", "--json").value
        table = run(servers, "consumer", "list").rows("VHOST")
    first, second = value["consumers"]
    assert first == {
        "vhost": "/", "queue_name": "jobs", "channel": "n1.1.1 (1)", "node": "n1",
        "consumer_tag": "a", "ack_required": True, "prefetch_count": 5, "active": True,
        "arguments": {"x-priority": 3},
    }  # fmt: skip
    assert (second["ack_required"], second["active"], second["arguments"]) == (False, None, {})
    assert table[1] == ["/", "jobs", "n1.1.1", "(1)", "b", "no", "5", "?", "{}"]


def test_subscribers_are_listed_and_the_slow_ones_alone_where_that_is_asked() -> None:
    cluster = a_cluster()
    cluster["n1"].subscribing = [a_subscriber(1, "a"), a_subscriber(1, "b", ready=3, dropped=7)]
    with served(cluster) as servers:
        value = run(servers, "subscriber", "list", "--json").value
        slow = run(servers, "subscriber", "list", "--slow").rows("VHOST")
    assert [each["queue_name"] for each in value["subscribers"]] == ["a", "b"]
    assert value["subscribers"][1] == {
        "vhost": "/", "queue_name": "b", "node": "n1", "connection": "n1.1.1", "user": "guest",
        "messages_ready": 3, "bytes_held": 300, "messages_dropped": 7, "consumers": 1,
        "stuck": True,
    }  # fmt: skip
    assert slow == [["/", "b", "n1.1.1", "guest", "3", "300", "7", "1", "yes"]]


def test_many_are_listed_page_by_page_and_each_once() -> None:
    cluster = a_cluster()
    tags = [f"t{number:04}" for number in range(1_200)]
    for number, name in enumerate(cluster):
        cluster[name].consuming = [a_consumer(number, tag) for tag in tags]
    with served(cluster) as servers:
        value = run(servers, "consumer", "list", "--limit", "5000", "--json").value
        some = run(servers, "consumer", "list", "--limit", "10")
    assert [each["consumer_tag"] for each in value["consumers"]] == tags * 3
    assert value["more"] is False
    assert "the first 10; there are more" in some.out


def test_a_silent_member_is_named() -> None:
    cluster = a_cluster()
    cluster["n3"].clients = [a_client(3)]
    with served(cluster) as servers:
        servers.stop_node("n1")
        value = run(servers, "connection", "list", "--json").value
        shown = run(servers, "connection", "list").out
    assert [each["name"] for each in value["connections"]] == ["n3.1.3"]
    assert value["silent_members"] == ["n1"]
    assert "! not all: n1 did not answer" in shown


def test_connections_are_closed_by_name_user_or_vhost() -> None:
    cluster = a_cluster()
    cluster["n1"].clients = [a_client(1), a_client(2)]
    with served(cluster) as servers:
        done = run(servers, "connection", "close", "n1.1.2", "--reason", "maintenance")
        assert done.out == "connections closed: 1\n"
        closed = run(servers, "connection", "close", "--user", "guest", "--json").value
        assert closed == {"closed": 2, "silent_members": []}
        assert run(servers, "connection", "close", "--vhost", "/").out.endswith(": 2\n")
        gone = run(servers, "connection", "close", "n1.1.7")
        assert gone.exit_code == 1
        assert gone.sentence.startswith("no connection 'n1.1.7'")
        for arguments in ([], ["n1.1.1", "--user", "guest"], ["nonsense"]):
            assert run(servers, "connection", "close", *arguments).exit_code == 2
    assert cluster["n1"].closed[0] == (2, None, None, "maintenance")
