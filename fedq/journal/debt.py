"""What fragments take in the journal, and how much of that is dead: the debt of compaction.

Input: the plan of the segments. Output: bytes. Nobody knows of each record whether it is alive; the
last checkpoint has counted what is, segment by segment, and that is what is told here: since then
more has died. Of segments younger than that nothing was counted yet.

Invariant: a look costs the same whatever the number of messages: it is one at each segment.
"""

from collections.abc import Iterable
from typing import NamedTuple

from fedq.core.ids import FragmentId
from fedq.journal.segments import COPY_BYTES_EACH, Segment, SegmentPlan


class JournalWeight(NamedTuple):
    """What one fragment takes in the journal."""

    #: How many segments have messages of it; bytes of its records there, dead ones among them.
    segments: int
    size: int
    #: Bytes of these segments, of whatever fragment, that the last checkpoint found dead.
    dead: int


def weight_of(plan: SegmentPlan, fragment: FragmentId) -> JournalWeight:
    """What a fragment takes in the journal."""
    homes = plan.homes(fragment)
    size = sum([segment.places.taken(fragment) for segment in homes])
    return JournalWeight(len(homes), size, _dead_in(plan, homes))


def dead_bytes(plan: SegmentPlan) -> int:
    """Bytes of all segments that the last checkpoint found dead."""
    return _dead_in(plan, plan.full)


def _dead_in(plan: SegmentPlan, segments: Iterable[Segment]) -> int:
    return sum([_dead(segment) for segment in segments if segment.number < plan.checkpoint])


def _dead(segment: Segment) -> int:
    live = segment.live_bytes + COPY_BYTES_EACH * segment.live_count
    return max(0, segment.size - live)
