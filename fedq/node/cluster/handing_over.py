"""Giving fragments to a copy that can serve them, while this node still lives.

Inputs: ticks, what this node's disk owes, the wish to stop. Outputs: proposals (`SetCopies`),
`Primary.handing_over` and `Primary.seen_at`, which hold deliveries back; records of what was seen.

A primary that hands over first stops handing out, then asks the map for another primary, and goes
on only when the map has refused: so no two nodes serve a fragment, although no lease ends. What is
published meanwhile goes on to the copies, and is confirmed by whom the map names in the end.

Done for three reasons:

* the disk has owed a sync for `backup_stall_ms`: confirms wait for it beside healthy copies. The
  new primary takes this node out of the in-sync set, because it says in its heartbeats that its
  disk hangs; it follows, and comes back once its disk does. It stays in sync in the commit that
  hands over: the other one may have died meanwhile, and then this memory has what was confirmed;
* messages cannot be read from this node's disk (`Primary.damaged`). The new primary has them, and
  sends them: this copy offers what it can read, and is made whole as any that joins;
* the node is being stopped. It waits, up to `stop_wait_ms`, for a copy to get in sync where one
  may: then nobody has to wait for its return. Of each fragment it says, as its last word, what was
  seen (docs/adr/0046): before it asks for another primary, and at the end of what it still leads.
"""

from typing import Final

from fedq.core.errors import Refused
from fedq.core.ids import Epoch, FragmentId, MapVersion, NodeId
from fedq.core.limits import HAND_OVERS_IN_FLIGHT_MAX
from fedq.core.versions import SEEN
from fedq.fragments.upkeep.seen import record_seen
from fedq.node.cluster.proposals import GAVE_UP, Proposals, Result
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState
from fedq.wiring.cluster_map.operations import SetCopies
from fedq.wiring.cluster_map.state import FragmentInfo
from fedq.wiring.failover.detector import Detector

#: Within so many heartbeats the others have heard that this node stops, and what they have asked
#: the map for until then is decided.
_HEARD_WITHIN_BEATS: Final = 2


class HandingOver:
    """Hands over fragments of this node, because it stops or its disk hangs."""

    __slots__ = (
        "_asked", "_detector", "_given_until_ms", "_owed_since_ms", "_proposals", "_said_at",
        "_stop_at_ms", "_synced", "state",
    )  # fmt: skip

    def __init__(self, state: NodeState, proposals: Proposals, detector: Detector) -> None:
        self.state = state
        self._proposals = proposals
        self._detector = detector
        #: Since when the disk owes a sync without having done any; None: it owes nothing.
        self._owed_since_ms: int | None = None
        self._synced = 0
        #: When a stop waits no longer; None: nobody wants this node to stop.
        self._stop_at_ms: int | None = None
        #: Until when it may be given what others hand over that have not heard that it stops, too.
        self._given_until_ms = 0
        #: The map as it was when this node last said of all that it leads what was seen.
        self._said_at = MapVersion(-1)
        #: Fragments that are being handed over, with the epoch at which that was decided, and
        #: whether the map has the question.
        self._asked: dict[FragmentId, tuple[Epoch, bool]] = {}

    def stop(self) -> None:
        """Begins to stop: what this node leads is to be led by others."""
        state = self.state
        if self._stop_at_ms is None:
            self._stop_at_ms = state.now_ms + state.settings.stop_wait_ms
            self._given_until_ms = state.now_ms + _HEARD_WITHIN_BEATS * state.settings.heartbeat_ms
            state.stopping = True

    def tick(self) -> None:
        """Does everything that is due."""
        self._look_at_disk()
        state = self.state
        if not (state.disk_stalls or state.stopping or state.damaged or self._asked):
            return
        self._forget_decided()
        if not state.serving:
            return
        waiting = 0
        leads: dict[NodeId, int] = {}
        for info in state.map.fragments.values():
            leads[info.primary] = leads.get(info.primary, 0) + 1
        for fragment, primary in state.primaries.items():
            if len(self._asked) + waiting >= HAND_OVERS_IN_FLIGHT_MAX:
                return
            info = state.map.fragments[fragment]
            if primary.seen_at:
                self._say_seen(primary, info)
            if fragment in self._asked:
                if not self._asked[fragment][1]:
                    self._ask_again(primary, info, leads)
            elif state.disk_stalls or state.stopping or primary.damaged:
                target = self._choose(primary, info, leads)
                if target is not None and not self._has_heard(primary, info, target):
                    waiting += 1
                elif target is not None:
                    self._ask(primary, info, target)
                    leads[target] = leads.get(target, 0) + 1

    def may_stop(self) -> bool:
        """Whether a stop need not wait (any longer) for copies."""
        state = self.state
        if self._stop_at_ms is None or state.now_ms >= self._stop_at_ms or not state.serving:
            return True
        others = state.live_peers()
        if not any(not state.peers[node].leaving for node in others):
            return len(others) == 0 or state.now_ms >= self._given_until_ms
        return not any(
            len(info.backups) > 0 or state.map.queues[info.queue].replicas > 1
            for fragment in state.primaries
            if (info := state.map.fragments.get(fragment)) is not None
        )

    def say_all_seen(self) -> None:
        """Says, as the node ends, what was seen of all that it leads, or has just given away."""
        state = self.state
        if self._said_at == state.map.version:
            return
        self._said_at = state.map.version
        for fragment, primary in state.primaries.items():
            self._say_seen(primary, state.map.fragments[fragment])

    def _say_seen(self, primary: Primary, info: FragmentInfo) -> None:
        """Says what was seen of a fragment: nothing of it is handed out after that.

        What was said counts for the next epoch alone: it is said again if there is one since.
        """
        state, fragment = self.state, primary.fragment
        speaks = state.all_speak(SEEN)
        if speaks and info.reign == fragment.reign and primary.seen_at != info.epoch:
            primary.seen_at = info.epoch
            primary.seen_event = record_seen(fragment, info.epoch)
            state.marks.primaries[info.id] = None

    def _has_heard(self, primary: Primary, info: FragmentInfo, target: NodeId) -> bool:
        """Whether the next primary knows what was seen, where this one ends and can say so."""
        if not self.state.stopping:
            return True
        self._say_seen(primary, info)
        return not primary.seen_at or primary.replication.has(target, primary.seen_event)

    # --- the disk ----------------------------------------------------------------------------

    def _look_at_disk(self) -> None:
        state = self.state
        if state.sync_asked <= state.synced:
            self._owed_since_ms = None
        elif self._owed_since_ms is None or self._synced != state.synced:
            self._owed_since_ms = state.now_ms
        self._synced = state.synced
        since = self._owed_since_ms
        stalls = since is not None and state.now_ms - since >= state.settings.backup_stall_ms
        if stalls == state.disk_stalls:
            return
        state.disk_stalls = stalls
        self._say(
            stalls,
            "the journal's disk hangs: what this node leads goes to copies in sync elsewhere",
            "the journal's disk works again",
        )

    def on_log_owed(self, owed_ms: int) -> None:
        """Notes how long the disk of the Raft log hangs: such a node learns of no map change.

        All the others would wait for it at each of them. So it serves nobody and says nothing, is
        taken for gone, and comes back when the disk does. One that is alone has nobody to do so.
        """
        state = self.state
        stalls = owed_ms >= state.settings.suspect_ms and len(state.peers) > 0
        if stalls == state.log_stalls:
            return
        state.log_stalls = stalls
        self._say(
            stalls,
            "the disk of the cluster map's log hangs: this node serves nobody and keeps silent "
            "until it works, so that others take its place; check the disk",
            "the disk of the cluster map's log works again",
        )

    def _say(self, stalls: bool, trouble: str, relief: str) -> None:
        """Tells the operator that a disk has begun, or ceased, to hang."""
        out = self.state.out
        if stalls:
            out.warnings.append(trouble)
        else:
            out.story.append(relief)

    # --- asking the map ----------------------------------------------------------------------

    def _choose(
        self, primary: Primary, info: FragmentInfo, leads: dict[NodeId, int]
    ) -> NodeId | None:
        """A copy that has everything confirmed, and whose node and disk are known to work."""
        state = self.state
        if info.reign != primary.fragment.reign:
            return None
        unproven = self._detector.unproven(state.now_ms)
        able = [
            node
            for node, incarnation in info.in_sync.items()
            if node != state.me
            and state.map.is_up(node, incarnation)
            and node in state.peers
            and not state.peers[node].leaving
            and not state.peers[node].stalls
            and node not in unproven
            and primary.replication.keeps_up(
                node, state.now_ms, state.settings.backup_stall_ms // 2
            )
        ]
        return min(able, key=lambda node: (leads.get(node, 0), node)) if able else None

    def _ask(self, primary: Primary, info: FragmentInfo, target: NodeId) -> None:
        """Asks the map to move the fragment; nothing is handed out before it has decided."""
        state = self.state
        primary.handing_over = True
        backups = (state.me, *(node for node in info.backups if node != target))
        # A copy that cannot be read in parts is made whole before it counts again.
        in_sync = tuple(
            copy for copy in info.in_sync.items() if not primary.damaged or copy[0] != state.me
        )
        operation = SetCopies(info.id, info.epoch, target, backups, in_sync, restart=False)
        self._propose(operation)

    def _propose(self, operation: SetCopies) -> None:
        fragment, epoch = operation.fragment, operation.expected_epoch
        self._asked[fragment] = (epoch, True)

        def on_result(result: Result) -> None:
            if self._asked.get(fragment, (epoch, False))[0] != epoch:
                return
            if result is GAVE_UP:
                # It may be decided yet: only an answer, or another epoch, says that nobody else
                # serves.
                self._asked[fragment] = (epoch, False)
            elif isinstance(result, Refused):
                self._go_on(fragment)

        self._proposals.ask(operation, on_result)

    def _ask_again(self, primary: Primary, info: FragmentInfo, leads: dict[NodeId, int]) -> None:
        """Asks again, as nobody knows what became of the question.

        Where no better one is left, the copies as they are, at a new epoch, void it.
        """
        target = self._choose(primary, info, leads)
        if target is not None:
            self._ask(primary, info, target)
            return
        self._propose(
            SetCopies(
                info.id, info.epoch, info.primary, info.backups, tuple(info.in_sync.items()), False
            )
        )

    def _forget_decided(self) -> None:
        """Forgets what has another epoch by now: it was decided. Who still leads, serves again."""
        state = self.state
        for fragment, (epoch, _) in list(self._asked.items()):
            info = state.map.fragments.get(fragment)
            if info is None or info.epoch != epoch:
                self._go_on(fragment)

    def _go_on(self, fragment: FragmentId) -> None:
        self._asked.pop(fragment, None)
        primary = self.state.primaries.get(fragment)
        if primary is not None:
            primary.handing_over = False
            self.state.marks.primaries[fragment] = None
            self.state.marks.queues[primary.queue] = None
