"""What was seen of a fragment: a primary's last word, and what its successor makes of it.

Inputs: a fragment whose primary hands out nothing any more; the record of that in a copy with which
a reign begins. Outputs: the record; marks on the messages that may have been seen. Without the
record all of them are (docs/adr/0046).

Seen is what was handed out, is with a taker or came back, what was published again, and what is
dead: its dead letter may be on its way.
"""

from collections.abc import Sequence

from fedq.core.ids import first_position
from fedq.core.limits import SEEN_LOOKED_AT_MAX, SEEN_RANGES_MAX
from fedq.core.message import FLAG_SEEN
from fedq.core.ranges import Range, join_overlapping, minus, overlaps, to_ranges, within
from fedq.fragments.fragment import Fragment
from fedq.fragments.singly.holders import DELAYED
from fedq.fragments.singly.tracked import TrackedMessages


def record_seen(fragment: Fragment, epoch: int) -> int:
    """Records the primary's last word on what was seen, at this epoch; the number of the event."""
    fragment.last += 1
    fragment.recorder.seen(fragment.last, epoch, seen_ranges(fragment))
    return fragment.last


def seen_ranges(fragment: Fragment) -> list[Range]:
    """The ranges of what may have been seen, ascending; at most `SEEN_RANGES_MAX`."""
    ranges = fragment.messages.held_ranges()
    if fragment.seen_through:
        ranges.append((0, fragment.seen_through))
    if fragment.returned is not None:
        ranges += fragment.returned
    if fragment.tracked is not None:
        ranges += _seen_singly(fragment.tracked)
    ranges = join_overlapping(ranges)
    over = len(ranges) - SEEN_RANGES_MAX
    if over > 0:
        ranges = [(0, ranges[over][1]), *ranges[over + 1 :]]
    return ranges


def _seen_singly(tracked: TrackedMessages) -> list[Range]:
    unacked, redelivered = tracked.unacked, tracked.redelivered
    if len(unacked) + len(redelivered) > SEEN_LOOKED_AT_MAX:
        return [(0, max(max(unacked, default=0), max(redelivered, default=0)))]
    positions = {position for position, holder in unacked.items() if holder != DELAYED}
    return to_ranges(sorted(positions | redelivered))


def mark_all(fragment: Fragment) -> None:
    """Marks all that is of earlier reigns as perhaps seen."""
    fragment.seen_through = first_position(fragment.reign)


def take_up_seen(fragment: Fragment, seen: Sequence[Range]) -> None:
    """Begins the reign with what was seen: these positions, and nothing else that is here."""
    through = 0
    ranges: list[Range] = []
    for first, last in seen:
        if first == 0:
            through = max(through, min(last, fragment.last))
        else:
            ranges.append((first, last))
    fragment.seen_through = through
    tracked = fragment.tracked
    singles = tracked.messages if tracked is not None else {}
    in_runs = minus(fragment.messages.ranges(), to_ranges(sorted(singles)))
    for first, last in overlaps(in_runs, ranges):
        fragment.note_returned(first, last)
    if tracked is not None:
        tracked.redelivered.update(within(ranges, singles))
        came_so = [p for p, message in singles.items() if message and message[0] & FLAG_SEEN]
        tracked.redelivered.update(came_so)
