"""When messages expire, by stretches: told once, in the order of their times, so many at a time."""

import pytest

from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin
from fedq.core.policy import QueuePolicy
from fedq.fragments.fragment import Fragment
from fedq.fragments.singly.times import Expiring
from fedq.fragments.upkeep.enforcement import SLACK, expire, sweep
from tests.unit.journal.samples import message

HERE = Origin(NodeId("here"), Incarnation(1))
ME = NodeId("me")


def test_what_is_over_is_told_once_and_as_much_as_is_wanted() -> None:
    expiring = Expiring()
    expiring.add(1, 10, 100)
    expiring.add(11, 20, 50)
    expiring.times.forget(13, 14)
    assert expiring.over(50, 100) == ([], 0)
    assert expiring.over(51, 5) == ([(11, 12), (15, 17)], 5)
    assert expiring.over(101, 100) == ([(18, 20), (1, 10)], 13)
    assert expiring.over(101, 100) == ([], 0)
    expiring.again(8, 15)
    assert expiring.over(101, 100) == ([(11, 12), (15, 15), (8, 10)], 6)
    assert expiring.next_ms is None


def test_appointments_of_what_is_gone_are_swept() -> None:
    expiring = Expiring()
    for number in range(100):
        expiring.add(10 * number, 10 * number, number)
    expiring.times.forget(0, 900)
    expiring.sweep(10)
    assert len(expiring) == 9
    assert expiring.over(1_000, 100) == ([(10 * n, 10 * n) for n in range(91, 100)], 9)


@pytest.mark.parametrize(
    ("time_to_live", "early"), [(0, 0), (65_535, 0), (3_600_000, 53), (86_400_000, 1_317)]
)
def test_a_time_to_live_is_told_to_its_65536th_part_and_never_late(
    time_to_live: int, early: int
) -> None:
    policy = QueuePolicy(message_ttl_ms=time_to_live)
    for unix_ms in (1_000_000_000_007, 1_000_000_001_000, 1_000_000_002_999):
        fragment = Fragment(FragmentId(1), 1, durable=True, recording=True, policy=policy)
        fragment.publish(HERE, 1, [message("m")], unix_ms=unix_ms)
        (when,) = fragment.notes[1].values()
        assert unix_ms + time_to_live - early <= when <= unix_ms + time_to_live


def test_a_queue_that_is_filled_slowly_has_few_steps() -> None:
    policy = QueuePolicy(message_ttl_ms=86_400_000)
    fragment = Fragment(FragmentId(1), 1, durable=True, recording=True, policy=policy)
    for number in range(10_000):
        fragment.publish(HERE, number + 1, [message("m")], unix_ms=10**12 + number)
    sweep(fragment)
    assert fragment.tracked is not None
    assert fragment.tracked.expiring.times.step_count < 12
    assert len(fragment.tracked.expiring) < 2 * 12 + SLACK
    assert fragment.fresh.run_count < 12


def test_what_expires_in_a_run_leaves_the_rest_of_it_in_order() -> None:
    fragment = Fragment(FragmentId(1), 1, durable=True, recording=True)
    fragment.publish(HERE, 1, [message(text) for text in "abcdefgh"], unix_ms=10)
    tracked = fragment.make_tracked()
    first = fragment.last - 7
    tracked.expiring.add(first + 2, first + 3, 20)
    tracked.expiring.add(first + 7, first + 7, 30)
    assert expire(fragment, 21, 100) == 2
    fragment.check()
    taken = fragment.take(ME, 5)
    assert taken.positions == [first, first + 1, first + 4, first + 5, first + 6]
    # What a consumer has lives on, and is looked at when it comes back.
    taken = fragment.take(ME, 5)
    assert expire(fragment, 31, 100) == 1
    assert fragment.unacked_count == 6
    fragment.requeue(ME, taken.positions)
    assert expire(fragment, 31, 100) == 1
    assert fragment.unacked_count == 5
    assert fragment.ready_count == 0
    fragment.check()
