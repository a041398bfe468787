"""Lists of connections, channels and consumers over all members, and connections that are ended."""

import socket
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
import pytest

from fedq.admin.members import OtherMembers
from fedq.core.ids import NodeId, QueueKey
from fedq.node.views.overview_types import MemberState
from fedq.shell.pb import admin_pb2 as pb
from fedq.shell.pb import admin_pb2_grpc
from tests.unit.admin.served import (
    HandFilled,
    LoopThread,
    Served,
    a_channel,
    a_cluster,
    a_connection,
    a_consumer,
    a_member,
    a_subscriber,
    add_queue,
    served,
    set_member,
    silent_address,
)
from tests.unit.admin.test_service import asking, refusal

Stub = admin_pb2_grpc.AdminStub


def clients() -> dict[str, HandFilled]:
    """Three members; n1 has three clients, n2 none, n3 one with a consumer of odd name."""
    cluster = a_cluster()
    cluster["n1"].clients = [a_connection(number) for number in (1, 2, 5)]
    cluster["n1"].channels = [a_channel(1, 1), a_channel(1, 2), a_channel(5, 1, "shop")]
    cluster["n1"].consuming = [a_consumer(1, tag) for tag in ("a", "b", "c")]
    cluster["n3"].clients = [replace(a_connection(9), vhost="shop")]
    odd = b"caf\xe9".decode("utf-8", "surrogateescape")
    cluster["n3"].consuming = [a_consumer(9, odd, vhost="shop"), a_consumer(9, "x.y")]
    return cluster


def pages(call: Any, size: int = 2, vhost: str | None = None) -> list[Any]:
    """All pages of a list."""
    found: list[Any] = []
    token = ""
    while True:
        request = pb.BrowseRequest(vhost=vhost, page_size=size, page_token=token)
        found.append(call(request, timeout=5))
        token = found[-1].next_page_token
        if not token:
            return found


@pytest.mark.parametrize("asked", ["n1", "n2", "n3"])
@pytest.mark.parametrize("size", [1, 2, 500])
def test_all_members_are_listed_by_any_of_them(asked: str, size: int) -> None:
    with served(clients()) as servers, asking(servers, asked) as stub:
        named = [one for page in pages(stub.BrowseConnections, size) for one in page.connections]
        channels = [one for page in pages(stub.BrowseChannels, size) for one in page.channels]
        consumers = [one for page in pages(stub.BrowseConsumers, size) for one in page.consumers]
        shop = [one for page in pages(stub.BrowseConsumers, size, "shop") for one in page.consumers]
    assert [one.name for one in named] == ["n1.1.1", "n1.1.2", "n1.1.5", "n3.1.9"]
    assert [(one.connection, one.number) for one in channels] == [
        ("n1.1.1", 1), ("n1.1.1", 2), ("n1.1.5", 1),
    ]  # fmt: skip
    assert [(one.node, one.tag) for one in consumers] == [
        ("n1", "a"), ("n1", "b"), ("n1", "c"), ("n3", "caf\\udce9"), ("n3", "x.y"),
    ]  # fmt: skip
    assert [one.tag for one in shop] == ["caf\\udce9"]


def test_what_comes_and_goes_between_two_pages_hides_nobody() -> None:
    cluster = clients()
    with served(cluster) as servers, asking(servers) as stub:
        first = stub.BrowseConsumers(pb.BrowseRequest(page_size=2), timeout=5)
        del cluster["n1"].consuming[1]
        cluster["n1"].consuming.append(a_consumer(1, "bb"))
        request = pb.BrowseRequest(page_size=2, page_token=first.next_page_token)
        second = stub.BrowseConsumers(request, timeout=5)
    assert [one.tag for one in first.consumers] == ["a", "b"]
    assert [one.tag for one in second.consumers] == ["bb", "c"]


@pytest.mark.parametrize("size", [1, 500])
def test_subscribers_of_all_members_are_listed_or_the_slow_ones_alone(size: int) -> None:
    cluster = clients()
    cluster["n1"].subscribing = [a_subscriber(1, "a"), a_subscriber(1, "b", ready=3)]
    cluster["n3"].subscribing = [a_subscriber(9, "c", "shop", dropped=7), a_subscriber(9, "d")]
    with served(cluster) as servers, asking(servers, "n2") as stub:
        everybody = [
            one for page in pages(stub.BrowseSubscribers, size) for one in page.subscribers
        ]
        request = pb.BrowseRequest(slow=True, page_size=size)
        slow: list[pb.Subscriber] = []
        while True:
            page = stub.BrowseSubscribers(request, timeout=5)
            slow += page.subscribers
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
    assert [(one.node, one.queue.name) for one in everybody] == [
        ("n1", "a"), ("n1", "b"), ("n3", "c"), ("n3", "d"),
    ]  # fmt: skip
    assert [(one.queue.name, one.messages_ready, one.messages_dropped) for one in slow] == [
        ("b", 3, 0), ("c", 0, 7),
    ]  # fmt: skip
    assert (slow[0].connection, slow[0].stuck, slow[0].bytes_held) == ("n1.1.1", True, 300)


def test_a_silent_member_is_named_and_passed_over() -> None:
    cluster = clients()
    with served(cluster) as servers:
        servers.stop_node("n1")
        with asking(servers, "n2") as stub:
            found = pages(stub.BrowseConnections)
    assert [list(page.silent_members) for page in found] == [["n1"], [], []]
    assert [one.name for page in found for one in page.connections] == ["n3.1.9"]


def test_a_member_that_is_down_is_not_asked() -> None:
    cluster = clients()
    with served(cluster) as servers, asking(servers) as stub:
        set_member(cluster, "n3", state=MemberState.DOWN)
        found = pages(stub.BrowseConnections)
    assert [one.name for page in found for one in page.connections] == [
        "n1.1.1", "n1.1.2", "n1.1.5",
    ]  # fmt: skip
    assert not any(page.silent_members for page in found)


def test_the_primary_says_which_single_consumer_is_active() -> None:
    cluster = clients()
    key = add_queue(cluster, "single", {"n2": (0, 0, 1)})
    for name, number in (("n1", 1), ("n3", 9)):
        cluster[name].consuming = [a_consumer(number, "s", "single", active=None)]
    [local] = cluster["n2"].fragments[key]
    cluster["n2"].fragments[key] = [replace(local, active=NodeId("n3"))]
    with served(cluster) as servers, asking(servers) as stub:
        found = [one for page in pages(stub.BrowseConsumers) for one in page.consumers]
        assert [(one.node, one.active) for one in found] == [("n1", False), ("n3", True)]
        with silent_address() as silent:
            set_member(cluster, "n2", peer_address=silent)
            page = stub.BrowseConsumers(pb.BrowseRequest(), timeout=5)
    assert not page.consumers[0].HasField("active"), "nobody has said it"
    assert list(page.silent_members) == ["n2"]


def test_a_token_that_no_node_made_is_refused() -> None:
    with served(clients()) as servers, asking(servers) as stub:
        for token in ("x", "WyJhIiwiYiJd", "WyJuMSIsIjEuMi5neiJd"):
            code, text = refusal(stub.BrowseChannels, pb.BrowseRequest(page_token=token))
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert "leave it empty" in text
        code, text = refusal(stub.BrowseChannels, pb.BrowseRequest(page_size=501))
        assert code is grpc.StatusCode.INVALID_ARGUMENT


def test_a_member_answers_for_itself_alone_where_that_is_wanted() -> None:
    with served(clients()) as servers, asking(servers, "n3") as stub:
        first = stub.BrowseConnections(pb.BrowseRequest(page_size=1), timeout=5)
        request = pb.BrowseRequest(page_token=first.next_page_token, local=True)
        code, text = refusal(stub.BrowseConnections, request)
    assert (code, text) == (grpc.StatusCode.UNAVAILABLE, "this is n3, not n1")


# --- ends -----------------------------------------------------------------------------------------


def close(servers: Served, asked: str, **whom: str) -> pb.CloseConnectionsReply:
    with asking(servers, asked) as stub:
        reply: pb.CloseConnectionsReply = stub.CloseConnections(
            pb.CloseConnectionsRequest(**whom),  # type: ignore[arg-type]
            timeout=5,
        )
        return reply


def test_a_connection_is_closed_by_its_name_from_any_member() -> None:
    cluster = clients()
    with served(cluster) as servers:
        for asked in cluster:
            assert close(servers, asked, name="n1.1.2", reason="maintenance").closed == 1
    assert cluster["n1"].closed == [(2, None, None, "maintenance")] * 3
    assert cluster["n2"].closed == cluster["n3"].closed == []


@pytest.mark.parametrize("name", ["n1.1.3", "n1.2.2", "n9.1.2"])
def test_another_process_or_number_is_another_connection(name: str) -> None:
    cluster = clients()
    with served(cluster) as servers, asking(servers) as stub:
        code, text = refusal(stub.CloseConnections, pb.CloseConnectionsRequest(name=name))
    assert code is grpc.StatusCode.NOT_FOUND
    assert text.startswith(f"no connection '{name}'")


def test_those_of_a_user_or_virtual_host_are_closed_on_all_members() -> None:
    cluster = clients()
    with served(cluster) as servers:
        assert close(servers, "n2", user="guest").closed == 4
        assert close(servers, "n2", vhost="shop").closed == 1
        servers.stop_node("n3")
        reply = close(servers, "n2", user="guest")
    assert (reply.closed, list(reply.silent_members)) == (3, ["n3"])
    told = (None, "guest", None, "closed by an operator")
    assert cluster["n1"].closed == [told, (None, None, "shop", told[3]), told]


def test_whose_connections_has_to_be_said() -> None:
    cluster = clients()
    with served(cluster) as servers, asking(servers) as stub:
        for request in (
            pb.CloseConnectionsRequest(),
            pb.CloseConnectionsRequest(user=""),
            pb.CloseConnectionsRequest(name="n1"),
            pb.CloseConnectionsRequest(name="n1.1.x"),
            pb.CloseConnectionsRequest(user="guest", reason="x" * 201),
        ):
            code, _ = refusal(stub.CloseConnections, request)
            assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert not any(overview.closed for overview in cluster.values())


def test_queues_in_requests_are_those_of_the_consumers() -> None:
    cluster = clients()
    with served(cluster) as servers, asking(servers) as stub:
        found = [one for page in pages(stub.BrowseConsumers) for one in page.consumers]
    keys = {QueueKey(one.queue.vhost, one.queue.name) for one in found}
    assert keys == {QueueKey("/", "jobs"), QueueKey("shop", "jobs")}


def test_after_a_channel_broke_the_next_question_opens_another() -> None:
    """With certificates that may be others by now."""
    opened: list[NodeId] = []

    def connect(node: NodeId, address: str) -> grpc.aio.Channel:
        opened.append(node)
        return grpc.aio.insecure_channel(address)

    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as gone:
            place = f"127.0.0.1:{gone.getsockname()[1]}"
        member = replace(a_member("n2"), peer_address=place)
        others = OtherMembers(connect, lambda: [member])
        for _ in range(2):
            assert not await others.ask(
                [member],
                lambda stub, timeout: stub.LocalNode(pb.LocalNodeRequest(), timeout=timeout),
                10.0,
            )
        await others.close()

    with LoopThread.running():
        LoopThread.run(scenario())
    assert opened == ["n2", "n2"]
