"""The cluster as the leader sees it while it decides: the map, less those it suspects.

Inputs: the map, the suspects and the unproven nodes; and what was decided so far, so that later
choices count it in. Output: who is up, who holds how much, who would be the better choice.
"""

from collections.abc import Collection, Sequence

from fedq.core.ids import FragmentId, Incarnation, NodeId
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.placement import Spread, fragment_subject, spread, weight
from fedq.wiring.cluster_map.state import FragmentInfo


class View:
    """One look at the cluster; see the module's docstring."""

    __slots__ = (
        "_gone", "_named", "copies", "drained", "era_ends", "era_joins", "fragments", "leads",
        "moves", "sites", "some_absent", "unproven", "up",
    )  # fmt: skip

    def __init__(
        self,
        cluster: ClusterMap,
        suspects: Collection[NodeId],
        unproven: Collection[NodeId],
        unheard: Collection[NodeId] = (),
        gone: Collection[NodeId] = (),
    ) -> None:
        """`unheard`: nodes whose processes nothing is known of but that the map names them.

        `gone`: nodes whose processes are proven to have ended, where suspects are silent.
        """
        suspected = dict.fromkeys(suspects)
        self._gone = dict.fromkeys(gone)
        #: The newest process of each member, up or not.
        self._named: dict[NodeId, Incarnation] = {
            node: member.incarnation for node, member in cluster.members.items()
        }
        self.fragments = cluster.fragments
        #: Nodes that are to hold nothing, and fragments that are to be led by another node.
        self.drained = cluster.drained
        self.moves = cluster.moves
        #: Nodes of whom it is not known whether they live: they are relied on for nothing new. A
        #: name in the map alone is no sign of life: after a stop of all it is read from the log.
        self.unproven = dict.fromkeys((*unproven, *unheard))
        #: The members that are up and not suspected, with their processes.
        self.up: dict[NodeId, Incarnation] = {
            node: member.incarnation
            for node, member in cluster.members.items()
            if member.up and node not in suspected
        }
        self.sites = cluster.sites()
        #: Whether a member is missing that may come back.
        self.some_absent = len(self.up) < len(cluster.members)
        #: Whether a new era is due: no process of the old one is left.
        self.era_ends = bool(self.up) and not any(
            self.up.get(node) == incarnation for node, incarnation in cluster.era.items()
        )
        #: Processes that may join the era: one that knew it was heard, so it lives.
        lives = any(
            node not in self.unproven and node not in unheard and self.up.get(node) == incarnation
            for node, incarnation in cluster.era.items()
        )
        self.era_joins = [
            (node, incarnation)
            for node, incarnation in self.up.items()
            if lives and cluster.era.get(node) != incarnation
        ]
        #: How many fragments each node leads, and how many copies it holds in all, of those that
        #: were counted.
        self.leads = dict.fromkeys(cluster.members, 0)
        self.copies = dict.fromkeys(cluster.members, 0)

    def count(self, info: FragmentInfo) -> None:
        """Counts a fragment in as it is."""
        self.leads[info.primary] += 1
        for node in info.copies:
            self.copies[node] += 1

    def hot(self, info: FragmentInfo) -> dict[NodeId, Incarnation]:
        """The in-sync copies that still have everything in memory."""
        up = self.up
        return {
            node: incarnation
            for node, incarnation in info.in_sync.items()
            if up.get(node) == incarnation
        }

    def may_be_hidden(self, info: FragmentInfo) -> bool:
        """Whether a process that is not heard may live, and have the fragment in its memory."""
        return any(
            self._named.get(node) == incarnation and node not in self._gone
            for node, incarnation in info.in_sync.items()
            if node not in self.up
        )

    def proven(self, nodes: Collection[NodeId]) -> list[NodeId]:
        """The nodes among these that are known to live."""
        return [node for node in nodes if node in self.up and node not in self.unproven]

    def is_open(self, node: NodeId) -> bool:
        """Whether the node may get something new: it is not drained."""
        return node not in self.drained

    def best_leader(self, fragment: FragmentId, nodes: Sequence[NodeId]) -> NodeId:
        """The node that leads fewest fragments, of those that are not drained if there are any."""
        subject = fragment_subject(fragment)
        return min(
            nodes,
            key=lambda node: (
                not self.is_open(node), self.leads[node], -weight(subject, node), node
            ),
        )  # fmt: skip

    def is_to_move(self, info: FragmentInfo) -> bool:
        """Whether it is wished that the fragment is led, or kept, elsewhere."""
        if info.id in self.moves:
            return True
        return bool(self.drained) and not all(self.is_open(node) for node in info.copies)

    def awaits_hand_over(self, info: FragmentInfo, hot: Collection[NodeId]) -> bool:
        """Whether a copy is there that its primary is to hand over to: none goes before that."""
        target = self.moves.get(info.id)
        if target is not None:
            return target != info.primary and target in hot
        return not self.is_open(info.primary) and any(self.is_open(node) for node in hot)

    def surplus(self, primary: NodeId, backups: Sequence[NodeId]) -> NodeId:
        """The backup to let go: of a drained node if there is one.

        Else the one without which the others are furthest apart, and whose node is the busiest.
        """

        def merit(node: NodeId) -> tuple[bool, Spread, int, str]:
            others = [primary, *(backup for backup in backups if backup != node)]
            apart = spread(others, self.sites)
            return not self.is_open(node), apart, self.copies[node], node

        return max(backups, key=merit)

    def note(self, before: FragmentInfo, primary: NodeId, backups: Sequence[NodeId]) -> None:
        """Counts a fragment in as it will be, with these copies."""
        self.leads[before.primary] -= 1
        self.leads[primary] += 1
        for node in before.copies:
            self.copies[node] -= 1
        for node in (primary, *backups):
            self.copies[node] += 1
