"""What the newest process of a node held alone, and what becomes of it when it is gone.

Inputs: the map, a node. Outputs: what is released, as changes appended to the map's.
"""

from fedq.core.ids import NodeId, QueueKey
from fedq.wiring.cluster_map.bindings import remove_bindings
from fedq.wiring.cluster_map.moves import end_moves_to
from fedq.wiring.cluster_map.state import ClaimReleased, MapState


def forget_process(state: MapState, node: NodeId) -> None:
    """Releases what the node's newest process held alone; does nothing the second time."""
    end_moves_to(state, node)
    for key in [key for key, claim in state.claims.items() if claim.node == node]:
        state.changes.append(ClaimReleased(key, state.claims.pop(key)))
    for vhost in state.vhosts:
        marks = state.bindings_of_destination.get(("node", QueueKey(vhost, node)), {})
        remove_bindings(state, list(marks))
