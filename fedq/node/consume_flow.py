"""From queues to consumers, and back with what became of the deliveries.

    local fragment --take--> hub deals --> channel's tags --> frames
    remote fragment --Deliver--> hub parks, deals --> the same
    basic.ack/nack/reject --> deliveries by tag --> local fragment | Settle to the primary
                                                --> the channel's transaction

Changes hubs, channels' unacked windows, `settlements`; sends credit and watches to peers.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TypeAlias

from fedq.amqp.deliveries import append_deliveries
from fedq.amqp.method_types import BasicCancel
from fedq.amqp.settlements import Settle as Settled
from fedq.core.errors import PRECONDITION_FAILED, ChannelViolation
from fedq.core.ids import FragmentId, NodeId, QueueKey
from fedq.core.limits import delivery_batch_max, delivery_bytes_per_turn_max
from fedq.core.peer_messages import Attach, Credit, CreditBack, Deliver, Offer, Settle, Watch
from fedq.core.ranges import to_ranges
from fedq.fragments.fragment import Fragment
from fedq.node.answers import capability
from fedq.node.client_state import Channel, Consumer, Transaction
from fedq.node.fan_out import look_at_private
from fedq.node.getting import Getting
from fedq.node.queue_timers import QueueTimers
from fedq.node.settling import (
    ACKNOWLEDGED,
    REJECTED,
    REQUEUED,
    Settlements,
    one_by_one,
    positions_of,
    settle_in,
)
from fedq.node.state import NodeState, Primary
from fedq.node.transaction_limits import check_room
from fedq.proxy.hub import Hub, Parked
from fedq.proxy.turns import room
from fedq.sessions.unacked import Part

#: Deliveries of one consumer, or of basic.get.
Held: TypeAlias = Part[Consumer | None]
BASIC = 60
#: basic.ack, nack and reject, by the kind of a settlement (`fedq.amqp.settlements`).
SETTLING_METHODS = (80, 120, 90)


class ConsumeFlow:
    """See the module's docstring."""

    __slots__ = ("_held_now", "getting", "serve_takers", "state", "timers")

    def __init__(self, state: NodeState, getting: Getting, timers: QueueTimers) -> None:
        self.state = state
        self.getting = getting
        self.timers = timers
        #: Hands messages to other nodes whose consumers are above a priority.
        self.serve_takers: Callable[[Primary, int], None] = _unset
        self._held_now: dict[FragmentId, list[int]] | None = None

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
        consumer.hub = self.hub_of(consumer.queue)
        consumer.hub.add(consumer)
        private = self.state.private.get(consumer.queue)
        if private is not None:
            private.had_consumers = True
            private.taker = None
        self.tell_consumers(consumer.queue)
        self.state.dirty_queues[consumer.queue] = None

    def remove(self, consumer: Consumer) -> None:
        """A consumer ends; its unacknowledged deliveries stay with the channel (0-9-1)."""
        del consumer.channel.consumers[consumer.tag]
        hub = self.hub_of(consumer.queue)
        hub.remove(consumer)
        consumer.hub = None
        self.give_back_surplus(hub)
        private = self.state.private.get(consumer.queue)
        if private is not None:
            private.used_ms = self.state.now_ms
            private.taker = None
        self.tell_consumers(consumer.queue)
        self.state.dirty_queues[consumer.queue] = None

    def grant_anew(self, queue: QueueKey) -> None:
        """Consumers take more or less than before: credit given to fragments elsewhere is void."""
        hub = self.hub_of(queue)
        self.give_back_surplus(hub)
        hub.void_credit()
        self.tell_consumers(queue)
        self.state.dirty_queues[queue] = None

    def give_back_surplus(self, hub: Hub[Consumer]) -> None:
        """What no consumer here takes soon goes back to its fragments."""
        for parked in hub.surplus():
            self.return_unseen(parked.fragment, [parked.position])

    def tell_consumers(self, queue: QueueKey) -> None:
        state = self.state
        info = state.map.queues.get(queue)
        if queue in state.private or info is None:
            return
        hub = state.hubs[queue]
        for fragment in info.fragments:
            placed = state.map.fragments[fragment]
            primary = state.primaries.get(fragment)
            if primary is not None:
                primary.takers.watch(state.me, hub.count, hub.alone, hub.ticket)
                state.dirty_primaries[fragment] = None
            elif placed.primary != state.me:
                state.send(
                    placed.primary,
                    Watch(fragment, placed.reign, hub.count, hub.alone, hub.ticket),
                )

    def aim(self, queue: QueueKey) -> None:
        """The queue's fragments have changed: the hub draws from those that other nodes serve."""
        hub, info = self.state.hubs.get(queue), self.state.map.queues.get(queue)
        if hub is None or info is None:
            return
        placed = [self.state.map.fragments[fragment] for fragment in info.fragments]
        hub.set_sources((p.id, p.reign) for p in placed if p.primary != self.state.me)
        hub.one_place = len(placed) == 1
        self.state.dirty_queues[queue] = None

    def introduce(self, fragment: FragmentId) -> None:
        """Tells a primary that is new, or newly linked, what our consumers hold and how many."""
        state = self.state
        info = state.map.fragments[fragment]
        hub = state.hubs.get(info.queue)
        if hub is not None:
            hub.forget_source(fragment)
            hub.drop_parked(fragment)
            self.aim(info.queue)
        count, alone, ticket = 0, False, 0
        if hub is not None:
            count, alone, ticket = hub.count, hub.alone, hub.ticket
        held = to_ranges(self._held().get(fragment, ()))
        primary = state.primaries.get(fragment)
        if primary is not None:
            primary.fragment.attach(state.me, (p for r in held for p in range(r[0], r[1] + 1)))
            primary.takers.watch(state.me, count, alone, ticket)
            state.dirty_primaries[fragment] = None
        elif info.primary != state.me:
            state.send(info.primary, Attach(fragment, info.reign, count, alone, ticket, held))
        self.getting.on_fragment_moved(fragment)

    def begin_map_change(self) -> None:
        """What consumers hold has to be looked up anew, once for all that changes now."""
        self._held_now = None

    def _held(self) -> dict[FragmentId, list[int]]:
        """What this node's consumers hold, per fragment, ascending. One walk per map change."""
        if self._held_now is None:
            self._held_now = {}
            present = [c for each in self.state.clients.values() for c in each.channels.values()]
            for channel in (*present, *self.state.leaving):
                for delivery in channel.deliveries():
                    self._held_now.setdefault(delivery.fragment, []).append(delivery.position)
            for positions in self._held_now.values():
                positions.sort()
        return self._held_now

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
            hub.drop_parked(message.fragment)
            self.return_unseen(message.fragment, message.positions)
        self.state.dirty_queues[info.queue] = None

    def on_offer(self, sender: NodeId, message: Offer) -> None:
        """A remote fragment has messages that nobody took."""
        info = self.state.map.fragments.get(message.fragment)
        if info is not None and self.hub_of(info.queue).on_offer(message.fragment, message.reign):
            self.state.dirty_queues[info.queue] = None

    def on_credit_back(self, sender: NodeId, message: CreditBack) -> None:
        """A remote fragment is empty."""
        info = self.state.map.fragments.get(message.fragment)
        if info is None:
            return
        self.hub_of(info.queue).on_credit_back(message.fragment, message.reign, message.amount)
        self.state.dirty_queues[info.queue] = None

    def dispatch(self, queue: QueueKey) -> None:
        """Deals what can be dealt to this queue's consumers here, and orders the rest elsewhere."""
        state = self.state
        private = state.private.get(queue)
        if private is not None:
            if self.timers.before(private.fragment):
                self._deal_from(private.hub, private.fragment)
            self.timers.after_private(private)
            look_at_private(state, private)
            return
        hub, info = state.hubs.get(queue), state.map.queues.get(queue)
        if hub is None or info is None or not state.serving:
            return
        if hub.parked:
            self._deal_parked(hub)
            if hub.single or hub.ranked or hub.changing:
                self.give_back_surplus(hub)
        for fragment in info.fragments:
            primary = state.primaries.get(fragment)
            if primary is not None and not primary.attaching:
                self._deal_from_primary(hub, primary)
        for order in hub.orders():
            state.send(state.map.fragments[order.fragment].primary, Credit(*order))

    def _deal_from_primary(self, hub: Hub[Consumer], primary: Primary) -> None:
        """From a shared fragment here, unless consumers elsewhere come first."""
        if not self.timers.before(primary.fragment):
            return
        takers = primary.takers
        if not primary.fragment.ready_count or not takers.may_take(self.state.me):
            return
        if not takers.levels and not hub.ranked:
            self._deal_from(hub, primary.fragment, hub.reserved())
            return
        # Rank by rank: when those of one here have enough, one elsewhere may come before the next.
        left = 0
        while primary.fragment.ready_count not in (0, left) and (ready := hub.ready(1)):
            level = ready[0].priority
            if takers.above(level):
                self.serve_takers(primary, level)
            left = primary.fragment.ready_count
            self._deal_from(hub, primary.fragment, hub.reserved(), level)

    def _deal_from(
        self, hub: Hub[Consumer], fragment: Fragment, reserved: int = 0, level: int | None = None
    ) -> None:
        """To consumers here; `level`: only to those of this priority."""
        only = hub.only
        if only is not None and not reserved:
            self._deal_to(only, fragment)
            return
        while available := fragment.ready_count:
            ready = hub.ready(available if not reserved else None)
            if not ready:
                return
            if reserved:
                available = min(available, room(ready, available + reserved) - reserved)
            if available <= 0:
                return
            if level is not None and ready[0].priority != level:
                return
            amount, hands = hub.plan(ready, available)
            settled = all(consumer.no_ack for consumer in ready)
            taken = fragment.take(self.state.me, amount, settled)
            if not taken.messages:
                return
            if fragment.fragment_id > 0:
                self.state.dirty_primaries[fragment.fragment_id] = None
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

    def _deal_to(self, consumer: Consumer, fragment: Fragment) -> None:
        """To the only consumer of a queue here: as `_deal_from`, with nobody to share with."""
        while fragment.ready_count and (free := consumer.free()) > 0:
            taken = fragment.take(self.state.me, min(free, delivery_batch_max), consumer.no_ack)
            if not taken.messages:
                return
            if fragment.fragment_id > 0:
                self.state.dirty_primaries[fragment.fragment_id] = None
            self._deliver(
                consumer, fragment.fragment_id, taken.pieces, taken.messages, taken.redelivered
            )

    def _deal_parked(self, hub: Hub[Consumer]) -> None:
        while hub.parked:
            ready = hub.ready(len(hub.parked))
            if not ready:
                return
            amount, hands = hub.plan(ready, len(hub.parked))
            batch = hub.take_parked(amount)
            for consumer, start, step in hands:
                runs: dict[FragmentId, list[Parked]] = {}
                for parked in batch[start::step]:
                    runs.setdefault(parked.fragment, []).append(parked)
                for fragment, run in runs.items():
                    positions = [parked.position for parked in run]
                    again = [parked.position for parked in run if parked.redelivered]
                    messages = [parked.message for parked in run]
                    self._deliver(consumer, fragment, (positions,), messages, again)
                    if consumer.no_ack:
                        self.acknowledge(fragment, positions)

    def _deliver(
        self, consumer: Consumer, fragment: FragmentId, pieces: Sequence[Sequence[int]],
        messages: list[bytes], redelivered: list[int],
    ) -> None:  # fmt: skip
        """Deliveries to one consumer: their tags, and their frames."""
        channel = consumer.channel
        unacked = channel.unacked
        first_tag = unacked.last_tag + 1
        if consumer.no_ack:
            unacked.skip(len(messages))
        else:
            for piece in pieces:
                unacked.add(consumer, fragment, piece)
            consumer.unacked += len(messages)
        seen = None
        if redelivered:
            marked = dict.fromkeys(redelivered)
            positions = chain.from_iterable(pieces)
            seen = {i: None for i, position in enumerate(positions) if position in marked}
        client = channel.client
        machine = client.machine
        append_deliveries(
            machine.parts, channel.number, consumer.tag, first_tag, messages, seen,
            machine.frame_bytes_max,
        )  # fmt: skip
        client.delivered_bytes += len(machine.parts[-1])
        if client.delivered_bytes >= delivery_bytes_per_turn_max:
            self.state.sated[client] = None
        self.state.dirty_clients[client] = None

    # --- settlements -------------------------------------------------------------------------

    def on_settles(self, channel: Channel, batch: list[Settled]) -> None:
        """A run of basic.ack, nack and reject; raises 406 for an unknown tag."""
        if channel.transaction is not None:
            self._settle_later(channel, channel.transaction, batch)
            return
        lanes: dict[FragmentId, Settlements] = {}
        window = channel.unacked
        unknown: int | None = None
        kind = 0
        for kind, first, last, multiple, requeue in batch:
            if multiple:
                named = window.settle_through(last)
                found = named or []
                unknown = last if named is None else None
            else:
                found, unknown = window.settle(first, last)
            outcome = (REQUEUED if requeue else REJECTED) if kind else ACKNOWLEDGED
            for part in found:
                self._note(channel, lanes, part, outcome)
            if unknown is not None:
                break
        self.wake(channel)
        for fragment, settlements in lanes.items():
            self.settle(fragment, settlements)
        if unknown is not None:
            raise _unknown_tag(kind, unknown)

    def _note(
        self, channel: Channel, lanes: dict[FragmentId, Settlements], part: Held, outcome: int
    ) -> None:
        """Deliveries that are done with: their consumer takes others, their fragment is to know."""
        holder, fragment, positions = part
        settlements = lanes.get(fragment)
        if settlements is None:
            settlements = lanes[fragment] = Settlements.none()
        settlements[outcome].append(positions)
        if holder is not None:
            holder.unacked -= len(positions)
            if not channel.prefetch_global:
                self.state.wake(holder)
        else:
            channel.got -= len(positions)

    def _settle_later(
        self, channel: Channel, transaction: Transaction, batch: list[Settled]
    ) -> None:
        """In a transaction, deliveries are settled by its commit."""
        for kind, tag, multiple, requeue in one_by_one(batch):
            tags = channel.unacked.named(tag, multiple)
            if not tags and not (multiple and tag == 0):
                raise _unknown_tag(kind, tag)
            outcome = (REQUEUED if requeue else REJECTED) if kind else ACKNOWLEDGED
            for each in tags:
                found = channel.unacked.resolve(each, False)
                if found is not None:
                    transaction.settles.append((each, found[0], outcome))
            check_room(channel, transaction, BASIC, SETTLING_METHODS[kind])

    def wake(self, channel: Channel) -> None:
        """A global prefetch concerns every consumer, and each time another one comes first."""
        if channel.prefetch_global and channel.consumers:
            tag = next(iter(channel.consumers))
            channel.consumers[tag] = channel.consumers.pop(tag)
            for consumer in channel.consumers.values():
                self.state.wake(consumer)

    def acknowledge(self, fragment: FragmentId, positions: list[int]) -> None:
        """Deliveries that are done with."""
        self.settle(fragment, Settlements([positions], [], [], []))

    def return_unseen(self, fragment: FragmentId, positions: list[int]) -> None:
        """Messages of a fragment elsewhere that no consumer here has seen go back to it."""
        self.settle(fragment, Settlements([], [], [], [positions]))

    def settle(self, fragment: FragmentId, settlements: Settlements) -> None:
        """What became of deliveries; of remote ones it gathers until the end of the turn."""
        state = self.state
        private = state.private_by_id.get(fragment)
        primary = state.primaries.get(fragment)
        if private is not None:
            private.taker = None
            settle_in(private.fragment, state.me, settlements)
            state.dirty_queues[private.key] = None
        elif primary is not None:
            settle_in(primary.fragment, state.me, settlements)
            state.dirty_primaries[fragment] = None
            state.dirty_queues[primary.queue] = None
        elif fragment in state.map.fragments:
            gathered = state.settlements.setdefault(fragment, Settlements.none())
            for lane, positions in zip(gathered, settlements, strict=True):
                lane.extend(positions)

    def flush_settlements(self) -> None:
        """One message per remote fragment."""
        state = self.state
        settlements, state.settlements = state.settlements, {}
        for fragment, lanes in settlements.items():
            info = state.map.fragments.get(fragment)
            if info is not None and info.primary != state.me:
                state.send(info.primary, Settle(fragment, info.reign, *map(positions_of, lanes)))

    def requeue_all(self, channel: Channel) -> None:
        """The channel ends (or recovers): what its consumers had returns to its queues."""
        transaction = channel.transaction
        if transaction is not None:
            channel.unacked.restore((tag, delivery) for tag, delivery, _ in transaction.settles)
            transaction.settles = []
        back: dict[FragmentId, list[Sequence[int]]] = {}
        for part in channel.unacked.take_all():
            back.setdefault(part.fragment, []).append(part.positions)
        for fragment, runs in back.items():
            self.settle(fragment, Settlements([], runs, [], []))
        channel.got = 0
        for consumer in channel.consumers.values():
            consumer.unacked = 0
            self.state.wake(consumer)

    def cancel_all(self, hub: Hub[Consumer]) -> None:
        """The queue is gone: its consumers here end, and are told if they can hear it."""
        for consumer in hub.clear():
            channel = consumer.channel
            del channel.consumers[consumer.tag]
            consumer.hub = None
            if not capability(channel.client, "consumer_cancel_notify"):
                continue
            if channel.waiting:
                # Who deletes a queue hears first that it is deleted, and then what went with it.
                if channel.notices is None:
                    channel.notices = []
                channel.notices.append(BasicCancel(consumer.tag, True))
            else:
                channel.client.machine.send(channel.number, BasicCancel(consumer.tag, True))
                self.state.dirty_clients[channel.client] = None


def _unknown_tag(kind: int, tag: int) -> ChannelViolation:
    return ChannelViolation(
        PRECONDITION_FAILED, f"unknown delivery tag {tag}", BASIC, SETTLING_METHODS[kind]
    )


def _unset(*_: object) -> None:
    raise AssertionError("the node wires this before its first turn")
