"""The way from queues to consumers.

    local fragment --take--> hub deals --> channel's tags --> frames
    remote fragment --Deliver--> hub parks, deals --> the same

What becomes of the deliveries is told by `fedq.node.consuming.settle_flow`.

Changes hubs, channels' unacked windows; sends credit and watches to peers.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from fedq.amqp.content import LONG_BYTES
from fedq.amqp.deliveries import append_deliveries
from fedq.amqp.rare_contents import append_delivery
from fedq.core.ids import FragmentId, NodeId, QueueKey
from fedq.core.limits import (
    DELIVERY_BATCH_MAX,
    DELIVERY_BYTES_PER_TURN_MAX,
    KEEP_UP_MS_MAX,
    WORK_BYTES_SHIFT,
)
from fedq.core.peer_messages import Attach, Credit, CreditBack, Deliver, Offer, Watch
from fedq.core.ranges import Range, join_ranges, ranges_of
from fedq.fragments.fragment import Fragment
from fedq.fragments.upkeep.enforcement import is_too_long
from fedq.node.consuming.getting import Getting
from fedq.node.consuming.handing import hand_to_nodes
from fedq.node.consuming.keeping_up import meet, note_taken, room_here
from fedq.node.consuming.queue_timers import QueueTimers
from fedq.node.consuming.settle_flow import SettleFlow
from fedq.node.records.client_state import Consumer
from fedq.node.records.private_queue import PrivateQueue
from fedq.node.records.quiet import Quiet
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState
from fedq.proxy.hub import NO_LIMIT, Hub, Prefetched

#: A delivery is this part of a unit of work.
_DEALT_SHIFT: Final = 1


class ConsumeFlow:
    """The consumers of this node: what they are dealt, and what is ordered for them elsewhere."""

    __slots__ = ("_held_now", "getting", "settling", "state", "timers")

    def __init__(
        self, state: NodeState, settling: SettleFlow, getting: Getting, timers: QueueTimers
    ) -> None:
        self.state = state
        self.settling = settling
        self.getting = getting
        self.timers = timers
        self._held_now: dict[FragmentId, list[Range]] | None = None

    # --- consumers come and go ---------------------------------------------------------------

    def hub_of(self, queue: QueueKey) -> Hub[Consumer]:
        """The hub of a queue, made when it is first needed."""
        private = self.state.private.get(queue)
        if private is not None:
            return private.hub
        hub = self.state.hubs.get(queue)
        if hub is None:
            policy = self.state.policy_of(queue)
            hub = self.state.hubs[queue] = Hub(policy.single_active)
            self.aim(queue)
        return hub

    def add(self, consumer: Consumer) -> None:
        """A consumer begins; its fragments hear how many there are now."""
        consumer.channel.consumers[consumer.tag] = consumer
        self.state.accounts.count_consumers(consumer.channel.client, 1)
        consumer.hub = self.hub_of(consumer.queue)
        consumer.hub.add(consumer)
        private = self.state.private.get(consumer.queue)
        if private is not None:
            private.had_consumers = True
            private.sole_consumer = None
        self.tell_consumers(consumer.queue)
        self.state.marks.queues[consumer.queue] = None

    def remove(self, consumers: Iterable[Consumer]) -> dict[QueueKey, int]:
        """Removes consumers; their unacknowledged deliveries stay with the channel (0-9-1).

        Returns their queues, each with the highest priority of those that left it.
        """
        queues: dict[QueueKey, int] = {}
        for consumer in consumers:
            channel, queue, hub = consumer.channel, consumer.queue, consumer.hub
            del channel.consumers[consumer.tag]
            self.state.accounts.count_consumers(channel.client, -1)
            if queue == channel.reply_queue:
                channel.reply_queue = None
            if consumer.cursors is not None:
                self._remove_reader(consumer)
            if hub is None:
                continue
            hub.remove(consumer)
            consumer.hub = None
            queues[queue] = max(consumer.priority, queues.get(queue, consumer.priority))
        for queue in queues:
            self._note_removal(queue)
        return queues

    def _remove_reader(self, consumer: Consumer) -> None:
        """Removes a reader of a stream, which nobody else is concerned with."""
        cursors, consumer.cursors = consumer.cursors, None
        for fragment, cursor in (cursors or {}).items():
            readers = self.state.readers_of(consumer.queue, fragment)
            if readers is None:
                continue
            readers.remove(cursor)
            if readers.has_left:
                self.state.marks.queues[consumer.queue] = None
            if readers.is_idle:
                self.state.forget_readers(consumer.queue, fragment)

    def _note_removal(self, queue: QueueKey) -> None:
        self.give_back_surplus(self.hub_of(queue))
        private = self.state.private.get(queue)
        if private is not None:
            private.used_ms = self.state.now_ms
            private.sole_consumer = None
        self.tell_consumers(queue)
        self.state.marks.queues[queue] = None

    def grant_anew(self, queue: QueueKey) -> None:
        """Consumers take more or less than before: credit given to fragments elsewhere is void."""
        hub = self.hub_of(queue)
        self.give_back_surplus(hub)
        hub.void_credit()
        self.tell_consumers(queue)
        self.state.marks.queues[queue] = None

    def give_back_surplus(self, hub: Hub[Consumer]) -> None:
        """Gives back to its fragments what no consumer here takes soon."""
        for prefetched in hub.surplus():
            self.settling.return_unseen(prefetched.fragment, [prefetched.position])

    def tell_consumers(self, queue: QueueKey) -> None:
        """Tells the queue's fragments how many consumers it has here."""
        state = self.state
        info = state.map.queues.get(queue)
        if queue in state.private or info is None:
            return
        hub = state.hubs[queue]
        for fragment in info.fragments:
            placed = state.map.fragments[fragment]
            primary = state.primaries.get(fragment)
            if primary is not None:
                # Until now: who has left had use for the queue up to this moment.
                primary.used_ms = state.now_ms
                primary.takers.watch(state.me, hub.count, hub.alone, hub.ticket)
                meet(primary)
                state.marks.primaries[fragment] = None
            elif placed.primary != state.me:
                state.send(
                    placed.primary,
                    Watch(fragment, placed.reign, hub.count, hub.alone, hub.ticket, hub.idle_count),
                )

    def aim(self, queue: QueueKey) -> None:
        """The queue's fragments have changed: the hub draws from those that other nodes serve."""
        hub, info = self.state.hubs.get(queue), self.state.map.queues.get(queue)
        if hub is None or info is None:
            return
        placed = [self.state.map.fragments[fragment] for fragment in info.fragments]
        hub.set_sources(
            (each.id, each.reign, self._distance(each.primary))
            for each in placed
            if each.primary != self.state.me
        )
        hub.one_place = len(placed) == 1
        self.state.marks.queues[queue] = None

    def _distance(self, node: NodeId) -> int:
        """How far away another node is: in this node's zone, or not."""
        member = self.state.map.members.get(node)
        return 0 if member is not None and member.zone == self.state.settings.zone else 1

    def introduce(self, fragment: FragmentId) -> None:
        """Tells a primary that is new, or newly linked, what our consumers hold and how many."""
        state = self.state
        info = state.map.fragments[fragment]
        hub = state.hubs.get(info.queue)
        if hub is not None:
            hub.forget_source(fragment)
            hub.drop_prefetched(fragment)
            self.aim(info.queue)
        count, alone, ticket, idle = 0, False, 0, 0
        if hub is not None:
            count, alone, ticket, idle = hub.count, hub.alone, hub.ticket, hub.idle_count
        held = self._held().get(fragment, [])
        primary = state.primaries.get(fragment)
        if primary is not None:
            positions = [p for r in held for p in range(r[0], r[1] + 1)]
            state.risk.begin()
            primary.fragment.attach(state.me, positions)
            state.risk.end()
            primary.takers.watch(state.me, count, alone, ticket)
            meet(primary)
            state.marks.primaries[fragment] = None
        elif info.primary != state.me:
            state.send(info.primary, Attach(fragment, info.reign, count, alone, ticket, held, idle))
        self.getting.on_fragment_moved(fragment)

    def begin_map_change(self) -> None:
        """What consumers hold has to be looked up anew, once for all that changes now."""
        self._held_now = None

    def _held(self) -> dict[FragmentId, list[Range]]:
        """What this node's consumers hold, per fragment, ascending. One walk per map change."""
        if self._held_now is None:
            found: dict[FragmentId, list[Range]] = {}
            present = [c for each in self.state.clients.values() for c in each.channels.values()]
            for channel in dict.fromkeys((*present, *self.state.leaving)):
                for part in channel.parts():
                    found.setdefault(part.fragment, []).extend(ranges_of(part.positions))
            for fragment, quiet in self.state.quiet.items():
                found.setdefault(fragment, []).extend(self._kept(fragment, quiet))
            self._held_now = {fragment: join_ranges(held) for fragment, held in found.items()}
        return self._held_now

    def _kept(self, fragment: FragmentId, quiet: Quiet) -> Iterator[Range]:
        """What is settled of a fragment without its primary having heard it yet."""
        for run in chain.from_iterable(quiet.settled.lanes()):
            yield from ranges_of(run)
        publisher = self.state.publishers.get(fragment)
        for batch in publisher.kept() if publisher is not None else ():
            for positions in batch.settled or ():
                yield from ranges_of(positions)

    # --- deliveries --------------------------------------------------------------------------

    def on_deliver(self, sender: NodeId, message: Deliver) -> None:
        """Messages of a remote fragment; stale ones are with us no more, by `Attach`."""
        info = self.state.map.fragments.get(message.fragment)
        if info is None or info.reign != message.reign:
            return
        hub = self.hub_of(info.queue)
        if not hub.on_deliver(
            message.fragment, message.reign, message.positions, message.redelivered,
            message.messages,
        ) or not hub.size:  # fmt: skip
            hub.drop_prefetched(message.fragment)
            self.settling.return_unseen(message.fragment, message.positions)
        self.state.marks.queues[info.queue] = None

    def on_offer(self, sender: NodeId, message: Offer) -> None:
        """A remote fragment has messages that nobody took."""
        info = self.state.map.fragments.get(message.fragment)
        if info is not None and self.hub_of(info.queue).on_offer(message.fragment, message.reign):
            self.state.marks.queues[info.queue] = None

    def on_credit_back(self, sender: NodeId, message: CreditBack) -> None:
        """A remote fragment is empty."""
        info = self.state.map.fragments.get(message.fragment)
        if info is None:
            return
        self.hub_of(info.queue).on_credit_back(message.fragment, message.reign, message.amount)
        self.state.marks.queues[info.queue] = None

    def dispatch(self, queue: QueueKey) -> None:
        """Deals what can be dealt to this queue's consumers here, and orders the rest elsewhere."""
        state = self.state
        private = state.private.get(queue)
        if private is not None:
            if not private.fragment.shut and self.timers.before(private.fragment):
                self._deal_from(private.hub, private.fragment)
            self.timers.after_private(private)
            _look_at_private(state, private)
            return
        hub, info = state.hubs.get(queue), state.map.queues.get(queue)
        if hub is None or info is None or not state.serving:
            return
        if hub.prefetched:
            before = len(hub.prefetched)
            self._deal_prefetched(hub)
            if hub.single or hub.ranked or hub.changing:
                self.give_back_surplus(hub)
            elif hub.prefetched_for_long(before, state.now_ms):
                # Another node's consumers may be idle.
                self.grant_anew(queue)
            if hub.prefetched:
                self.timers.look_at(hub.prefetched[0].fragment, KEEP_UP_MS_MAX)
        for fragment in info.fragments:
            primary = state.primaries.get(fragment)
            if primary is not None and not primary.holds_back:
                self._deal_from_primary(hub, primary)
        for order in hub.orders():
            state.send(state.map.fragments[order.fragment].primary, Credit(*order))

    def _deal_from_primary(self, hub: Hub[Consumer], primary: Primary) -> None:
        """Deals messages of a shared fragment here, unless consumers elsewhere come first."""
        if primary.fragment.shut or not self.timers.before(primary.fragment):
            return
        takers = primary.takers
        if not primary.fragment.at_hand or not takers.may_take(self.state.me):
            return
        if not takers.levels and not hub.ranked:
            if primary.windows is None:
                self._deal_from(hub, primary.fragment, hub.reserved())
                return
            before, most = primary.fragment.unacked_count, room_here(self.state, primary)
            self._deal_from(hub, primary.fragment, hub.reserved(), most=most)
            taken = primary.fragment.unacked_count - before
            note_taken(self.state, primary, self.state.me, taken)
            return
        # Rank by rank: when those of one here have enough, one elsewhere may come before the next.
        fragment, before = primary.fragment, -1
        while fragment.at_hand and fragment.handed_out != before and (ready := hub.ready(1)):
            level = ready[0].priority
            if takers.above(level):
                hand_to_nodes(self.state, primary, level)
            before = fragment.handed_out
            self._deal_from(hub, fragment, hub.reserved(), level)

    def _deal_from(
        self, hub: Hub[Consumer], fragment: Fragment, reserved: int = 0, level: int | None = None,
        most: int = NO_LIMIT,
    ) -> None:  # fmt: skip
        """Deals messages to consumers here; `level`: only to those of this priority.

        `most`: no more than so many that have to be settled; but one to each that has nothing.
        """
        only = hub.only
        if only is not None and not reserved:
            least = 0 if only.unacked else 1
            self._deal_to(only, fragment, NO_LIMIT if only.no_ack else max(most, least))
            return
        while (available := fragment.at_hand) and self._may_deal(fragment):
            ready, available, settled = hub.choose(available, reserved, level, most)
            if not ready:
                return
            available = fragment.within(available, DELIVERY_BYTES_PER_TURN_MAX)
            amount, hands = hub.plan(ready, available)
            taken = fragment.take(self.state.me, amount, settled)
            if not taken.messages:
                return
            self.state.at, self.state.at_what = fragment, taken
            most -= 0 if settled else len(taken.messages)
            if fragment.fragment_id > 0:
                self.state.marks.primaries[fragment.fragment_id] = None
            positions = taken.pieces[0] if len(taken.pieces) == 1 else taken.positions
            for consumer, start, step in hands:
                part = positions[start::step]
                if not part:
                    break
                self._deliver(
                    consumer, fragment.fragment_id, (part,), taken.messages[start::step],
                    taken.redelivered,
                )  # fmt: skip
                if consumer.no_ack and not settled:
                    fragment.settle(self.state.me, part)

    def _deal_to(self, consumer: Consumer, fragment: Fragment, most: int) -> None:
        """Deals to the only consumer of a queue here: as `_deal_from`, with nobody to share."""
        while fragment.at_hand:
            free = min(consumer.free(), most)
            if free <= 0 or not self._may_deal(fragment):
                return
            free = fragment.within(min(free, DELIVERY_BATCH_MAX), DELIVERY_BYTES_PER_TURN_MAX)
            taken = fragment.take(self.state.me, free, consumer.no_ack)
            if not taken.messages:
                return
            self.state.at, self.state.at_what = fragment, taken
            most -= len(taken.messages)
            if fragment.fragment_id > 0:
                self.state.marks.primaries[fragment.fragment_id] = None
            self._deliver(
                consumer, fragment.fragment_id, taken.pieces, taken.messages, taken.redelivered
            )

    def _may_deal(self, fragment: Fragment) -> bool:
        """Whether the turn has room for another batch; otherwise the next one goes on.

        What is over a length cannot wait: it would be dropped, though somebody takes it. It is no
        more than what came in this turn, and was paid for.
        """
        if self.state.work.deal(1) or is_too_long(fragment) or self.timers.is_in_excess(fragment):
            return True
        self.state.marks.unfinished[fragment.fragment_id] = None
        return False

    def _deal_prefetched(self, hub: Hub[Consumer]) -> None:
        while hub.prefetched:
            count = len(hub.prefetched)
            ready = hub.next_for(count)
            if not ready:
                return
            amount, hands = hub.plan(ready, count)
            batch = hub.take_prefetched(amount)
            for consumer, start, step in hands:
                runs: dict[FragmentId, list[Prefetched]] = {}
                for prefetched in batch[start::step]:
                    runs.setdefault(prefetched.fragment, []).append(prefetched)
                for fragment, run in runs.items():
                    positions = [prefetched.position for prefetched in run]
                    again = [prefetched.position for prefetched in run if prefetched.redelivered]
                    messages = [prefetched.message for prefetched in run]
                    self.deliver_run(consumer, fragment, positions, messages, again)
                    if consumer.no_ack:
                        self.settling.acknowledge(fragment, positions)

    def deliver_run(
        self, consumer: Consumer, fragment: FragmentId, positions: Sequence[int],
        messages: list[bytes], again: list[int],
    ) -> None:  # fmt: skip
        """Delivers what was prefetched; long messages each alone, so that they are not copied."""
        if len(messages) == 1 or max(map(len, messages)) <= LONG_BYTES:
            self._deliver(consumer, fragment, (positions,), messages, again)
            return
        for position, message in zip(positions, messages, strict=True):
            marked = [position] if position in again else []
            self._deliver(consumer, fragment, ((position,),), [message], marked)

    def _deliver(
        self, consumer: Consumer, fragment: FragmentId, pieces: Sequence[Sequence[int]],
        messages: list[bytes], redelivered: list[int],
    ) -> None:  # fmt: skip
        """Delivers messages to one consumer: their tags, and their frames."""
        channel = consumer.channel
        unacked = channel.unacked
        first_tag, counts = unacked.last_tag + 1, self.state.counts
        counts.delivered += len(messages)
        if consumer.no_ack:
            unacked.skip(len(messages))
            counts.delivered_settled += len(messages)
        else:
            for piece in pieces:
                unacked.add(consumer, fragment, piece)
            if not consumer.unacked and consumer.hub is not None:
                consumer.hub.note_busy(consumer)
            consumer.unacked += len(messages)
        seen = None
        if redelivered:
            marked = dict.fromkeys(redelivered)
            positions = chain.from_iterable(pieces)
            seen = {i: None for i, position in enumerate(positions) if position in marked}
            counts.redelivered += len(seen)
        client = channel.client
        machine = client.machine
        if len(messages) == 1 and len(messages[0]) > LONG_BYTES:
            size = len(messages[0])
            append_delivery(
                machine.parts, channel.number, consumer.tag, first_tag, messages[0],
                seen is not None, machine.frame_bytes_max,
            )  # fmt: skip
        else:
            append_deliveries(
                machine.parts, channel.number, consumer.tag, first_tag, messages, seen,
                machine.frame_bytes_max,
            )  # fmt: skip
            size = len(machine.parts[-1])
        client.delivered_bytes += size
        if self.state.tracer is not None:
            self.state.tracer.on_delivered(
                consumer, fragment, pieces, messages, redelivered, first_tag
            )
        self.state.work.deal((len(messages) >> _DEALT_SHIFT) + (size >> WORK_BYTES_SHIFT))
        if client.delivered_bytes >= DELIVERY_BYTES_PER_TURN_MAX:
            self.state.at_turn_limit[client] = None
        self.state.dirty_clients[client] = None


def _look_at_private(state: NodeState, private: PrivateQueue) -> None:
    """Notes whether the private queue holds anything, now that the turn is done with it."""
    private.sole_consumer = None
    if state.exclusive_waiting.bounds:
        state.exclusive_waiting.note(private)
    if private.fragment.bytes_held:
        state.nonempty_private[private.key] = private
        return
    state.nonempty_private.pop(private.key, None)
    only = private.hub.only
    if only is not None and private.is_plain and only.no_ack:
        private.sole_consumer = only
