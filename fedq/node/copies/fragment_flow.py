"""Shared fragments that this node serves: from events to journal and backups, and back to confirms.

    publishes, takes, settlements -> fragment records -> journal + Replicate to backups
    disk syncs, backups' acks     -> commit mark      -> PublishDone to origins

Changes `primaries`, `sync_waits`; sends to peers.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from fedq.core.ids import FragmentId, NodeId, Origin, QueueKey
from fedq.core.peer_messages import (
    CALL_CONSUME,
    CALL_CONSUME_ALONE,
    CALL_COUNT,
    CALL_DECLARE,
    CALL_LEFT,
    CALL_PURGE,
    Attach,
    Call,
    Credit,
    CreditBack,
    Get,
    Got,
    Offer,
    PublishAtomic,
    PublishBatch,
    PublishDone,
    ReplicaAck,
    ReplicaOffer,
    Replicate,
    Reply,
    Settle,
    Watch,
)
from fedq.core.ranges import within
from fedq.fragments.enforcement import visible_count
from fedq.fragments.outbox import Owed
from fedq.fragments.pace import WINDOW_MS
from fedq.fragments.seen import mark_all, record_seen
from fedq.node.cluster.abandoned import Abandoned
from fedq.node.consuming.handing import hand_to_nodes
from fedq.node.consuming.keeping_up import (
    look_what_waits,
    meet,
    note_back,
    note_taken,
)
from fedq.node.consuming.queue_timers import QueueTimers
from fedq.node.copies.emptying import Purging
from fedq.node.publishing.admission import Admission
from fedq.node.publishing.confirming import on_publishes_done
from fedq.node.records.settling import Settlements, settle_in
from fedq.node.records.state import NodeState, Primary
from fedq.proxy.calls import Calls
from fedq.proxy.publisher import Settled

#: Calls that wait while it is not known whether the queue goes.
_OF_CONSUMERS: Final = (CALL_CONSUME, CALL_CONSUME_ALONE, CALL_LEFT)


class FragmentFlow:
    """See the module's docstring."""

    __slots__ = ("abandoned", "admission", "calls", "catch_up", "state", "timers")

    def __init__(
        self, state: NodeState, admission: Admission, timers: QueueTimers, abandoned: Abandoned
    ) -> None:
        self.state = state
        self.abandoned = abandoned
        self.admission = admission
        self.timers = timers
        #: This node's own questions; fragments of this node answer them without a peer between.
        self.calls = Calls()
        #: What came before takes effect in a queue (`fedq.node.copies.dispatching`, which sets it).
        self.catch_up: Callable[[QueueKey], None] = _unset

    # --- what peers say to a primary ---------------------------------------------------------

    def on_publish_batch(self, sender: NodeId, message: PublishBatch) -> None:
        """Publishes of another node."""
        primary = self._current(message.fragment, message.reign)
        if primary is not None:
            self.admission.publish(
                primary, message.origin, message.first, message.messages, message.resent
            )

    def on_publish_atomic(self, sender: NodeId, message: PublishAtomic) -> None:
        """A transaction of another node's client."""
        primary = self._current(message.fragment, message.reign)
        if primary is not None:
            self.admission.publish_atomic(
                primary, sender, message.origin, message.first, message.messages, message.resent,
                Settled(message.acknowledged, message.requeued, message.rejected),
            )  # fmt: skip

    def on_replica_offer(self, sender: NodeId, message: ReplicaOffer) -> None:
        """A backup says what it holds and wants to follow."""
        primary = self._current(message.fragment, message.reign)
        if primary is None:
            return
        self.drain_records(primary)
        fragment = primary.fragment
        primary.replication.on_offer(
            sender, message.copy, message.held, fragment.messages.ranges(), fragment.notes,
            fragment.origins, fragment.last, self.state.now_ms,
        )  # fmt: skip
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
                self.state.dirty_commits[message.fragment] = None
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
            meet(primary)
            self._touch(primary)

    def on_watch(self, sender: NodeId, message: Watch) -> None:
        """How many consumers a node has for this queue."""
        primary = self._current(message.fragment, message.reign)
        if primary is not None:
            self._note_use(primary)
            primary.takers.watch(sender, message.consumers, message.exclusive, message.ticket)
            meet(primary)
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
            self.catch_up(primary.queue)
            self._note_use(primary)
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
            if primary.windows is not None:
                note_back(primary.windows, sender, lanes, self.state.now_ms)
            self._touch(primary)

    def on_call(self, sender: NodeId, message: Call) -> None:
        """A question from another node; a stale one is asked again of the right primary."""
        primary = self.state.primaries.get(message.fragment)
        if primary is not None:
            self.catch_up(primary.queue)
        self.ask(sender, message.request, message.fragment, message.verb)

    def ask(self, asker: NodeId, request: int, fragment: FragmentId, verb: int) -> bool:
        """A question of this or another node; false if this node does not serve the fragment.

        A purge is answered when it is committed: it must not be undone by a failover. What must
        not be judged before this node may serve, and knows what consumers of an earlier reign
        hold, waits until then.
        """
        primary = self.state.primaries.get(fragment)
        if primary is None:
            return False
        if verb in (CALL_COUNT, CALL_DECLARE):
            if verb == CALL_DECLARE:
                self._note_use(primary)
            consumers = sum(primary.takers.consumers.values())
            self._reply(asker, request, fragment, visible_count(primary.fragment), consumers)
        else:
            primary.calls.append((asker, request, verb))
            self._touch(primary)
        return True

    def _note_use(self, primary: Primary) -> None:
        """Somebody has use for the queue (x-expires)."""
        primary.used_ms = self.state.now_ms

    def _note_use_until_now(self, primary: Primary, node: NodeId) -> None:
        """What is known of a node's consumers ends: those that it had used the queue until now."""
        if node in primary.takers.consumers:
            self._note_use(primary)

    def _reply(
        self, asker: NodeId, request: int, fragment: FragmentId, ready: int, consumers: int
    ) -> None:
        if asker == self.state.me:
            self.calls.on_reply(request, fragment, ready, consumers)
        else:
            self.state.send(asker, Reply(request, fragment, ready, consumers))

    def _answer_calls(self, primary: Primary) -> None:
        """Carries out what was asked for; some answers wait for the commit."""
        fragment = primary.fragment
        calls, primary.calls = primary.calls, deque()
        for asker, request, verb in calls:
            if verb in _OF_CONSUMERS and self.abandoned.is_going(primary):
                primary.calls.append((asker, request, verb))
            elif verb == CALL_LEFT:
                self._reply(asker, request, fragment.fragment_id, 0, 0)
            elif verb in (CALL_CONSUME, CALL_CONSUME_ALONE):
                self._note_use(primary)
                ticket = primary.takers.admit(asker, verb == CALL_CONSUME_ALONE)
                refused = 0 if ticket else 1
                self._reply(asker, request, fragment.fragment_id, refused, ticket)
            elif verb == CALL_PURGE:
                purged = partial(self._purged, primary, asker, request)
                self.state.chores.begin(primary, Purging(self.state, fragment, purged))
            else:
                primary.promised.append((fragment.last, asker, request, 0))

    def _purged(self, primary: Primary, asker: NodeId, request: int, count: int) -> None:
        """Answered when it is committed; a fragment that has moved is asked again."""
        number = primary.fragment.fragment_id
        if self.state.primaries.get(number) is primary:
            primary.promised.append((primary.fragment.last, asker, request, count))
            self.state.dirty_primaries[number] = None

    def lose_taker(self, primary: Primary, node: NodeId) -> None:
        """A member went down: what its consumers had returns; it is waited for no more."""
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
        primary.fragment.release(node)
        self.state.risk.end()
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
        """What this process may send again must not be here without a mark."""
        for origin in primary.unsure:
            if origin.node == node and self.state.map.is_up(*origin):
                mark_all(primary.fragment)

    # --- the end of a turn -------------------------------------------------------------------

    def serve_takers(self, primary: Primary) -> None:
        """Hands ready messages to the nodes that have credit; offers what is left over."""
        fragment, takers = primary.fragment, primary.takers
        if primary.holds_back or fragment.shut or not self.state.serving:
            return
        if primary.calls:
            self._answer_calls(primary)
        if fragment.singles is not None and not self.timers.before(fragment):
            return
        ids = (fragment.fragment_id, fragment.reign)
        while primary.gets:
            node, request = primary.gets.popleft()
            taken = fragment.take(node, 1)
            note_taken(self.state, primary, node, len(taken.messages))
            self.state.send(
                node,
                Got(
                    request, *ids, taken.positions, taken.redelivered, taken.messages,
                    fragment.ready_count,
                ),
            )  # fmt: skip
        spared = self._spared(primary)
        if takers.credit and fragment.ready_count:
            hand_to_nodes(self.state, primary, None, spared)
        primary.noted = fragment.handed_out
        if fragment.ready_count > spared:
            for node in takers.offers():
                if node == self.state.me:
                    self.state.dirty_queues[primary.queue] = None
                else:
                    self.state.send(node, Offer(*ids))
        elif not fragment.ready_count and (takers.once or takers.offered):
            for node, amount in takers.give_back():
                self.state.send(node, CreditBack(*ids, amount))
        if primary.windows is not None:
            look_what_waits(self.state, self.timers, primary)

    def _spared(self, primary: Primary) -> int:
        """How many of the ready messages are left for consumers here, though others want them.

        Never where rank or ticket decides, nor while a consumer elsewhere is reserved for it.
        """
        fragment, takers = primary.fragment, primary.takers
        primary.pace.note(fragment.handed_out - primary.noted, self.state.now_ms)
        if not fragment.ready_count or takers.levels or takers.once or takers.single:
            return 0
        if self.state.me not in takers.consumers or len(takers.consumers) == 1:
            return 0
        soon = primary.pace.soon()
        if soon:
            # Should they stop: with every window less is left for them.
            self.timers.look_again(primary, WINDOW_MS)
        return min(soon, fragment.ready_count)

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
                    fragment.fragment_id, record.max_position, record.data, record.sync
                )
                if record.sync:
                    chunk = number
        primary.mark.advance(records[-1].last, chunk)
        if chunk:
            self.await_sync(primary, chunk)
        if primary.replication.backups:
            primary.replication.on_records(records, state.now_ms)

    def await_sync(self, primary: Primary, chunk: int) -> None:
        """The primary's mark hears when a journal chunk is on disk."""
        self.state.sync_asked = chunk
        self.state.sync_waits.append((chunk, primary))

    def on_synced(self, primary: Primary, chunk: int) -> None:
        """The journal is on disk up to a chunk for which the primary has waited."""
        primary.mark.on_synced(chunk)
        if primary.replication.on_local(primary.mark.safe):
            self.state.dirty_commits[primary.fragment.fragment_id] = None

    def finish(self, primary: Primary) -> None:
        """Sends what is to be sent, and says what is committed by now."""
        state, fragment, replication = self.state, primary.fragment, primary.replication
        state.looked_after[fragment.fragment_id] = None
        if fragment.out.records or not fragment.recorder.active:
            self.drain_records(primary)
        if replication.backups:
            replication.pump_copies(fragment.messages, fragment.notes, state.now_ms)
        if replication.sends:
            self._send_copies(primary)
        if primary.mark.safe > replication.local or replication.commit < replication.local:
            replication.on_local(primary.mark.safe)
        self.say_committed(primary)

    def say_committed(self, primary: Primary) -> None:
        """Says what is committed by now, to whoever waits for it."""
        if not self.state.serving:
            return
        owed = primary.fragment.out.owed
        if owed and owed[0].event <= primary.replication.commit:
            self._pay_owed(primary)
        if primary.promised:
            self._keep_promises(primary)

    def _send_copies(self, primary: Primary) -> None:
        """To the backups; records that no promise waits for (settlements, mostly) are patient."""
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
        """The after-commit lane: one cumulative mark per origin.

        While memory is full other nodes hear nothing, so that their publishers pause. This node's
        own are not read anyhow; and dead letters, which make room by going, must not wait for it.
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
            if own is not None and each.origin != own:
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
        """Answers that waited until an event was committed."""
        promised, commit = primary.promised, primary.replication.commit
        while promised and promised[0][0] <= commit:
            _, asker, request, count = promised.popleft()
            self._reply(asker, request, primary.fragment.fragment_id, count, 0)

    def _current(self, fragment: FragmentId, reign: int) -> Primary | None:
        """The fragment, if this node serves it in that reign; otherwise the message is stale."""
        primary = self.state.primaries.get(fragment)
        if primary is None or primary.fragment.reign != reign:
            return None
        return primary

    def _touch(self, primary: Primary) -> None:
        self.state.dirty_primaries[primary.fragment.fragment_id] = None


def _unset(*_: object) -> None:
    raise AssertionError("the node wires this before its first turn")
