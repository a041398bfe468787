"""Who consumes from which queue, and since when: for the rules about whose turn it is.

Inputs: consumers that ask, are admitted, receive, settle and leave. Output: problems, told to the
run's `Ledger`: a second consumer of a queue with a single active one, or a better consumer that
was passed over. Both are judged in calm phases only: after a failover the order is settled anew.

Some things are as they are (docs/TESTING.md): of several fragments, a node whose consumers have no
priority asks for messages when it hears of some; those with a negative priority may come first. All
but the first fragment hear moments after consume-ok who is the single active consumer. What was on
its way to a node's best consumer, which was filled up meanwhile, goes to others of that node. Where
somebody comes to a node or leaves it, it asks anew. And what a node keeps up with is one number.
"""

from dataclasses import dataclass
from functools import partial

from tests.sim.checkers import Ledger
from tests.sim.policies import PolicyQueue
from tests.sim.world import MS

#: For so long a better consumer must have been idle: nodes hear of it by a message.
IDLE_US = 500 * MS
#: So many messages one consumer may have waiting with it while another one is idle (ADR 0039).
BEHIND = 8
#: Within this time it must have received something, too: that was on its way already.
SOON_US = 300 * MS
#: So long something may be on its way to a consumer that has left.
LEFT_US = 400 * MS
#: As many as anybody wants.
NO_END = 1 << 30


@dataclass(slots=True)
class Registration:
    """One consumer, from its basic.consume to its end."""

    queue: str
    holder: str
    priority: int
    prefetch: int
    asked_us: int
    node: str = ""
    since_us: int | None = None
    ended_us: int | None = None
    unacked: int = 0
    #: When it last received something.
    served_us: int = 0
    #: When it last had no demand, or nobody could know that it has.
    busy_us: int = 0
    #: When it last settled something.
    settled_us: int = 0
    #: It does one message after the other: what it has beyond that waits.
    one_by_one: bool = False
    #: It had as many as its prefetch at some time: more may have been on its way.
    was_full: bool = False

    @property
    def living(self) -> bool:
        """It has neither cancelled nor gone."""
        return self.ended_us is None

    def describe(self) -> str:
        """Who it is."""
        since = "-" if self.since_us is None else f"{self.since_us / MS:.3f}"
        return f"{self.holder} (priority {self.priority}, since {since}, {self.unacked} unacked)"


class Registry:
    """See the module's docstring."""

    def __init__(self, ledger: Ledger, good_network: bool) -> None:
        """On a bad network nodes hear of each other too late for judgements like these."""
        self.ledger = ledger
        self.world = ledger.world
        self.good_network = good_network
        #: Turns are so short that a consumer which takes everything has its share of one at once.
        self.small_turns = False
        self.by_queue: dict[str, list[Registration]] = {}

    def ask(
        self, queue: str, holder: str, priority: int, prefetch: int, node: str = ""
    ) -> Registration:
        """basic.consume is about to be sent."""
        found = Registration(queue, holder, priority, prefetch, self.world.now_us, node)
        self.by_queue.setdefault(queue, []).append(found)
        return found

    def begin(self, registration: Registration) -> None:
        """consume-ok."""
        registration.since_us = registration.busy_us = self.world.now_us

    def end(self, registration: Registration) -> None:
        """It cancels, or its connection is gone: from here on it is nobody's rival."""
        if registration.living:
            registration.ended_us = self.world.now_us

    def gone(self, holder: str) -> None:
        """The connection is gone."""
        for registrations in self.by_queue.values():
            for registration in registrations:
                if registration.holder == holder:
                    self.end(registration)

    def receives(self, mine: Registration, queue: PolicyQueue) -> None:
        """A delivery reached it: was it its turn?"""
        now_us = self.world.now_us
        calm = self.good_network and not self.ledger.fault_between(mine.asked_us, now_us)
        if calm and mine.living:
            for other in self.by_queue[mine.queue]:
                if queue.single and self._is_before(other, mine, queue):
                    self.ledger.broken(f"{mine.describe()} got a message from {mine.queue}, "
                                       f"whose active consumer is {other.describe()}")  # fmt: skip
                elif self._passes_over(mine, other):
                    self.ledger.broken(f"{mine.describe()} got one more message from {mine.queue}, "
                                       f"and idle was {other.describe()}")  # fmt: skip
                elif not queue.single and self._is_better(other, mine, queue):
                    self.world.after(SOON_US, partial(self._check_served, other, mine, now_us))
        mine.unacked += 1
        mine.served_us = now_us
        if mine.prefetch and mine.unacked >= mine.prefetch:
            mine.busy_us = now_us
            mine.was_full = True

    def _check_served(self, better: Registration, mine: Registration, since_us: int) -> None:
        calm = not self.ledger.fault_between(since_us, self.world.now_us)
        # One without prefetch takes everything; of others it is not seen what is on its way.
        takes_all = not better.prefetch and not self.small_turns
        passed_over = takes_all or better.served_us < since_us
        # What either node was sent at that moment may have come a little later than this.
        excused = (
            self._is_behind_a_better_one(better)
            or self._may_be_left_over(mine, better, since_us)
            or self._asks_anew(better, since_us)
        )
        if calm and better.living and passed_over and not excused:
            self.ledger.broken(
                f"{mine.describe()} got a message from {mine.queue} at {since_us / MS:.3f} ms, and "
                f"{better.describe()} was idle"
            )

    def settles(self, mine: Registration) -> None:
        """It acknowledged, rejected or gave back one message."""
        mine.unacked -= 1
        mine.settled_us = self.world.now_us
        if mine.prefetch and mine.unacked + 1 >= mine.prefetch:
            mine.busy_us = self.world.now_us

    def steady(self, queue: str) -> bool:
        """Whether nobody has left the queue, was asked for by another rank, or was full, so far."""
        return not any(
            not each.living or each.priority or each.was_full
            for each in self.by_queue.get(queue, ())
        )

    def idle(self, queue: str, single: bool) -> list[Registration]:
        """Consumers that could take a message now, and have been able to for a while."""
        living = [
            each
            for each in self.by_queue.get(queue, ())
            if each.since_us is not None and each.living
        ]
        if single and living:
            first = min(living, key=lambda each: each.asked_us)
            # Who asked before that one was answered may have been admitted before it.
            living = [each for each in living if each.asked_us <= (first.since_us or 0)]
            if any(not self._is_idle(each) or self._is_being_served(each) for each in living):
                return []
        return [
            each
            for each in living
            if self._is_idle(each)
            and not self._is_being_served(each)
            and not self._may_have_enough(each, living)
            and not self._is_outranked(each, living)
        ]

    def may_be_on_the_way(self, queue: str, holder: str) -> int:
        """How many messages may be on their way to others than this consumer, at most.

        As many as they have room for; and what one could have had that has left lately comes back.
        """
        total = 0
        for each in self.by_queue.get(queue, ()):
            if each.holder == holder or self.left_before(each, self.world.now_us - LEFT_US):
                continue
            room = each.prefetch - each.unacked if each.living else each.prefetch
            total += room if each.prefetch else NO_END
        return total

    def left_before(self, mine: Registration, at_us: int) -> bool:
        """Whether it had left by then."""
        return mine.ended_us is not None and mine.ended_us < at_us

    def some_left_since(self, queue: str, at_us: int) -> bool:
        """Whether what was on its way then may have come back since."""
        return any(
            not each.living and not self.left_before(each, at_us)
            for each in self.by_queue.get(queue, ())
        )

    def _is_being_served(self, mine: Registration) -> bool:
        """Whether its room is being filled.

        What it gives back or acknowledges becomes room at the fragment only when its node has said
        so, and is filled a way later. Without a prefetch its room is what it keeps up with
        (ADR 0039).
        """
        last_us = max(mine.served_us, mine.settled_us) if mine.prefetch else mine.settled_us
        return mine.prefetch != 1 and last_us > self.world.now_us - SOON_US

    def _may_have_enough(self, mine: Registration, living: list[Registration]) -> bool:
        """Whether it may have what it keeps up with: others could have the rest (ADR 0039)."""
        ranked = any(each.priority for each in living)
        return mine.unacked > 0 and len(living) > 1 and not ranked

    def _is_outranked(self, mine: Registration, living: list[Registration]) -> bool:
        """Whether a better consumer is at work: what waits is for that one, or on its way to it."""
        since_us = self.world.now_us - IDLE_US
        return any(each.priority > mine.priority and each.served_us > since_us for each in living)

    def _passes_over(self, mine: Registration, other: Registration) -> bool:
        """Whether mine has more than it keeps up with, and the other one had nothing for long."""
        if not mine.one_by_one or not other.one_by_one or not other.living:
            return False
        since_us = self.world.now_us - IDLE_US
        idle = other.since_us is not None and not other.unacked
        last_us = max(other.since_us or 0, other.settled_us, other.served_us)
        return idle and last_us < since_us and mine.unacked >= BEHIND

    def _is_before(self, other: Registration, mine: Registration, queue: PolicyQueue) -> bool:
        if not other.living or other.since_us is None:
            return False
        # The first fragment knew it when it answered; others hear of it by a message.
        known_us = other.since_us if queue.one_place else other.since_us + SOON_US
        return known_us < mine.asked_us

    def _is_better(self, other: Registration, mine: Registration, queue: PolicyQueue) -> bool:
        here = other.living and other.since_us is not None
        least = mine.priority if queue.one_place else max(0, mine.priority)
        return (
            here
            and other.priority > least
            and self._is_idle(other)
            and not self._is_behind_a_better_one(other)
        )

    def _is_behind_a_better_one(self, mine: Registration) -> bool:
        """Whether its node is sent messages for a better consumer, which takes them as it has room.

        Other nodes hear only what room the best consumer of a node has.
        """
        now_us = self.world.now_us
        return any(
            each.node == mine.node
            and each.priority > mine.priority
            and each.served_us > now_us - IDLE_US
            and not self.left_before(each, now_us - LEFT_US)
            for each in self.by_queue[mine.queue]
        )

    def _may_be_left_over(self, mine: Registration, other: Registration, at_us: int) -> bool:
        """Whether it may have been on its way to a consumer of mine's node.

        That one, no worse than the other, was filled up by something else meanwhile.
        """
        return any(
            each.node == mine.node
            and each.priority >= other.priority
            and each.prefetch
            and each.served_us > at_us - SOON_US
            for each in self.by_queue[mine.queue]
            if each is not other
        )

    def _asks_anew(self, mine: Registration, at_us: int) -> bool:
        """Whether another consumer came to its node, or left it, at about that time.

        Then the node says anew who is there, and asks for messages anew.
        """
        return any(
            each.node == mine.node and max(each.asked_us, each.ended_us or 0) > at_us - SOON_US
            for each in self.by_queue[mine.queue]
            if each is not mine
        )

    def _is_idle(self, registration: Registration) -> bool:
        free = not registration.prefetch or registration.unacked < registration.prefetch
        return free and registration.busy_us < self.world.now_us - IDLE_US
