"""Virtual hosts, users and permissions through the admin service."""

from collections.abc import Callable, Iterator
from typing import cast

import grpc
import pytest

from fedq.admin import access_answers
from fedq.admin.calls import REFUSAL_METADATA
from fedq.core.limits import ADMIN_FAILED_LOGINS_BURST
from fedq.shell.pb import admin_pb2 as pb
from fedq.shell.pb import admin_pb2_grpc
from fedq.wiring.cluster_map.passwords import verify
from fedq.wiring.cluster_map.state import Grant, GrantKey, User
from tests.unit.admin.served import Served, a_cluster, served


@pytest.fixture
def servers() -> Iterator[Served]:
    with served(a_cluster(["n1"])) as one:
        yield one


@pytest.fixture
def stub(servers: Served) -> Iterator[admin_pb2_grpc.AdminStub]:
    with grpc.insecure_channel(servers.address("n1")) as channel:
        yield admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]


def refusal(call: Callable[..., object], request: object) -> tuple[grpc.StatusCode, str]:
    """Status and sentence of a call that is refused."""
    with pytest.raises(grpc.RpcError) as error:
        call(request, timeout=5)
    # The types do not say that a failed call's error is that call, too.
    rpc = cast(grpc.Call, error.value)
    assert REFUSAL_METADATA[0] in [(key, value) for key, value in rpc.trailing_metadata() or ()]
    return rpc.code(), rpc.details() or ""


def test_passwords_are_not_guessed_here_either(
    servers: Served, stub: admin_pb2_grpc.AdminStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_answers, "_now_ms", lambda: 1_000_000)
    stub.PutUser(pb.PutUserRequest(name="ann", password="geheim"))
    right = pb.AuthenticateUserRequest(name="ann", password="geheim")
    wrong = pb.AuthenticateUserRequest(name="nobody", password="wrong")
    for _ in range(2 * ADMIN_FAILED_LOGINS_BURST):
        assert stub.AuthenticateUser(right).authenticated
    for _ in range(ADMIN_FAILED_LOGINS_BURST):
        assert not stub.AuthenticateUser(wrong).authenticated
    code, text = refusal(stub.AuthenticateUser, wrong)
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "too many wrong passwords" in text


def test_users_come_change_and_go(servers: Served, stub: admin_pb2_grpc.AdminStub) -> None:
    known = servers.shared.map.users
    stub.PutUser(pb.PutUserRequest(name="ann", password="geheim", tags=["a", "a"]))
    assert verify(known["ann"].password, "geheim")
    assert known["ann"].tags == ("a",)
    again = pb.PutUserRequest(name="ann", password="geheim")
    exists = (grpc.StatusCode.ALREADY_EXISTS, "user 'ann' already exists")
    assert refusal(stub.PutUser, again) == exists
    again.replace = True
    before = known["ann"].password
    stub.PutUser(again)
    assert known["ann"].password != before, "the salt was used twice"
    stub.SetUserTags(pb.SetUserTagsRequest(name="ann", tags=["b"]))
    stub.ChangePassword(pb.ChangePasswordRequest(name="ann", password="other"))
    assert verify(known["ann"].password, "other")
    (user,) = stub.ListUsers(pb.ListUsersRequest()).users
    assert user == pb.User(name="ann", tags=["b"], has_password=True)
    stub.ChangePassword(pb.ChangePasswordRequest(name="ann"))
    assert known["ann"] == User("", ("b",))
    stub.DeleteUser(pb.DeleteUserRequest(name="ann"))
    assert known == {}


def test_only_the_right_password_authenticates(stub: admin_pb2_grpc.AdminStub) -> None:
    stub.PutUser(pb.PutUserRequest(name="ann", password="geheim"))
    stub.PutUser(pb.PutUserRequest(name="tls"))
    for name, password, right in (
        ("ann", "geheim", True), ("ann", "Geheim", False), ("ann", "", False),
        ("tls", "", False), ("no", "geheim", False),
    ):  # fmt: skip
        request = pb.AuthenticateUserRequest(name=name, password=password)
        assert stub.AuthenticateUser(request).authenticated == right


def test_virtual_hosts_and_permissions(servers: Served, stub: admin_pb2_grpc.AdminStub) -> None:
    assert stub.AddVhost(pb.AddVhostRequest(name="shop")).created
    assert not stub.AddVhost(pb.AddVhostRequest(name="shop")).created
    stub.PutUser(pb.PutUserRequest(name="ann", password="x"))
    for vhost in ("/", "shop"):
        wanted = pb.Permissions(user="ann", vhost=vhost, configure="^a", write=".*", read="")
        stub.SetPermissions(pb.SetPermissionsRequest(permissions=wanted))
    assert servers.shared.map.grants[GrantKey("ann", "shop")] == Grant("^a", ".*", "")
    some = stub.ListPermissions(pb.ListPermissionsRequest(vhost="shop")).permissions
    assert [(one.user, one.vhost, one.configure) for one in some] == [("ann", "shop", "^a")]
    none = stub.ListPermissions(pb.ListPermissionsRequest(user="ben")).permissions
    assert list(none) == []
    listed = stub.ListVhosts(pb.ListVhostsRequest()).vhosts
    assert [(one.name, one.exchanges, one.users) for one in listed] == [("/", 6, 1), ("shop", 6, 1)]
    stub.ClearPermissions(pb.ClearPermissionsRequest(user="ann", vhost="shop"))
    stub.DeleteVhost(pb.DeleteVhostRequest(name="shop"))
    assert list(servers.shared.map.vhosts) == ["/"]


def test_lists_come_in_pages(stub: admin_pb2_grpc.AdminStub) -> None:
    for number in range(7):
        stub.AddVhost(pb.AddVhostRequest(name=f"v{number}"))
    stub.PutUser(pb.PutUserRequest(name="ann", password="x"))
    for number in range(7):
        wanted = pb.Permissions(user="ann", vhost=f"v{number}")
        stub.SetPermissions(pb.SetPermissionsRequest(permissions=wanted))
    names, vhosts, token, more = [], [], "", ""
    while True:
        page = stub.ListVhosts(pb.ListVhostsRequest(page_size=3, page_token=token))
        names += [one.name for one in page.vhosts]
        grants = stub.ListPermissions(pb.ListPermissionsRequest(page_size=3, page_token=more))
        vhosts += [one.vhost for one in grants.permissions]
        token, more = page.next_page_token, grants.next_page_token
        if not token:
            break
    assert names == ["/", *(f"v{number}" for number in range(7))]
    assert vhosts == names[1:]
    code, _ = refusal(stub.ListUsers, pb.ListUsersRequest(page_size=501))
    assert code is grpc.StatusCode.INVALID_ARGUMENT


def test_wrong_questions_have_their_statuses(stub: admin_pb2_grpc.AdminStub) -> None:
    invalid, missing = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND
    stub.PutUser(pb.PutUserRequest(name="ann", password="x"))
    broken = pb.Permissions(user="ann", vhost="/", configure="(", write="", read="")
    nobody = pb.Permissions(user="no", vhost="/")
    for call, request, code, text in (
        (stub.PutUser, pb.PutUserRequest(password="x"), invalid, "name is empty"),
        (stub.PutUser, pb.PutUserRequest(name="x" * 256), invalid, "longer than 255 bytes"),
        (stub.PutUser, pb.PutUserRequest(name="b", password="x" * 1025), invalid, "1024 bytes"),
        (stub.PutUser, pb.PutUserRequest(name="b", tags=map(str, range(17))), invalid, "16 tags"),
        (stub.AddVhost, pb.AddVhostRequest(), invalid, "name is empty"),
        (stub.DeleteVhost, pb.DeleteVhostRequest(name="no"), missing, "'no' does not exist"),
        (stub.DeleteUser, pb.DeleteUserRequest(name="no"), missing, "user 'no' does not exist"),
        (stub.SetUserTags, pb.SetUserTagsRequest(name="no"), missing, "user 'no'"),
        (stub.ChangePassword, pb.ChangePasswordRequest(name="no"), missing, "user 'no'"),
        (stub.SetPermissions, pb.SetPermissionsRequest(permissions=broken), invalid, "configure"),
        (stub.SetPermissions, pb.SetPermissionsRequest(permissions=nobody), missing, "user 'no'"),
        (
            stub.ClearPermissions,
            pb.ClearPermissionsRequest(user="ann", vhost="no"),
            missing,
            "virtual host 'no' does not exist",
        ),
    ):
        found, sentence = refusal(call, request)
        assert found is code, sentence
        assert text in sentence


def test_a_cluster_that_does_not_answer_is_unavailable(
    servers: Served, stub: admin_pb2_grpc.AdminStub
) -> None:
    servers.shared.answers = False
    with pytest.raises(grpc.RpcError) as error:
        stub.AddVhost(pb.AddVhostRequest(name="shop"), timeout=0.5)
    rpc = cast(grpc.Call, error.value)
    assert rpc.code() is grpc.StatusCode.UNAVAILABLE
    assert "may still take effect" in (rpc.details() or "")
