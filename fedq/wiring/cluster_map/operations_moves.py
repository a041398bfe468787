"""The replicated operations on drained nodes and planned moves, their forms, and their changes.

A part of `fedq.wiring.cluster_map.operations`, which carries them in commands; what they do is in
`fedq.wiring.cluster_map.moves`. None is proposed before the cluster speaks
`versions.PLANNED_MOVES`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from fedq.core.ids import FragmentId, NodeId
from fedq.wiring.cluster_map.operation_fields import Check, flag, name, number, text


@dataclass(frozen=True, slots=True)
class DrainNode:
    """The node is to hold nothing from now on, and gets no clients."""

    node: NodeId
    #: Those that it has are to leave.
    closing: bool


@dataclass(frozen=True, slots=True)
class UndrainNode:
    """The node may hold something again."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class MoveFragment:
    """The fragment is to be led by this node; by "": it stays where it is."""

    fragment: FragmentId
    node: NodeId


class DrainChanged(NamedTuple):
    """A node was drained, or is so no more."""

    node: NodeId


class MoveChanged(NamedTuple):
    """A fragment is to move, or need not any more."""

    fragment: FragmentId


MovingOperation: TypeAlias = DrainNode | UndrainNode | MoveFragment

#: Name on the wire -> the operation's class and the check of each field.
MOVING_FORMS: Final[dict[str, tuple[Callable[..., MovingOperation], dict[str, Check]]]] = {
    "drain_node": (DrainNode, {"node": name, "closing": flag}),
    "undrain_node": (UndrainNode, {"node": name}),
    "move_fragment": (MoveFragment, {"fragment": number, "node": text}),
}
