"""Giving fragments to a copy that can serve them, while this node still lives.

Inputs: ticks, what this node's disk owes, the wish to stop, what the map wishes, the word of others
that they keep quiet. Outputs: proposals (`SetCopies`), `Primary.handing_over` and
`Primary.seen_at`, which hold deliveries back; records of what was seen.

A primary that hands over first stops handing out, then asks the map for another primary, and goes
on only when the map has refused: so no two nodes serve a fragment, although no lease ends. What is
published meanwhile goes on to the copies, and is confirmed by whom the map names in the end.

Done for four reasons:

* the disk has owed a sync for `backup_stall_ms`: confirms wait for it beside healthy copies. The
  new primary takes this node out of the in-sync set, because it says in its heartbeats that its
  disk hangs; it follows, and comes back once its disk does. It stays in sync in the commit that
  hands over: the other one may have died meanwhile, and then this memory has what was confirmed;
* messages cannot be read from this node's disk (`Primary.damaged`). The new primary has them, and
  sends them: this copy offers what it can read, and is made whole as any that joins;
* the node is being stopped. It waits, up to `stop_wait_ms`, for a copy to get in sync where one
  may: then nobody has to wait for its return;
* the map wishes it: the fragment is to be led by another node, or this node is drained
  (docs/adr/0082).

For the last two everybody else first keeps quiet about the fragment (docs/adr/0083), and this node
says, as its last word, what was seen (docs/adr/0046). One that stops says so of what it still leads
at its end, too, and hands out nothing more whatever comes. One that does not stop goes on where it
is not to be: at the next epoch, which voids its word.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from fedq.core.errors import Refused
from fedq.core.ids import Epoch, FragmentId, MapVersion, NodeId
from fedq.core.limits import HAND_OVERS_IN_FLIGHT_MAX, PLANNED_HAND_OVERS_MAX
from fedq.core.quiet_messages import Quiesced
from fedq.core.ranges import count
from fedq.core.versions import SEEN
from fedq.fragments.upkeep.seen import record_seen
from fedq.node.cluster.proposals import GAVE_UP, Proposals, Result
from fedq.node.cluster.quiescing import Quiescing
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState
from fedq.wiring.cluster_map.operations import SetCopies
from fedq.wiring.cluster_map.state import FragmentInfo
from fedq.wiring.failover.detector import Detector

#: Within so many heartbeats the others have heard that this node stops, and what they have asked
#: the map for until then is decided.
_HEARD_WITHIN_BEATS: Final = 2
#: A fragment about which not all would keep quiet is left alone for so long.
_REST_MS: Final = 2_000
#: And so long at most, after some failures.
_REST_MS_MAX: Final = 60_000
#: Messages that are looked at for a unit of work.
_MESSAGES_PER_UNIT: Final = 8
#: Fragments of a drained node that are looked at in a tick.
_LOOKED_AT_MAX: Final = 64


class HandingOver:
    """Hands over fragments of this node: it stops, its disk hangs, or the map wishes it."""

    __slots__ = (
        "_asked", "_detector", "_given_until_ms", "_leads", "_left", "_owed_since_ms",
        "_proposals", "_rested_ms", "_resting", "_said_at", "_stop_at_ms", "_synced", "quiescing",
        "state",
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
        self.quiescing = Quiescing(state)
        #: Until when fragments are left alone.
        self._resting: dict[FragmentId, int] = {}
        #: For how long they were, the last time, as long as it is tried.
        self._rested_ms: dict[FragmentId, int] = {}
        #: What a drained node leads and was not looked at lately.
        self._left: deque[FragmentId] = deque()
        #: How many fragments each node leads, as far as it was counted in this tick.
        self._leads: dict[NodeId, int] | None = None

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
        self._leads = None
        if self._asked or self.quiescing.fragments:
            self._forget_decided()
        if not state.serving:
            return
        under_way = dict.fromkeys((*self._asked, *self.quiescing.fragments))
        for fragment in under_way:
            self._go_on_with(fragment)
        is_urgent = state.disk_stalls or state.stopping or len(state.damaged) > 0
        most = HAND_OVERS_IN_FLIGHT_MAX if is_urgent else PLANNED_HAND_OVERS_MAX
        count = len(under_way)
        for fragment in list(state.primaries) if is_urgent else self._planned():
            if count >= most or (not is_urgent and state.work.is_spent):
                return
            if fragment not in under_way:
                self._go_on_with(fragment)
                count += fragment in self._asked or self.quiescing.has_begun(fragment)

    def _planned(self) -> Iterable[FragmentId]:
        """Fragments that the map wishes elsewhere; of a drained node some at a time."""
        state = self.state
        self._resting = {f: ms for f, ms in self._resting.items() if state.now_ms < ms}
        planned = [fragment for fragment in state.map.moves if fragment in state.primaries]
        if self._rested_ms and not planned and state.me not in state.map.drained:
            self._rested_ms = {}
            state.holds_alone = {}
        if state.me in state.map.drained:
            if not self._left:
                self._left.extend(state.primaries)
            planned += [self._left.popleft() for _ in range(min(len(self._left), _LOOKED_AT_MAX))]
        return [fragment for fragment in planned if fragment not in self._resting]

    def end_turn(self, ends: bool) -> None:
        """Goes on with what waited for others; as the node ends, has the last word of all."""
        for fragment in self.quiescing.fragments:
            if fragment not in self._asked and self.state.serving:
                self._go_on_with(fragment)
        if ends:
            self.say_all_seen()

    def on_quiesced(self, sender: NodeId, message: Quiesced) -> None:
        """A node keeps quiet, as it was asked to."""
        self.quiescing.on_quiesced(sender, message)

    # --- one fragment ------------------------------------------------------------------------

    def _go_on_with(self, fragment: FragmentId) -> None:
        """Takes the next step with a fragment, if it is time for it."""
        state = self.state
        primary, info = state.primaries.get(fragment), state.map.fragments.get(fragment)
        if primary is None or info is None or self.quiescing.retires(fragment):
            return
        if primary.seen_at:
            self._say_seen(primary, info)
        target = self._choose(primary, info)
        if fragment in self._asked:
            if not self._asked[fragment][1]:
                self._ask_again(primary, info, target)
        elif target is None:
            self._stay(primary, info)
        elif self._is_hasty(primary) or (
            not self._rests(primary, info)
            and self._is_still(primary, info)
            and self._has_heard(primary, info, target)
        ):
            self._ask(primary, info, target)

    def _rests(self, primary: Primary, info: FragmentInfo) -> bool:
        """Whether the fragment is left alone: some of it would be lost with its primary.

        Looked at before everybody keeps quiet, and when all do: nothing comes in after that.
        """
        quiescing, fragment = self.quiescing, info.id
        if self.state.stopping or not primary.replication.sparing or primary.seen_at:
            return False
        if quiescing.has_begun(fragment) and not quiescing.is_quiet(fragment):
            return False
        if not self._has_alone(primary):
            self.state.holds_alone.pop(fragment, None)
            return False
        self.state.holds_alone[fragment] = None
        self._rest(fragment)
        self._stay(primary, info)
        return True

    def _has_alone(self, primary: Primary) -> bool:
        """Whether some messages are here alone, since their queue asks for no copies of such."""
        messages = primary.fragment.messages
        there = count(messages.ranges())
        self.state.work.spend(1 + there // _MESSAGES_PER_UNIT)
        return there > count(messages.persistent_ranges())

    def rests_for_ms(self, fragment: FragmentId) -> int:
        """For how long a fragment is left alone that is to be handed over; 0: it is not."""
        return max(0, self._resting.get(fragment, 0) - self.state.now_ms)

    def _rest(self, fragment: FragmentId) -> None:
        """Leaves a fragment alone for a while, longer each time: its consumers wait meanwhile."""
        rest_ms = min(2 * self._rested_ms.get(fragment, _REST_MS // 2), _REST_MS_MAX)
        self._rested_ms[fragment] = rest_ms
        self._resting[fragment] = self.state.now_ms + rest_ms

    def _is_hasty(self, primary: Primary) -> bool:
        """Whether nothing is waited for: this node cannot serve the fragment, and goes on."""
        return not self.state.stopping and (self.state.disk_stalls or bool(primary.damaged))

    def _is_still(self, primary: Primary, info: FragmentInfo) -> bool:
        """Whether everybody keeps quiet about the fragment, or is not waited for any more."""
        quiescing, fragment = self.quiescing, info.id
        if not quiescing.is_possible():
            return True
        if quiescing.is_void(fragment):
            self._stay(primary, info)
            return False
        quiescing.begin(primary)
        if quiescing.is_quiet(fragment) and not primary.dying:
            # Dead letters that are under way have arrived: the next primary would send them again.
            return True
        if not quiescing.is_late(fragment):
            return False
        if not self.state.stopping:
            self._rest(fragment)
            self._stay(primary, info)
        return self.state.stopping

    def _stay(self, primary: Primary, info: FragmentInfo) -> None:
        """Goes on with a fragment that is not handed over, for now."""
        if not self.state.stopping and primary.seen_at:
            if primary.seen_at == info.epoch:
                self._void(info)
                return
            primary.seen_at = primary.seen_event = 0
        self.quiescing.end(info.id)

    def _void(self, info: FragmentInfo) -> None:
        """Asks for the copies as they are, at a new epoch: that voids what was said or asked."""
        copies = info.primary, info.backups, tuple(info.in_sync.items())
        self._propose(SetCopies(info.id, info.epoch, *copies, restart=False))

    def may_stop(self) -> bool:
        """Whether a stop need not wait (any longer) for copies."""
        state = self.state
        if self._stop_at_ms is None or state.now_ms >= self._stop_at_ms or not state.serving:
            return True
        others = state.live_peers()
        if not any(not state.peers[node].leaving for node in others):
            return len(others) == 0 or state.now_ms >= self._given_until_ms
        return not self._leads_for_others() and not self._is_waited_for()

    def _leads_for_others(self) -> bool:
        """Whether it leads something that others have, or could have."""
        state = self.state
        return any(
            len(info.backups) > 0 or state.map.queues[info.queue].replicas > 1
            for fragment in state.primaries
            if (info := state.map.fragments.get(fragment)) is not None
        )

    def _is_waited_for(self) -> bool:
        """Whether a client that leaves waits for its answer: that comes before it is sent away."""
        return any(
            channel.waiting
            for client in self.state.clients.values()
            for channel in client.channels.values()
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
        """Whether the next primary knows what was seen, where this one can say so."""
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

    def _choose(self, primary: Primary, info: FragmentInfo) -> NodeId | None:
        """A copy that has everything confirmed, and whose node and disk are known to work.

        None as well if nothing asks for another primary.
        """
        state = self.state
        wished = state.map.moves.get(info.id)
        drained = state.map.drained
        is_urgent = state.stopping or state.disk_stalls or bool(primary.damaged)
        if info.reign != primary.fragment.reign or not (
            is_urgent or wished is not None or state.me in drained
        ):
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
        if not is_urgent:
            able = [n for n in able if (n not in drained if wished is None else n == wished)]
        if not able:
            return None
        leads = self._counted()
        return min(able, key=lambda n: (n != wished, n in drained, leads.get(n, 0), n))

    def _counted(self) -> dict[NodeId, int]:
        """How many fragments each node leads, with what was asked for since the last tick."""
        if self._leads is None:
            self._leads = {}
            for info in self.state.map.fragments.values():
                self._leads[info.primary] = self._leads.get(info.primary, 0) + 1
        return self._leads

    def _ask(self, primary: Primary, info: FragmentInfo, target: NodeId) -> None:
        """Asks the map to move the fragment; nothing is handed out before it has decided."""
        state = self.state
        primary.handing_over = True
        leads = self._counted()
        leads[target] = leads.get(target, 0) + 1
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
                self._on_refused(fragment, epoch)

        self._proposals.ask(operation, on_result)

    def _on_refused(self, fragment: FragmentId, epoch: Epoch) -> None:
        """Goes on as before; a last word that was said at this epoch has to be voided first."""
        state = self.state
        primary, info = state.primaries.get(fragment), state.map.fragments.get(fragment)
        if (
            primary is not None and info is not None and not state.stopping
            and info.epoch == epoch == primary.seen_at
        ):  # fmt: skip
            self._asked[fragment] = (epoch, False)
        else:
            self._go_on(fragment)

    def _ask_again(self, primary: Primary, info: FragmentInfo, target: NodeId | None) -> None:
        """Asks again, as nobody knows what became of the question, or it was refused.

        Where no better one is left, the copies as they are, at a new epoch, void it.
        """
        is_told = self.state.stopping or not primary.seen_at or (
            target is not None and primary.replication.has(target, primary.seen_event)
        )  # fmt: skip
        if target is not None and is_told:
            self._ask(primary, info, target)
        else:
            self._void(info)

    def _forget_decided(self) -> None:
        """Forgets what has another epoch by now: it was decided. Who still leads, serves again."""
        state = self.state
        for fragment, (epoch, _) in list(self._asked.items()):
            info = state.map.fragments.get(fragment)
            if info is None or info.epoch != epoch:
                self._go_on(fragment)
        for fragment in self.quiescing.fragments:
            info = state.map.fragments.get(fragment)
            if info is None or info.primary != state.me or fragment not in state.primaries:
                self.quiescing.end(fragment)

    def _go_on(self, fragment: FragmentId) -> None:
        self._asked.pop(fragment, None)
        state = self.state
        primary, info = state.primaries.get(fragment), state.map.fragments.get(fragment)
        if primary is not None:
            primary.handing_over = False
            if info is not None and not state.stopping and primary.seen_at != info.epoch:
                # Its word is void.
                primary.seen_at = primary.seen_event = 0
            state.marks.primaries[fragment] = None
            state.marks.queues[primary.queue] = None
        self.quiescing.end(fragment)
