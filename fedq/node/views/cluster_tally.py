"""The members of the cluster, and totals over its fragments, which may be tens of thousands.

Inputs: the node's state, fragments, some at a time. Output: what `fedq cluster status` begins with.
What changes between two calls is counted as it was, or as it is, and no fragment twice.
"""

from collections.abc import Iterable
from dataclasses import replace

from fedq.core.ids import FragmentId, Incarnation, NodeId
from fedq.node.records.state import NodeState
from fedq.node.records.unserved import AwaitedTally
from fedq.node.views.overview_types import (
    ClusterOverview,
    MemberOverview,
    MemberRole,
    MemberState,
    Staying,
)
from fedq.wiring.cluster_map.state import FragmentInfo


def members_of(state: NodeState) -> tuple[MemberOverview, ...]:
    """All members without totals, ordered by node."""
    members = []
    places = {node: place.peer_address for node, place in state.map.roster.items()}
    places = places or state.settings.peers
    for node in sorted({**places, **state.map.members}):
        known = state.map.members.get(node)
        role = _role(state, node)
        if known is None:
            absent = MemberState.ABSENT
            members.append(
                MemberOverview(node, absent, Incarnation(0), "", places[node], "", None, role)
            )
            continue
        members.append(
            MemberOverview(
                node,
                MemberState.UP if known.up else MemberState.DOWN,
                known.incarnation,
                known.zone,
                known.peer_address,
                known.amqp_address,
                state.map.drained.get(node),
                role,
                state.map.speaks.get(node, (0, 0)),
            )
        )
    return tuple(members)


def _role(state: NodeState, node: NodeId) -> MemberRole:
    place = state.map.roster.get(node)
    if node in state.voters:
        return MemberRole.VOTER
    is_up = node in state.map.members
    return MemberRole.OBSERVER if place and not place.votes and is_up else MemberRole.JOINING


class ClusterTally:
    """The cluster's totals so far: while they are put together, turns of the node come between."""

    __slots__ = (
        "_alone",
        "_awaited",
        "_copies",
        "_leads",
        "_only",
        "_short",
        "_single",
        "_state",
        "_staying",
        "_unavailable",
        "_view",
    )

    def __init__(self, state: NodeState) -> None:
        self._state = state
        self._awaited = AwaitedTally(state)
        self._unavailable = 0
        self._short = 0
        self._alone: dict[NodeId, int] = {}
        self._leads: dict[NodeId, int] = {}
        self._copies: dict[NodeId, int] = {}
        self._staying: dict[NodeId, Staying] = {}
        self._only: dict[NodeId, int] = {}
        self._single: dict[NodeId, int] = {}

    def add(self, fragments: Iterable[FragmentId]) -> None:
        """Adds those of some fragments that are still there."""
        known = self._state.map
        up, members = len(known.members_up()), len(members_of(self._state))
        for fragment in fragments:
            info = known.fragments.get(fragment)
            if info is None:
                continue
            self._leads[info.primary] = self._leads.get(info.primary, 0) + 1
            for node in info.copies:
                self._copies[node] = self._copies.get(node, 0) + 1
            replicas = known.queues[info.queue].replicas
            if known.drained:
                self._count_staying(info, replicas)
            hot = known.hot_copies(info)
            if info.primary not in hot:
                self._unavailable += 1
                self._awaited.add(fragment)
            elif len(hot) < min(replicas, up):
                self._short += 1
            if len(hot) == 1:
                (only,) = hot
                counts = self._only if replicas > 1 else self._single
                counts[only] = counts.get(only, 0) + 1
            if len(info.in_sync) == 1 < min(replicas, members):
                only = next(iter(info.in_sync))
                self._alone[only] = self._alone.get(only, 0) + 1

    def _count_staying(self, info: FragmentInfo, replicas: int) -> None:
        """Counts a backup on a drained node that no other one could have."""
        drained, members = self._state.map.drained, self._state.map.members
        free = [
            node for node, member in members.items()
            if member.up and node not in drained and node not in info.copies
        ]  # fmt: skip
        elsewhere = sum(node not in drained for node in info.copies)
        if free or elsewhere >= replicas:
            return
        for node in info.backups:
            if node in drained:
                before = self._staying.get(node) or Staying(0, replicas, info.queue)
                self._staying[node] = replace(before, copies=before.copies + 1)

    def found(self) -> ClusterOverview:
        """The cluster as it is, with the totals of what was added."""
        known = self._state.map
        return ClusterOverview(
            era=known.era_number,
            members=members_of(self._state),
            queues=len(known.queues),
            fragments=len(known.fragments),
            fragments_unavailable=self._unavailable,
            fragments_short=self._short,
            alone=tuple(sorted(self._alone.items())),
            awaited=self._awaited.found(),
            moves=len(known.moves),
            staying=self._staying,
            only_copies=self._only,
            single_copies=self._single,
            version=known.cluster_version,
            leads=self._leads,
            copies=self._copies,
        )
