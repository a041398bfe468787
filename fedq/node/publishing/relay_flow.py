"""Publishes on their way to the private queues of other nodes, and those that come from there.

A publish goes once to each interested node, which expands it (design D5); its answer says what
found no queue and what was refused.

Changes the peers' relays and private fragments; sends to peers.
"""

from collections import deque
from typing import Final

from fedq.amqp.rewriting import as_stored, cycled_queues, routing_keys
from fedq.core.ids import Incarnation, NodeId
from fedq.core.message import FLAG_COPIES, FLAG_DIED, route_of, split_route
from fedq.core.peer_messages import Relay, RelayDone
from fedq.node.publishing.admission import Admission
from fedq.node.publishing.blocking import Blocking
from fedq.node.publishing.confirming import settle_relayed
from fedq.node.publishing.fan_out import FanOut, weight_of
from fedq.node.publishing.messages import properties_of
from fedq.node.publishing.returns import give_back
from fedq.node.records.peer import RelayWaiter
from fedq.node.records.state import NodeState
from fedq.proxy.links import NO_SESSION

_UNUSUAL: Final = FLAG_COPIES | FLAG_DIED


class _Coming:
    """A relay on its way into the private queues of this node."""

    __slots__ = ("at", "incarnation", "is_begun", "message", "refused", "sender", "unmatched")

    def __init__(self, sender: NodeId, incarnation: Incarnation, message: Relay) -> None:
        self.sender = sender
        self.incarnation = incarnation
        self.message = message
        self.is_begun = False
        #: The index of its next message.
        self.at = 0
        self.unmatched: list[int] = []
        self.refused: list[int] = []


class RelayFlow:
    """Relays publishes to the private queues of other nodes, and takes those for its own."""

    __slots__ = ("_coming", "_used", "admission", "blocking", "fan_out", "state")

    def __init__(
        self, state: NodeState, admission: Admission, fan_out: FanOut, blocking: Blocking
    ) -> None:
        self.state = state
        self.blocking = blocking
        self.admission = admission
        self.fan_out = fan_out
        #: What relays have done of this turn's work: all of them have the share of a client.
        self._used = 0
        self._coming: deque[_Coming] = deque()

    # --- to other nodes ----------------------------------------------------------------------

    def is_linked(self, node: NodeId) -> bool:
        """Whether the node counts as up, so that publishers may wait for it."""
        peer = self.state.peers.get(node)
        return peer is not None and peer.link.session != NO_SESSION

    def keep_for_absent(self, vhost: str, nodes: tuple[NodeId, ...], messages: list[bytes]) -> None:
        """Keeps relays for nodes that count as down and may be back; nobody waits for them."""
        for node in nodes:
            peer = self.state.peers.get(node)
            if peer is None or peer.link.session != NO_SESSION or not peer.introduced:
                continue
            if peer.relays.full:
                self.state.lost_peers[node] = None
            elif not peer.relays.add(vhost, messages, None):
                self.flush(node)
                peer.relays.add(vhost, messages, None)

    def relay(
        self, vhost: str, nodes: list[NodeId], messages: list[bytes], waiter: RelayWaiter
    ) -> None:
        """Relays publishes to these nodes; a channel that sends more than they take waits."""
        waiter.size = len(messages)
        wanted = waiter if waiter.group is not None or waiter.mandatory else None
        for node in nodes:
            relays = self.state.peers[node].relays
            waiter.waiting += 1
            if not relays.add(vhost, messages, wanted):
                self.flush(node)
                relays.add(vhost, messages, wanted)
            if self.state.full and waiter.channel is not None:
                self.blocking.hold_for(waiter.channel.client, node)
            if relays.full and waiter.channel is not None:
                client = waiter.channel.client
                self.state.hold_reading(client, f"relays to {node}")
                relays.paused[client.connection] = None

    def flush_all(self) -> None:
        """Sends this turn's relays to each node."""
        for node, peer in self.state.peers.items():
            for batch in peer.relays.take():
                self.state.send(node, Relay(*batch))

    def flush(self, node: NodeId) -> None:
        """Sends this turn's relays to one node, as one message."""
        for batch in self.state.peers[node].relays.take():
            self.state.send(node, Relay(*batch))

    def resend(self, node: NodeId) -> None:
        """Sends again what a peer that stayed up has not answered, in its new session."""
        self.flush(node)
        for batch in self.state.peers[node].relays.unanswered():
            self.state.send(node, Relay(*batch))

    # --- from other nodes --------------------------------------------------------------------

    def on_relay(self, sender: NodeId, message: Relay) -> None:
        """Takes publishes for the private queues of this node; those sent again are known."""
        incarnation = self.state.map.members[sender].incarnation
        self._coming.append(_Coming(sender, incarnation, message))
        self._expand()

    def begin_turn(self) -> None:
        """Begins with relays that the last turn left over, before all that is new."""
        self._used = 0
        if self._coming:
            self._expand()

    @property
    def has_more(self) -> bool:
        """Whether relays wait for the next turn: so much goes to private queues already."""
        return bool(self._coming)

    def _expand(self) -> None:
        """Brings relays to the private queues, in order, as far as the turn has room."""
        work = self.state.work
        work.begin_share(self._used)
        while self._coming and not work.is_spent:
            coming = self._coming[0]
            if not coming.is_begun:
                self._begin(coming)
            self._take(coming)
            if coming.at == len(coming.message.messages):
                self._coming.popleft()
                self._answer(coming)
        self._used += work.end_share()

    def _begin(self, coming: "_Coming") -> None:
        """Begins a relay; numbers that came before, with a session that ended, are left out."""
        coming.is_begun = True
        peer, message = self.state.peers[coming.sender], coming.message
        known = peer.relayed.get(coming.incarnation, 0)
        through = message.first + len(message.messages) - 1
        peer.relayed = {coming.incarnation: max(known, through)}
        coming.at = min(max(0, known + 1 - message.first), len(message.messages))

    def _take(self, coming: "_Coming") -> None:
        publish, queues = self.admission.publish_private, self.state.private_by_id
        route_private = self.state.router.route_private
        vhost, messages = coming.message.vhost, coming.message.messages
        work = self.state.work
        self.state.at, self.state.at_what = coming.sender, coming.message
        while coming.at < len(messages) and not work.is_spent:
            body, number = messages[coming.at], coming.message.first + coming.at
            coming.at += 1
            if body[0] & _UNUSUAL:
                private = self._look_at(vhost, body)
                body = as_stored(body)
            else:
                private = route_private(vhost, route_of(body), properties_of(body))
            router = self.state.router
            work.spend(1 + weight_of(private, body) + router.walked)
            router.walked = 0
            if not private:
                coming.unmatched.append(number)
            turned_away = False
            left = self.fan_out.deliver(private, [body], None)
            if self.state.tracer is not None and len(left) < len(private):
                self.state.tracer.on_fanned(vhost, [body], len(private) - len(left))
            for queue in left:
                turned_away |= bool(publish(queues[queue], [body]))
            if turned_away:
                coming.refused.append(number)

    def _answer(self, coming: "_Coming") -> None:
        """Answers for a whole relay: what is mandatory or confirmed may be spread over it."""
        if self.state.map.members[coming.sender].incarnation != coming.incarnation:
            # Its numbers mean nothing to the process that is there now.
            return
        through = coming.message.first + len(coming.message.messages) - 1
        done = RelayDone(through, coming.unmatched, coming.refused)
        if self.state.memory_full:
            self.state.relays_done.append((coming.sender, done))
        else:
            self.state.send(coming.sender, done)

    def _look_at(self, vhost: str, message: bytes) -> tuple[int, ...]:
        """Where a relayed publish with copies, or a dead letter, goes here."""
        router, route, properties = self.state.router, route_of(message), properties_of(message)
        if not message[0] & FLAG_COPIES:
            return self._without_circles(message, router.route_private(vhost, route, properties))
        exchange, key = split_route(route)
        keys = routing_keys(message, key)
        targets = router.route_keys(vhost, exchange, keys or [key], properties)
        private = targets.private if targets is not None else ()
        return self._without_circles(message, private) if message[0] & FLAG_DIED else private

    def _without_circles(self, message: bytes, private: tuple[int, ...]) -> tuple[int, ...]:
        """Leaves out queues that the dead letter died in, unless somebody rejected it."""
        known = self.state.private_by_id
        cycled = cycled_queues(message) if private else {}
        return tuple(number for number in private if known[number].key.name not in cycled)

    # --- what became of them -----------------------------------------------------------------

    def on_relay_done(self, sender: NodeId, message: RelayDone) -> None:
        """Relayed publishes are in their queues, or had none there, or were refused."""
        done = self.state.peers[sender].relays.on_done(message.through)
        for last, waiter in done if message.refused else ():
            mine = [last - n for n in message.refused if last - waiter.size < n <= last]
            if mine and waiter.group is not None:
                waiter.group.refuse(mine)
        self._finish(done, dict.fromkeys(message.unmatched))
        self._release(sender)

    def _release(self, node: NodeId) -> None:
        """Reads connections again that waited for a slow peer."""
        relays = self.state.peers[node].relays
        if not relays.paused or not relays.relaxed:
            return
        paused, relays.paused = relays.paused, {}
        for connection in paused:
            client = self.state.clients.get(connection)
            if client is not None:
                self.state.release_reading(client, f"relays to {node}")

    def on_peer_down(self, node: NodeId) -> None:
        """Lets nobody wait any longer for a peer that counts as down."""
        self._give_up(node, self.state.peers[node].relays.release())

    def on_peer_gone(self, node: NodeId) -> None:
        """Owes nothing any more to a peer whose private queues died with its process."""
        self._give_up(node, self.state.peers[node].relays.abandon())

    def _give_up(self, node: NodeId, done: list[tuple[int, RelayWaiter]]) -> None:
        missed = {last - back: None for last, waiter in done for back in range(waiter.size)}
        self._finish(done, missed)
        self._release(node)

    def _finish(self, done: list[tuple[int, RelayWaiter]], unmatched: dict[int, None]) -> None:
        for last, waiter in done:
            waiter.waiting -= 1
            if waiter.mandatory:
                self._note_matches(waiter, last, unmatched)
            if waiter.waiting:
                continue
            if waiter.channel is not None and not waiter.channel.closed:
                for message in waiter.mandatory.values():
                    give_back(self.state, waiter.channel, message)
            if waiter.group is not None:
                settle_relayed(self.state, waiter.group)

    def _note_matches(self, waiter: RelayWaiter, last: int, unmatched: dict[int, None]) -> None:
        """Notes that mandatory messages that this node matched need not be returned."""
        first = last - waiter.size + 1
        waiter.mandatory = {
            index: message
            for index, message in waiter.mandatory.items()
            if first + index in unmatched
        }
