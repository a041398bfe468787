"""Members and eras: what becomes of the map when processes come and go.

Inputs: the map and a committed `MemberUp`, `MemberDown` or `NewEra`. Output: its result; changes
are appended to the map's.

Copies of fragments stay as they are when a member goes: `SetCopies` moves them, so that each
change of a fragment has an epoch. The exception is a process that comes up *behind*: on a data
directory that did not go on from the process before it (restored, emptied, somebody else's). Its
copies leave the in-sync sets in the same commit (docs/adr/0031-who-a-process-is.md). What a gone
*process* held alone (claimed names, its mark on exchanges with private bindings) goes with it, as
do moves to it.

Who was let into a running cluster comes up on the data directory that was let in, and on no other
one: a machine that was forgotten does not take the place of its successor.

An *era* lasts as long as at least one process lives that knew it: non-durable exchanges and queues
last as long as their era. The leader lets a process that came up join the era (`JoinEra`) once it
has heard a process of the era: after a stop of all nodes the map still takes them for up. So does a
primary of the era, with the copy that it takes into an in-sync set.
"""

from dataclasses import replace
from typing import assert_never

from fedq.core.errors import PRECONDITION_FAILED, Refused
from fedq.core.ids import NodeId
from fedq.core.versions import DIRECTORIES
from fedq.wiring.cluster_map import releases, roster
from fedq.wiring.cluster_map.bindings import remove_exchange, remove_queue
from fedq.wiring.cluster_map.copies import leave_sync
from fedq.wiring.cluster_map.operations import (
    JoinEra,
    MemberDown,
    MemberOperation,
    MemberUp,
    NewEra,
)
from fedq.wiring.cluster_map.operations_members import (
    AdmitNode,
    ForgetNode,
    NameVoters,
    PromoteNode,
    ReplaceVoter,
    Speaks,
)
from fedq.wiring.cluster_map.processes import forget_process
from fedq.wiring.cluster_map.state import (
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
        case Speaks():
            return releases.apply(state, operation)
        case NameVoters() | AdmitNode() | PromoteNode() | ForgetNode() | ReplaceVoter():
            return roster.apply(state, operation)
        case _:
            assert_never(operation)


def _member_up(state: MapState, operation: MemberUp) -> Ok | Refused:
    node, incarnation = operation.node, operation.incarnation
    known = state.members.get(node)
    refusal = _refuse_directory(state, operation)
    if refusal is None and known is not None:
        refusal = _refuse_process(known, operation)
    elif refusal is None:
        refusal = _refuse_stranger(state, node) or state.refuse_if_full(by_operator=True)
    if refusal is not None:
        return refusal
    # What its directory is worth was judged as it came up: a question that it asked before it had
    # read all of the map, and that arrives after the right one, is no judgement.
    is_known = known is not None and _is_same(known, operation)
    behind = known.behind if known is not None and is_known else operation.behind
    stays = known is not None and known.up and known.incarnation == incarnation
    if known is not None and known.incarnation < incarnation:
        forget_process(state, node)
    member = Member(
        incarnation,
        True,
        known.up_version if known is not None and stays else state.version,
        operation.peer_address,
        operation.amqp_address,
        operation.zone,
        operation.start,
        operation.started_ms,
        behind,
    )
    if member == known:
        return Ok()
    state.members[node] = member
    roster.note_address(state, node, member.peer_address)
    roster.spread_votes(state, node)
    if behind and not is_known:
        # Before the others begin a session with it: by then they must know what they lead.
        leave_sync(state, node)
    state.changes.append(MemberChanged(node))
    if not state.era:
        state.era_number = 1
        state.changes.append(EraChanged(state.era_number))
        state.era[node] = incarnation
    return Ok(1)


def _is_same(known: Member, operation: MemberUp) -> bool:
    return (operation.incarnation, operation.start) == (known.incarnation, known.start)


def _refuse_directory(state: MapState, operation: MemberUp) -> Refused | None:
    """Why a process is not of the node that was let in under its name; None: it may be.

    Who was forgotten, and has the data directory of before, would take the place of its successor.
    """
    place = state.roster.get(operation.node)
    if place is None or not place.directory or state.cluster_version < DIRECTORIES:
        return None
    if operation.directory == place.directory:
        return None
    return Refused(
        PRECONDITION_FAILED,
        f"node '{operation.node}' of this cluster has another data directory: to be of it this "
        "process needs an empty data directory, a name of its own, and `join` in its configuration",
    )


def _refuse_stranger(state: MapState, node: NodeId) -> Refused | None:
    """Why a node without a process in the map is not of this cluster; None: it is."""
    if not state.roster or node in state.roster:
        return None
    if node in state.forgotten:
        return Refused(
            PRECONDITION_FAILED,
            f"node '{node}' was taken out of this cluster (`fedq cluster forget`): to come back as "
            "a new node it needs an empty data directory, and `join` in its configuration",
        )
    return Refused(
        PRECONDITION_FAILED,
        f"node '{node}' is not of this cluster: name one of its nodes under `join`",
    )


def _refuse_process(known: Member, operation: MemberUp) -> Refused | None:
    """Why this process may not take the place of the one that the map knows."""
    node, incarnation = operation.node, operation.incarnation
    if _is_same(known, operation):
        return None
    if known.incarnation >= incarnation:
        return Refused(
            PRECONDITION_FAILED,
            f"node '{node}' has already started {known.incarnation} times, so its start number "
            f"{incarnation} is from an older data directory or another node of that name",
        )
    if not operation.start:
        return None
    if (operation.known, operation.known_start) != (known.incarnation, known.start):
        return Refused(
            PRECONDITION_FAILED,
            f"process {incarnation} of node '{node}' has not heard of process {known.incarnation}",
        )
    if operation.behind and known.up:
        return Refused(
            PRECONDITION_FAILED,
            f"process {known.incarnation} of node '{node}' is up: process {incarnation}, whose "
            "data directory is not that one's, may not replace it",
        )
    return None


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
    forget_process(state, node)
    state.members[node] = replace(member, up=False)
    state.changes.append(MemberChanged(node))
    return Ok(1)


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
