"""An operator's word on which copy counts: taken only while the homes of all in sync are down."""

import pytest

from fedq.core.ids import Epoch, FragmentId, Incarnation, NodeId
from fedq.wiring.cluster_map.operations_copies import AdoptCopy
from fedq.wiring.cluster_map.state import FragmentChanged
from tests.unit.wiring.maps import Wired, copies, down, queue, up


def adopt(node: str, epoch: int, *, incarnation: int = 1, fragment: int = 1) -> AdoptCopy:
    return AdoptCopy(FragmentId(fragment), Epoch(epoch), NodeId(node), Incarnation(incarnation))


def orphaned() -> Wired:
    """Node a had fragment 1 alone in sync, and is down; b has fallen behind; c has nothing."""
    wired = Wired("a", "b", "c", zones={"a": "1", "b": "2", "c": "3"})
    wired.ok(queue("work", replicas=2))
    (backup,) = wired.fragment().backups
    wired.ok(copies(wired.fragment(), "a", [backup], {"a": 1}))
    wired.ok(down("a"))
    return wired


def test_the_copy_that_is_named_leads_a_new_reign_alone_in_sync() -> None:
    wired = orphaned()
    before = wired.fragment()
    assert wired.ok(adopt("b", before.epoch)) == 1
    after = wired.fragment()
    assert (after.primary, after.backups, after.in_sync) == ("b", (), {"b": 1})
    assert (after.epoch, after.reign) == (before.epoch + 1, before.epoch + 1)
    assert after.created == before.created
    assert wired.last.changes == [FragmentChanged(after.id, before, after)]
    assert not wired.map.is_up(NodeId("a"), Incarnation(1))


def test_who_comes_back_later_has_an_old_copy() -> None:
    wired = orphaned()
    wired.ok(adopt("b", wired.fragment().epoch))
    wired.ok(up("a", 2))
    refused = wired.refused(copies(wired.fragment(), "a", ["b"], {"a": 2}, restart=True))
    assert "not in sync and may not become primary" in refused[1]


@pytest.mark.parametrize("restarted", [False, True])
def test_nothing_is_given_up_while_the_node_of_a_copy_in_sync_is_up(restarted: bool) -> None:
    """In memory or on its disk alone: it serves, or will."""
    wired = orphaned()
    wired.ok(up("a", 2 if restarted else 1))
    before = wired.fragment()
    code, text = wired.refused(adopt("b", before.epoch))
    assert (code, text) == (
        406,
        "cannot change fragment 1: node 'a' has a copy in sync and is up: it serves, or will in a "
        "moment",
    )
    assert wired.fragment() == before


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        (adopt("b", 1), "it is at epoch 2, not 1"),
        (adopt("b", 3), "it is at epoch 2, not 3"),
        (adopt("b", 2, incarnation=2), "process 2 of node 'b' is not up"),
        (adopt("a", 2), "process 1 of node 'a' is not up"),
        (adopt("z", 2), "process 1 of node 'z' is not up"),
        (adopt("b", 2, fragment=7), "no fragment 7"),
    ],
)
def test_whatever_else_is_named_is_refused_and_changes_nothing(
    operation: AdoptCopy, why: str
) -> None:
    wired = orphaned()
    before = wired.fragment()
    assert why in wired.refused(operation)[1]
    assert wired.fragment() == before
    assert wired.last.changes == []


def test_it_is_done_once() -> None:
    wired = orphaned()
    epoch = wired.fragment().epoch
    wired.ok(adopt("b", epoch))
    assert "it is at epoch" in wired.refused(adopt("c", epoch))[1]
    assert wired.fragment().primary == "b"
