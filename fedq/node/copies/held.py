"""What this node holds of a fragment, whatever its part: to serve, as a copy, or from its disk.

Inputs: a fragment. Outputs: what the journal is to say of it, in checkpoints and when segments are
moved. What a part has that the others have not is told apart here, and nowhere else.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from fedq.core.ids import FragmentId, Origin
from fedq.fragments.publishers.known_publishers import Marks, marks_of
from fedq.fragments.upkeep.alive import (
    EVERYWHERE,
    Found,
    Spans,
    in_fragment,
    in_recovered,
    in_replica,
)
from fedq.journal.events import Seen
from fedq.journal.recovered import RecoveredFragment
from fedq.node.records.roles import Backup, Primary
from fedq.node.records.state import NodeState

#: Messages that are looked at for a unit of work, as a shift.
LOOK_SHIFT: Final = 4
#: A journal with so many segments beyond twice what is alive has much that is dead.
_SEGMENTS_SPARE: Final = 4
#: Beyond all positions.
_BEYOND: Final = 1 << 64

Held: TypeAlias = Primary | Backup | RecoveredFragment


class Place(NamedTuple):
    """How far what is held has come, and about what a message in it takes."""

    reign: int
    #: The last event.
    event: int
    bytes_each: int


def find_held(state: NodeState, fragment: FragmentId) -> Held | None:
    """What this node holds of the fragment by now."""
    return (
        state.primaries.get(fragment)
        or state.backups.get(fragment)
        or state.recovered.get(fragment)
    )


def content_of(held: Held) -> object:
    """The very messages that it holds: those of another one are looked for anew."""
    if isinstance(held, Primary):
        return held.fragment
    return held.replica if isinstance(held, Backup) else held


def is_in_journal(held: Held) -> bool:
    """Whether the journal has it, and it is worth keeping there.

    Of a copy that this node could not keep, and that nobody counts on, nothing is.
    """
    if isinstance(held, Primary):
        return held.fragment.recorder.durable
    if isinstance(held, Backup):
        return held.replica.durable and not held.failed
    return held.durable


def alive_in(held: Held, spans: Spans = EVERYWHERE) -> Iterator[Found]:
    """What is alive of it, piece by piece (`fedq.fragments.upkeep.alive`)."""
    if isinstance(held, Primary):
        return in_fragment(held.fragment, spans)
    if isinstance(held, Backup):
        return in_replica(held.replica, spans)
    return in_recovered(held.messages, held.stowed, held.notes, spans)


def is_alive(held: Held, position: int) -> bool:
    """Whether a message at this position is held, in memory or on disk alone."""
    if isinstance(held, Primary):
        return position in held.fragment.messages
    if isinstance(held, Backup):
        return position in held.replica
    return position in held.messages or _is_stowed(held, position)


def _is_stowed(held: RecoveredFragment, position: int) -> bool:
    at = bisect_right(held.stowed, (position, _BEYOND, _BEYOND)) - 1
    return at >= 0 and position <= held.stowed[at][1]


def place_of(held: Held) -> Place:
    """How far it has come."""
    if isinstance(held, Primary):
        fragment = held.fragment
        count = fragment.ready_count + fragment.unacked_count
        return Place(fragment.reign, fragment.last, 1 + fragment.bytes_held // max(1, count))
    if isinstance(held, Backup):
        replica = held.replica
        each = 1 + replica.bytes_held // max(1, replica.count)
        return Place(held.replication.reign, held.last_held, each)
    return Place(held.reign, held.last, 1 + held.size // max(1, held.count))


def is_whole(held: Held) -> bool:
    """Whether it is not a copy that is still being made."""
    return isinstance(held, Primary) or held.whole


def seen_in(held: Held) -> Seen | None:
    """The last word of its last primary on what was seen."""
    if isinstance(held, Primary):
        return None
    return held.replica.seen if isinstance(held, Backup) else held.seen


def readers_in(held: Held) -> dict[str, int]:
    """Where its named readers go on."""
    if isinstance(held, Primary):
        return held.fragment.reader_places
    return dict(held.replica.readers if isinstance(held, Backup) else held.readers)


def publishers_in(held: Held) -> tuple[Marks, Marks | None]:
    """What was surely taken of publishers with names; of a copy under way, its primary's word."""
    if isinstance(held, Primary):
        return marks_of(held.fragment.publishers), None
    if isinstance(held, Backup):
        return held.replica.publishing.sure, held.replica.publishing.ahead
    return held.publishers, None if held.whole else held.publishers_ahead


def origins_of(held: Held) -> dict[Origin, int]:
    """The highest publish number of each origin that published what is in it."""
    if isinstance(held, RecoveredFragment):
        return dict(held.origins)
    known: Mapping[Origin, int] = (
        held.fragment.origins if isinstance(held, Primary) else held.replica.origins
    )
    unsure = held.unsure
    return {**unsure, **{origin: max(n, unsure.get(origin, 0)) for origin, n in known.items()}}


def has_failed_copy(state: NodeState) -> bool:
    """Whether others may count on a copy that this node failed at.

    What of it is on the disk need not be in memory: it must stay there.
    """
    for fragment in state.failed_copies:
        backup, info = state.backups.get(fragment), state.map.fragments.get(fragment)
        if backup is not None and backup.failed and info is not None and state.me in info.in_sync:
            return True
    return False


def bytes_alive(state: NodeState) -> int:
    """The bytes of all messages that may be in the journal."""
    return (
        sum([each.fragment.bytes_held for each in state.primaries.values() if is_in_journal(each)])
        + sum([each.replica.bytes_held for each in state.backups.values() if is_in_journal(each)])
        + sum([each.size for each in state.recovered.values() if each.durable])
    )


def has_much_dead(state: NodeState) -> bool:
    """Whether the journal is longer than twice what is alive and some segments."""
    spare = _SEGMENTS_SPARE * state.settings.segment_bytes_max
    held = state.plan.bytes_held
    return held > spare and held > 2 * bytes_alive(state) + spare
