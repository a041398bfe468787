"""Bodies that stay on the disk: which ones a start takes into memory, and which not.

Inputs: what was folded without bodies (`fedq.journal.bare`), where messages lie, how many bytes
there is room for. Outputs: messages in memory, the oldest of each fragment, and the rest as ranges.
Invariants: every live message is in one of both; no fragment takes more than its fair share while
another one wants it; a body that cannot be read where it should be stays stowed, for whoever wants
it is told then.
"""

from fedq.core.ids import FragmentId
from fedq.core.message import FLAG_PERSISTENT
from fedq.core.ranges import Range, minus, to_ranges
from fedq.journal.bodies import messages_in
from fedq.journal.recovered import Recovered, RecoveredFragment
from fedq.journal.segments import SegmentPlan
from fedq.journal.sources import Source

Stowed = tuple[int, int, int]


def stow(recovered: Recovered, source: Source, body_bytes_max: int) -> None:
    """Takes bodies of so many bytes into memory, and notes where the rest is."""
    plan = SegmentPlan(recovered.segments)
    waiting: list[tuple[int, FragmentId]] = []
    for identity, fragment in recovered.fragments.items():
        if fragment.bare is not None and fragment.bare.live:
            weights = _weights(plan, identity)
            fragment.stowed = _weigh(weights, list(fragment.bare.live))
            waiting.append((sum(taken for _, _, taken in fragment.stowed), identity))
        fragment.bare = None
    left = body_bytes_max
    waiting.sort()
    for index, (_, identity) in enumerate(waiting):
        fragment = recovered.fragments[identity]
        held = _hold(fragment, identity, plan, source, left // (len(waiting) - index))
        left -= held
        if held:
            ranges = [(first, last) for first, last, _ in fragment.stowed]
            rest = minus(ranges, to_ranges(fragment.messages))
            fragment.stowed = _weigh(_weights(plan, identity), rest)


def _hold(
    fragment: RecoveredFragment, identity: FragmentId, plan: SegmentPlan, source: Source, share: int
) -> int:
    """Takes the oldest bodies into memory, up to a share of bytes; returns how many.

    Where one cannot be read it ends: what is behind need not be looked for to the end of the disk.
    """
    held = 0
    for position, last, _ in fragment.stowed if share else ():
        while position <= last:
            found = _read(identity, position, last, plan, source)
            if position not in found:
                return held
            while position in found:
                message = found[position]
                if held + len(message) > share:
                    return held
                fragment.messages[position] = message
                held += len(message)
                position += 1
    return held


def _read(
    identity: FragmentId, first: int, last: int, plan: SegmentPlan, source: Source
) -> dict[int, bytes]:
    """Persistent messages from a position on, the first of which is there if it can be read."""
    for place in plan.locate_all(identity, first):
        try:
            data = source.piece(place.segment, place.offset, place.length)
        except OSError:
            # A start need not have it. It is looked for again, and told of, when somebody wants it.
            continue
        found, _ = messages_in(data, identity, first, min(last, place.last))
        if first in found and found[first][0] & FLAG_PERSISTENT:
            return {
                position: message
                for position, message in found.items()
                if message[0] & FLAG_PERSISTENT
            }
    return {}


def _weights(plan: SegmentPlan, identity: FragmentId) -> list[tuple[int, int, int, int]]:
    """What the places of a fragment hold, by positions (`Places.weights`)."""
    homes = plan.homes(identity)
    return sorted([each for segment in homes for each in segment.places.weights(identity)])


def _weigh(known: list[tuple[int, int, int, int]], ranges: list[Range]) -> list[Stowed]:
    """The ranges, ascending, with about what their records take, by the places they are in."""
    at = 0
    stowed: list[Stowed] = []
    for first, last in ranges:
        position, taken = first, 0
        while position <= last and at < len(known):
            begin, end, count, record_bytes = known[at]
            if end < position:
                at += 1
                continue
            if begin > last:
                break
            here = min(last, end) - max(position, begin) + 1
            taken += here * record_bytes // max(count, 1)
            position = max(position, begin) + here
        stowed.append((first, last, taken))
    return stowed
