"""Who gets a fragment's messages when nodes compete for them."""

import pytest

from fedq.core.ids import NodeId
from fedq.fragments.taking.takers import Takers

ANN, BEN, CAT = NodeId("ann"), NodeId("ben"), NodeId("cat")


def watched(**credit: int) -> Takers:
    takers = Takers()
    for name, amount in credit.items():
        takers.watch(NodeId(name), 1)
        if amount:
            takers.grant(NodeId(name), amount, False)
    return takers


@pytest.mark.parametrize("first_served", range(3))
@pytest.mark.parametrize(
    ("ready", "credit", "wanted"),
    [
        (9, {"ann": 9, "ben": 9, "cat": 9}, {"ann": 3, "ben": 3, "cat": 3}),
        (10, {"ann": 10, "ben": 1}, {"ann": 9, "ben": 1}),
        (10, {"ann": 2, "ben": 20, "cat": 3}, {"ann": 2, "ben": 5, "cat": 3}),
        (50, {"ann": 2, "ben": 3}, {"ann": 2, "ben": 3}),
        (0, {"ann": 2}, {}),
    ],
)
def test_messages_are_shared_fairly_and_none_waits_beside_credit(
    first_served: int, ready: int, credit: dict[str, int], wanted: dict[str, int]
) -> None:
    takers = watched(**credit)
    takers.first_served = first_served
    assert dict(takers.shares(ready)) == wanted
    assert takers.credit == {name: credit[name] - wanted.get(name, 0) for name in credit}


def test_a_single_message_goes_to_each_in_turn() -> None:
    takers = watched(ann=9, ben=5)
    taken = [node for _ in range(6) for node, _ in takers.shares(1)]
    assert sorted(taken) == [ANN] * 3 + [BEN] * 3


def test_scarce_credit_goes_back_when_the_fragment_is_empty_and_standing_credit_stays() -> None:
    takers = watched(ann=0, ben=7)
    takers.grant(ANN, 2, True)
    assert takers.give_back() == [(ANN, 2)]
    assert takers.give_back() == []
    assert takers.credit == {BEN: 7}


def test_what_was_sent_before_a_watch_counts_against_the_credit_after_it() -> None:
    takers = watched(ann=3)
    assert takers.shares(2) == [(ANN, 2)]
    takers.watch(ANN, 2)
    assert takers.shares(9) == [], "its credit is void"
    takers.grant(ANN, 3, False)
    assert takers.shares(9) == [(ANN, 1)], "as it did not know of the two when it gave that"
    takers.watch(ANN, 2)
    takers.grant(ANN, 2, True)
    assert takers.offers() == [ANN]
    assert takers.give_back() == [], "there is less than none"
    takers.grant(ANN, 5, True)
    assert takers.give_back() == [(ANN, 2)]
    takers.grant(ANN, 6, False)
    assert takers.shares(9) == [(ANN, 1)], "what was given back counts"
    takers.attach(ANN, 1, False, 0)
    takers.grant(ANN, 1, False)
    assert takers.shares(9) == [(ANN, 1)], "a link that begins counts from nothing"


def test_an_offer_is_made_once_until_it_is_answered() -> None:
    takers = watched(ann=0, ben=3)
    assert takers.offers() == [ANN]
    assert takers.offers() == []
    takers.grant(ANN, 1, True)
    assert takers.shares(4)
    assert ANN in takers.offers()


def test_an_offer_is_made_again_after_the_fragment_was_empty() -> None:
    takers = watched(ann=0)
    assert takers.offers() == [ANN]
    takers.give_back()
    assert takers.offers() == [ANN]


def test_credit_of_a_node_without_consumers_is_void() -> None:
    takers = watched(ann=5)
    takers.watch(ANN, 0)
    assert takers.shares(5) == []
    assert takers.had_consumers


def test_an_exclusive_consumer_keeps_all_others_away_until_it_leaves() -> None:
    takers = Takers()
    assert takers.admit(ANN, True)
    assert takers.admit(ANN, True), "asked again after a failover"
    assert not takers.admit(BEN, False)
    takers.watch(ANN, 0)
    assert takers.admit(BEN, False)
    assert not takers.admit(CAT, True)


def test_who_was_admitted_first_stays_active_before_its_node_has_heard_so() -> None:
    takers = Takers(single=True)
    first = takers.admit(ANN, False)
    takers.watch(ANN, 1, ticket=first)
    second = takers.admit(ANN, False)
    # The first one leaves; the node says so before it knows the ticket of the second.
    takers.watch(ANN, 1, ticket=0)
    third = takers.admit(BEN, False)
    takers.watch(BEN, 1, ticket=third)
    assert takers.active == ANN
    takers.watch(ANN, 1, ticket=second)
    assert takers.active == ANN
    takers.watch(ANN, 0)
    assert takers.active == BEN


def test_a_ticket_that_nobody_came_for_holds_up_nobody() -> None:
    takers = Takers(single=True)
    takers.admit(ANN, False)
    later = takers.admit(ANN, False)
    other = takers.admit(BEN, False)
    takers.watch(BEN, 1, ticket=other)
    takers.watch(ANN, 1, ticket=later)
    takers.watch(ANN, 1, ticket=0)
    assert takers.active == BEN
    takers.admit(ANN, False)
    takers.attach(ANN, 1, False, 0)
    takers.watch(BEN, 0)
    assert takers.active is None
