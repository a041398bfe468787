"""The book of policies catches what it is there for: each broken promise becomes a problem."""

from dataclasses import replace

import pytest

from fedq.amqp.content import encode_properties
from fedq.amqp.values import FieldTable, TableValue
from tests.sim.book import KNOWN_US, LATE_US, Book
from tests.sim.checkers import Ledger
from tests.sim.fault_times import SETTLE_US
from tests.sim.letters import Letter
from tests.sim.policies import SINK, PolicyPlan, PolicyQueue, draw_policies
from tests.sim.reckoning import Reckoning
from tests.sim.transactors import Token, TransactionBook, Unit
from tests.sim.world import MS, SECOND, World

PLAIN = PolicyQueue("q", target=SINK)


def book(queue: PolicyQueue = PLAIN) -> Book:
    ledger = Ledger(World(1))
    return Book(ledger, PolicyPlan((queue, PolicyQueue(SINK)), (), ()), 3, good_network=True)


def publish(book: Book, number: int = 1, delay_ms: int = 0, **properties: TableValue) -> Letter:
    properties.setdefault("delivery_mode", 2)
    return book.published(number, "q", "p#1", b"%d:" % number, properties, delay_ms)


def deliver(
    book: Book,
    letter: Letter,
    holder: str = "c#1",
    queue: str = "q",
    redelivered: bool = False,
    died_of: str = "",
    returns: int = 0,
) -> None:
    headers: FieldTable = {}
    properties = dict(letter.properties)
    if died_of:
        headers["x-death"] = [{"queue": "q", "reason": died_of, "count": 1}]
        properties.pop("expiration", None)
    if returns:
        headers["x-delivery-count"] = returns
    data = encode_properties({**properties, "headers": headers} if headers else properties)
    book.delivered(queue, holder, data, letter.body, redelivered)


def live(book: Book, duration_us: int) -> None:
    book.world.run(book.world.now_us + duration_us)


def problems(book: Book) -> list[str]:
    return book.ledger.problems


def fault(book: Book) -> None:
    book.ledger.fault_ends(book.ledger.fault_begins())


def test_an_honest_history_has_no_problems() -> None:
    here = book(replace(PLAIN, ttl_ms=50, limit=1))
    first, second = publish(here, 1), publish(here, 2)
    here.confirmed(first)
    here.confirmed(second)
    deliver(here, first)
    here.requeued(first, "q", "c#1")
    deliver(here, first, redelivered=True, returns=1)
    here.acked(first, "q", "c#1")
    live(here, 60 * MS)
    deliver(here, second, queue=SINK, died_of="expired")
    here.drained(second, SINK)
    Reckoning(here).finish()
    assert problems(here) == []


def test_a_death_needs_its_reason() -> None:
    for reason in ("expired", "rejected", "maxlen", "delivery_limit"):
        here = book()
        deliver(here, publish(here), queue=SINK, died_of=reason)
        assert f"did not die of {reason}" in problems(here)[-1]


def test_nothing_dies_of_age_before_its_time() -> None:
    here = book(replace(PLAIN, ttl_ms=1_000))
    letter = publish(here, expiration="200")
    live(here, 150 * MS)
    deliver(here, letter, queue=SINK, died_of="expired")
    assert "did not die of expired" in problems(here)[0]


def test_nothing_comes_after_its_time_but_what_faults_held_up() -> None:
    here = book(replace(PLAIN, ttl_ms=100))
    letter = publish(here)
    live(here, 100 * MS + LATE_US + 1 * MS)
    deliver(here, letter)
    assert "after its time" in problems(here)[0]
    here = book(replace(PLAIN, ttl_ms=100))
    letter = publish(here)
    fault(here)
    live(here, 100 * MS + LATE_US + 1 * MS)
    deliver(here, letter)
    assert problems(here) == []


def test_nothing_comes_before_it_is_due() -> None:
    here = book()
    letter = publish(here, delay_ms=100)
    live(here, 90 * MS)
    deliver(here, letter)
    assert "before it was due" in problems(here)[0]


def test_what_was_confirmed_is_somewhere() -> None:
    here = book()
    here.confirmed(publish(here))
    Reckoning(here).finish()
    assert "P1" in problems(here)[0]


def test_with_a_queue_for_the_dead_nothing_is_lost_to_a_policy() -> None:
    policies = (
        replace(PLAIN, ttl_ms=10),
        replace(PLAIN, max_length=1),
        replace(PLAIN, limit=0),
        replace(PLAIN, max_length=1, overflow="reject-publish-dlx"),
    )
    for policy in policies:
        here = book(policy)
        letter = publish(here)
        here.confirmed(letter)
        deliver(here, letter)
        here.gone("c#1")
        live(here, 20 * MS)
        Reckoning(here).finish()
        assert "P1" in problems(here)[0], policy


def test_without_one_a_policy_may_end_it_and_nothing_else_may() -> None:
    for policy in (replace(PLAIN, ttl_ms=10), replace(PLAIN, max_length=1)):
        here = book(replace(policy, target=None))
        here.confirmed(publish(here))
        live(here, 20 * MS)
        Reckoning(here).finish()
        assert problems(here) == []
    here = book(replace(PLAIN, max_length=1, overflow="reject-publish", target=None))
    here.confirmed(publish(here))
    Reckoning(here).finish()
    assert "P1" in problems(here)[0]


def test_a_rejected_letter_may_be_gone_only_where_the_dead_go_nowhere() -> None:
    for target, found in ((None, 0), (SINK, 1)):
        here = book(replace(PLAIN, target=target))
        letter = publish(here)
        here.confirmed(letter)
        deliver(here, letter)
        here.rejected(letter, "q", "c#1")
        Reckoning(here).finish()
        assert len(problems(here)) == found


def test_a_refused_publish_is_nowhere_or_among_the_dead() -> None:
    refusing = replace(PLAIN, max_length=1, overflow="reject-publish")
    here = book(refusing)
    letter = publish(here)
    here.nacked(letter)
    deliver(here, letter)
    assert "refused, and delivered" in problems(here)[0]
    here = book(replace(refusing, overflow="reject-publish-dlx"))
    here.nacked(publish(here))
    Reckoning(here).finish()
    assert "P1" in problems(here)[0]


def test_in_a_failover_a_publish_may_be_refused_and_there() -> None:
    here = book(replace(PLAIN, max_length=1, overflow="reject-publish"))
    letter = publish(here)
    fault(here)
    here.nacked(letter)
    deliver(here, letter)
    assert problems(here) == []


def test_only_a_queue_that_refuses_says_no() -> None:
    here = book()
    here.nacked(publish(here))
    assert "refuses nothing" in problems(here)[0]


def test_patience_has_an_end() -> None:
    here = book(replace(PLAIN, limit=1))
    letter = publish(here)
    for returns in range(3):
        deliver(here, letter, redelivered=returns > 0, returns=returns)
        here.requeued(letter, "q", "c#1")
    assert "x-delivery-count 2" in problems(here)[0]


def test_returns_are_counted() -> None:
    here = book(replace(PLAIN, limit=5))
    letter = publish(here)
    deliver(here, letter)
    here.requeued(letter, "q", "c#1")
    deliver(here, letter, redelivered=True)
    assert "x-delivery-count 0, after 1 deliveries" in problems(here)[0]


def killed(book: Book) -> None:
    book.ledger.crashes_us.append(book.world.now_us)


def test_a_node_that_dies_may_take_the_return_of_what_it_has_just_sent_with_it() -> None:
    here = book(replace(PLAIN, limit=1))
    fault(here)
    live(here, 1 * MS)
    letter = publish(here)
    killed(here)
    live(here, 1 * MS)
    # It was on its way to the client when its node died.
    deliver(here, letter)
    here.gone("c#1")
    live(here, SETTLE_US)
    deliver(here, letter, "c#2", redelivered=True)
    assert problems(here) == []


@pytest.mark.parametrize("hangs", [True, False])
def test_a_node_whose_disk_hangs_may_hand_over_before_a_return_is_committed(hangs: bool) -> None:
    here = book(replace(PLAIN, limit=5))
    fault(here)
    live(here, LATE_US + 1 * MS)
    if hangs:
        here.ledger.disk_stalls(here.world.now_us + 10 * SECOND)
    live(here, LATE_US + 1 * MS)
    letter = publish(here)
    deliver(here, letter)
    here.gone("c#1")
    deliver(here, letter, "c#2", redelivered=True)
    assert bool(problems(here)) is not hangs


@pytest.mark.parametrize(("good_network", "found"), [(True, 1), (False, 0)])
def test_where_frames_are_lost_a_return_may_stay_uncommitted_for_long(
    good_network: bool, found: int
) -> None:
    here = Book(
        Ledger(World(1)),
        PolicyPlan((replace(PLAIN, limit=5), PolicyQueue(SINK)), (), ()),
        3,
        good_network,
    )
    fault(here)
    live(here, 1 * MS)
    letter = publish(here)
    deliver(here, letter)
    for returns in (1, 2):
        here.requeued(letter, "q", "c#1")
        live(here, 400 * MS)
        deliver(here, letter, redelivered=True, returns=returns)
    live(here, 400 * MS)
    killed(here)
    live(here, 1 * MS)
    here.gone("c#1")
    deliver(here, letter, redelivered=True)
    assert len(problems(here)) == found


def test_the_highest_priority_comes_first() -> None:
    here = book(replace(PLAIN, max_priority=5))
    low, high = publish(here, 1, priority=1), publish(here, 2, priority=9)
    here.confirmed(high)
    live(here, KNOWN_US + 1 * MS)
    deliver(here, low)
    assert "while there waited" in problems(here)[0]


@pytest.mark.parametrize("comes", [True, False])
def test_a_higher_priority_may_be_on_its_way_to_another_consumer(comes: bool) -> None:
    """Exact is the order in which a fragment hands out; ways to two nodes differ in length."""
    here = book(replace(PLAIN, max_priority=5))
    for holder in ("c#1", "c#2"):
        here.registry.begin(here.registry.ask("q", holder, 0, 1))
    low, high = publish(here, 1, priority=1), publish(here, 2, priority=9)
    here.confirmed(high)
    live(here, KNOWN_US + 1 * MS)
    deliver(here, low)
    assert problems(here) == []
    if comes:
        live(here, 40 * MS)
        deliver(here, high, "c#2")
    live(here, LATE_US)
    assert (problems(here) == []) == comes, "what was on its way arrives"


def test_no_more_can_be_on_the_way_than_others_have_room_for() -> None:
    here = book(replace(PLAIN, max_priority=5))
    for holder, prefetch in (("c#1", 0), ("c#2", 1)):
        here.registry.begin(here.registry.ask("q", holder, 0, prefetch))
    low, *high = (publish(here, number, priority=number) for number in (1, 2, 3))
    for letter in high:
        here.confirmed(letter)
    live(here, KNOWN_US + 1 * MS)
    deliver(here, low)
    assert "while there waited" in problems(here)[0]


def test_what_was_on_its_way_to_one_that_leaves_comes_back() -> None:
    here = book(replace(PLAIN, max_priority=5))
    both = [here.registry.ask("q", holder, 0, 1) for holder in ("c#1", "c#2")]
    for each in both:
        here.registry.begin(each)
    low, high = publish(here, 1, priority=1), publish(here, 2, priority=9)
    here.confirmed(high)
    live(here, KNOWN_US + 1 * MS)
    deliver(here, low)
    here.registry.end(both[1])
    live(here, LATE_US + 1 * MS)
    assert problems(here) == []


def test_a_length_is_a_length() -> None:
    here = book(replace(PLAIN, max_length=2))
    here.counted("q", 2, 0)
    assert problems(here) == []
    here.counted("q", 3, 0)
    assert "has 3 messages" in problems(here)[0]


def test_a_length_drops_the_oldest() -> None:
    here = book(replace(PLAIN, max_length=1, target=None))
    kept, dropped = publish(here, 1), publish(here, 2)
    for letter in (kept, dropped):
        here.confirmed(letter)
    deliver(here, kept)
    here.drained(kept, "q")
    Reckoning(here).finish()
    assert "dropped letter 2" in problems(here)[0]


def transactions(strict: bool = True) -> TransactionBook:
    queue = PolicyQueue("books")
    plan = PolicyPlan((queue,), (), (), ledger_queue=queue)
    return TransactionBook(Ledger(World(1)), plan, 3, strict)


@pytest.mark.parametrize(
    ("drained", "problem"),
    [
        ([3, 4], ""),
        ([1, 2], "only the marks"),
        ([1, 3, 4], "token 1 is still there"),
        ([3], "only the marks [3]"),
        ([], "only the marks []"),
    ],
)
def test_a_committed_transaction_is_whole(drained: list[int], problem: str) -> None:
    here = transactions()
    here.tokens = {1: Token(0, 0), 2: Token(0, 0)}
    here.units.append(Unit("c#1", [1, 2], [3, 4], asked_us=1, committed_us=2))
    here.drained = dict.fromkeys(drained, 1)
    here.finish()
    assert problem in "".join(here.ledger.problems)
    assert bool(problem) == bool(here.ledger.problems)


@pytest.mark.parametrize(
    ("drained", "problem"),
    [
        ([3, 4], ""),
        ([1, 2], ""),
        ([2], "token 1 is gone"),
        ([1, 2, 3], "is not whole"),
        ([1, 2, 3, 4], "still there"),
    ],
)
def test_one_that_was_not_answered_is_whole_or_not_at_all(drained: list[int], problem: str) -> None:
    here = transactions()
    here.tokens = {1: Token(0, 0), 2: Token(0, 0)}
    here.units.append(Unit("c#1", [1, 2], [3, 4], asked_us=1))
    here.drained = dict.fromkeys(drained, 1)
    here.finish()
    assert problem in "".join(here.ledger.problems)
    assert bool(problem) == bool(here.ledger.problems)


def test_one_that_was_rolled_back_leaves_nothing() -> None:
    here = transactions()
    here.units.append(Unit("c#1", [], [3]))
    here.sees(3, "c#2", False)
    assert "not committed" in here.ledger.problems[0]


def test_some_seeds_are_about_policies_and_the_same_every_time() -> None:
    drawn = [draw_policies(seed, 3, 2 * SECOND, lite=False) for seed in range(300)]
    assert drawn == [draw_policies(seed, 3, 2 * SECOND, lite=False) for seed in range(300)]
    found = [plan for plan in drawn if plan is not None]
    assert 80 < len(found) < 160
    assert any(plan.transactors for plan in found)
    assert any(plan.tenants for plan in found)
    assert any(queue.single for plan in found for queue in plan.queues)
