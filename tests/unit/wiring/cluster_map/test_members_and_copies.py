"""Processes come and go, eras end, and copies of fragments change hands only safely."""

import pytest

from fedq.core.ids import Epoch, FragmentId, Incarnation, NodeId, QueueKey
from fedq.wiring.cluster_map.operations import AddFragment, JoinEra, NewEra, RetireFragment
from fedq.wiring.cluster_map.operations_copies import RetireIdle
from fedq.wiring.cluster_map.state import EraChanged, FragmentChanged, MemberChanged
from tests.unit.wiring.maps import Wired, copies, down, exchange, queue, up

A, B = NodeId("a"), NodeId("b")


def three() -> Wired:
    """Node a leads fragment 1 of "work"; a, b and c hold it in sync; d holds nothing."""
    wired = Wired("a", "b", "c", "d", zones={"a": "1", "b": "2", "c": "3", "d": "1"})
    wired.ok(queue("work", replicas=3))
    assert sorted(wired.fragment().copies) == ["a", "b", "c"]
    return wired


# --- members and eras --------------------------------------------------------------------------


def test_a_member_that_comes_up_again_gets_a_new_link_session() -> None:
    wired = Wired("a", "b")
    first = wired.map.members[B].up_version
    assert wired.ok(up("b")) == 0
    assert wired.map.members[B].up_version == first
    wired.ok(down("b"))
    assert wired.last.changes == [MemberChanged(B)]
    assert wired.ok(down("b")) == 0
    wired.ok(up("b"))
    assert wired.map.members[B].up_version == wired.map.version
    wired.ok(up("b", 2))
    assert wired.map.members[B].up_version == wired.map.version
    assert wired.last.changes == [MemberChanged(B)]


def test_a_moved_address_is_no_restart() -> None:
    wired = Wired("a", "b")
    first = wired.map.members[B].up_version
    assert wired.ok(up("b", zone="attic")) == 1
    assert wired.map.members[B].zone == "attic"
    assert wired.map.members[B].up_version == first


def test_an_older_process_is_refused() -> None:
    wired = Wired("a")
    wired.ok(up("a", 5))
    assert "older data directory" in wired.refused(up("a", 4))[1]
    assert wired.refused(down("a", 4))[0] == 406
    assert wired.refused(down("z"))[0] == 406


def test_only_the_last_loss_of_an_era_ends_it() -> None:
    wired = Wired("a", "b")
    wired.ok(queue("gone", durable=False))
    wired.ok(exchange("e", durable=False))
    wired.ok(queue("stays"))
    assert wired.refused(NewEra())[1] == "the era goes on: one of its processes is up"
    wired.ok(up("a", 2))
    assert wired.map.era == {"a": 1, "b": 1}, "a's new process knows nothing of it yet"
    wired.ok(JoinEra(NodeId("a"), Incarnation(2)))
    assert wired.refused(JoinEra(NodeId("a"), Incarnation(1)))[0] == 406
    wired.ok(up("b", 2))
    wired.ok(down("b", 2))
    assert wired.map.era_is_alive(), "a's process was told by b's"
    wired.ok(up("a", 3))
    assert not wired.map.era_is_alive()
    assert wired.refused(JoinEra(NodeId("a"), Incarnation(3)))[1].startswith("the era is over")
    assert wired.refused(queue("early", durable=False))[0] == 506
    wired.ok(NewEra())
    assert EraChanged(2) in wired.last.changes
    assert list(wired.map.queues) == [QueueKey("/", "stays")]
    assert QueueKey("/", "e") not in wired.map.exchanges
    assert wired.map.era == {"a": 3}
    wired.ok(queue("early", durable=False))


def test_a_silent_process_that_returns_keeps_its_era_alive() -> None:
    wired = Wired("a")
    wired.ok(down("a"))
    assert wired.refused(NewEra())[1] == "no member is up to begin a new era"
    wired.ok(up("a"))
    assert wired.map.era_is_alive()


# --- fragments ---------------------------------------------------------------------------------


def test_a_queue_gets_further_fragments_and_keeps_one() -> None:
    wired = Wired("a", "b")
    wired.ok(queue("work"))
    assert wired.ok(AddFragment("/", "work", B)) == 2
    assert wired.ok(AddFragment("/", "work", B)) == 2
    assert wired.last.changes == []
    # Its fragment waits for another process that has it in memory: it serves nobody.
    wired.ok(up("b", 2))
    assert wired.ok(AddFragment("/", "work", B)) == 3
    assert wired.refused(AddFragment("/", "none", B))[0] == 404
    assert wired.refused(AddFragment("/", "work", NodeId("z")))[0] == 406
    assert wired.refused(RetireFragment(FragmentId(1), Epoch(2)))[1].endswith("epoch 1, not 2")
    assert wired.refused(RetireFragment(FragmentId(9), Epoch(1)))[0] == 404
    wired.ok(RetireFragment(FragmentId(1), Epoch(1)))
    wired.ok(RetireFragment(FragmentId(3), Epoch(1)))
    assert "only one" in wired.refused(RetireFragment(FragmentId(2), Epoch(1)))[1]


def test_an_idle_fragment_goes_if_all_kept_quiet_since() -> None:
    wired = Wired("a", "b")
    wired.ok(queue("work"))
    wired.ok(queue("fixed", arguments='{"x-fedq-fragments":2}', fragments=2))
    since = wired.map.version
    assert wired.ok(AddFragment("/", "work", B)) == 4
    four = FragmentId(4)
    assert wired.refused(RetireIdle(four, Epoch(2), since))[1].endswith("epoch 1, not 2")
    assert "the first one" in wired.refused(RetireIdle(FragmentId(1), Epoch(1), since))[1]
    assert "fixes their number" in wired.refused(RetireIdle(FragmentId(3), Epoch(1), since))[1]
    for again in (1, 2):
        wired.ok(down("b", again))
        assert "'b' is down" in wired.refused(RetireIdle(four, Epoch(1), since))[1]
        wired.ok(up("b", again))
        assert "came up meanwhile" in wired.refused(RetireIdle(four, Epoch(1), since))[1]
        since = wired.map.version
        if again == 1:
            # Another process of it: what it leads waits for that.
            wired.ok(up("b", 2))
            assert "came up meanwhile" in wired.refused(RetireIdle(four, Epoch(1), since))[1]
    wired.ok(RetireIdle(four, Epoch(1), since))
    assert wired.refused(RetireIdle(four, Epoch(1), since))[0] == 404
    assert wired.map.queues[QueueKey("/", "work")].fragments == [FragmentId(1)]


def test_an_in_sync_copy_takes_over() -> None:
    wired = three()
    wired.send(down("a"), copies(wired.fragment(), "b", ["c"], {"b": 1, "c": 1}))
    after = wired.fragment()
    assert (after.primary, after.epoch, after.reign, after.created) == ("b", 2, 2, 1)
    (change,) = [each for each in wired.last.changes if isinstance(each, FragmentChanged)]
    assert (change.before.primary, change.after) == ("a", after)


def test_eviction_and_joining_leave_the_reign() -> None:
    wired = three()
    wired.ok(copies(wired.fragment(), "a", ["b", "c"], {"a": 1, "b": 1}))
    wired.ok(copies(wired.fragment(), "a", ["b", "c", "d"], {"a": 1, "b": 1}))
    wired.ok(copies(wired.fragment(), "a", ["b", "c", "d"], {"a": 1, "b": 1, "d": 1}))
    after = wired.fragment()
    assert (after.epoch, after.reign) == (4, 1)
    assert after.in_sync == {"a": 1, "b": 1, "d": 1}


@pytest.mark.parametrize(
    ("primary", "backups", "in_sync", "restart", "reason"),
    [
        ("d", ["a"], {"d": 1, "a": 1}, False, "'d' is not in sync and may not become primary"),
        ("d", ["a"], {"a": 1}, False, "its primary has to be in sync"),
        ("d", [], {"d": 1}, True, "'d' is not in sync and may not become primary"),
        ("a", ["b"], {"a": 1, "c": 1}, False, "in sync without holding a copy"),
        ("a", ["b", "b"], {"a": 1}, False, "named twice"),
        ("a", ["z"], {"a": 1}, False, "'z' is not a member"),
        ("a", ["b"], {"a": 2, "b": 1}, False, "'a' has lost its memory"),
        ("b", ["d"], {"b": 1, "d": 1}, False, "'d' cannot come into sync with a primary"),
        ("a", ["d"], {"a": 1, "d": 2}, False, "process 2 of node 'd' is gone"),
        ("a", [], {"a": 1}, True, "'a' still has it in memory"),
    ],
)
def test_unsafe_copies_are_refused(
    primary: str, backups: list[str], in_sync: dict[str, int], restart: bool, reason: str
) -> None:
    wired = three()
    wanted = copies(wired.fragment(), primary, backups, in_sync, restart=restart)
    code, text = wired.refused(wanted)
    assert code == 406
    assert reason in text


def test_a_decision_on_an_older_map_is_void() -> None:
    wired = three()
    stale = copies(wired.fragment(), "c", ["a", "b"], {"c": 1})
    wired.ok(copies(wired.fragment(), "a", ["b", "c"], {"a": 1, "b": 1}))
    assert "it is at epoch 2, not 1" in wired.refused(stale)[1]
    assert wired.refused(copies(wired.fragment(), "c", [], {"c": 1}))[0] == 406


def test_a_backup_that_restarted_meanwhile_does_not_come_into_sync() -> None:
    wired = three()
    joined = copies(wired.fragment(), "a", ["b", "c", "d"], {"a": 1, "b": 1, "c": 1, "d": 1})
    wired.ok(up("d", 2))
    assert "process 1 of node 'd' is gone" in wired.refused(joined)[1]


def test_a_primary_that_is_down_or_cold_needs_a_restart() -> None:
    wired = three()
    wired.ok(up("b", 2))
    wired.ok(down("c"))
    assert wired.refused(copies(wired.fragment(), "b", [], {"b": 1}))[0] == 406
    assert wired.refused(copies(wired.fragment(), "c", [], {"c": 1}))[0] == 406
    wired.ok(down("a"))
    wanted = copies(wired.fragment(), "b", ["a"], {"b": 2, "a": 1}, restart=True)
    assert "only the primary is in sync" in wired.refused(wanted)[1]
    old = copies(wired.fragment(), "b", ["a"], {"b": 1}, restart=True)
    assert "process 1 of node 'b' is not up" in wired.refused(old)[1]
    wired.ok(copies(wired.fragment(), "b", ["a"], {"b": 2}, restart=True))
    assert (wired.fragment().in_sync, wired.fragment().reign) == ({"b": 2}, 2)


def test_the_same_primary_may_restart() -> None:
    wired = Wired("a")
    wired.ok(queue("work"))
    wired.ok(up("a", 2))
    wired.ok(copies(wired.fragment(), "a", [], {"a": 2}, restart=True))
    assert (wired.fragment().epoch, wired.fragment().reign) == (2, 2)
