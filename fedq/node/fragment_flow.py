"""Shared fragments that this node serves: from events to journal and backups, and back to confirms.

    publishes, takes, settlements -> fragment records -> journal + Replicate to backups
    disk syncs, backups' acks     -> commit mark      -> PublishDone to origins

Changes `primaries`, `sync_waits`; sends to peers.
"""

from collections import deque
from collections.abc import Callable

from fedq.core.batches import cut
from fedq.core.ids import FragmentId, NodeId, Origin
from fedq.core.peer_messages import (
    CALL_CONSUME,
    CALL_CONSUME_ALONE,
    CALL_PURGE,
    Attach,
    Call,
    Credit,
    CreditBack,
    Deliver,
    Get,
    Got,
    Offer,
    PublishBatch,
    PublishDone,
    ReplicaAck,
    ReplicaOffer,
    Reply,
    Settle,
    Watch,
)
from fedq.core.ranges import from_ranges
from fedq.node.publishing import on_publishes_done
from fedq.node.state import NodeState, Primary


class FragmentFlow:
    """See the module's docstring."""

    __slots__ = ("on_local_reply", "state")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        #: Hears answers to this node's own questions; set by the node before its first turn.
        self.on_local_reply: Callable[[int, FragmentId, int, int], None] = _unset

    # --- what peers say to a primary ---------------------------------------------------------

    def on_publish_batch(self, sender: NodeId, message: PublishBatch) -> None:
        """Publishes of another node."""
        primary = self._current(message.fragment, message.reign)
        if primary is not None:
            primary.fragment.publish(
                message.origin, message.first, message.messages, message.resent
            )
            self._touch(primary)

    def on_replica_offer(self, sender: NodeId, message: ReplicaOffer) -> None:
        """A backup says what it holds and wants to follow."""
        primary = self._current(message.fragment, message.reign)
        if primary is None:
            return
        self.drain_records(primary)
        fragment = primary.fragment
        primary.replication.on_offer(
            sender, message.copy, message.held, fragment.messages, {},
            fragment.origins, fragment.last, self.state.now_ms,
        )  # fmt: skip
        self._touch(primary)

    def on_replica_ack(self, sender: NodeId, message: ReplicaAck) -> None:
        """A backup holds more than before."""
        primary = self._current(message.fragment, message.reign)
        if primary is not None:
            primary.replication.on_ack(sender, message.through, message.copied, self.state.now_ms)
            self._touch(primary)

    def on_attach(self, sender: NodeId, message: Attach) -> None:
        """What a node's consumers still hold from an earlier reign or session."""
        primary = self._current(message.fragment, message.reign)
        if primary is not None:
            primary.fragment.attach(sender, from_ranges(message.held))
            primary.takers.forget(sender)
            primary.takers.watch(sender, message.consumers, message.exclusive)
            self._touch(primary)

    def on_watch(self, sender: NodeId, message: Watch) -> None:
        """How many consumers a node has for this queue."""
        primary = self._current(message.fragment, message.reign)
        if primary is not None:
            primary.takers.watch(sender, message.consumers, message.exclusive)
            self._touch(primary)

    def on_credit(self, sender: NodeId, message: Credit) -> None:
        """A node takes more messages."""
        primary = self._current(message.fragment, message.reign)
        if primary is not None:
            primary.takers.grant(sender, message.amount, message.once)
            self._touch(primary)

    def on_get(self, sender: NodeId, message: Get) -> None:
        """A node wants one message for a basic.get; answered when this turn ends."""
        primary = self._current(message.fragment, message.reign)
        if primary is not None:
            primary.gets.append((sender, message.request))
            self._touch(primary)

    def on_settle(self, sender: NodeId, message: Settle) -> None:
        """What became of deliveries to a node."""
        primary = self._current(message.fragment, message.reign)
        if primary is not None:
            primary.fragment.settle(sender, message.acknowledged)
            primary.fragment.requeue(sender, message.requeued)
            self._touch(primary)

    def on_call(self, sender: NodeId, message: Call) -> None:
        """A question from another node; a stale one is asked again of the right primary."""
        self.ask(sender, message.request, message.fragment, message.verb)

    def ask(self, asker: NodeId, request: int, fragment: FragmentId, verb: int) -> bool:
        """A question of this or another node; false if this node does not serve the fragment.

        A purge is answered when it is committed: it must not be undone by a failover. Before this
        node may serve, and knows what consumers of an earlier reign hold, it waits.
        """
        primary = self.state.primaries.get(fragment)
        if primary is None:
            return False
        if verb == CALL_PURGE:
            primary.purges.append((asker, request))
            self._touch(primary)
        elif verb in (CALL_CONSUME, CALL_CONSUME_ALONE):
            admitted = primary.takers.admit(asker, verb == CALL_CONSUME_ALONE)
            self._reply(asker, request, fragment, 0 if admitted else 1, 0)
        else:
            consumers = sum(primary.takers.consumers.values())
            self._reply(asker, request, fragment, primary.fragment.ready_count, consumers)
        return True

    def _reply(
        self, asker: NodeId, request: int, fragment: FragmentId, ready: int, consumers: int
    ) -> None:
        if asker == self.state.me:
            self.on_local_reply(request, fragment, ready, consumers)
        else:
            self.state.send(asker, Reply(request, fragment, ready, consumers))

    def _purge(self, primary: Primary) -> None:
        """Carries out the purges that were asked for; their answers wait for the commit."""
        purges, primary.purges = primary.purges, []
        for asker, request in purges:
            count = primary.fragment.purge()
            primary.purged.append((primary.fragment.last, asker, request, count))

    def on_member_gone(self, node: NodeId) -> None:
        """A member went down: what its consumers had returns; it is waited for no more."""
        for primary in self.state.primaries.values():
            primary.takers.forget(node)
            primary.gets = deque(get for get in primary.gets if get[0] != node)
            primary.attaching.pop(node, None)
            primary.fragment.release(node)
            primary.replication.reset(node, self.state.now_ms)
            self._touch(primary)

    def on_peer_applied(self, node: NodeId, version: int) -> None:
        """A peer has said everything about earlier reigns up to this map version."""
        attaching = self.state.attaching
        for fragment in list(attaching):
            primary = self.state.primaries.get(fragment)
            if primary is not None and version >= primary.attaching.get(node, version + 1):
                del primary.attaching[node]
                self._touch(primary)
            if primary is None or not primary.attaching:
                del attaching[fragment]

    # --- the end of a turn -------------------------------------------------------------------

    def serve_takers(self, primary: Primary) -> None:
        """Hands ready messages to the nodes that have credit; offers what is left over."""
        fragment, takers = primary.fragment, primary.takers
        if primary.attaching or not self.state.serving:
            return
        if primary.purges:
            self._purge(primary)
        ids = (fragment.fragment_id, fragment.reign)
        while primary.gets:
            node, request = primary.gets.popleft()
            taken = fragment.take(node, 1)
            self.state.send(
                node,
                Got(
                    request, *ids, taken.positions, taken.redelivered, taken.messages,
                    fragment.ready_count,
                ),
            )  # fmt: skip
        for node, share in takers.shares(fragment.ready_count):
            taken = fragment.take(node, share)
            seen = dict.fromkeys(taken.redelivered)
            for piece in cut(taken.messages):
                positions = taken.positions[piece]
                again = [position for position in positions if position in seen]
                self.state.send(node, Deliver(*ids, positions, again, taken.messages[piece]))
        if fragment.ready_count:
            for node in takers.offers():
                if node == self.state.me:
                    self.state.dirty_queues[primary.queue] = None
                else:
                    self.state.send(node, Offer(*ids))
        else:
            for node, amount in takers.give_back():
                self.state.send(node, CreditBack(*ids, amount))

    def drain_records(self, primary: Primary) -> None:
        """The fragment's new events go to the journal and to every backup that follows."""
        state, fragment = self.state, primary.fragment
        records = fragment.out.records
        if not records:
            if not fragment.recording:
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
        primary.replication.on_records(records, state.now_ms)

    def await_sync(self, primary: Primary, chunk: int) -> None:
        """The primary's mark hears when a journal chunk is on disk."""
        self.state.sync_asked = chunk
        self.state.sync_waits.append((chunk, self._on_synced(primary)))

    def _on_synced(self, primary: Primary) -> Callable[[int], None]:
        def on_synced(chunk: int) -> None:
            primary.mark.on_synced(chunk)
            self._touch(primary)

        return on_synced

    def finish(self, primary: Primary) -> None:
        """Sends what is to be sent, and says what is committed by now."""
        state, fragment, replication = self.state, primary.fragment, primary.replication
        state.looked_after[fragment.fragment_id] = None
        self.drain_records(primary)
        replication.pump_copies(fragment.messages, {}, state.now_ms)
        if replication.sends:
            sends, replication.sends = replication.sends, {}
            for node, messages in sends.items():
                for message in messages:
                    state.send(node, message)
        if primary.mark.safe > replication.local or replication.commit < replication.local:
            replication.on_local(primary.mark.safe)
        if state.serving and not state.memory_full:
            self._pay_owed(primary)

    def _pay_owed(self, primary: Primary) -> None:
        """The after-commit lane: one cumulative mark per origin."""
        owed, commit = primary.fragment.out.owed, primary.replication.commit
        done: dict[Origin, int] = {}
        while owed and owed[0][0] <= commit:
            _, origin, through = owed.popleft()
            done[origin] = through
        while primary.purged and primary.purged[0][0] <= commit:
            _, asker, request, count = primary.purged.popleft()
            self._reply(asker, request, primary.fragment.fragment_id, count, 0)
        state, fragment = self.state, primary.fragment
        for origin, through in done.items():
            if origin == state.origin:
                on_publishes_done(state, fragment.fragment_id, through)
            elif origin.node in state.peers and state.map.is_up(*origin):
                state.send(origin.node, PublishDone(fragment.fragment_id, fragment.reign, through))

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
