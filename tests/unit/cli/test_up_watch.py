"""What `fedq up` tells of its cluster: pictures in, events out."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.cli.processes.child import how_it_ended
from fedq.cli.up.plan import PlannedNode
from fedq.cli.up.screen import LineScreen
from fedq.cli.up.watch import Event, NodePicture, Picture, Watcher, compare
from fedq.core.ids import NodeId
from fedq.node.views.overview_types import MemberState
from tests.unit.admin.served import LoopThread, Served, a_cluster, served, set_member

SERVING = NodePicture(True, "follower", 5, 0)
FENCED = NodePicture(False, "looking", 5, 0)


def planned(name: str, admin: str = "127.0.0.1:1") -> PlannedNode:
    return PlannedNode(
        NodeId(name), f"amqp://{name}", "", admin, Path("node.yaml"), Path("data"),
        Path("node.log"), (), (name,),
    )  # fmt: skip


PLAN = [planned(name) for name in ("n1", "n2", "n3")]
HEALTHY = Picture(
    dict.fromkeys(("n1", "n2", "n3"), SERVING),
    dict.fromkeys(("n1", "n2", "n3"), "up"),
    leader="n1",
)


def kinds(before: Picture, after: Picture) -> list[tuple[str, str | None]]:
    return [(event.kind, event.node) for event in compare(PLAN, before, after)]


def test_a_start_is_told_node_by_node_then_as_a_whole() -> None:
    one = Picture({"n1": SERVING}, {"n1": "up", "n2": "absent", "n3": "absent"}, leader="n1")
    assert kinds(Picture(), one) == [("ready", "n1"), ("leader", "n1")]
    assert kinds(one, HEALTHY) == [("ready", "n2"), ("ready", "n3"), ("whole", None)]
    (ready, *_) = compare(PLAN, Picture(), one)
    assert ready == Event("ready", "n1 is ready: amqp://n1", "n1", "amqp://n1")


def test_a_lost_node_and_its_return() -> None:
    left = dict.fromkeys(("n2", "n3"), SERVING)
    silent = replace(HEALTHY, nodes=left)
    out = replace(
        silent, members={"n1": "down", "n2": "up", "n3": "up"}, leader="n3",
        fragments=4, fragments_short=2,
    )  # fmt: skip
    copied = replace(out, fragments_short=0)
    back = replace(HEALTHY, leader="n3", fragments=4)
    assert kinds(HEALTHY, silent) == []
    assert kinds(silent, out) == [("down", "n1"), ("leader", "n3"), ("fragments", None)]
    assert kinds(out, copied) == [("fragments", None)]
    assert kinds(copied, back) == [("ready", "n1"), ("up", "n1"), ("whole", None)]


def test_a_lost_majority_is_told_by_those_who_notice() -> None:
    fenced = Picture({"n2": FENCED, "n3": FENCED}, HEALTHY.members)
    assert kinds(HEALTHY, fenced) == [("fenced", "n2"), ("fenced", "n3"), ("no-leader", None)]
    assert kinds(fenced, fenced) == []


def test_trouble_is_told_once() -> None:
    troubled = replace(HEALTHY, trouble="n1 failed to answer: INTERNAL: out of luck")
    assert kinds(HEALTHY, troubled) == [("trouble", None)]
    assert kinds(troubled, troubled) == []


states = st.sampled_from(["up", "down", "absent"])
node_names = st.sampled_from(["n1", "n2", "n3"])
pictures = st.builds(
    Picture,
    st.dictionaries(node_names, st.sampled_from([SERVING, FENCED])),
    st.dictionaries(node_names, states),
    st.sampled_from(["", "n1", "n2"]),
    st.integers(0, 2),
    st.integers(0, 2),
    st.integers(0, 2),
)


@given(pictures)
def test_nothing_happened_is_no_event(picture: Picture) -> None:
    assert kinds(picture, picture) == []


@given(st.lists(pictures, max_size=8))
def test_a_node_is_ready_whenever_it_begins_to_serve(history: list[Picture]) -> None:
    told: list[str | None] = []
    wanted: list[str | None] = []
    before = Picture()
    for after in history:
        told += [node for kind, node in kinds(before, after) if kind == "ready"]
        wanted += [
            name
            for name in ("n1", "n2", "n3")
            if after.nodes.get(name) == SERVING and before.nodes.get(name) != SERVING
        ]
        before = after
    assert told == wanted


# --- looking ------------------------------------------------------------------------------------


def look(servers: Served, running: Sequence[str], before: Picture) -> Picture:
    async def looked() -> Picture:
        watcher = Watcher([planned(name, servers.address(name)) for name in servers.cluster])
        try:
            return await watcher.look(running, before)
        finally:
            await watcher.close()

    return LoopThread.run(looked())


def test_a_healthy_cluster_is_seen_whole() -> None:
    with served(a_cluster()) as servers:
        seen = look(servers, ["n1", "n2", "n3"], Picture())
    assert [name for name, node in seen.nodes.items() if node.is_serving] == ["n1", "n2", "n3"]
    assert seen.nodes["n1"].role == "leader"
    assert seen.members == {"n1": "up", "n2": "up", "n3": "up"}
    assert (seen.leader, seen.problems, seen.trouble) == ("n1", (), "")


def test_a_fenced_node_is_not_asked_about_the_cluster() -> None:
    cluster = a_cluster()
    for name in ("n1", "n2"):
        cluster[name].node_overview = replace(
            cluster[name].node_overview, lease_held=False, leader=None
        )
    with served(cluster) as servers:
        set_member({"n3": cluster["n3"]}, "n1", state=MemberState.DOWN)
        seen = look(servers, ["n1", "n2", "n3"], Picture())
        blind = look(servers, ["n1", "n2"], seen)
    assert seen.members["n1"] == "down"
    assert seen.leader == "n1"
    # Nobody who is left can tell: what was known stays, but for the leader.
    assert (blind.members, blind.leader) == (seen.members, "")


def test_when_the_node_asked_about_all_is_lost_another_one_tells() -> None:
    cluster = a_cluster()
    with served(cluster) as servers:
        before = look(servers, ["n1", "n2", "n3"], Picture())
        # It still answers for itself, and breaks when it is asked about all.
        whole = cluster["n1"].cluster_overview
        cluster["n1"].cluster_overview = None  # type: ignore[assignment]
        seen = look(servers, ["n1", "n2", "n3"], before)
        alone = look(servers, ["n1"], before)
        cluster["n1"].cluster_overview = whole
    assert seen.leader == alone.leader == "n1"
    assert seen.members == before.members
    assert seen.trouble.startswith("n1 failed to answer")


def test_a_node_that_fails_to_answer_is_trouble_and_one_that_is_away_is_not() -> None:
    cluster = a_cluster()
    with served(cluster) as servers:
        # An answer that breaks inside the node, as a bug would.
        cluster["n1"].node_overview = None  # type: ignore[assignment]
        servers.stop_node("n2")
        seen = look(servers, ["n1", "n2", "n3"], Picture())
        cluster["n1"].node_overview = cluster["n3"].node_overview
    assert list(seen.nodes) == ["n3"]
    assert seen.trouble.startswith("n1 failed to answer: UNKNOWN: ")


# --- showing ------------------------------------------------------------------------------------


def test_events_are_lines_or_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    event = Event("ready", "n1 is ready: amqp://127.0.0.1:5672", "n1", "amqp://127.0.0.1:5672")
    with LineScreen(is_json=False) as plain:
        plain.show(event)
        plain.draw(HEALTHY, ["n1"])
    line = capsys.readouterr().out
    assert line[8:] == " n1 is ready: amqp://127.0.0.1:5672\n"
    with LineScreen(is_json=True) as lines:
        lines.show(event)
    assert json.loads(capsys.readouterr().out) == {
        "event": "ready",
        "node": "n1",
        "amqp": "amqp://127.0.0.1:5672",
        "text": "n1 is ready: amqp://127.0.0.1:5672",
    }


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "stopped"),
        (2, "ended with exit code 2"),
        (-9, "was ended by SIGKILL"),
        (-99, "was ended by signal 99"),
    ],
)
def test_ends_are_told_in_words(code: int, words: str) -> None:
    assert how_it_ended(code) == words
