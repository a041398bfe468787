"""Permissions of topics, and users with RabbitMQ's hashes, through gRPC and the command line."""

import base64
import hashlib
from collections.abc import Iterator

import grpc
import pytest

from fedq.shell.pb import admin_pb2 as pb
from fedq.shell.pb import admin_pb2_grpc
from fedq.wiring.cluster_map.operations_access import PutUser
from tests.unit.admin.served import Served, a_cluster, served
from tests.unit.cli.command import fedq

HASH = base64.b64encode(b"salt" + hashlib.sha256(b"saltgeheim").digest()).decode()


@pytest.fixture
def cluster() -> Iterator[Served]:
    with served(a_cluster()) as servers:
        for user in ("ann", "ben"):
            servers.shared.ask(PutUser(user, "", (), False), lambda _: None)
        yield servers


@pytest.fixture
def stub(cluster: Served) -> Iterator[admin_pb2_grpc.AdminStub]:
    with grpc.insecure_channel(cluster.address("n1")) as channel:
        yield admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]


def wanted(user: str = "ann", exchange: str = "t", **more: str) -> pb.SetTopicPermissionsRequest:
    said = {"vhost": "/", "write": "^a", "read": ".*", **more}
    permissions = pb.TopicPermissions(user=user, exchange=exchange, **said)
    return pb.SetTopicPermissionsRequest(permissions=permissions)


def test_they_are_set_listed_in_pages_and_cleared(stub: admin_pb2_grpc.AdminStub) -> None:
    for user, exchange in (("ben", "b"), ("ann", "c"), ("ann", "a")):
        stub.SetTopicPermissions(wanted(user, exchange))
    page = stub.ListTopicPermissions(pb.ListTopicPermissionsRequest(page_size=2))
    assert [(one.user, one.exchange) for one in page.permissions] == [("ann", "a"), ("ann", "c")]
    assert page.permissions[0] == wanted(exchange="a").permissions
    rest = pb.ListTopicPermissionsRequest(page_token=page.next_page_token)
    assert [one.user for one in stub.ListTopicPermissions(rest).permissions] == ["ben"]
    none = pb.ListTopicPermissionsRequest(vhost="shop")
    assert not stub.ListTopicPermissions(none).permissions
    clear = pb.ClearTopicPermissionsRequest
    stub.ClearTopicPermissions(clear(user="ann", vhost="/", exchange="a"))
    of_ann = pb.ListTopicPermissionsRequest(user="ann")
    assert [one.exchange for one in stub.ListTopicPermissions(of_ann).permissions] == ["c"]
    stub.ClearTopicPermissions(clear(user="ann", vhost="/"))
    assert not stub.ListTopicPermissions(of_ann).permissions


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (wanted(user=""), "user is empty"),
        (wanted(vhost=""), "vhost is empty"),
        (wanted(exchange="x" * 256), "exchange is longer than 255 bytes"),
        (wanted(write="("), "the write pattern is no regular expression"),
        (wanted(read="(a+"), "the read pattern is no regular expression"),
        (wanted(read="a" * 1_025), "the read pattern is longer than 1024 bytes"),
        (wanted(write="{username}" * 102 + "aaaa", user="u" * 255), "the write pattern"),
    ],
)
def test_what_is_wrong_is_said(
    cluster: Served, stub: admin_pb2_grpc.AdminStub, request_: pb.SetTopicPermissionsRequest,
    words: str,
) -> None:  # fmt: skip
    with pytest.raises(grpc.RpcError) as caught:
        stub.SetTopicPermissions(request_)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert words in (caught.value.details() or "")
    assert not cluster.shared.map.topic_permissions


def test_a_user_must_be_there(stub: admin_pb2_grpc.AdminStub) -> None:
    for call, request in (
        (stub.SetTopicPermissions, wanted("nobody")),
        (stub.ClearTopicPermissions, pb.ClearTopicPermissionsRequest(user="nobody", vhost="/")),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            call(request)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_the_command_line_sets_lists_and_clears(cluster: Served) -> None:
    at = ("--node", cluster.address("n1"))
    done = fedq("topic-permission", "set", "ann", "t", "^{username}", ".*", *at)
    assert done.out == "permissions of ann for topics of t in vhost / set\n"
    row = {"user": "ann", "vhost": "/", "exchange": "t", "write": "^{username}", "read": ".*"}
    assert fedq("topic-permission", "list", "--json", *at).value == {"topic_permissions": [row]}
    assert fedq("topic-permission", "list", *at).rows("USER") == [[*row.values()]]
    assert fedq("topic-permission", "set", "ann", "t", "(", ".*", *at).exit_code == 2
    assert fedq("topic-permission", "clear", "ben", "t", *at).exit_code == 0
    assert fedq("topic-permission", "clear", "nobody", *at).exit_code == 1
    assert fedq("topic-permission", "clear", "ann", *at).out == (
        "ann may use all topics of all exchanges in vhost /\n"
    )
    assert fedq("topic-permission", "list", "--json", *at).value == {"topic_permissions": []}


def test_a_user_comes_with_rabbitmqs_hash(cluster: Served, stub: admin_pb2_grpc.AdminStub) -> None:
    stub.PutUser(pb.PutUserRequest(name="eve", password_hash=HASH))
    for password, is_right in (("geheim", True), ("wrong", False)):
        asked = pb.AuthenticateUserRequest(name="eve", password=password)
        assert stub.AuthenticateUser(asked).authenticated is is_right
    for request, words in (
        (pb.PutUserRequest(name="x", password_hash=HASH, password="p"), "both password and"),
        (pb.PutUserRequest(name="x", password_hash="AAAA"), "nothing that RabbitMQ keeps"),
        (
            pb.PutUserRequest(name="x", password_hash=HASH, hashing_algorithm="sha256"),
            "nothing that RabbitMQ keeps",
        ),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            stub.PutUser(request)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert words in (caught.value.details() or "")
    at = ("--node", cluster.address("n1"))
    assert fedq("user", "add", "cli", "--password-hash", HASH, *at).exit_code == 0
    assert cluster.shared.map.users["cli"] == cluster.shared.map.users["eve"]
    both = fedq("user", "add", "x", "--password-hash", HASH, "--no-password", *at)
    assert both.exit_code == 2
