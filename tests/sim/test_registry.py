"""Whose turn it is among consumers, as the simulator judges it."""

from dataclasses import replace

import pytest

from tests.sim.fault_times import SETTLE_US
from tests.sim.registry import BEHIND, IDLE_US, SOON_US
from tests.sim.test_book import PLAIN, book, live, problems
from tests.sim.world import MS, SECOND


@pytest.mark.parametrize(("pause_us", "found"), [(0, 1), (SETTLE_US + 1 * SECOND, 0)])
def test_a_single_active_consumer_is_alone(pause_us: int, found: int) -> None:
    here = book(replace(PLAIN, single=True))
    first = here.registry.ask("q", "c#1", 0, 1)
    here.registry.begin(first)
    live(here, 1 * MS)
    second = here.registry.ask("q", "c#2", 0, 1)
    here.registry.begin(second)
    if pause_us:
        here.gone("c#1")
        live(here, pause_us)
    here.registry.receives(second, replace(PLAIN, single=True))
    assert len(problems(here)) == found


def test_a_better_consumer_that_is_idle_is_not_passed_over() -> None:
    here = book()
    better = here.registry.ask("q", "c#1", 5, 1)
    worse = here.registry.ask("q", "c#2", 0, 0)
    for each in (better, worse):
        here.registry.begin(each)
    live(here, IDLE_US + 1 * MS)
    here.registry.receives(worse, PLAIN)
    live(here, SOON_US)
    assert "was idle" in problems(here)[0]


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_a_better_consumer_may_be_idle_beside_the_best_of_its_node(node: str) -> None:
    """What is sent to its node is for that one as long as it has room: nobody else is told more."""
    here = book()
    best = here.registry.ask("q", "c#1", 9, 1, "n1")
    better = here.registry.ask("q", "c#2", 5, 1, node)
    worst = here.registry.ask("q", "c#3", 0, 0, "n3")
    for each in (best, better, worst):
        here.registry.begin(each)
    live(here, IDLE_US + 1 * MS)
    here.registry.receives(best, PLAIN)
    here.registry.receives(worst, PLAIN)
    live(here, SOON_US)
    assert bool(problems(here)) == (node == "n2")


def test_what_goes_to_the_best_of_a_node_may_come_a_little_later_than_to_others() -> None:
    here = book()
    best = here.registry.ask("q", "c#1", 9, 1, "n1")
    better = here.registry.ask("q", "c#2", 5, 0, "n1")
    worst = here.registry.ask("q", "c#3", 0, 0, "n3")
    for each in (best, better, worst):
        here.registry.begin(each)
    live(here, IDLE_US + 1 * MS)
    here.registry.receives(worst, PLAIN)
    live(here, 1 * MS)
    here.registry.receives(best, PLAIN)
    live(here, SOON_US)
    assert problems(here) == []


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_what_was_for_one_that_filled_up_meanwhile_goes_to_its_neighbours(node: str) -> None:
    here = book()
    full = here.registry.ask("q", "c#1", 5, 1, node)
    better = here.registry.ask("q", "c#2", 5, 0, "n3")
    worse = here.registry.ask("q", "c#3", 0, 0, "n1")
    for each in (full, better, worse):
        here.registry.begin(each)
    live(here, IDLE_US + 1 * MS)
    here.registry.receives(full, PLAIN)
    live(here, 1 * MS)
    here.registry.receives(worse, PLAIN)
    live(here, SOON_US)
    assert bool(problems(here)) == (node == "n2")


def test_a_consumer_whose_room_is_being_filled_is_not_idle() -> None:
    here = book()
    mine = here.registry.ask("q", "c#1", 0, 50)
    here.registry.begin(mine)
    here.registry.receives(mine, PLAIN)
    live(here, IDLE_US + 1 * MS)
    assert here.registry.idle("q", False) == [mine]
    here.registry.receives(mine, PLAIN)
    assert here.registry.idle("q", False) == []
    live(here, SOON_US + 1 * MS)
    assert here.registry.idle("q", False) == [mine]


def test_a_consumer_of_one_at_a_time_is_idle_or_not() -> None:
    here = book()
    mine = here.registry.ask("q", "c#1", 0, 1)
    here.registry.begin(mine)
    live(here, IDLE_US + 1 * MS)
    assert here.registry.idle("q", False) == [mine]
    here.registry.receives(mine, PLAIN)
    assert here.registry.idle("q", False) == []


@pytest.mark.parametrize("prefetch", [0, 50])
def test_a_consumer_that_has_just_settled_what_it_had_is_not_idle(prefetch: int) -> None:
    here = book()
    mine, other = (here.registry.ask("q", holder, 0, prefetch) for holder in ("c#1", "c#2"))
    for each in (mine, other):
        here.registry.begin(each)
        here.registry.receives(each, PLAIN)
    live(here, IDLE_US + 1 * MS)
    here.registry.settles(mine)
    assert here.registry.idle("q", False) == []
    live(here, SOON_US + 1 * MS)
    assert here.registry.idle("q", False) == [mine]


@pytest.mark.parametrize(("held", "found"), [(BEHIND - 1, 0), (BEHIND, 1)])
def test_who_falls_behind_gets_no_more_while_another_is_idle(held: int, found: int) -> None:
    here = book()
    behind = here.registry.ask("q", "c#1", 0, 0, "n1")
    idle = here.registry.ask("q", "c#2", 0, 0, "n2")
    for each in (behind, idle):
        each.one_by_one = True
        here.registry.begin(each)
    for _ in range(held):
        here.registry.receives(behind, PLAIN)
    live(here, IDLE_US + 1 * MS)
    here.registry.receives(behind, PLAIN)
    assert len(problems(here)) == found


@pytest.mark.parametrize("held", [1, 2])
def test_who_has_nothing_does_not_wait_beside_a_neighbour_that_is_behind(held: int) -> None:
    here = book()
    behind = here.registry.ask("q", "c#1", 0, 0, "n1")
    neighbour = here.registry.ask("q", "c#2", 0, 0, "n2")
    idle = here.registry.ask("q", "c#3", 0, 0, "n2")
    for each in (behind, neighbour, idle):
        each.one_by_one = True
        here.registry.begin(each)
    for _ in range(BEHIND):
        here.registry.receives(behind, PLAIN)
    for _ in range(held):
        here.registry.receives(neighbour, PLAIN)
    live(here, IDLE_US + 1 * MS)
    here.registry.receives(behind, PLAIN)
    assert len(problems(here)) == 1


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_a_node_asks_anew_when_somebody_leaves_it(node: str) -> None:
    here = book()
    leaves = here.registry.ask("q", "c#1", 0, 0, node)
    better = here.registry.ask("q", "c#2", 5, 0, "n1")
    worse = here.registry.ask("q", "c#3", 0, 0, "n3")
    for each in (leaves, better, worse):
        here.registry.begin(each)
    live(here, IDLE_US + 1 * MS)
    here.registry.end(leaves)
    live(here, 1 * MS)
    here.registry.receives(worse, PLAIN)
    live(here, SOON_US)
    assert bool(problems(here)) == (node == "n2")


@pytest.mark.parametrize("small", [True, False])
def test_in_small_turns_the_best_consumer_has_its_share_at_once(small: bool) -> None:
    here = book()
    here.registry.small_turns = small
    better = here.registry.ask("q", "c#1", 5, 0, "n1")
    worse = here.registry.ask("q", "c#2", 0, 0, "n2")
    for each in (better, worse):
        here.registry.begin(each)
    live(here, IDLE_US + 1 * MS)
    here.registry.receives(worse, PLAIN)
    live(here, 1 * MS)
    here.registry.receives(better, PLAIN)
    live(here, SOON_US)
    assert bool(problems(here)) is not small


@pytest.mark.parametrize("prefetch", [0, 1])
def test_a_queue_is_steady_until_a_consumer_is_full(prefetch: int) -> None:
    here = book()
    only = here.registry.ask("q", "c#1", 0, prefetch)
    here.registry.begin(only)
    assert here.registry.steady("q")
    here.registry.receives(only, PLAIN)
    assert here.registry.steady("q") == (prefetch == 0)


def test_beside_others_only_who_has_nothing_is_idle() -> None:
    here = book()
    mine, other = (here.registry.ask("q", holder, 0, 0) for holder in ("c#1", "c#2"))
    for each in (mine, other):
        here.registry.begin(each)
    here.registry.receives(mine, PLAIN)
    live(here, IDLE_US + 1 * MS)
    assert here.registry.idle("q", False) == [other]
    here.registry.end(other)
    assert here.registry.idle("q", False) == [mine]
