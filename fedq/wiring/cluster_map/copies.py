"""The copies of fragments: creating, retiring, and the one compare-and-set of who holds which.

Inputs: the map and a committed `AddFragment`, `RetireIdle`, `ShapeQueue`, `SetCopies` or
`AdoptCopy`. Output: its result; changes are appended to the map's.

What keeps confirmed messages safe is decided here, whoever proposes:

* a new primary is in sync and its process is up, so it holds everything confirmed;
* a copy comes into sync only while primary and epoch stay the same, and only the process that the
  proposer saw: a restart in between voids it;
* a primary without memory serves again (`restart`) only from a copy that was in sync, and only
  when no in-sync copy still has its memory; the other copies then catch up from it;
* another copy comes to count by an operator's word alone (`AdoptCopy`), and only while the nodes of
  all that are in sync are down.
"""

from typing import assert_never

from fedq.core import limits
from fedq.core.errors import NOT_FOUND, PRECONDITION_FAILED, RESOURCE_ERROR, Refused
from fedq.core.ids import Epoch, FragmentId, MapVersion, NodeId, QueueKey
from fedq.core.versions import EVEN_PLACEMENT
from fedq.wiring.cluster_map.moves import end_move, note_primary
from fedq.wiring.cluster_map.operations import (
    AddFragment,
    FragmentOperation,
    RetireFragment,
    SetCopies,
    arguments_of,
)
from fedq.wiring.cluster_map.operations_copies import (
    AdoptCopy,
    RetireIdle,
    ShapeChanged,
    ShapeQueue,
)
from fedq.wiring.cluster_map.placement import Site, choose, fragment_subject
from fedq.wiring.cluster_map.queue_arguments import STREAM
from fedq.wiring.cluster_map.state import (
    FragmentAdded,
    FragmentChanged,
    FragmentInfo,
    FragmentRemoved,
    MapState,
    Ok,
)


def apply(state: MapState, operation: FragmentOperation) -> Ok | Refused:
    """Carries out one operation, or refuses it and changes nothing."""
    match operation:
        case AddFragment():
            return _add(state, operation)
        case RetireFragment() | RetireIdle():
            return _retire(state, operation)
        case SetCopies():
            return _set_copies(state, operation)
        case AdoptCopy():
            return _adopt(state, operation)
        case ShapeQueue():
            return _shape(state, operation)
        case _:
            assert_never(operation)


def leave_sync(state: MapState, node: NodeId) -> None:
    """Takes the node's copies out of sync, wherever another is: what its disk has is old.

    If it was to lead, the next copy in sync leads. Where it is the only one it stays: nobody else
    has those messages.
    """
    _leave(state, node, keeps=True)


def leave_copies(state: MapState, node: NodeId) -> None:
    """As `leave_sync`, for a node that holds no copies at all from now on."""
    _leave(state, node, keeps=False)


def only_copies_of(state: MapState, node: NodeId) -> list[FragmentId]:
    """The fragments that have no copy in sync but the node's."""
    return [number for number, info in state.fragments.items() if [*info.in_sync] == [node]]


def _leave(state: MapState, node: NodeId, *, keeps: bool) -> None:
    for info in list(state.fragments.values()):
        holds = node in info.in_sync if keeps else node in info.copies
        if not holds or [*info.in_sync] == [node]:
            continue
        in_sync = {other: number for other, number in info.in_sync.items() if other != node}
        epoch = Epoch(info.epoch + 1)
        primary, reign = info.primary, info.reign
        if primary == node:
            hot = [other for other, number in in_sync.items() if state.is_up(other, number)]
            primary, reign = next(iter((*hot, *in_sync))), epoch
        gone = (primary,) if keeps else (primary, node)
        backups = tuple(other for other in info.copies if other not in gone)
        after = FragmentInfo(
            info.id, info.queue, primary, backups, in_sync, epoch, reign, info.created
        )
        state.fragments[info.id] = after
        state.changes.append(FragmentChanged(info.id, info, after))
        note_primary(state, info.id)


def copies_held(state: MapState) -> dict[NodeId, int]:
    """How many copies each node has, for placing further ones; nothing for older releases."""
    return dict(state.copies_of) if state.cluster_version >= EVEN_PLACEMENT else {}


def create_fragment(
    state: MapState, key: QueueKey, primary: NodeId, held: dict[NodeId, int],
    sites: dict[NodeId, Site],
) -> FragmentId:  # fmt: skip
    """Creates a fragment of an existing queue, led by `primary`, which is up, if not drained.

    `held`: see `copies_held`; the new copies are counted in. `sites`: the open ones.
    """
    number = FragmentId(state.next_fragment)
    state.next_fragment += 1
    queue = state.queues[key]
    if primary not in sites:
        # It is drained.
        primary = choose(fragment_subject(number), sites, [], 1, held)[0]
    backups = choose(fragment_subject(number), sites, [primary], queue.replicas - 1, held)
    if state.cluster_version >= EVEN_PLACEMENT:
        for node in (primary, *backups):
            held[node] = held.get(node, 0) + 1
    in_sync = {node: state.members[node].incarnation for node in (primary, *backups)}
    state.fragments[number] = FragmentInfo(
        number, key, primary, tuple(backups), in_sync, Epoch(1), 1, 1
    )
    state.queues[key] = queue.with_fragments([*queue.fragments, number])
    state.changes.append(FragmentAdded(number))
    return number


def _add(state: MapState, operation: AddFragment) -> Ok | Refused:
    key = QueueKey(operation.vhost, operation.queue)
    queue = state.queues.get(key)
    if queue is None:
        return Refused(NOT_FOUND, f"no queue '{key.name}' in vhost '{key.vhost}'")
    for number in queue.fragments:
        info = state.fragments[number]
        # One that waits for a process elsewhere serves nobody.
        if info.primary == operation.node and info.primary in state.hot_copies(info):
            return Ok(number)
    member = state.members.get(operation.node)
    if member is None or not member.up:
        return Refused(PRECONDITION_FAILED, f"node '{operation.node}' is not a member that is up")
    sites = state.open_sites()
    if operation.node not in sites:
        return Refused(PRECONDITION_FAILED, f"node '{operation.node}' is drained")
    if len(queue.fragments) >= limits.FRAGMENTS_PER_QUEUE_MAX:
        return Refused(
            RESOURCE_ERROR,
            f"queue '{key.name}' in vhost '{key.vhost}' has {limits.FRAGMENTS_PER_QUEUE_MAX} "
            "fragments already, the most a queue may have",
        )
    return state.refuse_if_full() or Ok(
        create_fragment(state, key, operation.node, copies_held(state), sites)
    )


def _retire(state: MapState, operation: RetireFragment | RetireIdle) -> Ok | Refused:
    info = _at_epoch(state, operation.fragment, operation.expected_epoch)
    if isinstance(info, Refused):
        return info
    queue = state.queues[info.queue]
    if len(queue.fragments) == 1:
        return _refused(info, "it is the only one of its queue")
    if isinstance(operation, RetireIdle):
        why = why_kept(state, info) or _why_not_quiet(state, operation.since)
        if why:
            return _refused(info, why)
    left = [number for number in queue.fragments if number != info.id]
    state.queues[info.queue] = queue.with_fragments(left)
    del state.fragments[info.id]
    end_move(state, info.id)
    state.changes.append(FragmentRemoved(info.id, info))
    return Ok(1)


def why_kept(state: MapState, info: FragmentInfo) -> str:
    """Why a fragment stays, whatever becomes of it; "" if it need not (ADR 0100, 0086)."""
    queue, shape = state.queues[info.queue], state.shapes.get(info.queue)
    if queue.fragments[0] == info.id:
        return "it is the first one of its queue"
    if shape is None and queue.is_fixed:
        return "the queue's declaration fixes their number ('x-fedq-fragments')"
    if shape and not is_surplus(state, info):
        return f"an operator has set their number to {shape} (`fedq queue shape`)"
    return ""


def is_surplus(state: MapState, info: FragmentInfo) -> bool:
    """Whether the fragment is one of the last of a queue that is to have fewer (ADR 0086)."""
    shape = state.shapes.get(info.queue, 0)
    return shape > 0 and info.id in state.queues[info.queue].fragments[shape:]


def refuse_shape(state: MapState, key: QueueKey) -> Refused | None:
    """Why nobody can set in how many fragments the queue is; None: an operator can."""
    queue = state.queues.get(key)
    if queue is None:
        return Refused(NOT_FOUND, f"no queue '{key.name}' in vhost '{key.vhost}'")
    if arguments_of(queue.arguments).get("x-queue-type") == STREAM:
        return Refused(
            PRECONDITION_FAILED,
            f"queue '{key.name}' in vhost '{key.vhost}' is a stream, and keeps its fragments: each "
            "routing key has its own, and its order there; declare another one with "
            "'x-fedq-fragments'",
        )
    return None


def _shape(state: MapState, operation: ShapeQueue) -> Ok | Refused:
    key, wanted = QueueKey(operation.vhost, operation.name), operation.fragments
    refusal = refuse_shape(state, key)
    if refusal is not None:
        return refusal
    there = state.queues[key].fragments
    sites = state.open_sites()
    taken = [state.fragments[number].primary for number in there]
    nodes = choose(f"queue {key.vhost}/{key.name}", sites, taken, max(0, wanted - len(there)))
    if state.shapes.get(key) == wanted and not nodes:
        return Ok()
    refusal = state.refuse_if_full(len(nodes), by_operator=True)
    if refusal is not None:
        return refusal
    if state.shapes.get(key) != wanted:
        state.shapes[key] = wanted
        state.changes.append(ShapeChanged("shapes", key))
    held = copies_held(state)
    for node in nodes:
        create_fragment(state, key, node, held, sites)
    return Ok(1)


def _why_not_quiet(state: MapState, since: MapVersion) -> str:
    """Why some member may not keep quiet as it said it would at that version; "" if all do."""
    for node, member in state.members.items():
        if not member.up:
            return f"node '{node}' is down"
        if member.up_version > since:
            return f"node '{node}' came up meanwhile"
    return ""


def _set_copies(state: MapState, operation: SetCopies) -> Ok | Refused:
    info = _at_epoch(state, operation.fragment, operation.expected_epoch)
    if isinstance(info, Refused):
        return info
    why = _why_not(state, info, operation)
    if why:
        return _refused(info, why)
    epoch = Epoch(info.epoch + 1)
    moved = operation.restart or operation.primary != info.primary
    after = FragmentInfo(
        info.id,
        info.queue,
        operation.primary,
        operation.backups,
        dict(operation.in_sync),
        epoch,
        epoch if moved else info.reign,
        info.created,
    )
    state.fragments[info.id] = after
    state.changes.append(FragmentChanged(info.id, info, after))
    note_primary(state, info.id)
    return Ok(1)


def _adopt(state: MapState, operation: AdoptCopy) -> Ok | Refused:
    info = _at_epoch(state, operation.fragment, operation.expected_epoch)
    if isinstance(info, Refused):
        return info
    for node in info.in_sync:
        member = state.members.get(node)
        if member is not None and member.up:
            return _refused(
                info, f"node '{node}' has a copy in sync and is up: it serves, or will in a moment"
            )
    if not state.is_up(operation.node, operation.incarnation):
        return _refused(
            info, f"process {operation.incarnation} of node '{operation.node}' is not up"
        )
    epoch = Epoch(info.epoch + 1)
    in_sync = {operation.node: operation.incarnation}
    after = FragmentInfo(
        info.id, info.queue, operation.node, (), in_sync, epoch, epoch, info.created
    )
    state.fragments[info.id] = after
    state.changes.append(FragmentChanged(info.id, info, after))
    note_primary(state, info.id)
    return Ok(1)


def _why_not(state: MapState, info: FragmentInfo, operation: SetCopies) -> str:
    """Why these copies would be wrong; "" if they are right."""
    primary, in_sync = operation.primary, dict(operation.in_sync)
    copies = (primary, *operation.backups)
    if len(in_sync) != len(operation.in_sync) or len(dict.fromkeys(copies)) != len(copies):
        return "a node is named twice"
    unknown = [node for node in copies if node not in state.members]
    if unknown:
        return f"node '{unknown[0]}' is not a member"
    if primary not in in_sync:
        return "its primary has to be in sync"
    if any(node not in copies for node in in_sync):
        return "a node is in sync without holding a copy"
    if primary not in info.in_sync:
        return f"node '{primary}' is not in sync and may not become primary"
    if operation.restart:
        return _why_no_restart(state, info, operation)
    joined = [node for node in in_sync if info.in_sync.get(node) != in_sync[node]]
    moved = primary != info.primary
    if primary in joined or (moved and not state.is_up(primary, in_sync[primary])):
        return f"node '{primary}' has lost its memory or is not up: only a restart serves from disk"
    if moved and joined:
        return f"node '{joined[0]}' cannot come into sync with a primary that is only now chosen"
    absent = [node for node in joined if not state.is_up(node, in_sync[node])]
    if absent:
        return f"process {in_sync[absent[0]]} of node '{absent[0]}' is gone"
    return ""


def _why_no_restart(state: MapState, info: FragmentInfo, operation: SetCopies) -> str:
    hot = state.hot_copies(info)
    if hot:
        return f"node '{next(iter(hot))}' still has it in memory"
    if len(operation.in_sync) != 1:
        return "after a restart only the primary is in sync"
    if not state.is_up(*operation.in_sync[0]):
        return f"process {operation.in_sync[0][1]} of node '{operation.primary}' is not up"
    return ""


def _at_epoch(state: MapState, number: FragmentId, expected: Epoch) -> FragmentInfo | Refused:
    info = state.fragments.get(number)
    if info is None:
        return Refused(NOT_FOUND, f"no fragment {number}")
    if info.epoch != expected:
        return _refused(info, f"it is at epoch {info.epoch}, not {expected}")
    return info


def _refused(info: FragmentInfo, why: str) -> Refused:
    return Refused(PRECONDITION_FAILED, f"cannot change fragment {info.id}: {why}")
