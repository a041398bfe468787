"""The ledger catches what it is there for: each broken promise, told to it, becomes a problem."""

import pytest

from tests.sim.checkers import ON_THE_WAY_US, Attempt, Copy, Ledger
from tests.sim.client_connection import make_properties
from tests.sim.fault_times import SETTLE_US
from tests.sim.topology import ExchangePlan, QueuePlan, Subscription, Topology, matches
from tests.sim.world import SECOND, World


@pytest.fixture
def ledger() -> Ledger:
    found = Ledger(World(1))
    found.declared("q", durable=True, replicas=2)
    return found


def publish(ledger: Ledger, number: int, persistent: bool = True) -> Attempt:
    return ledger.published("p#1", b"%d:body" % number, persistent, ["q"])


def deliver(
    ledger: Ledger,
    number: int,
    holder: str = "c#1",
    redelivered: bool = False,
    body: bytes | None = None,
    no_ack: bool = False,
) -> Copy:
    properties = make_properties(str(number), True)
    body = b"%d:body" % number if body is None else body
    copy = ledger.delivered("q", holder, "tag", properties, body, redelivered, no_ack)
    assert copy is not None
    return copy


def live(ledger: Ledger, duration_us: int) -> None:
    ledger.world.run(ledger.world.now_us + duration_us)


def test_an_honest_history_has_no_problems(ledger: Ledger) -> None:
    for number in (1, 2):
        ledger.confirmed(publish(ledger, number))
    copy = deliver(ledger, 1)
    ledger.requeued(copy, "c#1")
    ledger.acked(deliver(ledger, 1, "c#2", redelivered=True), "c#2")
    ledger.acked(deliver(ledger, 2, "c#2"), "c#2")
    ledger.finish()
    assert ledger.problems == []
    assert ledger.remaining("q") == (0, 0)


def test_a_confirmed_message_that_never_comes_is_lost(ledger: Ledger) -> None:
    ledger.confirmed(publish(ledger, 1))
    ledger.finish()
    assert "P1" in ledger.problems[0]


@pytest.mark.parametrize("served", [True, False])
def test_only_whom_its_node_serves_holds_a_message(ledger: Ledger, served: bool) -> None:
    """Who was sent away by then, or whose node is dead, has not read of it yet."""
    ledger.only_kills = True
    ledger.connected("c#1", lambda: served)
    ledger.confirmed(publish(ledger, 1))
    deliver(ledger, 1)
    deliver(ledger, 1, "c#2", redelivered=True)
    assert ["P2" in problem for problem in ledger.problems] == [True] * served


@pytest.mark.parametrize("confirmed", [True, False])
def test_what_a_dead_primary_handed_out_unconfirmed_may_come_again(
    ledger: Ledger, confirmed: bool
) -> None:
    ledger.only_kills = True
    attempt = publish(ledger, 1)
    if confirmed:
        ledger.confirmed(attempt)
    live(ledger, 1 * SECOND)
    deliver(ledger, 1)
    ledger.crashes_us.append(ledger.world.now_us)
    deliver(ledger, 1, redelivered=True)
    assert ["P2" in problem for problem in ledger.problems] == [True] * confirmed


@pytest.mark.parametrize(("way_us", "excused"), [(ON_THE_WAY_US, True), (1 * SECOND, False)])
def test_so_may_what_was_on_its_way_when_the_next_primary_confirmed_it(
    ledger: Ledger, way_us: int, excused: bool
) -> None:
    ledger.only_kills = True
    attempt = publish(ledger, 1)
    ledger.crashes_us.append(ledger.world.now_us)
    ledger.confirmed(attempt)
    live(ledger, way_us)
    deliver(ledger, 1)
    deliver(ledger, 1, redelivered=True)
    assert ["P2" in problem for problem in ledger.problems] == [True] * (not excused)


@pytest.mark.parametrize(("mode", "lost"), [("all", True), ("persistent", False)])
def test_a_transient_message_without_copies_may_be_lost_once_something_was_wrong(
    mode: str, lost: bool
) -> None:
    ledger = Ledger(World(1))
    queue = QueuePlan("q", durable=True, replicas=2, fragments=1, mode=mode)
    Topology((queue,), ()).declare_to(ledger, 3)
    ledger.confirmed(publish(ledger, 1, persistent=False))
    ledger.fault_ends(ledger.fault_begins())
    ledger.finish()
    assert ["P1" in problem for problem in ledger.problems] == [True] * lost
    live(ledger, SETTLE_US + 1 * SECOND)
    ledger.confirmed(publish(ledger, 2, persistent=False))
    ledger.confirmed(publish(ledger, 3))
    ledger.problems.clear()
    ledger.finish()
    assert ["P1" in problem for problem in ledger.problems] == [True] * (2 + lost)


def test_an_unconfirmed_message_may_be_lost(ledger: Ledger) -> None:
    publish(ledger, 1)
    ledger.finish()
    assert ledger.problems == []


@pytest.mark.parametrize("crashes", [1, 3])
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_publish_may_be_there_again_where_a_disk_is_all_that_is_left(
    replicas: int, crashes: int
) -> None:
    """One that was sent again to a process that did not know any more that it had taken it."""
    ledger = Ledger(World(1))
    ledger.declared("q", durable=True, replicas=replicas)
    attempt = publish(ledger, 1)
    live(ledger, 1 * SECOND)
    ledger.fault_ends(ledger.fault_begins())
    ledger.crashes_us += [ledger.world.now_us] * crashes
    ledger.confirmed(attempt)
    live(ledger, SETTLE_US + 1 * SECOND)
    assert ledger.remaining("q")[1] == (1 if replicas == 2 else 1 + crashes)
    for _ in range(1 + crashes):
        ledger.acked(deliver(ledger, 1, redelivered=True), "c#1")
    assert bool(ledger.problems) == (replicas == 2)
    deliver(ledger, 1, redelivered=True)
    assert "acknowledged" in ledger.problems[-1], "once for each crash, and no more often"


@pytest.mark.parametrize("fault", [True, False])
def test_a_private_queue_gets_what_was_confirmed_before_only_if_its_node_was_away(
    ledger: Ledger, fault: bool
) -> None:
    if fault:
        ledger.fault_ends(ledger.fault_begins())
    attempt = ledger.published("p#1", b"1:body", True, [], exchange="ex", key="k")
    attempt.returned = True
    ledger.confirmed(attempt)
    ledger.declared("own", False, 1, private=True)
    ledger.subscribing("own", lambda exchange, key: (exchange, key) == ("ex", "k"))
    properties = make_properties("1", True)
    ledger.delivered("own", "c#1", "tag", properties, b"1:body", False, True)
    assert bool(ledger.problems) == (not fault)


def test_a_transient_message_may_be_lost_with_all_memories_only(ledger: Ledger) -> None:
    ledger.confirmed(publish(ledger, 1, persistent=False))
    ledger.memory_lost = True
    ledger.finish()
    assert ledger.problems == []
    ledger.memory_lost = False
    ledger.finish()
    assert "P1" in ledger.problems[0]


def test_two_holders_at_once_are_found(ledger: Ledger) -> None:
    publish(ledger, 1)
    deliver(ledger, 1)
    deliver(ledger, 1, "c#2", redelivered=True)
    assert "P2" in ledger.problems[0]


def test_two_holders_after_a_fault_are_allowed_when_marked(ledger: Ledger) -> None:
    publish(ledger, 1)
    deliver(ledger, 1)
    ledger.fault_ends(ledger.fault_begins())
    deliver(ledger, 1, "c#2", redelivered=True)
    assert ledger.problems == []


def test_of_two_deliveries_at_once_either_may_have_been_the_one_that_counts(ledger: Ledger) -> None:
    ledger.confirmed(publish(ledger, 1))
    copy = deliver(ledger, 1)
    ledger.fault_ends(ledger.fault_begins())
    deliver(ledger, 1, redelivered=True)
    # With the tag of the one it is given back, with that of the other acknowledged.
    ledger.requeued(copy, "c#1")
    ledger.acked(copy, "c#1")
    assert ledger.remaining("q")[0] == 0
    live(ledger, SETTLE_US + SECOND)
    deliver(ledger, 1, "c#2", redelivered=True)
    assert ledger.problems == []
    ledger.fault_ends(ledger.fault_begins())
    live(ledger, SETTLE_US + SECOND)
    ledger.confirmed(publish(ledger, 2))
    ledger.requeued(deliver(ledger, 2), "c#1")
    assert ledger.remaining("q")[0] == 1


def test_what_a_dead_nodes_client_held_settles_nothing(ledger: Ledger) -> None:
    ledger.connected("c#1", lambda: False)
    ledger.confirmed(publish(ledger, 1))
    deliver(ledger, 1)
    ledger.fault_ends(ledger.fault_begins())
    deliver(ledger, 1, "c#2", redelivered=True)
    ledger.requeued(copy := ledger.queues["q"].copies[1], "c#2")
    ledger.acked(copy, "c#1")
    assert ledger.remaining("q")[0] == 1


def test_a_repeat_must_be_marked_even_after_a_fault(ledger: Ledger) -> None:
    publish(ledger, 1)
    deliver(ledger, 1)
    ledger.gone("c#1")
    ledger.fault_ends(ledger.fault_begins())
    deliver(ledger, 1, "c#2")
    assert "not marked" in ledger.problems[0]


def test_an_acknowledged_message_stays_gone(ledger: Ledger) -> None:
    publish(ledger, 1)
    ledger.acked(deliver(ledger, 1), "c#1")
    deliver(ledger, 1, "c#2", redelivered=True)
    assert "acknowledged" in ledger.problems[0]


def test_a_fault_long_ago_excuses_nothing(ledger: Ledger) -> None:
    ledger.fault_ends(ledger.fault_begins())
    live(ledger, SETTLE_US + SECOND)
    publish(ledger, 1)
    deliver(ledger, 1, no_ack=True)
    deliver(ledger, 1, "c#2", redelivered=True)
    assert "P3" in ledger.problems[0]


def test_overtaking_on_one_channel_is_found(ledger: Ledger) -> None:
    publish(ledger, 1)
    publish(ledger, 2)
    deliver(ledger, 2)
    deliver(ledger, 1)
    assert "P4" in ledger.problems[0]


def test_a_changed_or_invented_message_is_found(ledger: Ledger) -> None:
    publish(ledger, 1)
    deliver(ledger, 1, body=b"1:other")
    assert "changed" in ledger.problems[0]
    ledger.delivered("q", "c#1", "tag", b"", b"7:never", False, False)
    assert "nobody sent" in ledger.problems[1]


def test_what_was_purged_or_deleted_stays_gone(ledger: Ledger) -> None:
    ledger.confirmed(publish(ledger, 1))
    due = ledger.purge_asked("q")
    assert len(due) == 1
    ledger.purged(due)
    assert ledger.remaining("q") == (0, 0)
    deliver(ledger, 1)
    assert "emptied" in ledger.problems[0]


def test_a_message_for_a_bound_queue_is_never_returned(ledger: Ledger) -> None:
    publish(ledger, 1)
    ledger.returned(b"1:body")
    assert "P6" in ledger.problems[0]


def test_counts_are_bounded_by_what_was_confirmed_and_sent(ledger: Ledger) -> None:
    ledger.confirmed(publish(ledger, 1))
    publish(ledger, 2)
    assert ledger.remaining("q") == (1, 2)


def test_topic_patterns() -> None:
    assert matches("topic", "#", "a.b")
    assert matches("topic", "a.*", "a.b")
    assert matches("topic", "a.#", "a")
    assert not matches("topic", "a.*", "a.b.c")
    assert not matches("direct", "k", "l")
    assert matches("fanout", "k", "l")


def test_targets_follow_bindings_and_subscriptions() -> None:
    topology = Topology(
        (QueuePlan("q", True, 0, 0),), (ExchangePlan("ex", "topic", True, (("q", "k.*"),)),)
    )
    assert topology.targets("", "q") == (["q"], [])
    assert topology.targets("ex", "k.1") == (["q"], [])
    subscription = Subscription("s", "ex", "#")
    topology.subscriptions.append(subscription)
    assert topology.targets("ex", "other") == ([], ["s"])
    subscription.since_us = 1
    assert topology.targets("ex", "other") == (["s"], [])
    subscription.ended = True
    assert topology.targets("ex", "other") == ([], [])
