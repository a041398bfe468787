"""Limits of virtual hosts and users in the cluster map, and what is kept for its operators."""

import pytest

from fedq.core.errors import NOT_FOUND, PRECONDITION_FAILED, RESOURCE_ERROR, Refused
from fedq.core.ids import Incarnation, NodeId
from fedq.wiring.cluster_map import invariants
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations import (
    ClaimName,
    DeclareExchange,
    DeclareQueue,
    DeleteQueue,
    MemberUp,
    Operation,
    ReleaseName,
    decode_command,
    encode_command,
)
from fedq.wiring.cluster_map.operations_access import (
    AddVhost,
    DeleteUser,
    DeleteVhost,
    PutUser,
    SetPermissions,
    SetUserLimits,
    SetVhostLimits,
)
from fedq.wiring.cluster_map.passwords import COST_MIN, make_record
from fedq.wiring.cluster_map.state import Ok
from tests.unit.wiring.maps import Wired

RECORD = make_record("geheim", bytes(16), COST_MIN)
TWO = SetVhostLimits("/", (("max-queues", 2),))


@pytest.fixture
def wired() -> Wired:
    return Wired("a")


def queue(name: str, vhost: str = "/") -> DeclareQueue:
    return DeclareQueue(vhost, name, True, False, "", NodeId("a"), 1, 1)


def claim(name: str) -> ClaimName:
    return ClaimName("/", name, NodeId("a"), Incarnation(1))


def result(cluster_map: ClusterMap, operation: Operation, number: int = 0) -> object:
    request = f"{type(operation).__name__} {number} {cluster_map.version}"
    return cluster_map.apply(encode_command(request, [operation])).results[0]


def test_a_virtual_host_has_no_more_queues_than_its_limit(wired: Wired) -> None:
    for operation in (TWO, queue("q"), claim("mine")):
        assert result(wired.map, operation) == Ok(1)
    for beyond in (queue("r"), claim("other")):
        assert result(wired.map, beyond) == Refused(
            PRECONDITION_FAILED,
            f"cannot declare queue '{beyond.name}' in vhost '/': queue limit in vhost '/' (2) is "
            "reached",
        )
    assert result(wired.map, queue("q")) == Ok(), "one that is there is confirmed"
    assert result(wired.map, DeleteQueue("/", "q")) == Ok(1)
    assert result(wired.map, queue("r")) == Ok(1)
    assert result(wired.map, ReleaseName("/", "mine", NodeId("a"), Incarnation(1))) == Ok(1)
    assert result(wired.map, queue("s")) == Ok(1)
    assert result(wired.map, SetVhostLimits("/", ())) == Ok(1)
    assert result(wired.map, queue("t")) == Ok(1)


def test_limits_outlive_a_snapshot_and_not_their_subject(wired: Wired) -> None:
    for operation in (
        AddVhost("shop"), SetVhostLimits("shop", (("max-connections", 0), ("max-queues", 1))),
        PutUser("ann", RECORD, (), False), SetUserLimits("ann", (("max-channels", 3),)),
        queue("q", "shop"),
    ):  # fmt: skip
        assert result(wired.map, operation) == Ok(1)
    other = ClusterMap()
    other.restore(wired.map.snapshot())
    assert other.limit_of_vhost("shop", "max-connections") == 0
    assert other.limit_of_vhost("shop", "max-channels") is None
    assert other.limit_of_user("ann", "max-channels") == 3
    assert isinstance(result(other, queue("r", "shop")), Refused)
    assert result(other, DeleteVhost("shop")) == Ok(1)
    assert result(other, DeleteUser("ann")) == Ok(1)
    invariants.check(other)
    assert (other.vhost_limits, other.user_limits) == ({}, {})
    for gone in (SetVhostLimits("shop", ()), SetUserLimits("ann", ())):
        refused = result(other, gone)
        assert isinstance(refused, Refused)
        assert refused.reply_code == NOT_FOUND


@pytest.mark.parametrize("operation", [TWO, SetUserLimits("ann", (("max-channels", 0),))])
def test_limits_survive_the_journey(operation: Operation) -> None:
    assert decode_command(encode_command("r", [operation])).operations == (operation,)


@pytest.mark.parametrize(
    "limits", [(("max-channels", 1),), (("max-queues", -1),), (("max-queues", 1 << 31),)]
)
def test_what_is_no_limit_changes_nothing(
    wired: Wired, limits: tuple[tuple[str, int], ...]
) -> None:
    assert isinstance(result(wired.map, SetVhostLimits("/", limits)), Refused)
    assert wired.map.vhost_limits == {}


def test_operators_have_room_in_a_map_that_clients_have_filled() -> None:
    filled = ClusterMap(objects_max=100)
    assert result(filled, MemberUp(NodeId("a"), Incarnation(1), "p:1", "c:1", "")) == Ok(1)
    number = 0
    while True:
        exchange = DeclareExchange("/", f"e{number}", "topic", True, False, False, "")
        refused = result(filled, exchange, number)
        number += 1
        if isinstance(refused, Refused):
            break
    assert refused.reply_code == RESOURCE_ERROR
    assert filled.object_count() == 98
    assert result(filled, PutUser("ann", RECORD, (), False)) == Ok(1)
    assert result(filled, SetPermissions("ann", "/", "", "", "")) == Ok(1)
    assert isinstance(result(filled, PutUser("ben", RECORD, (), False)), Refused)
