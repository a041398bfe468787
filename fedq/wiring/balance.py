"""Moving backups from busy nodes to idle ones, when there is nothing more urgent.

Input: the leader's view and the map; output: a few `SetCopies`, each of which lets one more node
join a fragment. Once it is in sync, `fedq.wiring.repairs` drops the copy on the busiest node.

A move makes the difference between two nodes smaller and covers no fewer zones, so moving ends.
"""

from typing import Final

from fedq.core.ids import NodeId
from fedq.wiring.cluster_map import ClusterMap
from fedq.wiring.operations import Operation, SetCopies
from fedq.wiring.placement import fragment_subject, weight, zones_covered
from fedq.wiring.state import FragmentInfo
from fedq.wiring.view import View

#: Backups that move at a time.
MOVES_IN_FLIGHT_MAX: Final = 4
#: A node with so many copies fewer than another takes one over.
DIFFERENCE_MIN: Final = 2


def balance(view: View, cluster: ClusterMap) -> list[Operation]:
    """The moves to begin now."""
    candidates = view.proven(view.up)
    if len(candidates) < DIFFERENCE_MIN:
        return []
    in_flight = _count_in_flight(view, cluster)
    moves: list[Operation] = []
    for info in cluster.fragments.values():
        if in_flight >= MOVES_IN_FLIGHT_MAX:
            break
        replicas = cluster.queues[info.queue].replicas
        if not info.backups or not len(info.copies) == len(view.hot(info)) == replicas:
            continue
        target = _target(view, info, candidates)
        if target is None:
            continue
        moves.append(
            SetCopies(
                info.id,
                info.epoch,
                info.primary,
                (*info.backups, target),
                tuple(info.in_sync.items()),
                restart=False,
            )
        )
        in_flight += 1
    return moves


def _count_in_flight(view: View, cluster: ClusterMap) -> int:
    """How many moves are under way; the copies they will drop are no longer counted."""
    in_flight = 0
    for info in cluster.fragments.values():
        if len(info.copies) > cluster.queues[info.queue].replicas:
            in_flight += 1
            view.copies[view.surplus(info.primary, info.backups)] -= 1
    return in_flight


def _target(view: View, info: FragmentInfo, candidates: list[NodeId]) -> NodeId | None:
    """The node that should take over the copy of the busiest backup; counts the move in."""
    busiest = max(info.backups, key=lambda node: (view.copies[node], node))
    limit = view.copies[busiest] - DIFFERENCE_MIN
    covered = zones_covered(info.copies, view.zones)
    stay = [node for node in info.copies if node != busiest]
    fitting = [
        node
        for node in candidates
        if view.copies[node] <= limit
        and node not in info.copies
        and zones_covered([*stay, node], view.zones) >= covered
    ]
    if not fitting:
        return None
    subject = fragment_subject(info.id)
    target = min(fitting, key=lambda node: (view.copies[node], -weight(subject, node), node))
    view.copies[target] += 1
    view.copies[busiest] -= 1
    return target
