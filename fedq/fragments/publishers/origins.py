"""Origins of publishes, and up to which number of theirs a copy has everything.

Input: what is known of origins. Changes it.
"""

from fedq.core.ids import NodeId, Origin


def forget_origins(origins: dict[Origin, int], node: NodeId, before: int) -> None:
    """Forgets the origins of the node's earlier processes: nobody asks for them any more."""
    for origin in [o for o in origins if o.node == node and o.incarnation < before]:
        del origins[origin]
