"""The consumers of one queue on one node, fed by fragments on other nodes.

The other side is real: each remote fragment is a `Fragment` with its `Takers`, reached by queues
that deliver in order and late. The consumers are counted by the model: what they hold, what they
may hold. Nobody gets more than is free, a message is with one place at a time, what waits at the
node is bounded by the credit that was given, and no credit is given twice.
"""

from collections import deque
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin
from fedq.core.limits import CREDIT_WINDOW_MAX
from fedq.core.peer_messages import Credit, CreditBack, Deliver, Offer, Settle, Watch
from fedq.fragments.fragment import Fragment
from fedq.fragments.taking.takers import Takers
from fedq.proxy.hub import PLENTIFUL, Hub, Prefetched
from tests.examples import examples
from tests.unit.journal.samples import message

ME = NodeId("me")
CLIENT = Origin(NodeId("client"), Incarnation(1))
FRAGMENTS = [FragmentId(number) for number in (1, 2, 3)]

fragments = st.sampled_from(FRAGMENTS)

ToFragment = Watch | Credit | Settle
ToNode = Offer | CreditBack | Deliver


class Group:
    """Consumers of one channel with a global prefetch share this allowance."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0


class Consumer:
    """Holds messages until the test acknowledges them."""

    def __init__(self, limit: int, no_ack: bool, group: Group | None) -> None:
        self.limit = limit
        self.no_ack = no_ack
        self.group = group
        self.priority = 0
        self.ticket = 0
        self.awake = False
        self.held: list[tuple[FragmentId, int]] = []

    @property
    def unacked(self) -> int:
        return len(self.held)

    def free(self) -> int:
        if self.no_ack:
            return 1 << 40
        free = self.limit - len(self.held)
        return min(free, self.group.limit - self.group.held) if self.group is not None else free


class Remote:
    """A fragment on another node, with both directions of the link to it."""

    def __init__(self, number: FragmentId) -> None:
        self.number = number
        self.fragment = Fragment(number, 1, durable=False, recording=False)
        self.takers = Takers()
        self.inbox: deque[ToFragment] = deque()
        self.outbox: deque[ToNode] = deque()
        self.published = 0

    def used(self) -> int:
        """Credit whose use, or return, the node has not heard of yet."""
        used = 0
        for said in self.outbox:
            match said:
                case Deliver(positions=positions):
                    used += len(positions)
                case CreditBack(amount=amount):
                    used += amount
        return used

    def turn(self) -> None:
        """Takes what has come, and serves as `Dispatching.serve_takers` does."""
        fragment, takers, ids = self.fragment, self.takers, (self.number, 1)
        while self.inbox:
            match self.inbox.popleft():
                case Watch(consumers=consumers):
                    takers.watch(ME, consumers)
                case Credit(through=through, once=once):
                    takers.grant(ME, through, once)
                case Settle(acknowledged=acknowledged, requeued=requeued, unseen=unseen):
                    fragment.settle(ME, acknowledged)
                    fragment.requeue(ME, requeued)
                    fragment.take_back(ME, unseen)
        ready = fragment.ready_count
        for node, share in takers.shares(ready):
            taken = fragment.take(node, share)
            self.outbox.append(Deliver(*ids, taken.positions, taken.redelivered, taken.messages))
        if fragment.ready_count:
            assert takers.credit.get(ME, 0) <= 0, "messages wait although there is credit"
            self.outbox.extend(Offer(*ids) for _ in takers.offers())
        else:
            self.outbox.extend(CreditBack(*ids, amount) for _, amount in takers.give_back())


class Place(NamedTuple):
    """Where a message is."""

    fragment: FragmentId
    position: int


class HubMachine(RuleBasedStateMachine):
    """One hub, up to five consumers, three remote fragments."""

    def __init__(self) -> None:
        super().__init__()
        self.hub: Hub[Consumer] = Hub()
        self.remotes = {number: Remote(number) for number in FRAGMENTS}
        self.hub.set_sources((number, 1, 0) for number in FRAGMENTS)
        self.done: list[Place] = []
        self.given: dict[FragmentId, int] = dict.fromkeys(FRAGMENTS, 0)

    # --- consumers -------------------------------------------------------------------------------

    @precondition(lambda self: len(self.hub.consumers) < 5)
    @rule(limit=st.sampled_from([1, 2, 10, 200]), no_ack=st.booleans(), shared=st.booleans())
    def consume(self, limit: int, no_ack: bool, shared: bool) -> None:
        groups = [each.group for each in self.hub.consumers if each.group is not None]
        group = (groups[0] if groups else Group(3)) if shared and not no_ack else None
        self.hub.add(Consumer(limit, no_ack, group))
        self.given = dict.fromkeys(FRAGMENTS, 0)
        self.tell_consumers()
        self.end_turn()

    @precondition(lambda self: self.hub.consumers)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        """What it holds, and what is prefetched for nobody, goes back."""
        consumer = data.draw(st.sampled_from(self.hub.consumers))
        self.hub.remove(consumer)
        for number, position in consumer.held:
            self.remotes[number].inbox.append(Settle(number, 1, [], [position], [], []))
        if consumer.group is not None:
            consumer.group.held -= len(consumer.held)
            self.wake(consumer)
        self.given = dict.fromkeys(FRAGMENTS, 0)
        if self.hub.prefetched:
            for prefetched in self.hub.surplus():
                back = Settle(prefetched.fragment, 1, [], [], [], [prefetched.position])
                self.remotes[prefetched.fragment].inbox.append(back)
        self.tell_consumers()
        self.end_turn()

    @precondition(lambda self: any(consumer.held for consumer in self.hub.consumers))
    @rule(data=st.data(), amount=st.integers(1, 20))
    def acknowledge(self, data: st.DataObject, amount: int) -> None:
        busy = [consumer for consumer in self.hub.consumers if consumer.held]
        consumer = data.draw(st.sampled_from(busy))
        settled, consumer.held = consumer.held[:amount], consumer.held[amount:]
        if consumer.group is not None:
            consumer.group.held -= len(settled)
        if not consumer.held:
            self.hub.note_idle(consumer)
        self.wake(consumer)
        for number, position in settled:
            self.done.append(Place(number, position))
            self.remotes[number].inbox.append(Settle(number, 1, [position], [], [], []))
        self.end_turn()

    def wake(self, consumer: Consumer) -> None:
        """It, and those that share its allowance, may take more, if they are here."""
        for each in self.hub.consumers:
            if each is consumer or (each.group is not None and each.group is consumer.group):
                self.hub.wake(each)

    def tell_consumers(self) -> None:
        for number, remote in self.remotes.items():
            remote.inbox.append(Watch(number, 1, self.hub.count, False, self.hub.ticket))

    # --- fragments -------------------------------------------------------------------------------

    @rule(number=fragments, count=st.sampled_from([1, 3, 30]))
    def publish(self, number: FragmentId, count: int) -> None:
        remote = self.remotes[number]
        bodies = [message(f"{number}-{remote.published + n}", False) for n in range(count)]
        remote.fragment.publish(CLIENT, remote.published + 1, bodies)
        remote.published += count

    @rule(number=fragments)
    def fragment_turn(self, number: FragmentId) -> None:
        self.remotes[number].turn()

    @rule(number=fragments, amount=st.integers(1, 5))
    def arrive(self, number: FragmentId, amount: int) -> None:
        """Some of what the fragment said reaches the node, which ends a turn."""
        outbox = self.remotes[number].outbox
        for _ in range(min(amount, len(outbox))):
            match outbox.popleft():
                case Offer():
                    assert self.hub.on_offer(number, 1)
                case CreditBack(amount=back):
                    self.hub.on_credit_back(number, 1, back)
                    self.given[number] = max(0, self.given[number] - back)
                case Deliver(positions=positions, redelivered=again, messages=messages):
                    assert self.hub.on_deliver(number, 1, positions, again, messages)
                    self.given[number] = max(0, self.given[number] - len(positions))
                    if not self.hub.consumers:
                        gone = self.hub.drop_prefetched(number)
                        self.remotes[number].inbox.append(Settle(number, 1, [], [], [], gone))
        self.end_turn()

    # --- the node's end of a turn ----------------------------------------------------------------

    def end_turn(self) -> None:
        hub = self.hub
        while hub.prefetched and (ready := hub.next_for(len(hub.prefetched))):
            before = {id(consumer): consumer.free() for consumer in ready}
            amount, hands = hub.plan(ready, len(hub.prefetched))
            assert 0 < amount <= len(hub.prefetched)
            batch = hub.take_prefetched(amount)
            for consumer, start, step in hands:
                part = batch[start::step]
                assert len(part) <= before[id(consumer)], "more than its free credit"
                self.hand(consumer, part)
        free = self.free()
        reserved = hub.reserved()
        for order in hub.orders():
            granted = order.through - hub.sources[order.fragment].received
            amount = granted - self.given[order.fragment]
            self.check_order(amount, order.once, free - reserved)
            self.given[order.fragment] = granted
            credit = Credit(order.fragment, 1, order.through, order.once, order.level)
            self.remotes[order.fragment].inbox.append(credit)
            if order.once:
                reserved += amount

    def check_order(self, amount: int, once: bool, left: int) -> None:
        assert amount > 0
        if once:
            # Scarce: what is promised to one fragment is not promised to another.
            assert amount <= left - len(self.hub.prefetched)
        else:
            assert amount <= min(left, CREDIT_WINDOW_MAX)
            assert left >= PLENTIFUL

    def hand(self, consumer: Consumer, part: list[Prefetched]) -> None:
        for prefetched in part:
            if consumer.no_ack:
                self.done.append(Place(prefetched.fragment, prefetched.position))
                settle = Settle(prefetched.fragment, 1, [prefetched.position], [], [], [])
                self.remotes[prefetched.fragment].inbox.append(settle)
            else:
                if not consumer.held:
                    self.hub.note_busy(consumer)
                consumer.held.append((prefetched.fragment, prefetched.position))
                if consumer.group is not None:
                    consumer.group.held += 1

    def free(self) -> int:
        """What all the consumers together would take."""
        # Of those that share an allowance one is reckoned with at a time, one with demand.
        shared: dict[int, int] = {}
        free = 0
        for consumer in self.hub.consumers:
            own = min(consumer.free(), CREDIT_WINDOW_MAX)
            if consumer.group is None:
                free += max(0, own)
            else:
                shared[id(consumer.group)] = max(0, own, shared.get(id(consumer.group), 0))
        return free + sum(shared.values())

    # --- what must hold --------------------------------------------------------------------------

    @invariant()
    def limits_hold(self) -> None:
        for consumer in self.hub.consumers:
            assert consumer.no_ack or len(consumer.held) <= consumer.limit
            if consumer.group is not None:
                assert consumer.group.held <= consumer.group.limit
        assert not self.hub.prefetched or self.hub.consumers
        waits = self.hub.prefetched and self.hub.ready()
        assert not waits, "a message waits beside a free consumer"
        nothing = [c for c in self.hub.consumers if not c.no_ack and not c.held]
        assert self.hub.idle_count == len(nothing)
        if len(self.hub.consumers) > 1:
            asleep = [consumer for consumer in self.hub.consumers if not consumer.awake]
            assert not any(consumer.free() > 0 for consumer in asleep), "left out for ever"
        assert len(self.hub.prefetched) <= len(FRAGMENTS) * 2 * CREDIT_WINDOW_MAX

    @invariant()
    def nothing_is_granted_twice(self) -> None:
        for number, remote in self.remotes.items():
            credit = remote.takers.credit.get(ME, 0)
            if not remote.inbox and credit > 0:
                assert credit + remote.used() == self.hub.sources[number].granted

    @invariant()
    def one_place_each(self) -> None:
        places = [Place(*held) for consumer in self.hub.consumers for held in consumer.held]
        places += [Place(each.fragment, each.position) for each in self.hub.prefetched]
        places += self.done
        assert len(places) == len(dict.fromkeys(places)), "a message was handed to two"
        for remote in self.remotes.values():
            remote.fragment.check()

    def teardown(self) -> None:
        """In the end somebody with demand gets everything: nothing is stuck anywhere."""
        self.consume(60, False, False)
        published = sum(remote.published for remote in self.remotes.values())
        for _ in range(4 * published + 20):
            for number, remote in self.remotes.items():
                remote.turn()
                self.arrive(number, 1_000)
            for consumer in self.hub.consumers:
                for number, position in consumer.held:
                    self.done.append(Place(number, position))
                    self.remotes[number].inbox.append(Settle(number, 1, [position], [], [], []))
                consumer.held = []
                self.hub.note_idle(consumer)
                if consumer.group is not None:
                    consumer.group.held = 0
                self.wake(consumer)
            self.end_turn()
            if len(self.done) == published:
                break
        for number, remote in self.remotes.items():
            remote.turn()
            assert remote.fragment.messages == {}, f"fragment {number} did not run empty"


TestHub = HubMachine.TestCase
TestHub.settings = settings(max_examples=examples(100), stateful_step_count=40)
