"""Private queues: exclusive ones, which live on this node only (design D4, D5; ADR 0020).

Their bindings are not in the cluster map; the peers hear, by reference count, which exchanges and
keys are wanted here (`InterestBook`), and `bind-ok` waits until they all have heard.

Changes `private`, the router, the interest book; sends interest to peers.
"""

from collections.abc import Callable

from fedq.core.errors import Refused
from fedq.core.ids import FragmentId, NodeId, QueueKey
from fedq.core.peer_messages import Interest, InterestDone, InterestItem
from fedq.core.policy import PLAIN, QueuePolicy
from fedq.fragments.fragment import Fragment
from fedq.node.private.bounding import Bounding
from fedq.node.private.registrations import Registrations
from fedq.node.records import accounts
from fedq.node.records.client_state import Client
from fedq.node.records.private_queue import PrivateQueue
from fedq.node.records.state import NodeState
from fedq.node.risk import Fault
from fedq.proxy.fanout import in_pieces
from fedq.wiring.cluster_map.declarations import refuse_beyond_limit
from fedq.wiring.cluster_map.operations import arguments_of

Binding = tuple[QueueKey, str, str]


class PrivateFlow:
    """The private queues of this node, their bindings, and the peers' interest in them."""

    __slots__ = ("_bounding", "_everything_of", "_interest_of", "registrations", "state")

    def __init__(self, state: NodeState, registrations: Registrations) -> None:
        self.state = state
        self.registrations = registrations
        self._bounding = Bounding(state.settings)
        #: What each peer's private queues want, as it told; to be taken back when it goes.
        self._interest_of: dict[NodeId, dict[InterestItem, None]] = {}
        self._everything_of: dict[NodeId, dict[QueueKey, None]] = {}

    def create(self, key: QueueKey, owner: Client, policy: QueuePolicy = PLAIN) -> PrivateQueue:
        """Makes a queue, empty and reachable by its name through the default exchange."""
        state = self.state
        state.private_made += 1
        fragment = Fragment(
            FragmentId(-state.private_made), 0, durable=False, recording=False,
            policy=self._bounding.bounded(policy),
        )  # fmt: skip
        fragment.out.losses = state.losses
        closes = self._bounding.closes(policy)
        private = PrivateQueue(
            key, fragment, owner, policy, state.now_ms, closes, self._bounding.keeps_oldest(policy)
        )
        state.risk.begin()
        if policy.expires_ms is not None:
            state.expiring[key] = None
        state.private[key] = private
        state.private_by_id[fragment.fragment_id] = private
        state.router.add_queue(key, int(fragment.fragment_id))
        owner.private[key] = None
        state.accounts.charge(owner, accounts.QUEUE)
        state.risk.end()
        return private

    def change_policy(self, private: PrivateQueue, policy: QueuePolicy) -> int:
        """Gives a queue other limits; returns how much it counted for that."""
        state = self.state
        if policy.expires_ms != private.policy.expires_ms:
            private.used_ms = state.now_ms
            if policy.expires_ms is not None:
                state.expiring[private.key] = None
            else:
                state.expiring.pop(private.key, None)
        private.policy = policy
        private.closes = self._bounding.closes(policy)
        private.keeps_oldest = self._bounding.keeps_oldest(policy)
        private.is_plain = policy._replace(expires_ms=None) == PLAIN
        private.sole_consumer = None
        state.marks.queues[private.key] = None
        return private.fragment.change_policy(self._bounding.bounded(policy))

    def delete(self, private: PrivateQueue) -> None:
        """Deletes the queue, its messages and bindings."""
        state = self.state
        state.risk.begin()
        for binding in list(private.bindings):
            self.unbind(private, binding)
        state.router.remove_queue(private.key)
        if state.tracer is not None:
            state.tracer.on_deleted(private.key, private.fragment.fragment_id)
        del state.private[private.key]
        state.nonempty_private.pop(private.key, None)
        state.exclusive_waiting.forget(private)
        state.expiring.pop(private.key, None)
        del state.private_by_id[private.fragment.fragment_id]
        state.marks.queues.pop(private.key, None)
        private.owner.private.pop(private.key, None)
        if private.is_counted:
            self.count(private, -1)
        state.accounts.charge(private.owner, -accounts.QUEUE)
        state.risk.end()

    def refuse(
        self, key: QueueKey, owner: Client, exclusive: bool, more: int = 0
    ) -> Refused | None:
        """Why the client may not own this further queue; None if it may.

        `more`: queues that it has asked for before, of which the map does not know yet.
        """
        more += self.state.private_unnamed.get(key.vhost, 0)
        limited = refuse_beyond_limit(self.state.map, key, more)
        return limited or (self.state.accounts.refuse_more(owner) if exclusive else None)

    def count(self, private: PrivateQueue, more: int) -> None:
        """Counts a queue that its client did not name as it comes, or goes."""
        vhost, counts = private.key.vhost, self.state.private_unnamed
        private.is_counted = more > 0
        counts[vhost] = counts.get(vhost, 0) + more
        if not counts[vhost]:
            del counts[vhost]

    def bind(self, private: PrivateQueue, binding: Binding) -> None:
        """Binds the queue to an exchange; a repeated binding changes nothing."""
        if binding in private.bindings:
            return
        exchange, routing_key, arguments = binding
        self.state.risk.begin()
        private.bindings[binding] = None
        self.state.router.bind(
            exchange, int(private.fragment.fragment_id), routing_key, arguments_of(arguments)
        )
        self.state.interest.add(InterestItem(*binding))
        self.state.accounts.charge(private.owner, accounts.of_binding(routing_key, arguments))
        self.registrations.on_bound(exchange)
        self.state.risk.end()

    def unbind(self, private: PrivateQueue, binding: Binding) -> None:
        """Unbinds the queue; an unknown binding changes nothing."""
        if binding not in private.bindings:
            return
        exchange, routing_key, arguments = binding
        self.state.risk.begin()
        del private.bindings[binding]
        self.state.router.unbind(
            exchange, int(private.fragment.fragment_id), routing_key, arguments_of(arguments)
        )
        self.state.interest.remove(InterestItem(*binding))
        self.state.accounts.charge(private.owner, -accounts.of_binding(routing_key, arguments))
        self.registrations.on_unbound(exchange)
        self.state.risk.end()

    def bound_exchanges(self) -> list[QueueKey]:
        """The exchanges that private queues of this node are bound to."""
        found = {b[0]: None for private in self.state.private.values() for b in private.bindings}
        return list(found)

    def on_exchange_removed(self, exchange: QueueKey) -> None:
        """Forgets the bindings to a deleted exchange."""
        for number in self.state.router.private_of(exchange):
            private = self.state.private_by_id[FragmentId(number)]
            for binding in [b for b in private.bindings if b[0] == exchange]:
                self._lose(private, binding)

    def _lose(self, private: PrivateQueue, binding: Binding) -> None:
        """Forgets a binding that the map says is gone: no node may stop at that.

        Half done, peers may send for it what nobody wants here, and the router forgets the whole
        exchange next.
        """
        risk = self.state.risk
        depth = risk.depth
        try:
            self.unbind(private, binding)
        except Exception as error:
            risk.leave_to(depth)
            private.bindings.pop(binding, None)
            text = f"a binding of {private.key.name!r} to an exchange that is gone"
            self.state.out.faults.append(Fault(text, error))

    def when_bound(self, exchange: QueueKey, action: Callable[[], None]) -> None:
        """Runs the action when the cluster knows that the exchange is in use here.

        The map has to know it, and every live peer what this node wants to hear now.
        """
        book = self.state.interest
        number = book.number + 1 if book.changed else book.number
        heard = (number, action)
        self.registrations.when_marked(
            exchange, lambda: self.state.marks.after_interest.append(heard)
        )

    # --- interest ----------------------------------------------------------------------------

    def announce(self) -> None:
        """Tells every live peer what changed in this turn."""
        if self.state.interest.changed:
            pieces = in_pieces(self.state.interest.announce())
            for node in self.state.live_peers():
                for piece in pieces:
                    self.state.send(node, piece)

    def introduce(self, node: NodeId) -> None:
        """Begins a session with a peer: each side says all it wants."""
        self.announce()
        self.state.peers[node].interest_told = 0
        for piece in in_pieces(self.state.interest.everything_of()):
            self.state.send(node, piece)

    def on_interest(self, sender: NodeId, message: Interest) -> None:
        """Takes what a peer newly wants, or no longer wants."""
        router = self.state.router
        unheard = self.state.unheard
        if message.whole:
            self._forget_interest(sender)
            if sender in unheard:
                unheard[sender] = True
        wanted = self._interest_of.setdefault(sender, {})
        for exchange in message.everything:
            for item in [item for item in wanted if item.exchange == exchange]:
                self._drop(sender, item)
            self._everything_of.setdefault(sender, {})[exchange] = None
            router.set_everything(exchange, sender, True)
        for exchange in message.selective:
            self._everything_of.get(sender, {}).pop(exchange, None)
            router.set_everything(exchange, sender, False)
        for item in message.removed:
            if item in wanted:
                self._drop(sender, item)
        for item in message.added:
            if item not in wanted:
                wanted[item] = None
                self._route_item(sender, item)
        if message.more:
            return
        self.state.peers[sender].introduced = True
        if unheard.get(sender):
            del unheard[sender]
        self.state.send(sender, InterestDone(message.number))

    def on_interest_done(self, sender: NodeId, message: InterestDone) -> None:
        """Takes note that a peer has this node's interest in force."""
        peer = self.state.peers[sender]
        peer.interest_told = max(peer.interest_told, message.number)

    def on_peer_gone(self, node: NodeId) -> None:
        """Forgets the private queues of a peer that went down."""
        self.state.peers[node].introduced = False
        self._forget_interest(node)
        self.state.router.forget_node(node)

    def _forget_interest(self, node: NodeId) -> None:
        for item in list(self._interest_of.get(node, ())):
            self._drop(node, item)
        self._interest_of.pop(node, None)
        for exchange in self._everything_of.pop(node, {}):
            self.state.router.set_everything(exchange, node, False)

    def route_again(self) -> None:
        """Tells a new router of the private queues and of the peers' interest.

        One that it fails at hears nothing any more; all others do.
        """
        for private in self.state.private.values():
            try:
                self._route_private(private)
            except Exception as error:
                text = f"nothing is routed to {private.key.name!r}, a queue of this node alone"
                self.state.out.faults.append(Fault(text, error))
        router = self.state.router
        for node, items in self._interest_of.items():
            for item in items:
                try:
                    self._route_item(node, item)
                except Exception as failure:
                    text = f"nothing is routed to {node} by {item}"
                    self.state.out.faults.append(Fault(text, failure))
        for node, exchanges in self._everything_of.items():
            for exchange in exchanges:
                router.set_everything(exchange, node, True)

    def _route_private(self, private: PrivateQueue) -> None:
        router, number = self.state.router, int(private.fragment.fragment_id)
        router.add_queue(private.key, number)
        for exchange, routing_key, arguments in private.bindings:
            router.bind(exchange, number, routing_key, arguments_of(arguments))

    def _route_item(self, node: NodeId, item: InterestItem) -> None:
        self.state.router.bind(item.exchange, node, item.routing_key, arguments_of(item.arguments))

    def _drop(self, node: NodeId, item: InterestItem) -> None:
        del self._interest_of[node][item]
        self.state.router.unbind(
            item.exchange, node, item.routing_key, arguments_of(item.arguments)
        )

    def release_waiting(self) -> None:
        """Runs what waited for interest to be in force everywhere."""
        state = self.state
        if not state.marks.after_interest:
            return
        # Now, not at the end of the turn: a node without live peers waits for nobody.
        self.announce()
        told = min(
            (state.peers[node].interest_told for node in state.live_peers()),
            default=state.interest.number,
        )
        waiting, state.marks.after_interest = state.marks.after_interest, []
        for number, action in waiting:
            if number <= told:
                action()
            else:
                state.marks.after_interest.append((number, action))
