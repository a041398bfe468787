"""A queue as one node's consumers see it: who is next, and from which fragment.

Inputs: consumers that come and go, free credit, messages of the local fragments and of remote
ones. Outputs: hands (which messages go to which consumer), and credit for remote fragments.

The local fragments come first. What they leave of the consumers' demand goes to the fragments of
other nodes (design D7): *standing* credit while the demand is plentiful, so that no message pays
a round trip; credit given `once`, while it is scarce, to the nearest fragment that has offered
itself, and among equally near ones to each in its turn. Scarce credit is reserved until it comes
back, so a consumer is promised to one fragment at a time. Standing credit is not: messages beyond
the demand wait here, *prefetched*, for the next free consumer, and go back when there is none.

Credit is given up to a number: of the messages that a fragment ever sent here (or credit that it
gave back) it may go on through that one. So what is on its way when all credit is voided, and given
anew, counts against the new credit, and nothing is granted twice. Invariant: what is granted is
what the fragment has not used yet, and what is on its way in either direction.

Priorities: only the consumers of the highest priority with demand are ready, and credit says of
what priority it is for. Among consumers of several priorities all credit stands, however scarce:
a fragment must know at once that a better consumer is idle here. So it does when the queue is in
one place, elsewhere: there is no other fragment that could want the same consumer. A *single*
active consumer is the one with the lowest ticket (`fedq.fragments.taking.takers`). When one has
left, or one that outranked others here, nobody here is ready before the fragments elsewhere have
heard of it (`changing`): what they had sent was for that consumer, and the next one may be on
another node. Meanwhile it goes back to them; credit for those that are here is with them by then.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, Generic, NamedTuple

from fedq.core.ids import FragmentId
from fedq.core.limits import CREDIT_WINDOW_MAX, DELIVERY_BATCH_MAX, KEEP_UP_MS_MAX
from fedq.proxy.round_robin import C, RoundRobin, even_share, room

#: A consumer's demand, or a window, that has no end.
NO_LIMIT: Final = 1 << 40
#: Appetite per remote fragment from which on credit stands.
PLENTIFUL = 50
#: What a fragment sent here is counted so far; more never comes.
_RECEIVED_MAX: Final = 1 << 62


class Prefetched(NamedTuple):
    """A remote fragment's message that waits for a consumer."""

    fragment: FragmentId
    position: int
    message: bytes
    redelivered: bool


class Source:
    """A fragment on another node."""

    __slots__ = ("distance", "granted", "level", "offered", "once", "received", "reign")

    def __init__(self, reign: int, distance: int) -> None:
        self.reign = reign
        #: How far away it is; only compared.
        self.distance = distance
        #: Messages and credit that came from it, ever.
        self.received = 0
        #: Credit given and not used yet, and the priority it was given for.
        self.granted = 0
        self.level = 0
        #: Whether that credit was given once, and is reserved.
        self.once = False
        #: It said that it has messages nobody took.
        self.offered = False

    def use(self, amount: int) -> None:
        """Counts credit that was used, or came back."""
        self.received = min(self.received + amount, _RECEIVED_MAX)
        # What was on its way when credit was voided may be more than was granted since.
        self.granted = max(0, self.granted - amount)
        if not self.granted:
            self.once = False

    def order(self, fragment: FragmentId) -> "CreditOrder":
        """The order of what is granted now, as credit."""
        through = self.received + self.granted
        return CreditOrder(fragment, self.reign, through, self.once, self.level)


class CreditOrder(NamedTuple):
    """Credit to give to a remote fragment."""

    fragment: FragmentId
    reign: int
    #: It may send on through this one of all the messages that it ever sent here.
    through: int
    once: bool
    level: int


class Hand(NamedTuple, Generic[C]):
    """Entries `start::step` of a batch are for this consumer."""

    consumer: C
    start: int
    step: int


class Hub(Generic[C]):
    """The consumers of one queue on this node; see the module's docstring."""

    __slots__ = (
        "_only", "_prefetched", "_prefetched_ms", "_ranked", "_round_robin", "alone", "asked",
        "changing", "one_place", "single", "size", "sources",
    )  # fmt: skip

    def __init__(self, single: bool = False) -> None:
        """`single`: of all consumers of the queue only one may be active."""
        self.single = single
        #: How many consumers are here, and how many of them have another priority than 0.
        self.size = 0
        self._ranked = 0
        #: The one that is here, if it is one; several are in `_round_robin`.
        self._only: C | None = None
        self.sources: dict[FragmentId, Source] = {}
        #: Consumers that the queue's first fragment has been asked to admit.
        self.asked = 0
        #: How often fragments elsewhere are being told that a consumer has left that came first.
        self.changing = 0
        #: Whether the one consumer here, or asked for, is exclusive.
        self.alone = False
        #: Whether all of the queue is in one fragment of another node.
        self.one_place = False
        # Most hubs have one consumer and no other fragments: they need neither.
        self._prefetched: deque[Prefetched] | None = None
        #: Since when messages are prefetched and none is dealt; 0: none are.
        self._prefetched_ms = 0
        self._round_robin: RoundRobin[C] | None = None

    @property
    def prefetched(self) -> Sequence[Prefetched]:
        """Messages of fragments elsewhere that wait here for a consumer."""
        return self._prefetched or ()

    @property
    def consumers(self) -> list[C]:
        """The consumers that are here, in the order in which they came; a walk over all of them."""
        if self._round_robin is not None:
            return self._round_robin.consumers
        return [self._only] if self._only is not None else []

    @property
    def count(self) -> int:
        """How many consumers the fragments are to count: those here, and those being admitted."""
        return self.size + self.asked

    @property
    def ranked(self) -> bool:
        """Whether some consumer here has another priority than 0."""
        return self._ranked > 0

    @property
    def ticket(self) -> int:
        """The lowest ticket of the consumers here; 0 without any."""
        if self._round_robin is not None:
            return self._round_robin.first.ticket
        return self._only.ticket if self._only is not None else 0

    def outranks(self, priority: int) -> bool:
        """Whether a consumer of this priority comes before one that is here."""
        if self._round_robin is not None:
            return self._round_robin.lowest < priority
        return self._only is not None and self._only.priority < priority

    def add(self, consumer: C) -> None:
        """Adds a consumer; all credit is void (the node says so to the sources)."""
        self.size += 1
        self._ranked += consumer.priority != 0
        if self._round_robin is not None:
            self._round_robin.add(consumer)
        elif self._only is None:
            self._only = consumer
        else:
            self._round_robin = RoundRobin()
            self._round_robin.add(self._only)
            self._round_robin.add(consumer)
            self._only = None
        self.void_credit()

    def remove(self, consumer: C) -> None:
        """Removes a consumer; all credit is void (the node says so to the sources)."""
        self.size -= 1
        self._ranked -= consumer.priority != 0
        if self._round_robin is not None:
            self._round_robin.remove(consumer)
            if self.size == 1:
                self._only, self._round_robin = self._round_robin.first, None
        else:
            assert self._only is consumer, "the consumer is one of this hub's"
            self._only = None
        self.void_credit()
        if not self.size:
            self.alone = self.alone and self.asked > 0

    def clear(self) -> list[C]:
        """Removes all consumers at once, as the queue is gone. Returns them."""
        gone = self.consumers
        for consumer in gone:
            consumer.awake = False
        self._round_robin = self._only = None
        self.size = self._ranked = 0
        self.void_credit()
        self.alone = self.alone and self.asked > 0
        return gone

    def wake(self, consumer: C) -> None:
        """Wakes a consumer that may have demand again; whoever gives it some must say so here."""
        if self._round_robin is not None:
            self._round_robin.wake(consumer)

    def void_credit(self) -> None:
        """Voids all credit; the node says so to the sources."""
        for source in self.sources.values():
            source.granted = source.level = 0
            source.once = False

    def set_sources(self, sources: Iterable[tuple[FragmentId, int, int]]) -> list[FragmentId]:
        """Sets the remote fragments, each with its reign and how far away it is.

        Returns those that are new or reign anew.
        """
        wanted = {fragment: (reign, distance) for fragment, reign, distance in sources}
        for fragment, source in list(self.sources.items()):
            reign, source.distance = wanted.get(fragment, (0, 0))
            if reign != source.reign:
                del self.sources[fragment]
        new = [fragment for fragment in wanted if fragment not in self.sources]
        for fragment in new:
            self.sources[fragment] = Source(*wanted[fragment])
        return new

    def forget_source(self, fragment: FragmentId) -> None:
        """Voids what was agreed with the fragment: its link or its reign starts anew."""
        self.sources.pop(fragment, None)

    @property
    def only(self) -> C | None:
        """The one consumer that may be dealt to, as long as there is no other."""
        return None if self.changing else self._only

    def ready(self, most: int | None = None) -> list[C]:
        """The consumers with demand, in turn; of several priorities only the highest.

        `most`: no more than so many are wanted.
        """
        return [] if self.changing else self._willing(most)

    def note_idle(self, consumer: C) -> None:
        """Notes that the consumer has settled all it had."""
        if self._round_robin is not None:
            self._round_robin.note_idle(consumer)

    def note_busy(self, consumer: C) -> None:
        """Notes that the consumer, which had nothing, is given something to settle."""
        if self._round_robin is not None:
            self._round_robin.note_busy(consumer)

    @property
    def idle_count(self) -> int:
        """How many consumers have nothing to settle; those that settle by being sent to aside."""
        if self._round_robin is not None:
            return self._round_robin.idle_count
        only = self._only
        return 0 if only is None or only.unacked or only.no_ack else 1

    def next_for(self, count: int) -> list[C]:
        """The consumers for so many messages: those that have nothing, if each of these is for one.

        A fragment elsewhere may have sent them although others here are behind (ADR 0039).
        """
        if count <= self.idle_count < self.size and (idle := self.idle(count)):
            return idle
        return self.ready(count)

    def idle(self, most: int) -> list[C]:
        """The consumers, at most so many, that have nothing to settle and take something now.

        Only of several consumers, and where they are dealt to round robin.
        """
        if self._round_robin is None or self.single or self.changing or self.ranked:
            return []
        return self._round_robin.idle(most)

    def _willing(self, most: int | None = None) -> list[C]:
        """The consumers that are ready, or will be once the fragments elsewhere have heard."""
        several = self._round_robin
        if several is not None and not self.single:
            return several.next(most)
        consumer = self._only if several is None else several.first
        return [consumer] if consumer is not None and consumer.free() > 0 else []

    def choose(
        self, available: int, reserved: int, level: int | None, most: int
    ) -> tuple[list[C], int, bool]:
        """Chooses to whom so many messages of a fragment here are dealt, and how many of them.

        Nobody: none are dealt now. Third: whether all of these settle by being sent to.
        `reserved`: so much demand is promised to fragments elsewhere. `level`: only to those of
        this priority. `most`: no more than so many that have to be settled; but one to each that
        has nothing: what others of this node hold may stay for hours, and those are no slower.
        """
        if reserved or level is not None or most == NO_LIMIT:
            ready = self.ready(None if reserved else available)
        else:
            ready = self.next_for(min(available, max(1, most)))
        if reserved:
            available = min(available, room(ready, available + reserved) - reserved)
        if available <= 0 or (level is not None and ready and ready[0].priority != level):
            return [], 0, False
        if most <= 0:
            ready = [consumer for consumer in ready if consumer.no_ack] or self.idle(available)
        settled = all(consumer.no_ack for consumer in ready)
        if not settled:
            available = min(available, most if most > 0 else len(ready))
        return ready, available, settled

    def plan(self, ready: Sequence[C], available: int) -> tuple[int, list[Hand[C]]]:
        """How many messages to take for the ready consumers, dealt like cards, and to whom."""
        step = len(ready)
        each = min(even_share(ready), -(-available // step), DELIVERY_BATCH_MAX)
        amount = min(available, each * step)
        if self._round_robin is not None:
            self._round_robin.deal(ready[0].priority, step, amount)
        return amount, [Hand(consumer, index, step) for index, consumer in enumerate(ready)]

    def demand(self) -> int:
        """What the consumers would take now, less what is on its way or prefetched.

        It may be less than that, if it is more than all the credit there is to give.
        """
        promised = len(self.prefetched) + self.reserved()
        enough = promised + CREDIT_WINDOW_MAX * max(1, len(self.sources))
        return room(self._willing(enough), CREDIT_WINDOW_MAX) - promised

    def reserved(self) -> int:
        """Appetite promised to remote fragments that have messages."""
        if not self.sources:
            return 0
        return sum(source.granted for source in self.sources.values() if source.once)

    def orders(self) -> list[CreditOrder]:
        """The credit to give now."""
        if not self.sources or not self.size:
            return []
        demand = self.demand()
        if self.ranked or self.one_place:
            return self._exact_orders(demand)
        if demand <= 0:
            return []
        share = min(demand // len(self.sources), CREDIT_WINDOW_MAX)
        if share >= PLENTIFUL:
            return self._standing_orders(share)
        return self._order_once(demand)

    def _order_once(self, demand: int) -> list[CreditOrder]:
        """All of the demand, to the nearest that has offered itself: who had it last is last."""
        nearest: FragmentId | None = None
        distance = 0
        for fragment, source in self.sources.items():
            if not source.offered or source.granted:
                continue
            if nearest is None or source.distance < distance:
                nearest, distance = fragment, source.distance
        if nearest is None:
            return []
        source = self.sources[nearest] = self.sources.pop(nearest)
        source.offered = False
        source.granted = demand
        source.once = True
        return [source.order(nearest)]

    def _standing_orders(self, share: int) -> list[CreditOrder]:
        orders: list[CreditOrder] = []
        for fragment, source in self.sources.items():
            if source.once or source.granted > share // 2:
                continue
            source.granted = share
            source.offered = False
            orders.append(source.order(fragment))
        return orders

    def _exact_orders(self, demand: int) -> list[CreditOrder]:
        """All of the demand of the best consumers, to every source, whenever it has changed."""
        willing = self._willing()
        level = willing[0].priority if willing else self._lowest()
        orders: list[CreditOrder] = []
        for fragment, source in self.sources.items():
            amount = max(0, min(demand, CREDIT_WINDOW_MAX) - source.granted)
            if 2 * amount < source.granted:
                # Plentiful credit is topped up when half of it is used.
                amount = 0
            if not amount and (source.level == level or not source.granted):
                continue
            source.granted += amount
            source.level = level
            source.offered = False
            orders.append(source.order(fragment))
        return orders

    def _lowest(self) -> int:
        """The lowest priority here; 0 without anybody."""
        if self._round_robin is not None:
            return self._round_robin.lowest
        return self._only.priority if self._only is not None else 0

    def on_offer(self, fragment: FragmentId, reign: int) -> bool:
        """Takes an offer of a remote fragment that has messages; false if it is stale."""
        source = self.sources.get(fragment)
        if source is None or source.reign != reign:
            return False
        source.offered = True
        return True

    def on_credit_back(self, fragment: FragmentId, reign: int, amount: int) -> None:
        """Takes back credit that was not used: the fragment is empty."""
        source = self.sources.get(fragment)
        if source is not None and source.reign == reign:
            source.use(amount)

    def on_deliver(
        self,
        fragment: FragmentId,
        reign: int,
        positions: Sequence[int],
        redelivered: Iterable[int],
        messages: Sequence[bytes],
    ) -> bool:
        """Takes messages of a remote fragment, to be dealt in this turn; false if stale."""
        source = self.sources.get(fragment)
        if source is None or source.reign != reign:
            return False
        source.use(len(positions))
        seen = dict.fromkeys(redelivered)
        if self._prefetched is None:
            self._prefetched = deque()
        self._prefetched.extend(
            Prefetched(fragment, position, message, position in seen)
            for position, message in zip(positions, messages, strict=True)
        )
        return True

    def take_prefetched(self, amount: int) -> list[Prefetched]:
        """The longest prefetched messages."""
        prefetched = self._prefetched
        if prefetched is None:
            return []
        return [prefetched.popleft() for _ in range(min(amount, len(prefetched)))]

    def prefetched_for_long(self, before: int, now_ms: int) -> bool:
        """Whether messages have been prefetched for `KEEP_UP_MS_MAX` with none being dealt.

        There were so many `before` the deal of this turn.
        """
        left = len(self.prefetched)
        if not left or left < before or not self._prefetched_ms:
            self._prefetched_ms = now_ms if left else 0
            return False
        return now_ms - self._prefetched_ms >= KEEP_UP_MS_MAX

    def surplus(self) -> list[Prefetched]:
        """Takes out prefetched messages that no consumer here takes soon, the newest first.

        When a consumer has left, what was meant for it must not wait behind a busy one while
        another node's is idle.
        """
        prefetched = self._prefetched
        if not prefetched:
            return []
        taken = room(self.ready(len(prefetched)), len(prefetched))
        return [prefetched.pop() for _ in range(len(prefetched) - taken)]

    def drop_prefetched(self, fragment: FragmentId) -> list[int]:
        """Takes out prefetched messages of one fragment; returns their positions."""
        prefetched = self.prefetched
        gone = [each.position for each in prefetched if each.fragment == fragment]
        if gone:
            self._prefetched = deque(each for each in prefetched if each.fragment != fragment)
        return gone
