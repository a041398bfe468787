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

from fedq.core.errors import Refused
from fedq.core.ids import NO_PROCESS, ConnectionId, Incarnation, NodeId
from fedq.core.peer_messages import PeerFrame
from fedq.core.suspects import Stopped
from fedq.journal.recovered import Recovered
from fedq.node.clients.evictions import end_all
from fedq.node.clients.permissions import Permissions
from fedq.node.clients.room import Clients
from fedq.node.cluster.cluster_flow import ClusterFlow
from fedq.node.cluster.proposals import Result
from fedq.node.consuming.room import Consuming
from fedq.node.containment.post_mortem import post_mortem
from fedq.node.copies.room import Copies
from fedq.node.endings.room import Endings
from fedq.node.map.map_flow import MapFlow
from fedq.node.outbox import NodeOut
from fedq.node.peers.handlers import handlers_of
from fedq.node.peers.peer_inbox import PeerInbox
from fedq.node.private.room import Private
from fedq.node.publishing.room import Publishing
from fedq.node.records.answers import Answers
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState
from fedq.node.requests.queue_refusals import refuse_too_new_change
from fedq.node.requests.room import Requests
from fedq.node.settings import NodeSettings
from fedq.node.streams.room import Streams
from fedq.node.tracing.room import Tracing
from fedq.wiring.cluster_map.map import ReadMap
from fedq.wiring.cluster_map.operations import Operation
from fedq.wiring.cluster_map.snapshot import Frozen

__all__ = ["Node", "NodeSettings"]

WORK_OFF_ROUNDS_MAX = 64
SEGMENTS_EVERY_MS = 1_000


class Node:
    """One node of the federation; see `fedq.node.outbox` for the driver's contract."""

    def __init__(self, settings: NodeSettings, recovered: Recovered) -> None:
        """`recovered`: what `fedq.journal.recovery` read from the data directory."""
        state = self.state = NodeState(settings, recovered)
        answers = self.answers = Answers(state)
        permissions = self.permissions = Permissions(state)
        cluster = self.cluster = ClusterFlow(state)
        publishing = self.publishing = Publishing(
            state, cluster.proposals.ask_for_fragment, permissions.may_publish,
            permissions.may_publish_topic,
        )  # fmt: skip
        consuming = self.consuming = Consuming(state, publishing)
        private = self.private = Private(state, cluster)
        streams = self.streams = Streams(state, consuming)
        tracing = self.tracing = Tracing(state, publishing)
        copies = self.copies = Copies(state, cluster, publishing, consuming)
        # The one call that goes up (docs/adr/0052): who publishes may be the reason to hand out.
        publishing.admission.dispatcher = copies.dispatching
        endings = self.endings = Endings(state, answers, consuming, private, copies)
        requests = self.requests = Requests(
            state, answers, cluster, publishing, consuming, private, copies, endings, streams
        )
        clients = self.clients = Clients(
            state, answers, permissions, cluster, publishing, consuming, copies, endings, requests
        )
        self.map = MapFlow(
            state, cluster, publishing, consuming, private, copies, streams, tracing,
            clients.evictions,
        )  # fmt: skip
        #: A clean stop waits for nothing but clients (`_ends`); and for nothing at all.
        self._ends = self.stopped = False
        self._started_ms: int | None = None
        self._segments_ms = 0
        heard = handlers_of(
            cluster, publishing, consuming, private, copies, streams, self.map.on_map_applied
        )
        self.inbox = PeerInbox(state, heard)

    @property
    def out(self) -> NodeOut:
        """The lanes to be drained after `end_turn`."""
        return self.state.out

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
        if state.tracer is not None:
            state.tracer.ms = state.unix_ms
        if state.marks.unfinished:
            state.go_on_with_unfinished()
        if self.inbox.has_more:
            self.inbox.begin_turn()
        self.consuming.timers.begin_turn()
        self.clients.flow.begin_turn()
        self.publishing.relays.begin_turn()

    @property
    def uptime_ms(self) -> int:
        """The time since the first turn."""
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
            self.clients.fencing.on_serving()
        elif state.serving and not served:
            # What it heard in this turn renewed the lease after which the turn began.
            self.clients.flow.on_serving()
        if not state.joined and self.cluster.decide_joined():
            self.tracing.refresh()
            self.clients.flow.on_joined()
        self.cluster.end_turn(self._ends)
        self.clients.evictions.work_off()
        self.clients.flow.readers.resume()
        state.chores.work_off()
        if state.tracer is not None:
            self.tracing.end_turn(state.tracer)
        rounds = 0
        self._release_waiting()
        while state.marks.are_set(state.serving) and rounds < WORK_OFF_ROUNDS_MAX:
            self._work_off()
            self._release_waiting()
            rounds += 1
        state.at = state.at_what = None
        self.clients.memory.end_turn()
        # The last round may have made some: letters of the dead, a transaction's publishes.
        if state.peers:
            self.publishing.relays.flush_all()
        if state.interest.changed:
            self.private.flow.announce()
        self.map.tell_version()
        self.cluster.proposals.flush()
        state.out.journal += state.plan.take()
        if state.peers and not state.log_stalls:
            self.cluster.take_frames()
        state.out.valid_until_ms = self.cluster.valid_until_ms
        state.out.due_ms = self.consuming.timers.due_ms()
        goes_on = (
            self.clients.flow.drain() or self.publishing.relays.has_more or state.chores.has_more
        )
        goes_on = goes_on or bool(state.marks.unfinished) or self.inbox.has_more
        state.out.again = goes_on or rounds == WORK_OFF_ROUNDS_MAX

    def _release_waiting(self) -> None:
        """Marks, or does, what waited for other nodes and need not any more."""
        marks = self.state.marks
        if marks.after_applied or marks.after_interest:
            self.map.release_waiting()
            self.private.flow.release_waiting()
        if marks.suspect_copies:
            self.copies.roles.compare_again()

    def _work_off(self) -> None:
        """Works off one round of what is marked."""
        state, marks = self.state, self.state.marks
        if marks.unwanted:
            self.endings.private.end_unwanted()
        if marks.answered:
            self.clients.flow.resume_answered()
        if marks.aloud:
            self.copies.quieting.end_marked()
        if marks.publishers:
            self.publishing.outlets.flush_all()
        if state.peers:
            self.publishing.relays.flush_all()
        if marks.queues or marks.primaries:
            self._deal()
        if marks.settlements:
            self.consuming.settling.flush_settlements()
        if marks.primaries or marks.commits:
            self._work_off_fragments()
        if marks.backups:
            self._finish_copies()
        if marks.committed:
            owners, marks.committed = marks.committed, []
            for owner in owners:
                owner.on_committed()
        if marks.channels and state.serving:
            channels, marks.channels = marks.channels, {}
            for channel in channels:
                self.answers.flush_confirms(channel)

    def _deal(self) -> None:
        """Deals from the queues that have new messages, or consumers that take more."""
        state = self.state
        queues, state.marks.queues = state.marks.queues, {}
        for fragment in state.marks.primaries:
            primary = state.primaries.get(fragment)
            if primary is not None:
                queues[primary.queue] = None
        for queue in queues:
            state.at, state.at_what = queue, None
            if queue in state.streams:
                self.streams.reading.dispatch(queue)
            else:
                self.consuming.flow.dispatch(queue)
        if self.copies.reading_private.has_some():
            self.copies.reading_private.look_at(queues)

    def _finish_copies(self) -> None:
        """Finishes the turn for fragments of which this node keeps copies."""
        state = self.state
        backups, state.marks.backups = state.marks.backups, {}
        for fragment in backups:
            if (backup := state.backups.get(fragment)) is not None:
                self.copies.replicas.finish(backup)

    def _work_off_fragments(self) -> None:
        """Works off the fragments that this node serves, as far as each of them needs it."""
        state, flow = self.state, self.copies.fragments
        primaries, state.marks.primaries = state.marks.primaries, {}
        commits, state.marks.commits = state.marks.commits, {}
        for fragment in primaries:
            primary = state.primaries.get(fragment)
            if primary is not None:
                state.at, state.at_what = primary, None
                self.copies.dispatching.serve_takers(primary)
                if not primary.is_plain or primary.fragment.tracked is not None:
                    self.consuming.timers.after(primary)
                flow.finish(primary)
                if primary.fragment.log is not None and primary.queue in state.streams:
                    state.marks.queues[primary.queue] = None
                if primary.fragment.shut or primary.fragment.stowed_count:
                    self.copies.reading.look(primary)
                    self.copies.copying.look(primary)
        for fragment in commits:
            primary = state.primaries.get(fragment)
            if primary is not None:
                flow.say_committed(primary)
                if primary.queue in state.streams:
                    state.marks.queues[primary.queue] = None

    # --- clients -----------------------------------------------------------------------------

    def on_connected(
        self, connection: ConnectionId, address: str, is_loopback: bool,
        certificate_name: str | None = None, known_as: object = None,
    ) -> None:  # fmt: skip
        """Takes a client from `address` (for display); a verified certificate names it so.

        `known_as`: what the driver wants to know the connection by in `NodeOut.fanned_to`; None:
        its number.
        """
        self.clients.flow.on_connected(connection, address, is_loopback, certificate_name, known_as)

    def has_opened(self, connection: ConnectionId) -> bool:
        """Whether the client has logged in and opened a virtual host."""
        client = self.state.clients.get(connection)
        return client is not None and client.vhost != ""

    def on_bytes(self, connection: ConnectionId, data: bytes) -> None:
        """Takes bytes from a client."""
        self.clients.flow.on_bytes(connection, data)

    def on_verified(self, number: int, is_right: bool | None) -> None:
        """The verdict about a password of `NodeOut.verifications`; None: there is none."""
        self.clients.flow.on_verified(number, is_right)

    def on_writable(self, connection: ConnectionId, writable: bool) -> None:
        """Whether the client's socket takes more without buffering too much."""
        self.clients.flow.on_writable(connection, writable)

    def on_disconnected(self, connection: ConnectionId) -> None:
        """The client's socket is closed."""
        self.clients.flow.on_disconnected(connection)

    # --- peers -------------------------------------------------------------------------------

    def on_link_up(self, peer: NodeId, process: Incarnation = NO_PROCESS) -> None:
        """A stream to the peer was opened, by which `process` answered, if it said so."""
        self.cluster.on_link_up(peer, process)

    def on_link_down(self, peer: NodeId, refused: bool) -> None:
        """The stream to the peer broke; `refused`, again and again: its process is gone."""
        self.cluster.on_link_down(peer, refused)

    def on_peer(self, frame: PeerFrame) -> None:
        """Takes a frame from a peer; the shell has made sure of its sender."""
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

    @property
    def cluster_name(self) -> str:
        """The name of the cluster; "" as long as it has none."""
        return self.state.map.cluster_name

    def on_committed(self, command: bytes) -> None:
        """Takes the next command of the log, in order; once per process life."""
        self.map.on_committed(command)
        self.inbox.on_map()

    @property
    def wanted_voters(self) -> tuple[NodeId, ...] | None:
        """The nodes that should vote by now, in ascending order; None: the map has not said so."""
        return self.cluster.wanted_voters

    def on_voters(self, voters: tuple[NodeId, ...]) -> None:
        """Takes note who votes, by the next entry of the log, in order, as `on_committed`."""
        self.map.on_voters(voters)
        self.cluster.count_voters()
        self.inbox.on_map()

    def on_new_set(self, voters: tuple[NodeId, ...]) -> None:
        """The newest voters in the log of this node, not committed perhaps; (): it names none."""
        self.cluster.on_new_set(voters)

    def on_leader(self, leader: NodeId | None) -> None:
        """Takes note whom this node now believes to be the Raft leader."""
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
        self.cluster.count_voters()
        self.inbox.on_map()

    def on_log_owed(self, owed_ms: int) -> None:
        """Notes for how long the disk of the Raft log has owed a sync; a few times a second."""
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
                self.copies.fragments.on_synced(waiting, number)
            else:
                self.copies.replicas.on_synced(waiting, number)

    def on_read(self, number: int, data: bytes) -> None:
        """Takes what was read of a segment."""
        self.state.reads.answer(number, data)

    def on_read_failed(self, number: int, reason: str) -> None:
        """Takes note that a piece of a segment cannot be read."""
        self.state.reads.fail(number, reason)

    def on_scratch_written(self, number: int) -> None:
        """Takes note that a piece is in its scratch file."""
        self.state.scratch.on_written(number)

    def on_scratch_failed(self, number: int, reason: str) -> None:
        """Takes note that a piece cannot be written to its scratch file."""
        self.state.scratch.on_failed(number, reason)

    def on_journal_failed(self, reason: str) -> None:
        """Takes note that the disk is lost: nothing can be promised any more (P7)."""
        self.state.out.fatal = f"the journal cannot be written: {reason}"

    def on_resources(self, waiting: int, resident: int, disk_free: int) -> None:
        """Takes what only the driver sees, a few times a second, in bytes.

        `waiting`: what it still has to write for clients and to the disk; `resident`: the memory of
        the process beyond what it began with; `disk_free`: on the disk of the data, -1 if unknown.
        """
        state = self.state
        state.bytes_waiting, state.resident, state.disk_free = waiting, resident, disk_free

    # --- administration ----------------------------------------------------------------------

    def on_change_asked(self, operation: Operation, answer: Callable[[Result], None]) -> None:
        """Has the map changed; `answer` hears the result once, within a later turn.

        A change that was made is answered when every live member has applied it (P6).
        """
        refused = refuse_too_new_change(operation, self.state.map)
        if refused is not None:
            answer(refused)
            return

        def on_result(result: Result) -> None:
            if isinstance(result, Refused):
                answer(result)
            else:
                self.answers.when_everywhere(lambda: answer(result))

        self.cluster.proposals.ask(operation, on_result)

    # --- time --------------------------------------------------------------------------------

    def on_tick(self) -> None:
        """Does what is due; called about every 50 ms of the clock given to `begin_turn`."""
        state = self.state
        self.cluster.tick()
        self.cluster.move()
        if state.stopping:
            self._stop_when_possible()
        self.clients.access.tick()
        self.cluster.proposals.tick()
        self.map.faults.tick()
        self.clients.flow.tick()
        self.cluster.tallies.tick()
        self.consuming.getting.tick()
        self.copies.tick()
        self.streams.tick()
        self.tracing.tick()
        if state.plan.has_news_of_dead:
            self._drop_dead()
        self.consuming.timers.tick()
        self.requests.queues.locked.tick()
        self.private.registrations.tick()
        self.clients.fencing.tick()
        self.clients.memory.tick()
        if state.now_ms - self._segments_ms >= SEGMENTS_EVERY_MS:
            self._segments_ms = state.now_ms
            state.plan.mark()
            self.copies.roles.forget_cold()
            self.copies.reading.forget_gone()
            self.copies.stowing.forget_gone()
            self.copies.scratching.tick()
            self.map.sessions.give_up_absent()
            self._drop_dead()

    def _drop_dead(self) -> None:
        """Has segments deleted that nobody needs any more."""
        state = self.state
        state.out.drop_segments += state.plan.dead(self.copies.roles.oldest_persistent)

    def stop(self) -> None:
        """Begins a clean stop: what this node leads is handed over, which may take a while.

        Then clients get connection.close 320, and `stopped` turns true.
        """
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
            end_all(self.clients.flow, self, clients, text)
        self.stopped = not chores.are_under_way(self)
