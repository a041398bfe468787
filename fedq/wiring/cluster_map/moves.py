"""Drained nodes and planned moves: what is wished of the map (docs/adr/0082).

Inputs: the map and a committed operation; or another change after which a wish is fulfilled, or
cannot be. Output: its result; changes are appended to the map's. How far a move has come is said
nowhere: what the map says of copies is that.
"""

from typing import assert_never

from fedq.core.errors import NOT_FOUND, PRECONDITION_FAILED, Refused
from fedq.core.ids import FragmentId, NodeId
from fedq.wiring.cluster_map.operations_moves import (
    DrainChanged,
    DrainNode,
    MoveChanged,
    MoveFragment,
    MovingOperation,
    UndrainNode,
)
from fedq.wiring.cluster_map.state import MapState, Ok


def apply(state: MapState, operation: MovingOperation) -> Ok | Refused:
    """Carries out one operation, or refuses it and changes nothing."""
    match operation:
        case DrainNode():
            return _drain(state, operation)
        case UndrainNode():
            return _undrain(state, operation.node)
        case MoveFragment():
            return _move(state, operation)
        case _:
            assert_never(operation)


def end_move(state: MapState, fragment: FragmentId) -> None:
    """Ends the wish for a fragment, if there is one."""
    if state.moves.pop(fragment, None) is not None:
        state.changes.append(MoveChanged(fragment))


def note_primary(state: MapState, fragment: FragmentId) -> None:
    """Ends the wish for a fragment that is led by the node that is to lead it."""
    if state.moves.get(fragment) == state.fragments[fragment].primary:
        end_move(state, fragment)


def end_moves_to(state: MapState, node: NodeId) -> None:
    """Gives up all moves to a node that cannot, or must not, lead them."""
    for fragment in [number for number, target in state.moves.items() if target == node]:
        end_move(state, fragment)


def refuse_drain(state: MapState, node: NodeId) -> Refused | None:
    """Why the node cannot be drained; None: it can."""
    if node not in state.members:
        return _no_member(state, node)
    left = [other for other in state.members_up() if other != node and other not in state.drained]
    if left:
        return None
    return Refused(
        PRECONDITION_FAILED,
        f"node '{node}' cannot be drained: no other node is up and not drained, so nobody could "
        "take what it has; undrain or start another one first",
    )


def refuse_move(state: MapState, fragment: FragmentId, node: NodeId) -> Refused | None:
    """Why the fragment cannot be moved to that node; None: it can."""
    if fragment not in state.fragments:
        return Refused(NOT_FOUND, f"no fragment {fragment}")
    member = state.members.get(node)
    if member is None:
        return _no_member(state, node)
    if not member.up:
        return Refused(
            PRECONDITION_FAILED, f"node '{node}' is down: start it, or move to another one"
        )
    if node in state.drained:
        return Refused(
            PRECONDITION_FAILED, f"node '{node}' is drained: undrain it, or move to another one"
        )
    return None


def _no_member(state: MapState, node: NodeId) -> Refused:
    known = ", ".join(sorted(state.members)) or "none"
    return Refused(NOT_FOUND, f"no member '{node}'; there are {known}")


def _drain(state: MapState, operation: DrainNode) -> Ok | Refused:
    node = operation.node
    known = state.drained.get(node)
    if known == operation.closing:
        return Ok()
    refusal = refuse_drain(state, node) if known is None else None
    if refusal is not None:
        return refusal
    state.drained[node] = operation.closing
    state.changes.append(DrainChanged(node))
    end_moves_to(state, node)
    return Ok(1)


def _undrain(state: MapState, node: NodeId) -> Ok | Refused:
    if node not in state.members:
        return _no_member(state, node)
    if node not in state.drained:
        return Ok()
    del state.drained[node]
    state.changes.append(DrainChanged(node))
    return Ok(1)


def _move(state: MapState, operation: MoveFragment) -> Ok | Refused:
    fragment, node = operation.fragment, operation.node
    if not node:
        before = len(state.changes)
        end_move(state, fragment)
        return Ok(len(state.changes) - before)
    refusal = refuse_move(state, fragment, node)
    if refusal is not None:
        return refusal
    if state.fragments[fragment].primary == node:
        end_move(state, fragment)
        return Ok()
    if state.moves.get(fragment) == node:
        return Ok()
    state.moves[fragment] = node
    state.changes.append(MoveChanged(fragment))
    return Ok(1)
