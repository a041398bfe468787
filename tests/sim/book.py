"""The book of messages in queues with policies: what became of each, held against the policies.

Inputs: what publishers and consumers of such queues did and saw, at the moment they saw it. Output:
problems, told to the run's `Ledger`, which also knows when faults were at work.

A *letter* is one publish attempt, through all the queues that its deaths lead it to; a *sight* is
one time that a client received it. The rules are those of docs/SEMANTICS.md. What holds only in a
calm phase is judged by the ledger's fault intervals, which are stretched by the time to settle.
"""

from collections.abc import Mapping
from functools import partial

from fedq.amqp.content import decode_properties
from fedq.amqp.values import TableValue
from tests.sim.checkers import Ledger
from tests.sim.letters import Death, Letter, Sight, number_of, past_of
from tests.sim.policies import PolicyPlan, PolicyQueue
from tests.sim.registry import Registry
from tests.sim.world import MS

#: How long after its time a message may still arrive: it was on its way to the consumer's node.
LATE_US = 400 * MS
#: Within this time the end of a delivery is committed, unless a disk is slow for once.
COMMITTED_US, SLOWLY_COMMITTED_US = 200 * MS, 800 * MS
#: Where frames are lost: within this time a backup has it, or is in sync no more.
BADLY_COMMITTED_US = 2_500 * MS
#: How long before a delivery something must have been so, for the node that decides to know it.
KNOWN_US = 500 * MS


class Book:
    """See the module's docstring."""

    def __init__(self, ledger: Ledger, plan: PolicyPlan, nodes: int, good_network: bool) -> None:
        self.ledger = ledger
        self.world = ledger.world
        self.nodes = nodes
        self.skew_us = plan.skew_ms_max * MS
        self.queues = {queue.name: queue for queue in plan.queues}
        self.letters: dict[int, Letter] = {}
        #: Frames come in order and are never lost: what should take milliseconds does.
        self.good_network = good_network
        self.registry = Registry(ledger, good_network)
        self.committed_us = COMMITTED_US if good_network else BADLY_COMMITTED_US
        #: In this run processes die, and no living one is taken for dead.
        self.only_kills = False
        #: Clients dropped connections: deliveries may have been missed.
        self.vanished = False
        self._held: dict[tuple[str, int], str] = {}
        #: When a letter that had not died was last acknowledged or rejected.
        self._ended: dict[int, int] = {}
        self._last_seen: dict[tuple[str, str, str], int] = {}
        self._drained_last: dict[str, Letter] = {}

    def broken(self, problem: str) -> None:
        """A promise was broken."""
        self.ledger.broken(problem)

    def calm_since(self, since_us: int) -> bool:
        """Whether nothing has been wrong, nor left to be settled, since then."""
        return self.good_network and not self.ledger.fault_between(since_us, self.world.now_us)

    # --- publishing ------------------------------------------------------------------------------

    def published(
        self,
        number: int,
        queue_name: str,
        source: str,
        body: bytes,
        properties: Mapping[str, TableValue],
        delay_ms: int = 0,
    ) -> Letter:
        """A publish is about to be sent."""
        queue = self.queues[queue_name]
        now_us = self.world.now_us
        due_us = now_us // MS * MS + delay_ms * MS
        own = properties.get("expiration")
        lives = [
            ms for ms in (queue.ttl_ms, None if own is None else int(str(own))) if ms is not None
        ]
        over_us = due_us + min(lives) * MS if lives else None
        letter = Letter(number, queue, source, body, properties, now_us, due_us, over_us)
        self.letters[number] = letter
        return letter

    def confirmed(self, letter: Letter) -> None:
        """basic.ack for it."""
        if letter.confirmed_us is not None or letter.nacked_us is not None:
            self.broken(f"answered twice: {letter.describe()}")
        letter.confirmed_us = self.world.now_us
        if self.ledger.on_confirm is not None:
            self.ledger.on_confirm()

    def nacked(self, letter: Letter) -> None:
        """basic.nack for it: its queue is full, or a failover left it in doubt."""
        if letter.confirmed_us is not None or letter.nacked_us is not None:
            self.broken(f"answered twice: {letter.describe()}")
        letter.nacked_us = self.world.now_us
        if not letter.queue.refuses and self.calm_since(letter.sent_us):
            self.broken(f"nacked by a queue that refuses nothing: {letter.describe()}")
        if self.calm_since(letter.sent_us):
            self._check_unseen(letter)
        if self.ledger.on_confirm is not None:
            # The best moment, too: it is on its way to where the dead go.
            self.ledger.on_confirm()

    def returned(self, body: bytes) -> None:
        """basic.return: its queue is not there."""
        letter = self.letters[number_of(body)]
        letter.returned = True
        if not self.ledger.may_be_gone(letter.queue.durable):
            self.broken(f"P6: returned, but its queue is there: {letter.describe()}")

    # --- consuming -------------------------------------------------------------------------------

    def delivered(
        self, queue_name: str, holder: str, properties: bytes, body: bytes, redelivered: bool
    ) -> Letter | None:
        """A client received a letter; None when nobody sent it."""
        letter = self.letters.get(number_of(body))
        if letter is None:
            self.broken(f"{holder} got from {queue_name} what nobody sent: {body[:40]!r}")
            return None
        found = decode_properties(properties)
        deaths, returns = past_of(found)
        sight = Sight(self.world.now_us, queue_name, holder, redelivered, deaths, returns)
        self._check_same(letter, found, body, deaths)
        self._check_way(letter, sight)
        self._check_repeats(letter, sight)
        self._check_returns(letter, sight)
        if not deaths:
            self._check_times(letter, sight)
            self._check_order(letter, sight)
        letter.add(sight)
        if letter.nacked_us is not None and not self.in_doubt(letter.sent_us, letter.nacked_us):
            self._check_unseen(letter)
        self._held[queue_name, letter.number] = holder
        return letter

    def _check_same(
        self,
        letter: Letter,
        found: Mapping[str, TableValue],
        body: bytes,
        deaths: tuple[Death, ...],
    ) -> None:
        wanted = {name: value for name, value in letter.properties.items() if name != "headers"}
        if deaths:
            wanted.pop("expiration", None)
        same = {name: value for name, value in found.items() if name != "headers"}
        if body != letter.body or same != wanted:
            self.broken(f"changed to {same}: {letter.describe()}")

    def _check_way(self, letter: Letter, sight: Sight) -> None:
        """It is where its publisher or its deaths sent it, and died of what it may die of."""
        expected: str | None = letter.queue.name
        if sight.deaths:
            expected = self.queues[sight.deaths[0][0]].target
        if sight.queue != expected:
            self.broken(f"{sight.holder} got it from {sight.queue}, deaths {sight.deaths}: "
                        f"{letter.describe()}")  # fmt: skip
        for name, reason, _ in sight.deaths:
            if not self._may_die(letter, self.queues[name], reason):
                self.broken(f"it did not die of {reason} in {name} (deaths {sight.deaths}): "
                            f"{letter.describe()}")  # fmt: skip

    def _may_die(self, letter: Letter, queue: PolicyQueue, reason: str) -> bool:
        if reason == "rejected":
            return queue.name in letter.rejected
        if reason == "maxlen":
            return queue.has_length and queue.overflow != "reject-publish"
        if reason == "delivery_limit":
            if queue.limit is None:
                return False
            seen = letter.counts.get(queue.name, 0)
            return seen > queue.limit or self.vanished or not self.ledger.faultless
        if reason != "expired":
            return False
        if queue is not letter.queue:
            return queue.ttl_ms is not None
        return self.is_over(letter)

    def is_over(self, letter: Letter) -> bool:
        """Whether its time in its first queue may be over by now."""
        over_us = letter.over_us
        return over_us is not None and self.world.now_us + self.skew_us >= over_us

    def _check_repeats(self, letter: Letter, sight: Sight) -> None:
        calm = self.calm_since(letter.sent_us)
        before = letter.seen_like(sight)
        if before and not sight.redelivered and (not sight.deaths or calm):
            self.broken(f"P3: {sight.holder} got a repeat that is not marked: {letter.describe()}")
        if letter.acked and calm:
            self.broken(f"P3: {sight.holder} got an acknowledged letter: {letter.describe()}")
        ended_us = self._ended.get(letter.number)
        if ended_us is not None and not sight.deaths and self._is_kept_end(letter, ended_us):
            self.broken(f"P3: {sight.holder} got it after it was acknowledged or rejected, at "
                        f"{ended_us / MS:.3f}: {letter.describe()}")  # fmt: skip
        holder = self._held.get((sight.queue, letter.number))
        if holder is not None and calm:
            self.broken(f"P2: {sight.holder} got what {holder} holds: {letter.describe()}")
        # What is on its way to a consumer that leaves, or is passed over, comes back marked.
        certain = self.ledger.faultless and self.registry.steady(sight.queue)
        if certain and sight.redelivered and not before and not sight.deaths:
            self.broken(f"P3: {sight.holder} got it first as redelivered: {letter.describe()}")

    def _is_kept_end(self, letter: Letter, ended_us: int) -> bool:
        """Whether no fault can have kept that end from being committed."""
        doubt = self.in_doubt(letter.sent_us, ended_us + self.committed_us)
        return self.good_network and not doubt and not self._may_double(letter.queue)

    def _check_returns(self, letter: Letter, sight: Sight) -> None:
        """x-delivery-count, and the end of patience (delivery limit)."""
        limit = self.queues[sight.queue].limit
        if limit is None:
            return
        seen = letter.seen_like(sight)
        before = len(seen)
        exact = self.ledger.faultless and not self.vanished
        # A failover may lose the returns that were not committed, or the burial after the last;
        # and what the consumers of a dead primary's node held comes back uncounted.
        began = self.ledger.faults_begun
        # It came back at some time before it was seen again, and was handed out at some time before
        # it was seen: the node that did so may be dead by then.
        backs_us = [*seen, self.world.now_us][1:]
        lost = sum(
            self.ledger.struck(at_us - LATE_US, back_us + self.committed_us)
            for at_us, back_us in zip(seen, backs_us, strict=True)
        )
        doubt = lost + began(letter.sent_us, self.world.now_us)
        patience = limit + doubt
        doubled = self._may_double(letter.queue)
        forgotten = not doubled and not sight.deaths and sight.returns < before - doubt
        if sight.returns > patience or forgotten or (exact and sight.returns != before):
            self.broken(f"{sight.holder} got it with x-delivery-count {sight.returns}, after "
                        f"{before} deliveries, limit {limit}: {letter.describe()}")  # fmt: skip
        if before > patience and not sight.deaths and not doubled:
            self.broken(f"{sight.holder} got it for the {before + 1}th time, limit {limit}: "
                        f"{letter.describe()}")  # fmt: skip

    def _may_double(self, queue: PolicyQueue) -> bool:
        """Whether a publish may be there twice: what a disk does not know is taken again."""
        lost = self.ledger.memory_lost or self.ledger.copies_lost
        return lost or (queue.copies(self.nodes) < 2 and not self.ledger.faultless)

    def _check_times(self, letter: Letter, sight: Sight) -> None:
        now_us = self.world.now_us
        if now_us + self.skew_us < letter.due_us:
            self.broken(f"{sight.holder} got it before it was due: {letter.describe()}")
        over_us = letter.over_us
        if over_us is None or now_us <= over_us + LATE_US + self.skew_us:
            return
        if self.calm_since(letter.sent_us):
            self.broken(f"{sight.holder} got it after its time: {letter.describe()}")

    def _check_order(self, letter: Letter, sight: Sight) -> None:
        """P4, and that the highest priority comes first."""
        if not sight.redelivered and letter.due_us <= letter.sent_us:
            key = (sight.holder, letter.source, f"{sight.queue}/{letter.priority}")
            last = self._last_seen.get(key, 0)
            if letter.number < last:
                self.broken(f"P4: {sight.holder} got {last} first: {letter.describe()}")
            self._last_seen[key] = letter.number
        if not letter.queue.max_priority or not letter.queue.one_place:
            return
        higher = [
            other
            for other in self.letters.values()
            if other.queue is letter.queue
            and other.priority > letter.priority
            and self._surely_waits(other)
            and self.calm_since(other.sent_us)
        ]
        # What was handed out before it may be on its way to other consumers: then it comes there.
        if len(higher) > self.registry.may_be_on_the_way(sight.queue, sight.holder):
            self._came_too_early(letter, sight, higher)
        elif higher:
            self.world.after(LATE_US, partial(self._check_came, letter, sight, higher))

    def _check_came(self, letter: Letter, sight: Sight, higher: list[Letter]) -> None:
        """Time to be on the way is over for what may have been then."""
        late = [other for other in higher if not other.sights and self.calm_since(other.sent_us)]
        if late and not self.registry.some_left_since(sight.queue, sight.at_us - LATE_US):
            self._came_too_early(letter, sight, late)

    def _came_too_early(self, letter: Letter, sight: Sight, higher: list[Letter]) -> None:
        self.broken(f"{sight.holder} got at {sight.at_us / MS:.3f} {letter.describe()}, while "
                    f"there waited {higher[0].describe()}")  # fmt: skip

    def _surely_waits(self, letter: Letter) -> bool:
        """Whether the letter is, and has been for a while, ready in its first queue."""
        confirmed_us = letter.confirmed_us
        return (
            confirmed_us is not None
            and confirmed_us < self.world.now_us - KNOWN_US
            and not letter.sights
            and letter.due_us <= letter.sent_us
            and letter.over_us is None
            and not letter.queue.has_length
            and not letter.returned
        )

    def in_doubt(self, first_us: int, last_us: int) -> bool:
        """Whether something was wrong then; where nothing but kills is, not before they happen."""
        if self.only_kills:
            return self.ledger.crash_between(first_us, last_us)
        return self.ledger.fault_between(first_us, last_us)

    def _check_unseen(self, letter: Letter) -> None:
        """What was refused in calm times is nowhere, or where the dead go.

        It may have been in the queue for a moment, and damage may undo that it was taken out.
        """
        if self.ledger.may_be_undone(letter.queue.name, letter.sent_us):
            return
        if (letter.queue.name, ()) in letter.seen:
            self.broken(f"refused, and delivered: {letter.describe()}")
        dlx = letter.queue.overflow == "reject-publish-dlx"
        if letter.sights and not dlx:
            self.broken(f"refused, and a dead letter: {letter.describe()}")

    # --- settling --------------------------------------------------------------------------------

    def acked(self, letter: Letter, queue: str, holder: str) -> None:
        """A client sends basic.ack."""
        letter.acked = True
        self._end(letter, queue, holder)

    def rejected(self, letter: Letter, queue: str, holder: str) -> None:
        """A client sends basic.reject or nack without requeue."""
        letter.rejected[queue] = None
        self._end(letter, queue, holder)

    def requeued(self, letter: Letter, queue: str, holder: str) -> None:
        """A client gives it back."""
        self._release(letter, queue, holder)

    def gone(self, holder: str) -> None:
        """The connection is gone: what it held returns."""
        for key in [key for key, each in self._held.items() if each == holder]:
            del self._held[key]
        self.registry.gone(holder)

    def drained(self, letter: Letter, queue_name: str) -> None:
        """The last drain of the queue gave it: at rest, so the order is exact."""
        letter.drained = True
        queue = self.queues[queue_name]
        last = self._drained_last.get(queue_name)
        self._drained_last[queue_name] = letter
        if last is None or queue is not letter.queue or not queue.one_place:
            return
        same_way = letter.queue is last.queue and letter.sights[-1].deaths == last.sights[-1].deaths
        if queue.max_priority and same_way and letter.priority > last.priority:
            self.broken(f"drained {last.describe()} before {letter.describe()}")

    def _end(self, letter: Letter, queue: str, holder: str) -> None:
        sight = next(s for s in reversed(letter.sights) if (s.queue, s.holder) == (queue, holder))
        if not sight.deaths:
            self._ended[letter.number] = self.world.now_us
        self._release(letter, queue, holder)

    def _release(self, letter: Letter, queue: str, holder: str) -> None:
        if self._held.get((queue, letter.number)) == holder:
            del self._held[queue, letter.number]

    # --- lengths ---------------------------------------------------------------------------------

    def counted(self, name: str, count: int, asked_us: int) -> None:
        """declare-ok said so many ready messages."""
        queue = self.queues[name]
        # One that refuses publishes takes back what consumers return, all the same.
        if queue.max_length is None or queue.refuses or not self.calm_since(asked_us):
            return
        # Several fragments round their part up.
        most = queue.max_length if queue.one_place else queue.max_length + 3
        if count > most:
            self.broken(f"{name} has {count} messages, its length is {queue.max_length}")
