"""Delivery tags and confirms, as a channel's client knows them (AMQP 0-9-1, 1.8.3.13)."""

from fedq.channels.confirms import ConfirmWindow
from fedq.channels.unacked import SPAN_MAX, UnackedWindow
from fedq.core.ids import FragmentId

ONE = FragmentId(1)


def window(count: int) -> UnackedWindow[str]:
    made: UnackedWindow[str] = UnackedWindow()
    made.add("consumer", ONE, list(range(11, 11 + count)))
    return made


def positions(window: UnackedWindow[str]) -> list[int]:
    return [position for part in window.parts() for position in part.positions]


def is_known(window: UnackedWindow[str], tag: int) -> bool:
    """Whether the tag was out; it is settled now."""
    return window.settle(tag, tag)[1] is None


def test_tags_go_on_over_deliveries_that_need_no_acknowledgement() -> None:
    made = window(2)
    assert made.skip(3) == 3
    assert made.add("consumer", ONE, [13]) == 6
    assert not is_known(made, 4)
    assert len(made.settle_through(6) or []) == 2


def test_a_tag_is_known_once() -> None:
    made = window(2)
    assert is_known(made, 1)
    assert not is_known(made, 1)
    assert made.settle_through(1) is None


def test_tag_zero_with_multiple_means_all_and_alone_means_nothing() -> None:
    made = window(3)
    assert not is_known(made, 0)
    assert len(made.settle_through(0) or []) == 1
    assert made.settle_through(0) == [], "nothing is out: that is no error"


def test_a_tag_that_was_never_given_is_unknown() -> None:
    made = window(3)
    assert made.settle_through(4) is None
    assert positions(made) == [11, 12, 13]


def test_one_old_delivery_does_not_keep_the_memory_of_the_rest() -> None:
    made = window(5_000)
    for tag in range(2, 5_001):
        made.settle(tag, tag)
    assert positions(made) == [11]
    assert len(made._spans) < 32, "what is left behind is swept"
    assert len(made._spans[0].positions) <= SPAN_MAX


def test_the_first_unsafe_publish_holds_back_the_confirms_behind_it() -> None:
    made = ConfirmWindow("channel")
    first, second = made.open(2, 1), made.open(1, 2)
    second.waiting = 0
    assert made.flush() == []
    first.waiting = 0
    assert made.flush() == [(3, True, True)]
    assert made.flush() == []


def test_a_publish_that_nobody_has_to_store_is_confirmed_in_its_turn() -> None:
    made = ConfirmWindow("channel")
    first = made.open(1, 1)
    made.open(1, 0)
    assert made.flush() == []
    first.waiting = 0
    assert made.flush() == [(2, True, True)]


def test_a_refused_publish_is_told_apart_from_those_around_it() -> None:
    made = ConfirmWindow("channel")
    group = made.open(10, 1)
    group.refuse([5])
    group.waiting = 0
    assert made.flush() == [(4, True, True), (5, False, False), (10, True, True)]
