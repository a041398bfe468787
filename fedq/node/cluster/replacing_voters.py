"""Voters that are gone for long are replaced by observers, without an operator (docs/adr/0101).

Inputs: ticks, the map, what was heard of observers, how far they have applied the map. Outputs:
`ReplaceVoter` proposals, one after the other.

Only the leader does it, and only what it has seen itself counts: a new leader begins to wait anew.
An observer is fit if it was heard just now, has applied all that this node had applied at its last
look, and is not drained. Of those that are, the one on whose host the fewest vote takes the place,
then the one in whose zone they are fewest (docs/adr/0098).
What must hold for that to be safe is the map's to judge (`roster.why_not_replaced`), and the log's,
which changes who is counted by one name at a time (docs/adr/0084).
"""

from fedq.core.ids import MapVersion, NodeId
from fedq.core.versions import VOTERS_REPLACED
from fedq.node.cluster.proposals import Proposals, Result
from fedq.node.records.state import NodeState
from fedq.wiring.cluster_map.operations_members import ReplaceVoter
from fedq.wiring.cluster_map.placement import host_of
from fedq.wiring.cluster_map.roster import why_not_replaced
from fedq.wiring.cluster_map.state import Ok
from fedq.wiring.failover.detector import Detector


class ReplacingVoters:
    """The leader's watch over voters that do not come back."""

    __slots__ = ("_detector", "_looked_ms", "_missed_ms", "_proposals", "_seen", "state")

    def __init__(self, state: NodeState, proposals: Proposals, detector: Detector) -> None:
        self.state = state
        self._proposals = proposals
        self._detector = detector
        self.begin_reign()

    def begin_reign(self) -> None:
        """Begins to lead: how long anybody has been away is not known."""
        #: Since when this leader has missed each voter.
        self._missed_ms: dict[NodeId, int] = {}
        self._looked_ms = self.state.now_ms
        #: The map's version at the last look.
        self._seen = self.state.map.version

    def tick(self) -> None:
        """Looks whether a voter has been away for too long, and who could vote instead."""
        state, settings = self.state, self.state.settings
        if not settings.replace_voter_ms or not self._leads():
            return
        if state.now_ms - self._looked_ms < settings.proposal_retry_ms:
            return
        self._looked_ms = state.now_ms
        seen, self._seen = self._seen, state.map.version
        self._look()
        due = [
            node for node, since_ms in self._missed_ms.items()
            if state.now_ms - since_ms >= settings.replace_voter_ms
        ]  # fmt: skip
        if due:
            self._replace(min(due, key=lambda node: (self._missed_ms[node], node)), seen)

    def _leads(self) -> bool:
        state = self.state
        if state.leader != state.me or state.map.cluster_version < VOTERS_REPLACED:
            return False
        return state.map.is_up(state.me, state.settings.incarnation)

    def _look(self) -> None:
        """Notes who should vote and is not up, and since when."""
        state, before = self.state, self._missed_ms
        self._missed_ms = {
            node: before.get(node, state.now_ms)
            for node, place in state.map.roster.items()
            if place.votes and not self._is_up(node)
        }

    def _is_up(self, node: NodeId) -> bool:
        member = self.state.map.members.get(node)
        return member is not None and member.up

    def _replace(self, gone: NodeId, seen: MapVersion) -> None:
        """Has the best observer, if there is one, vote in the place of a voter."""
        members = self.state.map.members
        by = self._best_observer(gone, seen)
        if by is None:
            return
        incarnation = members[gone].incarnation if gone in members else 0
        operation = ReplaceVoter(gone, incarnation, by, members[by].incarnation)
        if why_not_replaced(self.state.map, operation) is not None:
            # It may be otherwise at the next look.
            return
        away_s = (self.state.now_ms - self._missed_ms[gone]) // 1_000

        def on_result(result: Result) -> None:
            if isinstance(result, Ok):
                self.state.out.story.append(
                    f"{gone} has been away for {away_s} s: {by} votes in its place, and {gone} "
                    "observes when it comes back"
                )

        self._proposals.ask(operation, on_result)

    def _best_observer(self, gone: NodeId, seen: MapVersion) -> NodeId | None:
        """The observer that follows the log, of where the fewest vote: its host, then its zone."""
        state = self.state
        known, members = state.map, state.map.members
        unproven = self._detector.unproven(state.now_ms)
        fit = [
            node for node, place in known.roster.items()
            if not place.votes and self._is_up(node) and node not in known.drained
            and node not in unproven and node in state.peers and state.peers[node].applied >= seen
        ]  # fmt: skip
        if not fit:
            return None
        roster = known.roster
        voting = [node for node, place in roster.items() if place.votes and node != gone]
        hosts = [host_of(roster[node].peer_address) for node in voting]
        zones = [members[node].zone for node in voting if node in members]
        return min(
            fit,
            key=lambda node: (
                hosts.count(host_of(roster[node].peer_address)),
                zones.count(members[node].zone), node,
            ),
        )  # fmt: skip
