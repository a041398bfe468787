"""`fedq top`: what the difference of two looks is, and what is shown of it."""

from dataclasses import replace

from fedq.cli.asking.asker import asking
from fedq.cli.asking.endpoint import Endpoint
from fedq.cli.terminal.screen import console
from fedq.cli.top import rates
from fedq.cli.top.looking import EVENTS_OF_MAX, Look, look
from fedq.cli.top.screen import page
from fedq.cli.top.top import Watch
from fedq.core.ids import Incarnation
from fedq.node.views.overview_types import LocalFragment, MemberState
from tests.unit.admin.served import (
    HandFilled,
    Served,
    a_cluster,
    a_connection,
    add_queue,
    served,
    set_member,
)
from tests.unit.cli.command import fedq
from tests.unit.cli.test_queue import A_COPY


def seen(servers: Served, at_s: float) -> Look:
    """A look of which a test says when it was."""
    with asking(Endpoint(servers.address("n1"), 5.0)) as asker:
        return replace(look(asker, None, ()), at_s=at_s)


def set_ready(cluster: dict[str, HandFilled], name: str, ready: int, last: int) -> None:
    """So many messages wait in the queue, whose primary has noted so many events."""
    (key,) = [key for key in cluster["n1"].queues if key.name == name]
    for overview in cluster.values():
        for at, local in enumerate(overview.fragments.get(key, [])):
            overview.fragments[key][at] = LocalFragment(local.fragment, 1, True, ready, 0, 100)
            overview.copied[key] = [replace(A_COPY, fragment=local.fragment, last=last)]


def test_rates_are_of_the_difference_of_two_looks() -> None:
    cluster = a_cluster()
    add_queue(cluster, "quiet", {"n1": (500, 0, 0)})
    add_queue(cluster, "growing", {"n2": (0, 0, 0)})
    add_queue(cluster, "busy", {"n3": (0, 0, 0)})
    set_ready(cluster, "quiet", 500, 900)
    set_ready(cluster, "growing", 10, 0)
    set_ready(cluster, "busy", 7, 1_000)
    with served(cluster) as servers:
        before = seen(servers, 10.0)
        set_ready(cluster, "growing", 30, 0)
        set_ready(cluster, "busy", 7, 3_000)
        node = cluster["n2"].node_overview
        cluster["n2"].node_overview = replace(node, journal_bytes=4_096)
        form = rates.shown(before, seen(servers, 12.0), 10)
    told = [
        (each["name"], each["events_per_second"], each["messages_change_per_second"])
        for each in form["queues"]
    ]
    assert told == [("busy", 1_000.0, 0.0), ("growing", 0.0, 10.0), ("quiet", 0.0, 0.0)]
    assert form["seconds"] == 2.0
    by_node = {each["node"]: each for each in form["members"]}
    assert by_node["n2"]["journal_bytes_per_second"] == 2_048.0
    assert by_node["n1"]["journal_bytes_per_second"] == 0.0


def test_what_began_anew_has_no_rate() -> None:
    cluster = a_cluster()
    add_queue(cluster, "orders", {"n1": (5, 0, 0)})
    set_ready(cluster, "orders", 5, 100)
    with served(cluster) as servers:
        before = seen(servers, 0.0)
        set_member(cluster, "n2", incarnation=Incarnation(2))
        set_member(cluster, "n3", state=MemberState.DOWN)
        add_queue(cluster, "new", {"n1": (5, 0, 0)})
        (key,) = [key for key in cluster["n1"].queues if key.name == "orders"]
        cluster["n1"].copied[key] = [
            replace(copy, last_reign=2) for copy in cluster["n1"].copied[key]
        ]
        form = rates.shown(before, seen(servers, 1.0), 10)
    _, second, third = form["members"]
    assert second["turns_per_second"] is second["busy_percent"] is None
    assert (third["state"], third["connections"]) == ("down", None)
    by_name = {each["name"]: each for each in form["queues"]}
    assert by_name["new"]["messages_change_per_second"] is None
    assert by_name["orders"]["events_per_second"] is None


def test_connections_that_wait_come_first_and_then_what_changes() -> None:
    cluster = a_cluster()
    cluster["n1"].clients = [a_connection(1), a_connection(2), a_connection(3)]
    cluster["n2"].clients = [replace(a_connection(4), blocked=True)]
    with served(cluster) as servers:
        before = seen(servers, 0.0)
        cluster["n1"].clients[1] = replace(a_connection(2), unacknowledged=13)
        form = rates.shown(before, seen(servers, 2.0), 10)
    assert [each["name"] for each in form["connections"]] == [
        "n2.1.4", "n1.1.2", "n1.1.1", "n1.1.3",
    ]  # fmt: skip
    assert form["connections"][1]["unacknowledged_change_per_second"] == 5.0


def test_only_some_queues_are_looked_at_closely() -> None:
    cluster = a_cluster(["n1"])
    for number in range(EVENTS_OF_MAX + 10):
        add_queue(cluster, f"q{number:03}", {"n1": (number, 0, 0)})
        set_ready(cluster, f"q{number:03}", number, 1)
    with served(cluster) as servers:
        found = seen(servers, 0.0)
        with asking(Endpoint(servers.address("n1"), 5.0)) as asker:
            watched = look(asker, None, [("/", "q000"), ("/", "gone")]).events
    assert len(found.events) == len(watched) == EVENTS_OF_MAX
    assert ("/", "q000") not in found.events
    assert ("/", "q000") in watched


def test_once_shows_all_tables_and_what_is_wrong() -> None:
    cluster = a_cluster()
    add_queue(cluster, "orders", {"n1": (5, 1, 2)})
    cluster["n1"].clients = [a_connection(1)]
    with served(cluster) as servers:
        options = ("--once", "--interval", "0.1", "--node", servers.address("n1"))
        done = fedq("top", *options)
        value = fedq("top", *options, "--json", "--rows", "1").value
        set_member(cluster, "n3", state=MemberState.DOWN)
        wrong = fedq("top", *options)
    assert done.exit_code == 0
    assert "all is well" in done.out
    assert done.rows("QUEUE")[0][:3] == ["orders", "/", "serving"]
    assert done.rows("CONNECTION")[0][:2] == ["n1.1.1", "orders-worker"]
    assert value["queues"][0]["messages"] == 6
    assert value["connections_looked_at"] == 1
    assert wrong.exit_code == 4
    assert "! n3 is down" in wrong.out


def test_what_was_seen_last_stays_while_nobody_answers() -> None:
    cluster = a_cluster(["n1"])
    add_queue(cluster, "orders", {"n1": (5, 0, 0)})
    with served(cluster) as servers:
        watch = Watch(Endpoint(servers.address("n1"), 5.0), None, 10)
        watch.look()
        servers.stop_node("n1")
        form = watch.look_again()
    assert [each["name"] for each in form["queues"]] == ["orders"]
    assert "no node reached at" in form["trouble"]
    screen = console()
    with screen.capture() as shown:
        screen.print(page(form, watch.trouble))
    assert "! not of this moment: no node reached at" in shown.get()


def test_nobody_there_is_exit_code_3() -> None:
    assert fedq("top", "--once", "--node", "127.0.0.1:1").exit_code == 3
