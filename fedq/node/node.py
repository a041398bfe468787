"""The node: every machine wired together, without I/O, clock or chance.

Inputs are the `on_…` methods, in turns; outputs are the lanes of `fedq.node.outbox.NodeOut`, which
also states the driver's contract. The asyncio shell and the simulator drive the same class.

    client_flow --> publish_flow --> fragment_flow --> journal, backups
        |                |  relays      |  commits
        |                v              v
        +--> consume_flow <------- hubs, takers            map_flow, cluster_flow: who does what

The flows share `NodeState`; they call downwards only, and mark what they touched; the end of a turn
works off the marks, until there are none.
"""

from collections.abc import Callable
from typing import Any

from fedq.core import peer_messages as p
from fedq.core.errors import Refused
from fedq.core.ids import NO_PROCESS, ConnectionId, Incarnation, NodeId
from fedq.core.peer_messages import PeerFrame
from fedq.core.suspects import Stopped
from fedq.journal.recovery import Recovered
from fedq.node.clients.access import Access, connection_settings
from fedq.node.clients.client_flow import ClientFlow
from fedq.node.clients.evictions import Evictions, end_all
from fedq.node.clients.fencing import Fencing
from fedq.node.clients.memory import Memory
from fedq.node.clients.permissions import Permissions
from fedq.node.cluster.abandoned import Abandoned
from fedq.node.cluster.cluster_flow import ClusterFlow
from fedq.node.cluster.proposals import Proposals, Result
from fedq.node.cluster.tallies import Tallies
from fedq.node.consuming.consume_flow import ConsumeFlow
from fedq.node.consuming.getting import Getting
from fedq.node.consuming.queue_timers import QueueTimers
from fedq.node.consuming.readers import Readers
from fedq.node.consuming.settle_flow import SettleFlow
from fedq.node.containment.post_mortem import post_mortem
from fedq.node.copies.asking import Asking
from fedq.node.copies.dispatching import Dispatching
from fedq.node.copies.fragment_flow import FragmentFlow
from fedq.node.copies.fragment_roles import FragmentRoles
from fedq.node.copies.replica_flow import ReplicaFlow
from fedq.node.map.map_flow import MapFlow
from fedq.node.outbox import NodeOut
from fedq.node.peers.peer_inbox import PeerInbox
from fedq.node.private.private_flow import PrivateFlow
from fedq.node.private.registrations import Registrations
from fedq.node.publishing.admission import Admission
from fedq.node.publishing.dead_letters import DeadLetters
from fedq.node.publishing.outlets import Outlets
from fedq.node.publishing.publish_flow import PublishFlow
from fedq.node.publishing.relay_flow import RelayFlow
from fedq.node.records.answers import Answers
from fedq.node.records.state import NodeState, Primary
from fedq.node.requests.basic_requests import BasicRequests
from fedq.node.requests.direct_reply import DirectReply
from fedq.node.requests.exchange_requests import ExchangeRequests
from fedq.node.requests.queue_requests import QueueRequests
from fedq.node.requests.transactions import Transactions
from fedq.node.settings import NodeSettings
from fedq.wiring.cluster_map.map import ReadMap
from fedq.wiring.cluster_map.operations import Operation
from fedq.wiring.cluster_map.snapshot import Frozen

__all__ = ["Node", "NodeSettings"]

TURN_PASSES_MAX = 64
SEGMENTS_EVERY_MS = 1_000


class Node:
    """One node of the federation; see `fedq.node.outbox` for the driver's contract."""

    def __init__(self, settings: NodeSettings, recovered: Recovered) -> None:
        """`recovered`: what `fedq.journal.recovery` read from the data directory."""
        state = self.state = NodeState(settings, recovered)
        self.answers = Answers(state)
        self.proposals = Proposals(state)
        admission = Admission(state)
        self.relays = RelayFlow(state, admission)
        self.outlets = Outlets(state, admission, self.relays, self.proposals.ask_for_fragment)
        self.timers = QueueTimers(state, DeadLetters(state, self.outlets))
        abandoned = Abandoned(state, self.proposals)
        self.fragments = FragmentFlow(state, admission, self.timers, abandoned)
        self.replicas = ReplicaFlow(state)
        self.registrations = Registrations(state, self.proposals)
        self.private = PrivateFlow(state, self.registrations)
        self.asking = Asking(state, self.fragments)
        readers = Readers(state)
        self.settling = SettleFlow(state)
        self.getting = Getting(state, self.timers, readers, self.settling)
        self.consuming = ConsumeFlow(state, self.settling, self.getting, self.timers)
        dispatching = Dispatching(state, self.consuming, self.fragments, self.timers)
        admission.dispatch = dispatching.everywhere
        self.permissions = Permissions(state)
        self.publishing = PublishFlow(state, self.outlets, self.permissions.may_publish)
        replies = DirectReply(state, self.answers, self.private, self.consuming)
        queues = QueueRequests(
            state, self.answers, self.proposals, self.private, self.asking, self.consuming,
            self.registrations, replies, dispatching,
        )  # fmt: skip
        self.timers.drop_private = queues.drop_private
        self.locked = queues.locked
        basic = BasicRequests(
            state, self.answers, queues, self.consuming, self.getting, self.asking, replies
        )
        transactions = Transactions(state, self.answers, self.settling, self.outlets)
        self.tallies = Tallies(state)
        access = self.access = Access(state, self.proposals, self.tallies)
        connections = connection_settings(state, access)
        self.clients = ClientFlow(
            state, readers, connections, self.answers, self.publishing, self.settling, queues,
            ExchangeRequests(state, self.answers, self.proposals), basic, transactions,
            self.permissions, access,
        )  # fmt: skip
        self.evictions = Evictions(state, self.clients, queues)
        self.roles = FragmentRoles(state, self.fragments, self.replicas)
        self.map = MapFlow(
            state, fragments=self.fragments, roles=self.roles, outlets=self.outlets,
            relays=self.relays, consuming=self.consuming, getting=self.getting, asking=self.asking,
            private=self.private, proposals=self.proposals, evictions=self.evictions,
            tallies=self.tallies,
        )  # fmt: skip
        self.cluster = ClusterFlow(state, self.proposals, abandoned)
        self.fencing = Fencing(state, self.clients)
        self.memory = Memory(state, self.clients)
        #: A clean stop waits for nothing but clients (`_ends`); and for nothing at all.
        self._ends = self.stopped = False
        self._started_ms: int | None = None
        self._segments_ms = 0
        self.inbox = PeerInbox(state, self._message_handlers())

    @property
    def out(self) -> NodeOut:
        """The lanes to be drained after `end_turn`."""
        return self.state.out

    def _message_handlers(self) -> dict[type, Callable[[NodeId, Any], None]]:
        return {
            p.PublishBatch: self.fragments.on_publish_batch,
            p.PublishAtomic: self.fragments.on_publish_atomic,
            p.PublishDone: self.outlets.on_publish_done, p.Watch: self.fragments.on_watch,
            p.Offer: self.consuming.on_offer, p.Credit: self.fragments.on_credit,
            p.CreditBack: self.consuming.on_credit_back, p.Get: self.fragments.on_get,
            p.Got: self.getting.on_got, p.Deliver: self.consuming.on_deliver,
            p.Settle: self.fragments.on_settle, p.Attach: self.fragments.on_attach,
            p.ReplicaOffer: self.fragments.on_replica_offer,
            p.ReplicaWanted: self.replicas.on_wanted, p.CopyQuery: self.cluster.reviving.on_query,
            p.CopyWorth: self.cluster.deciding.on_worth, p.CopyStart: self.replicas.on_copy_start,
            p.CopyChunk: self.replicas.on_copy_chunk, p.Replicate: self.replicas.on_replicate,
            p.ReplicaAck: self.fragments.on_replica_ack, p.MapApplied: self.map.on_map_applied,
            p.Interest: self.private.on_interest, p.InterestDone: self.private.on_interest_done,
            p.Relay: self.relays.on_relay, p.RelayDone: self.relays.on_relay_done,
            p.Call: self.fragments.on_call, p.Reply: self.asking.on_reply,
            p.Tally: self.tallies.on_tally,
        }  # fmt: skip

    @property
    def overtaken_by(self) -> int | None:
        """The number of a newer process of this name in the map; `out.fatal` says so."""
        return self.cluster.coming_up.overtaken_by

    # --- turns -------------------------------------------------------------------------------

    def begin_turn(self, now_ms: int) -> None:
        """A turn begins at this monotonic time; it never goes back."""
        assert now_ms >= self.state.now_ms, "the clock went back"
        state = self.state
        self.cluster.begin_turn(now_ms)
        state.work.begin_turn()
        if self._started_ms is None:
            self._started_ms = now_ms
        if state.unfinished:
            state.go_on_with_unfinished()
        if self.inbox.has_more:
            self.inbox.begin_turn()
        self.timers.begin_turn()
        self.clients.begin_turn()
        self.relays.begin_turn()

    @property
    def uptime_ms(self) -> int:
        """Since the first turn."""
        return 0 if self._started_ms is None else self.state.now_ms - self._started_ms

    def post_mortem(self, error: Exception) -> Stopped:
        """What this turn was at, which an exception ended: the last call of all."""
        return post_mortem(self.state, error)

    def end_turn(self) -> None:
        """Works off everything this turn's inputs touched, and fills the lanes."""
        state = self.state
        state.at = state.at_what = None
        served = state.serving
        if self.cluster.decide_serving():
            self.fencing.on_serving(True)
        elif state.serving and not served:
            # What it heard in this turn renewed the lease after which the turn began.
            self.clients.on_serving()
        if not state.joined and self.cluster.decide_joined():
            self.clients.on_joined()
        if self._ends:
            self.cluster.handing.say_all_seen()
        self.evictions.work_off()
        self.clients.readers.resume()
        state.chores.work_off()
        passes = 0
        while passes < TURN_PASSES_MAX and self._work_off():
            passes += 1
            if not state.is_marked:
                break
        state.at = state.at_what = None
        self.memory.end_turn()
        # The last pass may have made some: letters of the dead, a transaction's publishes.
        if state.peers:
            self.relays.flush_all()
        if state.interest.changed:
            self.private.announce()
        self.map.tell_version()
        self.proposals.flush()
        state.out.journal += state.plan.take()
        if state.peers and not state.log_stalls:
            self.cluster.take_frames()
        state.out.valid_until_ms = self.cluster.valid_until_ms
        state.out.due_ms = self.timers.due_ms()
        goes_on = self.clients.drain() or self.relays.has_more or state.chores.has_more
        goes_on = goes_on or bool(state.unfinished) or self.inbox.has_more
        state.out.again = goes_on or passes == TURN_PASSES_MAX

    def _work_off(self) -> bool:
        """One pass over what is marked; false when there was nothing."""
        state = self.state
        if state.after_applied or state.after_interest:
            self.map.release_waiting()
            self.private.release_waiting()
        resumed = bool(state.answered) and self.clients.resume_answered()
        publishers = bool(state.dirty_publishers)
        if publishers:
            self.outlets.flush_all()
        if state.peers:
            self.relays.flush_all()
        dealt = bool(state.dirty_queues or state.dirty_primaries)
        if dealt:
            self._deal()
        if state.settlements:
            self.settling.flush_settlements()
        touched = bool(state.dirty_primaries or state.dirty_commits)
        if touched:
            self._work_off_fragments()
        if state.suspect_copies:
            self.roles.compare_again()
        copied = bool(state.dirty_backups)
        if copied:
            self._finish_copies()
        committed = bool(state.committed)
        if committed:
            owners, state.committed = state.committed, []
            for owner in owners:
                owner.on_committed()
        confirmed = state.serving and bool(state.dirty_channels)
        if confirmed:
            channels, state.dirty_channels = state.dirty_channels, {}
            for channel in channels:
                self.answers.flush_confirms(channel)
        return resumed or publishers or dealt or touched or copied or confirmed or committed

    def _deal(self) -> None:
        """The queues that have new messages, or consumers that take more."""
        state = self.state
        queues, state.dirty_queues = state.dirty_queues, {}
        for fragment in state.dirty_primaries:
            primary = state.primaries.get(fragment)
            if primary is not None:
                queues[primary.queue] = None
        for queue in queues:
            state.at, state.at_what = queue, None
            self.consuming.dispatch(queue)

    def _finish_copies(self) -> None:
        """The fragments of which this node keeps copies."""
        state = self.state
        backups, state.dirty_backups = state.dirty_backups, {}
        for fragment in backups:
            if (backup := state.backups.get(fragment)) is not None:
                self.replicas.finish(backup)

    def _work_off_fragments(self) -> None:
        """The fragments that this node serves.

        Those of which only more is committed than before need neither be dealt from nor looked
        through.
        """
        state, flow = self.state, self.fragments
        primaries, state.dirty_primaries = state.dirty_primaries, {}
        commits, state.dirty_commits = state.dirty_commits, {}
        for fragment in primaries:
            primary = state.primaries.get(fragment)
            if primary is not None:
                state.at, state.at_what = primary, None
                flow.serve_takers(primary)
                if not primary.is_plain or primary.fragment.singles is not None:
                    self.timers.after(primary)
                flow.finish(primary)
        for fragment in commits:
            primary = state.primaries.get(fragment)
            if primary is not None:
                flow.say_committed(primary)

    # --- clients -----------------------------------------------------------------------------

    def on_connected(
        self, connection: ConnectionId, address: str, is_loopback: bool,
        certificate_name: str | None = None, line: object = None,
    ) -> None:  # fmt: skip
        """A client connected from `address`, for display; a verified certificate names it so.

        `line`: what the driver wants to know the connection by in `NodeOut.fanned_to`; None: its
        number.
        """
        self.clients.on_connected(connection, address, is_loopback, certificate_name, line)

    def has_opened(self, connection: ConnectionId) -> bool:
        """Whether the client has logged in and opened a virtual host."""
        client = self.state.clients.get(connection)
        return client is not None and client.vhost != ""

    def on_bytes(self, connection: ConnectionId, data: bytes) -> None:
        """Bytes from a client."""
        self.clients.on_bytes(connection, data)

    def on_verified(self, number: int, is_right: bool | None) -> None:
        """The verdict about a password of `NodeOut.verifications`; None: there is none."""
        self.clients.on_verified(number, is_right)

    def on_writable(self, connection: ConnectionId, writable: bool) -> None:
        """Whether the client's socket takes more without buffering too much."""
        self.clients.on_writable(connection, writable)

    def on_disconnected(self, connection: ConnectionId) -> None:
        """The client's socket is closed."""
        self.clients.on_disconnected(connection)

    # --- peers -------------------------------------------------------------------------------

    def on_link_up(self, peer: NodeId, process: Incarnation = NO_PROCESS) -> None:
        """A stream to the peer was opened: frames handed over from now on may arrive.

        `process`: the one that answered at its address, if it said so.
        """
        self.cluster.on_link_up(peer, process)

    def on_link_down(self, peer: NodeId, refused: bool) -> None:
        """The stream to the peer broke, or could not be opened.

        `refused`: its host answered that nobody listens there, which is proof that the process
        is gone; repeated at each failed attempt.
        """
        self.cluster.on_link_down(peer, refused)

    def on_peer(self, frame: PeerFrame) -> None:
        """A frame from a peer; the shell has made sure of its sender."""
        if frame.sender in self.state.peers:
            self.cluster.on_frame(frame)
            self.inbox.on_frame(frame)

    def on_trouble(self, subject: str, sentence: str) -> None:
        """The shell has found out what an operator should know; it says so again while it lasts."""
        self.state.found[subject] = (sentence, self.state.now_ms)

    # --- the Raft log ------------------------------------------------------------------------

    @property
    def takes_commands(self) -> bool:
        """Whether the turn has room for another command of the log; the rest are for the next."""
        return self.state.work.may_apply

    def on_committed(self, command: bytes) -> None:
        """The next command of the log, in log order, each exactly once per process life.

        After a restart, commands since the last snapshot come again (the map was restored).
        """
        self.map.on_committed(command)
        self.inbox.on_map()

    def on_leader(self, leader: NodeId | None) -> None:
        """Whom this node now believes to be the Raft leader."""
        self.cluster.on_leader(leader)

    def snapshot(self) -> bytes:
        """The whole cluster map, for the log's compaction."""
        return self.state.map.snapshot()

    def frozen_map(self) -> Frozen:
        """The whole map as it is now, for another thread to write."""
        return self.state.map.frozen()

    def on_snapshot(self, snapshot: bytes | ReadMap) -> None:
        """Replaces the whole cluster map (start, or a follower too far behind)."""
        self.map.on_snapshot(snapshot if isinstance(snapshot, ReadMap) else ReadMap(snapshot))
        self.inbox.on_map()

    def on_log_owed(self, owed_ms: int) -> None:
        """For how long the disk of the Raft log has owed a sync; said a few times a second."""
        self.cluster.handing.on_log_owed(owed_ms)

    # --- the journal -------------------------------------------------------------------------

    def on_synced(self, number: int) -> None:
        """Journal chunks up to this number are on disk."""
        state = self.state
        state.synced = number
        state.plan.on_synced(number)
        waits = state.sync_waits
        while waits and waits[0][0] <= number:
            waiting = waits.popleft()[1]
            if isinstance(waiting, Primary):
                self.fragments.on_synced(waiting, number)
            else:
                self.replicas.on_synced(waiting, number)

    def on_journal_failed(self, reason: str) -> None:
        """The disk is lost: nothing can be promised any more (P7)."""
        self.state.out.fatal = f"the journal cannot be written: {reason}"

    def on_resources(self, waiting: int, resident: int, disk_free: int) -> None:
        """What only the driver sees, a few times a second, in bytes.

        `waiting`: what it still has to write for clients and to the disk; `resident`: the memory of
        the process beyond what it began with; `disk_free`: on the disk of the data, -1 if unknown.
        """
        state = self.state
        state.bytes_waiting, state.resident, state.disk_free = waiting, resident, disk_free

    # --- administration ----------------------------------------------------------------------

    def on_change_asked(self, operation: Operation, answer: Callable[[Result], None]) -> None:
        """Someone wants the map changed; `answer` hears the result once, within a later turn.

        A change that was made is answered when every live member has applied it (P6).
        """

        def on_result(result: Result) -> None:
            if isinstance(result, Refused):
                answer(result)
            else:
                self.answers.when_everywhere(lambda: answer(result))

        self.proposals.ask(operation, on_result)

    # --- time --------------------------------------------------------------------------------

    def on_tick(self) -> None:
        """Called about every 50 ms of the clock given to `begin_turn`."""
        state = self.state
        self.cluster.tick()
        self.cluster.handing.tick()
        if state.stopping:
            self._stop_when_possible()
        self.access.tick()
        self.proposals.tick()
        self.map.faults.tick()
        self.clients.tick()
        self.tallies.tick()
        self.getting.tick()
        self.asking.tick()
        self.timers.tick()
        self.locked.tick()
        self.registrations.tick()
        self.fencing.tick()
        self.memory.tick()
        if state.now_ms - self._segments_ms >= SEGMENTS_EVERY_MS:
            self._segments_ms = state.now_ms
            state.plan.mark()
            self.roles.forget_cold()
            self.map.sessions.give_up_absent()
            state.out.drop_segments += state.plan.dead(self.roles.oldest_persistent)

    def stop(self) -> None:
        """Begins a clean stop: what this node leads is handed over, which may take a while; then
        clients get connection.close 320, and `stopped` turns true."""
        self.cluster.handing.stop()
        # Others that stop, too, are not to hand over to this one.
        self.cluster.beat_due = True
        self._stop_when_possible()

    def _stop_when_possible(self) -> None:
        chores = self.state.chores
        if self.stopped or chores.are_under_way(self) or not self.cluster.handing.may_stop():
            return
        self._ends = True
        clients = [client for client in self.state.clients.values() if not client.gone]
        if clients:
            text = "this node is being stopped: connect to another one"
            end_all(self.clients, self, clients, text)
        self.stopped = not chores.are_under_way(self)
