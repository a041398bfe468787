"""The doors of a new cluster, which stay closed until so many members have come up.

Inputs: the map, `cluster_size` of the configuration. Output: why clients are not let in yet. A
cluster is new as long as nothing was ever declared in it: what stands in its map has been served.
Who has come up once counts, whether it is up now or was forgotten since: doors that are open do not
close again.
"""

from fedq.node.records.state import NodeState


def why_closed(state: NodeState) -> str | None:
    """Why this node lets no clients in, in a sentence; None: it does."""
    wanted, known = state.settings.cluster_size, state.map
    if wanted <= 1 or state.joined or known.queues or known.claims or known.bindings:
        return None
    gone = [node for node, process in known.forgotten.items() if process]
    there = len({*known.members, *gone})
    if there >= wanted:
        return None
    return (
        f"this cluster is new and lets clients in once {wanted} members have come up "
        f"(cluster_size); {there} {'has' if there == 1 else 'have'}"
    )
