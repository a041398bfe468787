"""The round robin of one queue's consumers on this node, within each priority.

Inputs: consumers that come and go, and word that one may take more than before. Output: those that
are next. Who has no demand costs nothing: consumers stand in *rings*, one for each priority, and
who was served stands last; one that is found without demand leaves its ring, and is back when it is
woken. So to find the next ones costs what is dealt to them, however many consumers there are. One
that leaves costs no look at the others: it stays in its ring, asleep, until it is met there or
those are the most.

Invariant: a consumer that is not in its ring had no demand when it was last looked at, and
whoever gives it some must wake it.
"""

import heapq
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final, Generic, Protocol, TypeVar

#: Tickets that are kept in vain, besides as many as there are consumers.
_TICKETS_SLACK: Final = 32
#: A ring that is no longer than this keeps none that left.
_SWEPT_AT_ONCE: Final = 32


class ConsumerLike(Protocol):
    """A consumer, as far as the hub cares."""

    no_ack: bool
    #: Higher ones are served first (RabbitMQ's `x-priority`).
    priority: int
    #: Its place among all consumers of the queue, on all nodes.
    ticket: int
    #: Whether it stands in a ring; kept here.
    awake: bool

    @property
    def unacked(self) -> int:
        """How many messages it has not settled yet."""

    @property
    def group(self) -> object | None:
        """What stands for a shared allowance, or None: each consumer of a group sees all of it."""

    def free(self) -> int:
        """How many more messages it takes now."""


C = TypeVar("C", bound=ConsumerLike)


class _Ring(Generic[C]):
    """Consumers of one priority that may have demand, the next one first."""

    __slots__ = ("consumers", "gone")

    def __init__(self, first: C) -> None:
        self.consumers: deque[C] = deque((first,))
        #: How many of them have left.
        self.gone = 0


class RoundRobin(Generic[C]):
    """The round robin of the consumers of one queue; see the module's docstring."""

    __slots__ = ("_awake", "_came", "_idle", "_numbers", "_present", "_ranks", "_rings", "_tickets")

    def __init__(self) -> None:
        #: How many have come, and the numbers of those that are here, both ways.
        self._came = 0
        self._numbers: dict[C, int] = {}
        self._present: dict[int, C] = {}
        #: By priority; there are as many as clients like. Those in use, ascending.
        self._rings: dict[int, _Ring[C]] = {}
        self._awake: list[int] = []
        #: The priority of each consumer that is here, ascending.
        self._ranks: list[int] = []
        #: A heap of tickets with consumers' numbers, those that left among them.
        self._tickets: list[tuple[int, int]] = []
        #: Those that have nothing to settle, and would have, in no order.
        self._idle: dict[C, None] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def consumers(self) -> list[C]:
        """All consumers that are here, in the order in which they came."""
        return list(self._numbers)

    @property
    def lowest(self) -> int:
        """The lowest priority of the consumers that are here; there must be one."""
        return self._ranks[0]

    @property
    def highest(self) -> int:
        """The highest priority of the consumers that are here; there must be one."""
        return self._ranks[-1]

    def add(self, consumer: C) -> None:
        """Adds a consumer; its ticket and priority stay as they are."""
        self._came += 1
        self._numbers[consumer] = self._came
        self._present[self._came] = consumer
        heapq.heappush(self._tickets, (consumer.ticket, self._came))
        insort(self._ranks, consumer.priority)
        consumer.awake = False
        if not consumer.unacked:
            self.note_idle(consumer)
        self.wake(consumer)

    def remove(self, consumer: C) -> None:
        """Removes a consumer, for good."""
        del self._present[self._numbers.pop(consumer)]
        self._idle.pop(consumer, None)
        del self._ranks[bisect_left(self._ranks, consumer.priority)]
        ring = self._rings.get(consumer.priority)
        if consumer.awake and ring is not None:
            consumer.awake = False
            ring.gone += 1
            if len(ring.consumers) <= _SWEPT_AT_ONCE or 2 * ring.gone > len(ring.consumers):
                ring.consumers = deque(each for each in ring.consumers if each.awake)
                ring.gone = 0
            if not ring.consumers:
                self._drop_ring(consumer.priority)
        if len(self._tickets) > 2 * len(self._present) + _TICKETS_SLACK:
            # Those of consumers that left lie behind one that stays.
            present = self._present.items()
            self._tickets = sorted((each.ticket, number) for number, each in present)

    def _drop_ring(self, priority: int) -> None:
        del self._rings[priority]
        del self._awake[bisect_left(self._awake, priority)]

    def wake(self, consumer: C) -> None:
        """Puts a consumer, which may have demand again, at the end of its ring."""
        if consumer.awake:
            return
        consumer.awake = True
        ring = self._rings.get(consumer.priority)
        if ring is None:
            self._rings[consumer.priority] = _Ring(consumer)
            insort(self._awake, consumer.priority)
        else:
            ring.consumers.append(consumer)

    @property
    def first(self) -> C:
        """The consumer with the lowest ticket; there must be one."""
        tickets = self._tickets
        while tickets[0][1] not in self._present:
            heapq.heappop(tickets)
        return self._present[tickets[0][1]]

    def note_idle(self, consumer: C) -> None:
        """Notes that the consumer has nothing to settle."""
        if not consumer.no_ack:
            self._idle[consumer] = None

    def note_busy(self, consumer: C) -> None:
        """Notes that the consumer has something to settle."""
        self._idle.pop(consumer, None)

    @property
    def idle_count(self) -> int:
        """How many consumers have nothing to settle."""
        return len(self._idle)

    def idle(self, most: int) -> list[C]:
        """The consumers, at most so many, that have nothing to settle and take something."""
        found: list[C] = []
        for consumer in list(islice(self._idle, most)):
            if consumer.group is None and consumer.free() > 0:
                found.append(consumer)
            else:
                # Others are looked at first the next time.
                del self._idle[consumer]
                self._idle[consumer] = None
        return found

    def next(self, most: int | None) -> list[C]:
        """Consumers with demand, the next one first, of the highest priority that has any.

        Of each group so many that each can have one; `most`: no more than so many are wanted.
        """
        while self._awake:
            priority = self._awake[-1]
            ring = self._rings[priority]
            hungry = _with_capacity(ring, len(ring.consumers) if most is None else most)
            if hungry or ring.consumers:
                return hungry
            self._drop_ring(priority)
        return []

    def deal(self, priority: int, consumers: int, amount: int) -> None:
        """Moves the turn on: the next consumers were dealt so many messages, one by one.

        Who got none, or one less than others, is the next one.
        """
        ring = self._rings.get(priority)
        if ring is not None:
            are_some = consumers < len(ring.consumers) - ring.gone
            ring.consumers.rotate(-min(amount, consumers) if are_some else -(amount % consumers))


def room(consumers: Sequence[C], most: int) -> int:
    """What consumers with demand take together, `most` at most of each or of a group."""
    total = 0
    shared: dict[object, int] = {}
    for consumer in consumers:
        free = min(consumer.free(), most)
        group = consumer.group
        if group is None:
            total += free
        else:
            shared[group] = max(free, shared.get(group, 0))
    return total + sum(shared.values())


def even_share(consumers: Sequence[C]) -> int:
    """What each of the next consumers takes if all are to have the same; at least one."""
    if len(consumers) == 1:
        return consumers[0].free()
    groups: dict[object, int] = {}
    for consumer in consumers:
        group = consumer.group
        if group is not None:
            groups[group] = groups.get(group, 0) + 1
    if not groups:
        return min(consumer.free() for consumer in consumers)
    return max(1, min(each.free() // groups.get(each.group, 1) for each in consumers))


def _with_capacity(ring: _Ring[C], most: int) -> list[C]:
    """The first consumers in the ring that have demand; those without leave it.

    Of a group only so many that what they may have together is one for each.
    """
    found: list[C] = []
    passed: list[C] = []
    groups: dict[object, int] = {}
    waiting = ring.consumers
    while waiting and len(found) < most:
        consumer = waiting.popleft()
        if not consumer.awake:
            ring.gone -= 1
            continue
        free = consumer.free()
        if free <= 0:
            consumer.awake = False
            continue
        passed.append(consumer)
        group = consumer.group
        if group is not None:
            others = groups.get(group, 0)
            if free <= others:
                continue
            groups[group] = others + 1
        found.append(consumer)
    waiting.extendleft(reversed(passed))
    return found
