"""The admin service over real connections: what a person asking one member is told."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import grpc
import pytest

from fedq.core.ids import ConnectionId, Epoch, FragmentId, NodeId, QueueKey
from fedq.node.views.overview_types import FragmentOverview, MemberState
from fedq.shell.pb import admin_pb2 as pb
from fedq.shell.pb import admin_pb2_grpc
from tests.integration.waiting import patient
from tests.unit.admin.served import (
    HandFilled,
    Served,
    a_cluster,
    a_connection,
    add_queue,
    served,
    set_member,
    silent_address,
)


@contextmanager
def asking(servers: Served, node: str = "n1") -> Iterator[Any]:
    """The generated stub on a connection to that node."""
    with grpc.insecure_channel(servers.address(node)) as channel:
        yield admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]


def refusal(call: Any, request: Any) -> tuple[grpc.StatusCode, str]:
    """The status and sentence of a call that fails."""
    with pytest.raises(grpc.RpcError) as caught:
        call(request, timeout=5)
    error: Any = caught.value
    return error.code(), error.details()


def lose_lease(overview: HandFilled) -> None:
    overview.node_overview = replace(overview.node_overview, lease_held=False, leader=None)


# --- status and members -------------------------------------------------------------------------


def test_a_healthy_cluster_has_no_problems_whomever_one_asks() -> None:
    with served(a_cluster()) as servers:
        for node in ("n1", "n2", "n3"):
            with asking(servers, node) as stub:
                status = stub.ClusterStatus(pb.ClusterStatusRequest(), timeout=5)
            assert (status.node, status.leader, status.era, status.map_version) == (
                node, "n1", 3, 42,
            )  # fmt: skip
            assert list(status.problems) == []
            roles = {member.node: member.figures.raft_role for member in status.members}
            assert roles == {
                "n1": pb.RAFT_ROLE_LEADER,
                "n2": pb.RAFT_ROLE_FOLLOWER,
                "n3": pb.RAFT_ROLE_FOLLOWER,
            }


def test_a_member_that_is_down_is_named_and_not_asked() -> None:
    cluster = a_cluster()
    with served(cluster) as servers:
        set_member(cluster, "n3", state=MemberState.DOWN)
        with asking(servers) as stub:
            status = stub.ClusterStatus(pb.ClusterStatusRequest(), timeout=5)
    down = status.members[2]
    assert down.state == pb.MEMBER_STATE_DOWN
    assert not down.HasField("figures")
    assert list(status.problems) == ["n3 is down: start it again to have all copies back"]


def test_a_member_that_never_came_up_is_absent() -> None:
    cluster = a_cluster()
    with served(cluster) as servers:
        set_member(cluster, "n2", state=MemberState.ABSENT)
        with asking(servers) as stub:
            status = stub.ClusterStatus(pb.ClusterStatusRequest(), timeout=5)
    assert status.members[1].state == pb.MEMBER_STATE_ABSENT
    assert list(status.problems) == ["n2 has never come up: start it"]


def test_a_member_that_vanished_before_the_map_knows_has_unknown_figures() -> None:
    with served(a_cluster()) as servers:
        servers.stop_node("n2")
        with asking(servers) as stub:
            members = stub.Members(pb.MembersRequest(), timeout=5).members
            problems = stub.ClusterStatus(pb.ClusterStatusRequest(), timeout=5).problems
    assert [member.state for member in members] == [pb.MEMBER_STATE_UP] * 3
    assert [member.HasField("figures") for member in members] == [True, False, True]
    assert list(problems) == ["n2 does not answer: figures of it are unknown"]


def test_figures_of_another_node_at_the_members_address_are_not_shown() -> None:
    cluster = a_cluster()
    with served(cluster) as servers:
        set_member(cluster, "n2", peer_address=servers.address("n3"))
        with asking(servers) as stub:
            members = stub.Members(pb.MembersRequest(), timeout=5).members
    assert [member.HasField("figures") for member in members] == [True, False, True]


def test_a_member_that_moved_is_asked_at_its_new_address() -> None:
    cluster = a_cluster()
    with served(cluster) as servers, asking(servers) as stub:
        address = servers.address("n2")
        set_member(cluster, "n2", peer_address="127.0.0.1:1")
        before = stub.Members(pb.MembersRequest(), timeout=5).members
        set_member(cluster, "n2", peer_address=address)
        after = stub.Members(pb.MembersRequest(), timeout=5).members
    assert not before[1].HasField("figures")
    assert after[1].figures.node == "n2"


def test_a_fenced_node_says_that_what_it_shows_may_be_old() -> None:
    cluster = a_cluster()
    lose_lease(cluster["n1"])
    with served(cluster) as servers, asking(servers) as stub:
        status = stub.ClusterStatus(pb.ClusterStatusRequest(), timeout=5)
    assert status.leader == ""
    assert status.members[0].figures.raft_role == pb.RAFT_ROLE_LOOKING
    assert "may be old; ask another node" in status.problems[0]
    assert "no leader is known" in status.problems[1]


def test_fragments_without_enough_copies_are_a_problem() -> None:
    cluster = a_cluster(["n1"])
    cluster["n1"].cluster_overview = replace(
        cluster["n1"].cluster_overview, fragments=9, fragments_unavailable=2, fragments_short=3
    )
    with served(cluster) as servers, asking(servers) as stub:
        problems = stub.ClusterStatus(pb.ClusterStatusRequest(), timeout=5).problems
    assert problems[0].startswith("2 of 9 queue fragments are not served")
    assert problems[1].startswith("3 of 9 queue fragments have fewer copies in sync")


# --- queues -------------------------------------------------------------------------------------


def test_a_queue_is_counted_over_all_its_fragments() -> None:
    cluster = a_cluster()
    parts = {"n1": (10, 1, 2), "n2": (20, 2, 0), "n3": (30, 3, 5)}
    add_queue(cluster, "orders", parts, '{"x-fedq-fragments":3}')
    for node in cluster:
        with served(cluster) as servers, asking(servers, node) as stub:
            queue = stub.ShowQueue(pb.ShowQueueRequest(name="orders"), timeout=5).queue
        assert (queue.vhost, queue.name, queue.durable, queue.replicas) == ("/", "orders", True, 2)
        assert (queue.ready, queue.unacknowledged, queue.consumers) == (60, 6, 7)
        assert queue.arguments_json == '{"x-fedq-fragments":3}'
        assert [fragment.primary for fragment in queue.fragments] == ["n1", "n2", "n3"]
        assert [fragment.ready for fragment in queue.fragments] == [10, 20, 30]
        states = {fragment.state for fragment in queue.fragments}
        assert states == {pb.FRAGMENT_STATE_SERVING}
        assert list(queue.silent_members) == []


def test_no_sum_is_given_when_a_member_does_not_answer_within_its_second() -> None:
    cluster = a_cluster()
    add_queue(cluster, "orders", {"n1": (10, 1, 2), "n2": (20, 2, 1)})
    add_queue(cluster, "elsewhere", {"n1": (7, 0, 0)})
    with served(cluster) as servers, silent_address() as silent, asking(servers) as stub:
        set_member(cluster, "n2", peer_address=silent)
        began = time.monotonic()
        queues = stub.ListQueues(pb.ListQueuesRequest(), timeout=5).queues
        took = time.monotonic() - began
    elsewhere, orders = queues
    assert 0.9 < took < patient(3)
    assert not orders.HasField("ready")
    assert not orders.HasField("unacknowledged")
    assert not orders.HasField("consumers")
    assert [fragment.HasField("ready") for fragment in orders.fragments] == [True, False]
    assert orders.fragments[1].state == pb.FRAGMENT_STATE_UNKNOWN
    assert list(orders.silent_members) == ["n2"]
    # All its messages are on a node that answered; only who consumes is unknown.
    assert elsewhere.ready == 7
    assert not elsewhere.HasField("consumers")
    assert list(elsewhere.silent_members) == ["n2"]


def test_a_callers_short_deadline_shortens_the_wait_for_members() -> None:
    cluster = a_cluster()
    add_queue(cluster, "orders", {"n1": (10, 1, 2)})
    with served(cluster) as servers, silent_address() as silent, asking(servers) as stub:
        stub.LocalNode(pb.LocalNodeRequest(), timeout=5, wait_for_ready=True)
        set_member(cluster, "n2", peer_address=silent)
        queue = stub.ShowQueue(pb.ShowQueueRequest(name="orders"), timeout=0.6).queue
    assert queue.ready == 10
    assert list(queue.silent_members) == ["n2"]


def test_a_fragment_whose_primary_is_down_is_unavailable_and_uncounted() -> None:
    cluster = a_cluster()
    add_queue(cluster, "orders", {"n1": (10, 1, 2), "n2": (20, 2, 1)})
    with served(cluster) as servers:
        set_member(cluster, "n2", state=MemberState.DOWN)
        with asking(servers) as stub:
            queue = stub.ShowQueue(pb.ShowQueueRequest(name="orders"), timeout=5).queue
    assert queue.fragments[1].state == pb.FRAGMENT_STATE_UNAVAILABLE
    assert not queue.HasField("ready")
    # A node that is down has no consumers, so they are known.
    assert queue.consumers == 2
    assert list(queue.silent_members) == ["n2"]


def test_a_fragment_with_a_joining_backup_is_catching_up() -> None:
    cluster = a_cluster()
    key = add_queue(cluster, "orders", {"n1": (10, 0, 0)})
    joining = FragmentOverview(
        FragmentId(1), NodeId("n1"), (NodeId("n2"),), (NodeId("n1"),), Epoch(3), 1
    )
    for overview in cluster.values():
        overview.queues[key] = replace(overview.queues[key], fragments=(joining,))
    with served(cluster) as servers, asking(servers) as stub:
        while_up = stub.ShowQueue(pb.ShowQueueRequest(name="orders"), timeout=5).queue
        set_member(cluster, "n2", state=MemberState.DOWN)
        while_down = stub.ShowQueue(pb.ShowQueueRequest(name="orders"), timeout=5).queue
    assert while_up.fragments[0].state == pb.FRAGMENT_STATE_CATCHING_UP
    # Nothing is being copied to a node that is down.
    assert while_down.fragments[0].state == pb.FRAGMENT_STATE_SERVING
    assert while_up.ready == while_down.ready == 10


def test_a_primary_that_lags_behind_the_map_is_unknown_not_counted() -> None:
    cluster = a_cluster()
    key = add_queue(cluster, "orders", {"n2": (10, 0, 0)})
    fragments = cluster["n1"].queues[key].fragments
    cluster["n1"].queues[key] = replace(
        cluster["n1"].queues[key], fragments=(replace(fragments[0], reign=5),)
    )
    with served(cluster) as servers, asking(servers) as stub:
        queue = stub.ShowQueue(pb.ShowQueueRequest(name="orders"), timeout=5).queue
    assert queue.fragments[0].state == pb.FRAGMENT_STATE_UNKNOWN
    assert not queue.HasField("ready")


def test_a_primary_without_its_lease_does_not_serve() -> None:
    cluster = a_cluster()
    key = add_queue(cluster, "orders", {"n2": (10, 0, 0)})
    (local,) = cluster["n2"].fragments[key]
    cluster["n2"].fragments[key] = [replace(local, serving=False)]
    with served(cluster) as servers, asking(servers) as stub:
        queue = stub.ShowQueue(pb.ShowQueueRequest(name="orders"), timeout=5).queue
    assert queue.fragments[0].state == pb.FRAGMENT_STATE_UNAVAILABLE
    assert queue.ready == 10


def test_pages_join_to_the_whole_list() -> None:
    cluster = a_cluster(["n1"])
    wanted = sorted(f"queue-{number}" for number in range(25))
    for name in wanted:
        add_queue(cluster, name, {"n1": (1, 0, 0)})
    found, token, pages = [], "", 0
    with served(cluster) as servers, asking(servers) as stub:
        while pages == 0 or token:
            request = pb.ListQueuesRequest(page_size=10, page_token=token)
            reply = stub.ListQueues(request, timeout=5)
            found += [queue.name for queue in reply.queues]
            token, pages = reply.next_page_token, pages + 1
        matching = stub.ListQueues(pb.ListQueuesRequest(name_pattern="queue-1?"), timeout=5)
        nothing = stub.ListQueues(pb.ListQueuesRequest(vhost="other"), timeout=5)
    assert found == wanted
    assert pages == 3
    assert [queue.name for queue in matching.queues] == [f"queue-1{digit}" for digit in range(10)]
    assert list(nothing.queues) == []


def test_bad_arguments_are_refused_with_a_sentence() -> None:
    with served(a_cluster(["n1"])) as servers, asking(servers) as stub:
        code, text = refusal(stub.ListQueues, pb.ListQueuesRequest(page_size=501))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert "at most 500" in text
        code, text = refusal(stub.ListQueues, pb.ListQueuesRequest(page_token="%%%"))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert "leave it empty for the first page" in text
        code, text = refusal(stub.ListQueues, pb.ListQueuesRequest(name_pattern="x" * 256))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        code, text = refusal(stub.ShowQueue, pb.ShowQueueRequest())
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert text == "name is empty; give the name of a shared queue"
        code, text = refusal(stub.ListConnections, pb.ListConnectionsRequest(limit=1_001))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        many = pb.LocalFragmentsRequest(queues=[pb.QueueName(name="q")] * 501)
        code, text = refusal(stub.LocalFragments, many)
        assert code is grpc.StatusCode.INVALID_ARGUMENT


def test_a_missing_queue_is_not_found_but_a_fenced_node_cannot_say_so() -> None:
    cluster = a_cluster(["n1"])
    with served(cluster) as servers, asking(servers) as stub:
        code, text = refusal(stub.ShowQueue, pb.ShowQueueRequest(vhost="shop", name="orders"))
        assert code is grpc.StatusCode.NOT_FOUND
        assert text.startswith("no shared queue 'orders' in vhost 'shop'")
        lose_lease(cluster["n1"])
        code, text = refusal(stub.ShowQueue, pb.ShowQueueRequest(name="orders"))
        assert code is grpc.StatusCode.UNAVAILABLE
        assert "ask another node" in text


def test_a_queue_deleted_while_members_were_asked_is_left_out() -> None:
    cluster = a_cluster()
    key = add_queue(cluster, "orders", {"n1": (1, 0, 0)})
    with served(cluster) as servers, silent_address() as silent, asking(servers) as stub:
        set_member(cluster, "n2", peer_address=silent)
        waiting = stub.ShowQueue.future(pb.ShowQueueRequest(name="orders"), timeout=5)
        # Calls of one connection reach the node in order: it has read the map by now.
        stub.LocalNode(pb.LocalNodeRequest(), timeout=5)
        del cluster["n1"].queues[key]
        with pytest.raises(grpc.RpcError) as caught:
            waiting.result()
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.NOT_FOUND


# --- connections --------------------------------------------------------------------------------


def test_connections_of_all_members_or_of_one() -> None:
    cluster = a_cluster()
    for number, name in enumerate(cluster):
        cluster[name].clients = [a_connection(n) for n in range(number)]
        cluster[name].node_overview = replace(cluster[name].node_overview, connections=number)
    with served(cluster) as servers, asking(servers) as stub:
        everyone = stub.ListConnections(pb.ListConnectionsRequest(), timeout=5)
        third = stub.ListConnections(pb.ListConnectionsRequest(node="n3", limit=1), timeout=5)
        code, text = refusal(stub.ListConnections, pb.ListConnectionsRequest(node="n9"))
        set_member(cluster, "n3", state=MemberState.DOWN)
        down, _ = refusal(stub.ListConnections, pb.ListConnectionsRequest(node="n3"))
    assert [connection.node for connection in everyone.connections] == ["n2", "n3", "n3"]
    assert everyone.total == 3
    assert [connection.node for connection in third.connections] == ["n3"]
    assert third.total == 2
    assert (code, text) == (grpc.StatusCode.NOT_FOUND, "no member 'n9'; there are n1, n2 and n3")
    assert down is grpc.StatusCode.UNAVAILABLE


def test_a_silent_member_is_named_with_the_connections_of_the_others() -> None:
    cluster = a_cluster()
    cluster["n1"].clients = [a_connection(1)]
    cluster["n1"].node_overview = replace(cluster["n1"].node_overview, connections=1)
    with served(cluster) as servers:
        servers.stop_node("n2")
        with asking(servers) as stub:
            reply = stub.ListConnections(pb.ListConnectionsRequest(), timeout=5)
    assert [connection.connection for connection in reply.connections] == [ConnectionId(1)]
    assert list(reply.silent_members) == ["n2"]


def test_a_clients_name_that_is_no_text_is_shown_escaped() -> None:
    cluster = a_cluster(["n1"])
    cluster["n1"].clients = [a_connection(1, client=b"caf\xe9".decode("utf-8", "surrogateescape"))]
    with served(cluster) as servers, asking(servers) as stub:
        reply = stub.ListConnections(pb.ListConnectionsRequest(), timeout=5)
    assert reply.connections[0].client_name == "caf\\udce9"


def test_the_key_of_a_queue_is_its_virtual_host_and_name() -> None:
    cluster = a_cluster(["n1"])
    key = add_queue(cluster, "orders", {"n1": (1, 0, 0)})
    other = QueueKey("shop", "orders")
    cluster["n1"].queues[other] = replace(cluster["n1"].queues[key], key=other, fragments=())
    with served(cluster) as servers, asking(servers) as stub:
        queue = stub.ShowQueue(pb.ShowQueueRequest(vhost="shop", name="orders"), timeout=5).queue
        both = stub.ListQueues(pb.ListQueuesRequest(), timeout=5).queues
    assert (queue.vhost, queue.ready) == ("shop", 0)
    assert [(one.vhost, one.name) for one in both] == [("/", "orders"), ("shop", "orders")]
