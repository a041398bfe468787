"""Segments of a journal in which something cannot be read any more, or may be looked for it.

Inputs: a node's plan of its segments; what was found. Outputs: what is to be read next, to be
emptied next, how one goes on behind damage, and whether a checkpoint would help. Invariant: only
full segments have rot; what was found in the one that is being filled is found again when it is
full.
"""

from collections.abc import Container

from fedq.core.ids import FragmentId
from fedq.journal.marks import Mark
from fedq.journal.segments import Segment, SegmentPlan


def next_full(plan: SegmentPlan, after: int) -> Segment | None:
    """The first segment beyond this number that is full, not empty, and wholly on disk."""
    for segment in plan.full:
        if after < segment.number < plan.synced_segment and segment.size:
            return segment
    return None


def is_full(plan: SegmentPlan, number: int) -> bool:
    """Whether the segment is full and not dropped."""
    return any(segment.number == number for segment in plan.full)


def mark_of(plan: SegmentPlan, fragment: FragmentId, number: int) -> Mark | None:
    """A mark of a segment that has messages of the fragment, if its own number is known."""
    for segment in plan.homes(fragment):
        if segment.number == number and segment.nonce is not None:
            return Mark(segment.nonce, number, 0)
    return None


def note_rot(plan: SegmentPlan, number: int) -> bool:
    """Notes that something in a full segment cannot be read; true if that is news."""
    for segment in plan.full:
        if segment.number == number and not segment.is_rotten:
            segment.is_rotten = True
            return True
    return False


def next_rotten(plan: SegmentPlan, but: Container[int] = ()) -> Segment | None:
    """The oldest segment, `but` for these, with rot out of which what is alive can be moved."""
    for segment in plan.full:
        if not segment.is_rotten or segment.number in but:
            continue
        if segment.live_bytes and segment.number < plan.checkpoint:
            return segment
    return None


def wants_checkpoint(plan: SegmentPlan) -> bool:
    """Whether a checkpoint would leave nothing but bodies of what counts in a segment with rot."""
    return any(each.is_rotten and each.number >= plan.checkpoint for each in plan.full)
