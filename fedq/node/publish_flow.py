"""From a channel's publishes to every queue they belong in.

    channel's run -> route -> publisher of one fragment per shared queue  -> local primary | peer
                           -> private queues of this node
                           -> relay, once per interested node             -> its private queues

Changes `publishers`, `sticky`, private fragments; sends to peers. Runs of publishes with one route
are handled as a whole.
"""

from collections.abc import Callable, Mapping

from fedq.amqp.content import headers_of
from fedq.amqp.deliveries import return_frames
from fedq.core.errors import (
    NO_ROUTE,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    ChannelViolation,
    ConnectionViolation,
)
from fedq.core.ids import FragmentId, NodeId, QueueKey
from fedq.core.message import route_of, split, split_route
from fedq.core.peer_messages import PublishBatch, PublishDone, Relay, RelayDone
from fedq.node.publishing import (
    on_publishes_done,
    release_paused,
    settle_groups,
    window_of,
)
from fedq.node.state import Channel, NodeState, RelayWaiter
from fedq.proxy.links import NO_SESSION
from fedq.proxy.publisher import FragmentPublisher
from fedq.wiring.routes import Route

MANDATORY, IMMEDIATE = 1, 2
BASIC, PUBLISH = 60, 40

Batch = list[tuple[bytes, bytes, int]]


class PublishFlow:
    """See the module's docstring."""

    __slots__ = ("propose_fragment", "state")

    def __init__(self, state: NodeState, propose_fragment: Callable[[QueueKey], None]) -> None:
        self.state = state
        #: Asks the map for a fragment of this queue on this node.
        self.propose_fragment = propose_fragment

    def on_publishes(self, channel: Channel, batch: Batch) -> None:
        """A run of publishes of one channel; raises `ChannelViolation` 404 for no exchange."""
        vhost, router = channel.client.vhost, self.state.router
        channel.client.publishes = True
        if self.state.memory_full:
            self.state.hold_reading(channel.client, "memory")
        start, end = 0, len(batch)
        while start < end:
            message, route, bits = batch[start]
            if bits & IMMEDIATE:
                raise ConnectionViolation(NOT_IMPLEMENTED, "immediate=true", BASIC, PUBLISH)
            targets = router.route(vhost, route, _headers(message))
            if targets is None:
                exchange, _ = split_route(route)
                raise ChannelViolation(
                    NOT_FOUND, f"no exchange '{exchange}' in vhost '{vhost}'", BASIC, PUBLISH
                )
            stop = start + 1
            if stop < end and router.route(vhost, route, _headers(message)) is targets:
                # The answer is kept, so it depends on the route alone.
                while stop < end and batch[stop][1] == route and batch[stop][2] == bits:
                    stop += 1
            if stop - start == 1:
                messages = [message]
            else:
                messages = [item[0] for item in batch[start:stop]]
            self._publish_run(channel, messages, targets, bits & MANDATORY != 0)
            start = stop

    def _publish_run(
        self, channel: Channel, messages: list[bytes], targets: Route, mandatory: bool
    ) -> None:
        publishers = [self._publisher(channel, queue) for queue in targets.queues]
        nodes = [node for node in targets.nodes if self._is_linked(node)]
        if len(nodes) < len(targets.nodes):
            self._keep_for_absent(channel.client.vhost, targets.nodes, messages)
        group = None
        if channel.confirms is not None:
            waiting = len(publishers) + (1 if nodes else 0)
            group = channel.confirms.open(len(messages), waiting)
            if not waiting:
                self.state.dirty_channels[channel] = None
        for publisher in publishers:
            publisher.add(messages, group)
            self.state.dirty_publishers[publisher.fragment_id] = None
            if publisher.full:
                self._pause(channel, publisher)
        for number in targets.private:
            private = self.state.private_by_id[number]
            private.fragment.publish_private(messages)
            self.state.dirty_queues[private.key] = None
        reached = bool(publishers or targets.private)
        if nodes:
            unmatched = dict(enumerate(messages)) if mandatory and not reached else {}
            self._relay(channel, nodes, messages, RelayWaiter(channel, group, unmatched))
        elif mandatory and not reached:
            for message in messages:
                self._return(channel, message)

    def _is_linked(self, node: NodeId) -> bool:
        peer = self.state.peers.get(node)
        return peer is not None and peer.link.session != NO_SESSION

    def _keep_for_absent(
        self, vhost: str, nodes: tuple[NodeId, ...], messages: list[bytes]
    ) -> None:
        """Nodes that count as down may be back with their subscribers; nobody waits for them."""
        for node in nodes:
            peer = self.state.peers.get(node)
            if peer is None or peer.link.session != NO_SESSION or not peer.introduced:
                continue
            if peer.relays.full:
                self.state.lost_peers[node] = None
            elif not peer.relays.add(vhost, messages, None):
                self.flush_relays(node)
                peer.relays.add(vhost, messages, None)

    def _publisher(self, channel: Channel, queue: QueueKey) -> FragmentPublisher[Channel]:
        fragment = channel.sticky.get(queue)
        if fragment is None or fragment not in self.state.map.fragments:
            fragment = self._choose_fragment(channel, queue)
            channel.sticky[queue] = fragment
        publisher = self.state.publishers.get(fragment)
        if publisher is None:
            publisher = self.state.publishers[fragment] = FragmentPublisher(fragment)
        return publisher

    def _choose_fragment(self, channel: Channel, queue: QueueKey) -> FragmentId:
        """The fragment at hand; else one of the nearest zone, spread over connections."""
        state = self.state
        infos = [state.map.fragments[fragment] for fragment in state.map.queues[queue].fragments]
        for info in infos:
            if info.primary == state.me:
                return info.id
        members = state.map.members
        alive = [info for info in infos if members[info.primary].up] or infos
        near = [i for i in alive if members[i.primary].zone == state.settings.zone] or alive
        return near[channel.client.connection % len(near)].id

    def _pause(self, channel: Channel, publisher: FragmentPublisher[Channel]) -> None:
        connection = channel.client.connection
        if connection not in publisher.paused:
            publisher.paused[connection] = None
            self.state.hold_reading(channel.client, window_of(publisher))

    def _return(self, channel: Channel, message: bytes) -> None:
        machine = channel.client.machine
        return_frames(
            machine.parts, channel.number, NO_ROUTE, "NO_ROUTE", message, machine.frame_bytes_max
        )
        self.state.dirty_clients[channel.client] = None

    # --- the end of a turn -------------------------------------------------------------------

    def flush(self, fragment: FragmentId) -> None:
        """What was added to a publisher in this turn goes to the fragment's primary."""
        state, publisher = self.state, self.state.publishers[fragment]
        info = state.map.fragments.get(fragment)
        batches = publisher.take()
        if info is None:
            return
        primary = state.primaries.get(fragment)
        for batch in batches:
            if primary is not None:
                primary.fragment.publish(state.origin, batch.first, batch.messages)
                state.dirty_primaries[fragment] = None
                continue
            if info.primary == state.me:
                continue
            self._send_batch(info.primary, fragment, info.reign, batch.first, batch.messages, False)
            publisher.remote_publishes += len(batch.messages)
            if publisher.remote_publishes >= state.settings.fragment_threshold:
                publisher.remote_publishes = 0
                self.propose_fragment(info.queue)

    def resend(self, fragment: FragmentId) -> None:
        """The fragment has a new primary, or a new link to it: it gets what is not committed."""
        state = self.state
        publisher, info = state.publishers.get(fragment), state.map.fragments.get(fragment)
        if publisher is None or info is None:
            return
        self.flush_pending(fragment)
        primary = state.primaries.get(fragment)
        for batch in publisher.unconfirmed():
            if primary is not None:
                primary.fragment.publish(state.origin, batch.first, batch.messages, True)
                state.dirty_primaries[fragment] = None
            elif info.primary != state.me:
                self._send_batch(
                    info.primary, fragment, info.reign, batch.first, batch.messages, True
                )

    def flush_pending(self, fragment: FragmentId) -> None:
        """What was added and not sent joins the unconfirmed, to be sent with them."""
        self.state.publishers[fragment].take()

    def _send_batch(
        self, node: NodeId, fragment: FragmentId, reign: int, first: int, messages: list[bytes],
        resent: bool,
    ) -> None:  # fmt: skip
        self.state.send(
            node, PublishBatch(fragment, reign, self.state.origin, first, resent, messages)
        )

    def on_publish_done(self, sender: NodeId, message: PublishDone) -> None:
        """The primary has committed publishes of this node."""
        info = self.state.map.fragments.get(message.fragment)
        if info is not None and info.reign == message.reign:
            on_publishes_done(self.state, message.fragment, message.through)

    def on_fragment_gone(self, fragment: FragmentId) -> None:
        """The queue was deleted: its publishers are owed nothing any more."""
        publisher = self.state.publishers.pop(fragment, None)
        if publisher is not None:
            settle_groups(self.state, publisher.abandon())
            release_paused(self.state, publisher)

    # --- relays ------------------------------------------------------------------------------

    def _relay(
        self, channel: Channel, nodes: list[NodeId], messages: list[bytes], waiter: RelayWaiter
    ) -> None:
        waiter.size = len(messages)
        wanted = waiter if waiter.group is not None or waiter.mandatory else None
        vhost = channel.client.vhost
        for node in nodes:
            relays = self.state.peers[node].relays
            waiter.waiting += 1
            if not relays.add(vhost, messages, wanted):
                self.flush_relays(node)
                relays.add(vhost, messages, wanted)
            if relays.full:
                self.state.hold_reading(channel.client, f"relays to {node}")
                relays.paused[channel.client.connection] = None

    def flush_relays(self, node: NodeId) -> None:
        """This turn's relays to one node, as one message."""
        for batch in self.state.peers[node].relays.take():
            self.state.send(node, Relay(*batch))

    def on_relay(self, sender: NodeId, message: Relay) -> None:
        """Publishes for the private queues of this node; those sent again are known."""
        peer = self.state.peers[sender]
        member = self.state.map.members[sender]
        known = peer.relayed.get(member.incarnation, 0)
        through = message.first + len(message.messages) - 1
        peer.relayed = {member.incarnation: max(known, through)}
        if known >= message.first:
            message = message._replace(
                first=known + 1, messages=message.messages[known + 1 - message.first :]
            )
        unmatched: list[int] = []
        for index, body in enumerate(message.messages):
            route = self.state.router.route(message.vhost, route_of(body), _headers(body))
            if route is None or not route.private:
                unmatched.append(message.first + index)
                continue
            for number in route.private:
                private = self.state.private_by_id[number]
                private.fragment.publish_private([body])
                self.state.dirty_queues[private.key] = None
        done = RelayDone(through, unmatched)
        if self.state.memory_full:
            self.state.relays_done.append((sender, done))
        else:
            self.state.send(sender, done)

    def resend_relays(self, node: NodeId) -> None:
        """A new session with a peer that stayed up: what it has not answered goes again."""
        self.flush_relays(node)
        for batch in self.state.peers[node].relays.unanswered():
            self.state.send(node, Relay(*batch))

    def on_relay_done(self, sender: NodeId, message: RelayDone) -> None:
        """Relayed publishes are in their queues, or had none there."""
        done = self.state.peers[sender].relays.on_done(message.through)
        self._finish_relays(done, dict.fromkeys(message.unmatched))
        self._release_relays(sender)

    def _release_relays(self, node: NodeId) -> None:
        """Connections that waited for a slow peer are read again."""
        relays = self.state.peers[node].relays
        if not relays.paused or not relays.relaxed:
            return
        paused, relays.paused = relays.paused, {}
        for connection in paused:
            client = self.state.clients.get(connection)
            if client is not None:
                self.state.release_reading(client, f"relays to {node}")

    def on_peer_down(self, node: NodeId) -> None:
        """The peer counts as down: publishers wait for its private queues no longer."""
        self._give_up(node, self.state.peers[node].relays.release())

    def on_peer_gone(self, node: NodeId) -> None:
        """The peer's private queues died with its process: nothing is owed to them."""
        self._give_up(node, self.state.peers[node].relays.abandon())

    def _give_up(self, node: NodeId, done: list[tuple[int, RelayWaiter]]) -> None:
        missed = {last - back: None for last, waiter in done for back in range(waiter.size)}
        self._finish_relays(done, missed)
        self._release_relays(node)

    def _finish_relays(
        self, done: list[tuple[int, RelayWaiter]], unmatched: dict[int, None]
    ) -> None:
        for last, waiter in done:
            waiter.waiting -= 1
            if waiter.mandatory:
                self._note_matches(waiter, last, unmatched)
            if waiter.waiting:
                continue
            if not waiter.channel.closed:
                for message in waiter.mandatory.values():
                    self._return(waiter.channel, message)
            if waiter.group is not None:
                settle_groups(self.state, [waiter.group])

    def _note_matches(self, waiter: RelayWaiter, last: int, unmatched: dict[int, None]) -> None:
        """Mandatory messages that this node matched need not be returned."""
        first = last - waiter.size + 1
        waiter.mandatory = {
            index: message
            for index, message in waiter.mandatory.items()
            if first + index in unmatched
        }


def _headers(message: bytes) -> Callable[[], Mapping[str, object]]:
    def headers() -> Mapping[str, object]:
        return headers_of(split(message)[1])

    return headers
