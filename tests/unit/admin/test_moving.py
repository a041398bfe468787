"""Drained members and planned moves through the admin service, and on the command line."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from fedq.admin.moving import Move, plan
from fedq.core.errors import NOT_FOUND, PRECONDITION_FAILED, Refused
from fedq.core.ids import Epoch, FragmentId, NodeId, QueueKey
from fedq.node.views.alarm_view import AlarmOverview
from fedq.node.views.overview_types import FragmentOverview, QueueOverview, Staying
from fedq.shell.pb import admin_pb2 as pb
from fedq.shell.pb import admin_pb2_grpc
from fedq.wiring.cluster_map.operations_copies import ShapeQueue
from fedq.wiring.cluster_map.operations_members import ForgetNode
from fedq.wiring.cluster_map.operations_moves import DrainNode, MoveFragment, UndrainNode
from tests.unit.admin.served import HandFilled, Served, a_cluster, add_queue, set_member
from tests.unit.admin.test_adopting import Proposals, proposing
from tests.unit.cli.command import fedq

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
N2 = NodeId("n2")
ONE = FragmentId(1)


def led(number: int, primary: NodeId, *others: NodeId) -> QueueOverview:
    """A queue in one fragment, with all its copies in sync."""
    fragment = FragmentOverview(
        FragmentId(number), primary, others, (primary, *others), Epoch(1), 1
    )
    key = QueueKey("/", f"q{number}")
    return QueueOverview(key, True, False, "", 1 + len(others), (fragment,))


def test_a_plan_evens_out_who_leads() -> None:
    moves = plan([led(number, A, B, C) for number in range(1, 7)], [A, B, C], 99)
    assert [(move.source, move.target) for move in moves] == [(A, B), (A, C), (A, B), (A, C)]
    assert len({move.fragment for move in moves}) == 4


def test_a_plan_moves_to_copies_in_sync_on_members_that_may_lead() -> None:
    assert plan([led(1, A, B), led(2, A, B)], [A, B], 99) == [Move(QueueKey("/", "q1"), ONE, A, B)]
    assert plan([led(1, A), led(2, A)], [A, B], 99) == []
    assert plan([led(1, A, B), led(2, A, B)], [A, C], 99) == []
    assert plan([], [], 99) == []


def test_a_plan_is_no_longer_than_is_asked() -> None:
    queues = [led(number, A, B) for number in range(1, 9)]
    assert len(plan(queues, [A, B], 99)) == 4
    assert len(plan(queues, [A, B], 3)) == 3


def test_a_plan_leaves_what_is_even() -> None:
    assert plan([led(1, A, B), led(2, B, A), led(3, A, B)], [A, B], 99) == []


@pytest.fixture
def cluster() -> dict[str, HandFilled]:
    cluster = a_cluster()
    add_queue(cluster, "orders", {"n1": (0, 0, 0)})
    return cluster


@pytest.fixture
def answers() -> list[Any]:
    """What the map says; to all that comes after that: ok."""
    return []


@pytest.fixture
def proposals(cluster: dict[str, HandFilled], answers: list[Any]) -> Iterator[Proposals]:
    with proposing(cluster, answers) as (_, found):
        yield found


@pytest.fixture
def servers(proposals: Proposals) -> Served:
    return proposals.servers


@pytest.fixture
def stub(servers: Served) -> Iterator[Any]:
    with grpc.insecure_channel(servers.address("n1")) as channel:
        yield admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]


def refusal(call: Any, request: object) -> tuple[str, str]:
    with pytest.raises(grpc.RpcError) as caught:
        call(request, timeout=5)
    error: Any = caught.value
    return error.code().name, error.details()


def a_move(**changes: Any) -> pb.MoveFragmentRequest:
    queue = pb.QueueName(vhost="/", name="orders")
    return pb.MoveFragmentRequest(**{"queue": queue, "node": "n2", **changes})


def test_wishes_are_proposed_as_they_were_made(proposals: Proposals, stub: Any) -> None:
    assert stub.DrainNode(pb.DrainNodeRequest(node="n2", close_clients=True), timeout=5).changed
    assert stub.UndrainNode(pb.UndrainNodeRequest(node="n2"), timeout=5).changed
    assert stub.MoveFragment(a_move(), timeout=5).fragment == 1
    assert stub.MoveFragment(a_move(fragment=1, node=""), timeout=5).changed
    assert proposals.proposed == [
        DrainNode(N2, True), UndrainNode(N2), MoveFragment(ONE, N2), MoveFragment(ONE, NodeId("")),
    ]  # fmt: skip


def test_who_is_forgotten_is_the_process_that_was_seen(proposals: Proposals, stub: Any) -> None:
    shown = {each.node: each for each in stub.ClusterStatus(pb.ClusterStatusRequest()).members}
    assert shown["n2"].role == pb.MEMBER_ROLE_VOTER
    assert stub.ForgetNode(pb.ForgetNodeRequest(node="n2"), timeout=5).changed
    assert stub.ForgetNode(pb.ForgetNodeRequest(node="never up"), timeout=5).changed
    assert proposals.proposed == [
        ForgetNode(N2, shown["n2"].incarnation), ForgetNode(NodeId("never up"), 0),
    ]  # fmt: skip


def test_what_the_map_refuses_is_a_failed_precondition(answers: list[Any], stub: Any) -> None:
    answers += [Refused(PRECONDITION_FAILED, "no"), Refused(NOT_FOUND, "no member 'x'")]
    request = pb.DrainNodeRequest(node="n2")
    assert refusal(stub.DrainNode, request) == ("FAILED_PRECONDITION", "no")
    assert refusal(stub.DrainNode, request) == ("NOT_FOUND", "no member 'x'")


def test_requests_that_name_nothing_are_refused(stub: Any) -> None:
    for call, request, said in (
        (stub.DrainNode, pb.DrainNodeRequest(), "node is empty"),
        (stub.UndrainNode, pb.UndrainNodeRequest(), "node is empty"),
        (stub.ForgetNode, pb.ForgetNodeRequest(), "node is empty"),
        (stub.MoveFragment, pb.MoveFragmentRequest(node="n2"), "the queue's name is empty"),
        (
            stub.MoveFragment,
            a_move(fragment=7),
            "say which fragment of 'orders' it is; there are 1",
        ),
        (stub.MoveFragment, a_move(queue=pb.QueueName(name="no")), "no shared queue 'no'"),
    ):
        assert said in refusal(call, request)[1]


def test_nothing_moves_to_a_member_without_room(
    cluster: dict[str, HandFilled], proposals: Proposals, stub: Any
) -> None:
    full = replace(cluster["n2"].node_overview, alarms=an_alarm(disk=True))
    cluster["n2"].node_overview = full
    code, text = refusal(stub.MoveFragment, a_move())
    assert code == "FAILED_PRECONDITION"
    assert "node 'n2' is low on disk and takes nothing in: make room there" in text
    assert not proposals.proposed


def drain(cluster: dict[str, HandFilled], closing: bool, leads: int, copies: int) -> None:
    """Has n2 drained in every node's map, with so much left."""
    set_member(cluster, "n2", drained=closing)
    for overview in cluster.values():
        overview.cluster_overview = replace(
            overview.cluster_overview, leads={N2: leads}, copies={N2: copies}
        )


def an_alarm(*, disk: bool) -> AlarmOverview:
    return replace(a_cluster()["n2"].node_overview.alarms, disk=disk)


def test_the_command_line_says_what_a_drained_member_has_left(
    cluster: dict[str, HandFilled], servers: Served
) -> None:
    drain(cluster, False, 1, 3)
    at = ("--node", servers.address("n1"))
    done = fedq("cluster", "drain", "n2", *at)
    assert done.exit_code == 0
    assert "left: 1 primaries, 3 copies" in done.out
    status = fedq("cluster", "status", *at).out
    assert "n2: drains: 1 primaries and 3 copies are left; clients:" in status
    drain(cluster, True, 0, 0)
    status = fedq("cluster", "status", *at).out
    assert "n2: drained: it holds nothing" in status
    assert "which are to leave" in status
    member = fedq("cluster", "status", "--json", *at).value["members"][1]
    assert (member["drained"], member["clients_are_to_leave"]) == (True, True)
    assert "may hold something again" in fedq("cluster", "undrain", "n2", *at).out


def test_a_wait_that_is_in_vain_has_exit_code_4(
    cluster: dict[str, HandFilled], servers: Served
) -> None:
    drain(cluster, False, 1, 1)
    at = ("--node", servers.address("n1"))
    assert fedq("cluster", "drain", "n2", "--wait", "0", *at).exit_code == 4
    wished(cluster, N2)
    done = fedq("queue", "move-fragment", "orders", "--to", "n2", "--wait", "0", *at)
    assert done.exit_code == 4
    assert "fragment 1 is to be led by n2" in done.out
    assert fedq("queue", "move-fragment", "orders", "--cancel", *at).exit_code == 0
    assert fedq("queue", "move-fragment", "orders", *at).exit_code == 2


def wished(cluster: dict[str, HandFilled], node: NodeId | None) -> None:
    """Has every node's map wish the fragment of "orders" there."""
    for overview in cluster.values():
        for key, queue in overview.queues.items():
            parts = tuple(replace(each, moves_to=node) for each in queue.fragments)
            overview.queues[key] = replace(queue, fragments=parts)


def test_a_wait_for_a_move_ends_when_nobody_wants_it_any_more(
    cluster: dict[str, HandFilled], servers: Served
) -> None:
    wished(cluster, None)
    at = ("--node", servers.address("n1"))
    done = fedq("queue", "move-fragment", "orders", "--to", "n2", "--wait", "60", *at)
    assert done.exit_code == 1
    assert "fragment 1 stays with n1: the move was given up, as n2 went down" in done.err


def test_a_drain_ends_when_what_is_left_cannot_go_and_says_why(
    cluster: dict[str, HandFilled], servers: Served
) -> None:
    drain(cluster, False, 0, 2)
    for overview in cluster.values():
        staying = {N2: Staying(2, 3, QueueKey("/", "orders"))}
        overview.cluster_overview = replace(overview.cluster_overview, staying=staying)
    at = ("--node", servers.address("n1"))
    done = fedq("cluster", "drain", "n2", "--keep-clients", "--wait", "60", *at)
    assert done.exit_code == 0
    assert "left: 0 primaries, 2 copies, 0 clients" in done.out
    assert "n2 keeps 2 copies, as of queue 'orders' in vhost '/', which wants 3" in done.out
    value = fedq("cluster", "drain", "n2", "--wait", "60", "--json", *at).value
    assert value["copies_that_stay"] == 2
    assert value["notes"][0].startswith("n2 keeps 2 copies")
    # One more could go.
    drain(cluster, False, 0, 3)
    assert fedq("cluster", "drain", "n2", "--wait", "0", *at).exit_code == 4


def test_a_drain_waits_for_clients_that_are_to_leave(
    cluster: dict[str, HandFilled], servers: Served
) -> None:
    drain(cluster, True, 0, 0)
    at = ("--node", servers.address("n1"))
    assert fedq("cluster", "drain", "n2", "--wait", "0", *at).exit_code == 0
    cluster["n2"].node_overview = replace(cluster["n2"].node_overview, connections=3)
    done = fedq("cluster", "drain", "n2", "--wait", "0", *at)
    assert done.exit_code == 4
    assert "0 copies, 3 clients" in done.out


def test_a_drain_that_somebody_took_back_is_not_waited_for(
    cluster: dict[str, HandFilled], servers: Served
) -> None:
    # The map of this one says that n2 is not drained.
    done = fedq("cluster", "drain", "n2", "--wait", "60", "--node", servers.address("n1"))
    assert done.exit_code == 4
    assert "somebody has undrained n2 meanwhile" in done.out


def test_a_plan_is_shown_and_carried_out(
    cluster: dict[str, HandFilled], proposals: Proposals
) -> None:
    for overview in cluster.values():
        overview.queues = {}
        for number in (1, 2):
            queue = led(number, NodeId("n1"), N2)
            overview.queues[queue.key] = queue
    at = ("--node", proposals.servers.address("n3"))
    shown = fedq("cluster", "rebalance", "--dry-run", *at)
    assert "nothing was moved" in shown.out
    assert not proposals.proposed
    done = fedq("cluster", "rebalance", "--json", *at).value
    assert done["moves"] == [{"vhost": "/", "queue": "q1", "fragment": 1, "from": "n1", "to": "n2"}]
    assert proposals.proposed == [MoveFragment(ONE, N2)]


def planned(path: Path, form: object) -> tuple[str, ...]:
    path.write_text(json.dumps(form), encoding="utf-8")
    return ("cluster", "rebalance", "--plan", str(path))


def test_a_plan_from_a_file_is_carried_out(
    cluster: dict[str, HandFilled], proposals: Proposals, tmp_path: Path
) -> None:
    for overview in cluster.values():
        queue = led(1, NodeId("n1"), N2)
        overview.queues = {queue.key: queue}
    move = {"vhost": "/", "queue": "q1", "fragment": 1, "from": "n1", "to": "n2"}
    gone = {**move, "queue": "gone"}
    command = planned(tmp_path / "plan.json", {"fedq_plan": 1, "moves": [move, gone]})
    at = ("--node", proposals.servers.address("n3"))
    assert "nothing was moved" in fedq(*command, "--dry-run", *at).out
    assert not proposals.proposed
    done = fedq(*command, "--json", *at)
    assert done.exit_code == 4, "one is refused"
    outcomes = [each["outcome"] for each in done.value["moves"]]
    assert outcomes[0] == "wished"
    assert "no shared queue 'gone'" in outcomes[1]
    assert proposals.proposed == [MoveFragment(ONE, N2)]


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ([], "no plan of a form that is known"),
        ({"fedq_plan": 2, "moves": []}, "no plan of a form that is known"),
        ({"fedq_plan": 1}, "a list of"),
        ({"fedq_plan": 1, "moves": [{"queue": "q"}]}, "move 1 of"),
        ({"fedq_plan": 1, "moves": [{"vhost": "/", "queue": "q", "fragment": True, "from": "a",
                                     "to": "b"}]}, "move 1 of"),
    ],
)  # fmt: skip
def test_what_is_no_plan_is_refused_before_anybody_is_asked(
    form: object, words: str, tmp_path: Path
) -> None:
    done = fedq(*planned(tmp_path / "plan.json", form))
    assert (done.exit_code, words in done.err) == (2, True)
    assert fedq("cluster", "rebalance", "--plan", str(tmp_path / "none")).exit_code == 2


def test_the_command_line_sets_in_how_many_fragments_a_queue_is(
    proposals: Proposals, servers: Served
) -> None:
    at = ("--node", servers.address("n1"))
    done = fedq("queue", "shape", "orders", "--fragments", "2", *at)
    assert done.exit_code == 0
    assert "orders is to be in 2 fragments; it is in 1" in done.out
    assert "ask again when there is" in done.out
    done = fedq("queue", "shape", "orders", "--fragments", "auto", *at)
    assert "in as many fragments as its traffic asks for; 1 now" in done.out
    assert proposals.proposed == [ShapeQueue("/", "orders", 2), ShapeQueue("/", "orders", 0)]
    for wrong in ("0", "65", "many"):
        refused = fedq("queue", "shape", "orders", "--fragments", wrong, *at)
        assert refused.exit_code == 2
        assert f"a number from 1 to 64, or auto, not '{wrong}'" in refused.err
    missing = fedq("queue", "shape", "nothing", "--fragments", "2", *at)
    assert missing.exit_code == 1
    assert "no shared queue 'nothing'" in missing.err
