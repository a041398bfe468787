"""Naming the copy that counts, over real connections: what is refused, and what is proposed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import grpc
import pytest

from fedq.core.errors import PRECONDITION_FAILED, Refused
from fedq.core.ids import Epoch, FragmentId, Incarnation, NodeId, QueueKey
from fedq.core.limits import FRAGMENTS_PER_QUEUE_MAX
from fedq.node.views.overview_types import FragmentOverview, MemberState
from fedq.node.views.storage_types import CopyOverview, CopyRole
from fedq.shell.pb import admin_pb2 as pb
from fedq.shell.pb import admin_pb2_grpc
from fedq.wiring.cluster_map.operations import Operation
from fedq.wiring.cluster_map.operations_copies import AdoptCopy
from fedq.wiring.cluster_map.state import Ok
from tests.unit.admin.served import HandFilled, Served, a_cluster, add_queue, served, set_member

ORDERS = QueueKey("/", "orders")
A_COPY = CopyOverview(FragmentId(1), CopyRole.BACKUP, 7, 0, 700, 0, 900, 1, 0, 0)


def orphaned() -> dict[str, HandFilled]:
    """Fragment 1 of orders: n1 was in sync and is down, n2 has a copy, n3 has none."""
    cluster = a_cluster()
    add_queue(cluster, "orders", {"n1": (0, 0, 0)})
    one = FragmentOverview(
        FragmentId(1), NodeId("n1"), (NodeId("n2"),), (NodeId("n1"),), Epoch(4), 3
    )
    for overview in cluster.values():
        overview.queues[ORDERS] = replace(overview.queues[ORDERS], fragments=(one,))
    cluster["n2"].copied[ORDERS] = [A_COPY]
    set_member(cluster, "n1", state=MemberState.DOWN)
    return cluster


@contextmanager
def asking(servers: Served, node: str = "n3") -> Iterator[Any]:
    with grpc.insecure_channel(servers.address(node)) as channel:
        yield admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]


def refusal(stub: Any, request: pb.AdoptCopyRequest) -> tuple[grpc.StatusCode, str]:
    """The status and sentence of a request that is refused."""
    with pytest.raises(grpc.RpcError) as caught:
        stub.AdoptCopy(request, timeout=5)
    error: Any = caught.value
    return error.code(), error.details()


class Proposals:
    """What was proposed, and what the map said."""

    def __init__(self, servers: Served, answers: list[Any] | None = None) -> None:
        self.proposed: list[Operation] = []
        self.servers = servers
        self._answers = answers
        servers.shared.ask = self._ask  # type: ignore[method-assign]

    def _ask(self, operation: Operation, answer: Any) -> None:
        self.proposed.append(operation)
        answer(self._answers.pop(0) if self._answers else Ok(1))


@contextmanager
def proposing(
    cluster: dict[str, HandFilled], answers: list[Any] | None = None
) -> Iterator[tuple[Served, Proposals]]:
    servers = Served(cluster)
    proposals = Proposals(servers, answers)
    with served(cluster, servers):
        yield servers, proposals


def a_choice(**changes: Any) -> pb.CopyChoice:
    return pb.CopyChoice(**{"fragment": 1, "epoch": 4, "node": "n2", **changes})


def a_request(*choices: pb.CopyChoice, **changes: Any) -> pb.AdoptCopyRequest:
    return pb.AdoptCopyRequest(**{"name": "orders", "choices": choices or [a_choice()], **changes})


@pytest.mark.parametrize("node", ["n2", "n3"])
def test_the_copy_that_is_named_is_proposed_whomever_one_asks(node: str) -> None:
    with proposing(orphaned()) as (servers, proposals), asking(servers, node) as stub:
        assert stub.AdoptCopy(a_request(), timeout=5).adopted == 1
    assert proposals.proposed == [AdoptCopy(FragmentId(1), Epoch(4), NodeId("n2"), Incarnation(1))]


HOSTILE = [
    (a_request(name=""), "INVALID_ARGUMENT", "name is empty"),
    (a_request(name="other"), "NOT_FOUND", "no shared queue 'other' in vhost '/'"),
    (a_request(vhost="x" * 5_000), "NOT_FOUND", "no shared queue 'orders'"),
    (pb.AdoptCopyRequest(name="orders"), "INVALID_ARGUMENT", "0 fragments are named; name 1 to"),
    (
        a_request(*[a_choice()] * (FRAGMENTS_PER_QUEUE_MAX + 1)), "INVALID_ARGUMENT",
        f"{FRAGMENTS_PER_QUEUE_MAX + 1} fragments are named",
    ),
    (a_request(a_choice(), a_choice()), "INVALID_ARGUMENT", "or named twice"),
    (a_request(a_choice(fragment=2**64 - 1)), "INVALID_ARGUMENT", "is none of 'orders'"),
    (a_request(a_choice(epoch=3)), "UNAVAILABLE", "has changed (epoch 4, not 3): look again"),
    (a_request(a_choice(node="n1")), "NOT_FOUND", "'n1' is no member that is up"),
    (a_request(a_choice(node="")), "NOT_FOUND", "'' is no member that is up; there are n1, n2"),
    (a_request(a_choice(node="n3")), "NOT_FOUND", "n3 has no copy of fragment 1"),
    (a_request(a_choice(empty=True)), "INVALID_ARGUMENT", "n2 has a copy of fragment 1: it would"),
]  # fmt: skip


def test_whatever_else_is_asked_is_refused_and_nothing_is_proposed() -> None:
    with proposing(orphaned()) as (servers, proposals), asking(servers) as stub:
        for request, code, part in HOSTILE:
            refused, text = refusal(stub, request)
            assert refused.name == code, text
            assert part in text
    assert proposals.proposed == []


def test_a_copy_in_sync_that_is_up_is_not_given_up() -> None:
    cluster = orphaned()
    set_member(cluster, "n1", state=MemberState.UP)
    with proposing(cluster) as (servers, proposals), asking(servers) as stub:
        code, text = refusal(stub, a_request())
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert text.startswith("fragment 1 needs no other copy: n1, with one in sync, is up")
    assert proposals.proposed == []


def test_a_silent_node_is_not_taken_at_an_operators_word() -> None:
    cluster = orphaned()
    with proposing(cluster) as (servers, proposals), asking(servers) as stub:
        servers.stop_node("n2")
        assert refusal(stub, a_request())[1] == "n2 does not answer: nobody knows what it has"
    assert proposals.proposed == []


def test_where_nobody_has_a_copy_it_may_begin_with_nothing() -> None:
    with proposing(orphaned()) as (servers, proposals), asking(servers) as stub:
        stub.AdoptCopy(a_request(a_choice(node="n3", empty=True)), timeout=5)
    assert [type(each) for each in proposals.proposed] == [AdoptCopy]


def test_a_queue_that_is_not_durable_is_refused() -> None:
    cluster = orphaned()
    for overview in cluster.values():
        overview.queues[ORDERS] = replace(overview.queues[ORDERS], durable=False)
    with proposing(cluster) as (servers, _), asking(servers) as stub:
        assert "is not durable: it begins again by itself" in refusal(stub, a_request())[1]


def test_what_the_map_refuses_in_the_middle_says_how_many_are_done() -> None:
    cluster = orphaned()
    for overview in cluster.values():
        (one,) = overview.queues[ORDERS].fragments
        two = replace(one, fragment=FragmentId(2))
        overview.queues[ORDERS] = replace(overview.queues[ORDERS], fragments=(one, two))
    cluster["n2"].copied[ORDERS] = [A_COPY, replace(A_COPY, fragment=FragmentId(2))]
    answers = [Ok(1), Refused(PRECONDITION_FAILED, "it is at epoch 5, not 4")]
    request = a_request(a_choice(), a_choice(fragment=2))
    with proposing(cluster, answers) as (servers, _), asking(servers) as stub:
        text = refusal(stub, request)[1]
    assert text == "1 of 2 fragments are served now; it is at epoch 5, not 4"
