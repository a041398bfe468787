"""`fedq cluster upgrade-check` and `stop` against real admin services."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from fedq.core.ids import NodeId
from fedq.core.versions import MINE, NEWEST
from fedq.node.views.alarm_view import AlarmOverview
from fedq.node.views.overview_types import MemberRole, MemberState
from tests.unit.admin.served import HandFilled, Served, a_cluster, served, set_member
from tests.unit.cli.command import Outcome, fedq

N1, N2 = NodeId("n1"), NodeId("n2")


@pytest.fixture
def cluster() -> dict[str, HandFilled]:
    made = a_cluster()
    for name in made:
        set_member(made, name, speaks=MINE)
    change(made, version=NEWEST)
    return made


@pytest.fixture
def servers(cluster: dict[str, HandFilled]) -> Iterator[Served]:
    with served(cluster) as running:
        yield running


def change(cluster: dict[str, HandFilled], **figures: Any) -> None:
    """Changes what every node's map says of the whole."""
    for overview in cluster.values():
        overview.cluster_overview = replace(overview.cluster_overview, **figures)


def check(servers: Served, *more: str) -> Outcome:
    return fedq("cluster", "upgrade-check", "--node", servers.address("n1"), *more)


def stop(servers: Served, *more: str) -> Outcome:
    return fedq("cluster", "stop", "--node", servers.address("n1"), *more)


def reasons(servers: Served, node: str) -> list[str]:
    done = check(servers, "--json")
    (found,) = [each for each in done.value["members"] if each["node"] == node]
    assert found["safe_to_stop"] == (not found["reasons"])
    assert done.exit_code == (0 if done.value["safe"] else 1)
    listed: list[str] = found["reasons"]
    return listed


def test_a_healthy_cluster_may_be_updated_node_by_node(servers: Served) -> None:
    done = check(servers)
    assert done.exit_code == 0
    assert [row[-1] for row in done.rows("NODE")[:3]] == ["yes"] * 3
    assert f"the cluster speaks version {NEWEST}" in done.out
    value = check(servers, "--json").value
    assert value["safe"] is True
    assert value["members"][0]["speaks"] == list(MINE)
    assert value["versions"]["switched_on_then"] == {}


def test_what_all_get_once_the_last_one_is_updated_is_named(
    cluster: dict[str, HandFilled], servers: Served
) -> None:
    set_member(cluster, "n2", speaks=(5, 13))
    change(cluster, version=13)
    value = check(servers, "--json").value["versions"]
    assert (value["speaks"], value["to_update"], value["fits"]) == (13, ["n2"], True)
    assert "nodes that join a running cluster" in value["switched_on_then"]["14"]
    assert "13" not in value["switched_on_then"]
    assert "once all nodes run it, version 14: nodes that join" in check(servers).out


def test_a_release_that_one_of_them_does_not_understand_is_too_new(
    cluster: dict[str, HandFilled], servers: Served
) -> None:
    set_member(cluster, "n2", speaks=(1, MINE[0] - 1))
    change(cluster, version=MINE[0] - 1)
    done = check(servers)
    assert done.exit_code == 1
    assert "update one release after the other" in done.out
    assert check(servers, "--json").value["versions"]["too_old_for_this_release"] == ["n2"]


def test_who_has_something_alone_is_not_to_be_stopped(
    cluster: dict[str, HandFilled], servers: Served
) -> None:
    change(cluster, only_copies={N2: 3}, single_copies={N1: 2})
    assert reasons(servers, "n2") == [
        "it has the only copy that is in sync and up of 3 fragments: wait until they are copied"
    ]
    assert reasons(servers, "n1") == []
    assert "n1: 2 fragments of queues that want one copy" in check(servers).out
    assert check(servers, "n1").exit_code == 0
    assert check(servers, "n2").exit_code == 1
    assert "x is no member that is up" in check(servers, "x").sentence


def test_without_a_majority_after_it_nobody_is_to_be_stopped(
    cluster: dict[str, HandFilled], servers: Served
) -> None:
    set_member(cluster, "n3", state=MemberState.DOWN)
    assert reasons(servers, "n2") == [
        "1 of 3 voters would be left, which is no majority: nobody would serve"
    ]
    # Who only observes is missed by nobody.
    set_member(cluster, "n2", role=MemberRole.OBSERVER)
    set_member(cluster, "n3", role=MemberRole.OBSERVER)
    assert reasons(servers, "n2") == []


def test_workers_of_one_host_stop_together_and_are_judged_so() -> None:
    cluster = a_cluster(["a", "a.2", "b", "b.2"])
    for name in cluster:
        set_member(cluster, name, speaks=MINE, peer_address=f"{name[0]}.example.com:7000")
    change(cluster, version=NEWEST)
    with served(cluster) as servers:
        done = fedq("cluster", "upgrade-check", "--json", "--node", servers.address("a"))
        # Three of four would be left if it stopped alone.
        assert done.exit_code == 1
        assert [each["reasons"] for each in done.value["members"]] == [
            ["2 of 4 voters would be left, which is no majority: nobody would serve"]
        ] * 4  # fmt: skip
        for name in ("a.2", "b.2"):
            set_member(cluster, name, role=MemberRole.OBSERVER)
        set_member(cluster, "b", role=MemberRole.OBSERVER)
        change(cluster, only_copies={NodeId("b.2"): 3})
        done = fedq("cluster", "upgrade-check", "b", "--json", "--node", servers.address("a"))
        assert done.value["members"][0]["reasons"] == [
            "b.2, which stops with it, has the only copy that is in sync and up of 3 fragments: "
            "wait until they are copied"
        ]


def test_others_have_to_answer_serve_and_have_room(
    cluster: dict[str, HandFilled], servers: Served
) -> None:
    node = cluster["n3"].node_overview
    for changed, reason in (
        (replace(node, lease_held=False), "n3 is fenced: it does not serve"),
        (replace(node, stopping=True), "n3 is stopping: wait until it is back"),
        (
            replace(node, alarms=replace(AlarmOverview(), disk=True)),
            "n3 is low on disk, and would get more",
        ),
    ):
        cluster["n3"].node_overview = changed
        assert reasons(servers, "n2") == [reason]
        # What it is itself keeps nobody from stopping it.
        assert reasons(servers, "n3") == []
    cluster["n3"].node_overview = node
    servers.stop_node("n3")
    assert reasons(servers, "n2") == ["n3 does not answer, and may not serve"]


def test_a_member_is_stopped_by_its_own_admin_port(
    cluster: dict[str, HandFilled], servers: Served
) -> None:
    done = stop(servers, "n2", "--json")
    assert (done.exit_code, done.value) == (0, {"stopped": ["n2"], "left": []})
    assert servers.stopped == ["n2"]


def test_all_are_stopped_the_asked_one_last(servers: Served) -> None:
    done = stop(servers, "--all")
    assert done.exit_code == 0
    assert servers.stopped == ["n2", "n3", "n1"]
    assert done.out.splitlines() == ["n2 has stopped", "n3 has stopped", "n1 has stopped"]


def test_a_member_that_is_needed_is_stopped_by_force_alone(
    cluster: dict[str, HandFilled], servers: Served
) -> None:
    change(cluster, only_copies={N2: 1})
    refused = stop(servers, "n2")
    assert refused.exit_code == 1
    assert "n2 may not be stopped now: it has the only copy" in refused.sentence
    assert servers.stopped == []
    assert stop(servers, "n2", "--force").exit_code == 0


def test_nobody_is_stopped_if_one_of_them_cannot_be_reached(servers: Served) -> None:
    servers.without_admin.append("n3")
    refused = stop(servers, "--all")
    assert refused.exit_code == 1
    assert "n3 has no admin port: nobody was stopped" in refused.sentence
    assert servers.stopped == []


def test_one_is_said_or_all(servers: Served) -> None:
    assert stop(servers).exit_code == 2
    assert stop(servers, "n1", "--all").exit_code == 2
    assert "x is no member" in stop(servers, "x").sentence
