"""The segment plan: numbering, rolling, and what may be deleted."""

from array import array
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


def dead(plan: SegmentPlan, oldest_live: Callable[[FragmentId], int | None]) -> list[int]:
    """The segments that go, once the disk has what says so."""
    gone = plan.dead(oldest_live)
    chunks = plan.take()
    if chunks:
        plan.on_synced(chunks[-1].number)
    return gone + plan.dead(oldest_live)


def test_one_turn_is_one_chunk() -> None:
    plan = SegmentPlan()
    assert plan.append(ONE, b"aa", False, 1, 1) == 1
    assert plan.append(TWO, b"bb", True, 1, 1) == 1
    assert plan.append(ONE, b"cc", False) == 1
    assert taken(plan) == [(1, 1, b"aabbcc", True)]
    assert plan.take() == []
    assert plan.append(ONE, b"dd", False) == 2
    assert taken(plan) == [(2, 1, b"dd", False)]


def test_a_full_segment_is_followed_by_the_next_within_a_turn() -> None:
    plan = SegmentPlan(bytes_max=5)
    assert [plan.append(ONE, b"xxx", n == 1, n, n) for n in (1, 2, 3)] == [1, 2, 3]
    assert taken(plan) == [
        (1, 1, b"xxx", True),
        (2, 2, b"xxx", False),
        (3, 3, b"xxx", False),
    ]
    assert plan.segments == [1, 2, 3]


def test_an_append_longer_than_a_segment_gets_one_of_its_own() -> None:
    plan = SegmentPlan(bytes_max=5)
    plan.append(ONE, b"x" * 9, False, 1, 1)
    plan.append(ONE, b"y", False, 2, 2)
    assert [(c.segment, len(c.data)) for c in plan.take()] == [(1, 9), (2, 1)]


def test_only_the_oldest_dead_segments_go() -> None:
    plan = SegmentPlan(bytes_max=1)
    for position, fragment in ((1, ONE), (2, TWO), (3, ONE), (4, TWO)):
        plan.append(fragment, b"x", False, position, position)
    plan.take()
    assert dead(plan, oldest(one=1, two=4)) == []
    assert dead(plan, oldest(one=3, two=4)) == [1, 2]
    assert dead(plan, oldest(one=3)) == []
    # What asks for the sync that they wait for is in segments of its own here.
    assert dead(plan, oldest()) == [3, 4]
    assert plan.segments == [5, 6], "the one being filled stays"


def test_a_segment_lives_as_long_as_its_newest_message() -> None:
    plan = SegmentPlan(bytes_max=3)
    for position in (10, 30, 20, 40):
        plan.append(ONE, b"x", False, position, position)
    plan.take()
    assert dead(plan, oldest(one=30)) == []
    assert dead(plan, oldest(one=31)) == [1]


def test_a_fragment_that_turns_older_again_keeps_its_segment() -> None:
    plan = SegmentPlan(bytes_max=1)
    for position in (10, 5, 20):
        plan.append(ONE, b"x", False, position, position)
    plan.take()
    assert dead(plan, oldest(one=10)) == []
    assert dead(plan, oldest(one=5)) == []
    assert dead(plan, oldest(one=11)) == [1, 2]


def test_what_the_disk_has_not_heard_of_is_not_deleted() -> None:
    plan = SegmentPlan(bytes_max=1)
    plan.append(ONE, b"x", False, 1, 1)
    plan.append(ONE, b"x", False, 2, 2)
    assert plan.dead(oldest()) == []
    assert plan.take()
    assert dead(plan, oldest()) == [1]


def test_what_says_that_a_segment_is_dead_is_on_disk_first() -> None:
    plan = SegmentPlan(bytes_max=1)
    plan.append(ONE, b"x", False, 1, 1)
    plan.append(ONE, b"settled", False)
    plan.take()
    assert plan.dead(oldest()) == []
    (chunk,) = plan.take()
    assert chunk.sync
    assert plan.dead(oldest()) == []
    plan.on_synced(chunk.number)
    assert plan.dead(oldest()) == [1]


def test_after_a_restart_old_segments_are_kept_while_live_and_never_appended_to() -> None:
    found = [
        Segment(7, 3, {ONE: array("Q", (5, 5))}),
        Segment(8, 3, {TWO: array("Q", (2, 2))}),
        Segment(9, 0, {}),
    ]
    plan = SegmentPlan(found)
    assert plan.dead(oldest(two=1)) == []
    assert plan.dead(oldest()) == [], "the newest on disk keeps the numbering"
    assert dead(plan, oldest(two=1)) == [7]
    assert dead(plan, oldest()) == [8, 9]
    plan.append(ONE, b"x", True, 6, 6)
    assert [(chunk.segment, chunk.data) for chunk in plan.take()] == [(10, b"x")]
    assert dead(plan, oldest(one=6)) == []
    assert plan.segments == [10]


def test_while_a_copy_is_not_whole_what_says_so_stays() -> None:
    plan = SegmentPlan(bytes_max=60)
    plan.append(ONE, encode_keep(ONE, 2, 60, []), False, KEEP_POSITION, KEEP_POSITION)
    other = encode_enqueue(TWO, 1, 1, NORTH, 1, [message("a")])
    plan.append(TWO, other, True, 1, 1)
    plan.append(TWO, encode_settle(TWO, 1, 2, [(1, 1)]), False)
    disk = {chunk.segment: chunk.data for chunk in plan.take()}
    assert dead(plan, oldest(one=0)) == []
    recovered = recover(disk)
    assert not recovered.fragments[ONE].whole
    # So it is after a restart; once the copy is whole, it may go.
    plan = SegmentPlan(recovered.segments, 60)
    plan.append(TWO, encode_settle(TWO, 1, 2, [(1, 1)]), False)
    plan.take()
    assert dead(plan, oldest(one=0)) == []
    assert dead(plan, oldest(one=61)) == [1, 2, 3]
