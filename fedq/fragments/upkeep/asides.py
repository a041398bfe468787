"""Messages that are set aside: in nobody's reach, on all copies, because a node failed at them.

They are dead with the reason `QUARANTINED`, whether the queue has a dead-letter exchange or not;
that is a note like any other, so journal and backups know it. What is here looks at nothing of a
message but its length and whether it is persistent.

Inputs: positions, or publishes. Changes the fragment, and its lanes.
"""

from collections.abc import Iterable

from fedq.core.ids import NodeId, Origin
from fedq.core.message import FLAG_PERSISTENT
from fedq.core.policy import QUARANTINED
from fedq.fragments.fragment import Fragment
from fedq.fragments.primary.arrivals import Named
from fedq.fragments.primary.outbox import Owed
from fedq.fragments.singly.holders import DEAD, DELAYED
from fedq.journal.notes import table_of
from fedq.journal.records import NOTE_DEAD, NOTE_RESERVED


def set_aside(fragment: Fragment, positions: Iterable[int], holder: NodeId | None) -> list[int]:
    """Sets aside what is ready, not due yet, or with `holder`; returns the positions, ascending."""
    wanted = sorted(positions)
    if holder is not None:
        fragment.single_out_unread(holder, wanted)
    tracked = fragment.single_out(wanted)
    if tracked is None:
        return []
    found: list[int] = []
    for position in wanted:
        if position not in tracked.messages:
            continue
        has = tracked.unacked.get(position)
        if has is None:
            tracked.hold_back(position, DEAD)
        elif has in (holder, DELAYED):
            tracked.unacked[position] = DEAD
        else:
            continue
        found.append(position)
    if found:
        reasons = dict.fromkeys(found, QUARANTINED)
        table_of(tracked.notes, NOTE_DEAD).update(reasons)
        fragment.out.dead.extend(found)
        fragment.record_note(tracked, NOTE_DEAD, reasons)
    return found


def note_asides(fragment: Fragment, positions: list[int]) -> None:
    """Tells journal and backups which messages were set aside when the fragment began."""
    tracked = fragment.make_tracked()
    if fragment.queue_readers is not None:
        # Once put back they are ready: a later reign must not find them reserved as before.
        fragment.record_note(tracked, NOTE_RESERVED, dict.fromkeys(positions, 0))
    fragment.record_note(tracked, NOTE_DEAD, dict.fromkeys(positions, QUARANTINED))


def publish_aside(
    fragment: Fragment, origin: Origin, number: int, message: bytes, named: Named | None,
    unix_ms: int = 0,
) -> int | None:  # fmt: skip
    """Takes a publish, and confirms it, but sets it aside; its position, unless it is known."""
    position = None
    if number > fragment.origins.get(origin, 0):
        fragment.origins[origin] = number
        position = publish_private_aside(fragment, message)
        lasting = message[0] & FLAG_PERSISTENT != 0
        notes = {NOTE_DEAD: {position: QUARANTINED}}
        news = fragment.news_of(named, 1, unix_ms) if named is not None else None
        fragment.recorder.enqueue(position, origin, number, [message], False, lasting, notes, news)
    fragment.out.owed.append(Owed(fragment.last, origin, number, ()))
    return position


def publish_private_aside(fragment: Fragment, message: bytes) -> int:
    """As `publish_aside`, into a private queue; returns the position."""
    tracked = fragment.make_tracked()
    fragment.last += 1
    position = fragment.last
    fragment.bytes_held += len(message)
    tracked.adopt(position, message, DEAD)
    table_of(tracked.notes, NOTE_DEAD)[position] = QUARANTINED
    fragment.out.dead.append(position)
    return position


def readmit(fragment: Fragment, positions: Iterable[int]) -> list[int]:
    """Makes messages that were set aside ready again, at their old places; returns these."""
    tracked = fragment.tracked
    if tracked is None:
        return []
    reasons = tracked.notes.get(NOTE_DEAD, {})
    found = [p for p in sorted(positions) if reasons.get(p) == QUARANTINED]
    if found:
        for position in found:
            del reasons[position]
        tracked.put_back(found)
        tracked.redelivered.update(found)
        fragment.record_note(tracked, NOTE_DEAD, dict.fromkeys(found, 0))
    return found
