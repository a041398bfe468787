"""The way from a route to every queue it names: the last step of every publish.

    route -> publisher of one fragment per shared queue  -> local primary | peer
          -> private queues of this node
          -> relay, once per interested node (`fedq.node.publishing.relay_flow`)

Changes `publishers` and private fragments; sends to peers.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from fedq.amqp.rewriting import as_stored
from fedq.channels.confirms import ConfirmGroup
from fedq.core.ids import ConnectionId, FragmentId, NodeId, QueueKey, Target
from fedq.core.message import route_of
from fedq.core.peer_messages import PublishAtomic, PublishBatch, PublishDone
from fedq.node.publishing.admission import Admission
from fedq.node.publishing.blocking import Blocking
from fedq.node.publishing.confirming import (
    mark_settled,
    on_publishes_done,
    release_paused,
    settle_groups,
    window_of,
)
from fedq.node.publishing.fan_out import FanOut, weight_of
from fedq.node.publishing.piles import Piles
from fedq.node.publishing.relay_flow import RelayFlow
from fedq.node.records.client_state import FIRST_FRAGMENT, Channel, Client, Owner
from fedq.node.records.peer import RelayWaiter
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState
from fedq.node.records.tracing.tracer import Tracer
from fedq.proxy.publisher import FragmentPublisher, Numbered
from fedq.wiring.routing.partitions import partition_of
from fedq.wiring.routing.route import Route

#: Channels that are looked at for a unit of work, as a shift.
_LOOK_SHIFT: Final = 3


class Reach(NamedTuple):
    """Where publishes go, as found for one sender."""

    publishers: list[FragmentPublisher[Owner]]
    nodes: list[NodeId]
    private: Sequence[int]
    #: Nodes that count as down, and may be back with their private queues.
    absent: tuple[NodeId, ...] = ()

    @property
    def waiting(self) -> int:
        """How many targets will report."""
        return len(self.publishers) + (1 if self.nodes else 0)


class Outlets:
    """The ways from a route to every queue that it names."""

    __slots__ = (
        "admission", "blocking", "fan_out", "keeping", "propose_fragment", "relays", "state",
    )  # fmt: skip

    def __init__(
        self, state: NodeState, admission: Admission, fan_out: FanOut, relays: RelayFlow,
        blocking: Blocking, propose_fragment: Callable[[QueueKey], None],
    ) -> None:  # fmt: skip
        self.state = state
        self.blocking = blocking
        self.admission = admission
        self.fan_out = fan_out
        self.relays = relays
        #: Asks the map for a fragment of this queue on this node.
        self.propose_fragment = propose_fragment
        #: Which fragments those keep to that publish for all of this node, and are no channels.
        self.keeping: list[dict[QueueKey, FragmentId]] = []

    def keep(self) -> dict[QueueKey, FragmentId]:
        """What a new sender of this node, which is no channel, keeps to; for `reach`."""
        sticky: dict[QueueKey, FragmentId] = {}
        self.keeping.append(sticky)
        return sticky

    # --- one run of publishes ----------------------------------------------------------------

    def is_parted(self, targets: Route) -> bool:
        """Whether any queue is a stream in several fragments, which go by the routing key."""
        return not self.state.parted.keys().isdisjoint(targets.queues)

    def parts(self, queues: tuple[QueueKey, ...], message: bytes) -> tuple[Target, ...]:
        """The queues of a publish; in place of a stream in fragments that of its routing key."""
        parted = self.state.parted
        if not parted or parted.keys().isdisjoint(queues):
            return queues
        self.state.work.spend(1)
        route = route_of(message)
        return tuple(
            parted[queue][partition_of(route, len(parted[queue]))] if queue in parted else queue
            for queue in queues
        )

    def reach(
        self, targets: Route, message: bytes, sticky: dict[QueueKey, FragmentId], spread: int
    ) -> Reach:
        """The targets of a publish and its like; `sticky`: which fragments the sender keeps to.

        That is P4; of streams in fragments it is the routing key that keeps to one.
        """
        parts = self.parts(targets.queues, message)
        publishers = [self.publisher(part, sticky, spread) for part in parts]
        nodes = [node for node in targets.nodes if self.relays.is_linked(node)]
        absent = targets.nodes if len(nodes) < len(targets.nodes) else ()
        return Reach(publishers, nodes, targets.private, absent)

    def deliver(
        self, vhost: str, messages: list[bytes], reach: Reach, group: ConfirmGroup[Owner] | None,
        channel: Channel | None = None, mandatory: bool = False,
    ) -> bool:  # fmt: skip
        """Sends messages on their ways; false if they reach no queue, as far as is known here.

        Messages with copies come alone: other nodes still need to know to whom they go.
        `channel` waits where windows are full, and hears what was mandatory and found no queue.
        """
        stored = [as_stored(messages[0])] if len(messages) == 1 else messages
        tracer = self.state.tracer if channel is not None else None
        if tracer is not None and channel is not None:
            for publisher in reach.publishers:
                tracer.on_routed(channel, publisher.fragment_id, publisher.last + 1, len(stored))
            tracer.on_relayed(channel, vhost, reach.nodes, len(stored))
        self.state.risk.begin()
        for publisher in reach.publishers:
            self._add(publisher, stored, group, channel)
        private = reach.private
        if private:
            self.state.work.spend(sum(weight_of(private, message) for message in stored))
        if private and channel is not None:
            private = self.fan_out.deliver(private, stored, channel.client)
            if tracer is not None and len(private) < len(reach.private):
                tracer.on_fanned(vhost, stored, len(reach.private) - len(private))
        for number in private:
            queue = self.state.private_by_id[number]
            refused = self.admission.publish_private(queue, stored)
            if tracer is not None and channel is not None:
                count, last = len(stored) - len(refused), queue.fragment.last
                tracer.on_routed(channel, FragmentId(number), last - count + 1, count)
            if refused and group is not None:
                group.refuse([group.size - 1 - index for index in refused])
        if reach.absent:
            self.relays.keep_for_absent(vhost, reach.absent, messages)
        reached = bool(reach.publishers or reach.private)
        if reach.nodes:
            unmatched = dict(enumerate(messages)) if mandatory and not reached else {}
            waiter = RelayWaiter(channel, group, unmatched)
            self.relays.relay(vhost, reach.nodes, messages, waiter)
        if group is not None and not group.waiting:
            mark_settled(self.state, group.owner)
        self.state.risk.end()
        return reached or bool(reach.nodes)

    def deliver_piles(self, channel: Channel, piles: Piles) -> None:
        """Sends what was piled up, to each queue in one piece; the piles are empty then."""
        self.state.risk.begin()
        run, queues = piles.take_run()
        if run:
            self._deliver_run(channel, run, queues)
        elif piles.ways:
            self._deliver_spread(channel, piles)
            piles.clear()
        self.state.risk.end()

    def _count(self, received: int, unroutable: int) -> None:
        counts = self.state.counts
        counts.received += received
        counts.unroutable += unroutable

    def _deliver_run(
        self, channel: Channel, messages: list[bytes], queues: tuple[Target, ...]
    ) -> None:
        """Sends a run that goes to shared queues alone."""
        group = None
        self._count(len(messages), 0 if queues else len(messages))
        if channel.confirms is not None:
            group = channel.confirms.open(len(messages), len(queues))
            if not queues:
                mark_settled(self.state, channel)
        if self.state.tracer is not None:
            self._trace_run(self.state.tracer, channel, len(messages), queues)
        for queue in queues:
            publisher = self.publisher(queue, channel.sticky, channel.spread)
            self._add(publisher, messages, group, channel)

    def _deliver_spread(self, channel: Channel, piles: Piles) -> None:
        """Sends runs to different shared queues: each confirm waits for the queues it concerns.

        The group is complete before any of it sets out, at the end of the turn.
        """
        window, spread = channel.confirms, channel.spread
        self._count(len(piles.ways), piles.nowhere)
        if self.state.tracer is not None:
            self._trace_spread(self.state.tracer, channel, piles)
        if window is None:
            for queue, messages in piles.by_queue.items():
                self._add(self.publisher(queue, channel.sticky, spread), messages, None, channel)
            return
        group = window.open_spread(piles.ways)
        if not piles.firsts or piles.firsts[0]:
            # Those that go nowhere and come first wait for nobody.
            mark_settled(self.state, channel)
        for first, (queue, messages) in zip(piles.firsts, piles.by_queue.items(), strict=True):
            publisher = self.publisher(queue, channel.sticky, spread)
            group.await_fragment(publisher.fragment_id, queue, first)
            self._add(publisher, messages, group, channel)

    def _trace_run(
        self, tracer: Tracer, channel: Channel, count: int, queues: tuple[Target, ...]
    ) -> None:
        """Notes that a channel's last publishes go to these queues."""
        for queue in queues:
            publisher = self.publisher(queue, channel.sticky, channel.spread)
            tracer.on_routed(channel, publisher.fragment_id, publisher.last + 1, count)

    def _trace_spread(self, tracer: Tracer, channel: Channel, piles: Piles) -> None:
        """Notes which of a channel's last publishes go to which queue."""
        found: list[tuple[Target, FragmentId, int]] = []
        for queue in piles.by_queue:
            publisher = self.publisher(queue, channel.sticky, channel.spread)
            found.append((queue, publisher.fragment_id, publisher.last + 1))
        tracer.on_spread(channel, piles.ways, found)

    def _add(
        self, publisher: FragmentPublisher[Owner], messages: list[bytes],
        group: ConfirmGroup[Owner] | None, channel: Channel | None,
    ) -> None:  # fmt: skip
        publisher.add(messages, group, channel is not None and channel.is_named)
        self.state.marks.publishers[publisher.fragment_id] = None
        if channel is None:
            return
        if publisher.full:
            self._pause(channel, publisher)
        if self.state.full:
            self.blocking.hold_for(channel.client, publisher.fragment_id)

    def publisher(
        self, queue: Target, sticky: dict[QueueKey, FragmentId], spread: int
    ) -> FragmentPublisher[Owner]:
        """The publisher of this node to the fragment that the sender keeps to, or that is named."""
        if isinstance(queue, int):
            return self.publisher_of(queue)
        fragment = sticky.get(queue)
        if fragment is None or fragment not in self.state.map.fragments:
            fragment = sticky[queue] = self._choose_fragment(queue, spread)
        return self.publisher_of(fragment)

    def publisher_of(self, fragment: FragmentId) -> FragmentPublisher[Owner]:
        """The publisher of this node to a fragment, made when it is first needed."""
        publisher = self.state.publishers.get(fragment)
        if publisher is None:
            window = self.state.settings.publish_window_bytes
            publisher = self.state.publishers[fragment] = FragmentPublisher(fragment, window)
        return publisher

    def _choose_fragment(self, queue: QueueKey, spread: int) -> FragmentId:
        """The fragment at hand; else one of the nearest zone, spread over senders.

        One that takes in now, if there is any. Or the first one, whatever it does.
        """
        state = self.state
        if spread == FIRST_FRAGMENT:
            return min(state.map.queues[queue].fragments)
        infos = [state.map.fragments[fragment] for fragment in state.map.queues[queue].fragments]
        alive = [info for info in infos if state.primary_of(info.id) is not None] or infos
        if state.full and len(alive) > 1:
            alive = [info for info in alive if not self.blocking.waits(info.id)] or alive
        for info in alive:
            if info.primary == state.me:
                return info.id
        members = state.map.members
        near = [i for i in alive if members[i.primary].zone == state.settings.zone] or alive
        return near[spread % len(near)].id

    def _pause(self, channel: Channel, publisher: FragmentPublisher[Owner]) -> None:
        connection: ConnectionId = channel.client.connection
        if connection not in publisher.paused:
            publisher.paused[connection] = None
            self.state.hold_reading(channel.client, window_of(publisher))

    # --- the end of a turn -------------------------------------------------------------------

    def flush_all(self) -> None:
        """Sends what was published in this turn: what is asked now comes behind it."""
        state = self.state
        state.risk.begin()
        at, what = state.at, state.at_what
        publishers, state.marks.publishers = state.marks.publishers, {}
        for fragment in publishers:
            if fragment in state.publishers:
                self.flush(fragment)
        state.at, state.at_what = at, what
        state.risk.end()

    def flush(self, fragment: FragmentId) -> None:
        """Sends what was added to a publisher in this turn to the fragment's primary."""
        state, publisher = self.state, self.state.publishers[fragment]
        info = state.map.fragments.get(fragment)
        batches = publisher.take()
        if info is None or fragment in state.quiet:
            return
        primary = state.primaries.get(fragment)
        for batch in batches:
            if primary is not None:
                self._enter(primary, batch, False)
                publisher.sent = batch.last
                continue
            if info.primary == state.me:
                continue
            self._send(info.primary, fragment, info.reign, batch, False)
            publisher.sent = batch.last
            if not batch.named:
                # Another fragment would be none for those.
                publisher.remote_publishes += len(batch.messages)
            if publisher.remote_publishes >= state.settings.fragment_threshold:
                publisher.remote_publishes = 0
                self.propose_fragment(info.queue)

    def commit(self, publisher: FragmentPublisher[Owner], batch: Numbered, client: Client) -> None:
        """Sends a transaction of a client to its fragment."""
        fragment = publisher.fragment_id
        if self.state.full and batch.messages:
            self.blocking.hold_for(client, fragment)
        if fragment not in self.state.quiet:
            self._send_on(publisher, [batch])

    def _enter(self, primary: Primary, batch: Numbered, resent: bool) -> None:
        """Enters a batch into a fragment of this node."""
        origin = self.state.origin
        self.state.at, self.state.at_what = primary, batch
        if batch.settled is None:
            self.admission.publish(
                primary, origin, batch.first, batch.messages, resent, batch.named
            )
        else:
            self.admission.publish_atomic(
                primary, self.state.me, origin, batch.first, batch.messages, resent, batch.settled,
                batch.named,
            )  # fmt: skip

    def _send(
        self, node: NodeId, fragment: FragmentId, reign: int, batch: Numbered, resent: bool
    ) -> None:
        ids = (fragment, reign, self.state.origin, batch.first, resent, batch.messages)
        if batch.settled is None:
            self.state.send(node, PublishBatch(*ids, batch.named))
        else:
            self.state.send(node, PublishAtomic(*ids, *batch.settled, batch.named))

    def resend(self, fragment: FragmentId) -> None:
        """Sends what is not committed to the fragment's new primary, or over a new link to it."""
        state = self.state
        publisher, info = state.publishers.get(fragment), state.map.fragments.get(fragment)
        if publisher is None or info is None:
            return
        state.risk.begin()
        # What was added and not sent joins the unconfirmed, to be sent with them.
        publisher.take()
        self._send_on(publisher, publisher.unconfirmed())
        state.risk.end()

    def send_kept(self, fragment: FragmentId) -> None:
        """Sends what was kept while the fragment was about to change hands."""
        publisher = self.state.publishers.get(fragment)
        if publisher is not None:
            self._send_on(publisher, publisher.kept())

    def _send_on(self, publisher: FragmentPublisher[Owner], batches: Iterable[Numbered]) -> None:
        """Sends batches to whoever leads the fragment; those that were sent before, again."""
        state, fragment = self.state, publisher.fragment_id
        primary, info = state.primaries.get(fragment), state.map.fragments.get(fragment)
        for batch in batches:
            resent = batch.last <= publisher.sent
            if primary is not None:
                self._enter(primary, batch, resent)
            elif info is not None and info.primary != state.me:
                self._send(info.primary, fragment, info.reign, batch, resent)
            else:
                continue
            publisher.sent = max(publisher.sent, batch.last)

    def on_publish_done(self, sender: NodeId, message: PublishDone) -> None:
        """The primary has committed publishes of this node."""
        info = self.state.map.fragments.get(message.fragment)
        if info is not None and info.reign == message.reign:
            on_publishes_done(self.state, message.fragment, message.through, message.refused)

    def on_fragment_gone(self, fragment: FragmentId, queue: QueueKey) -> None:
        """Owes publishers nothing any more: the queue was deleted, or the fragment retired.

        In the latter case what it was to get goes to another fragment (docs/adr/0100).
        """
        publishers = self.state.publishers
        publisher = publishers.get(fragment)
        if publisher is None:
            return
        if not publisher.is_idle and self.is_retired(fragment, queue):
            self._pass_on(publisher, queue)
        else:
            settle_groups(self.state, fragment, publisher.abandon())
        release_paused(self.state, publisher)
        del publishers[fragment]

    def is_retired(self, fragment: FragmentId, queue: QueueKey) -> bool:
        """Whether the queue of a fragment that is gone lives on: it has one that is older.

        The first one is never retired; those of a queue that was declared anew are younger.
        """
        info = self.state.map.queues.get(queue)
        return info is not None and min(info.fragments) < fragment

    def _pass_on(self, publisher: FragmentPublisher[Owner], queue: QueueKey) -> None:
        """Sends what was kept for a retired fragment to another one, and its senders with it.

        What a channel publishes next, or dies next here, goes behind that (P4).
        """
        state = self.state
        target = self.publisher_of(self._choose_fragment(queue, 0))
        state.risk.begin()
        numbers = publisher.pass_on(target)
        if state.tracer is not None and numbers is not None:
            state.tracer.on_passed_on(queue, publisher.fragment_id, state.origin, numbers)
        for sticky in self.keeping:
            if sticky.get(queue) == publisher.fragment_id:
                sticky[queue] = target.fragment_id
        looked_at = len(self.keeping)
        for client in state.clients.values():
            looked_at += len(client.channels)
            for channel in client.channels.values():
                if channel.sticky.get(queue) == publisher.fragment_id:
                    channel.sticky[queue] = target.fragment_id
        state.work.apply(looked_at >> _LOOK_SHIFT)
        if target.fragment_id not in state.quiet:
            self._send_on(target, target.kept())
        state.risk.end()
