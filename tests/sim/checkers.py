"""The ledger: all that clients saw, held against what `design.md` promises (P1 to P6).

Inputs: what clients did and were told, at the moment they were told, and when faults were at work.
Outputs: `problems`, sentences that name the message, the queue and the promise.

It knows more than any node: it sees every client. A *copy* is one publish attempt in one queue;
a publisher that sends a message again makes another attempt. What a promise exempts ("unless a
failure happened") is judged by the fault intervals, stretched by the time a cluster may need to
notice and to settle.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.sim.client_connection import make_properties
from tests.sim.fault_times import FaultTimes
from tests.sim.world import MS, SECOND, World

PROBLEMS_MAX = 20
#: How long a delivery may be under way from one node to another and on to its client.
ON_THE_WAY_US = 200 * MS


class Delivery(NamedTuple):
    """One time that a client received a copy."""

    at_us: int
    #: The connection that received it.
    holder: str
    redelivered: bool


@dataclass(slots=True)
class Queue:
    """What the ledger knows of a queue."""

    name: str
    durable: bool
    #: Copies that it is promised to keep of each message.
    replicas: int
    #: Only one connection may use it, and it dies with that.
    private: bool = False
    #: Its transient messages are on their primary alone.
    spares: bool = False
    copies: "dict[int, Copy]" = field(default_factory=dict)
    #: Since when it is gone: nothing of it may be seen any more.
    deleted_us: int | None = None
    #: Clients have vanished while they consumed: first deliveries may have been missed.
    watched: bool = True


@dataclass(slots=True)
class Attempt:
    """One publish."""

    number: int
    #: The channel it was published on; P4 is about such.
    source: str
    persistent: bool
    body: bytes
    exchange: str
    key: str
    sent_us: int
    confirmed_us: int | None = None
    #: Refused by the broker (nack), or never answered.
    failed: bool = False
    returned: bool = False
    #: Published mandatory, and no queue could have taken it.
    unroutable: bool = False


@dataclass(slots=True)
class Copy:
    """One attempt in one queue."""

    attempt: Attempt
    queue: Queue
    #: Its queue may or may not have been there for it (a subscription that was just being made).
    optional: bool = False
    deliveries: list[Delivery] = field(default_factory=list)
    #: The connection that holds it unacknowledged.
    holder: str | None = None
    acked_us: int | None = None
    #: Its queue was deleted.
    dropped: bool = False
    #: A node failed at it: it is in quarantine, and safe there.
    aside: bool = False
    #: A purge has taken it: like an acknowledgement, that may be lost in a failure.
    purged_us: int | None = None
    #: A fault let two deliveries of it be out at one time, each with a tag of its own: what is
    #: said of one may or may not settle the other, and nobody sees which of them counted.
    twice: bool = False
    #: So often it came once more after its acknowledgement, as another message: one publish that
    #: was taken again by a fragment that had begun anew from its disk.
    repeats: int = 0

    def describe(self) -> str:
        """Everything about it in one line."""
        attempt = self.attempt
        confirmed = "-" if attempt.confirmed_us is None else f"{attempt.confirmed_us / MS:.3f}"
        seen = ", ".join(
            f"{each.at_us / MS:.3f} {each.holder}{' redelivered' if each.redelivered else ''}"
            for each in self.deliveries
        )
        acked = "-" if self.acked_us is None else f"{self.acked_us / MS:.3f}"
        kind = "persistent" if attempt.persistent else "transient"
        return (
            f"message {attempt.number} ({kind}, from {attempt.source}, sent "
            f"{attempt.sent_us / MS:.3f}, confirmed {confirmed}) in {self.queue.name}: "
            f"delivered [{seen}], acked {acked}"
        )


class Ledger(FaultTimes):
    """See the module's docstring."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.problems: list[str] = []
        self.queues: dict[str, Queue] = {}
        self.attempts: dict[int, Attempt] = {}
        #: Whether the run's exchanges outlive a stop of everything.
        self.durable_exchanges = True
        #: Every node was down at one time: memory is gone, and with it all that was transient.
        self.memory_lost = False
        #: A node's data directory was replaced by an older one.
        self.restored = False
        #: Queues that nobody consumed from before the end, in a run in which nodes do nothing
        #: worse than stop in order, after all was confirmed.
        self.untouched: dict[str, None] = {}
        #: By queue: when the disk with its only copy was damaged, and since when all that was
        #: written may be gone with that.
        self._damages: dict[str, list[tuple[int, int]]] = {}
        #: Some node was down when not all copies were in sync: only disks are to be trusted.
        self.copies_lost = False
        #: Only single processes die in this run: whoever lives keeps what it holds (P2, to the
        #: letter), if the queue has a second copy that knows of it.
        self.only_kills = False
        #: Clients are told when they are not read.
        self.tells_alarms = False
        #: Called at each confirm: the best moment for something to go wrong.
        self.on_confirm: Callable[[], None] | None = None
        #: Hear of every connection that is gone.
        self.on_gone: list[Callable[[str], None]] = []
        self._alive: dict[str, Callable[[], bool]] = {}
        self._held: dict[str, dict[tuple[str, int], Copy]] = {}
        #: P4: the last first delivery, by (holder, consumer, source, queue).
        self._last_seen: dict[tuple[str, str, str, str], int] = {}
        self._vanished = False

    # --- problems and faults ---------------------------------------------------------------------

    def broken(self, problem: str) -> None:
        """A promise was broken."""
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(f"{self.world.now_us / MS:.3f} ms: {problem}")
            self.world.note("PROBLEM", problem)

    def damaged(self, queues: Sequence[str], since_us: int = 0) -> None:
        """The disk with the only copies of these has lost of what was written since then."""
        for name in queues:
            self._damages.setdefault(name, []).append((since_us, self.world.now_us))

    def may_be_undone(self, queue: str, asked_us: int, done_us: int | None = None) -> bool:
        """Whether what was asked of that queue then, and was done by then, was lost with a disk."""
        return any(
            asked_us <= at_us and (done_us is None or done_us >= since_us)
            for since_us, at_us in self._damages.get(queue, ())
        )

    def unanswered(self, label: str, request: str) -> None:
        """A client gave up waiting for an answer."""
        if not self.fault_between(self.world.now_us - 10 * SECOND, self.world.now_us):
            self.broken(f"{label}: no answer to {request}, and nothing was wrong")

    def connected(self, holder: str, is_alive: Callable[[], bool]) -> None:
        """A connection is being made; `is_alive` tells whether its node still serves it."""
        self._alive[holder] = is_alive

    # --- wiring ----------------------------------------------------------------------------------

    def declared(self, name: str, durable: bool, replicas: int, private: bool = False) -> Queue:
        """A queue is about to be declared, or was."""
        queue = self.queues.get(name)
        if queue is None:
            queue = self.queues[name] = Queue(name, durable, replicas, private)
        return queue

    def subscribing(self, name: str, hears: Callable[[str, str], bool]) -> None:
        """A private queue is being bound: it may get what is still on its way elsewhere.

        That is what is not confirmed yet; and what was published while its node was taken for dead,
        confirmed without it, and is sent there when it is back (docs/SEMANTICS.md).
        """
        queue = self.queues[name]
        for attempt in self.attempts.values():
            sent_us = attempt.sent_us
            on_way = attempt.confirmed_us is None or self.fault_between(sent_us, sent_us)
            if on_way and hears(attempt.exchange, attempt.key):
                queue.copies[attempt.number] = Copy(attempt, queue, optional=True)
                attempt.unroutable = False

    def doubtful(self, name: str) -> None:
        """A purge or a delete was asked for, and nobody knows whether it was done."""
        for copy in self.queues[name].copies.values():
            copy.optional = True

    def may_be_gone(self, durable: bool) -> bool:
        """Whether a queue or exchange may be missing: a stop of everything ends an era."""
        return self.memory_lost and not durable

    def deleted(self, name: str) -> None:
        """delete-ok was received, or the queue's only connection is gone."""
        queue = self.queues[name]
        queue.deleted_us = self.world.now_us
        for copy in queue.copies.values():
            copy.dropped = True

    # --- publishing ------------------------------------------------------------------------------

    def published(
        self,
        source: str,
        body: bytes,
        persistent: bool,
        queues: Sequence[str],
        optional: Sequence[str] = (),
        exchange: str = "",
        key: str = "",
    ) -> Attempt:
        """A publish is about to be sent; `queues` must get it, `optional` ones may."""
        number = int(body.split(b":", 1)[0])
        attempt = Attempt(number, source, persistent, body, exchange, key, self.world.now_us)
        self.attempts[number] = attempt
        attempt.unroutable = not queues and not optional
        for name in queues:
            self.queues[name].copies[number] = Copy(attempt, self.queues[name])
        for name in optional:
            self.queues[name].copies[number] = Copy(attempt, self.queues[name], optional=True)
        return attempt

    def confirmed(self, attempt: Attempt) -> None:
        """basic.ack for it."""
        if attempt.confirmed_us is not None or attempt.failed:
            self.broken(f"message {attempt.number} was confirmed twice")
        if attempt.unroutable and not attempt.returned:
            self.broken(f"message {attempt.number} fits no queue, and was not returned")
        attempt.confirmed_us = self.world.now_us
        if self.on_confirm is not None:
            self.on_confirm()

    def nacked(self, attempt: Attempt) -> None:
        """basic.nack for it."""
        attempt.failed = True
        if self.faultless:
            self.broken(f"message {attempt.number} was nacked, and nothing was wrong")

    def returned(self, body: bytes) -> None:
        """basic.return: no queue (P6: every bound queue is routed to, from any node)."""
        attempt = self.attempts[int(body.split(b":", 1)[0])]
        attempt.returned = True
        for queue in self.queues.values():
            copy = queue.copies.get(attempt.number)
            if copy is None or copy.optional or queue.private or copy.dropped:
                continue
            if not (self.may_be_gone(queue.durable) or self.may_be_gone(self.durable_exchanges)):
                self.broken(f"P6: message {attempt.number} was returned, but {queue.name} is bound")
        if body != attempt.body:
            self.broken(f"message {attempt.number} came back changed")

    # --- consuming -------------------------------------------------------------------------------

    def delivered(
        self,
        queue_name: str,
        holder: str,
        consumer: str,
        properties: bytes,
        body: bytes,
        redelivered: bool,
        no_ack: bool,
    ) -> Copy | None:
        """A client received a message; returns its copy, or None when there is no such."""
        queue = self.queues[queue_name]
        number = int(body.split(b":", 1)[0]) if b":" in body[:12] else -1
        copy = queue.copies.get(number)
        if copy is None:
            self.broken(f"{holder} got a message from {queue_name} that nobody sent: {body[:40]!r}")
            return None
        attempt = copy.attempt
        if body != attempt.body or properties != make_properties(str(number), attempt.persistent):
            self.broken(f"{holder} got a changed message: {copy.describe()}")
        self._check_repeats(copy, holder, redelivered)
        self._check_order(copy, holder, consumer, redelivered)
        copy.deliveries.append(Delivery(self.world.now_us, holder, redelivered))
        if copy.holder is not None:
            # What a dead node's client holds settles nothing any more.
            copy.twice = copy.twice or self._alive.get(copy.holder, lambda: True)()
            self._held.get(copy.holder, {}).pop((queue_name, number), None)
        if no_ack:
            copy.holder = None
            copy.acked_us = self.world.now_us
        else:
            copy.holder = holder
            if not copy.twice:
                copy.acked_us = None
            self._held.setdefault(holder, {})[queue_name, number] = copy
        return copy

    def _check_repeats(self, copy: Copy, holder: str, redelivered: bool) -> None:
        now_us = self.world.now_us
        purged_us = copy.purged_us
        if copy.dropped or (purged_us is not None and not self.fault_between(purged_us, now_us)):
            self.broken(f"P5/P6: {holder} got a message after its queue was emptied: "
                        f"{copy.describe()}")  # fmt: skip
        if not copy.deliveries:
            if redelivered and self.faultless and not self._vanished:
                self.broken(f"P3: {holder} got a first delivery as redelivered: {copy.describe()}")
            elif redelivered and copy.queue.name in self.untouched:
                self.broken(f"P3: {holder} got as redelivered what nobody saw: {copy.describe()}")
            return
        last = copy.deliveries[-1]
        if not redelivered:
            self.broken(f"P3: {holder} got a repeat that is not marked: {copy.describe()}")
        sure = copy.acked_us is not None and not copy.twice
        if sure and not self.fault_between(last.at_us, now_us):
            if copy.repeats >= self._repeats_of(copy):
                self.broken(f"P3: {holder} got an acknowledged message: {copy.describe()}")
            copy.repeats += 1
        if copy.holder is not None and not self._may_lose(copy, copy.holder):
            self.broken(f"P2: {holder} got what {copy.holder} still holds: {copy.describe()}")

    def _may_lose(self, copy: Copy, holder: str) -> bool:
        """Whether what the connection holds may be given to another one meanwhile."""
        if self.only_kills and not self._from_disk(copy.queue):
            return not self._alive.get(holder, lambda: True)() or self._went_early(copy)
        return self.fault_between(copy.deliveries[-1].at_us, self.world.now_us)

    def _went_early(self, copy: Copy) -> bool:
        """Whether it was handed out before it was confirmed, by a primary that may have died since.

        Then it is sent again by the node where it entered, and is another message to the next
        primary (docs/PROMISES.md, Repeats). What was on its way from the dead one may come to its
        client after the next one has confirmed the other.
        """
        confirmed_us, sent_us = copy.attempt.confirmed_us, copy.attempt.sent_us
        seen_us = copy.deliveries[-1].at_us
        early = confirmed_us is None or confirmed_us > seen_us
        until_us = self.world.now_us if early or confirmed_us is None else confirmed_us
        since_us = sent_us if early else max(sent_us, seen_us - ON_THE_WAY_US)
        return any(since_us <= at_us <= until_us for at_us in self.crashes_us)

    def _from_disk(self, queue: Queue) -> bool:
        """Whether a fragment may have begun anew from a disk.

        That does not know every publish that was taken: publishes sent to it again may be there
        twice, marked redelivered.
        """
        return self.memory_lost or self.copies_lost or queue.replicas < 2

    def _repeats_of(self, copy: Copy) -> int:
        """How often that publish may have been sent again to a fragment that began from a disk.

        As often as a process went before it was confirmed (docs/PROMISES.md, Repeats).
        """
        if not self._from_disk(copy.queue):
            return 0
        confirmed_us = copy.attempt.confirmed_us
        until_us = self.world.now_us if confirmed_us is None else confirmed_us
        return self.crashes_between(copy.attempt.sent_us, until_us)

    def _check_order(self, copy: Copy, holder: str, consumer: str, redelivered: bool) -> None:
        if redelivered or copy.deliveries:
            return
        key = (holder, consumer, copy.attempt.source, copy.queue.name)
        last = self._last_seen.get(key, 0)
        if copy.attempt.number < last:
            self.broken(f"P4: {holder} got message {last} first: {copy.describe()}")
        self._last_seen[key] = copy.attempt.number

    def acked(self, copy: Copy, holder: str) -> None:
        """The client sent an acknowledgement, or a reject without requeue."""
        if self._release(copy, holder) or copy.twice:
            copy.acked_us = self.world.now_us

    def requeued(self, copy: Copy, holder: str) -> None:
        """The client gave it back."""
        self._release(copy, holder)

    def gone(self, holder: str, vanished: bool = True) -> None:
        """The connection is gone: what it held returns to its queues."""
        self._vanished = self._vanished or vanished
        for on_gone in self.on_gone:
            on_gone(holder)
        for copy in self._held.pop(holder, {}).values():
            if copy.holder == holder:
                copy.holder = None

    def _release(self, copy: Copy, holder: str) -> bool:
        self._held.get(holder, {}).pop((copy.queue.name, copy.attempt.number), None)
        if copy.holder != holder:
            return False
        copy.holder = None
        return True

    def set_aside(self, name: str, body: bytes) -> None:
        """A node says that a message is in quarantine: nobody gets it any more."""
        if body.startswith(b'{"fedq_trace"'):
            # The nodes sent it themselves, and nobody waits for it.
            return
        queue = self.queues.get(name)
        copy = queue.copies.get(int(body.split(b":", 1)[0])) if queue is not None else None
        if copy is None:
            self.broken(f"{name} has a message in quarantine that nobody sent: {body[:40]!r}")
            return
        copy.aside = True

    # --- the whole queue -------------------------------------------------------------------------

    def surely_ready(self, name: str, since_us: int) -> list[Copy]:
        """Copies confirmed before `since_us` that no client has ever seen (P5)."""
        return [
            copy
            for copy in self.queues[name].copies.values()
            if self.must_survive(copy)
            and copy.attempt.confirmed_us is not None
            and copy.attempt.confirmed_us < since_us
            and not copy.deliveries
        ]

    def purge_asked(self, name: str) -> list[Copy]:
        """What a purge that is asked for now must take: confirmed, and with nobody."""
        return [
            copy
            for copy in self.queues[name].copies.values()
            if copy.attempt.confirmed_us is not None and copy.holder is None and not copy.dropped
        ]

    def purged(self, copies: Sequence[Copy]) -> None:
        """purge-ok was received for what `purge_asked` listed."""
        for copy in copies:
            if copy.holder is None:
                copy.optional = True
                copy.purged_us = self.world.now_us

    def must_survive(self, copy: Copy) -> bool:
        """Whether P1 promises that this copy, once confirmed, is still somewhere."""
        queue, attempt = copy.queue, copy.attempt
        if copy.optional or copy.dropped or attempt.confirmed_us is None or queue.private:
            return False
        if copy.aside:
            return False
        if attempt.returned:
            return False
        if queue.durable and attempt.persistent:
            # Of a single copy, an older directory has what was in it then.
            return queue.replicas > 1 or not self.restored
        if self.memory_lost or self.copies_lost:
            return False
        if queue.spares and not attempt.persistent:
            return not self.struck(attempt.sent_us, self.world.now_us) and self._was_calm(copy)
        return queue.replicas > 1 or self.faultless

    def _was_calm(self, copy: Copy) -> bool:
        """Whether nothing has been wrong, nor left to be settled, since it was sent."""
        return not self.fault_between(copy.attempt.sent_us, self.world.now_us)

    def remaining(self, name: str) -> tuple[int, int]:
        """(fewest, most) messages that the queue may hold at rest."""
        copies = list(self.queues[name].copies.values())
        least = sum(self.must_survive(copy) and copy.acked_us is None for copy in copies)
        if self.faultless:
            most = sum(
                copy.acked_us is None and not copy.dropped and not copy.optional for copy in copies
            )
        else:
            # An acknowledgement may have been lost with the node that had it.
            again = self._from_disk(self.queues[name])
            most = sum(
                1 + max(again, self._repeats_of(copy)) for copy in copies if not copy.dropped
            )
        return least, most

    def finish(self) -> None:
        """At the end, when everything was drained: P1 and conservation."""
        for queue in self.queues.values():
            for copy in queue.copies.values():
                if self.must_survive(copy) and not copy.deliveries:
                    self.broken(f"P1: confirmed and lost: {copy.describe()}")
