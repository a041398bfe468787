"""`fedq queue` against real admin services with hand-filled overviews."""

from dataclasses import replace

from fedq.core.ids import NodeId
from fedq.node.views.overview_types import MemberState, NamedReaderOverview
from tests.unit.admin.served import a_cluster, add_queue, served, set_member
from tests.unit.cli.command import fedq


def test_list_counts_whole_queues() -> None:
    cluster = a_cluster()
    add_queue(cluster, "orders", {"n1": (10, 1, 2), "n2": (20, 2, 1)})
    add_queue(cluster, "mails", {"n3": (0, 0, 0)})
    with served(cluster) as servers:
        done = fedq("queue", "list", "--node", servers.address("n3"))
    assert (done.exit_code, done.err) == (0, "")
    assert done.rows("VHOST") == [
        ["/", "mails", "serving", "0", "0", "0", "0", "1", "n3"],
        ["/", "orders", "serving", "30", "3", "33", "3", "2", "n1", "n2"],
    ]


def test_list_never_shows_a_part_as_the_whole() -> None:
    cluster = a_cluster()
    add_queue(cluster, "orders", {"n1": (10, 1, 2), "n2": (20, 2, 1)})
    with served(cluster) as servers:
        servers.stop_node("n2")
        at = servers.address("n1")
        done = fedq("queue", "list", "--node", at)
        value = fedq("queue", "list", "--json", "--node", at).value
    assert done.rows("VHOST")[0] == ["/", "orders", "unknown", "?", "?", "?", "?", "2", "n1", "n2"]
    assert "! ? is unknown: n2 did not answer" in done.out
    (queue,) = value["queues"]
    assert queue["ready"] is queue["messages"] is queue["consumers"] is None
    assert queue["silent_members"] == ["n2"]
    assert [fragment["ready"] for fragment in queue["fragments"]] == [10, None]


def test_list_can_be_narrowed_and_says_when_there_is_more() -> None:
    cluster = a_cluster(["n1"])
    for name in ("orders.eu", "orders.us", "mails"):
        add_queue(cluster, name, {"n1": (0, 0, 0)})
    with served(cluster) as servers:
        at = servers.address("n1")
        some = fedq("queue", "list", "orders.*", "--json", "--node", at).value
        two = fedq("queue", "list", "--limit", "2", "--node", at)
        exact = fedq("queue", "list", "--limit", "3", "--json", "--node", at).value
        other = fedq("queue", "list", "--vhost", "shop", "--json", "--node", at).value
    assert [queue["name"] for queue in some["queues"]] == ["orders.eu", "orders.us"]
    assert some["more"] is False
    assert [row[1] for row in two.rows("VHOST")[:2]] == ["mails", "orders.eu"]
    assert "the first 2; there are more" in two.out
    assert len(exact["queues"]) == 3
    assert exact["more"] is False
    assert other == {"queues": [], "more": False}


def test_list_joins_pages() -> None:
    cluster = a_cluster(["n1"])
    names = [f"queue-{number:04}" for number in range(502)]
    key = add_queue(cluster, names[0], {"n1": (1, 0, 0)})
    one = cluster["n1"].queues[key]
    for name in names[1:]:
        other = key._replace(name=name)
        cluster["n1"].queues[other] = replace(one, key=other, fragments=())
    with served(cluster) as servers:
        value = fedq("queue", "list", "--json", "--node", servers.address("n1")).value
    assert [queue["name"] for queue in value["queues"]] == names
    assert value["more"] is False


def test_show_tells_where_the_copies_are() -> None:
    cluster = a_cluster()
    add_queue(cluster, "orders", {"n2": (10, 1, 2)}, '{"x-fedq-replicas":2}')
    with served(cluster) as servers:
        done = fedq("queue", "show", "orders", "--node", servers.address("n1"))
    lines = [line.strip() for line in done.out.splitlines()]
    assert lines[:3] == [
        "queue orders in vhost /: durable",
        'copies 2, arguments {"x-fedq-replicas":2}',
        "messages 11: ready 10, unacknowledged 1; consumers 2",
    ]
    assert done.rows("FRAGMENT")[0] == (
        ["1", "serving", "n2", "n1", "n2", "n1", "2", "1", "10", "1", "1000", "B"]
    )


def test_show_lists_the_names_that_a_stream_keeps() -> None:
    cluster = a_cluster()
    key = add_queue(cluster, "events", {"n2": (10, 0, 0)}, '{"x-queue-type":"stream"}')
    (held,) = cluster["n2"].fragments[key]
    cluster["n2"].readers[held.fragment] = [
        NamedReaderOverview("app", 7, 3, NodeId("n1")),
        NamedReaderOverview("idle", 0, 10, None),
    ]
    with served(cluster) as servers:
        at = servers.address("n1")
        done = fedq("queue", "show", "events", "--node", at)
        (fragment,) = fedq("queue", "show", "events", "--json", "--node", at).value["fragments"]
    assert done.rows("READER")[0] == ["app", "1", "7", "3", "n1"]
    assert done.rows("READER")[1][:4] == ["idle", "1", "0", "10"]
    assert fragment["readers"] == [
        {"name": "app", "offset": 7, "lag": 3, "node": "n1"},
        {"name": "idle", "offset": 0, "lag": 10, "node": None},
    ]


def test_show_as_json_keeps_its_promised_shape() -> None:
    cluster = a_cluster()
    add_queue(cluster, "orders", {"n2": (10, 1, 2)}, '{"x-fedq-replicas":2}')
    with served(cluster) as servers:
        value = fedq("queue", "show", "orders", "--json", "--node", servers.address("n1")).value
    assert value == {
        "vhost": "/",
        "name": "orders",
        "durable": True,
        "auto_delete": False,
        "arguments": {"x-fedq-replicas": 2},
        "replicas": 2,
        "ready": 10,
        "unacknowledged": 1,
        "messages": 11,
        "consumers": 2,
        "silent_members": [],
        "fragments": [
            {
                "fragment": 1,
                "primary": "n2",
                "backups": ["n1"],
                "in_sync": ["n2", "n1"],
                "epoch": 2,
                "reign": 1,
                "state": "serving",
                "ready": 10,
                "unacknowledged": 1,
                "messages": 11,
                "bytes": 1000,
                "readers": [],
            }
        ],
    }


def test_show_says_what_is_unknown_and_why() -> None:
    cluster = a_cluster()
    add_queue(cluster, "orders", {"n1": (1, 0, 0), "n2": (10, 1, 2)})
    with served(cluster) as servers:
        set_member(cluster, "n2", state=MemberState.DOWN)
        done = fedq("queue", "show", "orders", "--node", servers.address("n1"))
    assert "messages ?: ready ?, unacknowledged ?; consumers 0" in done.out
    assert done.rows("FRAGMENT")[1] == (
        ["2", "unavailable", "n2", "n1", "n2", "n1", "2", "1", "?", "?", "?"]
    )
    assert "! ? is unknown: n2 did not answer" in done.out


def test_a_queue_that_is_not_there_is_a_failure() -> None:
    with served(a_cluster()) as servers:
        done = fedq("queue", "show", "orders", "--vhost", "shop", "--node", servers.address("n1"))
    assert done.exit_code == 1
    assert done.sentence == (
        "no shared queue 'orders' in vhost 'shop'; `fedq queue list` shows those there are"
    )


def test_a_refused_argument_is_a_usage_error() -> None:
    with served(a_cluster(["n1"])) as servers:
        at = servers.address("n1")
        assert fedq("queue", "list", "x" * 256, "--node", at).exit_code == 2
        assert fedq("queue", "show", "", "--node", at).exit_code == 2
