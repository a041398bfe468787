"""The node among the others: heartbeats, lease, joining, and, as the leader, failover.

Inputs: ticks, heartbeats, link news, the Raft leader. Outputs: `serving`, heartbeats to send, and
proposals: this node's coming up, failover decisions, changes of the copies it leads.

The leader alone declares members down and chooses primaries (`fedq.wiring.failover.decide`), in one
commit. The primary alone lets backups into the in-sync set and removes stalled ones.
"""

from typing import Final

from fedq.core.errors import Refused
from fedq.core.ids import FragmentId, Incarnation, MapVersion, NodeId
from fedq.core.peer_messages import Heartbeat, PeerFrame, ReplicaWanted
from fedq.node.cluster.abandoned import Abandoned
from fedq.node.cluster.awaiting import Awaiting
from fedq.node.cluster.cluster_size import why_closed
from fedq.node.cluster.coming_up import ComingUp
from fedq.node.cluster.deciding import Deciding
from fedq.node.cluster.handing_over import HandingOver
from fedq.node.cluster.proposals import GAVE_UP, Proposals, Result
from fedq.node.cluster.punctuality import Punctuality
from fedq.node.cluster.replacing_voters import ReplacingVoters
from fedq.node.cluster.retiring import Retiring
from fedq.node.cluster.reviving import Reviving
from fedq.node.cluster.tallies import Tallies
from fedq.node.containment.setting_aside import SettingAside
from fedq.node.records.alarms import alarm_in
from fedq.node.records.chores import Each
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState
from fedq.proxy.links import NO_SESSION
from fedq.wiring.cluster_map.operations import JoinEra, SetCopies
from fedq.wiring.cluster_map.state import FragmentInfo, Member
from fedq.wiring.failover.detector import Detector
from fedq.wiring.failover.lease import Lease

#: What it costs to look after a fragment, and when one is marked, in units of work.
_LOOK_WORK: Final = 3
_MARK_WORK: Final = 5


class ClusterFlow:
    """Keeps this node a member: heartbeats, lease, joining and, as the leader, failover."""

    __slots__ = (
        "_beat_ms", "_changing", "_heard_as", "_is_up", "_members_version", "_said_full",
        "_served", "_up_since", "_up_versions", "abandoned", "aside", "awaiting", "beat_due",
        "coming_up", "deciding", "detector", "handing", "lease", "proposals", "punctuality",
        "replacing", "retiring", "reviving", "state", "tallies",
    )  # fmt: skip

    def __init__(self, state: NodeState) -> None:
        settings = state.settings
        self.state = state
        proposals = self.proposals = Proposals(state)
        self.abandoned = Abandoned(state, proposals)
        self.tallies = Tallies(state)
        self.lease = Lease(state.me, state.voters, settings.lease_ms)
        self.detector = Detector(state.me, state.peers, settings.suspect_ms)
        self.aside = SettingAside(state)
        self.handing = HandingOver(state, proposals, self.detector)
        self.retiring = Retiring(state, proposals, self.handing.quiescing)
        #: Whether this process is up in the map, as of this change of its members.
        self._is_up = False
        self._members_version = MapVersion(-1)
        #: At which version of the map it came up, as of then; 0: it is not up.
        self._up_since = MapVersion(0)
        #: Whether this node served when the last turn ended.
        self._served = False
        self._beat_ms = -settings.heartbeat_ms
        self.coming_up = ComingUp(state, proposals)
        self.reviving = Reviving(state)
        self.deciding = Deciding(state, proposals, self.detector, self.reviving)
        self.replacing = ReplacingVoters(state, proposals, self.detector)
        self.punctuality = Punctuality(state)
        self.awaiting = Awaiting(state)
        #: The process (its number and its start) that each peer's last heartbeat was of, while its
        #: stream has been open.
        self._heard_as: dict[NodeId, tuple[Incarnation, str]] = {}
        #: When each peer last came up, as this node has seen it in the map.
        self._up_versions: dict[NodeId, int] = {}
        #: Fragments whose next copies are proposed and not decided.
        self._changing: dict[int, None] = {}
        #: Whether this turn's frames carry a heartbeat.
        self.beat_due = False
        #: What the last heartbeat said of this node's room.
        self._said_full = False

    # --- inputs ------------------------------------------------------------------------------

    def on_frame(self, frame: PeerFrame) -> None:
        """Takes a frame: any one says that its sender lives; a heartbeat says more."""
        state = self.state
        if frame.last_words is not None:
            self.aside.on_last_words(frame.sender, frame.last_words)
        heartbeat = frame.heartbeat
        if heartbeat is not None:
            self._heard_as[frame.sender] = frame.incarnation, heartbeat.start
        member = state.map.members.get(frame.sender)
        if member is not None and not self._is_heard(frame.sender, frame.incarnation, member):
            # A process of that name, but not the one that the map names: it says nothing about
            # that one, neither that it lives nor that it is gone, and has another clock. A number
            # that is the same proves nothing: an older or empty directory, and a clock behind,
            # give it once more (docs/adr/0031-who-a-process-is.md).
            return
        self.detector.heard(frame.sender, state.now_ms)
        if heartbeat is not None:
            peer = state.peers[frame.sender]
            peer.sent_heard_ms = heartbeat.sent_ms
            peer.leaving = heartbeat.leaving
            peer.stalls = heartbeat.stalls
            peer.alarm = alarm_in(heartbeat)
            if frame.session == peer.link.session[::-1] != NO_SESSION:
                # Both maps agree on who is up. Otherwise this node may have been declared down
                # in a map that it has not seen yet: no lease may come of that.
                self.lease.on_heartbeat(frame.sender, heartbeat, state.now_ms)
                self.punctuality.on_echo(frame.sender, heartbeat.echo_ms)

    def _is_heard(self, peer: NodeId, speaking: Incarnation, member: Member) -> bool:
        """Whether what a peer's process says is said by the one that the map names."""
        named = (member.incarnation, member.start)
        return speaking == member.incarnation and self._heard_as.get(peer) == named

    def on_link_up(self, node: NodeId, process: Incarnation) -> None:
        """A stream to the peer is open; `process` answers at its address (0: it did not say)."""
        if (peer := self.state.peers.get(node)) is not None:
            peer.link.on_connected()
            peer.answering = process

    def on_link_down(self, node: NodeId, refused: bool) -> None:
        """Takes note that the stream broke; `refused`: the peer's process is gone."""
        if (peer := self.state.peers.get(node)) is None:
            return
        peer.link.on_disconnected()
        self._heard_as.pop(node, None)
        if refused:
            self.detector.refused(node)
        else:
            self.detector.link_lost(node)

    def on_leader(self, leader: NodeId | None) -> None:
        """Takes note that the Raft log has a leader, or none."""
        state = self.state
        if leader == state.leader:
            return
        state.leader = leader
        state.out.story.append(f"the leader is {leader}" if leader else "there is no leader")
        if leader == state.me:
            self.detector.start_watching(state.now_ms)
            self.deciding.begin_reign()
            self.replacing.begin_reign()
        else:
            self.detector.stop_watching()

    def know(self, node: NodeId) -> None:
        """Has to do with one more node from now on: the roster has it."""
        state = self.state
        is_new = node not in state.peers
        state.know(node)
        if node == state.me:
            return
        self.detector.add_peer(node)
        if is_new or node not in state.map.members:
            # Whoever comes after this process came up has it in all that it asks the others for:
            # this one need not hear all from it before it goes on serving.
            state.peers[node].met_at = self._up_since

    @property
    def wanted_voters(self) -> tuple[NodeId, ...] | None:
        """The nodes that should vote by now; None: the map has not said so.

        One that is new waits until it has heard of this node, which leads: were it counted before,
        this one could not go on serving.
        """
        state, wanted = self.state, self.state.map.wanted_voters
        if wanted is None:
            return None
        known = (*state.voters, state.me)
        return tuple(
            [node for node in wanted if node in known or self.lease.has_heard(node, state.now_ms)]
        )

    def on_new_set(self, voters: tuple[NodeId, ...]) -> None:
        """Takes note with whom the log would elect now; the entry may not be committed."""
        self.state.electing = voters
        self.count_voters()

    def count_voters(self) -> None:
        """Counts those who vote for the lease, as the log or the map has them by now."""
        self.lease.count(self.state.voters)

    # --- time --------------------------------------------------------------------------------

    def tick(self) -> None:
        """Does everything that is due."""
        state = self.state
        self.punctuality.tick()
        self.aside.tick()
        if state.now_ms - self._beat_ms >= state.settings.heartbeat_ms:
            self._beat_ms = state.now_ms
            self.beat_due = True
        self.coming_up.tick()
        self._judge_processes()
        self.deciding.tick()
        self.replacing.tick()
        self.awaiting.tick()
        if state.looked_after and not state.chores.are_under_way(self):
            fragments, state.looked_after = state.looked_after, {}
            looks = Each(state.work, fragments, self._look_after_one, _LOOK_WORK)
            state.chores.add(self, looks)

    def move(self) -> None:
        """Goes on with fragments that are handed over or retired, after `tick`."""
        self.handing.tick()
        self.retiring.tick()

    def end_turn(self, ends: bool) -> None:
        """Goes on with what waited for others; `ends`: the node does, too."""
        self.handing.end_turn(ends)
        self.retiring.go_on()

    def _judge_processes(self) -> None:
        """Tells the detector of processes that are new in the map, or answer in their place."""
        state = self.state
        for node in state.peers:
            member = state.map.members.get(node)
            if member is None:
                continue
            if self._up_versions.get(node) != member.up_version:
                self._up_versions[node] = member.up_version
                if self._is_heard(node, member.incarnation, member):
                    self.detector.heard(node, state.now_ms)
                else:
                    self.detector.named(node, state.now_ms)
            if state.peers[node].answering > member.incarnation:
                self.detector.refused(node)

    def take_frames(self) -> None:
        """The frames that go to each peer at the end of a turn, with a heartbeat if one is due."""
        state, out = self.state, self.state.out
        if state.takes_nothing != self._said_full:
            # What others go on sending meanwhile is taken in beyond the bound.
            self._said_full = state.takes_nothing
            self.beat_due = True
        for node, peer in state.peers.items():
            beat = self._heartbeat_for(node)
            frames = peer.link.take_frames(state.map.version, state.now_ms, beat)
            if frames:
                out.peers[node] = frames
            out.linger = out.linger or peer.link.lingers
        self.beat_due = False

    def _heartbeat_for(self, node: NodeId) -> Heartbeat | None:
        if not self.beat_due:
            return None
        state = self.state
        return Heartbeat(
            state.now_ms,
            state.peers[node].sent_heard_ms,
            self.lease.leads(state.now_ms, state.leader),
            state.stopping,
            state.settings.start,
            state.disk_stalls,
            state.takes_nothing,
            state.memory_full,
            state.disk_low,
        )

    def decide_joined(self) -> bool:
        """Whether this process has joined: up in the map, in an era that lives; true only once.

        After a stop of all nodes that is the new era: what clients find is what will stay. Before
        every live peer has said what its private queues want, publishes here would miss them.
        Before the cluster has its first users, nobody could log in; and a new one may wait for
        its members (`fedq.node.cluster.cluster_size`).
        """
        state = self.state
        if state.joined or not state.map.is_up(state.me, state.settings.incarnation):
            return False
        if not state.map.era_is_alive() or not state.map.seeded:
            return False
        if not all(state.peers[node].introduced for node in state.live_peers()):
            return False
        if why_closed(state) is not None:
            return False
        state.joined = True
        state.joined_ms = state.now_ms
        up = ", ".join([node for node, member in state.map.members.items() if member.up])
        state.out.story.append(f"joined at map version {state.map.version}: {up} up")
        return True

    @property
    def valid_until_ms(self) -> int:
        """Until when what this node tells clients holds; 0: it has no end, or promises nothing."""
        state = self.state
        if not state.serving or self.lease.is_alone:
            return 0
        return self.lease.ends_ms(state.leader)

    def begin_turn(self, now_ms: int) -> None:
        """Notes how late it is: inputs of this turn do nothing after the lease's end.

        One of them may renew it: `decide_serving` says so when the turn ends.
        """
        state, lease = self.state, self.lease
        state.now_ms = now_ms
        if state.serving and not lease.is_alone and not lease.holds(state.now_ms, state.leader):
            state.serving = False

    def decide_serving(self) -> bool:
        """Whether this node may confirm and deliver; true if that was not so a turn ago."""
        state = self.state
        if state.map.members_version != self._members_version:
            self._members_version = state.map.members_version
            self._is_up = self.coming_up.is_up
            mine = state.map.members.get(state.me)
            known = mine is not None and self._is_up
            self._up_since = MapVersion(mine.up_version if mine is not None and known else 0)
            self.coming_up.look()
        lease = self.lease
        may_serve = self._is_up and not state.outvoted and not state.log_stalls
        # Whoever was let in, again or at first, has to know what all others want to hear: by the
        # interest of before a publish would miss what was bound meanwhile.
        may_serve = may_serve and not state.unheard
        serving = may_serve and (lease.is_alone or lease.holds(state.now_ms, state.leader))
        if serving and not state.serving:
            state.serving = True
            marks = Each(state.work, state.primaries, state.mark_fragment, _MARK_WORK)
            state.chores.begin(self.lease, marks)
            state.marks.queues.update(dict.fromkeys(state.hubs))
        state.serving = serving
        served, self._served = self._served, serving
        return served != serving

    # --- the copies of a fragment this node leads --------------------------------------------

    def _look_after_one(self, fragment: FragmentId) -> None:
        primary = self.state.primaries.get(fragment)
        if primary is not None and self._look_after(primary):
            self.state.looked_after[fragment] = None

    def _look_after(self, primary: Primary) -> bool:
        """Whether the fragment has to be looked at again without anything having touched it."""
        state, fragment = self.state, primary.fragment
        info = state.map.fragments[fragment.fragment_id]
        self.abandoned.look_at(primary)
        if info.reign != fragment.reign:
            return False
        expires = fragment.policy.expires_ms is not None
        if info.id in self._changing:
            return True
        hanging = [node for node in primary.replication.backups if state.peers[node].stalls]
        stalled = primary.replication.stalled(state.now_ms, state.settings.backup_stall_ms, hanging)
        # Another epoch would void its last word: it ends, and nobody waits for anything.
        is_over = primary.seen_at > 0 and not fragment.out.owed
        if stalled and not is_over:
            in_sync = {n: i for n, i in info.in_sync.items() if n not in stalled}
            # If only a joining one stalls, the same set at a new epoch voids its joining.
            state.out.warnings.append(f"fragment {info.id}: {', '.join(stalled)} stalled")
            for node in stalled:
                # What it has been sent waits on its link; no more is added to that.
                primary.replication.reset(node, state.now_ms)
                state.send(node, ReplicaWanted(info.id, info.reign))
            self._propose(primary, info, in_sync)
            return True
        for node in primary.replication.may_join():
            member = state.map.members.get(node)
            # Without a session, what it has may be what a process had that is no more.
            is_linked = state.peers[node].link.session != NO_SESSION
            if member is not None and member.up and is_linked:
                primary.replication.propose_joining(node)
                self._let_in(node, member.incarnation)
                self._propose(primary, info, {**info.in_sync, node: member.incarnation})
                return True
        return expires or not primary.replication.settled

    def _let_in(self, node: NodeId, incarnation: Incarnation) -> None:
        """Proposes that a backup joins the era, from the same commit on: who is in sync is of it.

        It has all that was confirmed: if everybody else goes, what is not durable goes on with it.
        This node's era is the present one, since this process lives.
        """
        state = self.state
        knows = state.map.era.get(state.me) == state.settings.incarnation
        if knows and state.map.era.get(node) != incarnation:
            self.proposals.ask(JoinEra(node, incarnation))

    def _propose(
        self, primary: Primary, info: FragmentInfo, in_sync: dict[NodeId, Incarnation]
    ) -> None:
        def on_result(result: Result) -> None:
            self._changing.pop(info.id, None)
            if isinstance(result, Refused) and result is not GAVE_UP:
                for node in list(primary.replication.joining):
                    primary.replication.end_joining(node)
                self.state.marks.primaries[info.id] = None

        self._changing[info.id] = None
        operation = SetCopies(
            info.id, info.epoch, info.primary, info.backups, tuple(in_sync.items()), False
        )
        self.proposals.ask(operation, on_result)
