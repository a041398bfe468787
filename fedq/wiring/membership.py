"""Members and eras: what becomes of the map when processes come and go.

Inputs: the map and a committed `MemberUp`, `MemberDown` or `NewEra`. Output: its result; changes
are appended to the map's.

Copies of fragments stay as they are when a member goes: only `SetCopies` moves them, so that each
change of a fragment has an epoch. What a gone *process* held alone (claimed names, its mark on
exchanges with private bindings) goes with it.

An *era* lasts as long as at least one process lives that knew it: non-durable exchanges and queues
last as long as their era. The leader lets a process that came up join the era (`JoinEra`) once it
has heard a process of the era: after a stop of all nodes the map still takes them for up.
"""

from typing import assert_never

from fedq.core.errors import PRECONDITION_FAILED, Refused
from fedq.core.ids import NodeId, QueueKey
from fedq.wiring.bindings import remove_bindings, remove_exchange, remove_queue
from fedq.wiring.operations import (
    JoinEra,
    MemberDown,
    MemberOperation,
    MemberUp,
    NewEra,
)
from fedq.wiring.state import (
    ClaimReleased,
    EraChanged,
    MapState,
    Member,
    MemberChanged,
    Ok,
)


def apply(state: MapState, operation: MemberOperation) -> Ok | Refused:
    """Carries out one operation, or refuses it and changes nothing."""
    match operation:
        case MemberUp():
            return _member_up(state, operation)
        case MemberDown():
            return _member_down(state, operation)
        case JoinEra():
            return _join_era(state, operation)
        case NewEra():
            return _new_era(state)
        case _:
            assert_never(operation)


def _member_up(state: MapState, operation: MemberUp) -> Ok | Refused:
    node, incarnation = operation.node, operation.incarnation
    known = state.members.get(node)
    if known is not None and known.incarnation > incarnation:
        return Refused(
            PRECONDITION_FAILED,
            f"node '{node}' has already started {known.incarnation} times, so its start number "
            f"{incarnation} is from an older data directory or another node of that name",
        )
    if known is None and (refusal := state.refuse_if_full()):
        return refusal
    stays = known is not None and known.up and known.incarnation == incarnation
    if known is not None and known.incarnation < incarnation:
        _forget_process(state, node)
    member = Member(
        incarnation,
        True,
        known.up_version if known is not None and stays else state.version,
        operation.peer_address,
        operation.amqp_address,
        operation.zone,
    )
    if member == known:
        return Ok()
    state.members[node] = member
    state.changes.append(MemberChanged(node))
    if not state.era:
        state.era_number = 1
        state.changes.append(EraChanged(state.era_number))
        state.era[node] = incarnation
    return Ok(1)


def _join_era(state: MapState, operation: JoinEra) -> Ok | Refused:
    node, incarnation = operation.node, operation.incarnation
    if not state.is_up(node, incarnation):
        return Refused(PRECONDITION_FAILED, f"process {incarnation} of node '{node}' is not up")
    if not state.era_is_alive():
        return Refused(PRECONDITION_FAILED, "the era is over: none of its processes is up")
    if state.era.get(node) == incarnation:
        return Ok()
    state.era[node] = incarnation
    state.changes.append(MemberChanged(node))
    return Ok(1)


def _member_down(state: MapState, operation: MemberDown) -> Ok | Refused:
    node = operation.node
    member = state.members.get(node)
    if member is None or member.incarnation != operation.incarnation:
        return Refused(
            PRECONDITION_FAILED,
            f"process {operation.incarnation} of node '{node}' is not the one in the map",
        )
    if not member.up:
        return Ok()
    _forget_process(state, node)
    state.members[node] = Member(
        member.incarnation,
        False,
        member.up_version,
        member.peer_address,
        member.amqp_address,
        member.zone,
    )
    state.changes.append(MemberChanged(node))
    return Ok(1)


def _forget_process(state: MapState, node: NodeId) -> None:
    """Releases what the node's newest process held alone; does nothing the second time."""
    for key in [key for key, claim in state.claims.items() if claim.node == node]:
        state.changes.append(ClaimReleased(key, state.claims.pop(key)))
    for vhost in state.vhosts:
        marks = state.bindings_of_destination.get(("node", QueueKey(vhost, node)), {})
        remove_bindings(state, list(marks))


def _new_era(state: MapState) -> Ok | Refused:
    if state.era_is_alive():
        return Refused(PRECONDITION_FAILED, "the era goes on: one of its processes is up")
    up = {node: member.incarnation for node, member in state.members.items() if member.up}
    if not up:
        return Refused(PRECONDITION_FAILED, "no member is up to begin a new era")
    for key in [key for key, queue in state.queues.items() if not queue.durable]:
        remove_queue(state, key)
    for key in [key for key, exchange in state.exchanges.items() if not exchange.durable]:
        remove_exchange(state, key)
    state.era = up
    state.era_number += 1
    state.changes.append(EraChanged(state.era_number))
    return Ok(1)
