"""Moving backups off crowded hosts, and from busy nodes to idle ones, if nothing is more urgent.

Input: the leader's view and the map; output: a few `SetCopies`, each of which lets one more node
join a fragment. Once it is in sync, `fedq.wiring.failover.repairs` drops the copy without which the
others are furthest apart, of several the one on the busiest node.

A move has a fragment's copies on more hosts, or makes the difference between two nodes smaller and
covers no fewer hosts and zones: so moving ends.
"""

from typing import Final

from fedq.core.ids import NodeId
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations import Operation, SetCopies
from fedq.wiring.cluster_map.placement import Spread, choose, fragment_subject, spread, weight
from fedq.wiring.cluster_map.state import FragmentInfo
from fedq.wiring.failover.repairs import MOVES_IN_FLIGHT_MAX
from fedq.wiring.failover.view import View

#: A node with so many copies fewer than another takes one over.
DIFFERENCE_MIN: Final = 2


class Balance:
    """The moves to begin now: first all fragments are counted, then each may move."""

    __slots__ = ("_candidates", "_cluster", "_in_flight", "_view")

    def __init__(self, view: View, cluster: ClusterMap) -> None:
        self._view = view
        self._cluster = cluster
        self._candidates = [node for node in view.proven(view.up) if view.is_open(node)]
        self._in_flight = 0

    @property
    def is_possible(self) -> bool:
        """Whether there is anywhere to move to."""
        return len(self._candidates) >= DIFFERENCE_MIN

    @property
    def is_full(self) -> bool:
        """Whether no further move should begin."""
        return self._in_flight >= MOVES_IN_FLIGHT_MAX

    def count(self, info: FragmentInfo) -> None:
        """Counts a move that is under way; the copy that it will drop is no longer counted."""
        view = self._view
        if len(info.copies) > self._cluster.queues[info.queue].replicas:
            self._in_flight += len(view.hot(info)) < len(info.copies)
            view.copies[view.surplus(info.primary, info.backups)] -= 1

    def move(self, info: FragmentInfo) -> list[Operation]:
        """The move of a copy of this fragment, if one should begin."""
        replicas = self._cluster.queues[info.queue].replicas
        if not self._view.proven((info.primary,)):
            return []  # nobody can copy from it, see `fedq.wiring.failover.repairs`
        if self._view.is_to_move(info):
            return []  # and not otherwise
        if not info.backups or not len(info.copies) == len(self._view.hot(info)) == replicas:
            return []
        target = _further(self._view, info, self._candidates)
        if target is None:
            target = _target(self._view, info, self._candidates)
        if target is None:
            return []
        self._in_flight += 1
        backups, in_sync = (*info.backups, target), tuple(info.in_sync.items())
        return [SetCopies(info.id, info.epoch, info.primary, backups, in_sync, restart=False)]


def _further(view: View, info: FragmentInfo, candidates: list[NodeId]) -> NodeId | None:
    """Takes a node on another host, if two copies are on one; counts the move in."""
    sites = view.sites
    hosts = {sites[node]: None for node in info.copies}
    if len(hosts) == len(info.copies):
        return None
    going = view.surplus(info.primary, info.backups)
    stay = [node for node in info.copies if node != going]
    free = {node: sites[node] for node in candidates if sites[node] not in hosts}
    if not free or len({sites[node] for node in stay}) < len(hosts):
        return None
    places = free | {node: sites[node] for node in stay}
    target = choose(fragment_subject(info.id), places, stay, 1, view.copies)[0]
    view.copies[target] += 1
    view.copies[going] -= 1
    return target


def _target(view: View, info: FragmentInfo, candidates: list[NodeId]) -> NodeId | None:
    """Takes the node that should get the copy of the busiest backup; counts the move in."""
    busiest = max(info.backups, key=lambda node: (view.copies[node], node))
    limit = view.copies[busiest] - DIFFERENCE_MIN
    covered = spread(info.copies, view.sites)
    stay = [node for node in info.copies if node != busiest]
    fitting = [
        node
        for node in candidates
        if view.copies[node] <= limit
        and node not in info.copies
        and _covers(spread([*stay, node], view.sites), covered)
    ]
    if not fitting:
        return None
    subject = fragment_subject(info.id)
    target = min(fitting, key=lambda node: (view.copies[node], -weight(subject, node), node))
    view.copies[target] += 1
    view.copies[busiest] -= 1
    return target


def _covers(after: Spread, before: Spread) -> bool:
    """Whether as many hosts are covered as before, and as many zones."""
    return after.hosts >= before.hosts and after.zones >= before.zones
