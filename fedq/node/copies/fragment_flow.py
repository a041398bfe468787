"""Shared fragments that this node serves: from events to journal and backups, and back to confirms.

    publishes, takes, settlements -> fragment records -> journal + Replicate to backups
    disk syncs, backups' acks     -> commit mark      -> PublishDone to origins

Changes `primaries`, `sync_waits`; sends to peers.
"""

from collections import deque
from typing import Final

from fedq.core.ids import FragmentId, NodeId, Origin
from fedq.core.limits import COPY_PRESSED_BYTES_MIN
from fedq.core.peer_messages import (
    CALL_CONSUME,
    CALL_CONSUME_ALONE,
    CALL_LEFT,
    Attach,
    Call,
    Credit,
    Get,
    PublishAtomic,
    PublishBatch,
    PublishDone,
    ReplicaAck,
    ReplicaOffer,
    Replicate,
    Settle,
    Watch,
)
from fedq.core.ranges import within
from fedq.core.versions import NAMED
from fedq.fragments.primary.outbox import Owed
from fedq.fragments.publishers.known_publishers import PUBLISHER_WORK
from fedq.fragments.upkeep.seen import mark_all, record_seen
from fedq.node.consuming.keeping_up import (
    meet,
    note_back,
)
from fedq.node.copies.dispatching import Dispatching
from fedq.node.copies.questions import Questions, note_use
from fedq.node.publishing.admission import Admission
from fedq.node.publishing.confirming import on_publishes_done
from fedq.node.records.roles import Primary
from fedq.node.records.settling import Settlements, positions_of, settle_in
from fedq.node.records.state import NodeState
from fedq.proxy.publisher import Settled

#: Calls that wait while it is not known whether the queue goes.
_OF_CONSUMERS: Final = (CALL_CONSUME, CALL_CONSUME_ALONE, CALL_LEFT)


class FragmentFlow:
    """The shared fragments that this node serves: their events, copies and promises."""

    __slots__ = ("admission", "dispatching", "questions", "state")

    def __init__(
        self, state: NodeState, admission: Admission, questions: Questions,
        dispatching: Dispatching,
    ) -> None:  # fmt: skip
        self.state = state
        self.admission = admission
        self.questions = questions
        self.dispatching = dispatching

    # --- what peers say to a primary ---------------------------------------------------------

    def on_publish_batch(self, sender: NodeId, message: PublishBatch) -> None:
        """Takes publishes of another node."""
        primary = self._current(message.fragment, message.reign)
        if primary is not None:
            self.admission.publish(
                primary, message.origin, message.first, message.messages, message.resent,
                message.named,
            )  # fmt: skip

    def on_publish_atomic(self, sender: NodeId, message: PublishAtomic) -> None:
        """Takes a transaction of another node's client."""
        primary = self._current(message.fragment, message.reign)
        if primary is not None:
            self.admission.publish_atomic(
                primary, sender, message.origin, message.first, message.messages, message.resent,
                Settled(message.acknowledged, message.requeued, message.rejected), message.named,
            )  # fmt: skip

    def on_replica_offer(self, sender: NodeId, message: ReplicaOffer) -> None:
        """A backup says what it holds and wants to follow."""
        primary = self._current(message.fragment, message.reign)
        if primary is None:
            return
        self.drain_records(primary)
        fragment, messages = primary.fragment, primary.fragment.messages
        here = messages.persistent_ranges() if primary.replication.sparing else messages.ranges()
        publishers = fragment.publishers
        primary.replication.on_offer(
            sender, message.copy, message.held, here, fragment.notes,
            fragment.origins, fragment.last, self.state.now_ms,
            publishers.begun_with if publishers is not None else None,
        )  # fmt: skip
        if publishers is not None:
            fragment.recorder.publishers(fragment.last, publishers.marks)
            known = len(publishers.begun_with) + len(publishers)
            self.state.work.serve(known * PUBLISHER_WORK)
        is_read = fragment.log is not None or fragment.queue_readers is not None
        if is_read and self.state.map.cluster_version >= NAMED:
            # Names that it knows from elsewhere are void.
            fragment.recorder.readers(fragment.last, True, fragment.reader_places)
        if primary.seen_at:
            # A copy that begins now has not heard it.
            primary.seen_event = record_seen(fragment, primary.seen_at)
        self._touch(primary)

    def on_replica_ack(self, sender: NodeId, message: ReplicaAck) -> None:
        """A backup holds more than before."""
        primary = self._current(message.fragment, message.reign)
        if primary is None:
            return
        replication = primary.replication
        follows = replication.follows(sender)
        if replication.on_ack(sender, message.through, message.copied, self.state.now_ms):
            if follows:
                self.state.marks.commits[message.fragment] = None
            else:
                self._touch(primary)

    def on_attach(self, sender: NodeId, message: Attach) -> None:
        """What a node's consumers still hold from an earlier reign or session."""
        primary = self._current(message.fragment, message.reign)
        if primary is not None:
            # Only those that are here: a range may span any number of others.
            held = within(message.held, primary.fragment.messages)
            primary.fragment.attach(sender, held)
            self._note_use_until_now(primary, sender)
            primary.takers.attach(sender, message.consumers, message.exclusive, message.ticket)
            if primary.windows is not None:
                primary.windows.attach(sender, len(held))
                primary.windows.note_idle(sender, message.idle)
            meet(primary)
            self._touch(primary)

    def on_watch(self, sender: NodeId, message: Watch) -> None:
        """How many consumers a node has for this queue."""
        primary = self._current(message.fragment, message.reign)
        if primary is not None:
            note_use(self.state, primary)
            primary.takers.watch(sender, message.consumers, message.exclusive, message.ticket)
            meet(primary)
            if primary.windows is not None:
                primary.windows.note_idle(sender, message.idle)
            self._touch(primary)

    def on_credit(self, sender: NodeId, message: Credit) -> None:
        """A node takes more messages."""
        primary = self._current(message.fragment, message.reign)
        if primary is not None:
            primary.takers.grant(sender, message.through, message.once, message.level)
            self._touch(primary)

    def on_get(self, sender: NodeId, message: Get) -> None:
        """A node wants one message for a basic.get; answered when this turn ends."""
        primary = self._current(message.fragment, message.reign)
        if primary is not None:
            self.dispatching.catch_up(primary.queue)
            note_use(self.state, primary)
            primary.gets.append((sender, message.request))
            self._touch(primary)

    def on_settle(self, sender: NodeId, message: Settle) -> None:
        """What became of deliveries to a node."""
        primary = self._current(message.fragment, message.reign)
        if primary is not None:
            lanes = Settlements(
                [message.acknowledged], [message.requeued], [message.rejected], [message.unseen]
            )
            settle_in(primary.fragment, sender, lanes)
            if self.state.tracer is not None:
                said = zip(("acked", "requeued", "rejected", "unseen"), lanes.lanes(), strict=True)
                self.state.tracer.on_settled_by(
                    sender, message.fragment, [(why, positions_of(runs)) for why, runs in said]
                )
            if primary.windows is not None:
                note_back(primary.windows, sender, lanes, self.state.now_ms)
                primary.windows.note_idle(sender, message.idle)
            self._touch(primary)

    def on_call(self, sender: NodeId, message: Call) -> None:
        """Takes a question from another node; a stale one is asked again of the right primary."""
        primary = self.state.primaries.get(message.fragment)
        if primary is not None:
            self.dispatching.catch_up(primary.queue)
        self.questions.put(sender, message.request, message.fragment, message.verb)

    def _note_use_until_now(self, primary: Primary, node: NodeId) -> None:
        """Notes that a node's consumers had used the queue until now, when word of them ends."""
        if node in primary.takers.consumers:
            note_use(self.state, primary)

    def lose_taker(self, primary: Primary, node: NodeId) -> None:
        """Takes back what the consumers of a member that went down had; waits for it no more."""
        primary.gets = deque(get for get in primary.gets if get[0] != node)
        # To admit its consumer now would be for ever: nobody takes it back.
        primary.calls = deque(call for call in primary.calls if call[0] != node)
        primary.attaching.pop(node, None)
        self._note_use_until_now(primary, node)
        primary.takers.forget(node)
        if primary.windows is not None:
            primary.windows.attach(node, 0)
        primary.replication.reset(node, self.state.now_ms)
        # Half of it, and nobody could tell who has what.
        self.state.risk.begin()
        released = primary.fragment.release(node)
        self.state.risk.end()
        if self.state.tracer is not None:
            self.state.tracer.on_released(primary.fragment.fragment_id, node, released)
        self._touch(primary)

    def on_peer_applied(self, node: NodeId, version: int) -> None:
        """A peer has said everything about earlier reigns up to this map version."""
        attaching = self.state.attaching
        for fragment in list(attaching):
            primary = self.state.primaries.get(fragment)
            if primary is not None and version >= primary.attaching.get(node, version + 1):
                del primary.attaching[node]
                self._doubt(primary, node)
                self._touch(primary)
            if primary is None or not primary.attaching:
                del attaching[fragment]

    def _doubt(self, primary: Primary, node: NodeId) -> None:
        """Marks as doubtful what this process may send again."""
        for origin in primary.unsure:
            if origin.node == node and self.state.map.is_up(*origin):
                mark_all(primary.fragment)

    # --- the end of a turn -------------------------------------------------------------------

    def drain_records(self, primary: Primary) -> None:
        """The fragment's new events go to the journal and to every backup that follows."""
        state, fragment = self.state, primary.fragment
        records = fragment.out.records
        if not records:
            if not fragment.recorder.active:
                primary.mark.advance(fragment.last, 0)
            return
        fragment.out.records = []
        chunk = 0
        for record in records:
            if record.journal:
                number = state.plan.append(
                    fragment.fragment_id,
                    record.data,
                    record.sync,
                    record.first_position,
                    record.last_position,
                )
                if record.sync:
                    chunk = number
        primary.mark.advance(records[-1].last, chunk)
        if chunk:
            self.await_sync(primary, chunk)
        if primary.replication.backups:
            primary.replication.on_records(records, state.now_ms)

    def await_sync(self, primary: Primary, chunk: int) -> None:
        """Lets the primary's mark hear when a journal chunk is on disk."""
        self.state.sync_asked = chunk
        self.state.sync_waits.append((chunk, primary))

    def on_synced(self, primary: Primary, chunk: int) -> None:
        """Takes note that the journal is on disk up to a chunk for which the primary has waited."""
        primary.mark.on_synced(chunk)
        if primary.replication.on_local(primary.mark.safe):
            self.state.marks.commits[primary.fragment.fragment_id] = None

    def finish(self, primary: Primary) -> None:
        """Sends what is to be sent, and says what is committed by now."""
        state, fragment, replication = self.state, primary.fragment, primary.replication
        state.looked_after[fragment.fragment_id] = None
        if fragment.out.records or not fragment.recorder.active:
            self.drain_records(primary)
        if replication.backups and (copied := replication.copies_under_way()):
            pressed = [node for node in copied if self._is_pressed(node)]
            if not replication.pump_copies(
                fragment.messages, fragment.notes, state.now_ms, state.work, pressed
            ):
                state.marks.unfinished[fragment.fragment_id] = None
        if replication.sends:
            self._send_copies(primary)
        if primary.mark.safe > replication.local or replication.commit < replication.local:
            replication.on_local(primary.mark.safe)
        self.say_committed(primary)

    def _is_pressed(self, node: NodeId) -> bool:
        """Whether much is on its way to a node."""
        peer = self.state.peers.get(node)
        if peer is None:
            return True
        return peer.link.bytes_unacked + peer.link.bytes_held >= COPY_PRESSED_BYTES_MIN

    def say_committed(self, primary: Primary) -> None:
        """Says what is committed by now, to whoever waits for it."""
        fragment, commit = primary.fragment, primary.replication.commit
        if fragment.safe < commit and fragment.publishers is not None:
            fragment.safe = commit
            self._touch(primary)
        if not self.state.serving:
            return
        owed = fragment.out.owed
        if owed and owed[0].event <= commit:
            self._pay_owed(primary)
        if primary.promised:
            self._keep_promises(primary)

    def _send_copies(self, primary: Primary) -> None:
        """Sends records to the backups; those that no promise waits for (settlements) have time."""
        replication, owed = primary.replication, primary.fragment.out.owed
        sends, replication.sends = replication.sends, {}
        awaited = max(
            owed[-1].event if owed else 0, primary.promised[-1][0] if primary.promised else 0
        )
        if primary.seen_at:
            # Whoever leads next is to know what was seen before it does.
            awaited = primary.fragment.last
        for node, messages in sends.items():
            for message in messages:
                patient = isinstance(message, Replicate) and awaited <= message.previous
                self.state.send(node, message, patient)

    def _pay_owed(self, primary: Primary) -> None:
        """Pays what is owed after a commit: one cumulative mark per origin.

        While this node is full other nodes hear it a moment later, so that their publishers pause
        (`fedq.node.clients.memory`). This node's own are not read anyhow; and dead letters, which
        make room by going, must not wait for it.
        """
        fragment, commit = primary.fragment, primary.replication.commit
        state, owed = self.state, fragment.out.owed
        if len(owed) == 1 and owed[0].origin == state.origin:
            # As usual: one batch of this node's own.
            each = owed.popleft()
            on_publishes_done(state, fragment.fragment_id, each.through, each.refused)
            return
        own = state.origin if state.takes_nothing else None
        kept: list[Owed] = []
        done: dict[Origin, int] = {}
        refused: dict[Origin, list[int]] = {}
        while owed and owed[0].event <= commit:
            each = owed.popleft()
            if own is not None and each.origin != own and each.event > primary.lets_through:
                kept.append(each)
                continue
            done[each.origin] = each.through
            if each.refused:
                refused.setdefault(each.origin, []).extend(each.refused)
        if kept:
            owed.extendleft(reversed(kept))
        for origin, through in done.items():
            numbers = refused.get(origin, [])
            if origin == state.origin:
                on_publishes_done(state, fragment.fragment_id, through, numbers)
            elif origin.node in state.peers and state.map.is_up(*origin):
                state.send(
                    origin.node,
                    PublishDone(fragment.fragment_id, fragment.reign, through, numbers),
                )

    def _keep_promises(self, primary: Primary) -> None:
        """Gives the answers that waited until an event was committed."""
        promised, commit = primary.promised, primary.replication.commit
        while promised and promised[0][0] <= commit:
            _, asker, request, count = promised.popleft()
            self.questions.answer(asker, request, primary.fragment.fragment_id, count, 0)

    def _current(self, fragment: FragmentId, reign: int) -> Primary | None:
        """The fragment, if this node serves it in that reign; otherwise the message is stale."""
        primary = self.state.primaries.get(fragment)
        if primary is None or primary.fragment.reign != reign:
            return None
        return primary

    def _touch(self, primary: Primary) -> None:
        self.state.marks.primaries[primary.fragment.fragment_id] = None
