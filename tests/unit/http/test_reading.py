"""The API's lists and objects, and who may see which."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from fedq.core.ids import QueueKey
from fedq.http.api.routing import Right
from fedq.http.api.table import ROUTES
from fedq.node.views.overview_types import TrafficOverview
from fedq.wiring.cluster_map.operations_access import AddVhost
from tests.unit.admin.served import (
    a_channel,
    a_cluster,
    a_connection,
    a_consumer,
    add_queue,
)
from tests.unit.http.tool import Tool, tool


@pytest.fixture
def asked() -> Iterator[Tool]:
    """A cluster with queues in two virtual hosts, and clients on two nodes."""
    cluster = a_cluster()
    for number in range(7):
        add_queue(cluster, f"jobs.{number}", {"n2": (number, 0, 0)})
    add_queue(cluster, "a/b", {"n1": (2, 0, 0), "n3": (3, 0, 0)}, vhost="other")
    traffic = {"n1": TrafficOverview(5, 3, 0, 0), "n3": TrafficOverview(7, 4, 0, 4)}
    for at, each in traffic.items():
        (local,) = cluster[at].fragments[QueueKey("other", "a/b")]
        cluster[at].fragments[QueueKey("other", "a/b")] = [replace(local, traffic=each)]
    first, second = (cluster[at].node_overview.counts for at in ("n1", "n2"))
    first.received, first.got, second.received = 5, 1, 4
    second.delivered, second.delivered_settled, second.acknowledged = 5, 4, 1
    cluster["n1"].clients, cluster["n1"].channels = [a_connection(1)], [a_channel(1, 1)]
    cluster["n2"].clients, cluster["n2"].channels = [a_connection(2)], [a_channel(2, 3)]
    cluster["n2"].consuming = [a_consumer(2, "tag", "jobs.1")]
    cluster["n2"].consumers[QueueKey("/", "jobs.1")] = 1
    with tool(cluster) as made:
        made.apply(AddVhost("other"))
        yield made


def names(found: object) -> list[str]:
    """The names of rows."""
    assert isinstance(found, list)
    return [row["name"] for row in found]


# --- who may ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "password"),
    [(None, ""), ("nobody", "geheim"), ("admin", "wrong"), ("admin", ""), ("a:b", "c")],
)
def test_strangers_are_told_nothing(asked: Tool, user: str | None, password: str) -> None:
    answer = asked.answer("overview", user, password=password)
    assert answer.status == 401
    assert answer.body == b'{"error":"not_authorized","reason":"Login failed"}'
    assert answer.headers == (("www-authenticate", 'Basic realm="RabbitMQ Management"'),)


def test_the_user_that_everybody_knows_comes_from_here_alone(asked: Tool) -> None:
    assert asked.ask("whoami", "guest")[0] == 200
    asked.address = ("192.0.2.1", 4711)
    try:
        assert asked.ask("whoami", "guest")[0] == 401
        assert asked.ask("whoami", "admin")[0] == 200
    finally:
        asked.address = ("127.0.0.1", 4711)


@pytest.mark.parametrize(
    ("user", "right"),
    [("plain", 0), ("policy", 1), ("manager", 1), ("monitor", 2), ("admin", 3)],
)
def test_tags_are_rights(asked: Tool, user: str, right: int) -> None:
    for path, needed in (("whoami", 1), ("nodes", 2), ("users", 3), ("permissions", 3)):
        status, said = asked.ask(path, user)
        assert status == (200 if right >= needed else 401), path
        if right == 0:
            assert said == {"error": "not_authorised", "reason": "Not management user"}
        elif right < needed:
            who = {2: "monitor", 3: "administrator"}[needed]
            assert said == {"error": "not_authorised", "reason": f"Not {who} user"}


def test_a_manager_sees_its_own_virtual_hosts_and_connections(asked: Tool) -> None:
    assert names(asked.ask("vhosts", "manager")[1]) == ["/"]
    assert "a/b" not in names(asked.ask("queues", "manager")[1])
    assert asked.ask("queues/other", "manager") == (
        401, {"error": "not_authorised", "reason": "User not authorised to access virtual host"},
    )  # fmt: skip
    assert asked.ask("connections", "manager") == (200, [])
    assert len(asked.ask("connections", "monitor")[1]) == 2


def test_wrong_passwords_are_limited(asked: Tool) -> None:
    assert asked.ask("whoami", "monitor")[0] == 200
    statuses = [asked.ask("whoami", "monitor", password=f"no {n}")[0] for n in range(60)]
    assert statuses[0] == 401
    assert statuses[-1] == 429
    assert asked.ask("whoami", "monitor")[0] == 200, "what is known to be right stays so"


def test_failed_logins_are_told_a_few_at_a_time(
    asked: Tool, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(30):
        asked.ask("whoami", "evil\nname" + "x" * 500, password=f"secret {number}")
    asked.ask("whoami", None)
    asked.answer("whoami", None, headers=[(b"authorization", b"Basic nonsense")])
    told = [each for each in caplog.messages if "login over HTTP refused" in each]
    assert 1 <= len(told) <= 10
    assert told[0].startswith("login over HTTP refused for user 'evil\\nnamexxx")
    assert told[0].endswith("' from 127.0.0.1:4711")
    assert not [each for each in told if "secret" in each or "\n" in each or len(each) > 200]


def test_what_is_added_up_is_gathered_once_for_all(asked: Tool) -> None:
    node = asked.servers.cluster["n1"]
    sums = asked.ask("vhosts/other")[1]
    assert (sums["messages"], sums["messages_ready"]) == (5, 5)
    for key in node.queues:
        node.fragments.pop(key, None)
    assert asked.ask("vhosts")[1][1]["messages"] == 5, "it stands for a moment"


# --- paths ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "nothing", "queues/%2F/none", "queues/none", "exchanges/%2F/none", "vhosts/none", "",
        "users/none", "connections/n1.1.99", "channels/none", "nodes/n9", "permissions/%2F/plain",
        "queues/%2F/jobs.1/more/and/more", "bindings/%2F/e/a/x/b", "queues//jobs.1",
        "queues/%ff", "queues/%2F/%00", "queues/%252F/jobs.1",
    ],
)  # fmt: skip
def test_what_is_not_there_is_404(asked: Tool, path: str) -> None:
    status, said = asked.ask(path)
    assert status == 404
    assert said["error"] == "Object Not Found"


def test_other_methods_are_405_and_options_tells_which(asked: Tool) -> None:
    answer = asked.answer("overview", method="POST")
    assert answer.status == 405
    assert dict(answer.headers)["allow"] == "GET, HEAD, OPTIONS"
    assert dict(asked.answer("overview", None, method="OPTIONS").headers)["allow"]


def test_a_name_may_have_a_slash(asked: Tool) -> None:
    status, found = asked.ask("queues/other/a%2Fb")
    assert status == 200
    assert (found["name"], found["vhost"], found["messages_ready"]) == ("a/b", "other", 5)


def test_every_path_of_a_list_answers(asked: Tool) -> None:
    places = {"{vhost}": "%2F", "{name}": "jobs.1", "{user}": "admin"}
    for route in ROUTES:
        path = route.path.removeprefix("/api/")
        for place, value in places.items():
            path = path.replace(place, value)
        # One of them is an AMQP client, and here is no broker.
        if "GET" in route.methods and "{" not in path and "aliveness" not in path:
            status, found = asked.ask(path)
            assert status in (200, 404), f"{path}: {found}"


def test_rights_of_what_changes_or_shows_users_are_high() -> None:
    low = [
        route.path
        for route in ROUTES
        if ("user" in route.path or "permission" in route.path)
        and route.right is not Right.ADMINISTRATOR
    ]
    assert not low


# --- lists ------------------------------------------------------------------------------------


def test_pages_are_counted_as_in_rabbitmq(asked: Tool) -> None:
    path = "queues/%2F?page=2&page_size=3&sort=messages_ready&sort_reverse=true&columns=name"
    status, found = asked.ask(path)
    assert status == 200
    assert found == {
        "page": 2, "page_count": 3, "page_size": 3, "total_count": 7, "filtered_count": 7,
        "item_count": 3, "items": [{"name": "jobs.3"}, {"name": "jobs.2"}, {"name": "jobs.1"}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("name=OBS.1", ["jobs.1"]),
        ("name=^jobs\\.[12]$&use_regex=true", ["jobs.1", "jobs.2"]),
        ("name=JOBS.6&use_regex=true", ["jobs.6"]),
        ("name=nope", []),
    ],
)
def test_a_page_is_of_names_that_match(asked: Tool, query: str, found: list[str]) -> None:
    _, said = asked.ask(f"queues/%2F?page=1&{query}")
    assert names(said["items"]) == found
    assert (said["filtered_count"], said["total_count"]) == (len(found), 7)


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("page=x", "bad_request"), ("page=-1", "bad_request"),
        ("page=1&page_size=x", "bad_request"),
        ("page=0", "invalid_pagination_parameters"), ("page=9", "page_out_of_range"),
        ("page=1&page_size=501", "invalid_pagination_parameters"),
        ("page=1&page_size=0", "invalid_pagination_parameters"),
        ("page=1&name=(&use_regex=true", "bad_request"),
        ("page=1&name=(a%2B)%2B\\1&use_regex=true", "bad_request"),
        ("page=99999999999999999999", "bad_request"), ("page=%D9%A3", "bad_request"),
    ],
)  # fmt: skip
def test_a_wrong_page_is_refused(asked: Tool, query: str, error: str) -> None:
    status, said = asked.ask(f"queues?{query}")
    assert (status, said["error"]) == (400, error)


def test_a_pattern_that_would_hang_others_does_not(asked: Tool) -> None:
    assert asked.ask("queues?page=1&name=(j*)*(o*)*(b*)*X$&use_regex=true")[0] == 200


def test_columns_may_be_inner_ones_and_none(asked: Tool) -> None:
    _, found = asked.ask("queues/%2F/jobs.1?columns=name,arguments.none,consumer_details")
    assert found["name"] == "jobs.1"
    assert len(found["consumer_details"]) == 1
    assert asked.ask("exchanges/other?columns=nope")[1][0] == []


def test_clients_are_those_of_all_members(asked: Tool) -> None:
    _, found = asked.ask("channels?sort=name")
    assert names(found) == ["n1.1.1 (1)", "n2.1.2 (3)"]
    assert found[0]["connection_details"]["name"] == "n1.1.1"
    _, one = asked.ask("channels/n2.1.2%20(3)")
    assert one["number"] == 3
    assert names(asked.ask("connections/n2.1.2/channels")[1]) == ["n2.1.2 (3)"]
    _, consumers = asked.ask("consumers/%2F")
    assert consumers[0]["queue"] == {"name": "jobs.1", "vhost": "/"}


def test_the_overview_counts_what_the_user_sees(asked: Tool) -> None:
    _, found = asked.ask("overview")
    assert found["queue_totals"]["messages_ready"] == 26
    assert found["object_totals"]["queues"] == 8
    assert found["listeners"][0] == {
        "node": "n1", "protocol": "amqp", "ip_address": "127.0.0.1", "port": 5679,
    }  # fmt: skip
    _, less = asked.ask("overview", "manager")
    assert less["queue_totals"]["messages_ready"] == 21
    assert "listeners" not in less


def test_messages_are_counted_for_the_cluster_and_for_each_queue(asked: Tool) -> None:
    _, found = asked.ask("overview")
    assert found["message_stats"] == {
        "publish": 9, "deliver_get": 6, "deliver": 1, "deliver_no_ack": 4, "ack": 1,
    }  # fmt: skip
    assert "message_stats" not in asked.ask("overview", "manager")[1]
    _, queue = asked.ask("queues/other/a%2Fb")
    assert queue["message_stats"] == {"publish": 12, "deliver_get": 7, "ack": 4}
    assert "message_stats" not in asked.ask("queues/%2F/jobs.1")[1]


def test_bindings_have_a_key_that_finds_them(asked: Tool) -> None:
    _, found = asked.ask("bindings/%2F/e/amq.default/q/jobs.1")
    assert found[0]["properties_key"] == "jobs.1"
    status, one = asked.ask("bindings/%2F/e/amq.default/q/jobs.1/jobs.1")
    assert (status, one) == (200, found[0])


# --- health -----------------------------------------------------------------------------------


def test_checks_of_health(asked: Tool) -> None:
    for check in ("alarms", "local-alarms", "virtual-hosts", "port-listener/5679"):
        status, said = asked.ask(f"health/checks/{check}")
        assert (status, said["status"]) == (200, "ok"), check
    assert asked.ask("health/checks/port-listener/1") == (
        503,
        {"status": "failed", "reason": "No active listener", "missing": 1, "ports": [5679]},
    )
    assert asked.ask("health/checks/protocol-listener/mqtt")[0] == 503
    assert asked.ask("health/checks/protocol-listener/amqp")[0] == 200
    assert asked.ask("health/checks/node-is-quorum-critical")[0] == 200
