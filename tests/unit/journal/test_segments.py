"""The segment plan: numbering, rolling, and what may be deleted."""

from collections.abc import Callable

from fedq.core.ids import FragmentId
from fedq.journal.records import encode_enqueue, encode_keep, encode_settle
from fedq.journal.recovery import recover
from fedq.journal.segments import KEEP_POSITION, Segment, SegmentPlan
from tests.unit.journal.samples import NORTH, ONE, TWO, message


def taken(plan: SegmentPlan) -> list[tuple[int, int, bytes, bool]]:
    """What goes to the disk now."""
    return [(chunk.number, chunk.segment, chunk.data, chunk.sync) for chunk in plan.take()]


def oldest(**live: int) -> Callable[[FragmentId], int | None]:
    """The lowest live position of fragments one and two."""
    by_fragment = {ONE: live.get("one"), TWO: live.get("two")}
    return lambda fragment: by_fragment[fragment]


def test_one_turn_is_one_chunk() -> None:
    plan = SegmentPlan()
    assert plan.append(ONE, 1, b"aa", False) == 1
    assert plan.append(TWO, 1, b"bb", True) == 1
    assert plan.append(ONE, 0, b"cc", False) == 1
    assert taken(plan) == [(1, 1, b"aabbcc", True)]
    assert plan.take() == []
    assert plan.append(ONE, 0, b"dd", False) == 2
    assert taken(plan) == [(2, 1, b"dd", False)]


def test_a_full_segment_is_followed_by_the_next_within_a_turn() -> None:
    plan = SegmentPlan(bytes_max=5)
    assert [plan.append(ONE, n, b"xxx", n == 1) for n in (1, 2, 3)] == [1, 2, 3]
    assert taken(plan) == [
        (1, 1, b"xxx", True),
        (2, 2, b"xxx", False),
        (3, 3, b"xxx", False),
    ]
    assert plan.segments == [1, 2, 3]


def test_an_append_longer_than_a_segment_gets_one_of_its_own() -> None:
    plan = SegmentPlan(bytes_max=5)
    plan.append(ONE, 1, b"x" * 9, False)
    plan.append(ONE, 2, b"y", False)
    assert [(c.segment, len(c.data)) for c in plan.take()] == [(1, 9), (2, 1)]


def test_only_the_oldest_dead_segments_go() -> None:
    plan = SegmentPlan(bytes_max=1)
    for position, fragment in ((1, ONE), (2, TWO), (3, ONE), (4, TWO)):
        plan.append(fragment, position, b"x", False)
    plan.take()
    assert plan.dead(oldest(one=1, two=4)) == []
    assert plan.dead(oldest(one=3, two=4)) == [1, 2]
    assert plan.dead(oldest(one=3)) == []
    assert plan.dead(oldest()) == [3]
    assert plan.segments == [4]
    assert plan.dead(oldest()) == [], "the one being filled stays"


def test_a_segment_lives_as_long_as_its_newest_message() -> None:
    plan = SegmentPlan(bytes_max=3)
    for position in (10, 30, 20, 40):
        plan.append(ONE, position, b"x", False)
    plan.take()
    assert plan.dead(oldest(one=30)) == []
    assert plan.dead(oldest(one=31)) == [1]


def test_a_fragment_that_turns_older_again_keeps_its_segment() -> None:
    plan = SegmentPlan(bytes_max=1)
    for position in (10, 5, 20):
        plan.append(ONE, position, b"x", False)
    plan.take()
    assert plan.dead(oldest(one=10)) == []
    assert plan.dead(oldest(one=5)) == []
    assert plan.dead(oldest(one=11)) == [1, 2]


def test_what_the_disk_has_not_heard_of_is_not_deleted() -> None:
    plan = SegmentPlan(bytes_max=1)
    plan.append(ONE, 1, b"x", False)
    plan.append(ONE, 2, b"x", False)
    assert plan.dead(oldest()) == []
    plan.take()
    assert plan.dead(oldest()) == [1]


def test_after_a_restart_old_segments_are_kept_while_live_and_never_appended_to() -> None:
    found = [Segment(7, 3, {ONE: 5}), Segment(8, 3, {TWO: 2}), Segment(9, 0, {})]
    plan = SegmentPlan(found)
    assert plan.dead(oldest(two=1)) == [7]
    assert plan.dead(oldest()) == [8], "the newest on disk keeps the numbering"
    assert plan.append(ONE, 6, b"x", True) == 1
    assert taken(plan) == [(1, 10, b"x", True)]
    assert plan.dead(oldest(one=6)) == [9]
    assert plan.segments == [10]


def test_while_a_copy_is_not_whole_what_says_so_stays() -> None:
    plan = SegmentPlan(bytes_max=60)
    plan.append(ONE, KEEP_POSITION, encode_keep(ONE, 2, 60, []), False)
    other = encode_enqueue(TWO, 1, 1, NORTH, 1, [message("a")])
    plan.append(TWO, 1, other, True)
    plan.append(TWO, 0, encode_settle(TWO, 1, 2, [(1, 1)]), False)
    disk = {chunk.segment: chunk.data for chunk in plan.take()}
    assert plan.dead(oldest(one=0)) == []
    recovered = recover(sorted(disk.items()))
    assert not recovered.fragments[ONE].whole
    # So it is after a restart; once the copy is whole, it may go.
    plan = SegmentPlan(recovered.segments, 60)
    plan.append(TWO, 0, encode_settle(TWO, 1, 2, [(1, 1)]), False)
    plan.take()
    assert plan.dead(oldest(one=0)) == []
    assert plan.dead(oldest(one=61)) == [1, 2, 3]
