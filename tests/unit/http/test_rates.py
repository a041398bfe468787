"""Rates of counters: what two looks make of them."""

import pytest

from fedq.http.api.rates import Rates, message_stats
from fedq.http.bounds import HTTP_RATES_MAX, HTTP_RATES_S


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_one_look_makes_no_rate(clock: Clock) -> None:
    rates = Rates(clock)
    assert message_stats(rates, [("a", {"publish": 7})]) == {"publish": 7}


def test_two_looks_do(clock: Clock) -> None:
    rates = Rates(clock)
    message_stats(rates, [("a", {"publish": 100, "ack": 0})])
    clock.now_s += 10
    assert message_stats(rates, [("a", {"publish": 150, "ack": 0})]) == {
        "publish": 150, "publish_details": {"rate": 5.0},
    }  # fmt: skip


def test_what_has_not_happened_yet_is_left_out(clock: Clock) -> None:
    assert message_stats(Rates(clock), [("a", {"publish": 0, "ack": 0})]) == {}


def test_whoever_looks_more_often_hears_the_same_again(clock: Clock) -> None:
    rates = Rates(clock)
    rates.look("a", {"publish": 0})
    clock.now_s += HTTP_RATES_S
    assert rates.look("a", {"publish": 400}) == {"publish": 400 / HTTP_RATES_S}
    clock.now_s += HTTP_RATES_S / 2
    assert rates.look("a", {"publish": 10_000}) == {"publish": 400 / HTTP_RATES_S}
    clock.now_s += HTTP_RATES_S / 2
    assert rates.look("a", {"publish": 800}) == {"publish": 400 / HTTP_RATES_S}


def test_what_is_counted_in_several_places_is_added_up(clock: Clock) -> None:
    rates = Rates(clock)
    message_stats(rates, [("a", {"publish": 10}), ("b", {"publish": 1})])
    clock.now_s += 10
    assert message_stats(rates, [("a", {"publish": 30}), ("b", {"publish": 11})]) == {
        "publish": 41, "publish_details": {"rate": 3.0},
    }  # fmt: skip
    # A third place is new: its rate is not known, so none is.
    found = message_stats(rates, [("a", {"publish": 30}), ("c", {"publish": 5})])
    assert found == {"publish": 35}


def test_a_counter_that_has_become_smaller_is_a_new_one(clock: Clock) -> None:
    rates = Rates(clock)
    rates.look("a", {"publish": 1000})
    clock.now_s += 10
    assert rates.look("a", {"publish": 3}) is None
    clock.now_s += 10
    assert rates.look("a", {"publish": 13}) == {"publish": 1.0}


def test_so_many_are_remembered_and_no_more(clock: Clock) -> None:
    rates = Rates(clock)
    for key in range(HTTP_RATES_MAX + 2):
        rates.look(key, {"publish": 0})
        rates.look(1, {"publish": 0})
    clock.now_s += 10
    assert rates.look(0, {"publish": 10}) is None
    assert rates.look(1, {"publish": 10}) == {"publish": 1.0}
    assert rates.look(HTTP_RATES_MAX + 1, {"publish": 10}) == {"publish": 1.0}
