"""`fedq cluster` against real admin services with hand-filled overviews."""

from dataclasses import replace

from fedq.core.ids import NodeId, QueueKey
from fedq.node.records.unserved import Awaited
from fedq.node.views.alarm_view import AlarmOverview, WaitOverview
from fedq.node.views.overview_types import MemberRole, MemberState
from tests.unit.admin.served import (
    a_cluster,
    a_connection,
    add_queue,
    served,
    set_member,
    silent_address,
)
from tests.unit.cli.command import fedq, fedq_alone

ORDERS = QueueKey("/", "orders")


def test_status_shows_the_members_and_that_all_is_well() -> None:
    cluster = a_cluster()
    add_queue(cluster, "orders", {"n1": (1, 0, 0), "n2": (1, 0, 0)})
    with served(cluster) as servers:
        done = fedq("cluster", "status", "--node", servers.address("n2"))
    assert (done.exit_code, done.err) == (0, "")
    assert done.out.splitlines()[0] == (
        "asked n2: leader n1, era 3, map version 42, queues 1 in fragments 2"
    )
    assert [row[:5] for row in done.rows("NODE")[:3]] == [
        ["n1", "up", "leader", "voter", "127.0.0.1:5672"],
        ["n2", "up", "follower", "voter", "127.0.0.1:5672"],
        ["n3", "up", "follower", "voter", "127.0.0.1:5672"],
    ]
    assert done.out.splitlines()[-1].strip() == "all is well"


def test_status_names_what_is_wrong() -> None:
    cluster = a_cluster()
    fenced = replace(cluster["n2"].node_overview, lease_held=False, leader=None)
    cluster["n2"].node_overview = fenced
    with served(cluster) as servers:
        set_member(cluster, "n3", state=MemberState.DOWN)
        done = fedq("cluster", "status", "--node", servers.address("n1"))
    assert done.exit_code == 4
    assert [row[:-1] for row in done.rows("NODE")[1:3]] == [
        ["n2", "fenced", "looking", "voter", "127.0.0.1:5672"],
        ["n3", "down", "voter", "127.0.0.1:5672"],
    ]
    problems = [line.strip() for line in done.out.splitlines() if line.startswith("!")]
    assert problems == [
        "! n3 is down: start it again to have all copies back",
        "! n2 has no contact with a majority of the nodes (fenced) and does not serve clients",
    ]


def test_a_host_whose_workers_are_all_up_is_one_line_that_unfolds() -> None:
    cluster = a_cluster(["n1", "n1.2", "n1.3", "n2", "n2.2"])
    with served(cluster) as servers:
        at = servers.address("n2")
        set_member(cluster, "n1.3", role=MemberRole.OBSERVER)
        folded = fedq("cluster", "status", "--node", at)
        unfolded = fedq("cluster", "status", "--workers", "--node", at)
        members = fedq("cluster", "status", "--json", "--node", at).value["members"]
        set_member(cluster, "n1.2", state=MemberState.DOWN)
        hurt = fedq("cluster", "status", "--node", at)
        # Of names alone nobody is taken for a worker.
        elsewhere = servers.address("n2.2").replace("127.0.0.1", "localhost")
        set_member(cluster, "n2.2", peer_address=elsewhere)
        apart = fedq("cluster", "status", "--node", at)
    assert [row[:7] for row in folded.rows("NODE")[:2]] == [
        ["n1", "(3", "workers)", "up", "leader", "2", "voters"],
        ["n2", "(2", "workers)", "up", "follower", "2", "voters"],
    ]
    assert folded.out.splitlines()[-1].strip() == "all is well"
    assert [row[0] for row in unfolded.rows("NODE")[:5]] == ["n1", "n1.2", "n1.3", "n2", "n2.2"]
    assert [member["host"] for member in members] == ["127.0.0.1"] * 5
    rows = [row[:3] for row in hurt.rows("NODE")[:4]]
    assert rows == [
        ["n1", "up", "leader"], ["n1.2", "down", "voter"], ["n1.3", "up", "follower"],
        ["n2", "(2", "workers)"],
    ]  # fmt: skip
    assert ["n2.2", "up", "follower"] in [row[:3] for row in apart.rows("NODE")]


def test_status_as_json_is_one_value() -> None:
    with served(a_cluster()) as servers:
        value = fedq("cluster", "status", "--json", "--node", servers.address("n1")).value
    assert (value["node"], value["leader"], value["problems"]) == ("n1", "n1", [])
    assert [member["state"] for member in value["members"]] == ["up", "up", "up"]
    assert [member["figures"]["lease"] for member in value["members"]] == ["held"] * 3
    assert value["members"][1]["figures"]["raft_role"] == "follower"


def test_status_tells_which_queues_wait_for_whom() -> None:
    cluster = a_cluster()
    queues = (QueueKey("/", "orders"), QueueKey("shop", "a\udc80\n"))
    awaited = (Awaited((NodeId("n2"), NodeId("n3")), 7, queues),)
    for each in cluster.values():
        view = replace(each.cluster_overview, fragments=9, fragments_unavailable=7)
        each.cluster_overview = replace(view, awaited=awaited)
    with served(cluster) as servers:
        at = servers.address("n1")
        done = fedq("cluster", "status", "--node", at)
        value = fedq("cluster", "status", "--json", "--node", at).value
    assert (
        "! 7 fragments wait for n2 or n3, which had all that was confirmed: start one of n2, n3; "
        "queues 'orders', 'a\\udc80\\n', …"
    ) in done.out
    assert value["awaited"] == [
        {
            "nodes": ["n2", "n3"],
            "fragments": 7,
            "queues": [
                {"vhost": "/", "name": "orders"}, {"vhost": "shop", "name": "a\\udc80\n"},
            ],
        }
    ]  # fmt: skip


def test_status_tells_what_each_member_is_short_of_and_who_waits() -> None:
    cluster = a_cluster()
    waits = (WaitOverview(NodeId("n2"), ORDERS, 3), WaitOverview(NodeId("n2"), None, 1))
    short = AlarmOverview(True, True, 1 << 20, 3 << 19, 1 << 10, 1 << 30, 0, ())
    cluster["n2"].node_overview = replace(
        cluster["n2"].node_overview, memory_bytes=5 << 18, alarms=short
    )
    held = AlarmOverview(memory_bytes_max=1 << 20, connections=4, waits=waits)
    cluster["n1"].node_overview = replace(cluster["n1"].node_overview, alarms=held)
    with served(cluster) as servers:
        at = servers.address("n3")
        done = fedq("cluster", "status", "--node", at)
        members = fedq("cluster", "status", "--json", "--node", at).value["members"]
    lines = [line.strip() for line in done.out.splitlines()]
    assert "n2: low on memory: holds 1.2 MiB, resident 1.5 MiB, of 1.0 MiB" in lines
    assert "n2: low on disk: 1.0 KiB free, less than 1.0 GiB" in lines
    assert "n1: 4 of its connections wait to publish, for n2 (queue orders): 3, n2: 1" in lines
    assert not [line for line in lines if line.startswith("n3:")]
    alarms = [member["figures"]["alarms"] for member in members]
    assert alarms[0]["connections_waiting"] == 4
    assert alarms[0]["waits"] == [
        {"node": "n2", "vhost": "/", "queue": "orders", "connections": 3},
        {"node": "n2", "vhost": None, "queue": None, "connections": 1},
    ]
    assert alarms[1] == {
        "memory": True,
        "disk": True,
        "memory_bytes_max": 1 << 20,
        "resident_bytes": 3 << 19,
        "disk_free_bytes": 1 << 10,
        "disk_free_bytes_min": 1 << 30,
        "connections_waiting": 0,
        "waits": [],
    }
    assert alarms[2]["disk_free_bytes"] is None


def test_a_cluster_without_a_leader_has_null_for_one() -> None:
    cluster = a_cluster(["n1"])
    cluster["n1"].node_overview = replace(cluster["n1"].node_overview, leader=None)
    with served(cluster) as servers:
        at = servers.address("n1")
        assert fedq("cluster", "status", "--json", "--node", at).value["leader"] is None
        assert "leader none" in fedq("cluster", "status", "--node", at).out


def test_waiting_for_a_well_cluster_ends_when_it_is_or_the_time_is_over() -> None:
    cluster = a_cluster()
    with served(cluster) as servers:
        at = servers.address("n1")
        assert fedq("cluster", "status", "--wait", "30", "--node", at).exit_code == 0
        set_member(cluster, "n3", state=MemberState.DOWN)
        done = fedq("cluster", "status", "--wait", "0", "--node", at)
    assert done.exit_code == 4
    assert "n3 is down" in done.out


def test_waiting_ends_when_nobody_answers() -> None:
    done = fedq("cluster", "status", "--wait", "0", "--node", "127.0.0.1:1")
    assert done.exit_code == 3


def test_of_several_addresses_the_first_that_answers_is_asked() -> None:
    with served(a_cluster()) as servers:
        several = f"127.0.0.1:1, {servers.address('n2')},{servers.address('n1')}"
        assert fedq("cluster", "status", FEDQ_NODE=several).out.startswith("asked n2:")
        assert fedq("cluster", "status", "--node", several).out.startswith("asked n2:")
    nobody = fedq("cluster", "status", "--node", "127.0.0.1:1,127.0.0.1:2")
    assert nobody.exit_code == 3
    assert "127.0.0.1:1 (" in nobody.sentence
    assert "127.0.0.1:2 (" in nobody.sentence


def test_wait_and_watch_exclude_each_other() -> None:
    done = fedq("cluster", "status", "--wait", "1", "--watch", "1")
    assert (done.exit_code, done.out) == (2, "")


def test_the_node_that_answers_is_not_said_to_have_never_come_up() -> None:
    cluster = a_cluster()
    with served(cluster) as servers:
        set_member(cluster, "n1", state=MemberState.ABSENT)
        done = fedq("cluster", "status", "--node", servers.address("n1"))
    assert "never come up" not in done.out


def test_members_shows_unknown_figures_as_question_marks() -> None:
    cluster = a_cluster()
    busy = replace(
        cluster["n1"].node_overview, connections=7, memory_bytes=5 * 1024 * 1024, journal_bytes=100
    )
    cluster["n1"].node_overview = busy
    with served(cluster) as servers:
        for took_us in (900, 1_000, 1_001, 43_210, 2_000_000):
            servers.turns.note(took_us)
        servers.stop_node("n3")
        done = fedq("cluster", "members", "--node", servers.address("n1"))
        wide = fedq("cluster", "members", "--wide", "--node", servers.address("n1"))
        value = fedq("cluster", "members", "--json", "--node", servers.address("n1")).value
    first, _, third = done.rows("NODE")
    assert first[:7] == ["n1", "up", "leader", "1m", "5s", "7", "0"]
    assert first[7:] == ["5.0", "MiB", "100", "B"]
    assert max(map(len, done.out.splitlines())) <= 80
    assert wide.rows("NODE")[0][11:14] == ["held", "42", "1"]
    assert "2000.0 ms" in wide.out
    turns = value["members"][0]["figures"]["turns"]
    assert (turns["count"], turns["longest_us"], turns["total_us"]) == (5, 2_000_000, 2_046_111)
    counted = [(each["bound"], each["turns"]) for each in turns["within_us"] if each["turns"]]
    assert counted == [(1_000, 2), (2_000, 1), (50_000, 1), (None, 1)]
    assert third[:5] == ["n3", "silent", "?", "?", "?"]
    assert value["members"][2]["figures"] is None


def test_connections_are_listed_with_what_is_left_out() -> None:
    cluster = a_cluster()
    cluster["n1"].clients = [a_connection(1), replace(a_connection(2), blocked=True)]
    cluster["n1"].node_overview = replace(cluster["n1"].node_overview, connections=2)
    with served(cluster) as servers:
        servers.stop_node("n2")
        at = servers.address("n1")
        both = fedq("cluster", "connections", "--node", at)
        one = fedq("cluster", "connections", "n1", "--limit", "1", "--node", at)
        value = fedq("cluster", "connections", "--json", "--node", at).value
    assert both.rows("NODE")[:2] == [
        ["n1", "127.0.0.1:50001", "guest", "/", "orders-worker", "2", "1", "3", "running"],
        ["n1", "127.0.0.1:50002", "guest", "/", "orders-worker", "2", "1", "3", "blocked"],
    ]
    assert "! not all: n2 did not answer" in both.out
    assert "1 of 2 shown; see --limit" in one.out
    assert (value["total"], value["silent_members"]) == (2, ["n2"])
    assert value["connections"][1]["blocked"] is True


def test_an_unknown_member_is_a_failure_with_a_sentence() -> None:
    with served(a_cluster()) as servers:
        done = fedq("cluster", "connections", "n9", "--node", servers.address("n1"))
    assert done.exit_code == 1
    assert done.sentence == "no member 'n9'; there are n1, n2 and n3"


def test_markup_in_a_clients_name_is_shown_as_it_is() -> None:
    cluster = a_cluster(["n1"])
    cluster["n1"].clients = [a_connection(1, client="[red]worker[/red]:smile:")]
    with served(cluster) as servers:
        done = fedq("cluster", "connections", "--node", servers.address("n1"))
    assert "[red]worker[/red]:smile:" in done.out


# --- whom one asks ------------------------------------------------------------------------------


def test_the_node_may_come_from_the_environment() -> None:
    with served(a_cluster()) as servers:
        done = fedq("cluster", "status", "--json", FEDQ_NODE=servers.address("n3"))
    assert done.value["node"] == "n3"


def test_nobody_listening_is_unreachable() -> None:
    done = fedq("cluster", "status", "--node", "127.0.0.1:1")
    assert done.exit_code == 3
    assert done.sentence.startswith("no node reached at 127.0.0.1:1 (Connection refused); is it")


def test_a_name_that_is_none_is_unreachable() -> None:
    done = fedq("cluster", "status", "--node", "no-such-host.invalid:1")
    assert done.exit_code == 3
    assert done.sentence.startswith("no node reached at no-such-host.invalid:1 (")


def test_no_answer_in_time_is_unreachable() -> None:
    with silent_address() as silent:
        done = fedq_alone("cluster", "status", "--node", silent, "--timeout", "0.3")
    assert done.exit_code == 3
    assert f"{silent} did not answer within 0.3 s" in done.sentence


def test_a_wrong_address_is_a_usage_error() -> None:
    done = fedq("cluster", "status", "--node", "localhost")
    assert done.exit_code == 2
    assert done.sentence == "--node: 'localhost' is no address; write host:port"


def test_a_wrong_option_is_a_usage_error_without_a_traceback() -> None:
    for arguments in (
        ["cluster", "status", "--timeout", "0"],
        ["cluster", "connections", "--limit", "1001"],
        ["cluster", "nonsense"],
        ["queue", "show"],
        ["up", "--nodes", "6"],
        ["nonsense"],
    ):
        done = fedq(*arguments)
        assert done.exit_code == 2, arguments
        assert "Traceback" not in done.err
        assert "Error: " in done.err
