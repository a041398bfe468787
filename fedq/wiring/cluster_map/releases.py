"""The version that the cluster speaks, of all that nodes say to each other.

Inputs: the map and a committed `Speaks`. Output: its result; changes are appended to the map's. The
version rises when every member of the map has said that it can, and never falls: commands and
messages of that version may be under way, or in the log. A process that cannot speak it is refused.
With version 12 the cluster gets a name of its own, for good (docs/adr/0074).
"""

from fedq.core.errors import PRECONDITION_FAILED, Refused
from fedq.core.ids import QueueKey
from fedq.core.versions import NAMES_OF_CLUSTERS, TRACING, misfit
from fedq.wiring.cluster_map.operations_members import Speaks
from fedq.wiring.cluster_map.state import ExchangeAdded, MapState, MemberSpeaks, Ok


def apply(state: MapState, operation: Speaks) -> Ok | Refused:
    """Notes what a process speaks, or refuses it and changes nothing."""
    node, said = operation.node, (operation.oldest, operation.newest)
    known = state.members.get(node)
    if known is None or known.incarnation != operation.incarnation:
        return Refused(
            PRECONDITION_FAILED,
            f"process {operation.incarnation} of node '{node}' is not the newest that is known",
        )
    cluster = state.cluster_version
    if operation.oldest > operation.newest:
        return Refused(PRECONDITION_FAILED, f"node '{node}' speaks no version at all")
    # Its range stands for this node's, too: on all nodes the answer must be the same.
    unfit = misfit(node, said, cluster, said)
    if unfit is not None:
        return Refused(PRECONDITION_FAILED, unfit)
    if state.speaks.get(node) == said:
        return Ok()
    state.speaks[node] = said
    newest = min(state.speaks.get(other, (0, 0))[1] for other in state.members)
    state.cluster_version = max(cluster, newest)
    if not state.cluster_name and state.cluster_version >= NAMES_OF_CLUSTERS:
        # Whoever completes it: nobody else has that random number, and all nodes know it.
        state.cluster_name = known.start
    state.changes.append(MemberSpeaks(node))
    if cluster < TRACING <= state.cluster_version:
        for vhost in state.vhosts:
            name = state.add_trace_exchange(vhost)
            state.changes.append(ExchangeAdded(QueueKey(vhost, name)))
    return Ok(1)
