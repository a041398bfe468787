"""Virtual hosts, users and permissions in the cluster map."""

import orjson
import pytest

from fedq.core import limits
from fedq.core.ids import Incarnation, NodeId, QueueKey
from fedq.wiring.cluster_map import snapshot
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations import (
    Bind,
    ClaimName,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Operation,
    ReleaseName,
    decode_command,
    encode_command,
)
from fedq.wiring.cluster_map.operations_access import (
    AccessOperation,
    AddVhost,
    ClearPermissions,
    DeleteUser,
    DeleteVhost,
    FirstUsers,
    PutUser,
    SetPassword,
    SetPermissions,
    SetTags,
)
from fedq.wiring.cluster_map.passwords import COST_MIN, make_record
from fedq.wiring.cluster_map.state import (
    ExchangeAdded,
    Grant,
    GrantKey,
    PermissionsChanged,
    User,
    UserChanged,
    VhostAdded,
    VhostRemoved,
)
from tests.unit.wiring.maps import Wired

RECORD = make_record("geheim", bytes(16), COST_MIN)
OTHER = make_record("other", bytes(16), COST_MIN)
ANN = PutUser("ann", RECORD, ("monitoring",), False)


@pytest.fixture
def wired() -> Wired:
    return Wired("a")


def may(user: str = "ann", vhost: str = "/", *patterns: str) -> SetPermissions:
    return SetPermissions(user, vhost, *(patterns or (".*", ".*", ".*")))


# --- virtual hosts -------------------------------------------------------------------------------


def test_a_virtual_host_comes_with_its_exchanges(wired: Wired) -> None:
    assert wired.ok(AddVhost("shop")) == 1
    assert wired.last.changes[0] == VhostAdded("shop")
    added = [change.key for change in wired.last.changes if isinstance(change, ExchangeAdded)]
    assert sorted(key.name for key in added) == [
        "amq.direct", "amq.fanout", "amq.headers", "amq.match", "amq.topic",
    ]  # fmt: skip
    assert QueueKey("shop", "") in wired.map.exchanges
    assert wired.ok(AddVhost("shop")) == 0
    assert wired.last.changes == []


def fill(vhost: str) -> list[DeclareExchange | DeclareQueue | Bind | ClaimName]:
    """One of everything, in a virtual host."""
    node, process = NodeId("a"), Incarnation(1)
    return [
        DeclareExchange(vhost, "e", "topic", True, False, False, ""),
        DeclareExchange(vhost, "auto", "fanout", False, True, False, ""),
        DeclareQueue(vhost, "q", True, False, "", node, 1, 1),
        DeclareQueue(vhost, "r", False, False, "", node, 1, 1),
        Bind(vhost, "e", "queue", "q", "k", ""),
        Bind(vhost, "auto", "exchange", "e", "", ""),
        Bind(vhost, "amq.topic", "queue", "r", "#", ""),
        Bind(vhost, "amq.fanout", "node", "a", "", ""),
        ClaimName(vhost, "mine", node, process),
    ]


def test_a_virtual_host_takes_all_that_is_in_it_along_as_if_deleted_singly(wired: Wired) -> None:
    singly = Wired("a")
    for each in (wired, singly):
        each.ok(AddVhost("shop"))
        each.ok(ANN)
        each.ok(may("ann", "shop"))
        for operation in [*fill("shop"), *fill("/")]:
            each.ok(operation)
    wired.ok(DeleteVhost("shop"))
    together = list(wired.last.changes)
    assert together.pop() == VhostRemoved("shop")
    node, process = NodeId("a"), Incarnation(1)
    deletions: list[Operation] = [
        ClearPermissions("ann", "shop"),
        DeleteQueue("shop", "q"),
        DeleteQueue("shop", "r"),
        DeleteExchange("shop", "e", False),
        DeleteExchange("shop", "auto", False),
        ReleaseName("shop", "mine", node, process),
    ]
    apart = [change for operation in deletions for change in singly.send(operation).changes]
    kinds = [type(change).__name__ for change in together]
    assert [change for change in apart if change not in together] == []
    # What cannot be deleted singly: the predeclared exchanges, and the node's own mark.
    assert len(together) == len(apart) + 5 + 1
    assert kinds.count("QueueRemoved") == 2
    assert kinds.count("ClaimReleased") == 1
    assert not any(key.vhost == "shop" for key in wired.map.exchanges)
    assert QueueKey("/", "q") in wired.map.queues, "another virtual host was touched"


def test_even_the_default_virtual_host_can_go_and_come_back(wired: Wired) -> None:
    assert wired.ok(DeleteVhost("/")) == 1
    assert wired.refused(DeclareQueue("/", "q", True, False, "", NodeId("a"), 1, 1))[0] == 530
    restored = ClusterMap()
    restored.restore(wired.map.snapshot())
    assert list(restored.vhosts) == []
    assert wired.ok(AddVhost("/")) == 1
    assert wired.ok(DeclareQueue("/", "q", True, False, "", NodeId("a"), 1, 1)) == 1


def test_what_does_not_exist_is_404(wired: Wired) -> None:
    wired.ok(ANN)
    for operation, text in (
        (DeleteVhost("no"), "virtual host 'no' does not exist"),
        (DeleteUser("no"), "user 'no' does not exist"),
        (SetPassword("no", RECORD), "user 'no' does not exist"),
        (SetTags("no", ()), "user 'no' does not exist"),
        (may("no"), "user 'no' does not exist"),
        (may("ann", "no"), "virtual host 'no' does not exist"),
        (ClearPermissions("no", "/"), "user 'no' does not exist"),
        (ClearPermissions("ann", "no"), "virtual host 'no' does not exist"),
    ):
        assert wired.refused(operation) == (404, text)


# --- users ---------------------------------------------------------------------------------------


def test_a_user_is_added_once_and_changed_in_parts(wired: Wired) -> None:
    assert wired.ok(ANN) == 1
    assert wired.last.changes == [UserChanged("ann")]
    assert wired.ok(ANN) == 0, "the same again"
    other = PutUser("ann", OTHER, (), False)
    assert wired.refused(other) == (406, "user 'ann' already exists")
    assert wired.ok(SetTags("ann", ("administrator",))) == 1
    assert wired.ok(SetPassword("ann", OTHER)) == 1
    assert wired.map.users["ann"] == User(OTHER, ("administrator",))
    assert wired.ok(PutUser("ann", "", (), True)) == 1
    assert wired.map.users["ann"] == User("", ())


def test_a_user_takes_its_permissions_along(wired: Wired) -> None:
    wired.ok(AddVhost("shop"))
    for operation in (ANN, PutUser("ben", "", (), False), may("ann", "shop"), may("ann"),
                      may("ben")):  # fmt: skip
        wired.ok(operation)
    wired.ok(DeleteUser("ann"))
    assert wired.last.changes == [
        PermissionsChanged(GrantKey("ann", "shop")),
        PermissionsChanged(GrantKey("ann", "/")),
        UserChanged("ann"),
    ]
    assert list(wired.map.grants) == [GrantKey("ben", "/")]


def test_the_first_users_come_once_in_the_life_of_a_cluster(wired: Wired) -> None:
    first = FirstUsers((("guest", RECORD), ("ann", "")))
    assert not wired.map.seeded
    assert wired.ok(first) == 1
    assert wired.map.grants[GrantKey("guest", "/")] == Grant(".*", ".*", ".*")
    assert wired.map.users["guest"].tags == ("administrator",)
    wired.ok(DeleteUser("guest"))
    assert wired.ok(first) == 0
    assert list(wired.map.users) == ["ann"], "who was deleted stays away"
    restored = ClusterMap()
    restored.restore(wired.map.snapshot())
    assert restored.seeded
    assert restored.users == wired.map.users


def test_a_map_of_before_there_were_users_gets_its_first_ones(wired: Wired) -> None:
    head, _, body = wired.map.snapshot().partition(b"\n")
    form = orjson.loads(body)
    for name in ("users", "grants", "seeded"):
        del form[name]
    old = orjson.dumps(form)
    restored = ClusterMap()
    restored.restore(b"fedq-map 1 " + snapshot._digest(old) + b"\n" + old)
    assert not restored.seeded
    assert head.startswith(b"fedq-map 1 ")


# --- permissions ---------------------------------------------------------------------------------


def test_permissions_are_set_replaced_and_cleared(wired: Wired) -> None:
    wired.ok(ANN)
    key = GrantKey("ann", "/")
    assert wired.ok(may("ann", "/", "^a", ".*", "")) == 1
    assert wired.map.access_version == wired.map.version
    assert wired.map.grants[key] == Grant("^a", ".*", "")
    assert wired.ok(may("ann", "/", "^a", ".*", "")) == 0
    assert wired.ok(may()) == 1
    assert wired.ok(ClearPermissions("ann", "/")) == 1
    assert wired.last.changes == [PermissionsChanged(key)]
    assert wired.ok(ClearPermissions("ann", "/")) == 0


def test_a_pattern_that_cannot_be_used_is_refused(wired: Wired) -> None:
    wired.ok(ANN)
    code, text = wired.refused(may("ann", "/", ".*", "(", ".*"))
    assert code == 406
    assert text.startswith("the write pattern is no regular expression to use: a group")


def test_reaching_a_bound_is_refused(wired: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    wired.ok(ANN)
    monkeypatch.setattr(limits, "USERS_MAX", 1)
    monkeypatch.setattr(limits, "VHOSTS_MAX", 1)
    monkeypatch.setattr(limits, "PERMISSIONS_MAX", 0)
    for operation, what in (
        (PutUser("ben", "", (), False), "1 users"),
        (AddVhost("shop"), "1 virtual hosts"),
        (may(), "0 permissions"),
    ):
        code, text = wired.refused(operation)
        assert code == 506
        assert what in text
    wired.ok(SetPassword("ann", ""))


# --- the form ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "operation",
    [
        AddVhost("shop"),
        DeleteVhost("shop"),
        ANN,
        SetPassword("ann", ""),
        SetTags("ann", ("a", "b")),
        DeleteUser("ann"),
        may("ann", "/", "^a", ".*", ""),
        ClearPermissions("ann", "/"),
        FirstUsers((("guest", RECORD),)),
    ],
)
def test_operations_survive_the_journey(operation: AccessOperation) -> None:
    assert decode_command(encode_command("r", [operation])).operations == (operation,)


def test_no_password_reaches_the_map_in_clear(wired: Wired) -> None:
    bad = encode_command("r", [PutUser("ann", "geheim", (), False)])
    assert "is no password record" in str(wired.map.apply(bad).results[0])
    wired.ok(ANN)
    assert b"geheim" not in wired.map.snapshot()
