"""Where a shared queue's messages are on this node: in memory, in the journal, in scratch files.

Input: a living node. Output: a `CopyOverview` of each fragment that it serves, copies, or has kept.
Nothing is counted by the message: a look costs a step for each segment of the journal that has
something of the queue, and for each page of a stream in memory.
"""

from collections.abc import Iterator

from fedq.core.ids import FragmentId, QueueKey, reign_of
from fedq.fragments.fragment import Fragment
from fedq.fragments.upkeep import footprint
from fedq.journal.debt import weight_of
from fedq.journal.recovered import RecoveredFragment
from fedq.node.node import Node
from fedq.node.records.ages import Age, first_in_line
from fedq.node.records.roles import Backup, Primary
from fedq.node.records.state import NodeState
from fedq.node.streams.serving import base_of
from fedq.node.views.shape import shape_of
from fedq.node.views.storage_types import CopyOverview, CopyRole, StreamOverview


def copies_of(node: Node, key: QueueKey) -> Iterator[CopyOverview]:
    """The copies of a queue's fragments that this node has."""
    state = node.state
    queue = state.map.queues.get(key)
    for fragment in queue.fragments if queue is not None else ():
        primary, backup = state.primaries.get(fragment), state.backups.get(fragment)
        kept = state.recovered.get(fragment)
        if primary is not None:
            yield _of_primary(node, primary)
        elif backup is not None:
            yield _of_backup(state, fragment, backup)
        elif kept is not None:
            yield _of_kept(state, fragment, kept)


def _of_primary(node: Node, primary: Primary) -> CopyOverview:
    state, fragment = node.state, primary.fragment
    identity = fragment.fragment_id
    absent = fragment.tracked.absent if fragment.tracked is not None else {}
    reading, at_hand = node.copies.reading.bytes_asked(identity), fragment.bytes_at_hand
    pages = state.pages.known(identity)
    if pages is not None:
        reading += sum(pages.under_way.values())
        at_hand += sum([page.size for page in pages.pages])
    age = _age_of(state, fragment)
    weight = weight_of(state.plan, identity)
    return CopyOverview(
        fragment=identity,
        role=CopyRole.PRIMARY,
        messages=fragment.ready_count + fragment.unacked_count,
        stowed_messages=fragment.stowed_count + len(absent),
        memory_bytes=footprint.of_fragment(fragment),
        stowed_bytes=fragment.stowed_bytes,
        journal_bytes=weight.size,
        journal_segments=weight.segments,
        dead_bytes=weight.dead,
        scratch_bytes=state.scratch.bytes_of(identity),
        reading_bytes=reading,
        at_hand_bytes=at_hand,
        age_ms=age.at_least if age is not None else None,
        age_ms_max=age.at_most if age is not None else None,
        stream=_stream_of(state, primary),
        last=fragment.last,
        last_reign=reign_of(fragment.last),
        shape=shape_of(node, primary),
    )


def _age_of(state: NodeState, fragment: Fragment) -> Age | None:
    """How old the message is that is next in line; None: none waits."""
    position = first_in_line(fragment)
    if position is None:
        return None
    age = state.ages.of(fragment.fragment_id, position, state.now_ms)
    log = fragment.log
    if log is None or not log.came:
        return age
    # What came when is noted of some messages of a stream, and outlives a reign.
    noted, note = next(iter(log.came.items()))
    if noted < position:
        return age
    known = max(age.at_least, state.unix_ms - (note >> 1))
    return Age(known, known if noted == position and age.at_most is None else age.at_most)


def _stream_of(state: NodeState, primary: Primary) -> StreamOverview | None:
    log, fresh = primary.fragment.log, primary.fragment.fresh
    info = state.map.fragments.get(primary.fragment.fragment_id)
    if log is None or info is None:
        return None
    base, segments, readers = base_of(info), log.segments(), state.readers_of(info.queue, info.id)
    return StreamOverview(
        first_offset=max(0, fresh.first - base) if fresh.count else None,
        last_offset=max(0, segments[-1].last - base) if fresh.count else None,
        segments=len(segments) if fresh.count else 0,
        size=log.size,
        readers=len(readers.cursors) if readers is not None else 0,
    )


def _of_backup(state: NodeState, fragment: FragmentId, backup: Backup) -> CopyOverview:
    replica, last = backup.replica, backup.last_held
    weight = weight_of(state.plan, fragment)
    return CopyOverview(
        fragment=fragment,
        role=CopyRole.BACKUP,
        messages=replica.count,
        stowed_messages=replica.stowed.count + replica.scratched.count,
        memory_bytes=footprint.of_replica(replica),
        stowed_bytes=replica.stowed.bytes_held + replica.scratched.bytes_held,
        journal_bytes=weight.size,
        journal_segments=weight.segments,
        dead_bytes=weight.dead,
        scratch_bytes=state.scratch.bytes_of(fragment),
        whole=backup.whole,
        last=last,
        last_reign=reign_of(last),
    )


def _of_kept(state: NodeState, fragment: FragmentId, kept: RecoveredFragment) -> CopyOverview:
    weight = weight_of(state.plan, fragment)
    stowed = sum([size for _, _, size in kept.stowed])
    return CopyOverview(
        fragment=fragment,
        role=CopyRole.KEPT,
        messages=kept.count,
        stowed_messages=kept.count - len(kept.messages),
        memory_bytes=kept.size - stowed,
        stowed_bytes=stowed,
        journal_bytes=weight.size,
        journal_segments=weight.segments,
        dead_bytes=weight.dead,
        scratch_bytes=state.scratch.bytes_of(fragment),
        whole=kept.whole,
        last=kept.last,
        last_reign=reign_of(kept.last),
    )
