"""`fedq queue` against real admin services with hand-filled overviews."""

from dataclasses import replace

from fedq.core.ids import FragmentId, NodeId
from fedq.node.views.overview_types import MemberState, NamedReaderOverview
from fedq.node.views.storage_types import (
    CopyOverview,
    CopyRole,
    FragmentCause,
    ShapeOverview,
    StreamOverview,
)
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


def test_show_says_why_fragments_are_there_and_stay() -> None:
    cluster = a_cluster()
    key = add_queue(cluster, "orders", {"n1": (0, 0, 0), "n2": (0, 0, 0), "n3": (0, 0, 0)})
    causes = (FragmentCause.DECLARED, FragmentCause.TRAFFIC, FragmentCause.TRAFFIC)
    for overview in cluster.values():
        queue = overview.queues[key]
        fragments = [
            replace(fragment, cause=cause)
            for fragment, cause in zip(queue.fragments, causes, strict=True)
        ]
        fragments[0] = replace(fragments[0], moves_to=NodeId("n2"))
        overview.queues[key] = replace(queue, fragments=tuple(fragments))
    one, two = (fragment.fragment for fragment in queue.fragments[:2])
    shapes = {
        "n1": (one, ShapeOverview(None, False, ("it is the first one",), ("n2 has no copy yet",))),
        "n2": (two, ShapeOverview(65_000, True, (), ())),
    }
    for name, (fragment, shape) in shapes.items():
        copy = CopyOverview(fragment, CopyRole.PRIMARY, 0, 0, 0, 0, 0, 0, 0, 0, shape=shape)
        cluster[name].copied[key] = [copy]
    with served(cluster) as servers:
        at = servers.address("n1")
        done = fedq("queue", "show", "orders", "--why", "--node", at)
        silent = fedq("queue", "show", "orders", "--node", at)
        value = fedq("queue", "show", "orders", "--json", "--node", at).value
    start = done.out.index("fragment 1, led by n1")
    assert [line.rstrip() for line in done.out[start:].splitlines()[:9]] == [
        "fragment 1, led by n1: declared with its queue",
        "  is not retired: it is the first one",
        "  is to be led by n2",
        "  waits: n2 has no copy yet",
        "fragment 2, led by n2: came as publishes came through a node without one",
        "  without traffic for 1m 5s",
        "  is being retired",
        "fragment 3, led by n3: came as publishes came through a node without one",
        "  ? n3 did not say more",
    ]
    assert "is not retired" not in silent.out
    assert value["fragments"][0]["why"] == {
        "cause": "declared", "to_be_led_by": "n2", "idle_ms": None, "retiring": False,
        "stays": ["it is the first one"], "waits": ["n2 has no copy yet"],
    }  # fmt: skip
    assert value["fragments"][2]["why"]["stays"] is None


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
        "policy": None,
        "operator_policy": None,
        "effective_policy_definition": {},
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
                "moves_to": None,
                "ready": 10,
                "unacknowledged": 1,
                "messages": 11,
                "bytes": 1000,
                "traffic": {"published": 0, "delivered": 0, "acknowledged": 0},
                "readers": [],
                "why": {
                    "cause": "declared",
                    "to_be_led_by": None,
                    "idle_ms": None,
                    "retiring": None,
                    "stays": None,
                    "waits": None,
                },
                "copies": [{"node": "n2", "role": None}, {"node": "n1", "role": None}],
            }
        ],
        "storage": None,
    }


A_COPY = CopyOverview(
    fragment=FragmentId(1),
    role=CopyRole.PRIMARY,
    messages=11,
    stowed_messages=5,
    memory_bytes=2_048,
    stowed_bytes=4_096,
    journal_bytes=8_192,
    journal_segments=2,
    dead_bytes=1_024,
    scratch_bytes=512,
    reading_bytes=100,
    at_hand_bytes=200,
    age_ms=60_000,
    age_ms_max=70_000,
)


def test_show_tells_what_each_copy_has_in_memory_and_on_disk() -> None:
    cluster = a_cluster()
    key = add_queue(cluster, "orders", {"n2": (10, 1, 2)})
    cluster["n2"].copied[key] = [A_COPY]
    cluster["n1"].copied[key] = [
        replace(A_COPY, role=CopyRole.BACKUP, reading_bytes=0, at_hand_bytes=0, age_ms=None)
    ]
    cluster["n3"].copied[key] = [replace(A_COPY, role=CopyRole.KEPT, age_ms=None)]
    with served(cluster) as servers:
        at = servers.address("n1")
        done = fedq("queue", "show", "orders", "--node", at)
        value = fedq("queue", "show", "orders", "--json", "--node", at).value
    rows = done.rows("FRAGMENT")
    begin = next(index for index, row in enumerate(rows) if row[0] == "FRAGMENT") + 1
    common = "11 5 2.0 KiB 8.0 KiB 2 1.0 KiB 512 B"
    ahead = "100 B 200 B 1m 0s to 1m 10s"
    assert " ".join(rows[begin]) == f"1 n2 primary {common} {ahead}"
    assert " ".join(rows[begin + 1]) == f"1 n1 backup {common}"
    assert rows[begin + 2][:3] == ["1", "n3", "kept"]
    (fragment,) = value["fragments"]
    assert fragment["copies"][0] == {
        "node": "n2",
        "role": "primary",
        "messages": 11,
        "messages_on_disk_alone": 5,
        "memory_bytes": 2_048,
        "on_disk_alone_bytes": 4_096,
        "journal_bytes": 8_192,
        "scratch_bytes": 512,
        "reading_bytes": 100,
        "at_hand_bytes": 200,
        "journal_segments": 2,
        "journal_dead_bytes": 1_024,
        "age_ms": 60_000,
        "age_ms_max": 70_000,
        "whole": True,
        "last": 0,
        "last_reign": 0,
        "stream": None,
    }
    assert value["storage"]["memory_bytes"] == 3 * 2_048
    assert value["storage"]["messages_on_disk_alone"] == 15


def test_show_does_not_add_up_what_a_silent_member_has_too() -> None:
    cluster = a_cluster()
    key = add_queue(cluster, "orders", {"n2": (10, 1, 2)})
    cluster["n2"].copied[key] = [replace(A_COPY, age_ms_max=None)]
    with served(cluster) as servers:
        servers.stop_node("n1")
        at = servers.address("n3")
        done = fedq("queue", "show", "orders", "--node", at)
        value = fedq("queue", "show", "orders", "--json", "--node", at).value
    assert value["storage"] is None
    assert value["fragments"][0]["copies"][1] == {"node": "n1", "role": None}
    assert "1m 0s or more" in done.out
    assert ["1", "n1", *"?" * 11] in done.rows("FRAGMENT")


def test_show_tells_the_offsets_of_a_stream() -> None:
    cluster = a_cluster(["n1"])
    key = add_queue(cluster, "events", {"n1": (10, 0, 0)}, '{"x-queue-type":"stream"}')
    at_first = StreamOverview(7, 16, 3, 1_024, 2)
    cluster["n1"].copied[key] = [replace(A_COPY, stream=at_first)]
    with served(cluster) as servers:
        at = servers.address("n1")
        done = fedq("queue", "show", "events", "--node", at)
        (fragment,) = fedq("queue", "show", "events", "--json", "--node", at).value["fragments"]
        cluster["n1"].copied[key] = [replace(A_COPY, stream=StreamOverview(None, None, 0, 0, 0))]
        empty = fedq("queue", "show", "events", "--node", at)
    assert ["1", "7", "16", "3", "1.0", "KiB", "2"] in done.rows("FRAGMENT")
    assert ["1", "0", "0", "B", "0"] in empty.rows("FRAGMENT")
    assert fragment["copies"][0]["stream"] == {
        "first_offset": 7, "last_offset": 16, "segments": 3, "bytes": 1_024, "readers": 2,
    }  # fmt: skip


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
