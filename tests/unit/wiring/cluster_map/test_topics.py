"""Permissions of topics in the cluster map: they come, change, go, and are bounded."""

import pytest

from fedq.core import limits
from fedq.core.errors import NOT_FOUND, PRECONDITION_FAILED, RESOURCE_ERROR
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations_access import AddVhost, DeleteUser, DeleteVhost, PutUser
from fedq.wiring.cluster_map.operations_topics import (
    ClearTopicPermissions,
    SetTopicPermissions,
    TopicGrant,
    TopicKey,
)
from fedq.wiring.cluster_map.topic_permissions import pattern_of
from tests.unit.wiring.maps import Wired


@pytest.fixture
def wired() -> Wired:
    wired = Wired("a")
    wired.ok(PutUser("ann", "", (), False))
    wired.ok(PutUser("ben", "", (), False))
    wired.ok(AddVhost("shop"))
    for user, vhost, exchange in (
        ("ann", "/", "t"), ("ann", "/", "u"), ("ann", "shop", "t"), ("ben", "/", "t"),
    ):  # fmt: skip
        assert wired.ok(SetTopicPermissions(user, vhost, exchange, "^a", "")) == 1
    return wired


def left(wired: Wired) -> list[TopicKey]:
    return list(wired.map.topic_permissions)


def test_they_are_set_replaced_and_confirmed(wired: Wired) -> None:
    assert wired.ok(SetTopicPermissions("ann", "/", "t", "^a", "")) == 0
    assert wired.last.changes == []
    before = wired.map.access_version
    assert wired.ok(SetTopicPermissions("ann", "/", "t", "b", "c")) == 1
    assert wired.map.topic_permissions[TopicKey("ann", "/", "t")] == TopicGrant("b", "c")
    assert wired.map.access_version > before
    for user, vhost in (("no", "/"), ("ann", "no")):
        assert wired.refused(SetTopicPermissions(user, vhost, "t", "", ""))[0] == NOT_FOUND
        assert wired.refused(ClearTopicPermissions(user, vhost, "t", False))[0] == NOT_FOUND
    assert wired.refused(SetTopicPermissions("ann", "/", "t", "(", ""))[0] == PRECONDITION_FAILED
    assert wired.refused(SetTopicPermissions("ann", "/", "t", "", "a**("))[0] == PRECONDITION_FAILED


def test_they_are_cleared_of_one_exchange_or_everywhere(wired: Wired) -> None:
    assert wired.ok(ClearTopicPermissions("ann", "/", "t", False)) == 1
    assert wired.ok(ClearTopicPermissions("ann", "/", "t", False)) == 0
    assert left(wired) == [("ann", "/", "u"), ("ann", "shop", "t"), ("ben", "/", "t")]
    assert wired.ok(ClearTopicPermissions("ann", "/", "", True)) == 1
    assert wired.ok(ClearTopicPermissions("ann", "/", "", True)) == 0
    assert left(wired) == [("ann", "shop", "t"), ("ben", "/", "t")]


def test_they_go_with_their_user_and_their_virtual_host(wired: Wired) -> None:
    wired.ok(DeleteVhost("shop"))
    assert ("ann", "shop", "t") not in left(wired)
    wired.ok(DeleteUser("ann"))
    assert left(wired) == [("ben", "/", "t")]


def test_a_snapshot_carries_them_and_weighs_alike(wired: Wired) -> None:
    other = ClusterMap()
    other.restore(wired.map.snapshot())
    assert other.topic_permissions == wired.map.topic_permissions
    assert other.bytes_held == wired.map.bytes_held
    held = wired.map.bytes_held
    wired.ok(SetTopicPermissions("ben", "/", "more", "x" * 500, ""))
    assert wired.map.bytes_held > held + 500
    wired.ok(ClearTopicPermissions("ben", "/", "more", False))
    assert wired.map.bytes_held == held


def test_there_are_so_many_at_most(wired: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PERMISSIONS_MAX", 4)
    assert wired.refused(SetTopicPermissions("ben", "/", "u", "", ""))[0] == RESOURCE_ERROR
    assert wired.ok(SetTopicPermissions("ben", "/", "t", "", "")) == 1, "one that is there changes"


def test_what_names_make_of_a_pattern_is_bounded_before_it_is_set(wired: Wired) -> None:
    user = "u" * 250
    wired.ok(PutUser(user, "", (), False))
    wanted = SetTopicPermissions(user, "/", "t", "{username}" * 5, "")
    assert wired.refused(wanted)[0] == PRECONDITION_FAILED
    assert wired.ok(SetTopicPermissions(user, "/", "t", "{username}" * 3, "")) == 1


@pytest.mark.parametrize(
    ("text", "key", "fits"),
    [
        ("^{username}$", "ann", True), ("^{username}$", "joann", False),
        ("{username}", "joann", True),
        ("{vhost}", "a/b", True), ("{other}", "{other}", True), ("a{2}", "aa", True),
        ("", "", True), ("", "a", False), (".*", "", True),
    ],
)  # fmt: skip
def test_variables_stand_for_names(text: str, key: str, fits: bool) -> None:
    assert pattern_of(text, TopicKey("ann", "/", "t")).matches(key) is fits
