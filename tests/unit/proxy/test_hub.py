"""Who is next on a node, and how much is asked of fragments elsewhere."""

import tracemalloc

import pytest

from fedq.core.ids import FragmentId
from fedq.core.limits import CREDIT_WINDOW_MAX, DELIVERY_BATCH_MAX, KEEP_UP_MS_MAX
from fedq.proxy.hub import PLENTIFUL, CreditOrder, Hub

ONE, TWO = FragmentId(1), FragmentId(2)


class Consumer:
    """Takes as much as the test says."""

    def __init__(
        self, demand: int, group: object | None = None, priority: int = 0, ticket: int = 0
    ) -> None:
        self.demand = demand
        self.priority = priority
        self.ticket = ticket
        self.group = group
        self.no_ack = False
        self.awake = False
        self.unacked = 0

    def free(self) -> int:
        return self.demand


class Alike(Consumer):
    """Counts how often one is compared with another."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Alike.compared += 1
        return self is other

    __hash__ = Consumer.__hash__


class Counted(Consumer):
    """Counts how often somebody asks for its demand."""

    def __init__(self, demand: int) -> None:
        super().__init__(demand)
        self.looks = 0

    def free(self) -> int:
        self.looks += 1
        return super().free()


def hub(*appetites: int) -> Hub[Consumer]:
    made: Hub[Consumer] = Hub()
    for demand in appetites:
        made.add(Consumer(demand))
    made.set_sources([(ONE, 1, 0), (TWO, 1, 0)])
    return made


@pytest.mark.parametrize("available", [1, 2, 3, 7, 1_000, 10_000])
@pytest.mark.parametrize("appetites", [(1,), (5, 5), (1, 9), (3, 4, 5), (600, 700)])
def test_nobody_is_dealt_more_than_it_takes(available: int, appetites: tuple[int, ...]) -> None:
    made = hub(*appetites)
    ready = made.ready()
    amount, hands = made.plan(ready, available)
    assert 0 < amount <= available
    for consumer, start, step in hands:
        dealt = len(range(amount)[start::step])
        assert dealt <= min(consumer.demand, DELIVERY_BATCH_MAX)


def test_consumers_that_share_an_allowance_are_dealt_no_more_than_that_together() -> None:
    made: Hub[Consumer] = Hub()
    group = object()
    made.add(Consumer(1, group))
    made.add(Consumer(1, group))
    made.add(Consumer(1))
    assert len(made.ready()) == 2
    assert made.demand() == 2


def test_scarce_credit_is_given_to_one_offer_at_a_time() -> None:
    made = hub(1)
    assert made.orders() == [], "nobody has said that it has messages"
    made.on_offer(ONE, 1)
    made.on_offer(TWO, 1)
    assert made.orders() == [CreditOrder(ONE, 1, 1, True, 0)]
    assert made.orders() == []
    made.on_credit_back(ONE, 1, 1)
    assert made.orders() == [CreditOrder(TWO, 1, 1, True, 0)]
    made.on_credit_back(TWO, 1, 1)
    made.on_offer(TWO, 1)
    assert made.orders() == [CreditOrder(TWO, 1, 2, True, 0)], "counted with what came back"


def once(made: Hub[Consumer]) -> list[FragmentId]:
    """Which fragments get the one consumer's demand, if all have messages all the time."""
    chosen: list[FragmentId] = []
    for _ in range(4):
        for fragment in made.sources:
            made.on_offer(fragment, 1)
        (order,) = made.orders()
        chosen.append(order.fragment)
        made.on_credit_back(order.fragment, 1, 1)
    return chosen


def test_of_equally_near_fragments_each_has_its_turn() -> None:
    assert once(hub(1)) == [ONE, TWO, ONE, TWO]


def test_scarce_credit_goes_to_the_nearest_fragment_that_has_messages() -> None:
    made = hub(1)
    made.set_sources([(ONE, 1, 1), (TWO, 1, 0)])
    assert once(made) == [TWO] * 4
    made.on_offer(ONE, 1)
    made.sources[TWO].offered = False
    assert [order.fragment for order in made.orders()] == [ONE], "the nearest has none"


def test_plentiful_credit_stands_without_any_offer_and_is_topped_up_by_half() -> None:
    made = hub(4 * PLENTIFUL)
    share = 2 * PLENTIFUL
    orders = [CreditOrder(ONE, 1, share, False, 0), CreditOrder(TWO, 1, share, False, 0)]
    assert made.orders() == orders
    made.on_deliver(ONE, 1, [1], [], [b"a"])
    made.take_prefetched(1)
    assert made.orders() == []
    made.on_deliver(ONE, 1, list(range(2, share + 1)), [], [b"a"] * (share - 1))
    made.take_prefetched(share)
    assert made.orders() == [CreditOrder(ONE, 1, 2 * share, False, 0)]


def test_what_is_on_its_way_when_credit_is_voided_counts_against_the_next() -> None:
    made = hub(3)
    made.set_sources([(ONE, 1, 0)])
    made.one_place = True
    assert made.orders() == [CreditOrder(ONE, 1, 3, False, 0)]
    made.add(Consumer(0))
    assert made.orders() == [CreditOrder(ONE, 1, 3, False, 0)], "the same three"
    made.on_deliver(ONE, 1, [7, 8, 9], [], [b"a", b"b", b"c"])
    assert made.orders() == []
    made.take_prefetched(3)
    assert made.orders() == [CreditOrder(ONE, 1, 6, False, 0)]


def test_credit_has_an_upper_bound() -> None:
    made = hub(1 << 40)
    orders = made.orders()
    assert orders
    assert all(order.through <= CREDIT_WINDOW_MAX for order in orders)


def test_a_reign_that_is_over_gets_no_credit_and_delivers_nothing() -> None:
    made = hub(1)
    assert made.set_sources([(ONE, 2, 0), (TWO, 1, 0)]) == [ONE]
    assert not made.on_offer(ONE, 1)
    assert not made.on_deliver(ONE, 1, [7], [], [b"a"])
    made.on_credit_back(ONE, 1, 5)
    assert not made.prefetched
    assert made.on_offer(ONE, 2)


def test_prefetched_messages_wait_in_order_and_say_whether_they_were_seen() -> None:
    made = hub(1)
    made.on_deliver(ONE, 1, [7, 8, 9], [8], [b"a", b"b", b"c"])
    assert made.demand() == -2
    assert [(p.position, p.redelivered) for p in made.take_prefetched(2)] == [(7, False), (8, True)]
    assert made.drop_prefetched(ONE) == [9]


def test_what_is_prefetched_and_dealt_to_nobody_is_prefetched_for_long() -> None:
    made = hub(0)
    assert not made.prefetched_for_long(0, 1_000)
    made.on_deliver(ONE, 1, [5, 6], [], [b"a", b"b"])
    assert not made.prefetched_for_long(2, 1_000)
    made.on_deliver(TWO, 1, [5], [], [b"a"])
    assert not made.prefetched_for_long(3, 1_000 + KEEP_UP_MS_MAX - 1)
    assert made.prefetched_for_long(3, 1_000 + KEEP_UP_MS_MAX)
    # One of them is dealt: the rest is next.
    made.take_prefetched(1)
    assert not made.prefetched_for_long(3, 1_100)
    assert not made.prefetched_for_long(2, 1_100 + KEEP_UP_MS_MAX - 1)
    assert len(made.surplus()) == 2
    assert not made.prefetched_for_long(2, 1_200)
    made.on_deliver(ONE, 1, [7], [], [b"c"])
    assert not made.prefetched_for_long(1, 1_300), "that is another one"


def test_without_consumers_all_credit_is_void() -> None:
    made = hub(1)
    made.on_offer(ONE, 1)
    made.orders()
    made.remove(made.consumers[0])
    assert made.reserved() == 0
    assert made.orders() == []


def test_a_queue_that_goes_loses_all_its_consumers_in_one_walk() -> None:
    made: Hub[Alike] = Hub()
    made.set_sources([(ONE, 1, 0)])
    consumers = [Alike(200, priority=number % 2) for number in range(1_000)]
    for consumer in consumers:
        made.add(consumer)
    assert made.orders()
    Alike.compared = 0
    assert made.clear() == consumers
    assert Alike.compared == 0, "nobody is looked for"
    assert not any(consumer.awake for consumer in consumers)
    assert (made.count, made.ticket, made.ready(), made.reserved()) == (0, 0, [], 0)
    made.add(consumers[0])
    assert made.ready() == [consumers[0]]
    assert not made.ranked


def test_consumers_without_appetite_are_not_looked_at_again_until_they_are_woken() -> None:
    made: Hub[Counted] = Hub()
    consumers = [Counted(0) for _ in range(1_000)]
    for consumer in consumers:
        made.add(consumer)
    assert made.ready(5) == []
    looks = sum(consumer.looks for consumer in consumers)
    for consumer in consumers[10:13]:
        consumer.demand = 1
        made.wake(consumer)
    assert made.ready(2) == consumers[10:12]
    assert made.plan(made.ready(2), 2)[0] == 2
    assert made.ready(2) == [consumers[12], consumers[10]], "who got something is the last one"
    assert sum(consumer.looks for consumer in consumers) <= looks + 10


def test_all_are_dealt_to_in_turn_when_messages_come_one_by_one() -> None:
    made: Hub[Consumer] = Hub()
    consumers = [Consumer(100) for _ in range(3)]
    for consumer in consumers:
        made.add(consumer)
    dealt = []
    for _ in range(7):
        ready = made.ready(1)
        made.plan(ready, 1)
        dealt += [consumers.index(consumer) for consumer in ready]
    assert dealt == [0, 1, 2, 0, 1, 2, 0]
    made.plan(made.ready(4), 4)
    assert made.ready(1) == [consumers[2]], "two of the three got one more than it"


def test_a_consumer_that_left_is_not_in_turn_and_its_ticket_not_the_lowest() -> None:
    made: Hub[Consumer] = Hub()
    consumers = [Consumer(1, ticket=ticket) for ticket in (7, 3, 3, 9)]
    for consumer in consumers:
        made.add(consumer)
    assert made.ticket == 3
    made.remove(consumers[1])
    assert made.ticket == 3
    made.remove(consumers[2])
    assert made.ticket == 7
    assert made.ready() == [consumers[0], consumers[3]]
    made.remove(consumers[0])
    assert (made.ticket, made.ready()) == (9, [consumers[3]])
    made.add(consumers[1])
    assert made.ticket == 3
    assert made.ready() == [consumers[3], consumers[1]]


def test_the_highest_priority_with_appetite_is_served_alone() -> None:
    made: Hub[Consumer] = Hub()
    low, high, higher = Consumer(5), Consumer(1, priority=2), Consumer(0, priority=3)
    for consumer in (low, high, higher):
        made.add(consumer)
    assert made.ready() == [high]
    higher.demand = 1
    assert made.ready() == [high], "nobody has said that it takes more"
    made.wake(higher)
    assert made.ready() == [higher]


def test_consumers_that_came_and_went_leave_nothing_behind_beside_those_that_stay() -> None:
    made = hub(1, 1)

    def come_and_go(first: int) -> None:
        for number in range(first, first + 500):
            guest = Consumer(number % 2, priority=number, ticket=number)
            made.add(guest)
            made.ready()
            made.remove(guest)

    come_and_go(1)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    come_and_go(501)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 20_000
    assert made.ticket == 0
    assert len(made.ready()) == 2
