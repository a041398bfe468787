"""What was seen of a fragment, as its primary says in the end, and what its successor marks."""

import pytest

from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin, first_position
from fedq.core.limits import SEEN_LOOKED_AT_MAX, SEEN_RANGES_MAX
from fedq.core.message import FLAG_SEEN, with_flag
from fedq.core.policy import PLAIN
from fedq.fragments.fragment import Fragment
from fedq.fragments.replica import Replica
from fedq.fragments.upkeep.seen import mark_all, record_seen, seen_ranges, take_up_seen
from fedq.journal.records import encode_enqueue
from tests.unit.journal.samples import bodies, message

ONE = FragmentId(1)
CLIENT = Origin(NodeId("client"), Incarnation(1))
ANN, BEN = NodeId("ann"), NodeId("ben")
DYING = PLAIN._replace(dead_letter_exchange="dead")


def fragment(count: int) -> Fragment:
    made = Fragment(ONE, 1, durable=True, recording=True, policy=DYING)
    made.publish(CLIENT, 1, bodies(*[str(number) for number in range(1, count + 1)]))
    return made


def at(*numbers: int) -> list[int]:
    return [first_position(1) + number for number in numbers]


def successor(old: Fragment) -> tuple[Fragment, Replica]:
    """The next reign, on a copy that has applied everything; and that copy."""
    copy = Replica(ONE, durable=True)
    for record in old.out.records:
        copy.apply(record.data)
    made = Fragment(
        ONE, 2, durable=True, recording=True, policy=DYING, messages=copy.in_order(),
        origins=copy.origins, notes=copy.notes,
    )  # fmt: skip
    if copy.seen is not None:
        take_up_seen(made, copy.seen.ranges)
    return made, copy


def test_only_what_was_handed_out_is_marked() -> None:
    old = fragment(6)
    old.take(ANN, 4)
    old.settle(ANN, at(1))
    old.requeue(ANN, at(3))
    record_seen(old, 1)
    made, _ = successor(old)
    taken = made.take(BEN, 9)
    assert (taken.positions, taken.redelivered) == (at(2, 3, 4, 5, 6), at(2, 3, 4))
    made.check()


def test_what_was_seen_may_begin_and_end_within_what_was_published_at_once() -> None:
    made, _ = successor(fragment(9))
    take_up_seen(made, [(0, at(2)[0]), (at(5)[0], at(6)[0])])
    first, second = made.take(ANN, 4), made.take(BEN, 9)
    assert (first.positions, first.redelivered) == (at(1, 2, 3, 4), at(1, 2))
    assert (second.positions, second.redelivered) == (at(5, 6, 7, 8, 9), at(5, 6))
    made.check()


def test_it_is_one_record_in_the_journal_that_nobody_waits_for() -> None:
    old = fragment(1_000)
    old.take(ANN, 500)
    old.out.records.clear()
    record_seen(old, 1)
    (record,) = old.out.records
    assert (record.journal, record.sync, record.last_position) == (True, False, 0)
    assert len(record.data) < 70


def test_what_is_published_again_after_it_voids_it() -> None:
    old = fragment(2)
    record_seen(old, 1)
    old.publish(CLIENT, 3, bodies("3"))
    assert successor(old)[1].seen is not None
    old.publish(CLIENT, 4, bodies("4"), resent=True)
    made, copy = successor(old)
    assert copy.seen is None
    assert made.take(ANN, 9).redelivered == at(1, 2, 4, 5)


def test_a_copy_that_is_compared_again_has_not_heard_it() -> None:
    old = fragment(2)
    record_seen(old, 1)
    _, copy = successor(old)
    copy.start_copy([], b"", 2, 0, True)
    assert copy.seen is None


def test_what_came_as_a_repeat_stays_one() -> None:
    old = fragment(1)
    record_seen(old, 1)
    old.publish(CLIENT, 2, [with_flag(message("2"), FLAG_SEEN), message("3")])
    assert successor(old)[0].take(ANN, 9).redelivered == at(3)


def test_the_dead_may_have_been_sent_on_and_others_were_not() -> None:
    old = fragment(3)
    old.dead_letter_ready(at(2), 1)
    record_seen(old, 1)
    made, _ = successor(old)
    made.dead_letter_ready(at(3), 1)
    assert made.tracked is not None
    assert made.tracked.died_before == {at(2)[0]}
    assert made.seen_through == 0
    assert made.take(ANN, 9).redelivered == []


def test_many_ranges_become_few_and_nothing_seen_is_left_out() -> None:
    old = fragment(4 * SEEN_RANGES_MAX)
    old.take(ANN, 4 * SEEN_RANGES_MAX)
    seen = [first_position(1) + number for number in range(2, 4 * SEEN_RANGES_MAX, 3)]
    left = [p for p in range(at(1)[0], old.last + 1) if p % 3 != seen[0] % 3]
    old.settle(ANN, left)
    ranges = seen_ranges(old)
    assert len(ranges) == SEEN_RANGES_MAX
    assert ranges[0] == (0, seen[-SEEN_RANGES_MAX])
    assert ranges[1:] == [(position, position) for position in seen[1 - SEEN_RANGES_MAX :]]


def test_of_too_many_singles_the_last_one_decides() -> None:
    old = Fragment(ONE, 1, durable=True, recording=False)
    old.publish_private([message("1")] * (SEEN_LOOKED_AT_MAX + 2))
    old.take(ANN, SEEN_LOOKED_AT_MAX + 1)
    old.release(ANN)
    assert seen_ranges(old) == [(0, first_position(1) + SEEN_LOOKED_AT_MAX + 1)]


def test_a_successor_of_a_successor_says_what_both_know() -> None:
    old = fragment(4)
    old.take(ANN, 1)
    record_seen(old, 1)
    made, _ = successor(old)
    mark_all(made)
    made.publish(CLIENT, 5, bodies("5"))
    assert seen_ranges(made) == [(0, first_position(2))]


@pytest.mark.parametrize("ranges", [[(0, 2**64 - 1)], [(2**64 - 1, 2**64 - 1)], []])
def test_ranges_that_say_anything(ranges: list[tuple[int, int]]) -> None:
    copy = Replica(ONE, durable=True)
    copy.apply(encode_enqueue(ONE, 1, at(1)[0], CLIENT, 1, bodies("1")))
    made = Fragment(ONE, 2, durable=True, recording=True, messages=copy.in_order())
    take_up_seen(made, ranges)
    made.check()
    assert made.take(ANN, 9).redelivered == (at(1) if ranges and ranges[0][0] == 0 else [])
