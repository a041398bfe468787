"""`fedq top`: what the difference of two looks is, and what is shown of it."""

from dataclasses import replace

from fedq.cli.asking.asker import asking
from fedq.cli.asking.endpoint import Endpoint
from fedq.cli.asking.forms import Form
from fedq.cli.terminal.screen import console
from fedq.cli.top import rates
from fedq.cli.top.looking import Look, look
from fedq.cli.top.screen import page
from fedq.cli.top.top import Watch
from fedq.core.ids import Incarnation
from fedq.node.records.message_counts import MessageCounts
from fedq.node.views.overview_types import MemberState, TrafficOverview
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


def seen(servers: Served, at_s: float) -> Look:
    """A look of which a test says when it was."""
    with asking(Endpoint(servers.address("n1"), 5.0)) as asker:
        return replace(look(asker, None), at_s=at_s)


def set_ready(cluster: dict[str, HandFilled], name: str, ready: int, *counted: int) -> None:
    """So many messages wait in the queue; what was published, handed out and acknowledged."""
    (key,) = [key for key in cluster["n1"].queues if key.name == name]
    published, handed_out, acknowledged = counted or (0, 0, 0)
    traffic = TrafficOverview(published, handed_out, 0, acknowledged)
    for overview in cluster.values():
        for at, local in enumerate(overview.fragments.get(key, [])):
            overview.fragments[key][at] = replace(local, ready=ready, traffic=traffic)


def rates_of(row: Form) -> tuple[float | None, ...]:
    return tuple(row[f"{name}_per_second"] for name in rates.COUNTED)


def test_rates_are_of_the_difference_of_two_looks() -> None:
    cluster = a_cluster()
    add_queue(cluster, "quiet", {"n1": (500, 0, 0)})
    add_queue(cluster, "growing", {"n2": (0, 0, 0)})
    add_queue(cluster, "busy", {"n3": (0, 0, 0)})
    set_ready(cluster, "quiet", 500, 900, 400, 400)
    set_ready(cluster, "growing", 10)
    set_ready(cluster, "busy", 7, 1_000, 1_100, 900)
    with served(cluster) as servers:
        before = seen(servers, 10.0)
        set_ready(cluster, "growing", 30)
        set_ready(cluster, "busy", 7, 3_000, 2_900, 2_700)
        node = cluster["n2"].node_overview
        counts = MessageCounts()
        counts.received, counts.delivered, counts.got, counts.acknowledged = 50, 30, 10, 7
        cluster["n2"].node_overview = replace(node, journal_bytes=4_096, counts=counts)
        form = rates.shown(before, seen(servers, 12.0), 10)
    told = [
        (each["name"], *rates_of(each), each["messages_change_per_second"])
        for each in form["queues"]
    ]
    assert told == [
        ("busy", 1_000.0, 900.0, 900.0, 0.0), ("growing", 0.0, 0.0, 0.0, 10.0),
        ("quiet", 0.0, 0.0, 0.0, 0.0),
    ]  # fmt: skip
    assert form["seconds"] == 2.0
    by_node = {each["node"]: each for each in form["members"]}
    assert by_node["n2"]["journal_bytes_per_second"] == 2_048.0
    # An answer to basic.get is a delivery.
    assert (rates_of(by_node["n2"]), rates_of(by_node["n1"])) == ((25.0, 20.0, 3.5), (0.0,) * 3)
    assert by_node["n1"]["journal_bytes_per_second"] == 0.0


def test_what_began_anew_has_no_rate() -> None:
    cluster = a_cluster()
    add_queue(cluster, "orders", {"n1": (5, 0, 0)})
    add_queue(cluster, "again", {"n1": (5, 0, 0)})
    set_ready(cluster, "orders", 5, 100, 90, 80)
    set_ready(cluster, "again", 5, 100, 90, 80)
    with served(cluster) as servers:
        before = seen(servers, 0.0)
        set_member(cluster, "n2", incarnation=Incarnation(2))
        set_member(cluster, "n3", state=MemberState.DOWN)
        add_queue(cluster, "new", {"n1": (5, 0, 0)})
        (key,) = [key for key in cluster["n1"].queues if key.name == "orders"]
        cluster["n1"].fragments[key][0] = replace(cluster["n1"].fragments[key][0], reign=2)
        for overview in cluster.values():
            queue = overview.queues[key]
            led_anew = tuple(replace(each, reign=2) for each in queue.fragments)
            overview.queues[key] = replace(queue, fragments=led_anew)
        # The node that is asked has not heard yet that this one is led anew.
        set_ready(cluster, "again", 5, 3, 2, 1)
        form = rates.shown(before, seen(servers, 1.0), 10)
    _, second, third = form["members"]
    assert second["turns_per_second"] is second["busy_percent"] is None
    assert rates_of(second) == rates_of(third) == (None,) * 3
    assert (third["state"], third["connections"]) == ("down", None)
    by_name = {each["name"]: each for each in form["queues"]}
    assert by_name["new"]["messages_change_per_second"] is None
    for name in ("new", "orders", "again"):
        assert rates_of(by_name[name]) == (None,) * 3


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
    assert done.rows("QUEUE")[0] == ["orders", "/", "serving", *"000", "5", "1", "0", "2"]
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
